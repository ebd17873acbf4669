//! Messages that clients are owed survive a kill and an orderly stop.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stentor_tests::{Plan, Raw, Server, Version, process, raw, tools};

use crate::come_back;

/// Ends the server by a kill or in order, and starts it with this many shards.
fn restart(server: Server, kills: bool, shards: &str) -> Server {
    let plan = match kills {
        true => server.kill(),
        false => server.stop_for_restart(),
    };
    plan.variable("STENTOR_SHARDS", shards).start()
}

/// A PUBLISH above QoS 0.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    payload: Vec<u8>,
    qos: u8,
    dup: bool,
    packet_id: [u8; 2],
}

#[track_caller]
fn published(client: &mut Raw, version: Version) -> Published {
    let packet = client.expect(3);
    let topic = usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
    Published {
        payload: packet.message(version).1,
        qos: packet.first >> 1 & 3,
        dup: packet.first & 8 != 0,
        packet_id: [packet.body[2 + topic], packet.body[3 + topic]],
    }
}

fn answer(client: &mut Raw, first: u8, packet_id: [u8; 2]) {
    client.send(&[&[first, 2][..], &packet_id].concat());
}

/// A publisher sends them at QoS 2, and hears that they are taken.
#[track_caller]
fn publish_at_qos_2(server: &Server, topic: &str, payloads: &[&str]) {
    let mut publisher = server.client(Version::V4, "p2");
    for (at, payload) in payloads.iter().enumerate() {
        let packet_id = [0, at as u8 + 1];
        let body = [&raw::string(topic)[..], &packet_id, payload.as_bytes()];
        publisher.send(&raw::packet(0x34, &body.concat()));
        publisher.expect(5);
        answer(&mut publisher, 0x62, packet_id);
        publisher.expect(7);
    }
}

#[test]
fn what_waits_for_a_client_that_is_away_is_there_after_a_kill_and_a_stop() {
    for (version, kills) in [
        (Version::V4, true),
        (Version::V5, true),
        (Version::V4, false),
        (Version::V5, false),
    ] {
        let server = Plan::new().tcp().anonymous();
        let server = server.variable("STENTOR_SHARDS", "3").start();
        let (mut client, _) = come_back(&server, version, "away");
        client.subscribe("x/+", 2);
        // The server knows that it is gone, and sends it nothing.
        client.send(&[0xE0, 0]);
        client.closed();
        let mut publisher = server.client(Version::V4, "p1");
        publisher.publish_surely("x/1", b"one");
        publisher.publish_surely("x/1", b"two");
        publish_at_qos_2(&server, "x/2", &["three", "four"]);
        let server = restart(server, kills, "2");
        // Nobody was there to take them.
        let server = restart(server, !kills, "3");
        let (mut client, was_there) = come_back(&server, version, "away");
        assert!(was_there);
        let mut got = Vec::new();
        // All come before the first answer.
        let messages = [(); 4].map(|()| published(&mut client, version));
        for message in messages {
            assert!(!message.dup, "{message:?}");
            got.push((message.payload, message.qos));
            match message.qos {
                1 => answer(&mut client, 0x40, message.packet_id),
                _ => {
                    answer(&mut client, 0x50, message.packet_id);
                    client.expect(6);
                    answer(&mut client, 0x70, message.packet_id);
                }
            }
        }
        got.sort();
        let of = |payload: &[u8], qos| (payload.to_vec(), qos);
        let expected = [
            of(b"four", 2),
            of(b"one", 1),
            of(b"three", 2),
            of(b"two", 1),
        ];
        assert_eq!(got, expected, "kills: {kills}");
        client.ping();
    }
}

#[test]
fn what_was_sent_before_a_kill_is_sent_again_with_its_packet_id() {
    let server = Plan::new().tcp().anonymous().start();
    let (mut client, _) = come_back(&server, Version::V5, "there");
    client.subscribe("one", 1);
    client.subscribe("two", 2);
    let mut publisher = server.client(Version::V4, "p1");
    publisher.publish_surely("one", b"1");
    publish_at_qos_2(&server, "two", &["2", "received"]);
    let [one, two, received] = [(); 3].map(|()| published(&mut client, Version::V5));
    answer(&mut client, 0x50, received.packet_id);
    client.expect(6);
    let server = restart(server, true, "2");
    let (mut client, was_there) = come_back(&server, Version::V5, "there");
    assert!(was_there);
    for before in [one, two] {
        let again = published(&mut client, Version::V5);
        assert_eq!(
            again,
            Published {
                dup: true,
                ..before
            }
        );
        let first = [0x40, 0x50][usize::from(again.qos) - 1];
        answer(&mut client, first, again.packet_id);
    }
    // It has that one.
    let mut released = [0; 2].map(|_| client.expect(6).body[..2].to_vec());
    released.sort();
    assert!(
        released.contains(&received.packet_id.to_vec()),
        "{released:?}"
    );
}

