//! The topics that most messages are published to, and those who publish most: the heavy hitters.
//!
//! One publish in 64 is looked at. The steps from one to the next are drawn, so that clients that
//! publish in turns are all seen. What is seen is counted in [`SpaceSaving`] sketches, which are
//! halved each minute: a shard needs the same memory for any number of topics and clients. A
//! publish that is not looked at costs one decrement.

mod space_saving;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::OnceCell;

use stentor_session::Tick;
use stentor_topic::{TopicHasher, Zone};
use stentor_zone::Address;

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use space_saving::{Counted, SpaceSaving, halved};

/// One publish in this many is looked at, on average.
pub const SAMPLED_ONE_IN: u64 = 64;

/// Counts are halved each time this has passed.
const HALVING_MICROS: u64 = 60_000_000;

/// Longer names are cut: clients choose them. What is cut is still told apart by its whole name.
const NAME_BYTES_MAX: usize = 256;

/// What a private message counts as: to whom it goes concerns its sender and its recipient.
const PRIVATE: &str = "$private";

/// What the answer to a served call counts as.
const ANSWER: &str = "$answer";

/// By which of its figures something is heavy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeavyBy {
    /// By messages.
    #[default]
    Messages,
    /// By the bytes of their payloads.
    Bytes,
}

/// A topic that is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeavyTopic {
    /// Its zone.
    pub zone: Zone,
    /// Its name, of which 256 bytes are kept at most.
    pub topic: Box<str>,
    /// Whether the name is longer.
    pub is_cut: bool,
}

/// Somebody who publishes, and is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeavyPublisher {
    /// The zone.
    pub zone: Zone,
    /// The client id, of which 256 bytes are kept at most; `None` for a user without a connection.
    pub client_id: Option<Box<str>>,
    /// The user; `None` for anonymous.
    pub user: Option<Box<str>>,
    /// Whether one of these names is longer.
    pub is_cut: bool,
}

/// A heavy hitter: what is estimated of it over a time that [`Heaviest`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heavy<T, O> {
    /// Tells it apart from all others, on each shard of a server in the same way.
    pub key: u64,
    /// What it is.
    pub who: Arc<T>,
    /// Messages.
    pub messages: u64,
    /// Bytes of payloads.
    pub bytes: u64,
    /// The most by which the figure is too high that it was ranked by. The other one is never too
    /// high but for chance. It may be too low by what came before the thing had a place.
    pub error: u64,
    /// The publisher that publishes much of this topic, or the topic that this publisher publishes
    /// much to: more than a quarter. `None` if that is not certain of any.
    pub mostly: Option<Arc<O>>,
}

/// The heavy hitters of one shard.
#[derive(Clone, Debug)]
pub struct Heaviest<T, O> {
    /// In no order, 256 at most.
    pub found: Vec<Heavy<T, O>>,
    /// The most that something may have, by the figure that was ranked by, that is not among them.
    pub floor: u64,
    /// All messages that were published, estimated over the same time.
    pub messages: u64,
    /// The bytes of their payloads.
    pub bytes: u64,
    /// The time over which these figures are sums, in microseconds: what is older counts half for
    /// each minute that has ended since.
    pub window_micros: u64,
}

/// Whatever has most votes, if it has more than half of them; by Boyer and Moore.
#[derive(Debug)]
struct Majority<O> {
    key: u64,
    /// How many more votes it has than all others.
    votes: u64,
    held: Option<Arc<O>>,
}

impl<O> Default for Majority<O> {
    fn default() -> Self {
        Self {
            key: 0,
            votes: 0,
            held: None,
        }
    }
}

impl<O> Majority<O> {
    fn vote(&mut self, key: u64, weight: u64, make: impl FnOnce() -> Arc<O>) {
        if self.held.is_some() && self.key == key {
            self.votes += weight;
        } else if self.votes >= weight {
            self.votes -= weight;
        } else {
            self.key = key;
            self.votes = weight - self.votes;
            self.held = Some(make());
        }
    }

