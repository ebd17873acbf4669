//! A message that expires, for subscribers of every version: 3.x has no place for the interval.

use stentor_tests::raw::{packet, publish, string};
use stentor_tests::{Packet, Plan, Raw, Server, Version};

/// A PUBLISH of MQTT 5 with a message expiry interval of a minute.
fn expiring(topic: &str, qos: u8, retain: bool) -> Vec<u8> {
    let mut body = string(topic);
    if qos > 0 {
        body.extend([0, 1]);
    }
    body.extend([5, 0x02, 0, 0, 0, 60]);
    body.extend_from_slice(b"soon gone");
    packet(0x30 | qos << 1 | u8::from(retain), &body)
}

/// A CONNECT of MQTT 3.1.
fn connect_31(client_id: &str, clean: bool) -> Vec<u8> {
    let mut body = string("MQIsdp");
    body.extend([3, u8::from(clean) << 1, 0, 0]);
    body.extend(string(client_id));
    packet(0x10, &body)
}

/// How a subscriber speaks: its name, what to read its packets by, and its CONNECT.
type Dialect = (&'static str, Version, fn(&str, bool) -> Vec<u8>);

const DIALECTS: [Dialect; 3] = [
    ("3.1", Version::V4, connect_31),
    ("3.1.1", Version::V4, |id, clean| {
        stentor_tests::raw::connect(Version::V4, id, clean)
    }),
    ("5.0", Version::V5, |id, clean| {
        stentor_tests::raw::connect(Version::V5, id, clean)
    }),
];

fn join(server: &Server, dialect: Dialect, clean: bool) -> Raw {
    let (name, version, connect) = dialect;
    let mut client = server.dial();
    client.speaks(version);
    client.send(&connect(&format!("sub-{name}"), clean));
    assert_eq!(client.expect(2).body[1], 0, "{name}");
    client
}

/// What has to have come, and the answer to it.
fn check(client: &mut Raw, (name, version, _): Dialect, qos: u8, what: &str) {
    let message: Packet = client.expect(3);
    let (topic, payload) = if version == Version::V5 {
        (
            topic_of(&message),
            message.body[message.body.len() - 9..].to_vec(),
        )
    } else {
        message.message(version)
    };
    assert_eq!(payload, b"soon gone", "{name}, QoS {qos}, {what}");
    assert!(
        topic.starts_with("e/"),
        "{name}, QoS {qos}, {what}: {topic}"
    );
    if version == Version::V5 {
        let at = message.body.len() - 9 - 6;
        let properties = &message.body[at..at + 6];
        assert_eq!(properties[..5], [5, 2, 0, 0, 0], "{what}: {message:?}");
        assert!((1..=60).contains(&properties[5]), "{what}: {message:?}");
    }
    let id = 2 + topic.len();
    let id = [message.body[id], message.body[id + 1]];
    match qos {
        0 => {}
        1 => client.send(&[0x40, 2, id[0], id[1]]),
        _ => {
            client.send(&[0x50, 2, id[0], id[1]]);
            client.expect(6);
            client.send(&[0x70, 2, id[0], id[1]]);
        }
    }
    // The stream is whole behind it.
    client.ping();
}

fn topic_of(message: &Packet) -> String {
    let length = usize::from(u16::from_be_bytes([message.body[0], message.body[1]]));
    String::from_utf8(message.body[2..2 + length].to_vec()).expect("topics are UTF-8")
}

fn send(publisher: &mut Raw, topic: &str, qos: u8, retain: bool) {
    publisher.send(&expiring(topic, qos, retain));
    match qos {
        0 => publisher.ping(),
        1 => drop(publisher.expect(4)),
        _ => {
            publisher.expect(5);
            publisher.send(&[0x62, 2, 0, 1]);
            publisher.expect(7);
        }
    }
}

#[test]
fn a_message_that_expires_reaches_every_version_live_and_retained() {
    let server = Plan::new().tcp().anonymous().start();
    let mut publisher = server.client(Version::V5, "publisher");
    for dialect in DIALECTS {
        for qos in 0..3 {
            let mut client = join(&server, dialect, true);
            client.subscribe("e/live", qos);
            send(&mut publisher, "e/live", qos, false);
            check(&mut client, dialect, qos, "live");
            send(&mut publisher, "e/kept", qos, true);
            client.subscribe("e/kept", qos);
            check(&mut client, dialect, qos, "retained");
            client.subscribe("$share/g/e/shared", qos);
            send(&mut publisher, "e/shared", qos, false);
            check(&mut client, dialect, qos, "shared");
            // It is gone before the next one shares.
            client.send(&[0xE0, 0]);
            client.closed();
        }
    }
}

#[test]
fn a_message_that_expires_waits_for_every_version_and_is_sent_again() {
    let server = Plan::new().tcp().anonymous().start();
    let mut publisher = server.client(Version::V5, "publisher");
    for dialect in DIALECTS {
        let mut client = join(&server, dialect, false);
        client.subscribe("e/away", 1);
        drop(client);
        send(&mut publisher, "e/away", 1, false);
        let mut client = join(&server, dialect, false);
        // Not acknowledged, so that it comes again.
        client.expect(3);
        drop(client);
        let mut client = join(&server, dialect, false);
        check(&mut client, dialect, 1, "sent again");
        client.send(&[0xE0, 0]);
        // Ends the session for the next one of this name.
        drop(join(&server, dialect, true));
    }
}

#[test]
fn a_publish_without_expiry_is_as_before() {
    let server = Plan::new().tcp().anonymous().start();
    let mut publisher = server.client(Version::V5, "publisher");
    for dialect in DIALECTS {
        let mut client = join(&server, dialect, true);
        client.subscribe("e/plain", 0);
        publisher.send(&publish(Version::V5, "e/plain", b"stays", 0, false));
        let message = client.expect(3);
        assert_eq!(message.message(dialect.1).1, b"stays", "{}", dialect.0);
    }
}
