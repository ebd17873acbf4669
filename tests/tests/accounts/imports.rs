//! Many users at once: what a file says and what it leaves open, there and back again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use stentor_auth::credential::Token;
use stentor_tests::server;

use crate::place::Place;

/// The same for both.
fn check(test: fn(&Place)) {
    test(&Place::running());
    test(&Place::stopped());
}

/// What there is to see of a user.
#[track_caller]
fn shown(place: &Place, name: &str) -> (Value, Value, Vec<String>) {
    let user = place.json(&["user", "show", name]);
    let credentials = user["credentials"].as_array().expect("a list");
    let kinds = credentials
        .iter()
        .filter_map(|one| one["kind"].as_str())
        .map(str::to_owned);
    let mut kinds: Vec<String> = kinds.collect();
    kinds.sort();
    (user["roles"].clone(), user["disabled"].clone(), kinds)
}

#[test]
fn what_a_file_does_not_say_is_kept() {
    check(|place| {
        place.run(&["role", "add", "op"]).success();
        place.add("ann", &["op"]);
        place.run(&["token", "create", "ann"]).success();
        place.run(&["user", "disable", "ann"]).success();
        let import = |name: &str, text: &str| {
            let file = place.file(name, text);
            place.run(&["user", "import", &file, "--replace"]).success();
            shown(place, "ann")
        };
        let hash = server::hash_password("new");
        let (op, member, none) = (json!(["op"]), json!(["member"]), json!([]));
        let both = ["argon2id", "token"].map(str::to_owned).to_vec();
        for (name, text, roles, disabled) in [
            ("a.csv", "name\nann\n", &op, true),
            ("a.csv", "name,password\nann,x\n", &op, true),
            ("a.csv", "name,password,roles,disabled\nann,,,\n", &op, true),
            (
                "a.csv",
                &format!("name,credential\nann,\"{hash}\"\n"),
                &op,
                true,
            ),
            ("a.csv", "name,roles\nann,-\n", &none, true),
            ("a.csv", "name,disabled\nann,false\n", &none, false),
            ("a.csv", "name,roles\nann,member\n", &member, false),
            ("a.json", r#"[{"name":"ann","roles":["op"]}]"#, &op, false),
            ("a.json", r#"[{"name":"ann","password":"y"}]"#, &op, false),
            (
                "a.json",
                r#"[{"name":"ann","roles":null,"disabled":true}]"#,
                &op,
                true,
            ),
            ("a.json", r#"[{"name":"ann","roles":[]}]"#, &none, true),
        ] {
            let now = import(name, text);
            assert_eq!(
                now,
                (roles.clone(), json!(disabled), both.clone()),
                "{text}"
            );
        }
        let (.., kinds) = import("a.json", r#"[{"name":"ann","credentials":[]}]"#);
        assert!(kinds.is_empty());
        // Nobody has anything yet who is new.
        place.run(&["user", "delete", "ann"]).success();
        assert_eq!(
            import("a.csv", "name\nann\n"),
            (member, json!(false), Vec::new())
        );
    });
}

#[test]
fn what_is_exported_comes_back_as_it_was() {
    check(|place| {
        for role in ["op", "two words", "no\u{a0}break", "-"] {
            place.run(&["role", "add", role]).success();
        }
        place.run(&["zone", "add", "game"]).success();
        place.add("ann", &["op", "two words", "no\u{a0}break"]);
        place.add("game/bob", &["-"]);
        place.add("cid, \"the\"", &[]);
        place.run(&["user", "disable", "game/bob"]).success();
        place.run(&["revoke", "cid, \"the\"", "member"]).success();
        let users = ["ann", "game/bob", "cid, \"the\""];
        for form in ["csv", "json"] {
            let export = || place.run(&["user", "export", "--format", form]).success();
            let before = export();
            let file = place.file(&format!("users.{form}"), &before);
            for user in users {
                place.run(&["user", "delete", user]).success();
            }
            // Once where they are gone, and once in their own place.
            if place.server.is_none() {
                place.run(&["user", "import", &file]).success();
                assert_eq!(export(), before);
            }
            place.run(&["user", "import", &file, "--replace"]).success();
            assert_eq!(export(), before);
        }
    });
}

/// What a query without a result writes is no mistake, but it is told.
#[test]
fn a_file_without_users_says_so() {
    check(|place| {
        for (name, text, told) in [
            (
                "none.csv",
                "name,password\n",
                "no rows below the names of its columns",
            ),
            (
                "none.csv",
                "name,password\n\n",
                "no rows below the names of its columns",
            ),
            ("none.json", "[]", "its list is empty"),
        ] {
            let file = place.file(name, text);
            let said = place.run(&["user", "import", &file]).success();
            assert!(said.contains(told), "{said}");
            assert!(said.contains("no user is imported"), "{said}");
            assert_eq!(place.json(&["user", "import", &file])["imported"], 0);
        }
    });
}

/// More users than one order carries, of whom the last one is wrong.
#[test]
fn zones_and_roles_that_are_none_are_told_before_anybody_is_imported() {
    check(|place| {
        let total = || place.json(&["user", "list", "--limit", "1"])["total"].clone();
        let before = i32::from(place.server.is_some());
        let many: String = (0..1_000).map(|n| format!("u{n:04},,\n")).collect();
        for (last, told) in [
            ("last,,nowhere", "there is no role \"nowhere\""),
            ("last,nowhere,", "there is no zone \"nowhere\""),
        ] {
            let file = place.file("users.csv", &format!("name,zone,roles\n{many}{last}\n"));
            for more in [&[][..], &["--replace"]] {
                let refusal = place
                    .run(&[&["user", "import", &file], more].concat())
                    .refusal();
                assert!(refusal.contains(told), "{refusal}");
                assert!(refusal.contains("line 1002"), "{refusal}");
                assert_eq!(total(), before, "nobody is imported");
            }
        }
    });
}

/// What a password will become counts before it is hashed, beside the tokens that stay.
#[test]
fn too_many_credentials_are_told_before_anybody_is_imported() {
    check(|place| {
        let token = || Token::generate().expect("a token can be made");
        let tokens: Vec<Value> = (0..62)
            .map(|_| json!({ "text": token().hash().to_string() }))
            .collect();
        let all = json!([{ "name": "ann", "credentials": tokens }]).to_string();
        let file = place.file("ann.json", &all);
        place.run(&["user", "import", &file]).success();
        let many: String = (0..1_000).map(|n| format!("u{n:04},x\n")).collect();
        let file = place.file("users.csv", &format!("name,password\n{many}ann,hush\n"));
        let import = ["user", "import", &file, "--replace", "--scram"];
        let refusal = place.run(&import).refusal();
        for part in ["at most 64 credentials", "line 1002"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        let (.., kinds) = shown(place, "ann");
        assert_eq!(kinds.len(), 62);
        assert!(!place.run(&["user", "list"]).success().contains("u0000"));
        // Without the secrets of SCRAM there is room.
        let file = place.file("users.csv", "name,password\nann,hush\n");
        place.run(&["user", "import", &file, "--replace"]).success();
        assert_eq!(shown(place, "ann").2.len(), 63);
    });
}

/// What a server answers that is older than a verb, or than a part of what it carries.
#[test]
fn an_older_server_is_told_with_both_versions() {
    for (code, error) in [
        (
            "bad-request",
            "unknown variant `user.list`, expected one of",
        ),
        (
            "bad-request",
            "unknown field `keeps_tokens`, expected `zone`",
        ),
        ("unknown-verb", "there is no verb \"user.list\""),
    ] {
        let place = Place::stopped();
        fs::create_dir(place.data_dir()).expect("a folder can be made");
        let socket = place.data_dir().join("control.sock");
        let listener = UnixListener::bind(socket).expect("a socket can be made");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the command comes");
            let lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
            for line in lines.map_while(Result::ok) {
                let answer = match line.contains("\"status\"") {
                    true => json!({ "v": 1, "ok": { "version": "0.0.9" } }),
                    false => json!({ "v": 1, "error": error, "code": code }),
                };
                writeln!(stream, "{answer}").expect("the command listens");
            }
        });
        let file = place.file("users.csv", "name,password\nann,hush\n");
        let refusal = place.run(&["user", "import", &file]).refusal();
        let own = format!("(stentor {})", env!("CARGO_PKG_VERSION"));
        for part in ["(stentor 0.0.9)", &own, "user.list", "restart the server"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        assert!(!refusal.contains("unknown"), "{refusal}");
        server.join().expect("the server was asked as expected");
    }
}

/// More users than one order carries.
#[test]
fn an_import_that_was_cut_short_is_finished_by_the_same_one() {
    check(|place| {
        let hash = server::hash_password("x");
        let lines = |range: std::ops::Range<u32>| {
            let lines = range.map(|n| format!("u{n:04},\"{hash}\"\n"));
            format!("name,credential\n{}", lines.collect::<String>())
        };
        let total = || place.json(&["user", "list", "--limit", "1"])["total"].clone();
        let none = match place.server.as_ref() {
            Some(_) => 1,
            None => 0,
        };
        let part = place.file("part.csv", &lines(900..1_000));
        let all = place.file("all.csv", &lines(0..1_200));
        assert_eq!(place.json(&["user", "import", &part])["imported"], 100);
        let refusal = place.run(&["user", "import", &all]).refusal();
        for told in ["line 902, user \"u0900\"", "100 of the 1200", "--replace"] {
            assert!(refusal.contains(told), "{refusal}");
        }
        assert_eq!(total(), 100 + none, "nothing is imported");
        let done = place.json(&["user", "import", &all, "--replace"]);
        assert_eq!(done["imported"], 1_200);
        assert_eq!(total(), 1_200 + none);
        // A mistake at the end is found before anybody is imported.
        let bad = place.file("bad.csv", &(lines(2_000..3_000) + "last,hush\n"));
        let refusal = place.run(&["user", "import", &bad]).refusal();
        assert!(refusal.contains("line 1002"), "{refusal}");
        assert_eq!(total(), 1_200 + none);
    });
}
