//! The HTTP part: requests, answers, subprotocols, origins, and our own client.

use proptest::prelude::*;
use stentor_websocket::{
    Accepted, ClientRequest, HandshakeError, Kind, Limits, Request, Status, UpgradeError,
    accept_key, choose_subprotocol, client_request, origin_allowed, parse_request, parse_response,
    response_accept, response_refuse,
};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn parse(text: &str) -> Result<Option<(Request<'_>, usize)>, UpgradeError> {
    parse_request(text.as_bytes(), Limits::default())
}

/// An upgrade request with the default headers replaced, left out or added to.
fn upgrade(changes: &[(&str, Option<&str>)]) -> String {
    let defaults = [
        ("Host", "server.example.com"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Version", "13"),
    ];
    let is_changed = |name: &str| changes.iter().any(|(other, _)| *other == name);
    let mut text = "GET /chat HTTP/1.1\r\n".to_owned();
    for (name, value) in defaults.into_iter().filter(|(name, _)| !is_changed(name)) {
        text += &format!("{name}: {value}\r\n");
    }
    for (name, value) in changes {
        if let Some(value) = value {
            text += &format!("{name}: {value}\r\n");
        }
    }
    text + "\r\n"
}

/// RFC 6455, 1.3
#[test]
fn accept_key_of_the_specification() {
    assert_eq!(accept_key(KEY), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/// RFC 6455, 1.2
#[test]
fn request_of_the_specification() {
    let head = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n\
                Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                Origin: http://example.com\r\nSec-WebSocket-Protocol: chat, superchat\r\n\
                Sec-WebSocket-Version: 13\r\n\r\n";
    let request = Request {
        path: "/chat",
        host: Some("server.example.com"),
        origin: Some("http://example.com"),
        kind: Kind::Upgrade {
            key: KEY,
            protocols: vec!["chat", "superchat"],
        },
    };
    // What follows the head are frames, and left alone.
    let text = format!("{head}\u{1}frames");
    assert_eq!(parse(&text), Ok(Some((request, head.len()))));
    for end in 0..head.len() {
        assert_eq!(parse(&head[..end]), Ok(None), "{end}");
    }
}

#[test]
fn requests_are_read_leniently_where_http_is_lenient() {
    let cases = [
        upgrade(&[("Upgrade", Some("WebSocket"))]),
        upgrade(&[("Upgrade", Some("h2c, websocket"))]),
        upgrade(&[("Connection", Some("keep-alive, Upgrade"))]),
        upgrade(&[
            ("Connection", Some("keep-alive")),
            ("connection", Some("upgrade")),
        ]),
        upgrade(&[("Content-Length", Some("0"))]),
        upgrade(&[("X-Real-Name", Some("J\u{fc}rgen"))]),
        upgrade(&[("Sec-WebSocket-Extensions", Some("permessage-deflate"))]),
    ];
    for text in cases {
        let (request, _) = parse(&text).unwrap().unwrap();
        assert_eq!(
            request.kind,
            Kind::Upgrade {
                key: KEY,
                protocols: vec![]
            },
            "{text}"
        );
    }
}

#[test]
fn subprotocols_may_be_spread_over_lines() {
    let text = upgrade(&[
        ("Sec-WebSocket-Protocol", Some("mqttv3.1,mqtt")),
        ("sec-websocket-protocol", Some(" other ,, ")),
    ]);
    let (request, _) = parse(&text).unwrap().unwrap();
    let protocols = vec!["mqttv3.1", "mqtt", "other"];
    assert_eq!(
        request.kind,
        Kind::Upgrade {
            key: KEY,
            protocols
        }
    );
}

#[test]
fn targets_give_a_path() {
    let cases = [
        ("/", "/"),
        ("/mqtt?token=1", "/mqtt"),
        ("/a/b", "/a/b"),
        ("http://host:80/mqtt?x", "/mqtt"),
        ("http://host", "/"),
        ("ws://host?x", "/"),
        ("/?u=http://x/", "/"),
    ];
    for (target, path) in cases {
        let text = format!("GET {target} HTTP/1.1\r\n\r\n");
        assert_eq!(parse(&text).unwrap().unwrap().0.path, path);
    }
    assert_eq!(
        parse("GET * HTTP/1.1\r\n\r\n"),
        Err(UpgradeError::Malformed)
    );
}

/// A browser that is pointed at the port wants a page, and so does a health check of HTTP/1.0.
#[test]
fn a_plain_get_is_not_an_upgrade() {
    for version in ["1.1", "1.0"] {
        let text = format!("GET / HTTP/{version}\r\nHost: localhost:8083\r\n\r\n");
        let request = Request {
            path: "/",
            host: Some("localhost:8083"),
            origin: None,
            kind: Kind::Page,
        };
        assert_eq!(parse(&text), Ok(Some((request, text.len()))));
    }
}

#[test]
fn bad_requests_are_refused() {
    let cases = [
        (
            "POST / HTTP/1.1\r\n\r\n".to_owned(),
            UpgradeError::Method,
            405,
        ),
        (
            upgrade(&[]).replace("HTTP/1.1", "HTTP/1.0"),
            UpgradeError::Malformed,
            400,
        ),
        (
            "GET / HTTP/2.0\r\n".to_owned(),
            UpgradeError::Malformed,
            400,
        ),
        (
            "\u{10}\u{c}\0\u{4}MQTT".to_owned(),
            UpgradeError::Malformed,
            400,
        ),
        (
            "GET / HTTP/1.1\r\na b: c\r\n".to_owned(),
            UpgradeError::Malformed,
            400,
        ),
        (upgrade(&[("Host", None)]), UpgradeError::HostMissing, 400),
        (
            upgrade(&[("Host", Some("a")), ("host", Some("b"))]),
            UpgradeError::AmbiguousHeader,
            400,
        ),
        (
            upgrade(&[("Origin", Some("a")), ("Origin", Some("a"))]),
            UpgradeError::AmbiguousHeader,
            400,
        ),
        (
            upgrade(&[("Connection", None)]),
            UpgradeError::Connection,
            400,
        ),
        (
            upgrade(&[("Connection", Some("close"))]),
            UpgradeError::Connection,
            400,
        ),
        (
            upgrade(&[("Sec-WebSocket-Version", None)]),
            UpgradeError::Version,
            426,
        ),
        (
            upgrade(&[("Sec-WebSocket-Version", Some("8"))]),
            UpgradeError::Version,
            426,
        ),
        (
            upgrade(&[("Sec-WebSocket-Key", None)]),
            UpgradeError::Key,
            400,
        ),
        (
            upgrade(&[("Sec-WebSocket-Key", Some("short"))]),
            UpgradeError::Key,
            400,
        ),
        (
            upgrade(&[("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25jZWVl"))]),
            UpgradeError::Key,
            400,
        ),
        (
            upgrade(&[("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25jZ!=="))]),
            UpgradeError::Key,
            400,
        ),
        (
            upgrade(&[("Content-Length", Some("5"))]),
            UpgradeError::Body,
            400,
        ),
        (
            upgrade(&[("Transfer-Encoding", Some("chunked"))]),
            UpgradeError::Body,
            400,
        ),
    ];
    for (text, error, status) in cases {
        assert_eq!(parse(&text), Err(error), "{text}");
        assert_eq!(error.status().get(), status, "{text}");
    }
}

#[test]
fn heads_are_bounded() {
    let long = |len: usize| upgrade(&[("X", Some(&"x".repeat(len)))]);
    let empty = long(0).len();
    let limit = Limits::default().head_bytes_max;
    assert!(parse(&long(limit - empty)).unwrap().is_some());
    assert_eq!(
        parse(&long(limit - empty + 1)),
        Err(UpgradeError::HeadTooLong)
    );
    // Without an end, at the limit and not before.
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(limit));
    assert_eq!(parse(&endless[..limit - 1]), Ok(None));
    assert_eq!(parse(&endless[..limit]), Err(UpgradeError::HeadTooLong));

    let many = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert!(parse(&many(64)).unwrap().is_some());
    assert_eq!(parse(&many(65)), Err(UpgradeError::TooManyHeaders));
    let few = Limits {
        headers_max: 2,
        ..Limits::default()
    };
    assert_eq!(
        parse_request(many(3).as_bytes(), few),
        Err(UpgradeError::TooManyHeaders)
    );
    assert_eq!(UpgradeError::TooManyHeaders.status().get(), 431);
}

