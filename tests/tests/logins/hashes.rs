//! How passwords are stored, and when they are stored anew.

use std::fs;

use serde_json::Value;
use stentor_auth::credential::{Cost, PasswordHash, Sha};
use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{Plan, Server, Version};

const LISTENER: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";

fn configured(function: &str) -> String {
    format!("{LISTENER}[auth]\npassword_hash = \"{function}\"\n")
}

fn file(server: &Server, text: &str) -> String {
    let path = server.folder().join("given");
    fs::write(&path, text).expect("a file can be written");
    path.to_str().expect("plain names").to_owned()
}

fn add(server: &Server, name: &str, option: &str, text: &str) {
    let file = file(server, text);
    server
        .control(&["user", "add", name, option, &file])
        .success();
}

fn code(server: &Server, user: &str, password: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some((user, password))));
    client.expect(2).body[1]
}

/// The kinds of a user's credentials.
fn kinds(server: &Server, user: &str) -> Vec<String> {
    let user = server.json(&["user", "show", user]);
    let kinds = user["credentials"].as_array().expect("a list");
    let kinds = kinds
        .iter()
        .map(|one| one["kind"].as_str().map(str::to_owned));
    kinds.collect::<Option<_>>().expect("names")
}

#[test]
fn commands_store_what_the_configuration_says() {
    for (function, kind) in [
        ("argon2id", "argon2id"),
        ("pbkdf2-sha256", "pbkdf2-sha256"),
        ("pbkdf2-sha512", "pbkdf2-sha512"),
        ("scrypt", "scrypt"),
        ("bcrypt", "2b"),
    ] {
        let server = Plan::new().config(&configured(function)).start();
        add(&server, "ann", "--password-file", "pencil\n");
        assert_eq!(kinds(&server, "ann"), [kind]);
        assert_eq!(code(&server, "ann", "pencil"), 0, "{function}");
        assert_eq!(code(&server, "ann", "pencils"), 0x86, "{function}");
        let given = server.folder().join("users.csv");
        fs::write(&given, "name,password\nbob,eraser\n").expect("a file can be written");
        let import = ["user", "import", given.to_str().expect("plain names")];
        server.control(&import).success();
        assert_eq!(kinds(&server, "bob"), [kind]);
    }
}

#[test]
fn an_outdated_hash_is_replaced_at_the_next_login() {
    let server = Plan::new().config(&configured("argon2id")).start();
    let digest = Sha::Sha512;
    for (name, cost) in [
        ("bcrypt", Cost::Bcrypt { log_rounds: 4 }),
        (
            "mosquitto",
            Cost::Pbkdf2 {
                digest,
                iterations: 101,
            },
        ),
        ("cheap", Cost::CHEAPEST),
    ] {
        let hash = PasswordHash::make(b"pencil", cost).expect("a hash can be made");
        add(&server, name, "--credential-file", &hash.to_string());
        let before = server.json(&["user", "export", "--format", "json"]);
        assert_eq!(code(&server, name, "wrong"), 0x86, "{name}");
        assert_eq!(server.json(&["user", "export", "--format", "json"]), before);
        assert_eq!(code(&server, name, "pencil"), 0, "{name}");
        eventually("a better hash is stored", || {
            let users = server.json(&["user", "export", "--format", "json"]);
            let users = users.as_array().expect("a list");
            let user = users.iter().find(|user| user["name"] == name);
            let text = user.and_then(|user| user["credentials"][0]["text"].as_str());
            text.is_some_and(|text| text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"))
        });
        assert_eq!(code(&server, name, "pencil"), 0, "{name}");
        assert_eq!(code(&server, name, "wrong"), 0x86, "{name}");
    }
    let audit = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let upgrades = audit.lines().filter(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["what"] == "user.upgrade-hash"
    });
    assert_eq!(upgrades.count(), 3, "{audit}");
}

#[test]
fn another_function_holds_after_a_reload() {
    let server = Plan::new().config(&configured("pbkdf2-sha256")).start();
    add(&server, "ann", "--password-file", "pencil\n");
    add(&server, "bob", "--password-file", "pencil\n");
    server.reconfigure(&configured("bcrypt"));
    server.control(&["reload"]).success();
    let file = file(&server, "eraser\n");
    let change = ["user", "set-password", "ann", "--password-file", &file];
    server.control(&change).success();
    assert_eq!(kinds(&server, "ann"), ["2b"]);
    assert_eq!(kinds(&server, "bob"), ["pbkdf2-sha256"]);
    assert_eq!(code(&server, "bob", "pencil"), 0);
    eventually("it is stored as the new configuration says", || {
        kinds(&server, "bob") == ["2b"]
    });
    // One that means nothing changes nothing.
    server.reconfigure(&configured("md5"));
    let refusal = server.control(&["reload"]).refusal();
    assert!(
        refusal.contains("md5") && refusal.contains("argon2id"),
        "{refusal}"
    );
    assert_eq!(code(&server, "ann", "eraser"), 0);
}

/// A user of the configuration may have any hash that the database may hold.
#[test]
fn users_of_the_configuration_have_any_hash() {
    let hash = PasswordHash::make(b"pencil", Cost::Bcrypt { log_rounds: 4 });
    let hash = hash.expect("a hash can be made").to_string();
    let user =
        |hash: &str| format!("{LISTENER}[[user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n");
    let server = Plan::new().config(&user(&hash)).start();
    assert_eq!(code(&server, "ann", "pencil"), 0);
    assert_eq!(code(&server, "ann", "wrong"), 0x86);
    let refused = Plan::new().config(&user("pencil")).refused().refusal();
    assert!(refused.contains("unknown kind of credential"), "{refused}");
    assert!(!refused.contains("pencil"), "{refused}");
}

/// Whether a name exists is in no byte of the answer.
#[test]
fn wrong_names_and_wrong_passwords_get_the_same_answer() {
    let server = Plan::new().config(&configured("argon2id")).start();
    add(&server, "ann", "--password-file", "pencil\n");
    add(&server, "bob", "--password-file", "pencil\n");
    server.control(&["user", "disable", "bob"]).success();
    let add = ["user", "add", "cat", "--no-password"];
    server.control(&add).success();
    for version in [Version::V4, Version::V5] {
        let answer = |user: &str, password: &str| {
            let mut client = server.dial();
            client.send(&connect_as(version, "c", true, Some((user, password))));
            client.rest()
        };
        let expected = answer("ann", "eraser");
        for (user, password) in [
            ("nobody", "pencil"),
            ("bob", "pencil"),
            ("cat", "pencil"),
            ("cat", ""),
            ("nozone/ann", "pencil"),
            ("nobody\u{1F980}", "x"),
        ] {
            assert_eq!(answer(user, password), expected, "{user}");
        }
    }
}
