//! What the commands do and refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{DEADLINE, process, server};

use crate::place::Place;

/// The same for both.
fn check(test: fn(&Place)) {
    test(&Place::running());
    test(&Place::stopped());
}

#[test]
fn a_user_is_added_changed_and_deleted() {
    check(|place| {
        let password = place.file("password", "correct horse\n");
        let ann = place.json(&["user", "add", "ann", "--password-file", &password]);
        assert_eq!(
            (&ann["login"], &ann["roles"]),
            (&json!("ann"), &json!(["member"]))
        );
        assert_eq!(ann["credentials"][0]["kind"], "argon2id");
        let refusal = place
            .run(&["user", "add", "ann", "--password-file", &password])
            .refusal();
        assert!(refusal.contains("set-password"), "{refusal}");
        place.run(&["user", "disable", "ann"]).success();
        assert_eq!(place.json(&["user", "show", "ann"])["disabled"], true);
        place.run(&["user", "enable", "ann"]).success();
        place
            .run(&["user", "set-password", "ann", "--password-file", &password])
            .success();
        let list = place.run(&["user", "list"]).success();
        assert!(list.contains("ann") && !list.contains("$argon2"), "{list}");
        place.run(&["user", "delete", "ann"]).success();
        let refusal = place.run(&["user", "show", "ann"]).refusal();
        assert!(refusal.contains("no user ann"), "{refusal}");
    });
}

#[test]
fn names_and_passwords_that_do_not_fit_are_refused() {
    check(|place| {
        let password = place.file("password", "x\n");
        let empty = place.file("empty", "\n");
        let long = "x".repeat(256);
        for (name, file, reason) in [
            ("a+b", &password, "mean something in topics"),
            ("game/ann", &password, "no zone \"game\""),
            (long.as_str(), &password, "at most 255 bytes"),
            ("", &password, "at least one character"),
            ("ann", &empty, "the password is empty"),
            (
                "ann",
                &"/nonexistent".to_owned(),
                "cannot read /nonexistent",
            ),
        ] {
            let refusal = place
                .run(&["user", "add", name, "--password-file", file])
                .refusal();
            assert!(refusal.contains(reason), "{name}: {refusal}");
        }
        let plain = place.file("plain", "secret\n");
        let refusal = place
            .run(&["user", "add", "ann", "--credential-file", &plain])
            .refusal();
        assert!(
            refusal.contains("unknown kind of credential") && !refusal.contains("secret"),
            "{refusal}"
        );
    });
}

/// Scripts do not wait for each other.
#[test]
fn commands_wait_for_each_other_while_no_server_runs() {
    let place = Place::stopped();
    let names = ["a", "b", "c", "d", "e", "f"];
    let children = names.map(|name| {
        let mut command = server::stentor();
        command.args(["user", "add", name, "--no-password"]);
        process::start(command.arg("--data-dir").arg(place.data_dir()))
    });
    for child in children {
        process::finish(child, DEADLINE).success();
    }
    assert_eq!(place.json(&["user", "list"])["total"], names.len());
}

/// Nobody types a password twice to read then that it was for nothing.
#[test]
fn a_configuration_that_is_not_there_is_told_before_a_password_is_asked_for() {
    let place = Place::stopped();
    let none = place.folder.path().join("none.toml");
    let none = none.to_str().expect("ASCII");
    for verb in ["add", "set-password"] {
        let told = place.run(&["user", verb, "ann", "--config", none]);
        assert_eq!(told.status.code(), Some(78), "{told}");
        let refusal = told.refusal();
        assert!(refusal.contains("none.toml"), "{refusal}");
        assert!(!refusal.contains("password"), "{refusal}");
    }
}

/// What a server would log is not lost on whoever runs a command.
#[test]
fn a_command_tells_what_a_server_would_log() {
    let place = Place::stopped();
    place
        .run(&["user", "add", "ann", "--no-password"])
        .success();
    let log = place.data_dir().join("audit.log");
    fs::remove_file(&log).expect("there is an audit log");
    fs::create_dir(&log).expect("a folder can be made");
    let told = place.run(&["user", "add", "bob", "--no-password"]);
    assert!(
        told.stderr.contains("audit log cannot be written"),
        "{told}"
    );
    told.success();
}