#[test]
fn the_clients_favourite_is_chosen() {
    let supported = ["mqtt", "mqttv3.1"];
    assert_eq!(choose_subprotocol(&["mqtt"], &supported), Some("mqtt"));
    assert_eq!(
        choose_subprotocol(&["x", "mqttv3.1", "mqtt"], &supported),
        Some("mqttv3.1")
    );
    assert_eq!(choose_subprotocol(&["MQTT", "wamp"], &supported), None);
    assert_eq!(choose_subprotocol(&[], &supported), None);
}

#[test]
fn answers_are_written() {
    let mut out = Vec::new();
    response_accept(KEY, Some("mqtt"), &mut out);
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                    Sec-WebSocket-Protocol: mqtt\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&out), expected);
    out.clear();
    response_refuse(Status::UpgradeRequired, "MQTT lives here.\n", &mut out);
    let expected = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nConnection: close\r\n\
                    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 17\r\n\r\n\
                    MQTT lives here.\n";
    assert_eq!(String::from_utf8_lossy(&out), expected);
}

#[test]
fn every_refusal_is_a_response() {
    let statuses = [
        Status::Ok,
        Status::BadRequest,
        Status::Forbidden,
        Status::NotFound,
        Status::MethodNotAllowed,
        Status::UpgradeRequired,
        Status::HeadTooLarge,
        Status::Unavailable,
    ];
    for status in statuses {
        let mut out = Vec::new();
        response_refuse(status, "why", &mut out);
        let error = parse_response(&out, &REQUEST).unwrap_err();
        assert_eq!(error, HandshakeError::Refused(status.get()));
    }
}

