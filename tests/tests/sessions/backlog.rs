//! Backlogs that are longer than the memory for them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use stentor_tests::raw::{self, eventually};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::{come_back, status};

/// Far more than a session may hold in memory.
pub(crate) const MESSAGES: usize = 4_000;
/// Messages of a publisher that are not acknowledged.
const WINDOW: usize = 100;

/// Sessions hold as little in memory as can be configured.
pub(crate) fn plan(sessions: &str) -> Plan {
    let config = format!("[sessions]\nmemory = 0\n{sessions}");
    Plan::new().tcp().anonymous().config(&config)
}

fn payload(number: usize) -> Vec<u8> {
    format!("{number} {}", "x".repeat(1_000)).into_bytes()
}

/// A PUBLISH of MQTT 5.
fn publish(topic: &str, (qos, packet_id): (u8, u16), payload: &[u8]) -> Vec<u8> {
    let body = [
        &raw::string(topic)[..],
        &packet_id.to_be_bytes(),
        &[0],
        payload,
    ];
    raw::packet(0x30 | qos << 1, &body.concat())
}

/// Publishes messages that are numbered, some at QoS 1 and some at QoS 2. Returns those that were
/// refused for want of room.
#[track_caller]
pub(crate) fn publish_all(publisher: &mut Raw, numbers: std::ops::Range<usize>) -> Vec<usize> {
    let mut refused = Vec::new();
    let all: Vec<usize> = numbers.collect();
    for window in all.chunks(WINDOW) {
        let id = |number: usize| (number % WINDOW) as u16 + 1;
        let packets = window.iter().map(|number| {
            let qos = 1 + u8::from(number % 3 == 0);
            publish("log", (qos, id(*number)), &payload(*number))
        });
        publisher.send(&packets.collect::<Vec<_>>().concat());
        let mut left = window.len();
        while left > 0 {
            let answer = publisher.receive();
            let packet_id = &answer.body[..2];
            let reason = answer.body.get(2).copied().unwrap_or(0);
            if reason >= 0x80 {
                assert_eq!(reason, 0x97);
                let its = |number: &&usize| id(**number).to_be_bytes() == packet_id;
                refused.extend(window.iter().find(its));
                left -= 1;
            } else if answer.first >> 4 == 5 {
                publisher.send(&[&[0x62, 2], packet_id].concat());
            } else {
                left -= 1;
            }
        }
    }
    refused.sort_unstable();
    refused
}

/// Takes this many messages, and acknowledges them. Returns their numbers.
#[track_caller]
fn take(client: &mut Raw, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let packet = client.receive();
        if packet.kind() == 6 {
            client.send(&[&[0x70, 2], &packet.body[..2]].concat());
            continue;
        }
        assert_eq!(packet.kind(), 3, "{packet:?}");
        let topic = usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
        let packet_id = &packet.body[2 + topic..4 + topic];
        let is_qos_2 = packet.first >> 1 & 3 == 2;
        let answer = if is_qos_2 { 0x50 } else { 0x40 };
        client.send(&[&[answer, 2], packet_id].concat());
        let payload = packet.message(Version::V5).1;
        let word = payload.split(|byte| *byte == b' ').next();
        let word = std::str::from_utf8(word.unwrap_or_default()).expect("a number");
        numbers.push(word.parse().expect("a number"));
    }
    // Acknowledgements are written at the end of a turn. The second answer is of a later one.
    for _ in 0..2 {
        client.send(&[0xC0, 0]);
        loop {
            let packet = client.receive();
            match packet.kind() {
                6 => client.send(&[&[0x70, 2], &packet.body[..2]].concat()),
                13 => break,
                _ => {}
            }
        }
    }
    numbers
}

/// The first place where two lists differ.
fn difference(left: &[usize], right: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let both = left.iter().copied().zip(right);
    { both }.find(|(left, right)| left != right)
}

fn files(server: &Server) -> Vec<PathBuf> {
    let folder = status(server)["session_store"]["folder"]
        .as_str()
        .map(|folder| PathBuf::from(folder).join("spool"))
        .expect("a folder");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_spool = |path: &PathBuf| path.extension().is_some_and(|it| it == "spool");
    paths.filter(is_spool).collect()
}

