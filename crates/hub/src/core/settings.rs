//! Limits and policies. Replaced as a whole on reload; what a CONNACK announced stays as it was
//! for that connection.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use stentor_mqtt::QoS;
use stentor_topic::{Index, Subscriber, TopicHasher, Zone, levels, matches};
use stentor_zone::{RoomOptions, RoomsOptions};

use crate::core::history::HistoryBounds;

/// What a message meets at a client that does not read fast enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowPolicy {
    /// Drop the message that arrives.
    #[default]
    DropNewest,
    /// Drop the oldest queued messages until it fits.
    DropOldest,
    /// Close the connection with 0x97; the session is kept.
    Disconnect,
    /// While the client does not keep up, have only the newest message of each topic wait. Where
    /// even those are too many, as for `Disconnect`.
    Conflate,
}

impl SlowPolicy {
    /// The name in configuration, counters and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::DropNewest => "drop-newest",
            Self::DropOldest => "drop-oldest",
            Self::Disconnect => "disconnect",
            Self::Conflate => "conflate",
        }
    }
}

/// What a subscription meets that is wider than its client's rights. One of which nothing is
/// permitted is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WideSubscription {
    /// It is accepted, and only what is permitted is delivered.
    #[default]
    Filter,
    /// It is refused.
    Refuse,
}

/// The owners of client ids: who may connect with which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientIdBinding {
    /// Everybody may come with any, and ends the connection of whoever has come with it.
    #[default]
    None,
    /// A user's client ids begin with the user's name.
    UserPrefix,
    /// A client id belongs to the user who has a session with it.
    Owner,
}

/// A policy for the topics that match a filter.
#[derive(Clone, Debug)]
pub struct TopicPolicy {
    /// A valid topic filter.
    pub filter: String,
    /// For QoS 0.
    pub qos0: SlowPolicy,
    /// For QoS 1 and 2.
    pub qos1: SlowPolicy,
    /// The least time between two messages of one topic to one client; zero for none. The newest
    /// one is sent as soon as the time has passed.
    pub interval: Duration,
    /// How long messages may wait in the output of a connection for others, to leave together;
    /// zero for not at all.
    pub delay: Duration,
    /// Which messages are kept for late subscribers.
    pub keep: Keep,
    /// With [`Keep::All`], how much of each topic's history is kept.
    pub history: HistoryBounds,
    /// Whether MQTT 5 subscribers get the numbers of the store: user properties
    /// `seq`, `epoch`, and `conflated` where a message stands for older ones too. With
    /// [`Keep::All`] they do in any case.
    pub sequence: bool,
}

/// Which messages of a topic the retained store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Those that are published with RETAIN.
    #[default]
    Retained,
    /// Every one, as the last of its topic. All of them go through one shard, so that every
    /// subscriber sees one order.
    Last,
    /// The same, and also at the end of the topic's history.
    All,
}

impl Default for TopicPolicy {
    fn default() -> Self {
        Self {
            filter: "#".into(),
            qos0: SlowPolicy::DropNewest,
            qos1: SlowPolicy::Disconnect,
            interval: Duration::ZERO,
            delay: Duration::ZERO,
            keep: Keep::Retained,
            history: HistoryBounds::default(),
            sequence: false,
        }
    }
}

/// Which of the less common policies a configuration has: where it has none, no message is
/// compared with any filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    /// Messages of some topics are thinned out.
    pub(crate) shapes: bool,
    /// Every message of some topics is kept, as the last one or in a history.
    pub(crate) keeps_last: bool,
    /// Some topics have a history.
    pub(crate) histories: bool,
    /// Subscribers of some topics get numbers.
    pub(crate) sequences: bool,
    /// Messages of some topics may wait for others.
    pub(crate) delays: bool,
}

/// How a topic's messages are thinned out for each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    qos0: bool,
    qos1: bool,
    pub(crate) interval: Duration,
}

impl Shape {
    /// Whether only the newest waits for a client that does not keep up.
    pub(crate) const fn conflates(self, qos: QoS) -> bool {
        match qos {
            QoS::AtMostOnce => self.qos0,
            QoS::AtLeastOnce | QoS::ExactlyOnce => self.qos1,
        }
    }
}

