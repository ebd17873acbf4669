//! How much a client may take, and what reaches it when its rights change.

use std::sync::Arc;

use crate::world::{ConnectOptions, TestRights, World};
use stentor_hub::{Access, ControlItem, Identity, Needs, Places, Quotas, Renewal, Renewed, Rights};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Denied, Limit, Local};
use stentor_topic::Zone;

const V5: Version = Version::V5;

/// May do everything, but so much of it.
#[derive(Clone, Default)]
struct Bounded(Needs, Quotas);

impl Rights for Bounded {
    fn may_publish(&self, _topic: &str) -> bool {
        true
    }
    fn may_subscribe(&self, _filter: &str) -> Access {
        Access::All
    }
    fn may_receive(&self, _topic: &str) -> bool {
        true
    }
    fn quotas(&self) -> Quotas {
        self.1
    }
    fn needs(&self) -> Needs {
        self.0.clone()
    }
}

fn bounded(quotas: Quotas) -> Arc<dyn Rights> {
    Arc::new(Bounded(Needs::default(), quotas))
}

fn named(user: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(user),
        ..ConnectOptions::persistent()
    }
}

#[test]
fn connections_of_a_user_and_of_a_zone_are_counted_on_all_shards() {
    let mut w = World::new(3);
    let zone = Arc::new(Places::new(4));
    let of = |places: &Arc<Places>| {
        let (user, zone) = (Some(Arc::clone(places)), Some(Arc::clone(&zone)));
        Arc::new(Bounded(
            Needs {
                user,
                zone,
                ..Needs::default()
            },
            Quotas::default(),
        ))
    };
    let (ann, bob) = (Arc::new(Places::new(2)), Arc::new(Places::new(9)));
    let options = named("ann");
    let first = w.connect_as(V5, "a1", &options, of(&ann)).unwrap();
    w.connect_as(V5, "a2", &options, of(&ann)).unwrap();
    let refused = w.connect_as(V5, "a3", &options, of(&ann)).unwrap_err();
    assert_eq!(refused, CloseReason::Limit(Limit::ConnectionsPerUser));
    assert_eq!(refused.reason_code().map(|code| code as u8), Some(0x97));
    // One that takes over its own connection needs no other place.
    let first_again = w.connect_as(V5, "a1", &options, of(&ann)).unwrap();
    assert_eq!(
        w.clients[first].closed,
        Some(CloseReason::Local(Local::TakenOver))
    );
    assert_eq!(ann.taken(), 2);
    w.connect_as(V5, "b1", &named("bob"), of(&bob)).unwrap();
    w.connect_as(V5, "b2", &named("bob"), of(&bob)).unwrap();
    let refused = w.connect_as(V5, "b3", &named("bob"), of(&bob)).unwrap_err();
    assert_eq!(refused, CloseReason::Limit(Limit::ConnectionsPerZone));
    // A connection that ends leaves its place, whatever becomes of its session.
    w.drop_link(first_again);
    assert_eq!((ann.taken(), zone.taken()), (1, 3));
    w.connect_as(V5, "a3", &options, of(&ann)).unwrap();
    // Others may come when the bound is raised.
    ann.set_max(3);
    zone.set_max(9);
    w.connect_as(V5, "a1", &options, of(&ann)).unwrap();
    assert_eq!(ann.taken(), 3);
}

#[test]
fn a_will_that_is_not_permitted_is_refused_at_connect() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        will: Some(("x/gone", "will", 0)),
        ..ConnectOptions::default()
    };
    let rights = TestRights::denying(&["x/"]);
    let refused = w.connect_as(V5, "c", &options, rights).unwrap_err();
    assert_eq!(refused, CloseReason::Denied(Denied::Right));
    w.connect_as(V5, "c", &options, TestRights::denying(&[]))
        .unwrap();
}