/// The same PUBLISH of QoS 2 comes twice, since its answer may be lost by the kill.
#[test]
fn a_message_of_qos_2_that_is_sent_again_after_a_kill_is_not_taken_twice() {
    let server = Plan::new().tcp().anonymous().start();
    let (mut subscriber, _) = come_back(&server, Version::V4, "subscriber");
    subscriber.subscribe("x", 1);
    drop(subscriber);
    let (mut publisher, _) = come_back(&server, Version::V4, "publisher");
    let publish = |first: u8, payload: &[u8]| {
        let body = [&raw::string("x")[..], &[0, 9], payload].concat();
        raw::packet(first, &body)
    };
    publisher.send(&publish(0x34, b"once"));
    publisher.expect(5);
    let server = restart(server, true, "2");
    let (mut publisher, was_there) = come_back(&server, Version::V4, "publisher");
    assert!(was_there);
    publisher.send(&publish(0x3C, b"once"));
    publisher.expect(5);
    answer(&mut publisher, 0x62, [0, 9]);
    publisher.expect(7);
    // The id is free for another one.
    publisher.send(&publish(0x34, b"another"));
    publisher.expect(5);
    let (mut subscriber, _) = come_back(&server, Version::V4, "subscriber");
    for expected in [&b"once"[..], b"another"] {
        let message = published(&mut subscriber, Version::V4);
        assert_eq!(message.payload, expected);
        answer(&mut subscriber, 0x40, message.packet_id);
    }
    subscriber.ping();
}

#[test]
fn mosquitto_sub_gets_what_mosquitto_pub_sent_before_a_kill() {
    let mut server = Plan::new().tcp().anonymous().start();
    let run = |server: &Server, tool: &str, more: &[&str]| {
        let mut command = tools::mosquitto(tool);
        command.args(["-h", "127.0.0.1", "-p", &server.port("mqtt")]);
        process::run(command.args(more)).success()
    };
    let sub = ["-c", "-i", "fetcher", "-q", "2", "-t", "fetch/#"];
    run(&server, "mosquitto_sub", &[&sub[..], &["-E"]].concat());
    for (qos, kills) in [("1", true), ("2", true), ("1", false), ("2", false)] {
        let publish = ["-t", "fetch/it", "-q", qos, "-m", "before the end"];
        run(&server, "mosquitto_pub", &publish);
        server = restart(server, kills, "2");
        let once = ["-C", "1", "-F", "%q %t %p"];
        let got = run(&server, "mosquitto_sub", &[&sub[..], &once].concat());
        assert_eq!(
            got,
            format!("{qos} fetch/it before the end\n"),
            "kills: {kills}"
        );
    }
}

/// What publishers were told, outside of the server.
#[derive(Debug, Default)]
struct Told {
    acknowledged: Mutex<BTreeSet<String>>,
    count: AtomicUsize,
}

