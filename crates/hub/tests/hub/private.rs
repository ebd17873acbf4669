//! Private messages and their responses, over one shard and over several.

use crate::world::{ConnectOptions, World};
use stentor_mqtt::{Properties, Property, PropertyBuf, QoS, ReasonCode, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        ..ConnectOptions::default()
    }
}

/// The number of shards, and two client ids whose homes are the same or not.
fn places() -> impl Iterator<Item = (u8, &'static str, &'static str)> {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pairs = ids
        .into_iter()
        .flat_map(move |b| [(1, "a", b), (4, "a", b)]);
    pairs.filter(|(_, a, b)| a != b)
}

fn puback(w: &mut World, client: usize) -> u8 {
    w.take_ack(client, 0x40).0
}

/// What a client has received, as topics with payloads.
fn received(w: &mut World, client: usize) -> Vec<String> {
    let messages = w.take_messages(client).into_iter();
    let text =
        |m: crate::world::Message| format!("{} {}", m.topic, String::from_utf8_lossy(&m.payload));
    messages.map(text).collect()
}

#[test]
fn one_in_gives_a_response_and_a_notification() {
    for (shards, a, b) in places() {
        for version in [Version::V311, Version::V5] {
            let mut w = World::new(shards);
            let ann = w.connect(Version::V5, a, &user("ann"));
            let bob = w.connect(version, b, &user("bob"));
            let eve = w.connect(Version::V5, "eve", &user("eve"));
            assert_eq!(w.subscribe(bob, "$private/from/+", Q1), 1);
            assert_eq!(w.subscribe(eve, "$private/from/+", Q1), 1);
            w.publish(ann, "$private/to/bob", "hello", Q1, false);
            assert_eq!(received(&mut w, bob), ["$private/from/ann hello"]);
            assert_eq!(puback(&mut w, ann), 0x00, "{shards} {b}");
            assert!(received(&mut w, eve).is_empty());
            assert!(received(&mut w, ann).is_empty());
        }
    }
}

#[test]
fn both_roles_fit_on_one_connection() {
    for qos in [Q0, Q1] {
        let mut w = World::new(4);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        w.subscribe(ann, "$private/from/+", qos);
        w.publish(ann, "$private/to/ann", "me", Q1, false);
        assert_eq!(received(&mut w, ann), ["$private/from/ann me"]);
        assert_eq!(puback(&mut w, ann), 0x00);
        w.publish(ann, "$private/to/ann", "again", Q0, false);
        assert_eq!(received(&mut w, ann), ["$private/from/ann again"]);
    }
}

#[test]
fn every_filter_below_the_inbox_works_and_ends() {
    for (filter, hears_ann) in [
        ("$private/from/+", true),
        ("$private/from/#", true),
        ("$private/#", true),
        ("$private/+/ann", true),
        ("$private/from/ann", true),
        ("$private/from/eve", false),
    ] {
        let mut w = World::new(2);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        let bob = w.connect(Version::V5, "b", &user("bob"));
        assert_eq!(w.subscribe(bob, filter, Q1), 1, "{filter}");
        let key = w.clients[bob].key.unwrap();
        let hub = usize::from(w.clients[bob].shard);
        let listed = w.hubs[hub].inspect().subscriptions(key);
        assert_eq!(listed.iter().map(|f| &**f).collect::<Vec<_>>(), [filter]);
        w.publish(ann, "$private/to/bob", "x", Q1, false);
        assert_eq!(
            received(&mut w, bob).len(),
            usize::from(hears_ann),
            "{filter}"
        );
        assert_eq!(puback(&mut w, ann), if hears_ann { 0 } else { 0x10 });
        w.unsubscribe(bob, filter);
        w.publish(ann, "$private/to/bob", "x", Q1, false);
        assert!(received(&mut w, bob).is_empty(), "{filter}");
        assert_eq!(puback(&mut w, ann), 0x10, "{filter}");
    }
}

