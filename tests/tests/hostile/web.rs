//! What the WebSocket and TLS ports make of strangers.

use stentor_tests::{Plan, Raw, Server, Version};

use crate::Healthy;

fn server() -> Server {
    Plan::new()
        .tcp()
        .listen("ws://127.0.0.1:0")
        .anonymous()
        .start()
}

fn upgrade(host: &str, more: &str) -> Vec<u8> {
    format!(
        "GET /mqtt HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: mqtt\r\n{more}\r\n"
    )
    .into_bytes()
}

/// The status line of the answer.
#[track_caller]
fn status(client: &mut Raw) -> String {
    String::from_utf8_lossy(&client.until(b"\r\n"))
        .trim()
        .to_owned()
}

#[test]
fn a_plain_get_is_told_what_this_port_is() {
    let server = server();
    let mut client = Raw::tcp(&server.address("ws"));
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let page = String::from_utf8(client.rest()).expect("the page is text");
    assert!(page.starts_with("HTTP/1.1 "), "{page}");
    assert!(
        page.contains("MQTT") && page.contains("WebSocket"),
        "{page}"
    );
}

#[test]
fn a_foreign_page_is_refused_with_the_remedy_in_the_log() {
    let server = server();
    let mut healthy = Healthy::new(&server);
    let mut client = Raw::tcp(&server.address("ws"));
    client.send(&upgrade("mqtt.example", "Origin: https://evil.example\r\n"));
    assert!(status(&mut client).contains(" 403 "));
    client.closed();
    let log = server.wait_log(0, "allowed_origins");
    let line = log.lines().find(|line| line.contains("allowed_origins"));
    let line = line.expect("it was just there");
    assert!(line.contains("https://evil.example"), "{line}");
    assert!(line.contains(server.url("ws")), "{line}");
    healthy.check();
}

#[test]
fn an_origin_that_is_the_host_or_local_or_listed_is_let_in() {
    let config = "[[listener]]\nurl = \"ws://127.0.0.1:0\"\n\
                  allowed_origins = [\"https://app.example\"]\n";
    let server = Plan::new().config(config).anonymous().start();
    for (host, origin) in [
        ("mqtt.example", ""),
        ("127.0.0.1:8083", "Origin: http://127.0.0.1:8083\r\n"),
        ("127.0.0.1", "Origin: http://localhost:3000\r\n"),
        ("mqtt.example", "Origin: https://app.example\r\n"),
    ] {
        let mut client = Raw::tcp(&server.address("ws"));
        client.send(&upgrade(host, origin));
        assert!(status(&mut client).contains(" 101 "), "{origin}");
    }
}

/// A page whose own name resolves to 127.0.0.1 the second time sends an origin that is its Host.
#[test]
fn a_page_that_rebinds_its_name_to_this_machine_is_refused() {
    let server = server();
    for (host, origin) in [
        ("evil.example:8083", "http://evil.example:8083"),
        ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example"),
        ("evil.example", "http://localhost"),
    ] {
        let mut client = Raw::tcp(&server.address("ws"));
        client.send(&upgrade(host, &format!("Origin: {origin}\r\n")));
        let answer = String::from_utf8(client.rest()).expect("the answer is text");
        assert!(answer.contains(" 403 "), "{answer}");
        assert!(answer.contains("this machine only"), "{answer}");
        server.wait_log(0, origin);
    }
}

#[test]
fn garbage_on_a_websocket_port_disturbs_nobody() {
    let server = server();
    let mut healthy = Healthy::new(&server);
    for garbage in [
        vec![0xFF; 5_000],
        vec![b'A'; 100_000],
        b"\r\n\r\n\r\n".to_vec(),
        stentor_tests::raw::connect(Version::V5, "c", true),
    ] {
        let mut client = Raw::tcp(&server.address("ws"));
        // The server may close while it is sent.
        let _ = client.try_send(&garbage);
        client.half_close_softly();
        client.closed();
        healthy.check();
    }
}

#[test]
fn frames_that_break_the_rules_close_that_connection_only() {
    let server = server();
    let mut healthy = Healthy::new(&server);
    // A text frame, one without a mask, reserved bits, a continuation of nothing, a long ping.
    for frame in [
        vec![0x81, 0x80, 1, 2, 3, 4],
        vec![0x82, 0x02, 0xC0, 0],
        vec![0xF2, 0x80, 1, 2, 3, 4],
        vec![0x80, 0x80, 1, 2, 3, 4],
        vec![0x89, 0xFE, 0, 200, 1, 2, 3, 4],
    ] {
        let mut client = Raw::tcp(&server.address("ws"));
        client.send(&upgrade("localhost", ""));
        assert!(status(&mut client).contains(" 101 "));
        let _ = client.until(b"\r\n\r\n");
        client.send(&frame);
        client.closed();
        healthy.check();
    }
}

#[test]
fn garbage_on_a_tls_port_disturbs_nobody() {
    let (plan, _) = Plan::new()
        .tcp()
        .listen("mqtts://127.0.0.1:0")
        .anonymous()
        .certificates();
    let server = plan.start();
    let mut healthy = Healthy::new(&server);
    for garbage in [
        stentor_tests::raw::connect(Version::V5, "c", true),
        vec![0x16, 3, 1, 0xFF, 0xFF, 0, 0],
        vec![0; 2_000],
        vec![0x16, 3, 1, 0, 4, 1, 0, 0, 0],
    ] {
        let mut client = Raw::tcp(&server.address("mqtts"));
        // The server may close while it is sent.
        let _ = client.try_send(&garbage);
        client.half_close_softly();
        client.closed();
        healthy.check();
    }
}