#[test]
fn users_are_imported_and_exported() {
    check(|place| {
        let csv = place.file("users.csv", "name,password\nann,a\nbob,\"b,b\"\n");
        assert_eq!(place.json(&["user", "import", &csv])["imported"], 2);
        let refusal = place.run(&["user", "import", &csv]).refusal();
        assert!(refusal.contains("already"), "{refusal}");
        place.run(&["user", "import", &csv, "--replace"]).success();
        let exported = place.folder.path().join("out.json");
        let out = exported.to_str().expect("ASCII");
        place
            .run(&["user", "export", "--format", "json", "--output", out])
            .success();
        assert_eq!(mode(&exported), 0o600);
        let text = fs::read_to_string(&exported).expect("the export is there");
        let users: Value = serde_json::from_str(&text).expect("JSON");
        let names: Vec<&Value> = users
            .as_array()
            .expect("a list")
            .iter()
            .map(|u| &u["name"])
            .collect();
        assert!(
            names.contains(&&json!("ann")) && names.contains(&&json!("bob")),
            "{names:?}"
        );
        place.run(&["user", "delete", "ann"]).success();
        place.run(&["user", "import", out, "--replace"]).success();
        assert_eq!(
            place.json(&["user", "show", "ann"])["credentials"][0]["kind"],
            "argon2id"
        );
        let broken = place.file("broken.csv", "name,password\nann\n");
        let refusal = place.run(&["user", "import", &broken]).refusal();
        assert!(refusal.contains("line 2"), "{refusal}");
    });
}

#[test]
fn roles_and_grants_are_checked() {
    check(|place| {
        place
            .run(&["user", "add", "ann", "--no-password"])
            .success();
        let role = place.json(&["role", "add", "op", "--rule", "allow both op/{user}/#"]);
        assert_eq!(role["rules"], json!(["allow both op/{user}/#"]));
        let refusal = place
            .run(&["role", "add", "bad", "--rule", "allow both a#"])
            .refusal();
        assert!(refusal.contains("not a topic filter"), "{refusal}");
        let user = place.json(&["grant", "ann", "op"]);
        assert_eq!(user["roles"], json!(["member", "op"]));
        let refusal = place.run(&["grant", "ann", "boss"]).refusal();
        assert!(refusal.contains("no role \"boss\""), "{refusal}");
        assert_eq!(
            place.json(&["revoke", "ann", "member"])["roles"],
            json!(["op"])
        );
        let change = [
            "role",
            "change",
            "op",
            "--add",
            "deny publish op/x",
            "--subscriptions",
            "9",
        ];
        let role = place.json(&change);
        assert_eq!(
            (role["rules"].as_array().map(Vec::len), &role["quotas"]),
            (Some(2), &json!({ "subscriptions": 9 }))
        );
        let shown = place.run(&["role", "show", "member"]).success();
        assert!(shown.contains("allow both #"), "{shown}");
        place.run(&["role", "delete", "op", "--force"]).success();
        assert!(!place.run(&["role", "list"]).success().contains("op "));
    });
}

/// A name that stays with users would give them what is added under it later.
#[test]
fn a_role_that_somebody_has_is_deleted_by_force_only() {
    check(|place| {
        for role in ["op", "other"] {
            place
                .run(&["role", "add", role, "--rule", "allow both op/#"])
                .success();
        }
        for user in ["ann", "bob"] {
            let add = ["user", "add", user, "--no-password", "--role", "op"];
            place.run(&add).success();
        }
        place.run(&["grant", "bob", "other"]).success();
        let refusal = place.run(&["role", "delete", "op"]).refusal();
        assert!(refusal.contains("ann, bob"), "{refusal}");
        assert!(refusal.contains("--force"), "{refusal}");
        place.run(&["role", "show", "op"]).success();
        place.run(&["role", "delete", "op", "--force"]).success();
        assert_eq!(place.json(&["user", "show", "ann"])["roles"], json!([]));
        assert_eq!(
            place.json(&["user", "show", "bob"])["roles"],
            json!(["other"])
        );
        place
            .run(&["role", "add", "op", "--rule", "allow both #"])
            .success();
        let test = ["user", "test", "ann", "publish", "op/x"];
        assert_eq!(place.run(&test).status.code(), Some(1));
        // A zone's own role leaves its users the one for all zones.
        place.run(&["zone", "add", "game"]).success();
        let own = ["role", "add", "member", "--zone", "game"];
        place.run(&own).success();
        place
            .run(&["user", "add", "game/cat", "--no-password"])
            .success();
        let delete = ["role", "delete", "member"];
        place
            .run(&[&delete[..], &["--zone", "game"]].concat())
            .success();
        let test = ["user", "test", "game/cat", "publish", "x"];
        assert_eq!(place.run(&test).status.code(), Some(0));
        let refusal = place.run(&delete).refusal();
        assert!(refusal.contains("game/cat"), "{refusal}");
    });
}

