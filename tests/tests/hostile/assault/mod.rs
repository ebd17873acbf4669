//! What an audit found that one client could do to everybody else, one test for each, in the shape
//! that it was found in but smaller: a bystander must hardly notice.

mod a1_mesh;
mod a2_wildcards;
mod a3_retained;
mod a4_groups;
mod a5_oldest;
mod b1_inflight;
mod b2_small;
mod b3_sessions;
mod b5_rates;
mod b6_subscribe;
mod crowds;
mod handshakes;
mod rooms;

use stentor_tests::raw::{packet, string};
use stentor_tests::{Raw, Version};

/// Bounds of memory that speak of a queue mean this one.
const QUEUE: &str = "[limits]\nqueue_bytes = \"4MiB\"\n";

/// The same, and names of 64 KiB with 256 levels: what the protocol allows, and the most that an
/// operator can allow.
const WIDE_OPEN: &str =
    "[limits]\nqueue_bytes = \"4MiB\"\ntopic_bytes = 65535\ntopic_levels = 256\n";

const MIB: u64 = 1 << 20;

/// An MQTT 5 SUBSCRIBE with QoS 0 and packet id 1, with these properties.
fn subscribe_all(properties: &[u8], filters: impl IntoIterator<Item = String>) -> Vec<u8> {
    let length = u8::try_from(properties.len()).expect("few properties");
    let mut body = [&[0, 1, length][..], properties].concat();
    for filter in filters {
        body.extend(string(&filter));
        body.push(0);
    }
    packet(0x82, &body)
}

/// A property with a name and a value.
fn user_property(name: &str, value: &str) -> Vec<u8> {
    [&[0x26][..], &string(name), &string(value)].concat()
}

/// An MQTT 5 PUBLISH with QoS 0 that gives its topic alias 1.
fn set_alias(topic: &str, retain: bool, payload: &[u8]) -> Vec<u8> {
    let head = [&string(topic)[..], &[3, 0x23, 0, 1]].concat();
    packet(0x30 | u8::from(retain), &[&head[..], payload].concat())
}

/// An MQTT 5 PUBLISH with QoS 0 to alias 1.
fn by_alias(retain: bool, payload: &[u8]) -> Vec<u8> {
    let body = [&[0, 0, 3, 0x23, 0, 1][..], payload].concat();
    packet(0x30 | u8::from(retain), &body)
}

/// Sends what may be a lot, then waits until the server has done all of it. What else comes to the
/// client is read and forgotten.
#[track_caller]
fn send_and_await(client: &mut Raw, bytes: &[u8]) {
    client.send(bytes);
    client.send(&[0xC0, 0]);
    while client.receive().kind() != 13 {}
}

/// Subscribes with one packet and tells how many filters were granted.
#[track_caller]
fn granted(client: &mut Raw, subscribe: &[u8]) -> usize {
    client.send(subscribe);
    let answer = client.expect(9);
    // Behind the packet id and the properties, whose length takes one byte.
    let codes = 3 + usize::from(answer.body[2]);
    answer.body[codes..]
        .iter()
        .filter(|code| **code <= 2)
        .count()
}

/// A client that is logged in at the server with MQTT 5.
fn login(server: &stentor_tests::Server, client_id: &str) -> Raw {
    server.client(Version::V5, client_id)
}