fn with_absent(server: &Server) {
    let (mut client, _) = come_back(server, Version::V5, "absent");
    client.subscribe("log", 2);
}

/// It takes no memory, survives kills, keeps its order, and gives the disk back.
#[test]
fn a_backlog_beyond_the_memory_lies_on_the_disk() {
    let mut server = plan("").variable("STENTOR_SHARDS", "2").start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    assert!(publish_all(&mut publisher, 0..MESSAGES).is_empty());
    eventually("most of it is on the disk", || {
        status(&server)["session_store"]["backlog_bytes"].as_u64() >= Some(3 << 20)
    });
    assert!(!files(&server).is_empty());
    for shards in ["3", "1"] {
        let plan = server.kill();
        server = plan.variable("STENTOR_SHARDS", shards).start();
        let (mut client, was_there) = come_back(&server, Version::V5, "absent");
        assert!(was_there);
        if shards == "3" {
            // It goes on after a part of it was delivered.
            let taken = take(&mut client, MESSAGES / 2);
            assert_eq!(difference(&taken, 0..), None);
            client.send(&[0xE0, 0]);
            drop(client);
            continue;
        }
        let mut publisher = server.client(Version::V5, "publisher");
        // What is new comes behind it.
        assert!(publish_all(&mut publisher, MESSAGES..MESSAGES + 100).is_empty());
        let taken = take(&mut client, MESSAGES / 2 + 100);
        assert_eq!(difference(&taken, MESSAGES / 2..), None);
        eventually("the disk is free again", || files(&server).len() <= 1);
    }
}

#[test]
fn beyond_the_bound_of_all_backlogs_the_server_refuses_and_loses_nothing() {
    let server = plan("bytes = \"4MiB\"\n").start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    let refused = publish_all(&mut publisher, 0..3 * MESSAGES);
    assert!(!refused.is_empty(), "more than 4 MiB were taken");
    server.wait_log(0, "take as much of `sessions.bytes`");
    let taken: Vec<usize> = (0..3 * MESSAGES)
        .filter(|number| refused.binary_search(number).is_err())
        .collect();
    let (mut client, _) = come_back(&server, Version::V5, "absent");
    let received = take(&mut client, taken.len());
    assert_eq!(difference(&received, taken.into_iter()), None);
    drop(client);
    eventually("there is room again", || {
        publish_all(&mut publisher, 20_000..20_001).is_empty()
    });
}

/// A client that comes by a Unix socket is somebody else than one that comes by TCP from this
/// machine.
fn stranger(path: &Path, client_id: &str, clean: bool) -> Raw {
    let mut client = Raw::unix(path);
    client.login(Version::V5, client_id, clean);
    client
}

/// One owner fills what it may have. Another one has room, gets what it is sent, and may publish
/// what the first one cannot take.
#[test]
fn one_owner_leaves_room_for_others() {
    const FEW: usize = 100;
    const MANY: usize = 16 * MESSAGES;
    let sessions =
        "bytes = \"48MiB\"\n[limits]\nqueue_bytes = \"256KiB\"\npacket_bytes = \"64KiB\"\n";
    let plan = plan(sessions).variable("STENTOR_SHARDS", "2");
    let path = plan.folder().join("mqtt.sock");
    let server = plan
        .listen(&format!("mqtt+unix:{}", path.display()))
        .start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    let refused = publish_all(&mut publisher, 0..MANY);
    assert!(!refused.is_empty(), "more than 48 MiB were taken");
    let taken = MANY - refused.len();
    stranger(&path, "other", false).subscribe("log", 2);
    let mut here = stranger(&path, "here", false);
    here.subscribe("log", 2);
    let mut publisher = stranger(&path, "publisher of others", true);
    assert!(publish_all(&mut publisher, 0..FEW).is_empty());
    let expected: Vec<usize> = (0..FEW).collect();
    assert_eq!(take(&mut here, FEW), expected);
    let mut other = stranger(&path, "other", false);
    assert_eq!(take(&mut other, FEW), expected);
    let (mut client, _) = come_back(&server, Version::V5, "absent");
    let all = take(&mut client, taken);
    assert!(all.is_sorted(), "nothing of what was taken is lost");
}