#[test]
fn subscriptions_beyond_the_quota_are_refused() {
    let mut w = World::new(1);
    let quotas = Quotas {
        subscriptions: Some(2),
        ..Quotas::default()
    };
    let client = w
        .connect_as(V5, "c", &named("ann"), bounded(quotas))
        .unwrap();
    for (filter, reason) in [
        ("a", 0),
        ("b", 0),
        ("c", 0x97),
        ("b", 0),
        ("$share/g/a", 0x97),
    ] {
        assert_eq!(
            w.subscribe(client, filter, QoS::AtMostOnce),
            reason,
            "{filter}"
        );
    }
}

#[test]
fn what_waits_for_a_client_is_bounded_by_its_quota() {
    let mut w = World::new(1);
    let quotas = Quotas {
        queued_bytes: Some(2_000),
        ..Quotas::default()
    };
    let publisher = w.connect(V5, "p", &ConnectOptions::default());
    let bound = w
        .connect_as(V5, "b", &named("ann"), bounded(quotas))
        .unwrap();
    let free = w.connect(V5, "f", &ConnectOptions::persistent());
    for client in [bound, free] {
        w.subscribe(client, "#", QoS::AtLeastOnce);
        w.drop_link(client);
    }
    let payload = "x".repeat(500);
    for _ in 0..10 {
        w.publish(publisher, "a", &payload, QoS::AtLeastOnce, false);
    }
    let bound = w
        .connect_as(V5, "b", &named("ann"), bounded(quotas))
        .unwrap();
    let free = w.connect(V5, "f", &ConnectOptions::persistent());
    let got = w.take_payloads(bound).len();
    assert!((1..=3).contains(&got), "{got} of 2,000 bytes");
    assert_eq!(w.take_payloads(free).len(), 10);
    // And so is what its socket does not take, at QoS 0.
    w.clients[bound].socket_room = 0;
    for _ in 0..10 {
        w.publish(publisher, "a", &payload, QoS::AtMostOnce, false);
    }
    w.open_socket(bound, usize::MAX);
    let got = w.take_payloads(bound).len();
    assert!((1..=4).contains(&got), "{got} of 2,000 bytes");
}

/// A connection that publishes too fast is not read from for a while; nothing is lost.
#[test]
fn who_publishes_too_fast_is_paused() {
    let mut w = World::new(1);
    let quotas = Quotas {
        messages_per_sec: Some(10),
        ..Quotas::default()
    };
    let reader = w.connect(Version::V311, "r", &ConnectOptions::default());
    w.subscribe(reader, "#", QoS::AtMostOnce);
    let options = ConnectOptions {
        keep_alive_secs: 1,
        ..named("ann")
    };
    let publisher = w
        .connect_as(Version::V311, "p", &options, bounded(quotas))
        .unwrap();
    let key = w.clients[publisher].key.unwrap();
    let packet = [0x30, 4, 0, 1, b'a', b'!'];
    let sent = packet.repeat(41);
    let mut taken = 0;
    let start = w.now;
    let mut pauses = 0;
    loop {
        taken += w.hubs[0].receive(w.now, key, &sent[taken..]);
        w.settle();
        let Some((link, until)) = w.hubs[0].effects().paused.pop() else {
            break;
        };
        assert_eq!(Some(link), w.clients[publisher].link);
        assert!(until > w.now);
        assert_eq!(
            w.hubs[0].receive(w.now, key, &sent[taken..]),
            0,
            "it is paused"
        );
        w.hubs[0].effects().paused.clear();
        pauses += 1;
        w.now = until;
        w.advance();
    }
    assert_eq!(taken, sent.len());
    assert_eq!(w.take_payloads(reader).len(), 41);
    // Ten come at once, the others at ten per second; its keep-alive does not end it meanwhile.
    let millis = w.now.since(start).as_millis();
    assert!((3_000..=3_200).contains(&millis), "{millis} ms");
    assert!(pauses >= 30, "{pauses}");
    assert_eq!(w.clients[publisher].closed, None);
}

