//! Many connections.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use stentor_tests::raw::{connect, connect_as, eventually, publish};
use stentor_tests::{Plan, Server, Version};

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

/// Bytes of a connection that is taken over in a flood are read in the midst of another's; nobody
/// must get them as their own, and nobody lose theirs.
#[test]
fn what_one_client_sends_counts_as_nobody_elses() {
    const TAKE_OVERS: usize = 40;
    let server = Plan::new().tcp().start();
    let file = server.folder().join("password");
    std::fs::write(&file, "secret\n").expect("a file can be written");
    let file = file.to_str().expect("temporary paths are text");
    let run = |args: &[&str]| drop(server.control(args).success());
    run(&["role", "add", "quiet", "--rule", "allow publish junk"]);
    let add = |name, more: &[&str]| {
        run(&[&["user", "add", name, "--password-file", file][..], more].concat());
    };
    add("mallory", &["--role", "quiet"]);
    add("victim", &[]);
    let login = |user: &str, client_id: &str| {
        let mut client = server.dial();
        client.send(&connect_as(
            Version::V4,
            client_id,
            true,
            Some((user, "secret")),
        ));
        assert_eq!(client.expect(2).body[1], 0, "{client_id} is let in");
        client
    };
    let mut observer = login("victim", "observer");
    observer.subscribe("forged", 0);
    // As long as what the victims send.
    let flood = publish(Version::V4, "forged", &[b'x'; 22], 0, false).repeat(4096);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 10..22 {
            let (login, is_over) = (&login, &is_over);
            scope.spawn(move || {
                let topic = format!("echo/{number}");
                let mut victim = login("victim", &topic);
                victim.subscribe(&topic, 0);
                while !is_over.load(Ordering::Relaxed) {
                    victim.publish(&topic, &[b'v'; 21]);
                    assert_eq!(victim.message().0, topic);
                }
            });
        }
        let mut last = None;
        for _ in 0..TAKE_OVERS {
            let mut mallory = login("mallory", "mallory");
            let flood = &flood;
            let (send, begun) = channel();
            last = Some(scope.spawn(move || {
                while mallory.try_send(flood).is_ok() {
                    // Nobody listens after the first.
                    let _ = send.send(());
                }
            }));
            // The next one comes while much of this one's is on its way.
            (0..8).try_for_each(|_| begun.recv()).expect("it begins");
        }
        // The last one ends when the session goes to somebody who is silent.
        let silent = login("mallory", "mallory");
        last.map(|last| last.join());
        drop(silent);
        is_over.store(true, Ordering::Relaxed);
    });
    login("victim", "marker").publish_surely("forged", b"marker");
    assert_eq!(
        observer.message(),
        ("forged".to_owned(), b"marker".to_vec())
    );
}
