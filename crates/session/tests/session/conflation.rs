//! The newest message of each topic, against a naive model. A failure prints its seed;
//! `STENTOR_SEED=n` runs that one alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stentor_mqtt::QoS;
use stentor_session::{
    Conflation, Delivery, Message, MessageParts, Offered, Publisher, QosClass, SubscriptionIds,
    Tick,
};
use stentor_topic::{TopicHasher, Zone};

const TOPICS: u64 = 7;
const CLASSES: [QosClass; 2] = [QosClass::Free, QosClass::Windowed];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// What the model knows of a message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waits {
    number: u64,
    conflated: u32,
    interval: Duration,
    qos: QoS,
    windowed: bool,
    /// Others of its list that went while it could have.
    passed_over: u64,
}

#[derive(Default)]
struct Model {
    waits: BTreeMap<String, Waits>,
    /// When the pace lets the next message of a topic go.
    next: BTreeMap<String, Tick>,
    /// The last number that went of each topic.
    sent: BTreeMap<String, u64>,
}

impl Model {
    fn next(&self, topic: &str) -> Tick {
        self.next.get(topic).copied().unwrap_or(Tick::ZERO)
    }

    fn went(&mut self, now: Tick, topic: &str, (number, interval): (u64, Duration)) {
        let before = self.sent.insert(topic.to_owned(), number);
        assert!(before < Some(number), "{topic}: {number} after {before:?}");
        if !interval.is_zero() {
            self.next.insert(topic.to_owned(), now.after(interval));
        }
    }
}

fn delivery(topic: &str, number: u64, qos: QoS) -> Delivery {
    let payload = number.to_string();
    let parts = MessageParts {
        topic,
        properties: &[],
        payload: payload.as_bytes(),
        qos,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts);
    Delivery {
        message: Arc::new(message),
        qos,
        retain: false,
        subscription_ids: SubscriptionIds::default(),
        share: 0,
        conflated: 0,
        number: 0,
    }
}

fn number(delivery: &Delivery) -> u64 {
    let text = std::str::from_utf8(delivery.message.payload()).unwrap();
    text.parse().unwrap()
}

/// Takes everything out that may go now, and compares.
fn drain(now: Tick, queue: &mut Conflation, model: &mut Model, at_most: u64) {
    queue.wake(now, usize::MAX);
    for turn in 0..at_most {
        let class = CLASSES[(turn % 2) as usize];
        let Some(delivery) = queue.pop(now, class, usize::MAX) else {
            continue;
        };
        let topic = delivery.message.topic().to_owned();
        let waits = model.waits.remove(&topic).expect("it waits");
        assert_eq!(number(&delivery), waits.number, "{topic} has the newest");
        assert_eq!(delivery.conflated, waits.conflated, "{topic}");
        assert_eq!(waits.windowed, class == QosClass::Windowed, "{topic}");
        assert!(model.next(&topic) <= now, "{topic} keeps its pace");
        model.went(now, &topic, (waits.number, waits.interval));
        let next = model.next.clone();
        for (other, waits) in &mut model.waits {
            let is_ready = next.get(other).is_none_or(|at| *at <= now);
            if is_ready && waits.windowed == (class == QosClass::Windowed) {
                waits.passed_over += 1;
                assert!(waits.passed_over <= TOPICS, "{other} starves");
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let (mut queue, mut model, mut now) = (
        Conflation::new(TopicHasher::new(7)),
        Model::default(),
        Tick::ZERO,
    );
    for count in 0..400 {
        let topic = format!("t/{}", random.below(TOPICS));
        let qos = [QoS::AtMostOnce, QoS::AtLeastOnce][random.below(2) as usize];
        let interval = Duration::from_millis([0, 0, 5, 40][random.below(4) as usize]);
        match random.below(10) {
            0..5 => {
                assert_eq!(queue.holds(&topic), model.waits.contains_key(&topic));
                let may_pass = !model.waits.contains_key(&topic) && model.next(&topic) <= now;
                assert_eq!(queue.may_pass(now, &topic), may_pass, "{topic}");
                if may_pass && random.below(2) == 0 {
                    queue.passed(now, &topic, interval, usize::MAX);
                    model.went(now, &topic, (count, interval));
                } else {
                    let old = model.waits.get(&topic).copied();
                    let offered = queue.offer(now, delivery(&topic, count, qos), interval);
                    assert_eq!(offered == Offered::Replaced, old.is_some());
                    let waits = Waits {
                        number: count,
                        conflated: old.map_or(0, |old| old.conflated + 1),
                        interval,
                        qos,
                        windowed: qos != QoS::AtMostOnce || old.is_some_and(|old| old.windowed),
                        passed_over: old.map_or(0, |old| old.passed_over),
                    };
                    model.waits.insert(topic, waits);
                }
            }
            5..7 => {
                let at_most = random.below(2 * TOPICS);
                drain(now, &mut queue, &mut model, at_most);
            }
            7 => {
                let taken = queue.withdraw(&topic).as_ref().map(number);
                assert_eq!(taken, model.waits.remove(&topic).map(|waits| waits.number));
            }
            8 if random.below(8) == 0 => {
                queue.disconnected();
                model.waits.retain(|_, waits| waits.qos != QoS::AtMostOnce);
            }
            _ => now = now.after(Duration::from_millis(random.below(30))),
        }
        assert_eq!(queue.len(), model.waits.len());
    }
    // The last of each topic is never lost, and nothing is left over.
    for _ in 0..TOPICS {
        drain(now, &mut queue, &mut model, 4 * TOPICS);
        now = queue.next_deadline().map_or(now, |at| at.max(now));
    }
    queue.wake(now.after(Duration::from_secs(1)), usize::MAX);
    assert_eq!(model.waits, BTreeMap::new());
    assert!(queue.is_empty());
    while CLASSES
        .iter()
        .any(|class| queue.pop(now, *class, usize::MAX).is_some())
    {}
    assert!(queue.is_unused() && queue.bytes() == 0, "{queue:?}");
}

#[test]
fn the_newest_of_each_topic_goes_in_its_time_and_in_turn() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(seed.parse().expect("STENTOR_SEED is a number"));
    }
    for seed in 0..3_000 {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("seed {seed} fails: STENTOR_SEED={seed} runs it alone");
        }
    }
}

