//! Wills over a restart.

use stentor_tests::raw::{packet, string};
use stentor_tests::{Plan, Version};

use crate::{acknowledged, come_back, status, with_will};

/// The will of a client that does not come back is published once, and that of one that does is
/// not.
#[test]
fn wills_are_published_once_or_never() {
    let config = "[sessions]\nwill_grace = \"1s\"\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    come_back(&server, Version::V5, "watcher")
        .0
        .subscribe("wills", 1);
    let first = with_will(&server, "first", "wills", 200);
    let server = server.kill().start();
    drop(first);
    let (mut watcher, was_there) = come_back(&server, Version::V5, "watcher");
    assert!(was_there);
    assert_eq!(acknowledged(&mut watcher), b"first");
    // The next two starts: one will more, and none of the earlier ones.
    for last in ["second", "third"] {
        let client = with_will(&server, last, "wills", 200);
        drop(client);
        assert_eq!(acknowledged(&mut watcher), last.as_bytes());
    }
    let connected = with_will(&server, "fourth", "wills", 200);
    let server = server.stop_for_restart().start();
    drop(connected);
    let (mut watcher, _) = come_back(&server, Version::V5, "watcher");
    assert_eq!(acknowledged(&mut watcher), b"fourth");
    watcher.ping();
}

#[test]
fn the_will_of_a_client_that_is_back_is_not_published() {
    let config = "[sessions]\nwill_grace = \"2s\"\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    come_back(&server, Version::V5, "watcher")
        .0
        .subscribe("wills", 1);
    let both = ["back", "away"].map(|id| with_will(&server, id, "wills", 200));
    let server = server.kill().start();
    drop(both);
    let back = with_will(&server, "back", "wills", 200);
    let (mut watcher, _) = come_back(&server, Version::V5, "watcher");
    assert_eq!(acknowledged(&mut watcher), b"away");
    watcher.ping();
    drop(back);
    // That of its new connection is.
    assert_eq!(acknowledged(&mut watcher), b"back");
}

/// That of a session that lasts is written down with the session.
#[test]
fn wills_of_sessions_that_do_not_last_are_kept_if_that_is_wanted() {
    for keeps in [true, false] {
        let config = format!("[sessions]\nwill_grace = \"0s\"\nkeep_wills = {keeps}\n");
        let server = Plan::new().tcp().anonymous().config(&config).start();
        come_back(&server, Version::V5, "watcher")
            .0
            .subscribe("wills", 1);
        let both = [("lasts", 200), ("ends", 0)].map(|it| with_will(&server, it.0, "wills", it.1));
        let server = server.kill().start();
        drop(both);
        let (mut watcher, _) = come_back(&server, Version::V5, "watcher");
        let mut got = vec![acknowledged(&mut watcher)];
        if keeps {
            got.push(acknowledged(&mut watcher));
        }
        got.sort();
        let expected: &[&[u8]] = if keeps {
            &[b"ends", b"lasts"]
        } else {
            &[b"lasts"]
        };
        assert_eq!(got, expected);
        watcher.ping();
    }
}

/// More comes at once than the files that are ready have room for: answers wait until it is written
/// down.
#[test]
fn sessions_with_large_wills_survive_a_kill_however_many_come_at_once() {
    const CLIENTS: usize = 300;
    let server = Plan::new()
        .tcp()
        .anonymous()
        .variable("STENTOR_SHARDS", "1")
        .start();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = server.dial();
        client.speaks(Version::V5);
        client.send(&with_much(&format!("c{number}")));
        clients.push(client);
    }
    for client in &mut clients {
        let connack = client.expect(2);
        assert_eq!(connack.body[1], 0, "{connack:?}");
    }
    let server = server.kill().start();
    assert_eq!(status(&server)["session_store"]["found_at_start"], CLIENTS);
}

/// A CONNECT of a session that lasts, with a will of 120 kB.
fn with_much(client_id: &str) -> Vec<u8> {
    let head = [&string("MQTT")[..], &[5, 0b0000_1100, 0, 0]].concat();
    let properties = [5, 0x11, 0, 0, 0, 200];
    let half = "x".repeat(60_000);
    // Half of it is a user property, and half of it the payload.
    let property = [&[0x26][..], &string("k"), &string(&half)].concat();
    let len = property.len();
    let len = [
        len as u8 & 127 | 128,
        (len >> 7) as u8 & 127 | 128,
        (len >> 14) as u8,
    ];
    let will = [&len[..], &property, &string("wills"), &string(&half)].concat();
    packet(
        0x10,
        &[&head[..], &properties, &string(client_id), &will].concat(),
    )
}