    /// What certainly has more than a quarter of this many votes.
    fn of(&self, all: u64, halvings: u32) -> Option<Arc<O>> {
        let votes = halved(self.votes, 0, halvings).0;
        let is_certain = votes > all / 4;
        self.held.as_ref().filter(|_| is_certain).cloned()
    }
}

/// What is counted of something that has a place in a sketch.
#[derive(Debug)]
struct Tallied<T, O> {
    who: Arc<T>,
    /// Since it has its place: samples weigh [`SAMPLED_ONE_IN`] messages.
    messages: u64,
    bytes: u64,
    mostly: Majority<O>,
}

/// Sketches of the same things, by messages and by bytes.
#[derive(Debug)]
struct Ranking<T, O> {
    by_messages: SpaceSaving<Tallied<T, O>>,
    by_bytes: SpaceSaving<Tallied<T, O>>,
}

impl<T, O> Default for Ranking<T, O> {
    fn default() -> Self {
        Self {
            by_messages: SpaceSaving::default(),
            by_bytes: SpaceSaving::default(),
        }
    }
}

/// A name that is made when something first needs it.
struct Label<'a, T> {
    key: u64,
    made: OnceCell<Arc<T>>,
    make: &'a dyn Fn() -> T,
}

impl<'a, T> Label<'a, T> {
    fn new(key: u64, make: &'a dyn Fn() -> T) -> Self {
        Self {
            key,
            made: OnceCell::new(),
            make,
        }
    }

    fn get(&self) -> Arc<T> {
        Arc::clone(self.made.get_or_init(|| Arc::new((self.make)())))
    }
}

impl<T, O> Ranking<T, O> {
    /// Counts a sample, whose payload has this many bytes.
    fn add(&mut self, bytes: u64, what: &Label<'_, T>, other: Option<&Label<'_, O>>) {
        let bytes = bytes.saturating_mul(SAMPLED_ONE_IN);
        for (sketch, weight) in [
            (&mut self.by_messages, SAMPLED_ONE_IN),
            (&mut self.by_bytes, bytes),
        ] {
            if weight == 0 {
                continue;
            }
            let own = sketch.add(what.key, weight, || Tallied {
                who: what.get(),
                messages: 0,
                bytes: 0,
                mostly: Majority::default(),
            });
            own.messages += SAMPLED_ONE_IN;
            own.bytes = own.bytes.saturating_add(bytes);
            if let Some(other) = other {
                own.mostly.vote(other.key, SAMPLED_ONE_IN, || other.get());
            }
        }
    }

    fn halve(&mut self, times: u32) {
        for sketch in [&mut self.by_messages, &mut self.by_bytes] {
            sketch.halve(times, |own| {
                for count in [&mut own.messages, &mut own.bytes, &mut own.mostly.votes] {
                    *count = halved(*count, 0, times).0;
                }
            });
        }
    }

    /// What has a place in the sketch of an order, as it is after some more halvings.
    fn heaviest(&self, by: HeavyBy, halvings: u32) -> (Vec<Heavy<T, O>>, u64) {
        let sketch = match by {
            HeavyBy::Messages => &self.by_messages,
            HeavyBy::Bytes => &self.by_bytes,
        };
        let seen = |one: Counted<'_, Tallied<T, O>>| {
            let (count, error) = halved(one.count, one.error, halvings);
            let own = one.thing;
            let [messages, bytes] = [own.messages, own.bytes].map(|it| halved(it, 0, halvings).0);
            let mostly = own.mostly.of(messages, halvings);
            let (messages, bytes) = match by {
                HeavyBy::Messages => (count, bytes),
                HeavyBy::Bytes => (messages, count),
            };
            let heavy = Heavy {
                key: one.key,
                who: Arc::clone(&own.who),
                messages,
                bytes,
                error,
                mostly,
            };
            (count > 0).then_some(heavy)
        };
        let found = sketch.iter().filter_map(seen).collect();
        (found, halved(sketch.floor(), 0, halvings).0)
    }
}

