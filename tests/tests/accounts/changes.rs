//! Changes of users and roles, as those meet them who are connected.

use std::fs;

use serde_json::json;
use stentor_tests::raw::{eventually, publish};
use stentor_tests::{Raw, Version};
use tempfile::TempDir;

use crate::place::Place;

/// Banned: the user may not be here any more.
const BANNED: u8 = 0x98;
/// Bad user name or password.
const WRONG: u8 = 0x86;

/// The connection is ended with this reason, and nothing else is said.
#[track_caller]
fn is_sent_away(client: &mut Raw) {
    let goodbye = client.expect(14);
    assert_eq!(goodbye.body[0], BANNED, "{goodbye:?}");
    client.closed();
}

/// Publishes to a topic and to an open one; whether the first has reached the reader too.
#[track_caller]
fn reaches(writer: &mut Raw, reader: &mut Raw, topic: &str) -> bool {
    writer.publish_surely(topic, b"");
    writer.publish_surely("open", b"");
    let (first, _) = reader.message();
    if first == topic {
        assert_eq!(reader.message().0, "open");
        return true;
    }
    assert_eq!(first, "open");
    false
}

#[test]
fn a_changed_role_reaches_live_subscriptions_and_publishers() {
    let place = Place::running();
    place
        .run(&["role", "add", "reader", "--rule", "allow both #"])
        .success();
    place.add("ann", &["reader"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("#", 0);
    assert!(reaches(&mut bob, &mut ann, "secret/a"));
    let change = |how: &str| {
        place
            .run(&["role", "change", "reader", how, "deny both secret/#"])
            .success();
    };
    change("--add");
    eventually("the subscription is narrower", || {
        !reaches(&mut bob, &mut ann, "secret/a")
    });
    ann.send(&publish(Version::V5, "secret/b", b"", 1, false));
    assert_eq!(ann.expect(4).body.get(2), Some(&0x87));
    change("--remove");
    eventually("the subscription is wide again", || {
        reaches(&mut bob, &mut ann, "secret/a")
    });
    // Roles that are given and taken count at once as well.
    place
        .run(&["role", "add", "blind", "--rule", "deny subscribe secret/#"])
        .success();
    place.run(&["grant", "ann", "blind"]).success();
    eventually("the role is given", || {
        !reaches(&mut bob, &mut ann, "secret/a")
    });
    place.run(&["revoke", "ann", "blind"]).success();
    eventually("the role is taken", || {
        reaches(&mut bob, &mut ann, "secret/a")
    });
}

#[test]
fn who_is_disabled_or_deleted_is_disconnected_at_once_and_kept_out() {
    let place = Place::running();
    for name in ["ann", "bob", "cat"] {
        place.add(name, &[]);
    }
    let (mut ann, mut bob, mut cat) = (place.login("ann"), place.login("bob"), place.login("cat"));
    place.run(&["user", "disable", "ann"]).success();
    is_sent_away(&mut ann);
    assert_eq!(place.connect("ann", ("ann", "ann")).0, WRONG);
    place.run(&["user", "delete", "bob"]).success();
    is_sent_away(&mut bob);
    assert_eq!(place.connect("bob", ("bob", "bob")).0, WRONG);
    cat.ping();
    place.run(&["user", "enable", "ann"]).success();
    place.login("ann").ping();
    // Somebody of the same name is somebody new, and not shut out.
    place.add("bob", &[]);
    place.login("bob").ping();
}

#[test]
fn a_token_that_is_revoked_ends_the_connections_that_came_with_it() {
    let place = Place::running();
    place
        .run(&["user", "add", "pump", "--no-password"])
        .success();
    let token = |label: &str| {
        let made = place.json(&["token", "create", "pump", "--label", label]);
        made["token"]
            .as_str()
            .expect("the token is shown")
            .to_owned()
    };
    let (first, second) = (token("first"), token("second"));
    let (code, mut old) = place.connect("a", ("pump", &first));
    assert_eq!(code, 0);
    let (code, mut new) = place.connect("b", ("pump", &second));
    assert_eq!(code, 0);
    place.run(&["token", "revoke", "pump", "first"]).success();
    is_sent_away(&mut old);
    new.ping();
    assert_eq!(place.connect("a", ("pump", &first)).0, WRONG);
}

/// A server whose users are in a text file, which another program changes: ann is disabled there
/// while she is connected.
#[track_caller]
fn disabled_by_another_program(refresh: &str) -> (TempDir, Place, Raw) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let users = folder.path().join("users.toml");
    let database = format!("file:{}", users.display());
    let more = format!("[auth]\ndatabase = \"{database}\"\nrefresh = \"{refresh}\"\n");
    let place = Place::with(&more);
    place.add("ann", &[]);
    let ann = place.login("ann");
    let text = fs::read_to_string(&users).expect("the file is there");
    let changed = text.replace("disabled = false", "disabled = true");
    assert_ne!(text, changed, "{text}");
    fs::write(&users, changed).expect("the file can be edited");
    (folder, place, ann)
}

#[test]
fn changes_of_other_programs_count_after_a_refresh() {
    let (_folder, place, mut ann) = disabled_by_another_program("1h");
    ann.ping();
    let refreshed = place.json(&["auth", "refresh"]);
    assert_eq!(refreshed, json!({ "changed": 1, "complaints": [] }));
    is_sent_away(&mut ann);
}

#[test]
fn changes_of_other_programs_count_by_themselves_before_long() {
    let (_folder, _place, mut ann) = disabled_by_another_program("1s");
    is_sent_away(&mut ann);
}
