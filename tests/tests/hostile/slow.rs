//! Clients that send slowly, stop in the middle, or never read.

use stentor_tests::raw::{connect, eventually, packet, publish, string, subscribe};
use stentor_tests::{Plan, Server, Version};

use crate::Healthy;

#[test]
fn packets_that_come_byte_by_byte_are_understood() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut slow = server.dial();
    let mut bytes = connect(Version::V5, "slow", true);
    bytes.extend(subscribe(Version::V5, 1, "slow", 0));
    bytes.extend(publish(Version::V5, "slow", b"at last", 0, false));
    for (index, byte) in bytes.iter().enumerate() {
        slow.send(&[*byte]);
        if index % 10 == 0 {
            healthy.check();
        }
    }
    slow.speaks(Version::V5);
    slow.expect(2);
    slow.expect(9);
    assert_eq!(slow.message(), ("slow".to_owned(), b"at last".to_vec()));
}

#[test]
fn half_packets_of_each_length_are_forgotten() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut bytes = connect(Version::V4, "half", true);
    let login = bytes.len();
    bytes.extend(publish(
        Version::V4,
        "healthy/half",
        b"never to be seen",
        0,
        false,
    ));
    for length in 0..bytes.len() {
        let mut half = server.dial();
        half.send(&bytes[..length]);
        if length >= login {
            half.expect(2);
        }
        drop(half);
        healthy.check();
    }
}

#[test]
fn a_client_that_never_logs_in_is_sent_away() {
    let config = "[limits]\nlogin_timeout = \"4s\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    // The healthy ones have the same four seconds for their login, and need a thousandth of it.
    let mut silent = server.dial();
    let mut half = server.dial();
    half.send(&connect(Version::V5, "half", true)[..9]);
    silent.closed();
    half.closed();
    healthy.check();
}

#[test]
fn a_client_that_falls_silent_loses_its_connection() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut silent = server.dial();
    // The keep alive is one second, so it is noticed within two and a half.
    let mut bytes = connect(Version::V5, "silent", true);
    bytes[11] = 1;
    // Before the server can know of it: what is measured is never less than what it waits.
    let started = std::time::Instant::now();
    silent.send(&bytes);
    silent.expect(2);
    // 0x8D "keep alive timeout".
    let packet = silent.receive();
    assert_eq!(
        (packet.kind(), packet.body.first()),
        (14, Some(&0x8D)),
        "{packet:?}"
    );
    silent.closed();
    // The upper bound is checked on a virtual clock, where no other program takes the time.
    let waited = started.elapsed().as_millis();
    assert!(waited >= 1_500, "noticed after {waited} ms");
    healthy.check();
}

#[test]
fn a_subscriber_that_never_reads_loses_its_own_messages_only() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut lazy = server.client(Version::V5, "lazy");
    lazy.subscribe("flood", 0);
    let mut sender = server.client(Version::V4, "sender");
    let payload = [b'x'; 100_000];
    for _ in 0..300 {
        sender.publish_surely("flood", &payload);
        healthy.check();
    }
    let status = server.json(&["status"]);
    let losses = &status["losses"];
    assert!(
        losses["by_cause"]["drop-newest"].as_u64() > Some(0),
        "{losses}"
    );
    assert_eq!(losses["worst"][0]["client_id"], "lazy", "{losses}");
    assert_eq!(losses["worst"][0]["topic"], "flood", "{losses}");
    // What was not dropped is still delivered, whole.
    assert_eq!(lazy.message(), ("flood".to_owned(), payload.to_vec()));
    healthy.check();
}

/// Policy `conflate`: what it reads is ever newer, and the last is never lost.
#[test]
fn a_subscriber_that_is_slow_gets_the_newest_message() {
    newest_messages("", 100_000);
}

