//! `stentor status`, `clients` and `topics` against a running server.

use stentor_tests::{Server, Version};

#[test]
fn status_counts_connections_and_messages() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("t", 0);
    // Latencies are samples, so a few messages would yield none.
    for _ in 0..50 {
        client.publish("t", b"x");
        let _ = client.message();
    }
    let status = server.json(&["status"]);
    assert_eq!(status["clients_connected"], 1, "{status}");
    assert_eq!(status["sessions"], 1, "{status}");
    assert_eq!(status["subscriptions"], 1, "{status}");
    assert_eq!(status["messages_in"], 50, "{status}");
    assert_eq!(status["messages_out"], 50, "{status}");
    assert_eq!(status["bugs"], 0, "{status}");
    assert!(status["latency"]["samples"].as_u64() >= Some(1), "{status}");
    assert!(!server.control(&["status"]).success().is_empty());
}

#[test]
fn clients_are_listed_shown_and_kicked() {
    let server = Server::open();
    let mut kicked = server.client(Version::V5, "kicked");
    let mut other = server.client(Version::V4, "other");
    let clients = server.json(&["clients", "ls"]);
    assert_eq!(clients["total"], 2, "{clients}");
    let shown = server.json(&["clients", "show", "kicked"]);
    assert!(shown.to_string().contains("kicked"), "{shown}");
    server.control(&["clients", "kick", "kicked"]).success();
    // [MQTT-3.14] 0x98, "administrative action".
    let packet = kicked.receive();
    assert_eq!(
        (packet.kind(), packet.body.first()),
        (14, Some(&0x98)),
        "{packet:?}"
    );
    kicked.closed();
    other.ping();
    server.control(&["clients", "kick", "nobody"]).refusal();
}

#[test]
fn topics_lists_filters_and_retained_messages() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("a/+", 0);
    client.send(&stentor_tests::raw::publish(
        Version::V5,
        "kept/here",
        b"x",
        1,
        true,
    ));
    client.expect(4);
    let topics = server.json(&["topics"]).to_string();
    assert!(
        topics.contains("a/+") && topics.contains("kept/here"),
        "{topics}"
    );
}

#[test]
fn commands_without_a_server_say_so() {
    let plan = stentor_tests::Plan::new();
    let mut command = stentor_tests::server::stentor();
    let command = command.args(["status", "--data-dir"]).arg(plan.data_dir());
    let text = stentor_tests::process::run(command).refusal();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}

#[test]
fn the_control_socket_is_private() {
    use std::os::unix::fs::PermissionsExt;

    let server = Server::open();
    let socket = std::fs::metadata(server.data_dir().join("control.sock")).expect("it is there");
    assert_eq!(
        socket.permissions().mode() & 0o007,
        0,
        "everybody may use the control socket"
    );
}
