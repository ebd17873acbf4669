//! While the disk is full, sessions that last take nothing on that could not be written down.

use stentor_hub::Settings;
use stentor_hub::journal::set_journal_full;
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Limit};

use super::{come_back, world};
use crate::world::{ConnectOptions, World, clean};

const Q1: QoS = QoS::AtLeastOnce;
/// Quota exceeded.
const FULL: u8 = 0x97;

fn set_full(w: &World, is_full: bool) {
    set_journal_full(w.hubs.last().expect("a shard"), is_full);
}

/// A client whose session lasts, with a subscription, and which is away.
fn with_lasting(w: &mut World, filter: &str) {
    let lasting = w.connect(Version::V5, "lasting", &ConnectOptions::persistent());
    w.subscribe(lasting, filter, Q1);
    w.drop_link(lasting);
}

/// Publishes and returns the reason code of the acknowledgement.
fn publish(w: &mut World, client: usize, topic: &str, qos: QoS) -> u8 {
    w.publish(client, topic, "x", qos, false);
    match qos {
        QoS::AtMostOnce => 0,
        QoS::AtLeastOnce => w.take_ack(client, 0x40).0,
        QoS::ExactlyOnce => unreachable!("the world answers PUBREC itself"),
    }
}

#[test]
fn a_message_is_refused_if_a_session_that_lasts_would_be_owed_it() {
    let mut w = World::writing(1, Settings::default());
    with_lasting(&mut w, "kept/#");
    let now = w.connect(Version::V5, "now", &clean());
    w.subscribe(now, "#", Q1);
    let p = w.connect(Version::V5, "p", &clean());
    set_full(&w, true);
    w.publish(p, "kept/a", "x", Q1, false);
    let (reason, text) = w.take_ack(p, 0x40);
    assert_eq!(reason, FULL);
    assert!(text.contains("the disk of the sessions is full"), "{text}");
    assert_eq!(publish(&mut w, p, "other", Q1), 0, "nobody is owed it");
    publish(&mut w, p, "kept/a", QoS::AtMostOnce);
    assert_eq!(w.take_payloads(now).len(), 2, "nobody gets what is refused");
    set_full(&w, false);
    assert_eq!(publish(&mut w, p, "kept/a", Q1), 0);
    let (lasting, was_there) = come_back(&mut w, "lasting");
    assert!(was_there);
    assert_eq!(w.take_payloads(lasting).len(), 1);
}

/// Also if another shard has the session, if the topic is kept, and at QoS 2.
#[test]
fn nobody_gets_a_message_that_is_refused() {
    for retain in [false, true] {
        let mut w = world();
        with_lasting(&mut w, "#");
        let readers: Vec<usize> = (0..8)
            .map(|number| {
                let reader = w.connect(Version::V5, &format!("r{number}"), &clean());
                w.subscribe(reader, "t", Q1);
                reader
            })
            .collect();
        let publishers: Vec<usize> = (0..8)
            .map(|number| w.connect(Version::V5, &format!("p{number}"), &clean()))
            .collect();
        set_full(&w, true);
        for publisher in publishers {
            for (qos, kind) in [(Q1, 0x40), (QoS::ExactlyOnce, 0x50)] {
                let first = 0x30 | (qos as u8) << 1 | u8::from(retain);
                w.send_bytes(publisher, &[first, 7, 0, 1, b't', 0, 5, 0, b'x']);
                assert_eq!(w.take_ack(publisher, kind).0, FULL);
            }
        }
        for reader in readers {
            assert_eq!(w.take_payloads(reader), [""; 0]);
        }
        let late = w.connect(Version::V5, "late", &clean());
        w.subscribe(late, "t", Q1);
        assert_eq!(w.take_payloads(late), [""; 0], "nothing is kept");
    }
}

/// MQTT 3 has no code for it.
#[test]
fn a_client_of_mqtt_3_is_disconnected_rather_than_told_that_it_is_kept() {
    let mut w = world();
    with_lasting(&mut w, "#");
    let p = w.connect(Version::V311, "p", &clean());
    set_full(&w, true);
    w.publish(p, "t", "x", Q1, false);
    let closed = w.clients[p].closed;
    assert_eq!(closed, Some(CloseReason::Limit(Limit::Retained)));
    assert!(w.take_packet(p, 0x40).is_none());
}

#[test]
fn no_session_that_lasts_begins_or_subscribes() {
    let mut w = world();
    with_lasting(&mut w, "known");
    set_full(&w, true);
    let refused = Err(CloseReason::Limit(Limit::Disk));
    let options = ConnectOptions::persistent();
    assert_eq!(w.admit(Version::V5, "new", &options), refused);
    let (lasting, was_there) = come_back(&mut w, "lasting");
    assert!(was_there, "what is there goes on");
    assert_eq!(w.subscribe(lasting, "new", Q1), FULL);
    assert_eq!(w.subscribe(lasting, "$share/g/new", Q1), FULL);
    assert_eq!(w.subscribe(lasting, "known", Q1), 1);
    let now = w.connect(Version::V5, "now", &clean());
    assert_eq!(w.subscribe(now, "new", Q1), 1, "nothing is written of it");
    set_full(&w, false);
    assert_eq!(w.subscribe(lasting, "new", Q1), 1);
}
