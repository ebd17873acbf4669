//! Messages wait for clients that are away, and come faster than the disk takes them.

use stentor_tests::raw::{packet, string};
use stentor_tests::{Raw, Server, Version};

use crate::bystander::Scene;

/// Sessions that wait for their clients, messages to all of them, and their bytes.
const ABSENT: usize = 100;
const MESSAGES: u16 = 40;
const PAYLOAD: usize = 50_000;

/// What the server may need: messages are shared by all sessions, and some are on their way to the
/// disk, once for each.
const BYTES_MAX: u64 = 96 << 20;

/// A PUBLISH of QoS 1.
fn publish(packet_id: u16) -> Vec<u8> {
    let payload = vec![b'x'; PAYLOAD];
    let body = [
        &string("flood")[..],
        &packet_id.to_be_bytes(),
        &[0],
        &payload,
    ];
    packet(0x32, &body.concat())
}

fn flood(server: &Server) {
    let mut publishers: Vec<Raw> = (0..2)
        .map(|number| server.client(Version::V5, &format!("flood-{number}")))
        .collect();
    for packet_id in 1..=MESSAGES {
        for publisher in &mut publishers {
            publisher.send(&publish(packet_id));
        }
    }
    for publisher in &mut publishers {
        for _ in 0..MESSAGES {
            assert_eq!(publisher.expect(4).body.get(2), None, "it is taken");
        }
    }
}

/// Its publishers wait for the disk. Nobody else does, whichever shard they are on.
#[test]
fn a_flood_of_backlogs_holds_back_its_publishers_only() {
    let mut scene = Scene::new("[sessions]\nmemory = 0\n").beside_the_disk();
    for number in 0..ABSENT {
        let mut client = scene.server.dial();
        client.login(Version::V5, &format!("absent-{number}"), false);
        client.subscribe("flood", 1);
    }
    scene.endures(BYTES_MAX, flood);
    let status = scene.server.json(&["status", "--sample-ms", "0"]);
    let bytes = status["session_store"]["backlog_bytes"].as_u64();
    let least = ABSENT * usize::from(MESSAGES) * PAYLOAD;
    assert!(bytes >= Some(least as u64), "{status:#}");
}