/// The home of a zone runs a few commands of one connection; the next wait for their answers.
#[test]
fn commands_about_rooms_are_paid_for() {
    let mut w = World::new(2);
    let ids = (0..100).map(|number| format!("ann-{number}"));
    let id = ids.into_iter().find(|id| w.home(id) == 1).unwrap();
    let ann = w.connect(Version::V311, &id, &named("ann"));
    w.subscribe(ann, "$reply/+", QoS::AtMostOnce);
    let key = w.clients[ann].key.unwrap();
    let topic = b"$call/room.list/1";
    let packet = [&[0x30, 21, 0, 17], &topic[..], b"{}"].concat();
    let sent = packet.repeat(4_000);
    w.paused = true;
    let mut taken = w.hubs[1].receive(w.now, key, &sent);
    assert_eq!(taken, 5 * packet.len());
    w.paused = false;
    w.settle();
    let effects = w.hubs[1].effects();
    let (link, _) = effects.paused.pop().expect("it is paused");
    assert_eq!(effects.resumed.as_slice(), [link], "they are answered");
    assert_eq!(w.take_payloads(ann).len(), 5);
    let start = w.now;
    while taken < sent.len() {
        w.hubs[1].effects().resumed.clear();
        taken += w.hubs[1].receive(w.now, key, &sent[taken..]);
        w.settle();
        let effects = w.hubs[1].effects();
        let paused = effects.paused.pop();
        if let Some((_, until)) = paused.filter(|_| effects.resumed.is_empty()) {
            w.now = until;
            w.advance();
        }
    }
    assert_eq!(w.take_payloads(ann).len(), 3_995);
    // Each costs four times some 30 microseconds, and 131 milliseconds may be owed.
    let millis = w.now.since(start).as_millis();
    assert!((200..=600).contains(&millis), "{millis} ms");
}

