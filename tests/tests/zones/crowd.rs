//! A room and a zone with thousands in them.

use std::collections::HashSet;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use stentor_tests::raw::{Raw, Version, connect_as};
use stentor_tests::{Plan, Server};

const ROOM: &str = "$room/big/";

/// Users who see all of it, whatever comes at once: for guests little is queued.
const WATCHERS: [&str; 3] = ["first", "late", "last"];

/// A zone of guests, who need no password, and a room for all of them whose places end with their
/// connections.
fn start() -> Server {
    let hash = super::hash();
    let user = |name| {
        format!("[[user]]\nname = \"{name}\"\nzone = \"crowd\"\npassword_hash = \"{hash}\"\n")
    };
    let users = WATCHERS.map(user).concat();
    let text = r#"
shards = 3
[[listener]]
url = "mqtt://127.0.0.1:0"
[limits]
connections = 20000
queue_bytes = "64MiB"
[[zone]]
name = "crowd"
guests = true
guest_rate = 1000000
[[room]]
zone = "crowd"
name = "big"
grace = "0s"
"#;
    Plan::new().config(&format!("{text}{users}")).start()
}

/// A user who watches.
fn seeing(server: &Server, name: &str) -> Raw {
    let login = format!("crowd/{name}");
    let mut raw = server.dial();
    raw.speaks(Version::V4);
    let login = Some((login.as_str(), super::PASSWORD));
    raw.send(&connect_as(Version::V4, name, true, login));
    assert_eq!(raw.expect(2).body[1], 0, "{name} was refused");
    raw
}

/// A guest that has logged in.
fn guest(server: &Server, number: usize) -> Raw {
    let text = |text: &str| {
        let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    // 3.1.1, a clean session and a user name; no keep alive.
    let mut body = text("MQTT");
    body.extend_from_slice(&[4, 0x82, 0, 0]);
    body.extend(text(&format!("g{number}")));
    body.extend(text("crowd/guest"));
    let mut packet = vec![0x10, body.len() as u8];
    packet.extend(body);
    let mut raw = server.dial();
    raw.speaks(Version::V4);
    raw.send(&packet);
    let answer = raw.expect(2);
    assert_eq!(answer.body[1], 0, "guest {number} was refused: {answer:?}");
    raw
}

/// The next event of the room: what it is, and how many members there are then.
fn event(watcher: &mut Raw) -> (String, u64) {
    loop {
        let (topic, payload) = watcher.expect(3).message(Version::V4);
        if topic == format!("{ROOM}event") {
            let event: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
            let what = event["event"].as_str().expect("it says what").to_owned();
            return (what, event["members"].as_u64().expect("it counts them"));
        }
    }
}

/// Subscribes, and takes retained messages until there are as many different topics.
fn expect_retained(client: &mut Raw, filter: &str, wanted: usize) {
    client.subscribe(filter, 0);
    let mut topics = HashSet::new();
    while topics.len() < wanted {
        let (topic, payload) = client.expect(3).message(Version::V4);
        assert!(!payload.is_empty(), "{topic} is gone");
        topics.insert(topic);
    }
}

/// Everybody joins and is seen, hears what one says, and goes at once. `STENTOR_SOAK=1` takes
/// 10,000 members.
#[test]
fn a_crowd_comes_listens_and_goes() {
    let is_soak = std::env::var_os("STENTOR_SOAK").is_some();
    let size = if is_soak { 10_000 } else { 500 };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("it may be raised up to its end");
    let server = start();
    let mut watcher = seeing(&server, WATCHERS[0]);
    watcher.subscribe("$room/big/event", 0);
    let mut members: Vec<Raw> = Vec::new();
    for number in 1..=size {
        let mut member = guest(&server, number);
        member.subscribe("$room/big/say/+", 0);
        members.push(member);
        let joined = event(&mut watcher);
        assert_eq!(joined, ("joined".to_owned(), number as u64 + 1));
    }
    let mut late = seeing(&server, WATCHERS[1]);
    // This subscription joins too.
    expect_retained(&mut late, "$room/big/member/+", size + 2);
    assert_eq!(event(&mut watcher).1, size as u64 + 2);
    let mut visitor = seeing(&server, WATCHERS[2]);
    expect_retained(&mut visitor, "$presence/+", size + 3);
    watcher.publish("$room/big/say", b"hear, hear");
    for member in &mut members {
        let (topic, payload) = member.expect(3).message(Version::V4);
        assert_eq!(topic, "$room/big/say/first");
        assert_eq!(payload, b"hear, hear");
    }
    drop(members);
    for left in (2..size as u64 + 2).rev() {
        assert_eq!(event(&mut watcher), ("left".to_owned(), left));
    }
    // The visitor sees each of them go too.
    let mut gone = 0;
    while gone < size {
        let (_, payload) = visitor.expect(3).message(Version::V4);
        gone += usize::from(payload.is_empty());
    }
}