#[test]
fn origins() {
    let list = ["https://app.example.com".to_owned()];
    let any = ["*".to_owned()];
    let (none, host): (&[String], _) = (&[], Some("example.com:8083"));
    let (here, rebound) = (Some("127.0.0.1:8083"), Some("http://evil.com:8083"));
    let cases = [
        (None, host, none, false, true),
        (None, None, none, false, true),
        (Some("http://example.com:8083"), host, none, false, true),
        (Some("https://EXAMPLE.com:8083"), host, none, false, true),
        (Some("http://example.com"), host, none, false, false),
        (Some("http://evil.com:8083"), host, none, false, false),
        (Some("http://example.com:8083"), None, none, false, false),
        // Ports that go without saying.
        (
            Some("http://example.com"),
            Some("example.com"),
            none,
            false,
            true,
        ),
        (
            Some("https://example.com"),
            Some("example.com"),
            none,
            false,
            true,
        ),
        (
            Some("https://example.com"),
            Some("example.com:443"),
            none,
            false,
            true,
        ),
        (
            Some("http://example.com:80"),
            Some("example.com"),
            none,
            false,
            true,
        ),
        (
            Some("http://example.com:81"),
            Some("example.com"),
            none,
            false,
            false,
        ),
        (
            Some("https://example.com"),
            Some("example.com:80"),
            none,
            false,
            false,
        ),
        (
            Some("http://[::1]:9000"),
            Some("[::1]:9000"),
            none,
            false,
            true,
        ),
        // The list.
        (Some("https://app.example.com"), host, &list, false, true),
        (Some("https://APP.example.com"), host, &list, false, true),
        (Some("http://app.example.com"), host, &list, false, false),
        (
            Some("https://app.example.com.evil.com"),
            host,
            &list,
            false,
            false,
        ),
        (Some("null"), host, &list, false, false),
        (Some("null"), host, &any, false, true),
        (Some("https://evil.com"), host, &any, false, true),
        // Pages under development.
        (
            Some("http://localhost:3000"),
            Some("127.0.0.1:8083"),
            none,
            true,
            true,
        ),
        (Some("http://127.8.9.1"), here, none, true, true),
        (Some("https://[::1]:1"), Some("[::1]"), none, true, true),
        // A page that had its own name resolve to this machine, and Hosts of other names.
        (rebound, Some("evil.com:8083"), none, true, false),
        (rebound, Some("evil.com:8083"), none, false, true),
        (rebound, here, none, true, false),
        (Some("http://localhost"), host, none, true, false),
        (Some("http://localhost"), None, none, true, false),
        (Some("https://app.example.com"), host, &list, true, true),
        // No page.
        (None, Some("tunnel.example:8083"), none, true, true),
        (Some("http://localhost:3000"), here, none, false, false),
        (Some("http://localhost.evil.com"), here, none, true, false),
        (Some("http://128.0.0.1"), here, none, true, false),
        (Some("http://127.0.0.1.evil.com"), here, none, true, false),
        (Some("http://evil.com/localhost"), here, none, true, false),
        (Some("http://localhost@evil.com"), here, none, true, false),
        (Some("http://localhost:x"), here, none, true, false),
        (Some("localhost"), here, none, true, false),
        (Some(""), here, none, true, false),
        (Some("null"), here, none, true, false),
    ];
    for (origin, host, allowed, loopback, expected) in cases {
        let actual = origin_allowed(origin, host, allowed, loopback);
        assert_eq!(
            actual, expected,
            "{origin:?} {host:?} {allowed:?} {loopback}"
        );
    }
}