/// A QoS 1 call that makes the room of that number.
fn make_room(number: u16) -> Vec<u8> {
    let (topic, words) = (
        b"$call/room.create/1",
        format!(r#"{{"room":"r-{number:03}"}}"#),
    );
    let mut packet = vec![0x32, 39, 0, 19];
    packet.extend(topic);
    packet.extend((number + 1).to_be_bytes());
    packet.extend(words.bytes());
    packet
}

/// A connection that is about to be taken over has its commands taken beyond its rate, up to a
/// bound. What was acknowledged is done, in its order, whether or not there was more; the next
/// connection owes nothing for it.
#[test]
fn a_take_over_loses_no_command_that_was_acknowledged() {
    for (sent, expected) in [(3, 3), (100, 100), (199, 199), (400, 200)] {
        let mut w = World::new(2);
        let ids = (0..100).map(|number| format!("ann-{number}"));
        let id = ids.into_iter().find(|id| w.home(id) == 1).unwrap();
        let ann = w.connect(Version::V311, &id, &named("ann"));
        w.subscribe(ann, "$reply/+", QoS::AtLeastOnce);
        let key = w.clients[ann].key.unwrap();
        let mut packets: Vec<u8> = (0..sent).flat_map(make_room).collect();
        let commands = packets.len();
        packets.extend(b"\x31\x07\0\x04last!");
        w.paused = true;
        let mut taken = w.hubs[1].receive(w.now, key, &packets);
        assert_eq!(taken, packets.len().min(5 * commands / usize::from(sent)));
        w.hubs[1].read_last(Zone(0), &id, true);
        // The server reads on in a few turns: each takes about sixty commands of a connection.
        for _ in 0..4 {
            w.hubs[1].begin_turn();
            taken += w.hubs[1].receive(w.now, key, &packets[taken..]);
        }
        w.hubs[1].read_last(Zone(0), &id, false);
        w.settle();
        w.flush(1);
        let received = &w.clients[ann].received;
        let acknowledged = received.iter().filter(|it| it[0] == 0x40).count();
        assert_eq!(acknowledged, expected, "of {sent}");
        assert_eq!(taken == packets.len(), expected == usize::from(sent));

        let again = w.connect_only(Version::V311, &id, &named("ann"));
        w.paused = false;
        w.settle();
        let connack = w.receive_packet(again).unwrap();
        assert_eq!(connack[..3], [0x20, 2, 1], "the session is there");
        let made = w.stored("$rooms/+");
        let is_made = |number| made.contains_key(&format!("$rooms/r-{number:03}"));
        assert!((0..expected).all(is_made), "{expected} of {sent}");
        assert_eq!(made.len(), expected + 1, "and the lobby");
        let is_whole = expected == usize::from(sent);
        assert_eq!(w.stored("last").len(), usize::from(is_whole), "{sent}");
        assert_eq!(w.take_payloads(again).len(), expected, "they are answered");
        let next = make_room(900);
        let key = w.clients[again].key.unwrap();
        assert_eq!(w.hubs[1].receive(w.now, key, &next), next.len());
    }
}

/// Commands that are too long, or are none, are not carried to the home of the zone; they are
/// answered and paid for all the same.
#[test]
fn what_is_refused_unread_is_paid_for() {
    let mut w = World::new(2);
    let ids = (0..100).map(|number| format!("ann-{number}"));
    let id = ids.into_iter().find(|id| w.home(id) == 1).unwrap();
    let ann = w.connect(Version::V311, &id, &named("ann"));
    w.subscribe(ann, "$reply/+", QoS::AtMostOnce);
    w.paused = true;
    let long = "x".repeat(400_000);
    for (procedure, payload) in [("room.set", &*long), ("room.dance", "{}")] {
        let to = format!("$call/{procedure}/1");
        w.publish(ann, &to, payload, QoS::AtMostOnce, false);
        assert_eq!(w.pairs_under_way(), [], "nobody carries {procedure}");
        w.flush(1);
        let answers = w.take_payloads(ann);
        let expected = match payload.len() {
            2 => r#""status":"not-found""#,
            _ => "the payload has 400000 bytes: it may have 307200",
        };
        assert!(answers[0].contains(expected), "{answers:?}");
    }
    let key = w.clients[ann].key.unwrap();
    let topic = b"$call/room.dance/1";
    let packet = [&[0x30, 22, 0, 18], &topic[..], b"{}"].concat();
    let sent = packet.repeat(4_000);
    let taken = w.hubs[1].receive(w.now, key, &sent);
    assert!(taken > 50 * packet.len() && taken < sent.len(), "{taken}");
}

/// Gives one user other rights, or none.
#[derive(Debug)]
struct Change {
    user: &'static str,
    denied: Option<&'static [&'static str]>,
}

impl Renewal for Change {
    fn subject(&self) -> &str {
        self.user
    }
    fn renew(&self, identity: &Arc<Identity>, _client_id: &str) -> Renewed {
        if identity.user.as_deref() != Some(self.user) {
            return Renewed::Keep;
        }
        match self.denied {
            None => Renewed::Close { end_session: true },
            Some(denied) => Renewed::Replace(Arc::new(Identity {
                rights: TestRights::denying(denied),
                ..(**identity).clone()
            })),
        }
    }
}

