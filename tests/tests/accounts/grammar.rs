//! What is said in the same way in every command.

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
        &["role", "rm", "r"],
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
    ] {
        place.run(words).success();
    }
    for verb in ["ls", "list"] {
        process::run(server::stentor().args(["bench", verb])).success();
    }
    let twice = run(&["user", "add", "shop/bob", "--no-password"]);
    assert_eq!(twice.status.code(), Some(2), "{twice}");
    assert!(twice.stderr.contains("leave one of them out"), "{twice}");
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
