//! At a limit new work is refused politely, and what is there goes on.

use stentor_tests::raw::connect;
use stentor_tests::{Plan, Version};

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
    stentor_tests::raw::eventually("a free place", || {
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
    client.send(&stentor_tests::raw::subscribe(Version::V5, 9, "f4", 0));
    // 0x97 "quota exceeded".
    assert_eq!(client.expect(9).body.last(), Some(&0x97));
    client.ping();
    let mut old = server.client(Version::V4, "old");
    for number in 0..3 {
        old.subscribe(&format!("f{number}"), 0);
    }
    old.send(&stentor_tests::raw::subscribe(Version::V4, 9, "f4", 0));
    assert_eq!(old.expect(9).body.last(), Some(&0x80));
    old.ping();
}
