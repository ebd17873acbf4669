//! Calls of procedures: who takes them, and where the answers go.

use std::sync::{Arc, Mutex};

use crate::world::{ConnectOptions, TestRights, World};
use stentor_hub::{
    Answer, Call, Callees, ControlItem, Fate, Identity, Renewal, Renewed, Served, ServiceCommand,
};
use stentor_mqtt::{Property, PropertyBuf, QoS, Version};
use stentor_session::Tick;

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

/// Takes so many calls at a time.
struct ControlPlane {
    calls: Mutex<Vec<Call>>,
    room: usize,
}

impl Callees for ControlPlane {
    fn call(&self, call: Call) -> Result<(), Box<Call>> {
        let mut calls = self.calls.lock().unwrap();
        if calls.len() >= self.room {
            return Err(Box::new(call));
        }
        calls.push(call);
        Ok(())
    }

    fn served(&self, _: u64, _: Served<'_>) -> bool {
        false
    }

    fn told(&self, _: u64, _: usize, _: Fate) {}
}

fn control_plane(room: usize) -> Arc<ControlPlane> {
    let calls = Mutex::default();
    Arc::new(ControlPlane { calls, room })
}

fn ann() -> ConnectOptions<'static> {
    ConnectOptions {
        user: Some("ann"),
        denied: &["secret/", "$call/forbidden"],
        ..ConnectOptions::default()
    }
}

/// Answers the oldest call with its own payload.
fn answer(w: &mut World, control_plane: &ControlPlane) -> Call {
    let call = control_plane.calls.lock().unwrap().remove(0);
    let answer = Answer {
        to: call.return_to.clone(),
        json: call.payload.to_vec(),
    };
    let shard = call.return_to.shard.0;
    w.control(shard, ServiceCommand::Answer(Arc::new(answer)));
    w.settle();
    call
}

fn received(w: &mut World, client: usize) -> Vec<String> {
    let messages = w.take_messages(client).into_iter();
    let text =
        |m: crate::world::Message| format!("{} {}", m.topic, String::from_utf8_lossy(&m.payload));
    messages.map(text).collect()
}

fn puback(w: &mut World, client: usize) -> u8 {
    let packet = w.take_packet(client, 0x40).expect("a PUBACK");
    packet.get(4).copied().unwrap_or(0)
}

#[test]
fn an_answer_goes_to_the_calling_session_alone() {
    for version in [Version::V311, Version::V5] {
        let control_plane = control_plane(9);
        let mut w = World::with_callees(4, control_plane.clone());
        let caller = w.connect(version, "a", &ann());
        let other = w.connect(version, "b", &ann());
        for client in [caller, other] {
            w.subscribe(client, "$reply/#", Q1);
        }
        for qos in [Q0, Q1] {
            w.publish(caller, "$call/sum/7", "1 2", qos, false);
            if qos == Q1 {
                assert_eq!(puback(&mut w, caller), 0);
            }
            assert!(received(&mut w, caller).is_empty(), "not yet");
            let call = answer(&mut w, &control_plane);
            assert_eq!((&*call.procedure, &*call.client_id), ("sum", "a"));
            assert_eq!(call.identity.user.as_deref(), Some("ann"));
            assert_eq!(call.expires_at, Tick::NEVER);
            assert_eq!(received(&mut w, caller), ["$reply/7 1 2"]);
            assert!(received(&mut w, other).is_empty());
        }
    }
}

/// Takes the right to publish on `answers/` away from ann.
#[derive(Debug)]
struct Forbid;

impl Renewal for Forbid {
    fn subject(&self) -> &str {
        "ann"
    }

    fn renew(&self, identity: &Arc<Identity>, _client_id: &str) -> Renewed {
        if identity.user.as_deref() != Some("ann") {
            return Renewed::Keep;
        }
        Renewed::Replace(Arc::new(Identity {
            rights: TestRights::denying(&["answers/"]),
            ..(**identity).clone()
        }))
    }
}

/// A caller that loses the right while the procedure runs has lost it, be it there still or not.
#[test]
fn an_answer_needs_the_right_when_it_is_there() {
    for stays in [true, false] {
        for forbids in [false, true] {
            let control_plane = control_plane(9);
            let mut w = World::with_callees(2, control_plane.clone());
            let caller = w.connect(Version::V5, "a", &ann());
            let other = w.connect(Version::V5, "b", &ConnectOptions::default());
            w.subscribe(other, "answers/+", Q1);
            call_with(&mut w, caller, "$call/sum", Some("answers/1"));
            assert_eq!(puback(&mut w, caller), 0);
            if !stays {
                w.drop_link(caller);
            }
            if forbids {
                w.control_all(&ControlItem::Renew(Arc::new(Forbid)));
                w.advance();
            }
            answer(&mut w, &control_plane);
            let heard = received(&mut w, other).len();
            assert_eq!(heard, usize::from(!forbids), "{stays} {forbids}");
        }
    }
}

fn call_with(w: &mut World, client: usize, topic: &str, response_topic: Option<&str>) {
    let mut properties = PropertyBuf::new();
    properties.push(Property::CorrelationData(b"c-1"));
    properties.push(Property::MessageExpiryInterval(5));
    properties.push(Property::UserProperty(("max", "10")));
    if let Some(topic) = response_topic {
        properties.push(Property::ResponseTopic(topic));
    }
    w.publish_with(client, topic, "x", Q1, false, properties.as_properties());
}

