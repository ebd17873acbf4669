//! The client against a server that follows a script.

use std::time::Duration;

use crate::support::{Step, serve};
use stentor_client::{
    Client, ClientError, Options, Property, PropertyBuf, Publication, QoS, ReasonCode,
    SubscribeOptions, Version, Will,
};

use Step::{Close, Expect, Send};

const CONNECT_V5: &[u8] = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01c";
const CONNECT_V311: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c";
const ACCEPTED_V5: &[u8] = b"\x20\x03\x00\x00\x00";
const ACCEPTED_V311: &[u8] = b"\x20\x02\x00\x00";

fn options(url: &str, version: Version) -> Options {
    let mut options = Options::new(url.parse().unwrap());
    options.version = version;
    options.client_id = "c".into();
    options.keep_alive = Duration::ZERO;
    options.timeout = Duration::from_secs(60);
    options
}

/// Logs in to a server that then follows `script`.
fn connect(version: Version, script: &'static [Step]) -> (Client, crate::support::Server) {
    let login: &[Step] = match version {
        Version::V5 => &[Expect(CONNECT_V5), Send(ACCEPTED_V5)],
        Version::V31 | Version::V311 => &[Expect(CONNECT_V311), Send(ACCEPTED_V311)],
    };
    let server = serve(login.iter().chain(script).copied().collect());
    let client = Client::connect(&options(&server.url, version)).unwrap();
    (client, server)
}

#[test]
fn a_login_carries_everything() {
    let server = serve(vec![
        Expect(
            b"\x10\x2d\x00\x04MQTT\x05\xf6\x00\x1e\x05\x11\x00\x00\x00\x09\x00\x01c\
              \x05\x18\x00\x00\x00\x02\x00\x03w/t\x00\x03bye\x00\x03ann\x00\x03p@s",
        ),
        Send(b"\x20\x09\x01\x00\x06\x12\x00\x03new"),
        Expect(b"\xe0\x00"),
        Close,
    ]);
    let mut options = options(
        &server.url.replace("mqtt://", "mqtt://ann:p%40s@"),
        Version::V5,
    );
    options.keep_alive = Duration::from_secs(30);
    options.properties.push(Property::SessionExpiryInterval(9));
    let mut properties = PropertyBuf::new();
    properties.push(Property::WillDelayInterval(2));
    options.will = Some(Will {
        topic: "w/t".into(),
        payload: b"bye".to_vec(),
        qos: QoS::ExactlyOnce,
        retain: true,
        properties,
    });
    let client = Client::connect(&options).unwrap();
    assert!(client.accepted().session_present);
    assert_eq!(client.accepted().client_id, "new");
    client.disconnect().unwrap();
    server.join();
}

#[test]
fn a_refused_login_says_why() {
    let server = serve(vec![
        Expect(CONNECT_V5),
        Send(b"\x20\x0a\x00\x87\x07\x1f\x00\x04nope"),
        Close,
    ]);
    let error = Client::connect(&options(&server.url, Version::V5)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server refused the login: not authorized (nope)"
    );
    server.join();
    let server = serve(vec![Expect(CONNECT_V311), Send(b"\x20\x02\x00\x04"), Close]);
    let error = Client::connect(&options(&server.url, Version::V311)).unwrap_err();
    assert!(matches!(
        error,
        ClientError::Refused {
            reason: ReasonCode::BadUserNameOrPassword,
            ..
        }
    ));
    server.join();
}

#[test]
fn qos_1_waits_for_its_acknowledgement_and_keeps_what_arrives_meanwhile() {
    let (mut client, server) = connect(
        Version::V5,
        &[
            Expect(b"\x32\x08\x00\x01t\x00\x01\x00hi"),
            // A message of QoS 1, an answer to somebody else, and at last the right one.
            Send(b"\x32\x07\x00\x01m\x00\x07\x00x"),
            Expect(b"\x40\x02\x00\x07"),
            Send(b"\x40\x02\x00\x09\x40\x03\x00\x01\x10"),
        ],
    );
    let message = Publication {
        qos: QoS::AtLeastOnce,
        ..Publication::new("t", b"hi")
    };
    assert_eq!(
        client.publish(&message).unwrap(),
        ReasonCode::NoMatchingSubscribers
    );
    let message = client.receive(Some(Duration::ZERO)).unwrap().unwrap();
    assert_eq!((message.topic.as_str(), message.packet_id), ("m", Some(7)));
    server.join_after(client);
}