#[test]
fn a_question_has_three_ways_to_end() {
    check(|place| {
        place
            .run(&["user", "add", "ann", "--no-password"])
            .success();
        for (args, code) in [
            (&["ann", "publish", "a/b"][..], 0),
            (&["ann", "subscribe", "#"], 0),
            (&["ann", "publish", "$SYS/x"], 1),
            (&["ann", "write", "a"], 2),
            (&["bob", "publish", "a"], 3),
            (&["ann", "publish", "a/#"], 3),
        ] {
            let args = [&["user", "test"], args].concat();
            let ended = place.run(&args);
            assert_eq!(ended.status.code(), Some(code), "{args:?} {ended}");
            assert_eq!(ended.stderr.is_empty(), code < 2, "{args:?} {ended}");
        }
    });
    let place = Place::stopped();
    let ended = place.run(&["user", "test", "ann", "publish", "a"]);
    assert_eq!(ended.status.code(), Some(3), "{ended}");
    let place = Place::stopped();
    let config = place.file("stentor.toml", "nonsense = 1\n");
    let ended = place.run(&["user", "test", "ann", "publish", "a", "--config", &config]);
    assert_eq!(ended.status.code(), Some(78), "{ended}");
}

/// What would be refused is answered with no.
#[test]
fn a_question_is_answered_as_the_server_decides_it() {
    let test = |place: &Place, code: i32| {
        let role = ["role", "add", "r", "--rule", "allow both a/b"];
        place.run(&role).success();
        let add = ["user", "add", "ann", "--no-password", "--role", "r"];
        place.run(&add).success();
        for (filter, code) in [("a/b", 0), ("a/+", code), ("b/+", 1)] {
            let ended = place.run(&["user", "test", "ann", "subscribe", filter]);
            assert_eq!(ended.status.code(), Some(code), "{filter}: {ended}");
            assert_eq!(
                ended.stdout.contains("strict"),
                code == 1 && filter == "a/+"
            );
        }
    };
    test(&Place::with(""), 0);
    test(&Place::with("[auth]\nsubscribe = \"strict\"\n"), 1);
    let place = Place::with("");
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsubscribe = \"strict\"\n";
    place.server().reconfigure(config);
    place.run(&["reload"]).success();
    test(&place, 1);
}

#[test]
fn a_password_that_is_none_is_explained() {
    let place = Place::stopped();
    // Nobody is there to be asked.
    for args in [
        &["user", "add", "ann"][..],
        &["user", "set-password", "ann"],
    ] {
        let refusal = place.run(args).refusal();
        assert!(refusal.contains("--password-file FILE"), "{refusal}");
    }
    let file = place.folder.path().join("latin1");
    fs::write(&file, b"h\xfcsh\n").expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let add = ["user", "add", "ann", "--password-file", file];
    let refusal = place.run(&add).refusal();
    assert!(refusal.contains("it is not valid UTF-8"), "{refusal}");
    place.run(&["user", "show", "ann"]).refusal();
}

#[test]
fn programs_are_told_in_json_what_is_wrong() {
    check(|place| {
        place
            .run(&["user", "add", "there", "--no-password"])
            .success();
        for (args, code, reason) in [
            (&["user", "show", "nobody"][..], 1, "no user nobody"),
            (
                &["user", "test", "nobody", "publish", "a"],
                3,
                "no user nobody",
            ),
            (&["role", "add", "member"], 1, "--replace"),
            (&["user", "lst"], 2, "'lst'"),
            (&["user", "show"], 2, "<NAME>"),
            (&["user", "list", "--limit", "many"], 2, "many"),
            (&["zone", "add", "z", "--connections", "-1"], 2, "-1"),
        ] {
            let ended = place.run(&[args, &["--json"]].concat());
            assert_eq!(ended.status.code(), Some(code), "{ended}");
            let told: Value = serde_json::from_str(&ended.stderr).expect("JSON");
            let error = told["error"].as_str().expect("a sentence");
            assert!(error.contains(reason), "{error}");
            assert_eq!(told["exit_code"], code);
        }
    });
}

