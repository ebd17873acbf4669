//! The newest message of each topic, for a client that does not get all of them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::time::Duration;

use stentor_mqtt::QoS;
use stentor_topic::TopicHasher;

use crate::Tick;
use crate::blocks::Blocks;
use crate::outbound::Delivery;

use self::topics::{Topic, Topics};

mod topics;

/// What a topic costs besides its name and its message, in bytes: its places here, for half of
/// which there is room only, and the block of its name.
const TOPIC_COST: usize =
    2 * (size_of::<(Topic, Held)>() + size_of::<Later>()) + 4 * size_of::<usize>();

/// What a message costs here besides itself, in bytes: its block, and a place in a list.
const WAITING_COST: usize = size_of::<Waiting>() + 2 * size_of::<usize>() + 2 * size_of::<Topic>();

/// Places of a list that [`Conflation::pop`] looks at. A place is empty if the message of its topic
/// went another way.
const PLACES_AT_ONCE: usize = 8;

/// Messages that one client does not get yet: because it does not read fast enough, or because
/// their topic goes to it at most so often. Of each topic only the newest waits; it takes the
/// place of the one before, so that topics take turns however often they change.
///
/// A message that waits holds no packet id and is newer than everything of its topic that went to
/// the client before. The owner bounds [`Conflation::bytes`], and has [`Conflation::wake`] called
/// when [`Conflation::next_deadline`] is there. All operations cost O(log topics), and none moves
/// or frees much at once: a thousand clients may hold back the same topics, and grow on the same
/// message.
#[derive(Debug)]
pub struct Conflation {
    topics: Topics<Held>,
    /// Topics whose message may go, in the order in which they began to wait: at QoS 0, and above.
    ready: [Blocks<Topic>; 2],
    /// How many were taken from each of the two.
    taken: [u64; 2],
    /// When the next message of a topic may go; each topic stands here once at most.
    later: BTreeSet<Later>,
    waiting: usize,
    /// What the messages cost that wait.
    waiting_bytes: usize,
    /// What the topics cost.
    topic_bytes: usize,
}

/// What is known of one topic.
#[derive(Debug, Default)]
struct Held {
    /// The pace lets no message go before this.
    next: Tick,
    waiting: Option<Box<Waiting>>,
    /// Whether it is in each of the two lists of those that may go.
    listed: [bool; 2],
    /// Whether it is in `later`.
    timed: bool,
}

/// A topic whose next message may go at a time. They are ordered by that time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    at: Tick,
    topic: Topic,
}

#[derive(Debug)]
struct Waiting {
    delivery: Delivery,
    /// The time from this message to the next one of its topic.
    interval: Duration,
    class: QosClass,
}

/// Which list a message goes from. One that needs a packet id must not hold those that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// At QoS 0.
    Free = 0,
    /// Above QoS 0, or in the place of such a one.
    Windowed = 1,
}

/// What became of the message that waited before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// There was none.
    First,
    /// It was replaced.
    Replaced,
}

impl Conflation {
    /// Nothing waits. `hasher` keys the names of topics.
    #[must_use]
    pub fn new(hasher: TopicHasher) -> Self {
        Self {
            topics: Topics::new(hasher),
            ready: [Blocks::new(), Blocks::new()],
            taken: [0; 2],
            later: BTreeSet::new(),
            waiting: 0,
            waiting_bytes: 0,
            topic_bytes: 0,
        }
    }

