//! What is said in the same way in every command.

use serde_json::Value;
use stentor_tests::{process, server};

use crate::place::Place;

/// One grammar: zones stand beside names everywhere, and verbs have the same other names.
#[test]
fn zones_and_verbs_are_said_in_the_same_way_everywhere() {
    let place = Place::running();
    place.run(&["zone", "add", "game"]).success();
    let game = ["--zone", "game"];
    let run = |words: &[&str]| place.run(&[words, &game].concat());
    let added = run(&["user", "add", "bob", "--no-password"]).success();
    assert!(added.contains("game/bob is added"), "{added}");
    for words in [
        &["user", "show", "bob"][..],
        &["user", "disable", "bob"],
        &["user", "enable", "bob"],
        &["user", "ls"],
        &["user", "list"],
        &["user", "test", "bob", "publish", "t"],
        &["grant", "bob", "admin"],
        &["revoke", "bob", "admin"],
        &["token", "create", "bob", "--label", "l"],
        &["token", "ls", "bob"],
        &["token", "list", "bob"],
        &["token", "rm", "bob", "l"],
        &["clients", "ls"],
        &["clients", "list"],
        &["topics", "ls"],
        &["topics", "list", "text"],
        &["topics"],
        &["retained", "ls"],
        &["retained", "list"],
        &["room", "ls"],
        &["room", "list"],
        &["role", "add", "r", "--rule", "allow both #"],
        &["role", "ls"],
        &["role", "list"],
        &["role", "rm", "r"],
        &["adaptor", "ls"],
        &["adaptor", "list"],
        &["adaptor", "reload"],
        &["status"],
        &["user", "rm", "bob"],
    ] {
        run(words).success();
    }
    for words in [
        &["role", "ls"][..],
        &["zone", "ls"],
        &["zone", "list"],
        &["adaptor", "ls"],
        &["adaptor", "list"],
        &["procedure", "ls"],
        &["procedure", "list"],
    ] {
        place.run(words).success();
    }
    for words in [
        &["role", "ls"][..],
        &["adaptor", "ls"],
        &["adaptor", "reload"],
        &["status"],
        &["topics"],
    ] {
        let refused = place.run(&[words, &["--zone", "gmae"]].concat()).refusal();
        assert!(refused.contains("no zone \"gmae\""), "{words:?}: {refused}");
    }
    for verb in ["ls", "list"] {
        process::run(server::stentor().args(["bench", verb])).success();
    }
    let twice = run(&["user", "add", "shop/bob", "--no-password"]);
    assert_eq!(twice.status.code(), Some(2), "{twice}");
    assert!(twice.stderr.contains("leave one of them out"), "{twice}");
}

/// Roles of one zone are those that its users can have.
#[test]
fn roles_of_one_zone_are_listed() {
    let place = Place::running();
    for zone in ["game", "shop"] {
        place.run(&["zone", "add", zone]).success();
        let role = format!("{zone}-keeper");
        place
            .run(&[
                "role",
                "add",
                &role,
                "--zone",
                zone,
                "--rule",
                "allow both #",
            ])
            .success();
    }
    let listed = place.json(&["role", "ls", "--zone", "game"]);
    let roles = listed["roles"].as_array().expect("a list").iter();
    let names: Vec<&str> = roles.filter_map(|role| role["name"].as_str()).collect();
    assert!(
        names.contains(&"game-keeper") && names.contains(&"member"),
        "{listed}"
    );
    assert!(!names.contains(&"shop-keeper"), "{listed}");
}

/// A file of users that names no zone is imported into one.
#[test]
fn users_are_imported_into_a_zone() {
    let place = Place::running();
    place.run(&["zone", "add", "game"]).success();
    let file = place.file("users.csv", "name,password\nann,pw\ndefault/bob,pw\n");
    place
        .run(&["user", "import", &file, "--zone", "game"])
        .success();
    for login in ["game/ann", "game/bob"] {
        place.run(&["user", "show", login]).success();
    }
    place.run(&["user", "show", "ann"]).refusal();
}

