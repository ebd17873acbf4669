//! Enhanced authentication of connected clients, and the end of what they logged in with.

use crate::world::{ConnectOptions, World, identity};
use stentor_hub::{Authenticated, Authentication, Step};
use stentor_mqtt::{
    Disconnect, Packet, Property, PropertyBuf, QoS, ReasonCode, Sender, Version, decode, frame,
};
use stentor_session::{CloseReason, Denied, Tick, Violation};

const METHOD: &str = "SCRAM-SHA-256";

fn options() -> ConnectOptions<'static> {
    ConnectOptions {
        user: Some("ann"),
        method: Some(METHOD),
        ..ConnectOptions::default()
    }
}

/// Reason, method and data of a CONNACK or AUTH packet.
fn read(bytes: &[u8]) -> (ReasonCode, Option<String>, Option<Vec<u8>>) {
    let head = frame(bytes, u32::MAX).unwrap().unwrap();
    let body = &bytes[head.header_len..head.total_len];
    let packet = decode(Version::V5, Sender::Server, bytes[0], body).unwrap();
    let (reason, properties) = match packet {
        Packet::Auth(auth) => (auth.reason, auth.properties),
        Packet::ConnAck(connack) => (connack.reason, connack.properties),
        Packet::Disconnect(disconnect) => (disconnect.reason, disconnect.properties),
        other => panic!("{}", other.name()),
    };
    let method = properties.auth_method().map(Into::into);
    (reason, method, properties.auth_data().map(Into::into))
}

fn send_auth(world: &mut World, client: usize, reason: ReasonCode, method: &str, data: &[u8]) {
    let mut properties = PropertyBuf::new();
    properties.push(Property::AuthenticationMethod(method));
    properties.push(Property::AuthenticationData(data));
    let auth = Disconnect {
        reason,
        properties: properties.as_properties(),
    };
    world.send(client, &Packet::Auth(auth));
}

/// Begins to authenticate again, by the method of CONNECT.
fn ask_again(world: &mut World, client: usize, data: &[u8]) {
    send_auth(world, client, ReasonCode::ReAuthenticate, METHOD, data);
}

/// Goes on with it.
fn go_on(world: &mut World, client: usize, data: &[u8]) {
    send_auth(
        world,
        client,
        ReasonCode::ContinueAuthentication,
        METHOD,
        data,
    );
}

/// What the client has said to the authenticator since the last look.
fn said(world: &mut World) -> Vec<Authentication> {
    std::mem::take(&mut world.hubs[0].effects().authentications)
}

fn decide(world: &mut World, client: usize, decision: Authenticated) {
    let (key, link) = (world.clients[client].key, world.clients[client].link);
    let now = world.now;
    world.hubs[0].authenticated(now, key.unwrap(), link.unwrap(), decision);
    world.settle();
}

/// [MQTT-4.12.0-5], [MQTT-4.12.0-6]: who came by a method is told it, nobody else.
#[test]
fn connack_names_the_method_of_connect() {
    let mut world = World::new(1);
    let client = world.connect_only(Version::V5, "a", &options());
    let connack = read(&world.receive_packet(client).unwrap());
    let expected = (
        ReasonCode::Success,
        Some(METHOD.into()),
        Some(b"last".to_vec()),
    );
    assert_eq!(connack, expected);
    let plain = world.connect_only(Version::V5, "b", &ConnectOptions::default());
    let connack = read(&world.receive_packet(plain).unwrap());
    assert_eq!(connack, (ReasonCode::Success, None, None));
}

