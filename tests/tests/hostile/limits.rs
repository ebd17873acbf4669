//! At a limit new work is refused politely, and what is there goes on.

use std::time::Instant;

use stentor_tests::raw::{connect, eventually, packet, publish, string, subscribe};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::Healthy;

#[test]
fn connections_beyond_the_limit_are_refused_and_the_others_stay() {
    let config = "[limits]\nconnections = 4\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    let mut third = server.client(Version::V5, "third");
    let mut fourth = server.client(Version::V4, "fourth");
    for number in 0..50 {
        let mut refused = server.dial();
        // The server may have closed before the login arrives.
        let _ = refused.try_send(&connect(Version::V5, &format!("late-{number}"), true));
        if let Some(packet) = refused.try_receive() {
            assert!(packet.kind() == 2 && packet.body[1] >= 0x80, "{packet:?}");
        }
        refused.closed();
        healthy.check();
    }
    third.ping();
    fourth.ping();
    drop(fourth);
    eventually("a free place", || {
        let mut client = server.dial();
        let _ = client.try_send(&connect(Version::V5, "next", true));
        client
            .try_receive()
            .is_some_and(|packet| packet.kind() == 2 && packet.body[1] == 0)
    });
}

#[test]
fn connections_from_one_address_are_limited() {
    let config = "[limits]\nconnections_per_address = 2\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    let mut refused = server.dial();
    let _ = refused.try_send(&connect(Version::V5, "third", true));
    if let Some(packet) = refused.try_receive() {
        assert!(packet.kind() == 2 && packet.body[1] >= 0x80, "{packet:?}");
    }
    refused.closed();
    healthy.check();
}

#[test]
fn subscriptions_beyond_the_quota_are_refused_and_the_connection_stays() {
    let config = "[limits]\nsubscriptions_per_client = 3\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut client = server.client(Version::V5, "greedy");
    for number in 0..3 {
        client.subscribe(&format!("f{number}"), 0);
    }
    client.send(&subscribe(Version::V5, 9, "f4", 0));
    // 0x97 "quota exceeded".
    assert_eq!(client.expect(9).body.last(), Some(&0x97));
    client.ping();
    let mut old = server.client(Version::V4, "old");
    for number in 0..3 {
        old.subscribe(&format!("f{number}"), 0);
    }
    old.send(&subscribe(Version::V4, 9, "f4", 0));
    assert_eq!(old.expect(9).body.last(), Some(&0x80));
    old.ping();
}

#[test]
fn sessions_beyond_the_limit_are_refused_and_those_that_are_there_go_on() {
    let config = "[limits]\nsessions = 2\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    // In 3.1.1 a session lasts until its client wants a clean one.
    for client_id in ["first", "second"] {
        server.dial().login(Version::V4, client_id, false);
    }
    let mut refused = server.dial();
    refused.send(&connect(Version::V4, "third", false));
    // 3: the server is unavailable.
    assert_eq!(refused.expect(2).body, [0, 3]);
    refused.closed();
    let back = server.dial().login(Version::V4, "first", false);
    assert_eq!(back.body, [1, 0], "its session is there");
    server.dial().login(Version::V4, "brief", true);
    healthy.check();
    server.dial().login(Version::V4, "second", true);
    server.dial().login(Version::V4, "third", false);
}

/// Somebody who takes all places and leaves keeps nobody else out: the audit's B3.
#[test]
fn who_holds_most_sessions_gives_way_to_a_newcomer() {
    let plan = Plan::new().config("[limits]\nsessions = 20\n").tcp();
    let path = plan.folder().join("mqtt.sock");
    let server = plan
        .listen(&format!("unix:{}", path.display()))
        .anonymous()
        .start();
    let mut healthy = Healthy::new(&server);
    for number in 0..20 {
        let client_id = format!("hog{number}");
        server.dial().login(Version::V4, &client_id, false);
    }
    let mut refused = server.dial();
    refused.send(&connect(Version::V4, "hog20", false));
    assert_eq!(
        refused.expect(2).body,
        [0, 3],
        "who holds most gets no more"
    );
    // Processes of this machine by their user, and not by an address.
    for number in 0..3 {
        let accepted = Raw::unix(&path).login(Version::V4, &format!("ann{number}"), false);
        assert_eq!(accepted.body, [0, 0]);
    }
    healthy.check();
    let status = server.json(&["status"]);
    assert_eq!(status["sessions_evicted"], 3);
}

