//! Rooms that were made permanent by a command, over kills, stops and other numbers of shards.

use std::process::Command;

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{Plan, Raw, Server, Version, process};

use super::commands::command;

const V5: Version = Version::V5;

/// Carol is an administrator of rooms.
fn start() -> Server {
    let server = super::start();
    let boss = ["role", "add", "boss", "--rule", "allow both $rooms/#"];
    server.control(&boss).success();
    let file = server.folder().join("password");
    std::fs::write(&file, super::PASSWORD).expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let roles = ["--role", "member", "--role", "boss"];
    let carol = ["user", "add", "carol", "--password-file", file];
    server.control(&[&carol[..], &roles[..]].concat()).success();
    server
}

/// The answer of a command about rooms.
fn call(server: &Server, user: &str, name: &str, words: &Value) -> Value {
    let mut call: Command = command(server, "call", user);
    let file = server.folder().join(format!("{user}-words"));
    std::fs::write(&file, words.to_string()).expect("a file can be written");
    call.arg(format!("room.{name}"))
        .arg("--json")
        .arg("-f")
        .arg(file);
    let done = process::run(&mut call);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

#[track_caller]
fn does(server: &Server, name: &str, words: &Value) {
    let answer = call(server, "carol", name, words);
    assert_eq!(answer["status"], "done", "{answer}");
}

/// Logs in with a session that lasts, and says whether it was there.
fn come_back(server: &Server, user: &str) -> (Raw, bool) {
    let mut client = server.dial();
    client.speaks(V5);
    let login = Some((user, super::PASSWORD));
    client.send(&connect_as(V5, user, false, login));
    let connack = client.expect(2);
    assert_eq!(connack.body[1], 0, "{connack:?}");
    (client, connack.body[0] == 1)
}

/// Ends the server in order or by a kill, and starts it with another number of shards.
fn restart(server: Server, round: usize) -> Server {
    let plan: Plan = match round % 2 {
        0 => server.kill(),
        _ => server.stop_for_restart(),
    };
    plan.variable("STENTOR_SHARDS", ["2", "1", "4"][round % 3])
        .start()
}

/// What the server says of a room, members included.
fn room(server: &Server, name: &str) -> Value {
    server.json(&["room", "show", name])
}

#[test]
fn a_permanent_room_survives_kills_and_other_numbers_of_shards() {
    let mut server = start();
    let hall = json!({
        "room": "hall", "permanent": true, "capacity": 3,
        "history": { "count": 5, "age_secs": 60 }, "properties": { "kind": "chess", "level": 3 },
    });
    does(&server, "create", &hall);
    for (name, is_permanent) in [("gone", true), ("short", false)] {
        does(
            &server,
            "create",
            &json!({ "room": name, "permanent": is_permanent }),
        );
    }
    does(
        &server,
        "set",
        &json!({ "room": "hall", "name": "level", "value": 4 }),
    );
    does(
        &server,
        "set",
        &json!({ "room": "hall", "name": "kind", "value": null }),
    );
    does(&server, "close", &json!({ "room": "gone" }));
    let (mut alice, was_there) = come_back(&server, "alice");
    assert!(!was_there);
    alice.subscribe("$room/hall/say/+", 0);
    alice.publish_surely("$call/room.lock", br#"{"room":"hall","name":"level"}"#);
    does(
        &server,
        "change",
        &json!({ "room": "hall", "owner": "alice" }),
    );
    let before = room(&server, "hall");
    for round in 0..4 {
        drop(alice);
        server = restart(server, round);
        let after = room(&server, "hall");
        assert_eq!(after["room"], before["room"], "round {round}");
        assert_eq!(after["away"], json!(["alice"]));
        for (name, value) in [("owner", json!("alice")), ("capacity", json!(3))] {
            assert_eq!(after["room"][name], value, "{after}");
        }
        assert_eq!(after["room"]["properties"], json!({ "level": 4 }));
        assert_eq!(after["members"], json!(["alice"]));
        let listed = server.control(&["room", "ls"]).success();
        assert!(
            !listed.contains("gone") && !listed.contains("short"),
            "{listed}"
        );
        // The lock is of alice, who keeps her place, and comes back to it.
        let set = json!({ "room": "hall", "name": "level", "value": 9 });
        assert_eq!(
            call(&server, "carol", "set", &set)["error"],
            "property-locked"
        );
        let (client, was_there) = come_back(&server, "alice");
        assert!(was_there);
        alice = client;
        alice.publish("$room/hall/say", b"back");
        assert_eq!(
            alice.message(),
            ("$room/hall/say/alice".into(), b"back".into())
        );
    }
    // Versions go on behind that of a property that was removed.
    let set = json!({ "room": "hall", "name": "new", "value": 1 });
    assert_eq!(call(&server, "carol", "set", &set)["result"]["version"], 5);
    does(&server, "close", &json!({ "room": "hall" }));
    let server = server.kill().start();
    let listed = server.control(&["room", "ls"]).success();
    assert_eq!(listed, "lobby: 0 members\n");
}

/// Places are kept for `room_grace` from the start on.
#[test]
fn places_are_kept_for_a_while_after_a_kill() {
    let config = format!(
        "{}[[zone]]\nname = \"default\"\nroom_grace = \"2s\"\n",
        super::config()
    );
    let server = Plan::new().config(&config).start();
    let create = ["room", "create", "duel", "--permanent", "--capacity", "1"];
    server.control(&create).success();
    let (mut alice, _) = come_back(&server, "alice");
    alice.subscribe("$room/duel/#", 1);
    let server = server.kill().start();
    assert_eq!(room(&server, "duel")["members"], json!(["alice"]));
    let join = |server: &Server| {
        let mut join = super::rooms::room(server, "bob", &["say", "duel", "hello"]);
        process::run(&mut join)
    };
    let refused = join(&server);
    assert!(refused.stderr.contains("full"), "{refused}");
    eventually("the place is free", || join(&server).status.success());
}

/// More changes than the first files of a journal hold: what is given up of it has lost nothing.
#[test]
fn a_journal_that_was_cleaned_has_all_rooms() {
    let server = start();
    does(
        &server,
        "create",
        &json!({ "room": "old", "permanent": true, "properties": { "a": 1 } }),
    );
    does(
        &server,
        "create",
        &json!({ "room": "gone", "permanent": true }),
    );
    does(
        &server,
        "create",
        &json!({ "room": "busy", "permanent": true }),
    );
    does(&server, "close", &json!({ "room": "gone" }));
    let files = || {
        let folder = std::fs::read_dir(server.data_dir().join("sessions")).expect("it is there");
        let names = folder.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        names
    };
    let before = files();
    let (mut carol, _) = come_back(&server, "carol");
    let value = "x".repeat(3_900);
    let mut rounds = 0;
    let left = || {
        let files = files();
        before.iter().filter(|name| files.contains(name)).count()
    };
    // Numbers of files are never used twice. Those that were there, some for each shard, go as the
    // home of the zone has used them.
    while before.len() - left() < 5 {
        rounds += 1;
        assert!(
            rounds < 20_000,
            "nothing is given up of {before:?}: {:?}",
            files()
        );
        let words = json!({ "room": "busy", "name": "n", "value": format!("{rounds}{value}") });
        carol.publish_surely("$call/room.set", words.to_string().as_bytes());
    }
    let before = [room(&server, "old"), room(&server, "busy")];
    let server = server.kill().start();
    assert_eq!([room(&server, "old"), room(&server, "busy")], before);
    let listed = server.control(&["room", "ls"]).success();
    assert!(!listed.contains("gone"), "{listed}");
}

/// What the property `turn` of a room of `deploy/adaptors/turns.luau` has.
fn turn(server: &Server) -> Value {
    room(server, "chess")["room"]["properties"]["turn"].clone()
}

/// The adaptor loses its state, and takes up the game from what the room shows.
#[test]
fn a_game_in_a_permanent_room_survives_a_kill() {
    let file = stentor_tests::tools::project().join("deploy/adaptors/turns.luau");
    let adaptor = format!("[[adaptor]]\nfile = \"{}\"\n", file.display());
    let plan = Plan::new().config(&format!("{}{adaptor}", super::config()));
    let server = plan.start();
    let create = ["room", "create", "chess", "--permanent"];
    server.control(&create).success();
    for user in ["alice", "bob"] {
        come_back(&server, user).0.subscribe("$room/chess/say/+", 0);
    }
    let (mut alice, _) = come_back(&server, "alice");
    alice.publish_surely("$room/chess/call/start", b"");
    assert_eq!(turn(&server)["player"], "alice");
    alice.publish_surely("$room/chess/call/move", br#""e4""#);
    let before = turn(&server);
    assert_eq!(
        (&before["player"], &before["number"]),
        (&json!("bob"), &json!(2))
    );
    drop(alice);
    let server = server.kill().start();
    eventually("the game is taken up", || {
        turn(&server)["absent"] == json!(["alice", "bob"])
    });
    let after = turn(&server);
    for name in ["player", "number", "players"] {
        assert_eq!(after[name], before[name], "{after}");
    }
    let (mut bob, was_there) = come_back(&server, "bob");
    assert!(was_there);
    // It is his turn. The server has his place before it takes his call.
    bob.publish_surely("$room/chess/call/move", br#""e5""#);
    let now = turn(&server);
    assert_eq!(
        (&now["player"], &now["number"]),
        (&json!("alice"), &json!(3))
    );
    assert_eq!(now["absent"], json!(["alice"]));
    let moves = &room(&server, "chess")["room"]["properties"]["moves"];
    assert_eq!(moves[1]["move"], "e5", "{moves}");
}
