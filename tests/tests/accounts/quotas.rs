//! How much a user and a zone may take.

use serde_json::json;
use stentor_tests::Version;
use stentor_tests::raw::{connect_as, eventually, publish, subscribe};

use crate::place::Place;

/// Quota exceeded.
const QUOTA: u8 = 0x97;

/// A role that permits everything, with one quota.
#[track_caller]
fn limited(place: &Place, role: &str, quota: &str, value: &str) {
    let rule = ["role", "add", role, "--rule", "allow both #"];
    place.run(&[&rule[..], &[quota, value]].concat()).success();
}

/// What a client is told that is refused for want of a place.
#[track_caller]
fn refusal(place: &Place, client_id: &str, user: &str) -> String {
    let mut client = place.server().dial();
    client.send(&connect_as(
        Version::V5,
        client_id,
        true,
        Some((user, user)),
    ));
    client.speaks(Version::V5);
    let body = client.expect(2).body;
    assert_eq!(body[1], QUOTA, "{body:?}");
    String::from_utf8_lossy(&body).into_owned()
}

/// The limits of the server, of an address and of a zone are told with their values as well.
#[test]
fn a_limit_of_connections_is_told_with_its_value() {
    for (more, told, says) in [
        (
            "[limits]\nconnections = 1\n",
            "limits.connections is 1",
            [
                "reason=\"too-many-connections\"",
                "raise `limits.connections`",
            ],
        ),
        (
            "[limits]\nconnections_per_address = 1\n",
            "limits.connections_per_address is 1",
            [
                "connections_per_address is 1",
                "raise `limits.connections_per_address`",
            ],
        ),
        (
            "[[zone]]\nname = \"default\"\nuser_connections = 1\n",
            "the zone default allows 1",
            [
                "the zone default allows 1",
                "`user_connections` of the [[zone]] default",
            ],
        ),
    ] {
        let place = Place::with(more);
        place.add("ann", &[]);
        let _first = place.login("ann");
        let heard = refusal(&place, "second", "ann");
        assert!(heard.contains(told), "{heard}");
        place.server().wait_lines(1, &says);
    }
}

#[test]
fn a_user_has_so_many_connections_and_no_more() {
    let place = Place::running();
    limited(&place, "few", "--connections", "2");
    place.add("ann", &["few"]);
    place.add("bob", &["few"]);
    let first = place.login_as("ann", "a1");
    let _second = place.login_as("ann", "a2");
    let told = refusal(&place, "a3", "ann");
    assert!(told.contains("the role few allows 2"), "{told}");
    let line = place
        .server()
        .wait_lines(1, &["too-many-connections-of-user"]);
    for part in [
        "the role few allows 2",
        "`stentor role change few --data-dir",
        "--connections N`",
    ] {
        assert!(line.contains(part), "{part:?} is missing: {line}");
    }
    let _bob = place.login_as("bob", "b1");
    // A client that takes over its own session needs no second place.
    let _again = place.login_as("ann", "a1");
    drop(first);
    assert_eq!(place.connect("a3", ("ann", "ann")).0, QUOTA);
    // A change counts those who are there.
    place
        .run(&["role", "change", "few", "--connections", "3"])
        .success();
    eventually("there is room for a third", || {
        place.connect("a3", ("ann", "ann")).0 == 0
    });
}

#[test]
fn a_bound_that_is_set_later_counts_who_is_there() {
    let place = Place::running();
    place
        .run(&["role", "add", "some", "--rule", "allow both #"])
        .success();
    place.add("ann", &["some"]);
    let mut first = place.login_as("ann", "a1");
    place
        .run(&["role", "change", "some", "--connections", "1"])
        .success();
    eventually("the first one is counted", || {
        let (code, _gone) = place.connect("a2", ("ann", "ann"));
        code == QUOTA
    });
    first.ping();
}

#[test]
fn a_zone_has_so_many_connections_for_all_its_users() {
    let place = Place::running();
    place
        .run(&["zone", "add", "game", "--connections", "2"])
        .success();
    for name in ["game/ann", "game/bob", "cat"] {
        place.add(name, &[]);
    }
    let _ann = place.login_as("game/ann", "a");
    let bob = place.login_as("game/bob", "b");
    assert_eq!(place.connect("c", ("game/ann", "game/ann")).0, QUOTA);
    place.login("cat").ping();
    drop(bob);
    eventually("a place is free again", || {
        place.connect("c", ("game/ann", "game/ann")).0 == 0
    });
}

#[test]
fn zones_do_not_hear_each_other_and_share_no_client_ids() {
    let place = Place::running();
    place.run(&["zone", "add", "game"]).success();
    place.add("game/ann", &[]);
    place.add("ann", &[]);
    let mut here = place.login_as("ann", "same");
    let mut there = place.login_as("game/ann", "same");
    here.subscribe("#", 0);
    there.subscribe("#", 0);
    here.publish("a", b"here");
    there.publish("a", b"there");
    assert_eq!(here.message().1, b"here");
    assert_eq!(there.message().1, b"there");
    here.ping();
    there.ping();
    let numbers = std::fs::read_to_string(place.data_dir().join("zones"));
    assert_eq!(numbers.ok().as_deref(), Some("game\n"));
}