/// Draws how many publishes are passed over: an xorshift generator, which need not be more.
#[derive(Debug)]
struct Steps(u64);

impl Steps {
    /// From 1 to 127, on average [`SAMPLED_ONE_IN`].
    const fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Below 127.
        1 + ((self.0 >> 32) % (2 * SAMPLED_ONE_IN - 1)) as u32
    }
}

/// The publisher of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct By<'a> {
    /// The client id; `None` for a user without a connection.
    pub(crate) client_id: Option<&'a str>,
    /// The user; `None` for anonymous.
    pub(crate) user: Option<&'a str>,
}

/// The sketches of one shard.
#[derive(Debug)]
pub(crate) struct HeavyHitters {
    /// The publish that is looked at, counted from the next one: 1 or more.
    until_sample: u32,
    steps: Steps,
    /// The last minute whose end has halved the counts.
    minute: u64,
    topics: Ranking<HeavyTopic, HeavyPublisher>,
    publishers: Ranking<HeavyPublisher, HeavyTopic>,
    /// All messages and bytes.
    whole: (u64, u64),
}

impl HeavyHitters {
    /// For one shard. `hasher` has the secret of the server, so nobody outside can tell which
    /// publishes are looked at.
    pub(crate) fn new(hasher: &TopicHasher, shard: ShardId) -> Self {
        let seed = hasher.hash(Zone(u32::from(shard.0)), "which publishes are looked at");
        let mut steps = Steps(seed | 1);
        Self {
            until_sample: steps.next(),
            steps,
            minute: 0,
            topics: Ranking::default(),
            publishers: Ranking::default(),
            whole: (0, 0),
        }
    }

    /// Counts a publish; whether it is one to look at, by [`HeavyHitters::add`].
    #[inline]
    pub(crate) const fn is_sample(&mut self) -> bool {
        self.until_sample -= 1;
        self.until_sample == 0 && self.draw()
    }

    #[cold]
    const fn draw(&mut self) -> bool {
        self.until_sample = self.steps.next();
        true
    }

    /// Looks at a publish: `bytes` are those of its payload. Without a publisher, its topic alone
    /// counts.
    pub(crate) fn add(
        &mut self,
        now: Tick,
        hasher: &TopicHasher,
        zone: Zone,
        topic: &str,
        bytes: u64,
        by: Option<By<'_>>,
    ) {
        self.catch_up(now);
        self.whole.0 += SAMPLED_ONE_IN;
        self.whole.1 += bytes.saturating_mul(SAMPLED_ONE_IN);
        let parsed = Address::parse(topic);
        let topic: Cow<'_, str> = match &parsed {
            // Whether it is a valid one or not.
            _ if topic.starts_with("$private/") => PRIVATE.into(),
            // The number of an answer, and that of a call's reply, is a new one each time.
            Ok(Address::Answer { .. }) => ANSWER.into(),
            Ok(address) => address.right(topic),
            Err(_) => topic.into(),
        };
        let make_topic = || {
            let (topic, is_cut) = cut(&topic);
            HeavyTopic {
                zone,
                topic,
                is_cut,
            }
        };
        let topic = Label::new(hasher.hash(zone, &topic), &make_topic);
        let Some(by) = by else {
            self.topics.add(bytes, &topic, None);
            return;
        };
        let make_publisher = || {
            let [(client_id, first), (user, second)] = [by.client_id, by.user].map(|name| {
                let cut = name.map(cut);
                let is_cut = cut.as_ref().is_some_and(|(_, is_cut)| *is_cut);
                (cut.map(|(name, _)| name), is_cut)
            });
            HeavyPublisher {
                zone,
                client_id,
                user,
                is_cut: first || second,
            }
        };
        let publisher = Label::new(by.key(hasher, zone), &make_publisher);
        self.topics.add(bytes, &topic, Some(&publisher));
        self.publishers.add(bytes, &publisher, Some(&topic));
    }

    /// Halves the counts for the minutes that have ended.
    fn catch_up(&mut self, now: Tick) {
        let times = self.halvings(now);
        if times > 0 {
            self.minute = now.as_micros() / HALVING_MICROS;
            self.topics.halve(times);
            self.publishers.halve(times);
            self.whole = self.whole_after(times);
        }
    }

    fn whole_after(&self, halvings: u32) -> (u64, u64) {
        let half = |count| halved(count, 0, halvings).0;
        (half(self.whole.0), half(self.whole.1))
    }

    /// How often the counts have to be halved.
    fn halvings(&self, now: Tick) -> u32 {
        let passed = (now.as_micros() / HALVING_MICROS).saturating_sub(self.minute);
        u32::try_from(passed).unwrap_or(u32::MAX)
    }

    fn told<T, O>(&self, ranking: &Ranking<T, O>, by: HeavyBy, now: Tick) -> Heaviest<T, O> {
        let halvings = self.halvings(now);
        let (found, floor) = ranking.heaviest(by, halvings);
        let (messages, bytes) = self.whole_after(halvings);
        Heaviest {
            found,
            floor,
            messages,
            bytes,
            window_micros: window_micros(now),
        }
    }
}