/// [MQTT-4.12.1-1] A client authenticates again and goes on meanwhile.
#[test]
fn a_client_authenticates_again() {
    let mut world = World::new(1);
    let client = world.connect(Version::V5, "a", &options());
    world.subscribe(client, "t", QoS::AtMostOnce);
    ask_again(&mut world, client, b"one");
    let said_first = said(&mut world).pop().unwrap();
    assert_eq!(
        (said_first.step, &*said_first.data),
        (Step::Begin, &b"one"[..])
    );
    assert_eq!(&*said_first.method, METHOD);
    assert_eq!(said_first.identity.user.as_deref(), Some("ann"));
    // It is a client like any other until then.
    world.publish(client, "t", "still here", QoS::AtMostOnce, false);
    assert_eq!(world.take_payloads(client), ["still here"]);
    decide(&mut world, client, Authenticated::Continue(b"two".to_vec()));
    let asked = read(&world.take_packet(client, 0xF0).unwrap());
    let expected = (
        ReasonCode::ContinueAuthentication,
        Some(METHOD.into()),
        Some(b"two".to_vec()),
    );
    assert_eq!(asked, expected);
    go_on(&mut world, client, b"three");
    let said_next = said(&mut world).pop().unwrap();
    assert_eq!(
        (said_next.step, &*said_next.data),
        (Step::Continue, &b"three"[..])
    );
    let ann = identity(Some("ann"), Tick::NEVER, &[]);
    decide(
        &mut world,
        client,
        Authenticated::Accepted(ann, Some(b"four".to_vec())),
    );
    let done = read(&world.take_packet(client, 0xF0).unwrap());
    let expected = (
        ReasonCode::Success,
        Some(METHOD.into()),
        Some(b"four".to_vec()),
    );
    assert_eq!(done, expected);
    assert_eq!(world.clients[client].closed, None);
    // And once more, from the beginning.
    ask_again(&mut world, client, b"one");
    assert_eq!(said(&mut world).len(), 1);
}

/// [MQTT-3.15.2-2] [MQTT-3.15.2-3] AUTH of a server has the method and the data, and nothing that
/// would make it larger.
#[test]
fn auth_has_neither_a_reason_string_nor_user_properties() {
    let ann = || identity(Some("ann"), Tick::NEVER, &[]);
    for decision in [
        Authenticated::Continue(b"two".to_vec()),
        Authenticated::Accepted(ann(), Some(b"two".to_vec())),
    ] {
        let mut world = World::new(1);
        let client = world.connect(Version::V5, "a", &options());
        ask_again(&mut world, client, b"x");
        decide(&mut world, client, decision);
        let bytes = world.take_packet(client, 0xF0).unwrap();
        let head = frame(&bytes, u32::MAX).unwrap().unwrap();
        let body = &bytes[head.header_len..];
        let packet = decode(Version::V5, Sender::Server, bytes[0], body).unwrap();
        let Packet::Auth(auth) = packet else {
            panic!("an AUTH");
        };
        let properties: Vec<_> = auth.properties.iter().collect();
        let expected = [
            Property::AuthenticationMethod(METHOD),
            Property::AuthenticationData(b"two"),
        ];
        assert_eq!(properties, expected);
    }
}

/// [MQTT-4.12.1-2]
#[test]
fn a_failed_authentication_closes_the_connection() {
    let mut world = World::new(1);
    let client = world.connect(Version::V5, "a", &options());
    ask_again(&mut world, client, b"x");
    let refused = CloseReason::Denied(Denied::Right);
    decide(&mut world, client, Authenticated::Refused(refused));
    assert_eq!(world.clients[client].closed, Some(refused));
    let final_output = read(&world.take_packet(client, 0xE0).unwrap());
    assert_eq!(final_output.0, ReasonCode::NotAuthorized);
}

#[test]
fn a_session_never_becomes_somebody_elses() {
    for other in [Some("bob"), None] {
        let mut world = World::new(1);
        let client = world.connect(Version::V5, "a", &options());
        ask_again(&mut world, client, b"x");
        let accepted = Authenticated::Accepted(identity(other, Tick::NEVER, &[]), None);
        decide(&mut world, client, accepted);
        let refused = CloseReason::Denied(Denied::Right);
        assert_eq!(world.clients[client].closed, Some(refused));
    }
}

