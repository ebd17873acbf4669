//! Rooms, for operators.

use std::fs;

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, role, token};

/// A listener for users of any zone.
fn place() -> Server {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n\
                  [[zone]]\nname = \"game\"\n";
    let plan = Plan::new().config(config).variable("STENTOR_SHARDS", "2");
    plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0")
        .opens(1)
        .start()
}

/// A user who is in a room.
#[track_caller]
fn joined(server: &Server, user: &str, room: &str) -> Raw {
    let token = token(server, user, &["member"]);
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some(("", &token))));
    assert_eq!(client.expect(2).body[1], 0);
    client.speaks(Version::V5);
    client.subscribe(&format!("$room/{room}/#"), 1);
    client
}

#[track_caller]
fn members(server: &Server, token: &str, query: &str) -> (Vec<String>, Value) {
    let (status, room) = get(server, &format!("rooms/show?{query}"), token);
    assert_eq!(status, 200, "{room}");
    let all = room["members"].as_array().expect("a list").iter();
    let users = all.map(|it| it["user"].as_str().expect("a name").to_owned());
    (users.collect(), room["next"].clone())
}

#[track_caller]
fn rooms(server: &Server, token: &str, query: &str) -> (Vec<String>, Value, Value) {
    let (status, list) = get(server, &format!("rooms/ls?{query}"), token);
    assert_eq!(status, 200, "{list}");
    let all = list["rooms"].as_array().expect("a list").iter();
    let names = all.map(|it| it["room"].as_str().expect("a name").to_owned());
    (names.collect(), list["next"].clone(), list["total"].clone())
}

#[test]
fn rooms_and_their_members_are_shown_in_pages() {
    let server = place();
    let vic = token(&server, "vic", &["viewer"]);
    assert_eq!(
        rooms(&server, &vic, ""),
        (vec!["lobby".into()], Value::Null, json!(1))
    );
    for number in 1..=3 {
        let room = format!("tea-{number}");
        server
            .control(&["room", "create", &room, "--permanent", "--capacity", "9"])
            .success();
    }
    let _clients = ["ann", "bob", "cat"].map(|user| joined(&server, user, "tea-1"));
    let all = rooms(&server, &vic, "");
    assert_eq!(all.0, ["lobby", "tea-1", "tea-2", "tea-3"]);
    let (first, next, total) = rooms(&server, &vic, "prefix=tea&limit=2");
    assert_eq!(
        (&first[..], &next, &total),
        (
            &["tea-1".into(), "tea-2".into()][..],
            &json!("tea-2"),
            &json!(4)
        )
    );
    let (rest, next, _) = rooms(&server, &vic, "prefix=tea&limit=2&after=tea-2");
    assert_eq!((&rest[..], &next), (&["tea-3".into()][..], &Value::Null));
    assert_eq!(rooms(&server, &vic, "prefix=u").0, [""; 0]);
    // A name before the prefix is none to go on after.
    assert_eq!(rooms(&server, &vic, "prefix=tea&after=a").0.len(), 3);
    let (_, list) = get(&server, "rooms/ls?prefix=tea-1", &vic);
    let expected = json!({
        "room": "tea-1", "member_count": 3, "capacity": 9, "owner": null, "locked": false,
        "permanent": true, "property_count": 0, "bytes": 0,
    });
    assert_eq!(list["rooms"][0], expected);
    assert_eq!(
        members(&server, &vic, "room=tea-1").0,
        ["ann", "bob", "cat"]
    );
    let (first, next) = members(&server, &vic, "room=tea-1&limit=2");
    assert_eq!(
        (&first[..], &next),
        (&["ann".into(), "bob".into()][..], &json!("bob"))
    );
    let (rest, next) = members(&server, &vic, "room=tea-1&limit=2&after=bob");
    assert_eq!((&rest[..], &next), (&["cat".into()][..], &Value::Null));
    let (status, problem) = get(&server, "rooms/show?room=none", &vic);
    assert_eq!(
        (status, &problem["code"]),
        (404, &json!("not-found")),
        "{problem}"
    );
    let (status, problem) = get(&server, "rooms/show?room=a/b", &vic);
    assert_eq!(
        (status, &problem["code"]),
        (400, &json!("bad-request")),
        "{problem}"
    );
    assert_eq!(get(&server, "rooms/ls?zone=none", &vic).0, 404);
}