fn change(w: &mut World, user: &'static str, denied: Option<&'static [&'static str]>) {
    w.control_all(&ControlItem::Renew(Arc::new(Change { user, denied })));
    while w
        .hubs
        .iter()
        .any(|hub| hub.next_deadline() == Some(stentor_session::Tick::ZERO))
    {
        w.advance();
    }
}

#[test]
fn a_change_reaches_live_and_absent_sessions_of_a_user_on_every_shard() {
    for shards in [1, 4] {
        let mut w = World::new(shards);
        let publisher = w.connect(V5, "p", &ConnectOptions::default());
        let mut anns = Vec::new();
        for number in 0..8 {
            let client = w.connect(V5, &format!("a{number}"), &named("ann"));
            w.subscribe(client, "#", QoS::AtLeastOnce);
            anns.push(client);
        }
        let bob = w.connect(V5, "b", &named("bob"));
        w.subscribe(bob, "#", QoS::AtLeastOnce);
        let away = anns.pop().unwrap();
        w.drop_link(away);
        w.publish(publisher, "x/a", "1", QoS::AtLeastOnce, false);
        change(&mut w, "ann", Some(&["x/"]));
        w.publish(publisher, "x/a", "2", QoS::AtLeastOnce, false);
        w.publish(publisher, "y/a", "3", QoS::AtLeastOnce, false);
        for client in &anns {
            assert_eq!(w.take_payloads(*client), ["1", "3"]);
            w.publish(*client, "x/b", "4", QoS::AtMostOnce, false);
        }
        assert_eq!(
            w.take_payloads(bob),
            ["1", "2", "3"],
            "what ann said is not heard"
        );
        // What waited for the absent one is gone as well. Its log-in was decided before the
        // change, and is renewed as it arrives.
        let back = w
            .connect_as(V5, "a7", &named("ann"), TestRights::denying(&[]))
            .unwrap();
        assert_eq!(w.take_payloads(back), ["3"]);
        w.publish(publisher, "x/a", "5", QoS::AtLeastOnce, false);
        assert!(w.take_payloads(back).is_empty());
        // The latest change counts.
        change(&mut w, "ann", Some(&[]));
        w.publish(publisher, "x/a", "6", QoS::AtLeastOnce, false);
        assert_eq!(w.take_payloads(back), ["6"]);
    }
}

#[test]
fn a_user_that_is_deleted_is_disconnected_and_kept_out() {
    let mut w = World::new(2);
    let watcher = w.connect(V5, "w", &ConnectOptions::default());
    w.subscribe(watcher, "#", QoS::AtMostOnce);
    let options = ConnectOptions {
        will: Some(("gone", "will", 0)),
        ..named("ann")
    };
    let ann = w.connect(V5, "a", &options);
    w.subscribe(ann, "a", QoS::AtLeastOnce);
    let away = w.connect(V5, "a2", &named("ann"));
    w.subscribe(away, "a", QoS::AtLeastOnce);
    w.drop_link(away);
    let bob = w.connect(V5, "b", &named("bob"));
    change(&mut w, "ann", None);
    assert_eq!(
        w.clients[ann].closed,
        Some(CloseReason::Local(Local::Revoked))
    );
    let final_output = w.take_packet(ann, 0xE0).unwrap();
    assert_eq!(final_output[2], 0x98);
    assert_eq!(w.clients[bob].closed, None);
    assert!(w.take_payloads(watcher).is_empty(), "nobody's will");
    let sessions: u64 = w
        .hubs
        .iter()
        .map(|hub| hub.inspect().stats().sessions)
        .sum();
    assert_eq!(sessions, 2);
    let refused = w.connect_as(V5, "a", &named("ann"), TestRights::denying(&[]));
    assert_eq!(refused.unwrap_err(), CloseReason::Denied(Denied::Banned));
    // Until it is there again.
    change(&mut w, "ann", Some(&[]));
    w.connect_as(V5, "a", &named("ann"), TestRights::denying(&[]))
        .unwrap();
}

/// Each turn visits a bounded number of sessions.
#[test]
fn a_change_does_not_hold_up_a_shard() {
    let mut w = World::new(1);
    for number in 0..3_000 {
        w.connect(V5, &format!("c{number}"), &named("ann"));
    }
    let item = ControlItem::Renew(Arc::new(Change {
        user: "ann",
        denied: None,
    }));
    w.paused = true;
    w.hubs[0].begin_turn();
    w.control_all(&item);
    let closed = |w: &World| w.clients.iter().filter(|c| c.closed.is_some()).count();
    let mut turns = 0;
    while closed(&w) < 3_000 {
        let before = closed(&w);
        w.flush(0);
        assert!((1..1_024).contains(&(closed(&w) - before)));
        w.go_on(0);
        turns += 1;
    }
    assert!((10..100).contains(&turns), "{turns}");
    assert_ne!(w.hubs[0].next_deadline(), Some(stentor_session::Tick::ZERO));
}
