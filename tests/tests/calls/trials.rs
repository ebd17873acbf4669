//! `stentor procedure new | check | test`: procedures without a server.

use std::fs;

use stentor_tests::{Finished, process, server};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file can be written");
    }

    #[track_caller]
    fn run(&self, words: &str) -> Finished {
        let mut command = server::stentor();
        command.current_dir(self.0.path()).arg("procedure");
        process::run(command.args(words.split_whitespace()))
    }
}

#[test]
fn a_new_procedure_is_checked_and_asked_about_a_message() {
    let folder = Folder::new();
    let made = folder.run("new lotteries").success();
    assert_eq!(made, "./lotteries.luau\n./lotteries.eml\n");
    let refused = folder.run("new lotteries").refusal();
    for part in [
        "./lotteries.luau is there already",
        "`stentor procedure new lotteries-2`",
        "--dir",
    ] {
        assert!(refused.contains(part), "what is there stays: {refused}");
    }
    // One of the files is enough, and then none is written.
    folder.file("other.eml", "mine");
    let refused = folder.run("new other").refusal();
    assert!(refused.contains("./other.eml is there"), "{refused}");
    folder.run("check other.luau").refusal();
    let nowhere = folder.run("new lotteries --dir nowhere").refusal();
    assert!(nowhere.contains("there is no folder nowhere"), "{nowhere}");
    let checked = folder.run("check lotteries.luau").success();
    assert!(
        checked.contains("good: /lotteries, version 1.0"),
        "{checked}"
    );
    let asked = folder.run("test lotteries.luau lotteries.eml").success();
    assert_eq!(asked, "reject: 550 no lotteries, please\n");
    folder
        .run("test lotteries.luau lotteries.eml --expect reject")
        .success();
    let unexpected = folder
        .run("test lotteries.luau lotteries.eml --expect accept")
        .refusal();
    assert!(unexpected.contains("is reject, not accept"), "{unexpected}");
    folder.file("fine.eml", "Subject: Lunch?\n\nToday?\n");
    let json = folder.run("test lotteries.luau fine.eml --json").success();
    assert!(json.contains(r#""verdict":"accept""#), "{json}");
    assert!(
        folder
            .run("test lotteries.luau")
            .success()
            .starts_with("ok ")
    );
}

/// What is observed is told with its reason; a call of what is not there, with its name and line.
#[test]
fn an_observed_verdict_has_its_reason_and_a_typo_its_name() {
    let folder = Folder::new();
    let script = "--[[ procedure\nmode = \"observe\"\n]]\nreturn function(call)\n    \
                  if call.args.bad then return rejct('x') end\n    \
                  return reject('no thanks')\nend\n";
    folder.file("watch.luau", script);
    folder.file("m.eml", "Subject: a\n\nb\n");
    let told = folder.run("test watch.luau m.eml").success();
    assert_eq!(told, "accept: observed: reject: no thanks\n");
    let typo = "watch.luau:5: attempt to call a nil value: there is no `rejct`; did you mean \
                `reject`?";
    let told = folder.run("test watch.luau m.eml -a bad=1").success();
    assert_eq!(told, format!("accept: observed: tempfail: {typo}\n"));
    folder.file("watch.luau", &script.replace("observe", "enforce"));
    let told = folder.run("test watch.luau m.eml -a bad=1").refusal();
    assert!(told.contains(&format!("failed: {typo}")), "{told}");
}

#[test]
fn the_envelope_and_changes_are_told() {
    let folder = Folder::new();
    let text = r#"--[[ procedure
needs = "body"
grants = ["store"]
allow_users = ["mail/ann"]
]]
return function(call)
    store.add(call.from, 1)
    local seen = store.get(call.from) .. call.args.word .. call.caller
    call:add_header("X-Seen", seen)
    return accept()
end
"#;
    folder.file("seen.luau", text);
    folder.file("a.eml", "Subject: a\n\nb\n");
    let told = folder
        .run("test seen.luau a.eml --from x@y.example -a word=w")
        .success();
    assert!(
        told.starts_with("modified\n") && told.contains("X-Seen: 1wmail/ann"),
        "{told}"
    );
}