#[test]
fn a_role_from_the_start_is_not_deleted_without_a_word() {
    check(|place| {
        place
            .run(&["user", "add", "boss", "--no-password", "--role", "admin"])
            .success();
        place.run(&["role", "delete", "admin"]).refusal();
        let told = place.run(&["role", "delete", "admin", "--force"]).success();
        assert!(
            told.contains("taken from users") && told.contains("role add admin --rule"),
            "{told}"
        );
        let all = ["--rule", "allow both #", "--rule", "allow both $#"];
        place
            .run(&[&["role", "add", "admin"][..], &all].concat())
            .success();
        place.run(&["grant", "boss", "admin"]).success();
        place.run(&["role", "delete", "anonymous"]).success();
    });
}

/// Where it stands in the file, and never what the password is.
#[test]
fn an_import_that_is_wrong_names_its_line() {
    check(|place| {
        place
            .run(&["user", "add", "there", "--no-password"])
            .success();
        let long = format!("name,password\nann,{}\n", "hush".repeat(300));
        for (text, reason) in [
            ("name,password\nann,x\nbob,hush,1\n", "line 3, user \"bob\""),
            ("name,password\nann,x\n\na/b/c,hush\n", "line 4"),
            ("name,password\nann,x\na+b,hush\n", "line 3"),
            ("name,password\nann,x\n,hush\n", "line 3"),
            ("name,password\nann,x\nann,hush\n", "line 3, user \"ann\""),
            ("name,password,roles\nann,hush,boss\n", "line 2"),
            ("name,password\nann,x\ngame/ann,hush\n", "line 3"),
            ("name,password\nann,x\nthere,hush\n", "line 3"),
            (&long, "line 2, user \"ann\": a password has at most"),
            ("hush,ann\n", "line 1"),
        ] {
            let file = place.file("users.csv", text);
            let refusal = place.run(&["user", "import", &file]).refusal();
            assert!(refusal.contains(reason), "{text:.60}: {refusal}");
            assert!(!refusal.contains("hush"), "{refusal}");
            let users = place.run(&["user", "list"]).success();
            assert!(!users.contains("ann"), "all or nothing: {users}");
        }
        let json = place.file("users.json", r#"[{"name":"ann","roles":"hush"}]"#);
        let refusal = place.run(&["user", "import", &json]).refusal();
        assert!(refusal.contains("entry 1"), "{refusal}");
        assert!(!refusal.contains("hush"), "{refusal}");
    });
}

#[test]
fn a_file_that_never_ends_is_refused() {
    let place = Place::stopped();
    for args in [
        &["user", "add", "ann", "--password-file", "/dev/zero"][..],
        &["user", "add", "ann", "--credential-file", "/dev/zero"],
    ] {
        let refusal = place.run(args).refusal();
        assert!(refusal.contains("more than 64 KiB"), "{refusal}");
    }
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" < /dev/zero"]);
    command.arg(server::binary());
    command.args(["user", "add", "ann", "--password-file", "-", "--data-dir"]);
    let refusal = process::run(command.arg(place.data_dir())).refusal();
    assert!(refusal.contains("more than 64 KiB"), "{refusal}");
}

#[test]
fn a_rule_with_a_slip_of_the_pen_is_refused() {
    check(|place| {
        for rule in ["deny both {user", "deny both x/{usr}/#", "deny both user}"] {
            let refusal = place.run(&["role", "add", "r", "--rule", rule]).refusal();
            assert!(refusal.contains("{user}, {client} and {zone}"), "{refusal}");
            let change = ["role", "change", "member", "--add", rule];
            place.run(&change).refusal();
        }
    });
}

#[test]
fn tokens_are_shown_once() {
    check(|place| {
        place
            .run(&["user", "add", "cam", "--no-password"])
            .success();
        let made = place.json(&["token", "create", "cam", "--label", "door", "--days", "30"]);
        let token = made["token"].as_str().expect("the token is shown");
        assert!(token.len() > 40);
        let list = place.run(&["token", "list", "cam"]).success();
        assert!(list.contains("door") && !list.contains(token), "{list}");
        let id = made["id"].as_str().expect("it has an id");
        place
            .run(&["user", "add", "dan", "--no-password"])
            .success();
        place.run(&["token", "create", "dan"]).success();
        let all = place.run(&["token", "list"]).success();
        let of_cam = format!("cam   {id}");
        assert!(
            all.starts_with("USER  TOKEN") && all.contains(&of_cam),
            "{all}"
        );
        assert!(all.contains("\ndan "), "{all}");
        let all = place.json(&["token", "list"]);
        let users = all["tokens"].as_array().expect("a list").iter();
        let users: Vec<&Value> = users.map(|token| &token["user"]).collect();
        assert_eq!(users, ["cam", "dan"], "{all}");
        place.run(&["token", "revoke", "cam", id]).success();
        assert!(
            place
                .run(&["token", "revoke", "cam", id])
                .refusal()
                .contains("no token")
        );
    });
}