/// The time that counts now stand for, in microseconds: it is halved when they are.
fn window_micros(now: Tick) -> u64 {
    let (minutes, micros) = (
        now.as_micros() / HALVING_MICROS,
        now.as_micros() % HALVING_MICROS,
    );
    let shift = u32::try_from(minutes).unwrap_or(u32::MAX);
    micros + HALVING_MICROS - HALVING_MICROS.checked_shr(shift).unwrap_or(0)
}

impl By<'_> {
    fn key(&self, hasher: &TopicHasher, zone: Zone) -> u64 {
        let hash = |name: Option<&str>| name.map_or(0, |name| hasher.hash(zone, name));
        // The two names count differently, and no name differs from an empty one.
        let (client_id, user) = (hash(self.client_id), hash(self.user));
        client_id
            .rotate_left(29)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ user
    }
}

/// A name as it is kept, and whether that is not all of it.
fn cut(name: &str) -> (Box<str>, bool) {
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    (name[..end].into(), end < name.len())
}

/// Counts what a session publishes.
#[inline]
pub(crate) fn count_publish(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    topic: &str,
    payload: &[u8],
) {
    if core.counters.heavy_hitters.is_sample() {
        look_at(core, now, key, topic, payload);
    }
}

#[cold]
fn look_at(core: &mut Core, now: Tick, key: SessionKey, topic: &str, payload: &[u8]) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let by = By {
        client_id: Some(session.state.client_id()),
        user: session.state.identity().user.as_deref(),
    };
    let (hitters, hasher) = (&mut core.counters.heavy_hitters, &core.place.hasher);
    let (zone, bytes) = (session.state.zone(), payload.len() as u64);
    hitters.add(now, hasher, zone, topic, bytes, Some(by));
}

/// Counts what is published without a session: by somebody with a name, or by an adaptor.
pub(crate) fn count_publish_of(
    core: &mut Core,
    now: Tick,
    zone: Zone,
    topic: &str,
    payload: &[u8],
    by: Option<By<'_>>,
) {
    let (hitters, hasher) = (&mut core.counters.heavy_hitters, &core.place.hasher);
    if hitters.is_sample() {
        hitters.add(now, hasher, zone, topic, payload.len() as u64, by);
    }
}

/// The topics that most is published to.
pub(crate) fn topics(core: &Core, now: Tick, by: HeavyBy) -> Heaviest<HeavyTopic, HeavyPublisher> {
    let hitters = &core.counters.heavy_hitters;
    hitters.told(&hitters.topics, by, now)
}

/// Those who publish most.
pub(crate) fn publishers(
    core: &Core,
    now: Tick,
    by: HeavyBy,
) -> Heaviest<HeavyPublisher, HeavyTopic> {
    let hitters = &core.counters.heavy_hitters;
    hitters.told(&hitters.publishers, by, now)
}

#[cfg(test)]
mod tests;
