//! Queues keep messages while no member has room for them.

use std::sync::Arc;

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::journal::{begin_restoring, end_restoring};
use stentor_hub::{
    Access, Identity, PriorDeliveries, PriorSession, PriorSubscription, QueueBounds, Rights,
    Settings, SlowPolicy,
};
use stentor_mqtt::{QoS, RetainHandling, SubscribeOptions, Version};
use stentor_session::Tick;
use stentor_topic::Zone;

const ID: &str = "$queue/crew/jobs/#";

struct QueueRights(QueueBounds);

impl Rights for QueueRights {
    fn may_publish(&self, _: &str) -> bool {
        false
    }
    fn may_subscribe(&self, _: &str) -> Access {
        Access::All
    }
    fn may_receive(&self, _: &str) -> bool {
        true
    }
    fn queue(&self) -> Option<QueueBounds> {
        Some(self.0)
    }
}

/// A world with the queue `crew` of `jobs/#`, which holds this many messages.
fn world(shards: u8, messages: u32, full: SlowPolicy) -> World {
    // A member has room for no more than five that wait.
    let mut w = World::with_settings(
        shards,
        Settings {
            in_flight_max: 2,
            queue_messages_max: 10,
            ..Settings::default()
        },
    );
    let bounds = QueueBounds {
        messages,
        bytes: 1 << 30,
        full,
    };
    let options = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::DoNotSend,
    };
    let session = PriorSession {
        identity: Arc::new(Identity {
            user: Some("$queue".into()),
            zone: Zone(0),
            rights: Arc::new(QueueRights(bounds)),
            expires_at: Tick::NEVER,
            guest: None,
        }),
        tenants: None,
        client_id: ID.into(),
        origin: None,
        expiry_secs: u32::MAX,
        since_ms: 0,
        until: Tick::NEVER,
        will: None,
        will_at: Tick::NEVER,
        subscriptions: vec![PriorSubscription {
            share: Some("crew".into()),
            filter: "jobs/#".into(),
            options,
            id: None,
            interval: None,
            snapshot: false,
            room: false,
        }],
        deliveries: PriorDeliveries::default(),
        arrived: Vec::new(),
        unheard: Vec::new(),
        held: Vec::new(),
    };
    let home = usize::from(w.home(ID));
    session.restore(&mut w.hubs[home], w.now);
    w.settle();
    w
}

fn publish(w: &mut World, numbers: std::ops::Range<usize>) {
    let p = w.connect(Version::V5, "p", &clean());
    for number in numbers {
        w.publish(p, "jobs/a", &number.to_string(), QoS::AtLeastOnce, false);
    }
}

/// What a client gets until nothing more comes, while it acknowledges everything.
fn take_all(w: &mut World, client: usize) -> Vec<usize> {
    let mut got = Vec::new();
    loop {
        let messages = w.take_messages(client);
        if messages.is_empty() {
            return got;
        }
        for message in messages {
            got.push(String::from_utf8(message.payload).unwrap().parse().unwrap());
            w.send_ack(client, 0x40, message.packet_id.unwrap());
        }
    }
}

#[test]
fn a_queue_keeps_messages_in_order_for_the_first_member() {
    for shards in 1..=3 {
        let mut w = world(shards, 1_000, SlowPolicy::DropNewest);
        publish(&mut w, 0..200);
        let m = w.connect(Version::V5, "m", &clean());
        // At QoS 2, what was sent and not completed could go to nobody else.
        assert_eq!(w.subscribe(m, "$queue/crew/jobs/#", QoS::ExactlyOnce), 1);
        let all: Vec<usize> = (0..200).collect();
        let mut got = take_all(&mut w, m);
        for _ in 0..5 {
            w.pass_secs(1);
            got.extend(take_all(&mut w, m));
        }
        assert_eq!(got, all, "{shards} shards");
        w.check_accounts();
    }
}

#[test]
fn what_a_slow_member_has_no_room_for_goes_to_others_and_is_not_dropped() {
    for shards in 1..=3 {
        let mut w = world(shards, 1_000, SlowPolicy::DropNewest);
        let slow = w.connect(Version::V5, "slow", &clean());
        w.subscribe(slow, "$share/crew/jobs/#", QoS::AtLeastOnce);
        publish(&mut w, 0..100);
        let held = w.take_messages(slow);
        assert_eq!(held.len(), 2, "the rest waits");
        let other = w.connect(Version::V5, "other", &clean());
        w.subscribe(other, "$share/crew/jobs/#", QoS::AtLeastOnce);
        let mut got = take_all(&mut w, other);
        for _ in 0..60 {
            w.pass_secs(1);
            got.extend(take_all(&mut w, other));
        }
        assert!(got.len() >= 90, "{}", got.len());
        // What it has never acknowledged goes to the other one when it leaves.
        w.drop_link(slow);
        for _ in 0..5 {
            w.pass_secs(1);
            got.extend(take_all(&mut w, other));
        }
        got.sort_unstable();
        assert_eq!(got, (0..100).collect::<Vec<_>>(), "{shards} shards");
        let dropped: u64 = w
            .hubs
            .iter()
            .map(|hub| hub.inspect().stats().publishes_dropped)
            .sum();
        assert_eq!(dropped, 0);
    }
}

