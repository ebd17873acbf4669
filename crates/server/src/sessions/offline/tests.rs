//! Lines as they are written and read, and what is refused of them.

use serde_json::{Value, json};
use stentor_mqtt::{PacketId, Property, PropertyBuf, QoS};
use stentor_session_log::{
    Identifier, Origin, OwnedShare, OwnedTerms, Presence, Quotas, RestoredProperty, RestoredRoom,
    RestoredSession, RestoredSubscription, RestoredWill,
};
use stentor_zone::Unambiguous;

use super::line::{
    Entry, Line, MessageLine, OwnedBody, SessionLine, State, Whose, message_json, read,
    session_json,
};
use super::room::{read_room, room_json};
use crate::peer::Network;

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

fn whose() -> Whose {
    Whose {
        zone: "game".into(),
        client_id: "pump \"17\"".into(),
        user: Some("ann".into()),
    }
}

fn properties() -> Vec<u8> {
    let mut properties = PropertyBuf::new();
    for property in [
        Property::ContentType("text/plain"),
        Property::UserProperty(("unit", "C")),
    ] {
        properties.try_push(property).unwrap();
    }
    properties.as_properties().raw().to_vec()
}

fn subscription(group: Option<&str>, filter: &str) -> RestoredSubscription {
    RestoredSubscription {
        group: group.map(Into::into),
        filter: filter.into(),
        qos: QoS::ExactlyOnce,
        no_local: group.is_none(),
        retain_as_published: true,
        snapshot: true,
        room: false,
        identifier: Some(7),
        interval_micros: 1_500,
    }
}

/// A session with a value in each field.
fn session() -> RestoredSession<()> {
    RestoredSession {
        origin: Origin {
            generation: 1,
            shard: 0,
            number: 3,
        },
        zone: 4,
        client_id: whose().client_id,
        user: whose().user,
        guest: None,
        owner: Some("192.0.2.9".parse::<Network>().unwrap().mark()),
        expiry_secs: u32::MAX,
        has_no_account: true,
        roles_are_of_credential: true,
        roles: vec!["member".into(), "pump".into()],
        quotas: Quotas {
            messages_per_sec: Some(1),
            bytes_per_sec: Some(2),
            subscriptions: Some(3),
            queued_bytes: Some(u64::MAX),
        },
        presence: Presence::Away {
            since_ms: 5,
            until_ms: Some(6),
            will_at_ms: Some(7),
        },
        subscriptions: vec![subscription(None, "a/+/#"), subscription(Some("g"), "a/#")],
        arrived: vec![id(1), id(65_535)],
        next: 70_000,
        sent: 69_000,
        owed: Vec::new(),
        spooled: Vec::new(),
        held: Vec::new(),
        will: Some(RestoredWill {
            topic: "will".into(),
            properties: properties(),
            payload: vec![0xFF, 0],
            qos: QoS::AtLeastOnce,
            retain: true,
            delay_secs: 9,
            expiry_secs: Some(10),
        }),
        lost: 0,
        may_lack: Vec::new(),
        named: Vec::new(),
    }
}

fn body() -> OwnedBody {
    OwnedBody {
        topic: "a/b".into(),
        properties: properties(),
        payload: b"text \"\n".to_vec(),
        qos: QoS::ExactlyOnce,
        retain: true,
        expires_at_ms: Some(1_700_000_000_000),
    }
}

fn terms() -> OwnedTerms {
    OwnedTerms {
        qos: QoS::AtLeastOnce,
        retain: true,
        conflated: 2,
        identifiers: vec![Identifier(1), Identifier(268_435_455)],
        share: Some(OwnedShare {
            group: "g".into(),
            filter: "a/#".into(),
        }),
    }
}

fn read_back(value: &Value) -> Line {
    let text = value.to_string();
    read(&serde_json::from_str(&text).unwrap()).unwrap()
}

