//! Sessions over restarts, kills and damaged files.

mod backlog;
mod command;
mod copies;
mod cut;
mod damage;
mod files;
mod full;
mod kills;
mod messages;
mod queued;
mod queues;
mod survive;
mod users;
mod verify;
mod wills;

use stentor_tests::raw::{packet, string};
use stentor_tests::{Packet, Raw, Server, Version};

/// Connects to a session that lasts, and says whether it was there.
#[track_caller]
fn come_back(server: &Server, version: Version, client_id: &str) -> (Raw, bool) {
    let mut client = server.dial();
    let connack = client.login(version, client_id, false);
    (client, connack.body[0] == 1)
}

/// An MQTT 5 client whose session lasts for this many seconds, with a will on a topic that says
/// the client id, of QoS 1.
#[track_caller]
fn with_will(server: &Server, client_id: &str, topic: &str, secs: u8) -> Raw {
    let head = [&string("MQTT")[..], &[5, 0b0000_1100, 0, 0]].concat();
    let properties = [5, 0x11, 0, 0, 0, secs];
    let will = [&[0][..], &string(topic), &string(client_id)].concat();
    let body = [&head[..], &properties, &string(client_id), &will].concat();
    let mut client = server.dial();
    client.speaks(Version::V5);
    client.send(&packet(0x10, &body));
    let connack = client.expect(2);
    assert_eq!(connack.body[1], 0, "{connack:?}");
    client
}

/// A PUBLISH of QoS 1 to an MQTT 5 client, which acknowledges it.
#[track_caller]
fn acknowledged(client: &mut Raw) -> Vec<u8> {
    let packet = client.expect(3);
    acknowledge(client, &packet);
    packet.message(Version::V5).1
}

/// Acknowledges a message of QoS 1.
fn acknowledge(client: &mut Raw, packet: &Packet) {
    let topic = usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
    client.send(&[0x40, 2, packet.body[2 + topic], packet.body[3 + topic]]);
}

/// What `stentor status` says of sessions.
fn status(server: &Server) -> serde_json::Value {
    server.json(&["status", "--sample-ms", "0"])
}