/// Publishes at QoS 1 until the server is gone. Some messages are large.
fn publish_until_the_end(mut client: Raw, name: &str, told: &Told) {
    const WINDOW: u16 = 20;
    let (mut sent, mut acknowledged) = (0_u16, 0);
    loop {
        while sent - acknowledged < WINDOW {
            sent += 1;
            let bytes = if sent.is_multiple_of(40) { 60_000 } else { 10 };
            let payload = format!("{name}-{sent} {}", "x".repeat(bytes));
            if client
                .try_send(&publish("load/1", sent, payload.as_bytes()))
                .is_err()
            {
                return;
            }
        }
        let Some(packet) = client.try_receive() else {
            return;
        };
        assert_eq!(packet.kind(), 4, "{packet:?}");
        acknowledged += 1;
        let id = u16::from_be_bytes([packet.body[0], packet.body[1]]);
        let mut all = told.acknowledged.lock().expect("nobody panics");
        all.insert(format!("{name}-{id}"));
        told.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A PUBLISH of QoS 1.
fn publish(topic: &str, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let body = [&raw::string(topic)[..], &packet_id.to_be_bytes(), payload];
    raw::packet(0x32, &body.concat())
}

/// Takes and acknowledges what waits for a client of QoS 1, until the marker comes, which was
/// published after all of it. Returns the first word of each.
fn take_all(client: &mut Raw, marker: &str) -> Vec<String> {
    let mut got = Vec::new();
    loop {
        let message = published(client, Version::V4);
        answer(client, 0x40, message.packet_id);
        let word = message.payload.split(|byte| *byte == b' ').next();
        let word = String::from_utf8(word.unwrap_or_default().to_vec()).expect("a word");
        if word == marker {
            return got;
        }
        got.push(word);
    }
}

#[test]
fn what_was_acknowledged_under_load_is_there_after_kills() {
    nothing_is_lost_under_load("interval");
}

/// Acknowledgements that wait for the disk come, however many wait, and promise no less.
#[test]
fn so_it_is_when_acknowledgements_wait_for_the_disk() {
    nothing_is_lost_under_load("always");
}

/// A client that sends much before it reads anything, and closes its half at once, gets every
/// acknowledgement: a commit covers many of them.
#[test]
fn acknowledgements_that_wait_for_the_disk_reach_who_sends_many_at_once() {
    const MESSAGES: u16 = 2_000;
    let config = "[sessions]\nsync = \"always\"\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    let (mut subscriber, _) = come_back(&server, Version::V4, "subscriber");
    subscriber.subscribe("much", 1);
    let mut publisher = server.client(Version::V4, "publisher");
    for number in 1..=MESSAGES {
        let [high, low] = number.to_be_bytes();
        let body = [&raw::string("much")[..], &[high, low], &[b'x'; 300]].concat();
        publisher.send(&raw::packet(0x32, &body));
        if number % 20 == 0 {
            let (_, payload) = subscriber.message();
            assert_eq!(payload.len(), 300);
        }
    }
    publisher.half_close();
    for number in 1..=MESSAGES {
        assert_eq!(publisher.expect(4).body, number.to_be_bytes());
    }
    publisher.closed();
}

/// Kills under load. An absent client and the absent members of a shared subscription get all that
/// was acknowledged.
fn nothing_is_lost_under_load(sync: &str) {
    const MESSAGES: usize = 300;
    let limits = "[limits]\nqueue_bytes = \"64MiB\"\n";
    let config = format!("{limits}[sessions]\nsync = \"{sync}\"\n");
    let plan = Plan::new().tcp().anonymous().config(&config);
    let mut server = plan.variable("STENTOR_SHARDS", "3").start();
    for (id, filter) in [
        ("absent", "load/+"),
        ("member1", "$share/g/load/+"),
        ("member2", "$share/g/load/+"),
    ] {
        let (mut client, _) = come_back(&server, Version::V4, id);
        client.subscribe(filter, 1);
    }
    let told = Told::default();
    for (round, shards) in ["2", "4", "3", "1"].into_iter().enumerate() {
        let until = MESSAGES * (round + 1);
        server = std::thread::scope(|scope| {
            for number in 0..4 {
                let name = format!("r{round}p{number}");
                let (client, told) = (server.client(Version::V4, &name), &told);
                scope.spawn(move || publish_until_the_end(client, &name, told));
            }
            let reached = || told.count.load(Ordering::Relaxed) >= until;
            raw::eventually("enough is acknowledged", reached);
            restart(server, true, shards)
        });
    }
    let mut publisher = server.client(Version::V4, "last");
    let acknowledged = told.acknowledged.lock().expect("nobody panics");
    assert!(acknowledged.len() >= 4 * MESSAGES);
    let mut shared = BTreeSet::new();
    for id in ["absent", "member1", "member2"] {
        let (mut client, was_there) = come_back(&server, Version::V4, id);
        assert!(was_there, "{id}");
        // Of the members, the one that is there gets it, after all that waits.
        publisher.publish_surely("load/1", b"marker");
        let got: BTreeSet<String> = take_all(&mut client, "marker").into_iter().collect();
        if id == "absent" {
            let lost: Vec<_> = acknowledged.difference(&got).collect();
            assert!(lost.is_empty(), "lost: {lost:?}");
        } else {
            shared.extend(got);
        }
    }
    let lost: Vec<_> = acknowledged.difference(&shared).collect();
    assert!(lost.is_empty(), "lost to the group: {lost:?}");
}

/// Far more waits for one client than a file of the journal has room for.
#[test]
fn a_long_backlog_survives_kills() {
    const BYTES: usize = 100_000;
    let limits = "[limits]\nqueue_bytes = \"64MiB\"\n";
    let mut server = Plan::new().tcp().anonymous().config(limits).start();
    let (mut client, _) = come_back(&server, Version::V4, "absent");
    client.subscribe("log", 1);
    drop(client);
    let mut expected = Vec::new();
    let payload = |word: &str| format!("{word} {}", "x".repeat(BYTES)).into_bytes();
    for (shards, count) in [("2", 15), ("3", 100), ("1", 1)] {
        let mut publisher = server.client(Version::V4, "publisher");
        for number in 0..count {
            let word = format!("{shards}-{number}");
            publisher.publish_surely("log", &payload(&word));
            expected.push(word);
        }
        server = restart(server, true, shards);
    }
    let mut publisher = server.client(Version::V4, "publisher");
    publisher.publish_surely("log", b"marker");
    let (mut client, was_there) = come_back(&server, Version::V4, "absent");
    assert!(was_there);
    assert_eq!(take_all(&mut client, "marker"), expected);
}