/// What a zone's wildcards outside `$` see of private messages: nothing.
#[test]
fn nobody_else_hears_a_private_message() {
    let mut w = World::new(4);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    let bob = w.connect(Version::V5, "b", &user("bob"));
    let eve = w.connect(Version::V5, "e", &user("eve"));
    w.subscribe(bob, "$private/from/+", Q1);
    for filter in [
        "#",
        "+/from/+",
        "$private/#",
        "$private/+/+",
        "$private/from/ann",
    ] {
        assert_eq!(w.subscribe(eve, filter, Q1), 1, "{filter}");
    }
    // Where it stands in the index cannot be named.
    for filter in [
        "$private/to/bob/from/+",
        "$private/to/#",
        "$private/to/bob/#",
    ] {
        assert_eq!(w.subscribe(eve, filter, Q1), 0x8F, "{filter}");
    }
    for filter in ["$share/g/$private/from/+", "$share/g/$private/to/bob/#"] {
        assert_eq!(w.subscribe(eve, filter, Q1), 0x8F, "{filter}");
    }
    w.publish(ann, "$private/to/bob", "secret", Q1, false);
    assert_eq!(received(&mut w, bob), ["$private/from/ann secret"]);
    assert!(received(&mut w, eve).is_empty());
}

#[test]
fn the_sender_cannot_be_forged() {
    for shards in [1, 4] {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        let bob = w.connect(Version::V5, "b", &user("bob"));
        w.subscribe(bob, "$private/from/+", Q1);
        w.subscribe(bob, "$reply/#", Q1);
        for topic in [
            "$private/from/bob",
            "$private/from/eve",
            "$reply/1",
            "$rooms/tea",
            "$presence/eve",
        ] {
            w.publish(ann, topic, "x", Q1, true);
            assert_eq!(puback(&mut w, ann), 0x87, "{topic}");
        }
        // The place in the index of bob's inbox, and what is no address.
        for (topic, code) in [
            ("$private/to", 0x90),
            ("$private", 0x90),
            ("$private/to/bob/from/eve", 0x90),
            ("$private/to/", 0x90),
            ("$private/to/%", 0x90),
            ("$private/to/bob/a/b", 0x90),
        ] {
            w.publish(ann, topic, "x", Q1, false);
            assert_eq!(puback(&mut w, ann), code, "{topic}");
        }
        assert!(received(&mut w, bob).is_empty());
        // Nothing was kept for later either.
        let late = w.connect(Version::V5, "l", &user("bob"));
        for filter in ["$private/#", "$reply/#", "$presence/eve", "$rooms/tea"] {
            w.subscribe(late, filter, Q1);
        }
        assert!(received(&mut w, late).is_empty());
    }
}

#[test]
fn every_session_of_the_user_is_told() {
    let mut w = World::new(4);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    let phones: Vec<usize> = ["b", "c", "d", "e", "f", "g"]
        .map(|id| w.connect(Version::V5, id, &user("bob")))
        .into();
    for phone in &phones {
        w.subscribe(*phone, "$private/from/+", Q1);
    }
    w.publish(ann, "$private/to/bob", "ring", Q1, false);
    assert_eq!(puback(&mut w, ann), 0x00);
    for phone in phones {
        assert_eq!(received(&mut w, phone), ["$private/from/ann ring"]);
    }
    assert!(w.take_packet(ann, 0x40).is_none(), "one response");
}

#[test]
fn who_is_not_there_cannot_be_told_from_who_does_not_exist() {
    for (shards, a, b) in places() {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, a, &user("ann"));
        // Connected, but without an inbox.
        w.connect(Version::V5, b, &user("bob"));
        let gone = w.connect(Version::V5, "gone", &user("cid"));
        w.subscribe(gone, "$private/from/+", Q1);
        w.drop_link(gone);
        for name in ["bob", "cid", "nobody"] {
            w.publish(ann, &format!("$private/to/{name}"), "x", Q1, false);
            let (code, text) = w.take_ack(ann, 0x40);
            assert_eq!(code, 0x10);
            assert_eq!(text, "nobody is listening under this name");
        }
    }
}

