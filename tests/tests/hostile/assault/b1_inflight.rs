//! What a client has read and does not acknowledge is kept for it.

use stentor_tests::raw::{packet, publish, string, subscribe};
use stentor_tests::{Raw, Server, Version};

use super::{MIB, QUEUE, login};
use crate::bystander::Scene;

const MESSAGES: usize = 60;

/// A session that lasts for an hour and may have 65,535 messages in flight.
fn hoarder(server: &Server) -> Raw {
    let mut body = string("MQTT");
    body.extend([5, 0, 0, 0]);
    body.extend([8, 0x11, 0, 0, 0x0E, 0x10, 0x21, 0xFF, 0xFF]);
    body.extend(string("hoarder"));
    let mut client = server.dial();
    client.send(&packet(0x10, &body));
    client.speaks(Version::V5);
    assert_eq!(client.expect(2).body[1], 0);
    client.send(&subscribe(Version::V5, 1, "t", 1));
    assert_eq!(client.expect(9).body.last(), Some(&1));
    client
}

/// The bound: a queue of 4 MiB, the message that was the last to find room, and the pieces that one
/// is read and written in.
#[test]
fn b1_messages_that_are_never_acknowledged() {
    let mut scene = Scene::new(QUEUE);
    scene.endures(24 * MIB, |server| {
        let mut hoarder = hoarder(server);
        let mut publisher = login(server, "publisher");
        let message = publish(Version::V5, "t", &[b'x'; 1 << 20], 1, false);
        for _ in 0..MESSAGES {
            publisher.send(&message);
            publisher.expect(4);
            // It reads what has come so far; its session may have had enough at some time.
            if hoarder.try_send(&[0xC0, 0]).is_err() {
                break;
            }
            while hoarder
                .try_receive()
                .is_some_and(|packet| packet.kind() != 13)
            {}
        }
    });
}
