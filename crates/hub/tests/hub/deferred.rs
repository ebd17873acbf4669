//! A store whose promise holds later than its answer: what its publishers are told, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::world::{ConnectOptions, World};
use stentor_hub::{Cursor, Kept, Mark, NotKept, Retained, Scope, Settings, ShardItem, Walk};
use stentor_mqtt::{PacketId, QoS, ReasonCode, Version};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{CloseReason, Limit, Local, Message, Tick, Ticket};
use stentor_topic::{TopicHasher, Zone};

/// Keeps everything at once and promises it by tickets: 1, 2, 3 … in the order of the puts.
struct LateStore {
    inner: MemoryStore,
    tickets: AtomicU64,
}

impl Retained for LateStore {
    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept> {
        self.inner.put(message)?;
        let ticket = 1 + self.tickets.fetch_add(1, Ordering::Relaxed);
        Ok(Kept::Later(Ticket(ticket)))
    }
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }
    fn mark(&self) -> Mark {
        self.inner.mark()
    }
    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>> {
        self.inner.get(zone, topic, mark, now)
    }
    fn walk(
        &self,
        zone: Zone,
        filter: &str,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk {
        self.inner.walk(zone, filter, scope, cursor, visits, out)
    }
    fn count(&self) -> u64 {
        self.inner.count()
    }
}

fn late_world(shards: u8, settings: Settings) -> World {
    let store = LateStore {
        inner: MemoryStore::new(TopicHasher::new(7), Bounds::default()),
        tickets: AtomicU64::new(0),
    };
    World::with_store(shards, settings, Arc::new(store))
}

fn resolve(w: &mut World, ticket: u64, reason: ReasonCode) {
    let ticket = Ticket(ticket);
    let outcome = reason.into();
    w.control_all(&ShardItem::Resolved { ticket, outcome }.into());
}

const SUCCESS: ReasonCode = ReasonCode::Success;

/// Sends PUBLISH packets to topic `t` by their first byte and packet id.
fn publish(w: &mut World, client: usize, packets: &[(u8, u8)]) {
    for (first, id) in packets {
        let bytes = if w.clients[client].version.is_v5() {
            vec![*first, 7, 0, 1, b't', 0, *id, 0, b'x']
        } else {
            vec![*first, 6, 0, 1, b't', 0, *id, b'x']
        };
        w.send_bytes(client, &bytes);
    }
}

/// The type, packet id and reason of everything that a client received.
fn answers(w: &mut World, client: usize) -> Vec<(u8, u8, u8)> {
    std::iter::from_fn(|| w.receive_packet(client))
        .map(|p| (p[0] & 0xF0, p[3], p.get(4).copied().unwrap_or(0)))
        .collect()
}

fn connect(w: &mut World, version: Version, id: &str) -> usize {
    w.connect(version, id, &ConnectOptions::persistent())
}

/// [MQTT-4.6.0-2] [MQTT-4.6.0-3]: a deferred acknowledgement holds the later ones of its
/// connection, and of no other; what is no acknowledgement is not held.
#[test]
fn acknowledgements_leave_in_order_of_receipt() {
    for version in [Version::V311, Version::V5] {
        let mut w = late_world(2, Settings::default());
        let (p, other) = (connect(&mut w, version, "p"), connect(&mut w, version, "o"));
        let packets = [(0x33, 1), (0x32, 2), (0x35, 3), (0x34, 4), (0x33, 5)];
        publish(&mut w, p, &packets);
        publish(&mut w, other, &[(0x32, 9)]);
        w.send_bytes(p, &[0xC0, 0]);
        assert_eq!(
            w.receive_packet(p).unwrap(),
            [0xD0, 0],
            "PINGRESP overtakes"
        );
        assert_eq!(answers(&mut w, p), []);
        assert_eq!(answers(&mut w, other), [(0x40, 9, 0)]);
        resolve(&mut w, 2, SUCCESS);
        resolve(&mut w, 4, SUCCESS);
        assert_eq!(answers(&mut w, p), []);
        resolve(&mut w, 1, SUCCESS);
        let expected = [(0x40, 1, 0), (0x40, 2, 0), (0x50, 3, 0), (0x50, 4, 0)];
        assert_eq!(answers(&mut w, p), expected);
        resolve(&mut w, 3, SUCCESS);
        assert_eq!(answers(&mut w, p), [(0x40, 5, 0)]);
        publish(&mut w, p, &[(0x32, 6)]);
        assert_eq!(
            answers(&mut w, p),
            [(0x40, 6, 0)],
            "nothing is held any more"
        );
    }
}

/// What has no acknowledgement waits for nothing, and subscribers do not wait either.
#[test]
fn only_the_acknowledgement_waits() {
    let mut w = late_world(2, Settings::default());
    let s = connect(&mut w, Version::V5, "s");
    w.subscribe(s, "t", QoS::AtMostOnce);
    let p = connect(&mut w, Version::V5, "p");
    w.publish(p, "t", "0", QoS::AtMostOnce, true);
    publish(&mut w, p, &[(0x33, 1)]);
    assert_eq!(w.take_payloads(s), ["0", "x"]);
    resolve(&mut w, 1, SUCCESS);
    assert_eq!(answers(&mut w, p), []);
    resolve(&mut w, 2, SUCCESS);
    resolve(&mut w, 2, SUCCESS);
    assert_eq!(answers(&mut w, p), [(0x40, 1, 0)], "once");
}