/// Connects with a session that outlives the connection, for messages of one topic.
fn subscribed(server: &Server, client_id: &str) -> Raw {
    let mut client = server.dial();
    client.login(Version::V4, client_id, false);
    client.subscribe(client_id, 1);
    client
}

#[test]
fn sessions_that_hold_much_end_when_memory_is_short() {
    let config = "[limits]\nmemory = \"4MiB\"\n";
    // Each shard ends whole sessions: many shards would end all of these.
    let plan = Plan::new().config(config).tcp().anonymous();
    let server = plan.arg("--shards").arg("1").start();
    let mut healthy = Healthy::new(&server);
    for number in 0..8 {
        drop(subscribed(&server, &format!("away{number}")));
    }
    let mut publisher = server.client(Version::V5, "publisher");
    for number in 0..8 {
        publisher.publish_surely(&format!("away{number}"), &[b'x'; 1 << 20]);
        healthy.check();
    }
    eventually("room", || {
        let status = server.json(&["status"]);
        let held = status["memory"]["held_bytes"].as_u64();
        held.is_some_and(|held| held < 4 << 20) && status["sessions_evicted"].as_u64() > Some(3)
    });
    healthy.check();
    publisher.ping();
    let status = server.json(&["status"]);
    assert_eq!(status["memory"]["budget_bytes"], 4 << 20);
    let lost = &status["losses"]["by_cause"]["session-ended"];
    assert_eq!(
        *lost, status["sessions_evicted"],
        "one message waited in each"
    );
    let first = &status["memory"]["holders"][0];
    let name = first["client_id"].as_str().unwrap_or_default();
    assert!(
        name.starts_with("away") && first["connected"] == false,
        "{first}"
    );
}

/// A CONNECT of 3.1.1 with the longest will that there is.
fn with_will(client_id: &str) -> Vec<u8> {
    let mut body = string("MQTT");
    // Level 4; a clean session with a will; no keep alive.
    body.extend([4, 0b0000_0110, 0, 0]);
    for text in [client_id, "will", &"x".repeat(65_535)] {
        body.extend(string(text));
    }
    packet(0x10, &body)
}

#[test]
fn only_those_who_have_a_session_come_in_when_the_limit_of_memory_is_reached() {
    let config = "[limits]\nmemory = \"4MiB\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    // Live connections within their bounds, each with a will of 64 KB.
    let mut heirs: Vec<Raw> = Vec::new();
    for number in 0..70 {
        let mut client = server.dial();
        client.send(&with_will(&format!("heir{number}")));
        if client.expect(2).body != [0, 0] {
            break;
        }
        heirs.push(client);
    }
    assert!(heirs.len() > 50, "{} came in", heirs.len());
    eventually("a full server", || knock(&server, "newcomer") == 0x97);
    let mut old = server.dial();
    old.send(&connect(Version::V4, "newcomer", true));
    assert_eq!(old.expect(2).body, [0, 3]);
    healthy.check();
    drop(heirs);
    eventually("room", || knock(&server, "newcomer") == 0);
    healthy.check();
}

#[test]
fn filters_that_are_too_long_together_are_refused() {
    let config = "[limits]\nsubscription_bytes_per_client = 65536\ntopic_bytes = 65535\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut client = server.client(Version::V5, "greedy");
    let filter = |number: usize| format!("{number}{}", "x".repeat(30_000));
    client.subscribe(&filter(1), 0);
    client.subscribe(&filter(2), 0);
    client.send(&subscribe(Version::V5, 9, &filter(3), 0));
    assert_eq!(client.expect(9).body.last(), Some(&0x97));
    client.ping();
}