#[test]
fn mistakes_say_what_was_meant() {
    let folder = Folder::new();
    folder.file("a.eml", "Subject: a\n\nb\n");
    let manifest = |key: &str| {
        format!("--[[ procedure\n{key}\n]]\nreturn function(call) return accept() end\n")
    };
    for (key, told) in [
        (
            "need = \"body\"",
            "line 2: need = \"body\": there is no key `need`; did you mean `needs`?",
        ),
        ("acept = 1", "docs/procedures.md lists all keys"),
        (
            "adress = \"127.0.0.1:783\"",
            "there is no key `adress`; did you mean `server`?",
        ),
        (
            "grants = [\"stor\"]",
            "line 2: grants = [\"stor\"]: there is no \"stor\"; did you mean \"store\"? `grants`",
        ),
        (
            "concurrency = \"4\"",
            "line 2: concurrency = \"4\": it is a whole number from 1 to 64; this is a string",
        ),
        ("needs = \"bodies\"", "\"headers\" or \"body\""),
    ] {
        folder.file("wrong.luau", &manifest(key));
        let refused = folder.run("check wrong.luau").refusal();
        assert!(refused.contains(told), "{key}: {refused}");
        assert!(!refused.contains("max_body"), "not all keys: {refused}");
        assert!(
            !refused.contains("expected"),
            "no words of a parser: {refused}"
        );
    }
    for (line, grant) in [
        ("log(\"hello\")", "log"),
        ("store.set(\"a\", \"b\")", "store"),
        ("local a = dns.lookup(\"example.org\", \"A\")", "dns"),
    ] {
        folder.file(
            "wrong.luau",
            &format!("return function(call)\n  {line}\n  return accept()\nend\n"),
        );
        let refused = folder.run("test wrong.luau a.eml").refusal();
        assert!(refused.contains("wrong.luau:2: attempt to"), "{refused}");
        let told = format!("`{grant}` needs `grants = [\"{grant}\"]`");
        assert!(refused.contains(&told), "{refused}");
    }
    // A script that looks first whether it is there is not told of a grant.
    folder.file(
        "looks.luau",
        "return function(call) if log then log(1) end return accept() end\n",
    );
    folder
        .run("test looks.luau a.eml --expect accept")
        .success();
    let none = folder.run("check notes.txt").refusal();
    assert!(none.contains("NAME.luau"), "{none}");
}

#[test]
fn a_grant_that_is_missing_is_found_where_no_test_comes_to() {
    let folder = Folder::new();
    let script = |body: &str| {
        format!(
            "--[[ procedure\ngrants = [\"log\"]\n]]\nreturn function(call)\n{body}\nreturn accept()\nend\n"
        )
    };
    let rare = "if call.size > 1000000 then\nstore.add(call.args.name, 1)\nend";
    folder.file("rare.luau", &script(rare));
    let refused = folder.run("check rare.luau").refusal();
    for part in [
        "rare.luau:6: the script uses `store`, which is not granted",
        "put `grants = [\"store\", \"log\"]` into the manifest",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    // Whether a script that looks first, or that catches errors, needs it, only its author knows.
    let sure = [
        "if store then store.add('a', 1) end",
        "pcall(function() store.add('a', 1) end)",
    ];
    for body in sure {
        folder.file("sure.luau", &script(body));
        let told = folder.run("check sure.luau").success();
        assert!(told.contains("good: /sure"), "{told}");
        let warning = "warning: sure.luau:5: the script may use `store`";
        assert!(told.contains(warning), "{told}");
        let json = folder.run("check sure.luau --json").success();
        assert!(json.contains("may use `store`"), "{json}");
    }
    folder.file(
        "own.luau",
        &script("local store = {}\nstore.a = 1 log('a')"),
    );
    let told = folder.run("check own.luau").success();
    assert!(!told.contains("warning"), "{told}");
}

/// A procedure that clients serve is good without a server; that a client has to serve it is told.
#[test]
fn a_procedure_that_clients_serve_is_good_without_a_server() {
    let folder = Folder::new();
    folder.file("judge.toml", "kind = \"client\"\ndeadline = \"1s\"\n");
    folder.file("m.eml", "Subject: a\n\nb\n");
    let told = folder.run("check judge.toml").success();
    for part in ["good: /judge", "note: a client", "$serve/judge/+"] {
        assert!(told.contains(part), "{told}");
    }
    let told = folder.run("test judge.toml m.eml").refusal();
    assert!(told.contains("no connected client serves"), "{told}");
}

#[test]
fn a_need_that_is_not_said_is_found_where_no_test_comes_to() {
    let folder = Folder::new();
    let body = "if call.args.rare then return reject(call:header('a')) end";
    let script = format!("return function(call)\n{body}\nreturn accept()\nend\n");
    folder.file("rare.luau", &script);
    let refused = folder.run("check rare.luau").refusal();
    for part in [
        "rare.luau:2: the script uses `call:header`",
        "`needs = \"headers\"`",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let script = format!("--[[ procedure\nneeds = \"headers\"\n]]\n{script}");
    folder.file("rare.luau", &script);
    folder.run("check rare.luau").success();
}

/// What is shipped has the grants that it needs, as far as can be seen.
#[test]
fn shipped_procedures_are_good() {
    let folder = stentor_tests::tools::project().join("deploy/procedures");
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "luau") {
            let mut command = server::stentor();
            let told = process::run(command.args(["procedure", "check"]).arg(&path)).success();
            assert!(
                told.contains("good: /") && !told.contains("warning"),
                "{told}"
            );
        }
    }
}

/// A program that asked for JSON reads what went wrong as JSON too.
#[test]
fn a_test_that_fails_is_json_where_that_was_asked_for() {
    let refused = Folder::new().run("test nowhere.luau --json").refusal();
    let told: serde_json::Value = serde_json::from_str(refused.trim()).expect("it is JSON");
    assert_eq!(told["exit_code"], 1, "{refused}");
    assert!(
        told["error"]
            .as_str()
            .is_some_and(|it| it.contains("nowhere.luau"))
    );
}
