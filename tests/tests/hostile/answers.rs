//! Answers of procedures that nobody reads.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::{fs, thread};

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, packet, string};
use stentor_tests::{Raw, Server, Version};

use crate::bystander::{SHARDS, Scene};

/// Clients of one user, whose sessions last, and how often each calls.
const CLIENTS: usize = 8;
const CALLS: u16 = 400;

/// Messages of the history that they ask for: an answer has some 240 KiB.
const MESSAGES: usize = 120;
const PAYLOAD: [u8; 2_000] = [b'h'; 2_000];

/// What the server may need: the budget, a fifth more, and what the answers take while they are
/// made.
const BYTES_MAX: u64 = 110 << 20;

/// A history, and so much memory for clients.
fn config(memory: &str) -> String {
    format!(
        "[[policy]]\nfilter = \"log/#\"\nkeep = \"all\"\nhistory = 1000\n\
         [limits]\nmemory = \"{memory}\"\n"
    )
}

fn login(server: &Server, user: &str, client_id: &str) -> Raw {
    let mut client = server.dial();
    let who = Some((user, "secret"));
    client.speaks(Version::V5);
    client.send(&connect_as(Version::V5, client_id, false, who));
    assert_eq!(client.expect(2).body[1], 0, "{client_id} is let in");
    client
}

/// A call of QoS 1 for the whole history.
fn call(packet_id: u16) -> Vec<u8> {
    let arguments = json!({ "topic": "log/t", "last": MESSAGES, "limit": MESSAGES }).to_string();
    let body = [
        &string(&format!("$call/history/{packet_id}"))[..],
        &packet_id.to_be_bytes(),
        &[0],
        arguments.as_bytes(),
    ];
    packet(0x32, &body.concat())
}

/// A client that may call, whose session lasts.
fn caller(server: &Server, client_id: &str) -> Raw {
    let mut client = login(server, "mallory", client_id);
    client.subscribe("$reply/+", 1);
    client
}

/// Another user, who may call too.
fn other(server: &Server, client_id: &str) -> Raw {
    let mut client = login(server, "bob", client_id);
    client.subscribe("$reply/+", 0);
    client
}

/// Calls and reads the answer until nobody holds the other end of `stopped`. Each call must be
/// served.
fn call_until(other: &mut Raw, stopped: &Receiver<()>) {
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        other.publish("$call/echo/1", b"");
        let (_, answer) = other.message();
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["status"], "done", "{answer}");
    }
}

/// Each calls as fast as it can, and reads nothing.
fn call_only(callers: &mut [Raw]) {
    let calls: Vec<u8> = (1..=CALLS).flat_map(call).collect();
    for caller in callers {
        // It may be cut off in the middle.
        let _ = caller.try_send(&calls);
    }
}

/// How many calls were answered or refused, and whether others wait.
fn called(server: &Server) -> (u64, bool) {
    let all = server.json(&["procedure", "ls"]);
    let all = all["procedures"].as_array().expect("a list");
    let history = all.iter().find(|one| one["procedure"] == "history");
    let history = history.expect("it is built in");
    let count = |value: &Value| value.as_u64().expect("a number");
    (count(&history["calls"]), count(&history["waiting"]) > 0)
}

/// Waits until no call is being answered.
fn until_quiet(server: &Server) {
    let mut before = (0, true);
    eventually("an end of the calls", || {
        let now = called(server);
        let is_quiet = now.0 > 0 && now == before && !now.1;
        before = now;
        is_quiet
    });
}

/// A server with the users mallory and bob, and a history.
fn scene(memory: &str) -> Scene {
    let scene = Scene::new(&config(memory)).beside_the_disk();
    let file = scene.server.folder().join("password");
    fs::write(&file, "secret\n").expect("a file can be written");
    let file = file.to_str().expect("temporary paths are text");
    for user in ["mallory", "bob"] {
        let add = ["user", "add", user, "--password-file", file];
        drop(scene.server.control(&add).success());
    }
    let mut publisher = login(&scene.server, "mallory", "publisher");
    for _ in 0..MESSAGES {
        publisher.publish("log/t", &PAYLOAD);
    }
    publisher.ping();
    scene
}

fn callers(scene: &Scene) -> Vec<Raw> {
    let names = (0..CLIENTS).map(|number| format!("caller-{number}"));
    names.map(|name| caller(&scene.server, &name)).collect()
}

/// The server keeps answers for sessions that last, in memory and in the journal. Neither has more
/// than its share, and nobody else is cut off.
#[test]
fn answers_that_nobody_reads_harm_nobody_else() {
    let mut scene = scene("64MiB");
    let mut callers = callers(&scene);
    scene.endures(BYTES_MAX, |server| {
        call_only(&mut callers);
        until_quiet(server);
    });
    let log = scene.server.log();
    assert!(!log.contains("are not written down"), "{log}");
}

/// There is room for four such answers on their way. One user wants all of it, and another one is
/// answered whenever it calls.
#[test]
fn answers_that_nobody_reads_leave_room_for_those_of_others() {
    let mut scene = scene("16MiB");
    let mut callers = callers(&scene);
    let names = (0..SHARDS).map(|shard| scene.name_on(shard, "other"));
    let mut others: Vec<Raw> = names.map(|name| other(&scene.server, &name)).collect();
    scene.endures(BYTES_MAX, |server| {
        thread::scope(|scope| {
            let mut stops = Vec::new();
            for other in &mut others {
                let (stop, stopped) = channel();
                stops.push(stop);
                scope.spawn(move || call_until(other, &stopped));
            }
            call_only(&mut callers);
            until_quiet(server);
            drop(stops);
        });
    });
}
