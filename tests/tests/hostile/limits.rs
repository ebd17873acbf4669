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

#[test]
fn filters_that_are_too_long_together_are_refused() {
    let config = "[limits]\nsubscription_bytes_per_client = 65536\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let mut client = server.client(Version::V5, "greedy");
    let filter = |number: usize| format!("{number}{}", "x".repeat(30_000));
    client.subscribe(&filter(1), 0);
    client.subscribe(&filter(2), 0);
    client.send(&stentor_tests::raw::subscribe(
        Version::V5,
        9,
        &filter(3),
        0,
    ));
    assert_eq!(client.expect(9).body.last(), Some(&0x97));
    client.ping();
}