/// Nothing is acknowledged that was not kept: 5.0 is told, 3.x is disconnected.
#[test]
fn what_is_not_kept_is_never_acknowledged() {
    for reason in [NotKept::Full.reason(), NotKept::Failed.reason()] {
        let mut w = late_world(1, Settings::default());
        let new = connect(&mut w, Version::V5, "new");
        publish(&mut w, new, &[(0x33, 1), (0x35, 2), (0x32, 3)]);
        resolve(&mut w, 1, reason);
        resolve(&mut w, 2, reason);
        let code = reason as u8;
        let expected = [(0x40, 1, code), (0x50, 2, code), (0x40, 3, 0)];
        assert_eq!(answers(&mut w, new), expected);
        // [MQTT-4.3.3-9] The identifier is free: the same one is a new message.
        publish(&mut w, new, &[(0x35, 2)]);
        resolve(&mut w, 3, SUCCESS);
        assert_eq!(answers(&mut w, new), [(0x50, 2, 0)]);
        let old = connect(&mut w, Version::V311, "old");
        publish(&mut w, old, &[(0x32, 1), (0x33, 2), (0x32, 3)]);
        assert_eq!(answers(&mut w, old), [(0x40, 1, 0)]);
        resolve(&mut w, 4, reason);
        assert_eq!(answers(&mut w, old), []);
        assert_eq!(
            w.clients[old].closed,
            Some(CloseReason::Limit(Limit::Retained))
        );
    }
}

/// The connection goes while its acknowledgement waits; the client sends again what it did not
/// see acknowledged, and that is answered once it is known, not before.
#[test]
fn a_connection_that_goes_takes_its_acknowledgements_along() {
    for take_over in [false, true] {
        let mut w = late_world(1, Settings::default());
        let s = connect(&mut w, Version::V5, "s");
        w.subscribe(s, "t", QoS::AtMostOnce);
        let p = connect(&mut w, Version::V5, "p");
        publish(&mut w, p, &[(0x33, 1), (0x35, 2)]);
        if !take_over {
            w.drop_link(p);
        }
        let q = connect(&mut w, Version::V5, "p");
        if take_over {
            assert_eq!(
                w.clients[p].closed,
                Some(CloseReason::Local(Local::TakenOver))
            );
        }
        resolve(&mut w, 1, SUCCESS);
        assert_eq!(
            answers(&mut w, q),
            [],
            "the new connection has sent nothing"
        );
        publish(&mut w, q, &[(0x3B, 1), (0x3D, 2), (0x32, 3)]);
        resolve(&mut w, 3, SUCCESS);
        assert_eq!(
            answers(&mut w, q),
            [(0x40, 1, 0)],
            "the QoS 2 message waits as before"
        );
        resolve(&mut w, 2, SUCCESS);
        assert_eq!(answers(&mut w, q), [(0x50, 2, 0), (0x40, 3, 0)]);
        // QoS 1 came twice, as it may; QoS 2 did not [MQTT-4.3.3-10].
        assert_eq!(w.take_messages(s).len(), 4);
        w.send_ack(q, 0x60, PacketId::new(2).unwrap());
        assert_eq!(answers(&mut w, q), [(0x70, 2, 0)]);
    }
}

/// A session that ends while an acknowledgement waits, and one that takes its client id.
#[test]
fn a_session_that_ends_is_told_nothing() {
    let mut w = late_world(1, Settings::default());
    let p = w.connect(Version::V5, "p", &ConnectOptions::default());
    publish(&mut w, p, &[(0x33, 1), (0x35, 2)]);
    w.drop_link(p);
    let q = w.connect(Version::V5, "p", &ConnectOptions::default());
    publish(&mut w, q, &[(0x35, 2)]);
    resolve(&mut w, 1, SUCCESS);
    resolve(&mut w, 2, ReasonCode::QuotaExceeded);
    assert_eq!(answers(&mut w, q), []);
    resolve(&mut w, 3, SUCCESS);
    assert_eq!(answers(&mut w, q), [(0x50, 2, 0)]);
}

/// [MQTT-3.3.4-7] [MQTT-3.3.4-8]: the receive maximum counts what waits, whatever its QoS.
#[test]
fn more_than_the_receive_maximum_closes() {
    let settings = || Settings {
        receive_maximum: 3,
        ..Settings::default()
    };
    for last in [(0x32, 4), (0x34, 4)] {
        let mut w = late_world(1, settings());
        let p = connect(&mut w, Version::V5, "p");
        publish(&mut w, p, &[(0x33, 1), (0x34, 2), (0x32, 3)]);
        assert_eq!(w.clients[p].closed, None);
        publish(&mut w, p, &[last]);
        let reason = Some(CloseReason::Limit(Limit::ReceiveMaximum));
        assert_eq!(w.clients[p].closed, reason);
        let final_output = w.receive_packet(p).unwrap();
        assert_eq!([final_output[0], final_output[2]], [0xE0, 0x93]);
        assert!(final_output.ends_with(b": limits.receive_maximum is 3"));
    }
    // Acknowledged in time, it may send on for ever.
    let mut w = late_world(1, settings());
    let p = connect(&mut w, Version::V5, "p");
    for round in 0..20 {
        publish(&mut w, p, &[(0x33, 1), (0x32, 2), (0x33, 3)]);
        resolve(&mut w, 2 * round + 1, SUCCESS);
        resolve(&mut w, 2 * round + 2, SUCCESS);
        assert_eq!(answers(&mut w, p).len(), 3);
    }
    assert_eq!(w.clients[p].closed, None);
}
