//! What these tests share.

use std::collections::BTreeMap;

use stentor_tests::raw::{self, packet, string};
use stentor_tests::{Raw, Server, Version};

/// A retained PUBLISH of MQTT 3.1.1 with QoS 1.
pub(crate) fn publish(topic: &str, payload: &[u8], packet_id: u16) -> Vec<u8> {
    let mut body = string(topic);
    body.extend(packet_id.to_be_bytes());
    body.extend_from_slice(payload);
    packet(0x33, &body)
}

/// Publishes a retained message and waits for the acknowledgement.
#[track_caller]
pub(crate) fn keep(client: &mut Raw, version: Version, topic: &str, payload: &[u8]) {
    client.send(&raw::publish(version, topic, payload, 1, true));
    client.expect(4);
}

/// All retained messages that match a filter, by topic.
#[track_caller]
pub(crate) fn snapshot(server: &Server, filter: &str) -> BTreeMap<String, Vec<u8>> {
    let mut reader = server.client(Version::V4, "snapshot");
    reader.subscribe(filter, 0);
    // Nothing says where a snapshot ends: it is told by counting.
    let system = || {
        let listed = server.json(&["topics", "$SYS", "--limit", "100000"]);
        listed["retained"].as_array().map_or(0, Vec::len) as u64
    };
    let expected = loop {
        // The server's own come a while after its start.
        let before = system();
        let status = server.json(&["status", "--sample-ms", "0"]);
        if system() == before {
            let all = status["retained"]["messages"].as_u64();
            break all.expect("a status has a count") - before;
        }
    };
    let mut found = BTreeMap::new();
    while (found.len() as u64) < expected {
        let message = reader.expect(3);
        assert_eq!(message.first & 1, 1, "a stored message has RETAIN set");
        let (topic, payload) = message.message(Version::V4);
        let earlier = found.insert(topic, payload);
        assert_eq!(earlier, None, "a topic comes once");
    }
    reader.ping();
    found
}

/// The user property of a name in the body of a PUBLISH of MQTT 5.
pub(crate) fn property(body: &[u8], name: &str) -> Option<String> {
    let head = [&[0x26][..], &string(name)].concat();
    let at = body.windows(head.len()).position(|part| part == head)?;
    let value = &body[at + head.len()..];
    let len = usize::from(u16::from_be_bytes([value[0], value[1]]));
    String::from_utf8(value[2..2 + len].to_vec()).ok()
}

/// The same, where it is there and a number.
#[track_caller]
pub(crate) fn number(body: &[u8], name: &str) -> u64 {
    let text = property(body, name).unwrap_or_else(|| panic!("there is a property {name}"));
    text.parse()
        .unwrap_or_else(|_| panic!("{name} is a number, not {text}"))
}
