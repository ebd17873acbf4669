//! Many connections.

use std::net::TcpStream;

use stentor_tests::raw::{connect, eventually};
use stentor_tests::{Server, Version};

use crate::Healthy;

/// Ten thousand connections come and go; each tenth one logs in first.
#[test]
fn ten_thousand_connects_and_disconnects() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    // An answer from every shard: one that starts still closes what is not its own.
    server.json(&["status"]);
    let before = descriptors(&server);
    for number in 0..10_000 {
        if number % 10 == 0 {
            let mut client = server.client(Version::V5, &format!("c{}", number % 70));
            client.send(&[0xE0, 0]);
            client.closed();
            healthy.check();
        } else {
            drop(TcpStream::connect(server.address("mqtt")).expect("the server answers"));
        }
    }
    // Fewer than before is no fault: the question above may not have been closed yet.
    eventually("no more descriptors than before", || {
        let now = descriptors(&server);
        now.iter().zip(&before).all(|(now, before)| now <= before)
    });
    let status = server.json(&["status"]);
    assert_eq!(status["clients_connected"], 2, "{status}");
    assert_eq!(status["sessions"], 2, "{status}");
    assert_eq!(status["bugs"], 0, "{status}");
}

#[test]
fn a_storm_of_connections_at_once_is_answered() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut clients = Vec::new();
    for number in 0..1_000 {
        let mut client = server.dial();
        client.send(&connect(Version::V4, &format!("storm-{number}"), true));
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.expect(2).body, [0, 0]);
    }
    healthy.check();
    let before = server.json(&["status"])["clients_connected"].clone();
    assert_eq!(before, 1_002);
    drop(clients);
    eventually("the end of the storm", || {
        server.json(&["status"])["clients_connected"] == 2
    });
    healthy.check();
}

/// A client that takes its own name over again and again does not disturb others.
#[test]
fn a_war_over_one_client_id() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut clients = Vec::new();
    for _ in 0..300 {
        let mut client = server.dial();
        client.send(&connect(Version::V4, "contested", false));
        clients.push(client);
    }
    for client in &mut clients {
        // Each is let in, or lost to a newer one before or after its CONNACK.
        let _ = client.try_receive();
    }
    healthy.check();
    eventually("one survivor", || {
        server.json(&["status"])["clients_connected"] == 3
    });
}

/// The number of descriptors that each thread can see.
fn descriptors(server: &Server) -> Vec<usize> {
    stentor_tests::server::descriptors(server.pid())
        .into_iter()
        .map(|(_, count)| count)
        .collect()
}
