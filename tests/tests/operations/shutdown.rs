//! SIGTERM, `stentor stop`, and what clients hear of it.

use std::io::{BufRead, BufReader};

use nix::sys::signal::{Signal, kill};
use stentor_tests::{DEADLINE, Plan, Raw, Server, Version, process, raw};

#[test]
fn sigterm_tells_mqtt_5_clients_and_closes_the_others() {
    let mut server = Server::open();
    let mut old = server.client(Version::V4, "old");
    let mut new = server.client(Version::V5, "new");
    assert!(server.stop().success());
    // [MQTT-3.14] DISCONNECT with 0x8B, "server shutting down".
    let packet = new.receive();
    assert_eq!(
        (packet.kind(), packet.body.first()),
        (14, Some(&0x8B)),
        "{packet:?}"
    );
    assert!(new.rest().is_empty());
    assert!(old.rest().is_empty(), "MQTT 3.1.1 has no word for it");
}

/// A server that has another one to recommend does so: to those who understand it, and who take
/// packets of that size [MQTT-3.1.2-24].
#[test]
fn sigterm_sends_mqtt_5_clients_to_the_other_server() {
    let config = "server_reference = \"other.example:1883\"\n";
    let plan = Plan::new().config(config).tcp().anonymous();
    let mut server = plan.start();
    let mut old = server.client(Version::V4, "old");
    let mut new = server.client(Version::V5, "new");
    let mut narrow = server.dial();
    let mut login = raw::connect(Version::V5, "narrow", true);
    // A maximum packet size of 25, where there were no properties.
    login[1] += 5;
    login[12] = 5;
    login.splice(13..13, [0x27, 0, 0, 0, 25]);
    narrow.send(&login);
    narrow.speaks(Version::V5);
    narrow.expect(2);
    assert!(server.stop().success());
    let packet = new.expect(14);
    assert_eq!(packet.body[..3], [0x9C, 21, 0x1C], "{packet:?}");
    assert_eq!(packet.body[5..], *b"other.example:1883");
    assert_eq!(narrow.expect(14).body[0], 0x8B);
    assert!(old.rest().is_empty());
}

/// The operator who stops a server learns what that costs.
#[test]
fn sigterm_says_nothing_of_sessions_that_go_on() {
    let mut server = Server::open();
    for number in 0..3 {
        let mut away = server.dial();
        away.login(Version::V4, &format!("away-{number}"), false);
        away.subscribe("t", 1);
        away.send(&[0xE0, 0]);
        away.closed();
    }
    let mut gone = server.client(Version::V4, "gone-with-its-connection");
    gone.subscribe("t", 1);
    let mut publisher = server.client(Version::V5, "p");
    publisher.send(&raw::publish(Version::V5, "t", b"x", 1, false));
    publisher.expect(4);
    assert!(server.stop().success());
    let log = server.wait_log(0, "stopped");
    assert!(!log.contains("end with the server"), "they go on: {log}");
}

#[test]
fn sigterm_says_nothing_of_sessions_that_end_anyway() {
    let mut server = Server::open();
    let _client = server.client(Version::V5, "c");
    assert!(server.stop().success());
    let log = server.wait_log(0, "stopped");
    assert!(!log.contains("end with the server"), "{log}");
}

#[test]
fn sigint_ends_it_too() {
    let mut server = Server::open();
    server.signal(Signal::SIGINT);
    assert!(server.ended().success());
}

#[test]
fn the_stop_command_ends_it() {
    let mut server = Server::open();
    server.control(&["stop"]).success();
    assert!(server.ended().success());
    assert!(!server.data_dir().join("control.sock").exists());
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_the_stop_up() {
    let config = "shutdown_timeout = \"1s\"\n";
    let mut server = Plan::new().config(config).tcp().anonymous().start();
    let mut lazy = server.client(Version::V4, "lazy");
    lazy.subscribe("flood", 0);
    let mut sender = server.client(Version::V4, "sender");
    for _ in 0..40 {
        sender.publish_surely("flood", &[b'x'; 500_000]);
    }
    assert!(server.stop().success());
}

#[test]
fn what_was_published_before_the_stop_is_delivered() {
    // A busy machine may leave the receiver no time to read in the usual five seconds.
    let config = "shutdown_timeout = \"50s\"\n";
    let plan = Plan::new().config(config).tcp().anonymous();
    let mut server = plan.start();
    let mut receiver = server.client(Version::V5, "receiver");
    receiver.subscribe("last", 0);
    let mut sender = server.client(Version::V5, "sender");
    for _ in 0..10 {
        sender.publish_surely("last", &[b'x'; 100_000]);
    }
    server.signal(Signal::SIGTERM);
    for _ in 0..10 {
        assert_eq!(receiver.message().1.len(), 100_000);
    }
    assert_eq!(receiver.receive().kind(), 14);
    assert!(server.ended().success());
}

/// A log that nobody reads any more holds up neither clients nor the end.
#[test]
fn an_unread_log_does_not_hold_the_stop_up() {
    let plan = Plan::new().tcp().anonymous();
    let mut child = process::start(&mut plan.command());
    let mut lines = BufReader::new(child.stdout.take().expect("it is captured")).lines();
    let line = lines.next().expect("a line").expect("text");
    let address = line.strip_prefix("listening mqtt://").expect("a listener");
    // More than a pipe holds: 200 lines of more than 500 bytes each, cut off or not.
    let long = "x".repeat(60_000);
    for _ in 0..200 {
        let mut client = Raw::tcp(address);
        client.login(Version::V4, &long, true);
        client.ping();
    }
    kill(process::pid_of(&child), Signal::SIGTERM).expect("it runs");
    let (status, in_time) = process::wait(&mut child, DEADLINE);
    assert!(in_time && status.success(), "{status}");
}

#[test]
fn a_half_sent_login_does_not_hold_the_stop_up() {
    let mut server = Server::open();
    let mut half = server.dial();
    half.send(&raw::connect(Version::V5, "half", true)[..7]);
    assert!(server.stop().success());
    half.closed();
}