/// The limits and policies of every session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest packet that a client may send, in bytes.
    pub packet_bytes_max: u32,
    /// How many QoS 1 and 2 messages a client may have unacknowledged towards the server.
    pub receive_maximum: u16,
    /// How many the server has unacknowledged towards a client, at most.
    pub in_flight_max: u16,
    /// The highest topic alias that a client may use.
    pub topic_alias_maximum: u16,
    /// What may wait for one client or be in flight to it, in bytes.
    pub queue_bytes_max: usize,
    /// The same while it is QoS 0 that waits: for those who keep up.
    pub qos0_bytes_max: usize,
    /// Messages that may wait for one client.
    pub queue_messages_max: usize,
    /// What may wait on the disk for clients that are away.
    pub spool: SpoolSettings,
    /// Sessions of all shards that outlive their connection. Shards that let clients in at the
    /// same moment can exceed it by one each.
    pub sessions_max: u64,
    /// The same of one user.
    pub sessions_per_user_max: u32,
    /// The same of one network address, of clients whose users have no name.
    pub sessions_per_address_max: u32,
    /// The same of one zone.
    pub sessions_per_zone_max: u32,
    /// Subscriptions of one client.
    pub subscriptions_max: usize,
    /// Bytes of memory that the subscriptions of one client may take.
    pub subscription_bytes_max: usize,
    /// Shared subscriptions of one client.
    pub shares_max: usize,
    /// Groups that may share one filter of a zone.
    pub share_groups_max: usize,
    /// What a subscription meets that is wider than its client's rights.
    pub wide_subscription: WideSubscription,
    /// The rule for who may connect with which client id.
    pub client_id_binding: ClientIdBinding,
    /// Levels of a topic name or filter.
    pub topic_levels_max: usize,
    /// Bytes of a topic name or filter.
    pub topic_bytes_max: usize,
    /// Levels of a filter that may be wildcards.
    pub topic_wildcards_max: usize,
    /// What is done at once for one message; what is more goes on in later turns.
    pub at_once: AtOnce,
    /// The longest time a session may outlive its connection, in seconds; `u32::MAX`: for ever.
    pub session_expiry_max_secs: u32,
    /// The longest keep-alive time in seconds that is taken from a client; 0: any, and none.
    pub keep_alive_max_secs: u16,
    /// The topic prefix told to clients that ask for response information.
    pub response_information: Option<String>,
    /// What users may do with rooms, in zones that have no settings of their own.
    pub rooms: RoomsOptions,
    /// The zones that have settings of their own; each stands here once.
    pub zones: Vec<ZoneSettings>,
    /// Slow-client policies; the first match decides.
    pub policies: Vec<TopicPolicy>,
    /// What [`Settings::indexed`] makes of the policies.
    pub finder: PolicyFinder,
}

/// What may wait on the disk for clients that are away. By default, nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Bytes on the disk for one client; 0 if nothing goes there.
    pub client_bytes_max: u64,
    /// Bytes on the disk for all sessions: a part of it is kept for owners that have little there.
    pub bytes_max: u64,
    /// Bytes on the disk for all sessions of one zone.
    pub zone_bytes_max: u64,
    /// Bytes that the sessions of one shard may hold in memory, together, before their messages go
    /// to the disk. Each session gets a share of it.
    pub memory: usize,
    /// The least share, in bytes, and the largest one.
    pub share: (usize, usize),
}

impl Default for SpoolSettings {
    fn default() -> Self {
        Self {
            client_bytes_max: 0,
            bytes_max: 0,
            zone_bytes_max: u64::MAX,
            memory: 256 << 20,
            share: (64 << 10, 1 << 20),
        }
    }
}

