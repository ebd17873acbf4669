//! Requests that are not answered.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use stentor_tests::{Raw, Server};

use super::{Answer, ask, probe, read, server};

#[track_caller]
fn say(server: &Server, request: &str) -> Answer {
    let mut client = Raw::tcp(&server.address("http"));
    client.send(request.as_bytes());
    read(&mut client)
}

#[track_caller]
fn status(server: &Server, request: &str) -> u16 {
    say(server, request).status
}

/// A page of the web whose name resolves to this machine.
#[test]
fn a_host_that_is_not_this_machine_is_refused() {
    let server = server();
    for (host, code) in [
        ("evil.example", 421),
        ("evil.example:18083", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost", 200),
        ("127.0.0.1:18083", 200),
        ("[::1]:18083", 200),
    ] {
        for path in ["/metrics", "/healthz", "/readyz"] {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = say(&server, &request);
            assert_eq!(answer.status, code, "{host} {path}");
            assert!(!answer.head.contains("access-control"), "{host}");
            assert!(code == 200 || !answer.body.contains("stentor_"), "{host}");
        }
    }
    let none = "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&server, none), 400);
    let absolute = "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\
                    Connection: close\r\n\r\n";
    assert_eq!(status(&server, absolute), 421);
}

#[test]
fn other_paths_and_methods_are_refused() {
    let server = server();
    let answer = ask(&server, "/api/v1/clients", "");
    assert_eq!(answer.status, 404);
    assert!(answer.head.contains("application/problem+json"));
    assert_eq!(ask(&server, "/", "").status, 200);
    for (method, code) in [
        ("POST", 405),
        ("DELETE", 405),
        ("OPTIONS", 405),
        ("HEAD", 200),
    ] {
        let request = format!(
            "{method} /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        assert_eq!(status(&server, &request), code, "{method}");
    }
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let server = server();
    let begin = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    let long = format!("{begin}X: {}\r\n\r\n", "x".repeat(20 << 10));
    assert_eq!(status(&server, &long), 431);
    let many = format!("{begin}{}\r\n", "X: x\r\n".repeat(100));
    assert_eq!(status(&server, &many), 431);
    let path = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(20 << 10)
    );
    assert!([414, 431].contains(&status(&server, &path)));
    let body = format!("{begin}Connection: close\r\nContent-Length: 10000000\r\n\r\n");
    assert_eq!(status(&server, &body), 413);
    let chunked =
        format!("{begin}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(status(&server, &chunked), 413);
    assert_eq!(status(&server, "\x16\x03\x01\x02\x00\r\n\r\n"), 400);
    assert_eq!(probe(&server, "/healthz").0, 200);
}

/// Connections that say nothing, or too little, are closed; others are served in the meantime. One
/// that has been answered is kept for longer.
#[test]
fn slow_headers_are_not_waited_for() {
    let server = server();
    let address = server.address("http");
    let mut silent = Raw::tcp(&address);
    let mut slow = Raw::tcp(&address);
    slow.send(b"GET /healthz HTTP/1.1\r\nHost: local");
    let mut kept = Raw::tcp(&address);
    kept.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _ = kept.until(b"reasons\":[]}\n");
    for _ in 0..20 {
        assert_eq!(probe(&server, "/healthz").0, 200);
    }
    let _ = silent.rest();
    let _ = slow.rest();
    // One that begins after it, and is closed for its silence.
    let _ = Raw::tcp(&address).rest();
    kept.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _ = kept.until(b"reasons\":[]}\n");
    // The next request on it has no more time than any other one.
    kept.send(b"GET /healthz HTTP/1.1\r\nHost: local");
    let begun = Instant::now();
    let _ = kept.rest();
    assert!(begun.elapsed() < Duration::from_secs(30), "{begun:?}");
}

/// At the limit, the oldest connection that asks for nothing makes room for a new one.
#[test]
fn half_sent_requests_keep_nobody_out() {
    const CONNECTIONS: usize = 192;
    let server = server();
    let address = server.address("http");
    let mut half: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = Raw::tcp(&address);
            client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
            client
        })
        .collect();
    assert_eq!(probe(&server, "/healthz").0, 200);
    // It waited for nobody: the newest one has not been given up.
    let newest = half.last_mut().expect("there are some");
    newest.send(b"\r\n");
    let _ = newest.until(b"reasons\":[]}\n");
    half[0].closed();
    let more: Vec<Raw> = (0..600).map(|_| Raw::tcp(&address)).collect();
    assert_eq!(probe(&server, "/healthz").0, 200);
    drop(more);
    let mut client = server.client(stentor_tests::Version::V5, "a");
    client.ping();
}

/// One address has a share of the connections: when that is used, it makes room for its own new
/// ones. Another address finds room at once, and nobody has to leave for it.
#[test]
fn half_sent_requests_of_one_address_take_its_share() {
    const SHARE: usize = 160;
    const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let server = server();
    let address = server.address("http");
    let begin = || {
        let mut client = Raw::tcp_from(OTHER, &address);
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
        client
    };
    let mut half: Vec<Raw> = (0..=SHARE).map(|_| begin()).collect();
    half[0].closed();
    assert_eq!(probe(&server, "/healthz").0, 200);
    for place in [1, SHARE] {
        half[place].send(b"\r\n");
        let _ = half[place].until(b"reasons\":[]}\n");
    }
}