/// New sessions, subscriptions, and messages to clients that keep up need the journal only.
#[test]
fn a_disk_that_takes_no_backlogs_refuses_only_what_needs_it() {
    let plan = plan("bytes = \"64MiB\"\n").variable("STENTOR_SHARDS", "2");
    let path = plan.folder().join("mqtt.sock");
    let plan = plan.listen(&format!("mqtt+unix:{}", path.display()));
    let server = plan.start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    assert!(publish_all(&mut publisher, 0..3 * MESSAGES).is_empty());
    eventually("it is on the disk", || {
        status(&server)["session_store"]["backlog_bytes"].as_u64() >= Some(8 << 20)
    });
    let plan = server.kill().variable("STENTOR_SESSIONS__BYTES", "4MiB");
    let server = plan.start();
    stranger(&path, "other", false).subscribe("log", 2);
    let mut publisher = stranger(&path, "publisher of others", true);
    let refused = publish_all(&mut publisher, 0..2 * MESSAGES);
    assert!(!refused.is_empty(), "memory has no room for all");
    server.wait_log(0, "backlogs of sessions do not go to the disk");
    let heres = ["here 1", "here 2", "here 3"];
    let mut heres = heres.map(|name| stranger(&path, name, false));
    for (number, here) in heres.iter_mut().enumerate() {
        let topic = format!("live/{number}");
        here.subscribe(&topic, 2);
        publisher.send(&publish(&topic, (1, 9), &payload(number)));
        let ack = publisher.expect(4);
        let reason = ack.body.get(2).copied().unwrap_or(0);
        assert!(reason < 0x80, "{ack:?}");
        assert_eq!(take(here, 1), [number]);
    }
    let taken = 2 * MESSAGES - refused.len();
    let mut other = stranger(&path, "other", false);
    assert_eq!(take(&mut other, taken).len(), taken, "nothing is lost");
}

/// Above what one client may have on the disk, the policy of the topic holds.
#[test]
fn beyond_the_bound_of_a_client_the_newest_messages_are_dropped() {
    let sessions = "client_bytes = \"1MiB\"\n[limits]\nqueue_bytes = \"2MiB\"\n";
    let server = plan(sessions).start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    assert!(publish_all(&mut publisher, 0..2 * MESSAGES).is_empty());
    let lost = status(&server)["losses"]["by_cause"]["drop-newest"].as_u64();
    let lost = lost.expect("a number") as usize;
    assert!(lost > 0 && lost < 2 * MESSAGES, "{lost} are lost");
    let (mut client, _) = come_back(&server, Version::V5, "absent");
    let taken = take(&mut client, 2 * MESSAGES - lost);
    assert!(taken.is_sorted());
}

/// A part that is damaged is told, and costs nothing else.
#[test]
fn damage_costs_a_part_of_a_backlog() {
    let server = plan("").start();
    with_absent(&server);
    let mut publisher = server.client(Version::V5, "publisher");
    assert!(publish_all(&mut publisher, 0..MESSAGES).is_empty());
    let mut all = files(&server);
    all.sort();
    let plan = server.kill();
    let mut bytes = fs::read(&all[0]).expect("it is there");
    bytes[100_000..100_100].fill(0xFF);
    fs::write(&all[0], bytes).expect("it can be written");
    let server = plan.start();
    let page = server.json(&["sessions", "queue", "absent", "--limit", "1000"]);
    let messages = page["messages"].as_array().expect("a list");
    let lost = messages.iter().find(|it| it["state"] == "unreadable");
    let nothing = json!({ "state": "unreadable", "payload_cut": false, "withheld": false });
    assert_eq!(
        lost,
        Some(&nothing),
        "nothing is known of it, and so no QoS"
    );
    let (mut client, _) = come_back(&server, Version::V5, "absent");
    let taken = take(&mut client, MESSAGES - 64);
    assert!(taken.is_sorted(), "they keep their order");
    server.wait_log(0, "cannot be read, and are lost");
    let store = &status(&server)["session_store"];
    assert_eq!(store["unreadable"].as_u64(), Some(1), "{store:#}");
}