/// How much is done at once for one message, or for several that are routed together. What costs
/// more becomes a job that goes on in later turns of the shard. The defaults suit every server;
/// tests set less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// Visits of the topic index, about 30 ns each.
    pub visits: u32,
    /// Filters that match.
    pub filters: usize,
    /// Subscribers of all filters that match but the one with most of them: who gets the message by
    /// that one alone costs no more than to be served.
    pub subscribers: usize,
    /// Shared subscriptions that match. Where there are several messages, these are bounded by
    /// `subscribers` as well, each times the messages.
    pub shares: usize,
    /// Work on sessions, in units of about 50 ns: four for each session, one for each message of
    /// several that has to be looked at by itself, and 16 more for a message that is paced, or has
    /// a QoS above 0.
    pub work: u32,
    /// Visits that all jobs together may do in one turn. [`u32::MAX`]: what is left of the turn.
    pub job_visits: u32,
}

impl Default for AtOnce {
    fn default() -> Self {
        Self {
            visits: 2_048,
            filters: 1_024,
            subscribers: 4_096,
            shares: 64,
            work: 32_768,
            job_visits: u32::MAX,
        }
    }
}

/// Finds the first of many policies that matches a topic.
#[derive(Clone, Default)]
pub struct PolicyFinder(Option<Arc<Index>>);

/// Up to this many policies are compared with each topic: that is as quick.
const COMPARED_MAX: usize = 16;

impl PolicyFinder {
    fn new(policies: &[TopicPolicy]) -> Self {
        if policies.len() <= COMPARED_MAX {
            return Self(None);
        }
        let mut index = Index::new(TopicHasher::new(0));
        for (position, policy) in (0_u32..).zip(policies) {
            let subscriber = Subscriber {
                session: position,
                options: 0,
            };
            index.insert(Zone::DEFAULT, &policy.filter, subscriber);
        }
        Self(Some(Arc::new(index)))
    }
}

impl fmt::Debug for PolicyFinder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = self.0.as_ref().map(|index| index.filters());
        out.debug_tuple("PolicyFinder").field(&filters).finish()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_bytes_max: 1 << 20,
            receive_maximum: 1_000,
            in_flight_max: 1_000,
            topic_alias_maximum: 64,
            queue_bytes_max: 8 << 20,
            qos0_bytes_max: usize::MAX,
            queue_messages_max: 100_000,
            spool: SpoolSettings::default(),
            sessions_max: u64::MAX,
            sessions_per_user_max: u32::MAX,
            sessions_per_address_max: u32::MAX,
            sessions_per_zone_max: u32::MAX,
            subscriptions_max: 100_000,
            subscription_bytes_max: 16 << 20,
            shares_max: 256,
            share_groups_max: 256,
            wide_subscription: WideSubscription::Filter,
            client_id_binding: ClientIdBinding::None,
            topic_levels_max: 128,
            topic_bytes_max: usize::from(u16::MAX),
            topic_wildcards_max: 8,
            at_once: AtOnce::default(),
            session_expiry_max_secs: u32::MAX,
            keep_alive_max_secs: 0,
            response_information: None,
            rooms: RoomsOptions::default(),
            zones: Vec::new(),
            policies: Vec::new(),
            finder: PolicyFinder::default(),
        }
    }
}

/// What one zone has of its own.
#[derive(Clone, Debug)]
pub struct ZoneSettings {
    /// Which zone.
    pub zone: Zone,
    /// What its users may do with rooms.
    pub rooms: RoomsOptions,
    /// The rooms that are always there, with what each is made with; their names are valid.
    pub fixed: Vec<(Box<str>, RoomOptions)>,
}

impl TopicPolicy {
    /// Whether MQTT 5 subscribers get numbers.
    pub(crate) fn has_numbers(&self) -> bool {
        self.sequence || self.keep == Keep::All
    }

    /// How its topics are thinned out; `None` if they are not.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let shape = Shape {
            qos0: self.qos0 == SlowPolicy::Conflate,
            qos1: self.qos1 == SlowPolicy::Conflate,
            interval: self.interval,
        };
        (shape != Shape::default()).then_some(shape)
    }
}

impl Settings {
    /// Whether a topic name or filter is within the bounds.
    #[must_use]
    pub fn takes_topic(&self, topic: &str) -> bool {
        topic.len() <= self.topic_bytes_max && levels(topic) <= self.topic_levels_max
    }