#[test]
fn zones_hold_users_of_their_own() {
    check(|place| {
        place
            .run(&["zone", "add", "game", "--connections", "100"])
            .success();
        place
            .run(&["user", "add", "game/ann", "--no-password"])
            .success();
        place
            .run(&["user", "add", "ann", "--no-password"])
            .success();
        let list = place.json(&["user", "list", "--zone", "game"]);
        assert_eq!(list["users"].as_array().map(Vec::len), Some(1));
        assert!(
            place
                .run(&["zone", "remove", "game"])
                .refusal()
                .contains("1 user;")
        );
        place.run(&["user", "delete", "game/ann"]).success();
        place.run(&["zone", "remove", "game"]).success();
        let zones = place.json(&["zone", "list"]);
        assert_eq!(zones["zones"][0]["name"], "default");
    });
}

/// A zone with a slip of the pen is not taken for one without users.
#[test]
fn users_of_a_zone_that_is_none_are_no_empty_list() {
    check(|place| {
        place.run(&["zone", "add", "game"]).success();
        let out = place.folder.path().join("out.csv");
        let file = out.to_str().expect("plain names");
        for args in [
            &["user", "list"][..],
            &["user", "export"],
            &["user", "export", file],
        ] {
            let refusal = place.run(&[args, &["--zone", "gmae"]].concat()).refusal();
            assert!(refusal.contains("no zone \"gmae\""), "{refusal}");
            assert!(!out.exists());
        }
        for zone in ["game", "default"] {
            place.run(&["user", "list", "--zone", zone]).success();
            let csv = place.run(&["user", "export", "--zone", zone]).success();
            assert!(csv.starts_with("zone,name,"), "{csv}");
        }
    });
}