#[test]
fn a_refused_publish_leaves_the_connection_alive() {
    let (mut client, server) = connect(
        Version::V5,
        &[
            Expect(b"\x32\x06\x00\x01t\x00\x01\x00"),
            Send(b"\x40\x03\x00\x01\x87"),
            Expect(b"\x30\x04\x00\x01t\x00"),
        ],
    );
    let message = Publication {
        qos: QoS::AtLeastOnce,
        ..Publication::new("t", b"")
    };
    assert!(matches!(
        client.publish(&message),
        Err(ClientError::Rejected {
            reason: ReasonCode::NotAuthorized,
            ..
        })
    ));
    client.publish(&Publication::new("t", b"")).unwrap();
    server.join_after(client);
}

/// [MQTT-3.2.2-11] [MQTT-3.2.2-14] [MQTT-3.2.2-17] [MQTT-3.2.2-15] What the server said not to take
/// is not sent; the connection lives on.
#[test]
fn what_the_server_does_not_take_is_not_sent() {
    let server = serve(vec![
        Expect(CONNECT_V5),
        // Maximum QoS 1, no retained messages, packets up to 32 bytes, topic aliases up to 2.
        Send(b"\x20\x0f\x00\x00\x0c\x24\x01\x25\x00\x27\x00\x00\x00\x20\x22\x00\x02"),
        Expect(b"\x30\x08\x00\x01t\x03\x23\x00\x02x"),
    ]);
    let mut client = Client::connect(&options(&server.url, Version::V5)).unwrap();
    let plain = || Publication::new("t", b"x");
    let with_alias = |alias| {
        let mut publication = plain();
        publication.properties.push(Property::TopicAlias(alias));
        publication
    };
    let large = [0; 32];
    for (publication, code) in [
        (with_alias(3), ReasonCode::TopicAliasInvalid),
        (with_alias(0), ReasonCode::TopicAliasInvalid),
        (
            Publication {
                qos: QoS::ExactlyOnce,
                ..plain()
            },
            ReasonCode::QoSNotSupported,
        ),
        (
            Publication {
                retain: true,
                ..plain()
            },
            ReasonCode::RetainNotSupported,
        ),
        (Publication::new("t", &large), ReasonCode::PacketTooLarge),
    ] {
        match client.publish(&publication) {
            Err(ClientError::Rejected { reason, text }) => {
                assert_eq!(reason, code);
                assert!(text.unwrap().contains("server"));
            }
            other => panic!("{code:?}: {other:?}"),
        }
    }
    client.publish(&with_alias(2)).unwrap();
    server.join_after(client);
}

/// [MQTT-4.3.3-10]: a second PUBLISH before PUBREL is not a second message.
#[test]
fn qos_2_is_delivered_once_in_both_directions() {
    let (mut client, server) = connect(
        Version::V311,
        &[
            Expect(b"\x34\x06\x00\x01t\x00\x01x"),
            Send(b"\x50\x02\x00\x01"),
            Expect(b"\x62\x02\x00\x01"),
            Send(b"\x70\x02\x00\x01"),
            Send(b"\x34\x06\x00\x01m\x00\x05y\x3c\x06\x00\x01m\x00\x05y\x62\x02\x00\x05"),
            Expect(b"\x50\x02\x00\x05\x50\x02\x00\x05\x70\x02\x00\x05"),
            Send(b"\x34\x06\x00\x01m\x00\x05z"),
            Expect(b"\x50\x02\x00\x05"),
        ],
    );
    let message = Publication {
        qos: QoS::ExactlyOnce,
        ..Publication::new("t", b"x")
    };
    client.publish(&message).unwrap();
    let mut payloads = Vec::new();
    while payloads.len() < 2 {
        payloads.push(client.receive(None).unwrap().unwrap().payload);
    }
    assert_eq!(payloads, [b"y", b"z"]);
    server.join_after(client);
}

#[test]
fn subscriptions_are_answered_one_by_one() {
    let (mut client, server) = connect(
        Version::V311,
        &[
            Expect(b"\x82\x0a\x00\x01\x00\x01a\x01\x00\x01b\x00"),
            Send(b"\x90\x04\x00\x01\x01\x80"),
            Expect(b"\xa2\x05\x00\x02\x00\x01a"),
            Send(b"\xb0\x02\x00\x02"),
        ],
    );
    let at_least_once = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    let answers = client
        .subscribe(&[("a", at_least_once), ("b", Default::default())])
        .unwrap();
    assert_eq!(answers[0], ReasonCode::GrantedQoS1);
    assert!(answers[1].is_error());
    assert_eq!(client.unsubscribe(&["a"]).unwrap(), []);
    server.join_after(client);
}