#[test]
fn a_session_that_waits_for_its_client_keeps_the_message() {
    for (shards, a, b) in places() {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, a, &user("ann"));
        let persistent = ConnectOptions {
            user: Some("bob"),
            ..ConnectOptions::persistent()
        };
        let bob = w.connect(Version::V5, b, &persistent);
        w.subscribe(bob, "$private/from/+", Q1);
        w.drop_link(bob);
        w.publish(ann, "$private/to/bob", "lost", Q0, false);
        w.publish(ann, "$private/to/bob", "later", Q1, false);
        let (code, text) = w.take_ack(ann, 0x40);
        assert_eq!(code, 0x00);
        assert!(text.starts_with("stored"), "{text}");
        let bob = w.connect(Version::V5, b, &persistent);
        assert_eq!(received(&mut w, bob), ["$private/from/ann later"]);
        // Another user of the same client id does not inherit it.
        w.drop_link(bob);
        w.publish(ann, "$private/to/bob", "private", Q1, false);
        let eve = ConnectOptions {
            user: Some("eve"),
            ..persistent
        };
        let eve = w.connect(Version::V5, b, &eve);
        assert!(received(&mut w, eve).is_empty());
        // Nor does it destroy what waits, however it comes and goes.
        let anew = ConnectOptions {
            user: Some("eve"),
            ..ConnectOptions::default()
        };
        w.connect(Version::V5, b, &anew);
        assert!(w.clients[eve].closed.is_some(), "one connection at a time");
        let bob = w.connect(Version::V5, b, &persistent);
        let kept = received(&mut w, bob);
        let last = kept.last().map(String::as_str);
        assert_eq!(last, Some("$private/from/ann private"));
        // Its own clean start ends its session.
        w.drop_link(bob);
        w.publish(ann, "$private/to/bob", "too late", Q1, false);
        let new = ConnectOptions {
            clean_start: true,
            ..persistent
        };
        let bob = w.connect(Version::V5, b, &new);
        assert!(received(&mut w, bob).is_empty());
    }
}

#[test]
fn anonymous_clients_have_no_inbox_and_send_nothing() {
    let mut w = World::new(2);
    let nobody = w.connect(Version::V5, "n", &ConnectOptions::default());
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$private/from/+", Q1);
    assert_eq!(w.subscribe(nobody, "$private/from/+", Q1), 0x87);
    assert_eq!(w.subscribe(nobody, "$private/#", Q1), 0x87);
    w.publish(nobody, "$private/to/bob", "x", Q1, false);
    let (code, text) = w.take_ack(nobody, 0x40);
    assert_eq!(code, 0x87);
    assert!(text.contains("user name"), "{text}");
    assert!(received(&mut w, bob).is_empty());
}

/// Rights are asked about the user that is meant, however the topic says so.
#[test]
fn rights_cannot_be_walked_around() {
    let mut w = World::new(2);
    let options = ConnectOptions {
        denied: &["$private/to/bob", "$private/from/cid"],
        ..user("ann")
    };
    let ann = w.connect(Version::V5, "a", &options);
    let bob = w.connect(Version::V5, "b", &user("bob"));
    let cid = w.connect(Version::V5, "c", &user("cid"));
    w.subscribe(bob, "$private/from/+", Q1);
    for topic in [
        "$private/to/bob",
        "$private/to/bob/7",
        "$private/to/%62ob",
        "$private/to/b%6Fb/7",
    ] {
        w.publish(ann, topic, "x", Q1, false);
        assert_eq!(puback(&mut w, ann), 0x87, "{topic}");
    }
    assert!(received(&mut w, bob).is_empty());
    // Whom one may not hear, one does not hear.
    w.subscribe(ann, "$private/from/+", Q1);
    w.publish(cid, "$private/to/ann", "x", Q1, false);
    assert_eq!(puback(&mut w, cid), 0x10);
    w.publish(bob, "$private/to/ann", "y", Q1, false);
    assert_eq!(puback(&mut w, bob), 0x00);
    assert_eq!(received(&mut w, ann), ["$private/from/bob y"]);
}