/// After a start, a shard that has not heard of all members answers no question.
#[test]
fn a_question_that_came_too_early_is_answered_later() {
    for shards in 1..=3 {
        let mut w = world(shards, 1_000, SlowPolicy::DropNewest);
        publish(&mut w, 0..3);
        for hub in &mut w.hubs {
            begin_restoring(hub);
            hub.turn_mut().set_share_room(u32::MAX);
        }
        let m = w.connect(Version::V5, "m", &clean());
        assert_eq!(w.subscribe(m, "$queue/crew/jobs/#", QoS::AtLeastOnce), 1);
        assert_eq!(take_all(&mut w, m), [0; 0]);
        // Another shard would send it to the member, of whom it knows.
        let more = usize::from(shards == 1);
        publish(&mut w, 3..3 + more);
        assert_eq!(take_all(&mut w, m), [0; 0]);
        w.hubs.iter_mut().for_each(end_restoring);
        w.pass_secs(2);
        let all: Vec<usize> = (0..3 + more).collect();
        assert_eq!(take_all(&mut w, m), all, "{shards} shards");
    }
}

/// It may never acknowledge what it has: that is no reason to leave it without work.
#[test]
fn a_member_that_has_something_else_in_flight_is_given_what_waits() {
    for shards in 1..=3 {
        let mut w = world(shards, 1_000, SlowPolicy::DropNewest);
        publish(&mut w, 0..1);
        let m = w.connect(Version::V5, "m", &clean());
        w.subscribe(m, "other", QoS::AtLeastOnce);
        let p = w.connect(Version::V5, "p", &clean());
        w.publish(p, "other", "9", QoS::AtLeastOnce, false);
        assert_eq!(w.take_messages(m).len(), 1);
        w.subscribe(m, "$queue/crew/jobs/#", QoS::AtLeastOnce);
        assert_eq!(take_all(&mut w, m), [0], "{shards} shards");
    }
}

/// A member that is away may never come back: what comes in the meantime is for everybody.
#[test]
fn the_queue_goes_before_members_that_are_away() {
    for shards in 1..=3 {
        let mut w = world(shards, 1_000, SlowPolicy::DropNewest);
        let away = w.connect(Version::V5, "away", &ConnectOptions::persistent());
        w.subscribe(away, "$share/crew/jobs/#", QoS::AtLeastOnce);
        w.drop_link(away);
        publish(&mut w, 0..3);
        let m = w.connect(Version::V5, "m", &clean());
        w.subscribe(m, "$share/crew/jobs/#", QoS::AtLeastOnce);
        assert_eq!(take_all(&mut w, m), [0, 1, 2], "{shards} shards");
    }
}

#[test]
fn a_full_queue_drops_the_newest_or_the_oldest() {
    for (full, expected) in [
        (SlowPolicy::DropNewest, [0, 1, 2]),
        (SlowPolicy::DropOldest, [2, 3, 4]),
    ] {
        let mut w = world(2, 3, full);
        publish(&mut w, 0..5);
        let dropped: u64 = w
            .hubs
            .iter()
            .map(|hub| hub.inspect().stats().publishes_dropped)
            .sum();
        assert_eq!(dropped, 2);
        let m = w.connect(Version::V5, "m", &clean());
        w.subscribe(m, "$queue/crew/jobs/#", QoS::AtLeastOnce);
        assert_eq!(take_all(&mut w, m), expected);
    }
}

#[test]
fn a_queue_that_is_not_there_is_refused() {
    let mut w = world(2, 3, SlowPolicy::DropNewest);
    let m = w.connect(Version::V5, "m", &clean());
    for filter in ["$queue/crew/jobs", "$queue/other/jobs/#", "$queue/crew"] {
        assert_eq!(w.subscribe(m, filter, QoS::AtLeastOnce), 0x8F, "{filter}");
    }
    assert_eq!(w.subscribe(m, "$share/other/jobs/#", QoS::AtLeastOnce), 1);
}

#[test]
fn nobody_has_or_ends_the_session_of_a_queue() {
    let mut w = world(2, 1_000, SlowPolicy::DropNewest);
    publish(&mut w, 0..1);
    let options = ConnectOptions {
        user: Some("$queue"),
        ..ConnectOptions::persistent()
    };
    let client = w.connect_only(Version::V5, ID, &options);
    let connack = w.receive_packet(client).expect("a CONNACK");
    assert_eq!(connack[2], 0, "it is another session");
    let home = usize::from(w.home(ID));
    assert!(w.hubs[home].operate().kick(w.now, Zone(0), ID, true));
    assert!(
        !w.hubs[home].operate().kick(w.now, Zone(0), ID, true),
        "no client is left"
    );
    w.settle();
    let m = w.connect(Version::V5, "m", &clean());
    w.subscribe(m, "$queue/crew/jobs/#", QoS::AtLeastOnce);
    assert_eq!(take_all(&mut w, m), [0]);
}
