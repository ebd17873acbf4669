//! Calls that connected clients serve: who is asked, and whose answer counts.

use std::sync::{Arc, Mutex};

use crate::world::{ConnectOptions, World};
use stentor_hub::{Ask, Call, Callees, Fate, Served, ServiceCommand};
use stentor_mqtt::{QoS, ReasonCode, Version};
use stentor_session::Tick;
use stentor_topic::Zone;

const Q1: QoS = QoS::AtLeastOnce;

/// Remembers what shards say, and waits for all answers but these.
#[derive(Default)]
struct Ear {
    heard: Mutex<Vec<(u64, String)>>,
    given_up: Vec<u64>,
}

impl Callees for Ear {
    fn call(&self, call: Call) -> Result<(), Box<Call>> {
        Err(Box::new(call))
    }

    fn served(&self, number: u64, served: Served<'_>) -> bool {
        let text = match served {
            Served::Said(json) => String::from_utf8(json.to_vec()).unwrap(),
            other => format!("{other:?}"),
        };
        self.heard.lock().unwrap().push((number, text));
        !self.given_up.contains(&number)
    }

    fn told(&self, _: u64, _: usize, _: Fate) {}
}

impl Ear {
    fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

fn world(shards: u8, given_up: Vec<u64>) -> (World, Arc<Ear>) {
    let ear = Arc::new(Ear {
        given_up,
        ..Ear::default()
    });
    (World::with_callees(shards, ear.clone()), ear)
}

fn ask(w: &mut World, shard: u8, number: u64, payload: &str) {
    let ask = Ask {
        number,
        zone: Zone::DEFAULT,
        procedure: "check".into(),
        properties: vec![("from".into(), "a@b".into())],
        payload: payload.into(),
        until: w.now.after_secs(5),
    };
    w.control(shard, ServiceCommand::Ask(Arc::new(ask)));
    w.settle();
}

/// The topics of what came.
fn came(w: &mut World, client: usize) -> Vec<String> {
    let messages = w.take_messages(client).into_iter();
    messages.map(|message| message.topic).collect()
}

fn answer(w: &mut World, client: usize, topic: &str, payload: &str) -> u8 {
    w.publish(client, topic, payload, Q1, false);
    let packet = w.take_packet(client, 0x40).expect("a PUBACK");
    packet.get(4).copied().unwrap_or(0)
}

#[test]
fn a_call_goes_to_one_client_and_its_answer_counts() {
    for version in [Version::V311, Version::V5] {
        let (mut w, ear) = world(1, vec![]);
        let options = ConnectOptions::default();
        let servers = ["a", "b"].map(|id| w.connect(version, id, &options));
        for server in servers {
            // Two that match are one.
            w.subscribe(server, "$serve/check/+", Q1);
            w.subscribe(server, "$serve/#", QoS::AtMostOnce);
        }
        let not_awaited = if version.is_v5() { 0x10 } else { 0 };
        for number in 1..=4 {
            ask(&mut w, 0, number, "mail");
            let expected = format!("$serve/check/{number}");
            let got = servers.map(|server| came(&mut w, server));
            let asked = servers[usize::from(got[0].is_empty())];
            assert_eq!(got.concat(), [expected], "one of them is asked");
            let other = servers[usize::from(asked == servers[0])];
            let topic = format!("$answer/{number}");
            assert_eq!(answer(&mut w, other, &topic, "forged"), not_awaited);
            assert_eq!(ear.take(), []);
            assert_eq!(answer(&mut w, asked, &topic, "fine"), 0);
            assert_eq!(ear.take(), [(number, "fine".to_owned())]);
            assert_eq!(answer(&mut w, asked, &topic, "twice"), not_awaited);
            assert_eq!(ear.take(), []);
        }
    }
}

#[test]
fn who_has_less_to_do_is_asked() {
    let (mut w, _) = world(1, vec![]);
    let options = ConnectOptions::default();
    let servers = ["a", "b", "c"].map(|id| w.connect(Version::V5, id, &options));
    for server in servers {
        w.subscribe(server, "$serve/check/+", Q1);
    }
    for number in 1..=9 {
        ask(&mut w, 0, number, "");
    }
    for server in servers {
        assert_eq!(came(&mut w, server).len(), 3);
    }
}

#[test]
fn a_call_carries_what_is_known_and_expires() {
    let (mut w, _) = world(1, vec![]);
    let server = w.connect(Version::V5, "a", &ConnectOptions::default());
    w.subscribe(server, "$serve/+/+", Q1);
    ask(&mut w, 0, 7, "mail");
    let packet = w.take_packet(server, 0x30).expect("the call");
    let has = |part: &[u8]| packet.windows(part.len()).any(|window| window == part);
    assert!(has(b"\x08\x00\x09$answer/7"), "a Response Topic");
    assert!(has(b"\x26\x00\x04from\x00\x03a@b"), "a User Property");
    assert_eq!(w.clients[server].parse(&packet).expiry, Some(6));
}

#[test]
fn only_who_is_there_is_asked() {
    let (mut w, ear) = world(1, vec![]);
    let nobody = |number| [(number, "Nobody".to_owned())];
    ask(&mut w, 0, 1, "");
    assert_eq!(ear.take(), nobody(1));
    let server = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    w.subscribe(server, "$serve/check/+", Q1);
    w.subscribe(server, "$serve/other/+", Q1);
    ask(&mut w, 0, 2, "");
    assert_eq!(came(&mut w, server), ["$serve/check/2"]);
    // What it was asked fails with its connection, at once; its session outlives that.
    w.drop_link(server);
    assert_eq!(ear.take(), [(2, "Gone".to_owned())]);
    ask(&mut w, 0, 3, "");
    assert_eq!(ear.take(), nobody(3));
    let options = ConnectOptions {
        clean_start: false,
        ..ConnectOptions::persistent()
    };
    let server = w.connect(Version::V5, "a", &options);
    // It was on its way when the connection broke, and is of no use any more.
    assert_eq!(came(&mut w, server), ["$serve/check/2"]);
    assert_eq!(answer(&mut w, server, "$answer/2", "late"), 0x10);
    ask(&mut w, 0, 4, "");
    assert_eq!(came(&mut w, server), ["$serve/check/4"]);
    assert_eq!(answer(&mut w, server, "$answer/4", "x"), 0);
    assert_eq!(ear.take(), [(4, "x".to_owned())]);
    w.unsubscribe(server, "$serve/check/+");
    ask(&mut w, 0, 5, "");
    assert_eq!(ear.take(), nobody(5));
}

#[test]
fn an_answer_that_nobody_waits_for_is_told() {
    let (mut w, _) = world(1, vec![1]);
    let server = w.connect(Version::V5, "a", &ConnectOptions::default());
    w.subscribe(server, "$serve/check/+", Q1);
    ask(&mut w, 0, 1, "");
    assert_eq!(answer(&mut w, server, "$answer/1", "x"), 0x10);
    for (topic, code) in [
        ("$answer/99", 0x10),
        ("$answer/x", 0x90),
        ("$answer", 0x90),
        ("$serve/check/1", 0x87),
    ] {
        assert_eq!(answer(&mut w, server, topic, "x"), code, "{topic}");
    }
}

#[test]
fn serving_is_a_right() {
    let (mut w, ear) = world(1, vec![]);
    let denied = ConnectOptions {
        denied: &["$serve/check"],
        ..ConnectOptions::default()
    };
    let client = w.connect(Version::V5, "a", &denied);
    let refused = ReasonCode::NotAuthorized as u8;
    assert_eq!(w.subscribe(client, "$serve/check/+", Q1), refused);
    // Wider filters are taken, and bring what is permitted.
    assert_eq!(w.subscribe(client, "$serve/#", Q1), 1);
    ask(&mut w, 0, 1, "");
    assert_eq!(ear.take(), [(1, "Nobody".to_owned())]);
    let invalid = ReasonCode::TopicFilterInvalid as u8;
    assert_eq!(w.subscribe(client, "$share/g/$serve/x/+", Q1), invalid);
    // What begins with $ is matched by no wildcard in its first level.
    let all = w.connect(Version::V5, "b", &ConnectOptions::default());
    w.subscribe(all, "#", Q1);
    w.subscribe(all, "+/check/+", Q1);
    ask(&mut w, 0, 2, "");
    assert_eq!(ear.take(), [(2, "Nobody".to_owned())]);
}

#[test]
fn what_a_client_cannot_take_is_told_at_once() {
    let (mut w, ear) = world(1, vec![]);
    let small = ConnectOptions {
        packet_bytes_max: 100,
        ..ConnectOptions::default()
    };
    let server = w.connect(Version::V5, "a", &small);
    w.subscribe(server, "$serve/check/+", Q1);
    ask(&mut w, 0, 1, &"x".repeat(200));
    assert_eq!(ear.take(), [(1, "TooLarge".to_owned())]);
    ask(&mut w, 0, 2, "x");
    assert_eq!(came(&mut w, server), ["$serve/check/2"]);
}

#[test]
fn what_is_not_answered_is_forgotten_in_time() {
    let (mut w, ear) = world(1, vec![]);
    let server = w.connect(Version::V5, "a", &ConnectOptions::default());
    w.subscribe(server, "$serve/check/+", Q1);
    ask(&mut w, 0, 1, "");
    w.now = Tick::from_secs(60);
    ask(&mut w, 0, 2, "");
    assert_eq!(answer(&mut w, server, "$answer/1", "late"), 0x10);
    w.drop_link(server);
    assert_eq!(ear.take(), [(2, "Gone".to_owned())]);
}