#[test]
fn a_session_is_read_back_with_every_field() {
    let session = session();
    let Line::Session(line) = read_back(&session_json(&session, &whose(), 5)) else {
        panic!("it is a session");
    };
    let expected = SessionLine {
        whose: whose(),
        address: Some("192.0.2.9".parse().unwrap()),
        expiry_secs: session.expiry_secs,
        has_no_account: true,
        roles_are_of_credential: true,
        roles: session.roles,
        quotas: session.quotas,
        presence: session.presence,
        subscriptions: session.subscriptions,
        arrived: session.arrived,
        next: Some(session.next),
        sent: session.sent,
        messages: Some(5),
        will: session.will,
    };
    assert_eq!(*line, expected);
}

#[test]
fn a_message_is_read_back_with_every_field() {
    let (body, terms) = (body(), terms());
    let binary = OwnedBody {
        payload: vec![0, 0xFF],
        ..body.clone()
    };
    for (state, body) in [
        (State::Waiting, Some(&body)),
        (State::Sent, Some(&binary)),
        (State::Held, Some(&body)),
        (State::Received, None),
    ] {
        let is_held = state == State::Held;
        let entry = Entry {
            state,
            delivery: (!is_held).then_some(70_000),
            packet_id: (!is_held).then(|| id(9)),
        };
        let its = body.map(|body| body.body(4));
        let message = its.as_ref().map(|body| (&terms, body));
        let Line::Message(line) = read_back(&message_json(&whose(), entry, message)) else {
            panic!("it is a message");
        };
        let expected = MessageLine {
            whose: whose(),
            state,
            delivery: entry.delivery,
            packet_id: entry.packet_id,
            message: body.map(|body| (terms.clone(), body.clone())),
        };
        assert_eq!(*line, expected);
    }
}