#[test]
fn names_with_special_characters_stand_percent_encoded() {
    let mut w = World::new(2);
    let ann = w.connect(Version::V5, "a", &user("ann+/#$"));
    let bob = w.connect(Version::V5, "b", &user("a/b"));
    w.subscribe(bob, "$private/from/+", Q1);
    for topic in [
        "$private/to/a%2fb",
        "$private/to/a%2Fb",
        "$private/to/%61%2fb",
    ] {
        w.publish(ann, topic, "x", Q1, false);
        assert_eq!(puback(&mut w, ann), 0x00, "{topic}");
        let expected = "$private/from/ann%2b%2f%23%24 x";
        assert_eq!(received(&mut w, bob), [expected], "{topic}");
    }
    // Not the user a with a reply id.
    w.publish(ann, "$private/to/a/b", "x", Q1, false);
    assert_eq!(puback(&mut w, ann), 0x10);
    assert!(received(&mut w, bob).is_empty());
}

#[test]
fn a_reply_id_brings_the_response_to_any_version_and_qos() {
    for (shards, a, b) in places() {
        for (version, qos) in [(Version::V311, Q0), (Version::V311, Q1), (Version::V5, Q0)] {
            let mut w = World::new(shards);
            let ann = w.connect(version, a, &user("ann"));
            let bob = w.connect(version, b, &user("bob"));
            let other = w.connect(version, "other", &user("ann"));
            w.subscribe(bob, "$private/from/+", Q1);
            for client in [ann, other, bob] {
                w.subscribe(client, "$reply/+", Q1);
            }
            w.publish(ann, "$private/to/bob/7", "x", qos, false);
            assert_eq!(received(&mut w, bob), ["$private/from/ann x"]);
            let text = r#"{"code":0,"status":"delivered","to":"bob","text":""}"#;
            assert_eq!(received(&mut w, ann), [format!("$reply/7 {text}")]);
            w.publish(ann, "$private/to/nobody/8", "x", qos, false);
            let got = received(&mut w, ann);
            assert!(got[0].starts_with(r#"$reply/8 {"code":16,"#), "{got:?}");
            assert!(received(&mut w, other).is_empty(), "for the caller alone");
            let acked = w.take_packet(ann, 0x40).is_some();
            assert_eq!(acked, qos == Q1, "3.1.1 has no codes: it is acknowledged");
        }
    }
}

#[test]
fn nothing_is_delivered_without_a_subscription() {
    let mut w = World::new(1);
    let ann = w.connect(Version::V311, "a", &user("ann"));
    w.publish(ann, "$private/to/bob/7", "x", Q0, false);
    assert!(received(&mut w, ann).is_empty());
    w.subscribe(ann, "$reply/8", Q0);
    w.publish(ann, "$private/to/bob/7", "x", Q0, false);
    assert!(received(&mut w, ann).is_empty());
    w.publish(ann, "$private/to/bob/8", "x", Q0, false);
    assert_eq!(received(&mut w, ann).len(), 1);
}

#[test]
fn what_is_too_large_for_the_recipient_is_told() {
    for (shards, a, b) in places() {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, a, &user("ann"));
        let small = ConnectOptions {
            packet_bytes_max: 100,
            ..user("bob")
        };
        let bob = w.connect(Version::V5, b, &small);
        w.subscribe(bob, "$private/from/+", Q1);
        w.subscribe(ann, "$reply/+", Q0);
        w.publish(ann, "$private/to/bob/1", &"x".repeat(200), Q1, false);
        // [MQTT-3.4.2-1]: PUBACK knows no 0x95.
        let (code, text) = w.take_ack(ann, 0x40);
        assert_eq!(code, 0x97);
        assert!(text.starts_with("too large"), "{text}");
        let got = received(&mut w, ann);
        assert!(got[0].starts_with(r#"$reply/1 {"code":149,"#), "{got:?}");
        // Where another session of the user takes it, it is delivered.
        let big = w.connect(Version::V5, "big", &user("bob"));
        w.subscribe(big, "$private/from/+", Q1);
        w.publish(ann, "$private/to/bob", &"x".repeat(200), Q1, false);
        assert_eq!(puback(&mut w, ann), 0x00);
        assert_eq!(received(&mut w, big).len(), 1);
    }
}

#[test]
fn a_full_queue_is_told_and_closes_no_sender() {
    for version in [Version::V311, Version::V5] {
        let settings = stentor_hub::Settings {
            queue_messages_max: 2,
            ..stentor_hub::Settings::default()
        };
        let mut w = World::with_settings(1, settings);
        let ann = w.connect(version, "a", &user("ann"));
        let persistent = ConnectOptions {
            user: Some("bob"),
            ..ConnectOptions::persistent()
        };
        let bob = w.connect(Version::V5, "b", &persistent);
        w.subscribe(bob, "$private/from/+", Q1);
        w.drop_link(bob);
        for code in [0x00, 0x00, 0x97] {
            w.publish(ann, "$private/to/bob", "x", Q1, false);
            let expected = if version.is_v5() { code } else { 0 };
            assert_eq!(puback(&mut w, ann), expected);
        }
        assert!(w.clients[ann].closed.is_none());
        let bob = w.connect(Version::V5, "b", &persistent);
        assert_eq!(received(&mut w, bob).len(), 2);
    }
}

#[test]
fn qos_2_is_answered_in_pubrec() {
    for (shards, a, b) in places() {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, a, &user("ann"));
        let bob = w.connect(Version::V5, b, &user("bob"));
        w.subscribe(bob, "$private/from/+", Q2);
        w.publish(ann, "$private/to/bob", "x", Q2, false);
        assert_eq!(received(&mut w, bob), ["$private/from/ann x"]);
        assert!(w.take_packet(ann, 0x70).is_some(), "PUBCOMP");
        w.publish(ann, "$private/to/nobody", "x", Q2, false);
        assert!(w.take_packet(ann, 0x70).is_some(), "0x10 is no error");
    }
}

/// [MQTT-4.6.0-2]: a response that another shard owes holds the later ones of its connection.
#[test]
fn responses_leave_in_the_order_of_the_messages() {
    let ids = ["b", "c", "d", "e", "f"];
    for id in ids {
        let mut w = World::new(2);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        let bob = w.connect(Version::V5, id, &user("bob"));
        w.subscribe(bob, "$private/from/+", Q1);
        w.paused = true;
        let packet = |topic: &str, id: u8| {
            let len = 2 + topic.len() + 3 + 1;
            let mut bytes = vec![0x32, u8::try_from(len).unwrap(), 0];
            bytes.push(u8::try_from(topic.len()).unwrap());
            bytes.extend_from_slice(topic.as_bytes());
            bytes.extend_from_slice(&[0, id, 0, b'x']);
            bytes
        };
        for (topic, id) in [("$private/to/bob", 1), ("t", 2), ("$private/to/cid", 3)] {
            w.send_bytes(ann, &packet(topic, id));
        }
        w.paused = false;
        w.settle();
        let ids: Vec<u8> = std::iter::from_fn(|| w.take_packet(ann, 0x40))
            .map(|p| p[3])
            .collect();
        assert_eq!(ids, [1, 2, 3]);
    }
}

/// The sender is not told that somebody has it.
#[test]
fn what_expires_at_once_is_not_delivered() {
    for (shards, a, b) in places() {
        let mut w = World::new(shards);
        let ann = w.connect(Version::V5, a, &user("ann"));
        let bob = w.connect(Version::V5, b, &user("bob"));
        w.subscribe(ann, "$reply/+", Q1);
        w.subscribe(bob, "$private/from/+", Q1);
        let mut properties = PropertyBuf::new();
        properties.push(Property::MessageExpiryInterval(0));
        let properties = properties.as_properties();
        w.publish_with(ann, "$private/to/bob/1", "x", Q1, false, properties);
        let (code, text) = w.take_ack(ann, 0x40);
        assert!(code == 0x10 && text.starts_with("expired"), "{code} {text}");
        let said = received(&mut w, ann).concat();
        assert!(said.contains(r#""code":16,"status":"expired""#), "{said}");
        assert!(received(&mut w, bob).is_empty());
    }
}

#[test]
fn a_topic_that_cannot_be_is_told_what_is_wrong() {
    let mut w = World::new(1);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    for (topic, what) in [
        ("$private/to/b%zz", "hexadecimal"),
        ("$private/xx/bob", "$private/to/USER"),
        ("$private/to/bob/1/2", "levels"),
    ] {
        w.publish(ann, topic, "x", Q1, false);
        let (code, text) = w.take_ack(ann, 0x40);
        assert!(
            code == 0x90 && text.contains(what),
            "{topic}: {code} {text}"
        );
    }
}

#[test]
fn properties_travel_and_retain_does_not() {
    let mut w = World::new(1);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$private/from/+", Q1);
    let mut properties = PropertyBuf::new();
    properties.push(Property::MessageExpiryInterval(60));
    properties.push(Property::ResponseTopic("$private/to/ann"));
    let properties = properties.as_properties();
    w.publish_with(ann, "$private/to/bob", "x", Q1, true, properties);
    let bytes = w.take_packet(bob, 0x30).unwrap();
    let message = w.clients[bob].parse(&bytes);
    assert_eq!((message.expiry, message.retain), (Some(60), false));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("$private/to/ann"));
    let late = w.connect(Version::V5, "c", &user("bob"));
    w.subscribe(late, "$private/from/+", Q1);
    assert!(received(&mut w, late).is_empty(), "it was not kept");
}

/// [MQTT-3.1.2-29]: who asked for no problem information gets no reason string.
#[test]
fn reason_strings_are_for_those_who_want_them() {
    let mut w = World::new(1);
    for (id, problem_information) in [("a", true), ("b", false)] {
        let options = user("ann");
        let (mut request, identity) = crate::world::request(Version::V5, id, &options);
        request.request_problem_information = problem_information;
        let ann = w.enter(request, identity.into());
        w.publish(ann, "$private/to/nobody", "x", Q1, false);
        let (code, text) = w.take_ack(ann, 0x40);
        assert_eq!(code, 0x10);
        assert_eq!(text.is_empty(), !problem_information);
    }
    // Nor who takes no packet of that size.
    let small = ConnectOptions {
        packet_bytes_max: 30,
        ..user("cid")
    };
    let cid = w.connect(Version::V5, "c", &small);
    w.publish(cid, "$private/to/nobody", "x", Q1, false);
    assert_eq!(w.take_ack(cid, 0x40), (0x10, String::new()));
}

/// A will may be a private message; a will cannot forge one.
#[test]
fn last_words_go_to_an_inbox() {
    let mut w = World::new(4);
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$private/from/+", Q1);
    let will = |topic| ConnectOptions {
        will: Some((topic, "bye", 0)),
        will_retain: true,
        ..user("ann")
    };
    let ann = w.connect(Version::V5, "a", &will("$private/to/bob"));
    w.drop_link(ann);
    assert_eq!(received(&mut w, bob), ["$private/from/ann bye"]);
    for topic in [
        "$private/from/eve",
        "$presence/eve",
        "$reply/1",
        "$private/to/",
    ] {
        let refused = w.admit(Version::V5, "a", &will(topic)).unwrap_err();
        assert_eq!(
            refused.reason_code(),
            Some(ReasonCode::NotAuthorized),
            "{topic}"
        );
    }
    let nameless = ConnectOptions {
        user: None,
        ..will("$private/to/bob")
    };
    assert!(w.admit(Version::V5, "a", &nameless).is_err());
}

/// What a sender owes its recipients is not lost with it: the message was taken.
#[test]
fn a_sender_that_leaves_while_shards_are_asked_harms_nobody() {
    for id in ["b", "c", "d", "e"] {
        let mut w = World::new(4);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        let bob = w.connect(Version::V5, id, &user("bob"));
        w.subscribe(bob, "$private/from/+", Q1);
        w.paused = true;
        w.publish_with(ann, "$private/to/bob/1", "x", Q1, false, Properties::EMPTY);
        w.drop_link(ann);
        w.paused = false;
        let again = w.connect(Version::V5, "a", &user("ann"));
        w.subscribe(again, "$reply/+", Q1);
        w.settle();
        assert_eq!(received(&mut w, bob), ["$private/from/ann x"]);
        assert!(received(&mut w, again).is_empty());
        assert!(w.take_packet(again, 0x40).is_none());
    }
}