const BASE: &str = "allow_anonymous = true\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";

/// Connects and logs in; the reason code of the CONNACK.
#[track_caller]
fn knock(server: &Server, client_id: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect(Version::V5, client_id, true));
    client.expect(2).body[1]
}

#[test]
fn connections_beyond_the_rate_are_refused_and_come_in_later() {
    let server = Plan::new().config(BASE).start();
    let mut healthy = Healthy::new(&server);
    server.reconfigure(&format!("{BASE}[limits]\nconnection_rate = 1\n"));
    server.control(&["reload"]).success();
    let started = Instant::now();
    let codes: Vec<u8> = (0..30)
        .map(|number| knock(&server, &format!("c{number}")))
        .collect();
    let seconds = usize::try_from(started.elapsed().as_secs()).expect("not that long");
    let admitted = codes.iter().filter(|code| **code == 0).count();
    // 0x9F "connection rate exceeded".
    let refused = codes.iter().filter(|code| **code == 0x9F).count();
    assert_eq!(admitted + refused, codes.len(), "{codes:02x?}");
    assert!(
        admitted <= seconds + 2,
        "{admitted} came in within {seconds} s"
    );
    healthy.check();
    server.wait_log(0, "limits.connection_rate");
    eventually("a place for who tries again", || {
        knock(&server, "patient") == 0
    });
}

/// Of clients behind a balancer: one address comes too fast, in ever new addresses of its /64.
#[test]
fn an_address_that_connects_too_fast_keeps_no_other_out() {
    let config = format!(
        "{BASE}proxies = [\"127.0.0.1\"]\n[limits]\nconnection_rate = 20\n\
         connection_rate_per_address = 1\n"
    );
    let server = Plan::new().config(&config).start();
    let knock = |address: &str| {
        let mut client = server.dial();
        let header = format!("PROXY TCP6 {address} 2001:db8:ffff::1 4711 1883\r\n");
        client.send(&[header.as_bytes(), &connect(Version::V5, "", true)].concat());
        client.expect(2).body[1]
    };
    let started = Instant::now();
    let codes: Vec<u8> = (1..=60)
        .map(|last| knock(&format!("2001:db8:0:1::{last:x}")))
        .collect();
    let seconds = usize::try_from(started.elapsed().as_secs()).expect("not that long");
    let refused = codes.iter().filter(|code| **code == 0x9F).count();
    assert!(refused >= 60 - 2 - seconds, "{codes:02x?}");
    assert_eq!(knock("2001:db8:0:2::1"), 0);
    server.wait_log(0, "limits.connection_rate_per_address");
}

/// Connections that never log in take all places: those of the address that has most go when
/// somebody else comes, and clients that are in stay.
#[test]
fn strangers_give_way_to_newcomers_of_other_addresses() {
    const PLACES: usize = 20;
    let config = format!(
        "{BASE}proxies = [\"127.0.0.1\"]\n[limits]\nconnections = {PLACES}\n\
         login_timeout = \"5m\"\n"
    );
    let server = Plan::new().config(&config).arg("--shards=1").start();
    let dial = |address: &str, rest: &[u8]| {
        let mut client = server.dial();
        let header = format!("PROXY TCP4 {address} 192.0.2.200 4711 1883\r\n");
        client.send(&[header.as_bytes(), rest].concat());
        client
    };
    // The code of the answer, and the connection.
    let knock = |address: &str| {
        let mut client = dial(address, &connect(Version::V5, "", true));
        (client.expect(2).body[1], client)
    };
    let (code, mut first) = knock("192.0.2.1");
    assert_eq!(code, 0);
    let _strangers: Vec<Raw> = (0..2 * PLACES).map(|_| dial("192.0.2.1", &[])).collect();
    // 0x97 "quota exceeded", for the address that has taken the places.
    eventually("a full server", || knock("192.0.2.1").0 == 0x97);
    let mut newcomers = Vec::new();
    for last in 2..PLACES {
        let (code, newcomer) = knock(&format!("192.0.2.{last}"));
        assert_eq!(code, 0, "the newcomer {last}");
        newcomers.push(newcomer);
    }
    // One stranger is left, and whoever is alone stays.
    assert_eq!(knock("192.0.2.100").0, 0x97);
    first.ping();
    for newcomer in &mut newcomers {
        newcomer.ping();
    }
    server.wait_log(0, "limits.connections");
}

