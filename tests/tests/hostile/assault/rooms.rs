//! Rooms with very many members, who are all let go at the same moment.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use stentor_tests::raw::connect_as;
use stentor_tests::{Raw, Server, Version};

use super::MIB;
use crate::bystander::Scene;

/// A zone of guests, who need no password, and who hear all of a room with thousands in it.
const CONFIG: &str = r#"
[limits]
connections = 20000
[[zone]]
name = "crowd"
guests = true
guest_rate = 1000000
[[room]]
zone = "crowd"
name = "short"
grace = "1s"
"#;

/// Members of a room. `STENTOR_SOAK=1` takes 10,000.
fn size() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("it may be raised up to its end");
    match std::env::var_os("STENTOR_SOAK") {
        Some(_) => 10_000,
        None => 1_500,
    }
}

fn enter(server: &Server, client_id: &str, user: &str, password: &str) -> Raw {
    let mut client = server.dial();
    client.speaks(Version::V5);
    client.send(&connect_as(
        Version::V5,
        client_id,
        true,
        Some((user, password)),
    ));
    assert_eq!(client.expect(2).body[1], 0, "{client_id} is let in");
    client
}

/// A user, for whom more waits than for a guest.
fn witness(server: &Server) -> Raw {
    let file = server.folder().join("password");
    fs::write(&file, "secret\n").expect("a file can be written");
    let file = file.to_str().expect("temporary paths are text");
    let add = ["user", "add", "crowd/witness", "--password-file", file];
    drop(server.control(&add).success());
    enter(server, "witness", "crowd/witness", "secret")
}

/// Guests who are in a room. They hear nothing of those who come after them.
fn members(server: &Server, room: &str, size: usize) -> Vec<Raw> {
    let join = |number| {
        let name = format!("guest-{number}");
        let mut guest = enter(server, &name, "crowd/guest", "");
        guest.subscribe(&format!("$room/{room}/say/+"), 0);
        guest
    };
    (0..size).map(join).collect()
}

/// Gives a room long properties, one after the other.
fn furnish(member: &mut Raw, room: &str) {
    member.subscribe("$reply/+", 0);
    for number in 0..8 {
        let name = format!("p{number}");
        let set = json!({ "room": room, "name": name, "value": "x".repeat(2_000) });
        member.publish("$call/room.set/1", set.to_string().as_bytes());
        let (_, answer) = member.message();
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["status"], "done", "{answer}");
    }
}

fn event(client: &mut Raw, room: &str) -> Value {
    let (topic, event) = client.message();
    assert_eq!(topic, format!("$room/{room}/event"));
    serde_json::from_slice(&event).expect("JSON")
}

/// The owner closes the room, and each member hears it once.
#[test]
fn a_room_with_very_many_members_is_closed() {
    let size = size();
    let mut scene = Scene::new(CONFIG);
    scene.endures(96 * MIB, |server| {
        // The first one makes the room, and owns it.
        let mut members = members(server, "big", size);
        for member in &mut members {
            member.subscribe("$room/big/event", 0);
        }
        members[0].publish("$call/room.close", br#"{"room":"big"}"#);
        for member in &mut members {
            assert_eq!(event(member, "big"), json!({ "event": "closed" }));
            member.ping();
        }
        // There is another room of the name when the old one is gone.
        members[1].subscribe("$room/big/say/+", 0);
    });
}

/// All connections are lost at once, and none comes back in time. Who stays hears of each of them.
/// What the list of rooms tells of this one is long.
#[test]
fn a_room_loses_very_many_members() {
    let size = size();
    let mut scene = Scene::new(CONFIG);
    scene.endures(96 * MIB, |server| {
        let mut witness = witness(server);
        witness.subscribe("$room/short/event", 0);
        furnish(&mut witness, "short");
        drop(members(server, "short", size));
        let mut left = 0;
        while left < size {
            let event = event(&mut witness, "short");
            if event["event"] == "left" {
                left += 1;
                assert_eq!(event["members"], size + 1 - left, "{event}");
            }
        }
        witness.ping();
    });
}