/// One that is not wanted any more goes in small pieces.
#[test]
fn it_is_dropped_piece_by_piece() {
    let (mut queue, now) = (Conflation::new(TopicHasher::new(7)), Tick::ZERO);
    for number in 0..900 {
        let qos = [QoS::AtMostOnce, QoS::AtLeastOnce][number as usize % 2];
        let interval = Duration::from_millis(number % 3 * 5);
        let topic = format!("t/{number}");
        if number % 5 == 0 {
            queue.passed(now, &topic, interval, usize::MAX);
        }
        queue.offer(now, delivery(&topic, number, qos), interval);
    }
    assert_eq!(queue.pieces(), 900);
    let (mut before, mut steps) = (queue.bytes(), 0);
    while queue.shed() {
        assert!(before - queue.bytes() < 2_000, "little at once");
        before = queue.bytes();
        steps += 1;
    }
    assert_eq!((queue.bytes(), queue.pieces()), (0, 0));
    assert!((900..3_000).contains(&steps), "{steps}");
}

/// Names that clients choose are remembered as far as there is room, and then forgotten.
#[test]
fn topics_that_have_passed_are_bounded_by_bytes() {
    const BYTES_MAX: usize = 50_000;
    let (mut queue, now) = (Conflation::new(TopicHasher::new(7)), Tick::ZERO);
    let interval = Duration::from_secs(1);
    let name = |number: usize| format!("{number}/{}", "x".repeat(1_000));
    for number in 0..1_000 {
        queue.passed(now, &name(number), interval, BYTES_MAX);
        assert!(queue.bytes() <= BYTES_MAX);
    }
    assert!(queue.bytes() > BYTES_MAX - 2_000);
    assert!(!queue.may_pass(now, &name(0)), "the first are remembered");
    assert!(queue.may_pass(now, &name(999)), "the last go at once");
    // A message that waits is remembered when it goes only if there is room.
    for number in 0..1_000 {
        queue.offer(now, delivery(&name(number), 1, QoS::AtMostOnce), interval);
    }
    let held = queue.bytes();
    assert!(held > 1_000_000);
    queue.wake(now.after(interval), usize::MAX);
    while queue
        .pop(now.after(interval), QosClass::Free, BYTES_MAX)
        .is_some()
    {}
    assert!(queue.bytes() <= BYTES_MAX, "{}", queue.bytes());
    queue.wake(now.after(3 * interval), usize::MAX);
    while queue
        .pop(now.after(3 * interval), QosClass::Free, 0)
        .is_some()
    {}
    assert!(queue.is_unused() && queue.bytes() == 0, "{queue:?}");
}
