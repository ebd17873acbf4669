//! Many connections.

use std::net::TcpStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
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

/// Thousands are lost at once, and the log tells of each of them: by a line, or by the number of
/// events that it says are missing. `STENTOR_SOAK=1` loses 15,000.
#[test]
fn the_log_accounts_for_every_connection_of_a_mass_disconnect() {
    let is_soak = std::env::var_os("STENTOR_SOAK").is_some();
    let number = if is_soak { 15_000 } else { 3_000 };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("it may be raised up to its end");
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut clients = Vec::new();
    for at in 0..number {
        let mut client = server.dial();
        client.send(&connect(Version::V5, &format!("lost-{at}"), true));
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.expect(2).body[1], 0);
    }
    drop(clients);
    for what in ["connected", "disconnected"] {
        let told = |log: &str| {
            let event = format!(" {what} client=\"lost-");
            log.matches(&event).count()
        };
        eventually("an account of every connection", || {
            let log = server.log();
            let missing = missing(&log);
            // Nobody says which events are missing.
            told(&log) == number || (missing > 0 && told(&log) + missing >= number)
        });
    }
    healthy.check();
}

/// The events and lines that a log says are missing from it.
fn missing(log: &str) -> usize {
    let count = |line: &str| -> Option<usize> {
        let (_, rest) = line.split_once("dropped=")?;
        rest.split(' ').next()?.parse().ok()
    };
    log.lines()
        .filter(|line| line.contains("missing from this log"))
        .map(|line| count(line).unwrap_or_else(|| panic!("no number: {line}")))
        .sum()
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