/// Some take it for nothing at all, others for no bound; a rate of 0 would let a first message
/// through.
#[test]
fn a_quota_of_0_is_refused_with_what_helps() {
    check(|place| {
        place.run(&["role", "add", "r"]).success();
        for quota in [
            "connections",
            "messages_per_sec",
            "bytes_per_sec",
            "subscriptions",
            "queued_bytes",
        ] {
            let flag = format!("--{}", quota.replace('_', "-"));
            for args in [["role", "add", "s"], ["role", "change", "r"]] {
                let refusal = place.run(&[&args[..], &[&flag, "0"]].concat()).refusal();
                let remedy = format!("--no-quota {quota}");
                assert!(refusal.contains(&remedy), "{refusal}");
            }
            let change = ["role", "change", "r", &flag, "1"];
            assert_eq!(place.json(&change)["quotas"][quota], 1);
        }
        place.run(&["role", "show", "s"]).refusal();
        let zone = ["zone", "add", "game", "--connections", "0"];
        let refusal = place.run(&zone).refusal();
        assert!(refusal.contains("stentor user disable"), "{refusal}");
        let zones = place.json(&["zone", "list"]);
        assert_eq!(zones["zones"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn the_first_start_makes_an_administrator() {
    let place = Place::running();
    let path = place.data_dir().join("admin-password");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&place.data_dir().join("auth.db")), 0o600);
    let password = fs::read_to_string(&path).expect("the password is there");
    let server = place.server.as_ref().expect("the server runs");
    eventually("the path is logged", || {
        server.log().contains("admin-password")
    });
    let log = server.log();
    assert!(!log.contains(password.trim()), "{log}");
    assert_eq!(
        place.json(&["user", "show", "admin"])["roles"],
        json!(["admin"])
    );
}

#[test]
fn every_change_is_in_the_audit_log() {
    check(|place| {
        let password = place.file("password", "correct horse\n");
        place
            .run(&["user", "add", "ann", "--password-file", &password])
            .success();
        place.run(&["grant", "ann", "admin"]).success();
        let path = place.data_dir().join("audit.log");
        assert_eq!(mode(&path), 0o600);
        let log = fs::read_to_string(path).expect("the log is there");
        let lines: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .filter(|line: &Value| line["target"] == "ann")
            .collect();
        let whats: Vec<&Value> = lines.iter().map(|line| &line["what"]).collect();
        assert_eq!(whats, ["user.add", "grant"]);
        assert!(
            lines[1]["who"]
                .as_str()
                .is_some_and(|who| who.starts_with("uid "))
        );
        assert!(
            !log.contains("correct horse") && !log.contains("$argon2"),
            "{log}"
        );
    });
}

#[test]
fn a_text_file_serves_as_database() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let users = folder.path().join("users.toml");
    let config = folder.path().join("stentor.toml");
    let text = format!(
        "data_dir = \"data\"\n[auth]\ndatabase = \"file:{}\"\n",
        users.display()
    );
    fs::write(&config, text).expect("a file can be written");
    let run = |args: &[&str]| {
        let mut command = server::stentor();
        command.args(args).arg("--config").arg(&config);
        process::run(&mut command)
    };
    run(&["user", "add", "ann", "--no-password"]).success();
    let text = fs::read_to_string(&users).expect("the file is there");
    assert!(text.contains("name = \"ann\""), "{text}");
    assert_eq!(mode(&users), 0o600);
    fs::write(&users, text.replace("ann", "bea")).expect("the file can be edited");
    assert!(run(&["user", "list"]).success().contains("bea"));
    fs::write(&users, "user = 5").expect("the file can be edited");
    let refusal = run(&["user", "list"]).refusal();
    assert!(refusal.contains("users.toml"), "{refusal}");
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o777
}

/// A path with a slip of the pen is not taken for a server without users.
#[test]
fn only_what_adds_something_makes_a_data_folder() {
    let place = Place::stopped();
    for args in [
        &["user", "list"][..],
        &["user", "show", "ann"],
        &["user", "delete", "ann"],
        &["user", "export"],
        &["role", "show", "member"],
        &["zone", "list"],
        &["token", "list", "ann"],
    ] {
        let refusal = place.run(args).refusal();
        assert!(refusal.contains("there is no data folder"), "{refusal}");
        assert!(refusal.contains("configuration by --config"), "{refusal}");
        assert!(!place.data_dir().exists(), "{args:?}");
    }
    place.run(&["zone", "add", "shop"]).success();
    assert!(place.data_dir().exists());
}

/// A database that was lost is not taken for one without users.
#[test]
fn only_what_adds_something_makes_a_database() {
    let place = Place::stopped();
    place.run(&["zone", "add", "shop"]).success();
    let path = place.data_dir().join("auth.db");
    fs::remove_file(&path).expect("the database is there");
    let looks = [
        &["user", "list"][..],
        &["user", "delete", "ann"],
        &["user", "export"],
        &["role", "show", "member"],
        &["role", "change", "member", "--add", "deny both x"],
        &["grant", "ann", "member"],
        &["zone", "list"],
        &["auth", "refresh"],
    ];
    for args in looks {
        let refusal = place.run(args).refusal();
        assert!(refusal.contains("no user database"), "{refusal}");
        assert!(refusal.contains("auth.db"), "{refusal}");
        assert!(!path.exists(), "{args:?}");
    }
    place.run(&["zone", "add", "shop"]).success();
    assert!(path.exists());
    // Where a server had one, nothing but a server makes another.
    let place = Place::running();
    let plan = place.server.expect("it runs").stop_for_restart();
    let path = plan.data_dir().join("auth.db");
    fs::remove_file(&path).expect("the database is there");
    // A copy that failed may leave an empty file.
    for is_empty in [false, true] {
        if is_empty {
            fs::write(&path, "").expect("the folder is there");
        }
        for args in looks.iter().chain([&["zone", "add", "shop"][..]].iter()) {
            let mut command = server::stentor();
            command.args(*args).arg("--data-dir").arg(plan.data_dir());
            let refusal = process::run(&mut command).refusal();
            assert!(refusal.contains("put it back"), "{refusal}");
            // Its users may have been in another database, which its configuration names.
            assert!(refusal.contains("by --config"), "{refusal}");
            let len = fs::metadata(&path).ok().map(|file| file.len());
            assert_eq!(len, is_empty.then_some(0), "{args:?}");
        }
    }
    plan.start();
}

#[test]
fn an_export_has_the_form_that_its_name_says() {
    let place = Place::stopped();
    place
        .run(&["user", "add", "ann", "--no-password"])
        .success();
    for (name, start) in [("users.csv", "zone,name,"), ("users.json", "[\n{")] {
        let path = place.folder.path().join(name);
        let shown = path.to_str().expect("ASCII");
        place.run(&["user", "export", shown]).success();
        let text = fs::read_to_string(&path).expect("the export is there");
        assert!(text.starts_with(start), "{text}");
    }
    let users = place.json(&["user", "export"]);
    assert_eq!(users[0]["name"], "ann");
}