/// A user with the right to the verbs needs none to the rooms, and the audit log has what is done.
#[test]
fn members_are_removed_and_rooms_closed_by_the_right_to_the_verbs() {
    let server = place();
    role(
        &server,
        "looks-after-rooms",
        &["allow publish $control/rooms/#"],
    );
    let olga = token(&server, "olga", &["looks-after-rooms"]);
    let vic = token(&server, "vic", &["viewer"]);
    let mut ann = joined(&server, "ann", "tea");
    let _bob = joined(&server, "bob", "tea");
    let kick = |token: &str, room: &str, user: &str| {
        let request = json!({ "room": room, "user": user });
        post(&server, "rooms/kick", token, &request)
    };
    assert_eq!(kick(&vic, "tea", "ann").0, 403);
    assert_eq!(members(&server, &vic, "room=tea").0, ["ann", "bob"]);
    assert_eq!(kick(&olga, "tea", "ann"), (200, json!({})));
    assert_eq!(members(&server, &vic, "room=tea").0, ["bob"]);
    ann.ping_among_messages();
    let (status, problem) = kick(&olga, "tea", "ann");
    assert_eq!(
        (status, &problem["code"]),
        (404, &json!("not-found")),
        "{problem}"
    );
    assert_eq!(kick(&olga, "none", "ann").0, 404);
    assert_eq!(kick(&olga, "a/b", "ann").0, 400);
    let close =
        |token: &str, room: &str| post(&server, "rooms/close", token, &json!({ "room": room }));
    assert_eq!(close(&vic, "tea").0, 403);
    assert_eq!(close(&olga, "tea"), (200, json!({ "stays": false })));
    assert_eq!(close(&olga, "tea").0, 404);
    assert_eq!(close(&olga, "lobby"), (200, json!({ "stays": true })));
    assert_eq!(rooms(&server, &vic, "").0, ["lobby"]);
    eventually("the changes are noted", || {
        let log = fs::read_to_string(server.data_dir().join("audit.log")).unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let lines: Vec<Value> = lines.filter(|it| it["target"] == "tea").collect();
        let is = |what: &str, key: &str, value: Value| {
            let its = |line: &&Value| line["what"] == what && line[key] == value;
            { lines.iter() }.any(|line| its(&line) && line["who"] == "olga by HTTP from 127.0.0.1")
        };
        is("rooms.kick", "user", json!("ann"))
            && is("rooms.kick", "outcome", json!("refused"))
            && is("rooms.close", "stays", json!(false))
    });
}

#[test]
fn an_administrator_of_a_zone_has_the_rooms_of_that_zone_alone() {
    let server = place();
    let gus = token(&server, "game/gus", &["admin"]);
    let root = token(&server, "root", &["admin"]);
    for options in [&[][..], &["--zone", "game"]] {
        let room = if options.is_empty() { "here" } else { "there" };
        let create = [&["room", "create", room, "--permanent"], options].concat();
        server.control(&create).success();
    }
    assert_eq!(rooms(&server, &gus, "").0, ["lobby", "there"]);
    assert_eq!(rooms(&server, &root, "").0, ["here", "lobby"]);
    assert_eq!(rooms(&server, &root, "zone=game").0, ["lobby", "there"]);
    let (status, problem) = get(&server, "rooms/ls?zone=default", &gus);
    assert_eq!(
        (status, &problem["code"]),
        (403, &json!("other-zone")),
        "{problem}"
    );
    assert_eq!(get(&server, "rooms/show?room=here", &gus).0, 404);
    let close = |room: &str| post(&server, "rooms/close", &gus, &json!({ "room": room })).0;
    assert_eq!(close("here"), 404);
    assert_eq!(close("there"), 200);
    assert_eq!(rooms(&server, &root, "").0, ["here", "lobby"]);
}