/// [MQTT-4.12.0-7] and the order of things.
#[test]
fn auth_out_of_turn_is_a_protocol_error() {
    type Case = (&'static str, Option<&'static str>, fn(&mut World, usize));
    let cases: [Case; 5] = [
        ("without a method", None, |world, client| {
            ask_again(world, client, b"");
        }),
        ("another method", Some(METHOD), |world, client| {
            send_auth(
                world,
                client,
                ReasonCode::ReAuthenticate,
                "SCRAM-SHA-512",
                b"",
            );
        }),
        ("going on with nothing", Some(METHOD), |world, client| {
            go_on(world, client, b"");
        }),
        ("twice", Some(METHOD), |world, client| {
            ask_again(world, client, b"");
            ask_again(world, client, b"");
        }),
        ("out of turn", Some(METHOD), |world, client| {
            ask_again(world, client, b"");
            go_on(world, client, b"");
        }),
    ];
    for (what, method, send) in cases {
        let mut world = World::new(1);
        let options = ConnectOptions {
            method,
            ..options()
        };
        let client = world.connect(Version::V5, "a", &options);
        send(&mut world, client);
        let closed = world.clients[client].closed;
        let expected = CloseReason::Violation(Violation::UnexpectedAuth);
        assert_eq!(closed, Some(expected), "{what}");
        let final_output = read(&world.take_packet(client, 0xE0).unwrap());
        assert_eq!(final_output.0, ReasonCode::ProtocolError, "{what}");
    }
}

#[test]
fn an_answer_to_a_connection_that_has_gone_changes_nothing() {
    let mut world = World::new(1);
    let client = world.connect(Version::V5, "a", &options());
    let (key, link) = (
        world.clients[client].key.unwrap(),
        world.clients[client].link.unwrap(),
    );
    ask_again(&mut world, client, b"");
    world.drop_link(client);
    let next = world.connect(Version::V5, "a", &options());
    let refused = Authenticated::Refused(CloseReason::Denied(Denied::Right));
    let now = world.now;
    world.hubs[0].authenticated(now, key, link, refused);
    world.settle();
    assert_eq!(world.clients[next].closed, None);
}

#[test]
fn a_connection_ends_when_its_token_does_unless_it_is_renewed() {
    for (keep_alive_secs, renewed) in [(0, false), (5, false), (0, true), (5, true)] {
        let mut world = World::new(1);
        let (now, end) = (world.now, world.now.after_secs(20));
        let options = ConnectOptions {
            expires_at: end,
            keep_alive_secs,
            ..options()
        };
        let client = world.connect(Version::V5, "a", &options);
        for _ in 0..4 {
            world.pass_secs(4);
            world.send(client, &Packet::PingReq);
        }
        assert_eq!(world.clients[client].closed, None);
        if renewed {
            ask_again(&mut world, client, b"");
            let ann = identity(Some("ann"), now.after_secs(30), &[]);
            decide(&mut world, client, Authenticated::Accepted(ann, None));
            world.pass_secs(6);
            world.send(client, &Packet::PingReq);
            world.pass_secs(6);
            world.send(client, &Packet::PingReq);
            assert_eq!(world.clients[client].closed, None);
        }
        world.pass_secs(5);
        let expired = CloseReason::Denied(Denied::Expired);
        assert_eq!(
            world.clients[client].closed,
            Some(expired),
            "{keep_alive_secs} {renewed}"
        );
        let final_output = loop {
            let packet = world.receive_packet(client).unwrap();
            if packet[0] == 0xE0 {
                break read(&packet);
            }
        };
        assert_eq!(final_output.0, ReasonCode::MaximumConnectTime);
    }
}

/// A silent client is still found out, whichever timer was set last.
#[test]
fn keep_alive_is_watched_beside_the_expiry() {
    let mut world = World::new(1);
    let options = ConnectOptions {
        expires_at: world.now.after_secs(100),
        keep_alive_secs: 10,
        ..options()
    };
    let client = world.connect(Version::V5, "a", &options);
    ask_again(&mut world, client, b"");
    let ann = identity(Some("ann"), world.now.after_secs(200), &[]);
    decide(&mut world, client, Authenticated::Accepted(ann, None));
    world.pass_secs(16);
    let closed = world.clients[client].closed;
    assert!(
        matches!(closed, Some(CloseReason::Timeout(_))),
        "{closed:?}"
    );
}

/// A client that takes no packet of the size of the data is told so, not left waiting.
#[test]
fn data_that_does_not_fit_closes_the_connection() {
    let mut world = World::new(1);
    let options = ConnectOptions {
        packet_bytes_max: 100,
        ..options()
    };
    let client = world.connect(Version::V5, "a", &options);
    ask_again(&mut world, client, b"");
    decide(&mut world, client, Authenticated::Continue(vec![7; 100]));
    assert!(world.clients[client].closed.is_some());
}