    /// How many messages wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no message waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether nothing is known of any topic.
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.topics.is_empty()
    }

    /// What the messages that wait and the topics that are remembered cost, in bytes. O(1).
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.waiting_bytes + self.topic_bytes
    }

    /// What it would cost if this message waited too.
    #[must_use]
    pub fn bytes_with(&self, delivery: &Delivery) -> usize {
        let message = &delivery.message;
        let held = self.topics.get(message.topic());
        let topic = held.map_or_else(|| topic_cost(message.topic().len()), |_| 0);
        let waiting = held.and_then(|held| held.waiting.as_ref());
        let freed = waiting.map_or(0, |waiting| cost(&waiting.delivery));
        self.bytes() + topic + cost(delivery) - freed
    }

    /// Whether a message of this topic waits.
    #[must_use]
    pub fn holds(&self, topic: &str) -> bool {
        let held = self.topics.get(topic);
        held.is_some_and(|held| held.waiting.is_some())
    }

    /// The message of this topic that waits.
    #[must_use]
    pub fn waiting(&self, topic: &str) -> Option<&Delivery> {
        let waiting = self.topics.get(topic)?.waiting.as_ref()?;
        Some(&waiting.delivery)
    }

    /// All messages that wait.
    pub fn all_waiting(&self) -> impl Iterator<Item = &Delivery> {
        let all = self
            .topics
            .iter()
            .filter_map(|(_, held)| held.waiting.as_ref());
        all.map(|waiting| &waiting.delivery)
    }

    /// In how many parts [`Conflation::waiting_in`] has them.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.topics.tables()
    }

    /// Those of one part. A topic stays in its part as long as the number of parts does.
    pub fn waiting_in(&self, part: usize) -> impl Iterator<Item = &Delivery> {
        let all = self.topics.in_table(part);
        let all = all.filter_map(|(_, held)| held.waiting.as_ref());
        all.map(|waiting| &waiting.delivery)
    }

    /// Whether a message of this topic may go now, past what waits of others.
    #[must_use]
    pub fn may_pass(&self, now: Tick, topic: &str) -> bool {
        let held = self.topics.get(topic);
        held.is_none_or(|held| held.waiting.is_none() && held.next <= now)
    }

    /// A message of this topic went now; the next one may after `interval`. That is remembered if
    /// topics cost at most `topic_bytes_max` then; otherwise the next one may go at once.
    pub fn passed(&mut self, now: Tick, topic: &str, interval: Duration, topic_bytes_max: usize) {
        let is_known = || self.topics.get(topic).is_some();
        let has_room = self.topic_bytes + topic_cost(topic.len()) <= topic_bytes_max;
        if interval.is_zero() || !(has_room || is_known()) {
            return;
        }
        let topic = self.open(topic);
        self.pace(now, &topic, interval);
    }

    /// The next message of this topic may go now, whatever its pace.
    pub fn hurry(&mut self, now: Tick, topic: &str) {
        if let Some(held) = self.topics.get_mut(topic) {
            held.next = held.next.min(now);
        }
    }

    /// Has a message wait, in the place of an older one of its topic.
    pub fn offer(&mut self, now: Tick, mut delivery: Delivery, interval: Duration) -> Offered {
        let topic = self.open(delivery.message.topic());
        let Some(held) = self.topics.known(&topic) else {
            return Offered::First;
        };
        let mut class = match delivery.qos {
            QoS::AtMostOnce => QosClass::Free,
            QoS::AtLeastOnce | QoS::ExactlyOnce => QosClass::Windowed,
        };
        let old = held.waiting.take();
        if let Some(old) = &old {
            self.waiting_bytes -= cost(&old.delivery);
            delivery.conflated = old.delivery.conflated.saturating_add(1);
            if old.class == QosClass::Windowed {
                class = QosClass::Windowed;
            }
        }
        let waiting = Waiting {
            delivery,
            interval,
            class,
        };
        self.waiting_bytes += cost(&waiting.delivery);
        held.waiting = Some(Box::new(waiting));
        if held.next <= now {
            list(&mut self.ready, held, &topic, class);
        }
        if old.is_some() {
            return Offered::Replaced;
        }
        self.waiting += 1;
        Offered::First
    }

    /// Takes back what waits of a topic, because a newer message of it goes another way.
    pub fn withdraw(&mut self, topic: &str) -> Option<Delivery> {
        let topic = self.topics.topic(topic)?.clone();
        self.withdraw_of(&topic)
    }

    fn withdraw_of(&mut self, topic: &Topic) -> Option<Delivery> {
        let waiting = self.topics.known(topic)?.waiting.take()?;
        self.waiting -= 1;
        self.waiting_bytes -= cost(&waiting.delivery);
        self.close(topic);
        Some(waiting.delivery)
    }

    /// When a message that waits for its pace may go, or a pace is forgotten.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.later.first().map(|later| later.at)
    }

    /// Has messages go whose time has come. Looks at up to `at_most` topics, and
    /// returns at how many it looked: while [`Conflation::next_deadline`] is over, there are more.
    pub fn wake(&mut self, now: Tick, at_most: usize) -> usize {
        let mut looked = 0;
        while looked < at_most
            && self.next_deadline().is_some_and(|at| at <= now)
            && let Some(Later { topic, .. }) = self.later.pop_first()
        {
            looked += 1;
            if let Some(held) = self.topics.known(&topic) {
                if held.next > now {
                    // Another message has gone since this was noted.
                    let at = held.next;
                    self.later.insert(Later { at, topic });
                    continue;
                }
                held.timed = false;
                let class = held.waiting.as_ref().map(|waiting| waiting.class);
                if let Some(class) = class {
                    list(&mut self.ready, held, &topic, class);
                }
            }
            self.close(&topic);
        }
        looked
    }

    /// Takes out the message whose turn it is in one of the lists: it goes now. Its pace is
    /// remembered as by [`Conflation::passed`]. Looks at up to 8 places: after
    /// `None`, there is another message if [`Conflation::is_ready`] says so.
    pub fn pop(&mut self, now: Tick, class: QosClass, topic_bytes_max: usize) -> Option<Delivery> {
        for _ in 0..PLACES_AT_ONCE {
            let topic = self.ready[class as usize].pop_front()?;
            self.taken[class as usize] += 1;
            let Some(held) = self.topics.known(&topic) else {
                continue;
            };
            held.listed[class as usize] = false;
            if held.next > now {
                // It stood here for a message that went from the other list or was withdrawn, and
                // is listed again when its time has come.
                continue;
            }
            let waiting = held.waiting.take_if(|waiting| waiting.class == class);
            let Some(waiting) = waiting else {
                self.close(&topic);
                continue;
            };
            self.waiting -= 1;
            self.waiting_bytes -= cost(&waiting.delivery);
            if !waiting.interval.is_zero() && self.topic_bytes <= topic_bytes_max {
                self.pace(now, &topic, waiting.interval);
            }
            self.close(&topic);
            return Some(waiting.delivery);
        }
        None
    }

    /// Whether a message may go from one of the lists.
    #[must_use]
    pub fn is_ready(&self, class: QosClass) -> bool {
        !self.ready[class as usize].is_empty()
    }

    /// How many topics have come to their turn in each list.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        self.taken
    }

    /// What [`Conflation::taken`] is when all that may go now has gone, whatever comes after it.
    #[must_use]
    pub fn listed(&self) -> [u64; 2] {
        core::array::from_fn(|class| self.taken[class] + self.ready[class].len() as u64)
    }

    /// The connection is gone: what waits at QoS 0 is, too.
    pub fn disconnected(&mut self) {
        let is_lost = |held: &Held| {
            let waiting = held.waiting.as_ref();
            waiting.is_some_and(|waiting| waiting.delivery.qos == QoS::AtMostOnce)
        };
        let lost = self.topics.iter().filter(|(_, held)| is_lost(held));
        let lost: alloc::vec::Vec<_> = lost.map(|(topic, _)| topic.clone()).collect();
        for topic in lost {
            self.withdraw_of(&topic);
        }
    }

    /// Drops a little of what it holds. Returns whether there was something: nothing else may be
    /// called any more, but [`Conflation::bytes`].
    pub fn shed(&mut self) -> bool {
        if let Some((topic, held)) = self.topics.pop() {
            self.topic_bytes -= topic_cost(topic.len());
            let waiting = held.waiting.map_or(0, |waiting| cost(&waiting.delivery));
            self.waiting_bytes -= waiting;
            return true;
        }
        let [free, windowed] = &mut self.ready;
        free.pop_front().is_some()
            || windowed.pop_front().is_some()
            || self.later.pop_first().is_some()
    }

    /// How many pieces [`Conflation::shed`] drops one by one, at least. O(1).
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.topics.len()
    }

    /// The topic of this name, which is known from now on.
    fn open(&mut self, name: &str) -> Topic {
        if let Some(topic) = self.topics.topic(name) {
            return topic.clone();
        }
        self.topic_bytes += topic_cost(name.len());
        self.topics.insert(name, Held::default())
    }

    /// Forgets a topic of which there is nothing to know.
    fn close(&mut self, topic: &Topic) {
        let is_void =
            |held: &Held| held.waiting.is_none() && held.listed == [false; 2] && !held.timed;
        if self.topics.remove_if(topic, is_void) {
            self.topic_bytes -= topic_cost(topic.len());
        }
    }

    fn pace(&mut self, now: Tick, topic: &Topic, interval: Duration) {
        if let Some(held) = self.topics.known(topic) {
            held.next = now.after(interval);
            if !held.timed {
                held.timed = true;
                let at = held.next;
                let topic = topic.clone();
                self.later.insert(Later { at, topic });
            }
        }
    }
}

fn list(ready: &mut [Blocks<Topic>; 2], held: &mut Held, topic: &Topic, class: QosClass) {
    if !held.listed[class as usize] {
        held.listed[class as usize] = true;
        ready[class as usize].push_back(topic.clone());
    }
}

const fn topic_cost(name_len: usize) -> usize {
    TOPIC_COST + name_len
}

/// What a message costs that waits.
fn cost(delivery: &Delivery) -> usize {
    WAITING_COST + delivery.message_cost()
}