/// The limit of one listener leaves the others alone.
#[test]
fn a_full_listener_refuses_and_the_others_do_not() {
    let config = format!("{BASE}max_connections = 1\n[[listener]]\nurl = \"ws://127.0.0.1:0\"\n");
    let server = Plan::new().config(&config).start();
    let mut first = server.client(Version::V5, "first");
    // 0x97 "quota exceeded".
    assert_eq!(knock(&server, "second"), 0x97);
    let mut web = Raw::tcp(&server.address("ws"));
    web.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(web.until(b"\r\n").starts_with(b"HTTP/1.1 200"));
    first.ping();
}

/// A limit that is lowered while clients are there holds for those who come.
#[test]
fn a_lowered_limit_sends_nobody_away() {
    let server = Plan::new().config(BASE).start();
    let mut healthy = Healthy::new(&server);
    let mut third = server.client(Version::V4, "third");
    server.reconfigure(&format!("{BASE}[limits]\nconnections = 1\n"));
    server.control(&["reload"]).success();
    assert_eq!(knock(&server, "fourth"), 0x97);
    third.ping();
    healthy.check();
}

/// Where nothing goes to the disk, what waits for a client that is away takes no more than its
/// bytes; the rest is counted for that
/// client, and its publisher, whose message was taken, hears nothing of it
/// (docs/decisions/0010-a-full-queue-is-its-readers.md).
#[test]
fn queued_bytes_are_bounded_for_a_client_that_is_away() {
    let limits = "[limits]\nqueue_bytes = \"64KiB\"\npacket_bytes = \"32KiB\"\n";
    let config = format!("{limits}[sessions]\nclient_bytes = 0\n");
    let server = Plan::new().config(&config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    let mut away = server.dial();
    away.login(Version::V5, "away", false);
    away.subscribe("queue", 1);
    away.send(&[0xE0, 0]);
    away.closed();
    let mut publisher = server.client(Version::V5, "publisher");
    for number in 0..40_u8 {
        let message = publish(Version::V5, "queue", &vec![number; 10_000], 1, false);
        publisher.send(&message);
        let answer = publisher.expect(4).body;
        assert_eq!(answer.get(2).copied().unwrap_or(0), 0, "{answer:?}");
    }
    healthy.check();
    let log = server.wait_log(0, "loses messages");
    let line = log.lines().find(|line| line.contains("loses messages"));
    let line = line.expect("it was just there");
    assert!(
        line.contains("away") && line.contains("drop-newest"),
        "{line}"
    );
    // The one limit that was met.
    let bound = "65536 bytes may wait (`limits.queue_bytes`)";
    assert!(
        line.contains(bound) && !line.contains("queue_messages"),
        "{line}"
    );
    let mut back = server.dial();
    assert_eq!(back.login(Version::V5, "away", false).body[0], 1);
    // What is published once this is acknowledged comes after what was kept.
    back.send(&subscribe(Version::V5, 1, "fence", 0));
    let mut kept = 0;
    loop {
        let message = back.receive();
        if message.kind() == 9 {
            healthy.publisher.publish_surely("fence", b"");
            continue;
        }
        let (topic, payload) = message.message(Version::V5);
        if topic == "fence" {
            break;
        }
        assert_eq!(payload, vec![kept; 10_000], "the oldest are kept, in order");
        // The packet id follows the topic.
        back.send(&packet(0x40, &message.body[7..9]));
        kept += 1;
    }
    assert!((1..=6).contains(&kept), "{kept} of 10,000 bytes in 64 KiB");
    let losses = &server.json(&["status"])["losses"];
    assert_eq!(losses["worst"][0]["client_id"], "away", "{losses}");
    let lost = u64::from(40 - kept);
    assert_eq!(losses["worst"][0]["messages"], lost, "{losses}");
    assert_eq!(losses["by_cause"]["drop-newest"], lost, "{losses}");
}

/// The beginning of a packet of 1,000,000 bytes.
fn long_packet(first: u8, len: usize) -> Vec<u8> {
    let mut packet = [&[first, 0xC0, 0x84, 0x3D][..], &vec![0; len]].concat();
    if first == 0x10 {
        // A CONNECT of MQTT 5 with long properties.
        packet[4..10].copy_from_slice(b"\0\x04MQTT");
        packet[10..16].copy_from_slice(&[5, 2, 0, 0, 0, 0xFF]);
    }
    packet
}

/// Unfinished packets of one address take the room, in WebSocket frames too: its connections close,
/// and a client at another address finishes a packet that it sends slowly.
#[test]
fn who_holds_most_unfinished_packets_loses_them_first() {
    let config = format!(
        "{BASE}proxies = [\"127.0.0.1\"]\n[[listener]]\nurl = \"ws://127.0.0.1:0\"\n\
         proxies = [\"127.0.0.1\"]\n[limits]\nmemory = \"64MiB\"\n"
    );
    let server = Plan::new().config(&config).arg("--shards=1").start();
    let dial = |scheme: &str, address: &str| {
        let mut client = Raw::tcp(&server.address(scheme));
        client.send(format!("PROXY TCP4 {address} 192.0.2.200 4711 1883\r\n").as_bytes());
        client
    };
    let mut slow = dial("mqtt", "192.0.2.2");
    slow.login(Version::V5, "slow", true);
    // A PUBLISH of QoS 1 of 1,000,000 bytes to the topic "t", with packet id 1.
    let mut whole = long_packet(0x32, 1_000_000);
    whole[4..10].copy_from_slice(&[0, 1, b't', 0, 1, 0]);
    let mut parts = whole.chunks(100_000);
    let mut others = Vec::new();
    for part in parts.by_ref().take(9) {
        slow.send(part);
        for _ in 0..3 {
            let mut plain = dial("mqtt", "192.0.2.1");
            let _ = plain.try_send(&long_packet(0x10, 900_000));
            let mut web = dial("ws", "192.0.2.1");
            web.send(
                b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                  Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                  Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
            );
            let _ = web.until(b"\r\n\r\n");
            // The first frame of a message, and the beginning of another: masks change nothing.
            let packet = long_packet(0x10, 900_000);
            let first = [&[0x02, 0xFE, 0x80, 0, 0, 0, 0, 0][..], &packet[..0x8000]].concat();
            let second = [&[0x00, 0xFF, 0, 0, 0, 0, 0, 0x0F, 0, 0][..], &[0; 4]].concat();
            let _ = web.try_send(&[&first[..], &second, &packet[0x8000..]].concat());
            others.extend([plain, web]);
        }
        let status = server.json(&["status", "--sample-ms", "0"]);
        let held = status["memory"]["by_kind"]["connections"].as_u64();
        assert!(held < Some(24 << 20), "{held:?}");
    }
    parts.for_each(|part| slow.send(part));
    assert_eq!(slow.expect(4).body[..2], [0, 1]);
    server.wait_log(0, "limits.memory");
}

/// The parts are short, but many: the connections of the address that holds them close, and clients
/// at other addresses come and go.
#[test]
fn many_short_parts_of_one_address_take_the_room_of_nobody_else() {
    let config = format!("{BASE}proxies = [\"127.0.0.1\"]\n[limits]\nmemory = \"32MiB\"\n");
    let server = Plan::new().config(&config).arg("--shards=1").start();
    let dial = |address: &str| {
        let mut client = Raw::tcp(&server.address("mqtt"));
        client.send(format!("PROXY TCP4 {address} 192.0.2.200 4711 1883\r\n").as_bytes());
        client
    };
    let mut slow = dial("192.0.2.2");
    slow.login(Version::V5, "slow", true);
    let mut whole = long_packet(0x32, 1_000_000);
    whole[4..10].copy_from_slice(&[0, 1, b't', 0, 1, 0]);
    let (first, rest) = whole.split_at(900_000);
    slow.send(first);
    let part = long_packet(0x30, 60_000);
    let mut others = Vec::new();
    for number in 0..600 {
        let mut other = dial("192.0.2.1");
        other.login(Version::V5, &format!("other-{number}"), true);
        let _ = other.try_send(&part);
        others.push(other);
    }
    let status = server.json(&["status", "--sample-ms", "0"]);
    let held = status["memory"]["by_kind"]["connections"].as_u64();
    assert!(held < Some(12 << 20), "{held:?}");
    dial("192.0.2.3").login(Version::V5, "newcomer", true);
    slow.send(rest);
    assert_eq!(slow.expect(4).body[..2], [0, 1]);
    let ended = others.into_iter().filter_map(|mut other| {
        other.half_close_softly();
        let rest = other.rest();
        (!rest.is_empty()).then(|| assert_eq!((rest[0], rest[2]), (0xE0, 0x97)))
    });
    assert!(ended.count() > 100, "the others are of one address");
}

/// Packets that never end take a part of the memory: strangers' connections close, a client's too,
/// and sessions that wait for their clients stay.
#[test]
fn packets_that_do_not_end_take_a_part_of_the_memory() {
    /// A quarter of the memory, and what each shard may have read in the turn before.
    const MOST: u64 = 24 << 20;
    let config = "[limits]\nmemory = \"64MiB\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    // In 3.1.1 a session lasts until its client wants a clean one.
    let mut absent = server.dial();
    absent.login(Version::V4, "absent", false);
    drop(absent);
    let connections = || {
        let status = server.json(&["status", "--sample-ms", "0"]);
        status["memory"]["by_kind"]["connections"].as_u64().unwrap()
    };
    let connect = long_packet(0x10, 900_000);
    let mut strangers = Vec::new();
    for number in 0..60 {
        let mut stranger = server.dial();
        let _ = stranger.try_send(&connect);
        strangers.push(stranger);
        if number % 10 == 0 {
            healthy.check();
            assert!(connections() < MOST);
        }
    }
    let clients = (0..20).map(|number| {
        let mut client = server.client(Version::V5, &format!("long-{number}"));
        let _ = client.try_send(&long_packet(0x30, 900_000));
        client
    });
    let clients: Vec<Raw> = clients.collect();
    assert!(connections() < MOST);
    let refused = clients.into_iter().filter_map(|mut client| {
        client.half_close_softly();
        let rest = client.rest();
        (!rest.is_empty()).then(|| assert_eq!((rest[0], rest[2]), (0xE0, 0x97)))
    });
    assert!(refused.count() > 0, "some find no room");
    healthy.check();
    let mut absent = server.dial();
    let connack = absent.login(Version::V4, "absent", false);
    assert_eq!(connack.body[0], 1, "its session has waited");
}

/// A name that is too long is not kept as that of an alias either.
#[test]
fn a_topic_that_is_refused_sets_no_alias() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut client = server.client(Version::V5, "aliases");
    let aliased = |topic: &str| {
        // Topic Alias 1.
        let body = [&string(topic)[..], &[3, 0x23, 0, 1], b"x"].concat();
        packet(0x30, &body)
    };
    client.send(&aliased(&"x".repeat(60_000)));
    client.ping();
    client.send(&aliased(""));
    let packet = client.expect(14);
    assert_eq!(packet.body.first(), Some(&0x82), "{packet:?}");
    client.closed();
    healthy.check();
}