/// The same where less may wait than what others have to leave unread before they count as slow.
#[test]
fn a_slow_subscriber_with_a_small_queue_gets_the_newest_message() {
    newest_messages(
        "queue_bytes = \"64KiB\"\npacket_bytes = \"32KiB\"\n",
        20_000,
    );
}

fn newest_messages(limits: &str, payload_bytes: usize) {
    let config =
        format!("[limits]\n{limits}[[policy]]\nfilter = \"tick/#\"\nqos0 = \"conflate\"\n");
    let server = Plan::new().config(&config).tcp().anonymous().start();
    let mut healthy = Healthy::new(&server);
    let mut lazy = server.client(Version::V5, "lazy");
    lazy.subscribe("tick/#", 0);
    let mut sender = server.client(Version::V4, "sender");
    let mut payload = vec![b'x'; payload_bytes];
    for number in 0..300_u32 {
        payload[..4].copy_from_slice(&number.to_be_bytes());
        sender.publish_surely("tick/a", &payload);
        sender.publish_surely("tick/b", &number.to_be_bytes());
    }
    healthy.check();
    let number = |payload: &[u8]| u32::from_be_bytes(payload[..4].try_into().expect("a number"));
    let (mut a, mut b, mut received) = (None, None, 0);
    while a.max(b) < Some(299) || a != b {
        let (topic, payload) = lazy.message();
        let last = if topic == "tick/a" { &mut a } else { &mut b };
        assert!(*last < Some(number(&payload)), "{topic} went back");
        *last = Some(number(&payload));
        received += 1;
    }
    assert!(received < 600, "nothing was left out");
    let status = server.json(&["status"]);
    let conflated = status["losses"]["by_cause"]["conflated"].as_u64();
    assert_eq!(conflated, Some(600 - received), "{status}");
    assert_eq!(
        status["losses"]["by_cause"]["drop-newest"]
            .as_u64()
            .unwrap_or(0),
        0
    );
}

/// The user property `max-rate` of a SUBSCRIBE, and `snapshot-end`.
#[test]
fn a_subscriber_may_ask_for_fewer_messages() {
    let server = Server::open();
    let mut sender = server.client(Version::V4, "sender");
    sender.send(&publish(Version::V4, "tick", b"kept", 0, true));
    sender.ping();
    let mut client = server.client(Version::V5, "modest");
    // One message in a thousand seconds, and the end of the stored ones.
    let pair = |name: &str, value: &str| [&[0x26][..], &string(name), &string(value)].concat();
    let properties = [pair("max-rate", "0.001"), pair("snapshot-end", "")].concat();
    let head = [&[0, 1, properties.len() as u8][..], &properties].concat();
    client.send(&packet(0x82, &[&head[..], &string("tick"), &[0]].concat()));
    assert_eq!(client.expect(9).body.last(), Some(&0));
    assert_eq!(client.message(), ("tick".to_owned(), b"kept".to_vec()));
    assert_eq!(client.message(), ("tick".to_owned(), Vec::new()));
    for _ in 0..20 {
        sender.publish_surely("tick", b"too many");
    }
    // Nothing comes before this answer.
    client.ping();
}

/// The default policy for QoS 1 says goodbye with 0x97 and keeps the session.
#[test]
fn a_subscriber_that_never_reads_qos_1_is_sent_away_with_its_session_kept() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut lazy = server.dial();
    lazy.login(Version::V5, "lazy", false);
    lazy.subscribe("flood", 1);
    let mut sender = server.client(Version::V4, "sender");
    for _ in 0..200 {
        sender.publish_surely("flood", &[b'x'; 100_000]);
        healthy.check();
    }
    eventually("the goodbye", || {
        server.log().contains("client=\"lazy\"") && {
            let clients = server.json(&["status"]);
            clients["clients_connected"] == 3
        }
    });
    let mut back = server.dial();
    assert_eq!(
        back.login(Version::V5, "lazy", false).body[0],
        1,
        "the session is kept"
    );
    healthy.check();
}