/// Adaptors of one zone are listed and reloaded.
#[test]
fn adaptors_of_one_zone_are_listed_and_reloaded() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let dir = folder.path().to_str().expect("plain names");
    let mut config = String::new();
    for name in ["game", "shop"] {
        let new = ["adaptor", "new", name, "--dir", dir];
        process::run(server::stentor().args(new)).success();
        config += &format!("[[zone]]\nname = \"{name}\"\n");
        config += &format!("[[adaptor]]\nfile = \"{dir}/{name}.luau\"\nzone = \"{name}\"\n");
    }
    let place = Place::with(&config);
    assert_eq!(zones(&place.json(&["adaptor", "ls"])), ["game", "shop"]);
    for words in [&["adaptor", "ls"][..], &["adaptor", "reload"]] {
        let answer = place.json(&[words, &["--zone", "game"]].concat());
        assert_eq!(zones(&answer), ["game"], "{words:?}");
    }
    let elsewhere = ["adaptor", "reload", "shop.luau", "--zone", "game"];
    let refused = place.run(&elsewhere).refusal();
    assert!(refused.contains("for the zone \"game\""), "{refused}");
}

/// The zones of listed adaptors.
fn zones(answer: &Value) -> Vec<&str> {
    let adaptors = answer["adaptors"].as_array().expect("a list").iter();
    adaptors.filter_map(|one| one["zone"].as_str()).collect()
}

/// Procedures are listed with what is wrong with their files.
#[test]
fn procedures_of_a_running_server_are_listed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("a file can be written");
    };
    write("good.luau", "return function(call) return accept() end\n");
    write("bad.luau", "return function(call\n");
    let path = folder.path().display();
    let place = Place::with(&format!("[procedures]\nfolder = \"{path}\"\n"));
    let listed = place.json(&["procedure", "ls"]);
    let all = listed["procedures"].as_array().expect("a list");
    let one = |name: &str| {
        let found = all.iter().find(|one| one["procedure"] == name);
        found.unwrap_or_else(|| panic!("there is no {name}: {listed}"))
    };
    assert_eq!(
        (&one("good")["kind"], &one("good")["problem"]),
        (&"luau".into(), &"".into())
    );
    assert_eq!(one("noop")["kind"], "builtin");
    let problem = one("bad")["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("bad.luau"), "{listed}");
    let text = place.run(&["procedure", "list"]).success();
    assert!(text.contains("not loaded: "), "{text}");
}

/// When `procedure reload` ends, the server uses what is in the files, and the answer says so.
#[test]
fn a_reload_of_procedures_waits_until_the_files_are_in_use() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let write = |verdict: &str| {
        let text = format!("return function(call) return {verdict} end\n");
        std::fs::write(folder.path().join("p.luau"), text).expect("a file can be written");
    };
    write("accept()");
    let path = folder.path().display();
    let place = Place::with(&format!("[procedures]\nfolder = \"{path}\"\n"));
    write("reject(\"no\")");
    let text = place.run(&["procedure", "reload"]).success();
    assert!(text.contains("in use"), "{text}");
    let reload = place.json(&["procedure", "reload"]);
    let one = &reload["procedures"][0];
    assert_eq!(
        (&one["procedure"], &one["new"]),
        (&"p".into(), &false.into()),
        "{reload}"
    );
    assert_eq!(
        reload["procedures"].as_array().map(Vec::len),
        Some(1),
        "{reload}"
    );
    let called = place.run(&["call", "p"]).success();
    assert!(called.contains("reject: no"), "{called}");
    write("accept(");
    let refused = place.run(&["procedure", "reload"]).refusal();
    assert!(refused.contains("a file was not taken"), "{refused}");
    std::fs::remove_file(folder.path().join("p.luau")).expect("a file can be removed");
    let reload = place.json(&["procedure", "reload"]);
    assert_eq!(reload["procedures"], Value::Array(Vec::new()), "{reload}");
}

/// A server without a folder says what to set.
#[test]
fn a_reload_of_procedures_without_a_folder_says_what_to_set() {
    let place = Place::running();
    let refused = place.run(&["procedure", "reload"]).refusal();
    assert!(refused.contains("--procedures DIR"), "{refused}");
}

/// Clients of other zones are not listed with those of one.
#[test]
fn clients_of_one_zone_are_listed() {
    let place = Place::running();
    place.run(&["zone", "add", "game"]).success();
    place.add("game/ann", &[]);
    place.add("bob", &[]);
    let _clients = (place.login_as("game/ann", "a"), place.login_as("bob", "b"));
    assert_eq!(place.json(&["clients", "ls"])["total"], 2);
    let listed = place.json(&["clients", "ls", "--zone", "game"]);
    assert_eq!(listed["clients"][0]["client_id"], "a", "{listed}");
    assert_eq!(listed["total"], 1, "{listed}");
    let refused = place.run(&["clients", "ls", "--zone", "gmae"]).refusal();
    assert!(refused.contains("no zone \"gmae\""), "{refused}");
}