fn room() -> RestoredRoom {
    RestoredRoom {
        zone: 0,
        room: "hall".into(),
        owner: Some("ann".into()),
        capacity: Some(7),
        locked: true,
        history_count: 8,
        history_bytes: 9,
        history_age_secs: Some(10),
        version: 11,
        properties: vec![
            RestoredProperty {
                name: "level".into(),
                value: Some(br#"{"a":[1,"x"]}"#.to_vec()),
                version: 3,
                by: Some("bob".into()),
                lock: Some("".into()),
            },
            RestoredProperty {
                name: "locked".into(),
                value: None,
                version: 4,
                by: None,
                lock: Some("ann".into()),
            },
        ],
        members: vec!["ann".into(), "bob".into()],
    }
}

#[test]
fn a_room_is_read_back_with_every_field() {
    let room = room();
    let line = read_room(&room_json(&room, "game")).unwrap();
    assert_eq!((&*line.zone, line.room), ("game", room));
}

/// Numbers that a JSON reader would change go through an export as they are, or are refused.
#[test]
fn a_property_keeps_its_digits() {
    for (text, is_value) in [
        ("9007199254740993", true),
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        (r#"{"a":[1.5,null]}"#, true),
        ("123456789012345678901234567890", false),
        ("[-9223372036854775809]", false),
        ("0.12345678901234567890123", false),
        ("1e2", false),
    ] {
        let room = RestoredRoom {
            properties: vec![RestoredProperty {
                name: "n".into(),
                value: Some(text.into()),
                version: 1,
                by: None,
                lock: None,
            }],
            ..room()
        };
        let line = room_json(&room, "game").to_string();
        assert_eq!(line.contains(r#""value":"#), is_value, "{line}");
        let line = read_room(&Unambiguous::from_line(line.as_bytes()).unwrap()).unwrap();
        assert_eq!(line.room.properties, room.properties);
    }
    for (field, reason) in [
        (r#""value":18446744073709551616"#, "value_json"),
        (r#""value":{"a":[-9223372036854775809]}"#, "value_json"),
        (r#""value":1,"value_json":"1""#, "only one"),
        (r#""value_json":"{""#, "no JSON value"),
        (r#""value_json":7"#, "a text"),
    ] {
        let line = format!(r#"{{"room":"hall","properties":[{{"name":"n",{field}}}]}}"#);
        let value = Unambiguous::from_line(line.as_bytes()).unwrap();
        let error = read_room(&value).unwrap_err();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

/// The value of each field has a bound.
#[test]
fn what_is_beyond_a_bound_is_refused() {
    let session = session_json(&session(), &whose(), 5);
    let message = {
        let (body, terms) = (body(), terms());
        let entry = Entry {
            state: State::Waiting,
            delivery: Some(1),
            packet_id: Some(id(2)),
        };
        message_json(&whose(), entry, Some((&terms, &body.body(4))))
    };
    let long = "x".repeat(65_536);
    let too_many = json!(vec![1; 65_536]);
    let cases = [
        (&session, "client_id", json!(""), "empty"),
        (&session, "client_id", json!(long), "65536 bytes"),
        (&session, "client_id", json!("a\0b"), "U+0000"),
        (&session, "user", json!(""), "empty"),
        (&session, "zone", json!(7), "a text"),
        (&session, "expiry_secs", json!(-1), "whole number"),
        (
            &session,
            "away_since_ms",
            json!(1_u64 << 48),
            "whole number",
        ),
        (&session, "away_since_ms", Value::Null, "need away_since_ms"),
        (&session, "roles", json!(vec!["r"; 1_001]), "1001 entries"),
        (&session, "quotas", json!({"colour": 1}), "colour"),
        (
            &session,
            "quotas",
            json!({"subscriptions": 1_u64 << 32}),
            "whole number",
        ),
        (
            &session,
            "subscriptions",
            json!([{"filter": "a"}]),
            "has no qos",
        ),
        (
            &session,
            "subscriptions",
            json!([{"filter": "a", "qos": 3}]),
            "from 0 to 2",
        ),
        (
            &session,
            "subscriptions",
            json!([{"filter": "$share/g", "qos": 1}]),
            "$share/g",
        ),
        (&session, "arrived", too_many, "65536 entries"),
        (&session, "next_delivery", json!(1), "above next_delivery"),
        (
            &session,
            "next_delivery",
            Value::Null,
            "needs next_delivery",
        ),
        (
            &session,
            "next_delivery",
            json!(1_u64 << 56),
            "whole number",
        ),
        (
            &session,
            "will",
            json!({"topic": "a/+", "qos": 1}),
            "not a topic",
        ),
        (
            &message,
            "state",
            json!("lost"),
            "waiting, sent, received or held",
        ),
        (&message, "state", json!("held"), "neither"),
        (&message, "delivery", json!(1.5), "whole number"),
        (&message, "packet_id", json!(65_536), "from 1 to 65535"),
        (&message, "topic", json!("a/#"), "not a topic"),
        (&message, "payload", json!("x".repeat(700 << 10)), "716800"),
        (&message, "payload_base64", json!("eA=="), "only one"),
        (&message, "qos", json!(0), "from 1 to 2"),
        (&message, "published_qos", json!(3), "from 0 to 2"),
        (
            &message,
            "identifiers",
            json!([0]),
            "subscription identifier",
        ),
        (&message, "share", json!("a/#"), "$share/"),
        (
            &message,
            "properties",
            json!({"content_type": 1}),
            "content_type",
        ),
        (&message, "expires_ms", json!("soon"), "whole number"),
    ];
    for (line, field, value, reason) in cases {
        let mut line = line.clone();
        line[field] = value.clone();
        let error = read(&line).unwrap_err();
        assert!(error.contains(reason), "{field}: {error}");
        assert!(error.len() < 400, "{field}: {} bytes", error.len());
    }
    for text in ["7", "{}", r#"{"kind":7}"#, r#"{"kind":"sessions"}"#] {
        let value = serde_json::from_str(text).unwrap();
        assert!(read(&value).is_err(), "{text}");
    }
}

/// Without a time of its own, the end of a session follows from its expiry.
#[test]
fn a_session_that_is_away_ends_when_it_expires() {
    for (expiry_secs, until_ms) in [(5, Some(6_000)), (u32::MAX, None)] {
        let line = json!({
            "kind": "session", "client_id": "c", "expiry_secs": expiry_secs,
            "away_since_ms": 1_000,
        });
        let Ok(Line::Session(session)) = read(&line) else {
            panic!("{line} is a session");
        };
        let away = Presence::Away {
            since_ms: 1_000,
            until_ms,
            will_at_ms: None,
        };
        assert_eq!(session.presence, away);
    }
}
