//! Clients that hang up while their password waits to be hashed.

use std::fs;

use stentor_auth::credential::{Cost, PasswordHash, Sha};
use stentor_tests::raw::{connect_as, publish};
use stentor_tests::{Plan, Raw, Server, Version};

/// A user for whom a password costs some tenths of a second, and two with cheap hashes.
fn server(plan: Plan) -> Server {
    let digest = Sha::Sha512;
    let iterations = 100_000;
    let slow = Cost::Pbkdf2 { digest, iterations };
    let server = plan
        .config("[auth]\nremember = \"0s\"\nslow_failures = false\n")
        .start();
    for (name, cost) in [
        ("slow", slow),
        ("ann", Cost::CHEAPEST),
        ("bob", Cost::CHEAPEST),
    ] {
        let hash = PasswordHash::make(b"pencil", cost).expect("a hash can be made");
        let file = server.folder().join("given");
        fs::write(&file, hash.to_string()).expect("a file can be written");
        let file = file.to_str().expect("plain names");
        let add = ["user", "add", name, "--credential-file", file];
        server.control(&add).success();
    }
    server
}

fn ask(server: &Server, id: &str, user: &str) -> Raw {
    let mut client = server.dial();
    client.speaks(Version::V5);
    let login = Some((user, "pencil"));
    client.send(&connect_as(Version::V5, id, true, login));
    client
}

/// Has every hash thread, and the one that helps out, at work for a while.
fn keep_busy(server: &Server) -> Vec<Raw> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (0..=threads)
        .map(|number| ask(server, &format!("slow{number}"), "slow"))
        .collect()
}

fn is_let_in(client: &mut Raw) {
    assert_eq!(client.expect(2).body[1], 0);
}

#[test]
fn who_has_hung_up_takes_nothing_over() {
    let server = server(Plan::new().tcp());
    let mut earlier = ask(&server, "ann", "ann");
    is_let_in(&mut earlier);
    let mut busy = keep_busy(&server);
    drop(ask(&server, "ann", "ann"));
    let mut behind = ask(&server, "bob", "bob");
    is_let_in(&mut behind);
    for client in &mut busy {
        is_let_in(client);
    }
    earlier.ping();
}

/// Nobody has to wait for the CONNACK: what was sent behind CONNECT counts, though its client is
/// gone [MQTT-3.1.4-6].
#[test]
fn what_was_sent_before_a_client_hung_up_counts() {
    let server = server(Plan::new().tcp());
    let mut reader = ask(&server, "bob", "bob");
    is_let_in(&mut reader);
    reader.subscribe("news", 0);
    let busy = keep_busy(&server);
    let mut writer = ask(&server, "ann", "ann");
    writer.send(&publish(Version::V5, "news", b"gone", 0, false));
    drop(writer);
    assert_eq!(reader.message(), ("news".to_owned(), b"gone".to_vec()));
    drop(busy);
}