#[test]
fn a_response_topic_gets_the_correlation_data() {
    let control_plane = control_plane(9);
    let mut w = World::with_callees(4, control_plane.clone());
    let caller = w.connect(Version::V5, "a", &ann());
    let others: Vec<usize> = ["b", "c", "d"]
        .map(|id| w.connect(Version::V5, id, &ann()))
        .into();
    w.subscribe(caller, "$reply/#", Q1);
    for other in &others {
        w.subscribe(*other, "$reply/#", Q1);
        w.subscribe(*other, "answers/+", Q1);
    }
    call_with(&mut w, caller, "$call/sum", Some("$reply/a/b"));
    let call = answer(&mut w, &control_plane);
    assert_eq!(call.expires_at, w.now.after_secs(5));
    assert_eq!(*call.arguments, [("max".into(), "10".into())]);
    let bytes = w.take_packet(caller, 0x30).unwrap();
    assert!(bytes.windows(3).any(|part| part == b"c-1"));
    assert_eq!(w.clients[caller].parse(&bytes).topic, "$reply/a/b");
    // A topic of everybody's, to which the caller may publish.
    call_with(&mut w, caller, "$call/sum", Some("answers/1"));
    answer(&mut w, &control_plane);
    for other in &others {
        assert_eq!(received(&mut w, *other), ["answers/1 x"]);
    }
    // Without one, nobody is told.
    call_with(&mut w, caller, "$call/sum", None);
    assert!(!answer(&mut w, &control_plane).return_to.is_somewhere());
    assert!(received(&mut w, caller).is_empty());
}

#[test]
fn an_answer_is_no_way_around_the_rights() {
    let control_plane = control_plane(9);
    let mut w = World::with_callees(1, control_plane.clone());
    let caller = w.connect(Version::V5, "a", &ann());
    let bob = w.connect(
        Version::V5,
        "b",
        &ConnectOptions {
            user: Some("bob"),
            ..ann()
        },
    );
    for filter in ["$private/#", "#", "$presence/#", "$SYS/#"] {
        w.subscribe(bob, filter, Q1);
    }
    // The list of those who are there.
    received(&mut w, bob);
    for topic in [
        "secret/1",
        "$private/to/bob",
        "$private/from/bob",
        "$presence/ann",
        "$call/sum",
        "$SYS/x",
        "$reply",
    ] {
        call_with(&mut w, caller, "$call/sum", Some(topic));
        assert_eq!(puback(&mut w, caller), 0x87, "{topic}");
    }
    w.subscribe(caller, "$reply/+", Q1);
    for topic in ["$call/forbidden", "$call/forbidden/3"] {
        w.publish(caller, topic, "x", Q1, false);
        assert_eq!(puback(&mut w, caller), 0x87, "{topic}");
    }
    let told = received(&mut w, caller);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with(r#"$reply/3 {"status":"not-allowed","#),
        "{told:?}"
    );
    for (topic, code) in [("$call/", 0x90), ("$call/a/b/c", 0x90), ("$call", 0x90)] {
        w.publish(caller, topic, "x", Q1, false);
        assert_eq!(puback(&mut w, caller), code, "{topic}");
    }
    assert!(control_plane.calls.lock().unwrap().is_empty());
    assert!(received(&mut w, bob).is_empty());
    // A will calls nobody.
    let will = ConnectOptions {
        will: Some(("$call/sum", "x", 0)),
        ..ann()
    };
    assert!(w.admit(Version::V5, "c", &will).is_err());
}

#[test]
fn who_cannot_be_served_is_told_at_once() {
    for version in [Version::V311, Version::V5] {
        for (callees, status) in [(Some(control_plane(1)), "overloaded"), (None, "not-found")] {
            let mut w = match &callees {
                Some(control_plane) => World::with_callees(1, control_plane.clone()),
                None => World::new(1),
            };
            let caller = w.connect(version, "a", &ann());
            w.subscribe(caller, "$reply/+", Q1);
            if callees.is_some() {
                w.publish(caller, "$call/sum/1", "x", Q1, false);
                assert_eq!(puback(&mut w, caller), 0);
            }
            w.publish(caller, "$call/sum/2", "x", Q1, false);
            let code = if status == "overloaded" { 0x97 } else { 0x10 };
            let code = if version.is_v5() { code } else { 0 };
            assert_eq!(puback(&mut w, caller), code);
            let told = received(&mut w, caller);
            let expected = format!(r#"$reply/2 {{"status":"{status}","#);
            assert!(told[0].starts_with(&expected), "{told:?}");
            assert!(w.clients[caller].closed.is_none());
        }
    }
}

#[test]
fn an_answer_for_a_session_that_is_gone_is_for_nobody() {
    let control_plane = control_plane(9);
    let mut w = World::with_callees(1, control_plane.clone());
    let caller = w.connect(Version::V5, "a", &ann());
    w.subscribe(caller, "$reply/+", Q1);
    w.publish(caller, "$call/sum/1", "x", Q1, false);
    w.drop_link(caller);
    let again = w.connect(Version::V5, "a", &ann());
    w.subscribe(again, "$reply/+", Q1);
    answer(&mut w, &control_plane);
    assert!(received(&mut w, again).is_empty());
}