/// Its nonce is that of the specification's example.
const REQUEST: ClientRequest<'static> = ClientRequest {
    host: "localhost:8083",
    path: "/mqtt?x=1",
    protocols: &["mqtt", "mqttv3.1"],
    nonce: *b"the sample nonce",
};

#[test]
fn our_client_and_server_agree() {
    let mut out = Vec::new();
    client_request(&REQUEST, &mut out).unwrap();
    let (request, head_bytes) = parse_request(&out, Limits::default()).unwrap().unwrap();
    assert_eq!(head_bytes, out.len());
    assert_eq!(
        (request.path, request.host),
        ("/mqtt", Some("localhost:8083"))
    );
    let protocols = vec!["mqtt", "mqttv3.1"];
    assert_eq!(
        request.kind,
        Kind::Upgrade {
            key: KEY,
            protocols
        }
    );
    for protocol in [None, Some("mqtt")] {
        let mut response = Vec::new();
        response_accept(KEY, protocol, &mut response);
        let head_bytes = response.len();
        for end in 0..head_bytes {
            assert_eq!(parse_response(&response[..end], &REQUEST), Ok(None));
        }
        response.extend(b"\x82\x00");
        let accepted = Accepted {
            protocol: protocol.map(str::to_owned),
            head_bytes,
        };
        assert_eq!(parse_response(&response, &REQUEST), Ok(Some(accepted)));
    }
}

#[test]
fn a_client_does_not_take_any_answer() {
    let mut accepted = Vec::new();
    response_accept(KEY, Some("mqtt"), &mut accepted);
    let accepted = String::from_utf8(accepted).unwrap();
    let cases = [
        (
            "101 Switching Protocols",
            "200 OK",
            HandshakeError::Refused(200),
        ),
        (
            "Upgrade: websocket",
            "Upgrade: h2c",
            HandshakeError::NotUpgraded,
        ),
        (
            "Connection: Upgrade",
            "Connection: close",
            HandshakeError::NotUpgraded,
        ),
        ("s3pP", "S3pP", HandshakeError::AcceptKey),
        ("-Accept:", "-Refuse:", HandshakeError::AcceptKey),
        ("Protocol: mqtt", "Protocol: amqp", HandshakeError::Protocol),
        (
            "Connection:",
            "Sec-WebSocket-Extensions: x\r\nConnection:",
            HandshakeError::Extension,
        ),
        ("HTTP/1.1", "RTSP/1.1", HandshakeError::Malformed),
    ];
    for (from, to, error) in cases {
        let response = accepted.replace(from, to);
        assert_eq!(
            parse_response(response.as_bytes(), &REQUEST),
            Err(error),
            "{response}"
        );
    }
    let long = format!("HTTP/1.1 101 X\r\nX: {}", "x".repeat(9000));
    assert_eq!(
        parse_response(long.as_bytes(), &REQUEST),
        Err(HandshakeError::Malformed)
    );
}

#[test]
fn a_client_sends_no_broken_lines() {
    let cases = [
        ClientRequest {
            host: "a\r\nX: y",
            ..REQUEST
        },
        ClientRequest {
            path: "/a b",
            ..REQUEST
        },
        ClientRequest {
            path: "mqtt",
            ..REQUEST
        },
        ClientRequest {
            protocols: &["mq\ntt"],
            ..REQUEST
        },
    ];
    for request in cases {
        let outcome = client_request(&request, &mut Vec::new());
        assert_eq!(outcome, Err(HandshakeError::InvalidRequest));
    }
}

proptest! {
    /// Any bytes, and any changes to a good request: no panic, and more bytes never undo an
    /// outcome.
    #[test]
    fn any_bytes(
        noise in proptest::collection::vec(any::<u8>(), 0..60),
        at in 0usize..200,
        origin in "\\PC{0,30}",
    ) {
        let _ = parse_request(&noise, Limits::default());
        let _ = parse_response(&noise, &REQUEST);
        let _ = origin_allowed(Some(&origin), Some(&origin), &[], true);
        let mut bytes = upgrade(&[]).into_bytes();
        let at = at.min(bytes.len());
        bytes.splice(at..at, noise);
        let whole = parse_request(&bytes, Limits::default());
        for end in 0..bytes.len() {
            match parse_request(&bytes[..end], Limits::default()) {
                Ok(None) => {}
                Err(error) => prop_assert_eq!(&whole, &Err(error)),
                done @ Ok(Some(_)) => prop_assert_eq!(&done, &whole),
            }
        }
    }
}