    /// What a zone has of its own. O(zones that have).
    pub(crate) fn zone(&self, zone: Zone) -> Option<&ZoneSettings> {
        self.zones.iter().find(|settings| settings.zone == zone)
    }

    /// What users of a zone may do with rooms.
    pub(crate) fn rooms_of(&self, zone: Zone) -> &RoomsOptions {
        self.zone(zone)
            .map_or(&self.rooms, |settings| &settings.rooms)
    }

    /// The same, with an index of the policies if there are many: without it each topic is
    /// compared with all of them. The policies must not change after that.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        self.finder = PolicyFinder::new(&self.policies);
        self
    }

    /// The first policy that matches a topic. O(policies that match), where there are many.
    #[must_use]
    pub fn policy(&self, topic: &str) -> Option<&TopicPolicy> {
        let Some(index) = &self.finder.0 else {
            return self.policies.iter().find(|p| matches(&p.filter, topic));
        };
        let hash = index.hasher().hash(Zone::DEFAULT, topic);
        let mut first: Option<u32> = None;
        index.for_each_match(Zone::DEFAULT, topic, hash, |_, positions| {
            let least = positions.iter().map(|position| position.session).min();
            first = first.into_iter().chain(least).min();
        });
        self.policies.get(first? as usize)
    }

    /// How much of a topic's history is kept; `None` if it has none. As quick as finding its
    /// policy.
    #[must_use]
    pub fn history(&self, topic: &str) -> Option<HistoryBounds> {
        let policy = self.policy(topic)?;
        (policy.keep == Keep::All).then_some(policy.history)
    }

    /// Whether less may wait for each client than is configured, because memory is short.
    pub(crate) const fn is_tightened(&self) -> bool {
        self.qos0_bytes_max < usize::MAX
    }

    /// Which of the less common policies there are.
    pub(crate) fn uses(&self) -> Uses {
        let any = |of: fn(&TopicPolicy) -> bool| self.policies.iter().any(of);
        Uses {
            shapes: any(|policy| policy.shape().is_some()),
            keeps_last: any(|policy| policy.keep != Keep::Retained),
            histories: any(|policy| policy.keep == Keep::All),
            sequences: any(TopicPolicy::has_numbers),
            delays: any(|policy| !policy.delay.is_zero()),
        }
    }

    /// What to do with a message that does not fit. As quick as finding its policy.
    #[must_use]
    pub fn slow_policy(&self, topic: &str, qos: QoS) -> SlowPolicy {
        match (self.policy(topic), qos) {
            (Some(policy), QoS::AtMostOnce) => policy.qos0,
            (Some(policy), _) => policy.qos1,
            (None, QoS::AtMostOnce) => SlowPolicy::DropNewest,
            (None, _) => SlowPolicy::Disconnect,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// However many policies there are, the first that matches decides.
    #[test]
    fn the_first_policy_of_many_is_found() {
        let mut settings = Settings::default();
        let filters = (0..50).map(|number| match number % 7 {
            0 => format!("a/{number}/#"),
            1 => format!("+/{number}"),
            2 => format!("a/+/{number}"),
            3 => format!("$SYS/{number}"),
            4 => format!("a/{}", number % 20),
            5 => format!("b/+/{number}/#"),
            _ => format!("b/{number}/+"),
        });
        settings.policies = filters
            .chain(["+/+/+".into(), "#".into(), "a/#".into()])
            .map(|filter| TopicPolicy {
                filter,
                ..TopicPolicy::default()
            })
            .collect();
        let indexed = settings.clone().indexed();
        assert!(indexed.finder.0.is_some());
        for first in ["a", "b", "c", "$SYS"] {
            for number in 0..60 {
                for topic in [
                    format!("{first}/{number}"),
                    format!("{first}/{number}/{number}"),
                    format!("{first}/x/{number}"),
                    format!("{first}/x/{number}/y"),
                ] {
                    let filter = |settings: &Settings| {
                        let policy = settings.policy(&topic);
                        policy.map(|policy| policy.filter.clone())
                    };
                    assert_eq!(filter(&indexed), filter(&settings), "{topic}");
                }
            }
        }
    }
}