#[test]
fn topic_aliases_are_resolved_and_unknown_ones_refused() {
    let (mut client, server) = connect(
        Version::V5,
        &[
            Send(b"\x30\x09\x00\x01t\x03\x23\x00\x0112"),
            Send(b"\x30\x07\x00\x00\x03\x23\x00\x013"),
            Send(b"\x30\x07\x00\x00\x03\x23\x00\x024"),
        ],
    );
    for payload in ["12", "3"] {
        let message = client.receive(None).unwrap().unwrap();
        assert_eq!(
            (message.topic.as_str(), &message.payload[..]),
            ("t", payload.as_bytes())
        );
    }
    assert!(matches!(
        client.receive(None),
        Err(ClientError::Unexpected(_))
    ));
    server.join_after(client);
}

#[test]
fn a_packet_that_comes_in_pieces_is_put_together() {
    let (mut client, server) = connect(
        Version::V311,
        &[
            Send(b"\x30"),
            Send(b"\x05\x00"),
            Send(b"\x01"),
            Send(b"thi\x30\x03\x00\x01t"),
        ],
    );
    assert_eq!(client.receive(None).unwrap().unwrap().payload, b"hi");
    assert_eq!(client.receive(None).unwrap().unwrap().payload, b"");
    server.join_after(client);
}

#[test]
fn the_end_of_a_connection_is_told_apart() {
    let (mut client, server) = connect(Version::V5, &[Send(b"\xe0\x01\x8b"), Close]);
    assert_eq!(
        client.receive(None).unwrap_err().to_string(),
        "the server ended the connection: server shutting down"
    );
    server.join_after(client);
    let (mut client, server) = connect(Version::V5, &[Close]);
    assert!(matches!(client.receive(None), Err(ClientError::Closed)));
    server.join_after(client);
    let (mut client, server) = connect(Version::V5, &[Send(b"\x00\x00")]);
    assert!(matches!(client.receive(None), Err(ClientError::Decode(_))));
    server.join_after(client);
}

#[test]
fn time_limits_hold() {
    let (mut client, server) = connect(Version::V311, &[]);
    assert_eq!(
        client.receive(Some(Duration::from_millis(1))).unwrap(),
        None
    );
    assert_eq!(client.receive(Some(Duration::ZERO)).unwrap(), None);
    server.join_after(client);
}

#[test]
fn silence_is_filled_with_pings_and_a_silent_server_is_given_up() {
    let server = serve(vec![
        Expect(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x03\x00\x01c"),
        Send(ACCEPTED_V311),
        Expect(b"\xc0\x00"),
        Send(b"\xd0\x00"),
        Expect(b"\xc0\x00"),
    ]);
    let mut options = options(&server.url, Version::V311);
    // The script's answer has as long to come, on a busy machine too.
    options.keep_alive = Duration::from_secs(3);
    let mut client = Client::connect(&options).unwrap();
    assert!(matches!(
        client.receive(None),
        Err(ClientError::Timeout("PINGRESP"))
    ));
    server.join_after(client);
}

/// What a TLS server answers to what is no TLS: an alert of the kind "protocol version".
#[test]
fn a_port_that_speaks_tls_is_named_so() {
    let server = serve(vec![
        Expect(CONNECT_V5),
        Send(b"\x15\x03\x03\x00\x02\x02\x46"),
        Close,
    ]);
    let error = Client::connect(&options(&server.url, Version::V5)).unwrap_err();
    assert!(error.to_string().contains("add --cafile"), "{error}");
    server.join();
}

/// TLS or WebSocket where the other end speaks MQTT alone, and MQTT where it speaks HTTP.
#[test]
fn a_port_that_speaks_something_else_is_named_so() {
    let told = |url: String| {
        let error = Client::connect(&options(&url, Version::V5)).unwrap_err();
        error.to_string()
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers: [&[u8]; 6] = [
        b"",
        b"\x20\x02\x00\x01",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"\x20\x02\x00\x01",
        b"\x15\x03\x03\x00\x02\x02\x46",
    ];
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 4_096]).unwrap();
            // A client that is refused may have gone.
            let _ = stream.write_all(answer);
        }
    });
    for (scheme, says) in [
        ("mqtts", "not to speak TLS: leave out --cafile"),
        ("mqtts", "not to speak TLS: leave out --cafile"),
        ("mqtt", "add --ws"),
        ("ws", "leave out --ws"),
        ("ws", "leave out --ws"),
        ("ws", "add --cafile"),
    ] {
        let text = told(format!("{scheme}://{address}"));
        assert!(text.contains(says), "{scheme}: {text}");
    }
    server.join().unwrap();
}

#[test]
fn a_port_without_a_server_is_told_in_words() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("mqtt://{address}");
    let error = Client::connect(&options(&url, Version::V5)).unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("no server listens there"), "{text}");
}

#[test]
fn nobody_there_is_said_with_the_address() {
    let error = Client::connect(&options("unix:/nonexistent/s.sock", Version::V5)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot connect to unix:/nonexistent/s.sock")
    );
}