#[test]
fn a_session_has_so_many_subscriptions_and_no_more() {
    let place = Place::running();
    limited(&place, "few", "--subscriptions", "1");
    place.add("ann", &["few"]);
    let mut ann = place.login("ann");
    ann.subscribe("a", 0);
    ann.send(&subscribe(Version::V5, 2, "b", 0));
    assert_eq!(ann.expect(9).body.last(), Some(&QUOTA));
}

/// A second's worth comes at once, then the rate holds; nothing is lost.
#[test]
fn who_publishes_faster_than_allowed_waits() {
    let place = Place::running();
    limited(&place, "slow", "--messages-per-sec", "20");
    place.add("ann", &["slow"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    bob.subscribe("#", 0);
    let burst: Vec<u8> = (0..40)
        .flat_map(|number: u8| publish(Version::V5, "a", &[number], 0, false))
        .collect();
    let start = std::time::Instant::now();
    ann.send(&burst);
    for number in 0..40 {
        assert_eq!(bob.message().1, [number]);
    }
    let millis = start.elapsed().as_millis();
    assert!(
        millis >= 900,
        "twenty messages beyond take a second: {millis} ms"
    );
}

/// The same for bytes, whatever the number of messages.
#[test]
fn who_publishes_more_bytes_than_allowed_waits() {
    let place = Place::running();
    limited(&place, "thin", "--bytes-per-sec", "20000");
    place.add("ann", &["thin"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    bob.subscribe("#", 0);
    let start = std::time::Instant::now();
    for number in 0..12 {
        ann.send(&publish(Version::V5, "a", &[number; 5_000], 0, false));
    }
    for number in 0..12 {
        assert_eq!(bob.message().1, [number; 5_000]);
    }
    let millis = start.elapsed().as_millis();
    assert!(
        millis >= 900,
        "forty thousand bytes beyond take two seconds: {millis} ms"
    );
    // Small messages are not held back by it.
    ann.ping();
}

#[test]
fn so_many_bytes_wait_for_a_client_and_no_more() {
    const MESSAGE: usize = 10_000;
    const QUEUE: u64 = 50_000;
    let place = Place::running();
    limited(&place, "short", "--queued-bytes", &QUEUE.to_string());
    place.add("ann", &["short"]);
    place.add("bob", &[]);
    place.add("cat", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("a", 0);
    bob.subscribe("a", 0);
    let mut cat = place.login("cat");
    let queued = |client: &str| {
        let shown = place.json(&["clients", "show", client]);
        shown["connection"]["queued_bytes"]
            .as_u64()
            .expect("a number")
    };
    // Neither reads, so that the queues fill when the system takes no more for them.
    let mut most = 0;
    eventually(
        "something waits for ann, and more for bob than may for her",
        || {
            for _ in 0..20 {
                cat.publish_surely("a", &[7; MESSAGE]);
            }
            most = most.max(queued("ann"));
            assert!(most <= QUEUE + MESSAGE as u64, "{most}");
            most > 0 && queued("bob") > 2 * QUEUE
        },
    );
    ann.ping_among_messages();
}

#[test]
fn quotas_are_shown() {
    let place = Place::running();
    place
        .run(&[
            "role",
            "add",
            "few",
            "--connections",
            "2",
            "--queued-bytes",
            "1000",
        ])
        .success();
    let role = place.json(&["role", "show", "few"]);
    assert_eq!(
        role["quotas"],
        json!({ "connections": 2, "queued_bytes": 1000 })
    );
}

/// What a change does not name stays as it was: nothing is lifted by the way.
#[test]
fn a_change_of_one_quota_leaves_the_others() {
    let place = Place::running();
    let quotas = ["--connections", "2", "--subscriptions", "7"];
    let rates = [
        "--messages-per-sec",
        "3",
        "--bytes-per-sec",
        "4",
        "--queued-bytes",
        "5",
    ];
    let quotas = [&quotas[..], &rates].concat();
    place
        .run(&[&["role", "add", "few"], &quotas[..]].concat())
        .success();
    let change = |more: &[&str]| {
        let change = place.run(&[&["role", "change", "few"], more].concat());
        change.success();
        place.json(&["role", "show", "few"])["quotas"].clone()
    };
    // As the flags write them, and as files do.
    let two = [
        "--no-quota",
        "messages-per-sec",
        "--no-quota",
        "bytes_per_sec",
    ];
    let left = json!({ "connections": 2, "subscriptions": 7, "queued_bytes": 5 });
    assert_eq!(change(&two), left);
    change(&["--no-quota", "queued-bytes"]);
    let changed = change(&["--connections", "5"]);
    assert_eq!(changed, json!({ "connections": 5, "subscriptions": 7 }));
    let less = change(&["--no-quota", "subscriptions"]);
    assert_eq!(less, json!({ "connections": 5 }));
    let unknown = place.run(&["role", "change", "few", "--no-quota", "subscription"]);
    assert!(unknown.refusal().contains("subscriptions"));
}
