//! The retained store, as the hub needs it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{QoS, ReasonCode};
use stentor_session::{Message, MessageParts, Outcome, Publisher, Tick, Ticket};
use stentor_topic::Zone;

use crate::core::history::{HistoryBounds, HistoryQuery};

/// A point in the history of the store: what was put later comes to the subscriber live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// When the store's promise for a message holds: when its publish may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It holds.
    Now,
    /// It holds when the ticket is resolved without an error.
    Later(Ticket),
}

/// Why a message is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// There is no room for another one: a bound of the store is reached.
    Full,
    /// The disk is full.
    DiskFull,
    /// `limits.memory` is reached.
    Memory,
    /// The store cannot write now: a broken disk, a lost permission.
    Failed,
    /// A session that lasts would be owed it, and the disk of the sessions is full.
    Sessions,
    /// A session that lasts would be owed it, and the sessions of its publisher have as much on the
    /// disk as one owner may.
    Backlogs,
}

impl NotKept {
    /// The code for an MQTT 5 publisher; 3.x has none, so its connection is closed.
    #[must_use]
    pub const fn reason(self) -> ReasonCode {
        match self {
            Self::Full | Self::DiskFull | Self::Memory | Self::Sessions | Self::Backlogs => {
                ReasonCode::QuotaExceeded
            }
            Self::Failed => ReasonCode::ImplementationSpecificError,
        }
    }

    /// The same for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Full => {
                "there is no room: a bound of retained messages is reached, of the server or the \
                 zone"
            }
            Self::DiskFull => "there is no room: the disk of the retained messages is full",
            Self::Memory => "there is no room: limits.memory is reached",
            Self::Failed => "the disk does not take it; the server's log says why",
            Self::Sessions => "there is no room: the disk of the sessions is full",
            Self::Backlogs => {
                "there is no room: messages that wait for sessions of yours take as much of the \
                 disk as they may"
            }
        }
    }

    /// Why a publish was refused that was acknowledged so; `None` if it was not for want of room.
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        let all = [
            Self::Full,
            Self::DiskFull,
            Self::Memory,
            Self::Failed,
            Self::Sessions,
            Self::Backlogs,
        ];
        let is_it =
            |it: &Self| outcome.reason == it.reason() && outcome.text.starts_with(it.text());
        all.into_iter().find(is_it)
    }

    /// How a publish is acknowledged that is refused for this.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        Outcome::new(self.reason(), self.text())
    }
}

/// How far a walk over the matches of a filter has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Which part of the store.
    pub stripe: u16,
    /// The last topic visited there.
    pub after: Option<Box<str>>,
    /// What the walk has cost so far, in visits.
    pub visits: u64,
}

/// What looking into one part of a store costs besides the topics there, in visits.
pub const STRIPE_VISITS: usize = 4;

/// This many bytes of a name that is looked at, or of a message that is copied, count as one visit.
const VISIT_BYTES: usize = 64;

/// Bytes of a name that cost another visit: it is compared level by level.
const NAME_VISIT_BYTES: usize = 32;

/// What looking at one topic costs a walk, in visits.
#[inline]
#[must_use]
pub const fn topic_visits(topic: &str) -> usize {
    1 + topic.len() / NAME_VISIT_BYTES
}

/// What copying this many bytes of a message costs a walk, in visits.
#[inline]
#[must_use]
pub const fn copy_visits(bytes: usize) -> u64 {
    (bytes / VISIT_BYTES) as u64
}

/// Which messages a walk finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// None that was put until then; `Mark(0)` excludes nothing.
    pub after: Mark,
    /// None that was put later.
    pub mark: Mark,
    /// None that has expired by then.
    pub now: Tick,
}

impl Scope {
    /// All that was put until `mark` and has not expired.
    #[must_use]
    pub const fn until(mark: Mark, now: Tick) -> Self {
        Self {
            after: Mark(0),
            mark,
            now,
        }
    }
}

/// Whether a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// There may be more: call again.
    More,
    /// Everything was visited.
    Done,
}

/// What topics are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// [`Retained::put`].
    Put,
    /// [`Retained::look`] or [`Retained::get`].
    Get,
}

/// A message where it lies in the store, for a short look.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its zone.
    pub zone: Zone,
    /// The topic name.
    pub topic: &'a str,
    /// The forwarded properties, as on the wire.
    pub properties: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// The QoS it was published with.
    pub qos: QoS,
    /// Its publisher.
    pub publisher: Publisher,
    /// When it was received.
    pub received_at: Tick,
    /// When it stops being of interest; [`Tick::NEVER`] without a message expiry interval.
    pub expires_at: Tick,
    /// The number it was kept with.
    pub sequence: u64,
}

impl<'a> Stored<'a> {
    /// A message in memory.
    #[must_use]
    pub fn of(message: &'a Message) -> Self {
        Self {
            zone: message.zone,
            topic: message.topic(),
            properties: message.properties(),
            payload: message.payload(),
            qos: message.qos,
            publisher: message.publisher,
            received_at: message.received_at,
            expires_at: message.expires_at,
            sequence: message.sequence(),
        }
    }

    /// A copy, as if it had just been read from a publisher.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let parts = MessageParts {
            topic: self.topic,
            properties: self.properties,
            payload: self.payload,
            qos: self.qos,
            retain: true,
            expiry_secs: None,
        };
        let mut message = Message::new(self.zone, self.publisher, self.received_at, &parts);
        message.expires_at = self.expires_at;
        message.stamp(self.sequence);
        message
    }
}

/// The last message of each topic, shared by all shards.
///
/// Order is per topic: a publisher's shard puts, then reads interest, then forwards; a
/// subscriber's shard raises interest, takes a mark, acknowledges, then reads. A value that was
/// put after the mark is not read, since it comes live: so there is no gap and no stored value
/// follows a newer live one.
///
/// The store numbers the messages of a topic and tells each its number by [`Message::stamp`]
/// before [`Retained::put`] returns and before anybody can read it. Numbers of a topic only grow,
/// over restarts too. Two successive messages differ by one, but for the first after a clear or
/// an expiry, which may skip any number. A message that is read carries the number it was kept
/// with.
pub trait Retained: Send + Sync {
    /// Keeps a message as the last of its topic; an empty payload clears the topic
    /// [MQTT-3.3.1-6]. Whether the message has RETAIN set is the caller's business: with
    /// `keep = "last"`, messages without it are kept too.
    ///
    /// What is answered says when the publish may be acknowledged. After [`Kept::Later`] the store
    /// tells every shard, by [`crate::ShardItem::Resolved`] with the ticket, as soon as its
    /// promise holds or is known not to; exactly once, and not before this call has returned on
    /// that shard (a control queue keeps that order). One ticket may stand for any number of
    /// messages, of several shards, and a number is not used again. Readers see the message in the
    /// meantime, and it is forwarded: only its acknowledgement waits. Tickets stay below 2^63; the
    /// rest is the hub's.
    ///
    /// # Errors
    /// When it is not kept; what the store held for the topic stays.
    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept>;

    /// Changes when the numbers of topics may have started again: a store that was empty at the
    /// start, or lost a part of what it had. The same over a restart that lost nothing.
    fn epoch(&self) -> u64;

    /// Now, in the history of the store.
    fn mark(&self) -> Mark;

    /// The last message of one topic, unless it was put after the mark or has expired.
    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>>;

    /// Shows what [`Retained::get`] copies. `found` is called once at most, and perhaps under a
    /// lock: it has to be short and must not use the store.
    fn look(
        &self,
        zone: Zone,
        topic: &str,
        mark: Mark,
        now: Tick,
        found: &mut dyn FnMut(&Stored<'_>),
    ) {
        if let Some(message) = self.get(zone, topic, mark, now) {
            found(&Stored::of(&message));
        }
    }

    /// Whether [`Retained::get`] surely finds nothing, told by what is in memory: never waits for a
    /// disk. A store that cannot tell says that it may find something. O(1).
    fn lacks(&self, _zone: Zone, _topic: &str, _mark: Mark) -> bool {
        false
    }

    /// Says which topics will be asked about next, so that what there is of them is fetched from
    /// memory all together instead of one after the other. A hint: it changes nothing. They have
    /// not been checked and may be no text.
    fn expect(&self, _zone: Zone, _topics: &[&[u8]], _purpose: Purpose) {}

    /// Whether the disk has to bring what the next step of a walk, or [`Retained::get`] for a
    /// filter without wildcards, would read. If so, the store has it brought: ask again a moment
    /// later. A caller that reads nevertheless waits for the disk.
    fn is_fetching(&self, _zone: Zone, _filter: &str, _cursor: &Cursor, _visits: usize) -> bool {
        false
    }

    /// Appends matches of a wildcard filter to `out`, and stops after about this many visits: the
    /// last topic may go beyond, by its length. A lock is held no longer than that. What is put or
    /// cleared between two calls changes nothing else. The cursor tells the costs: by
    /// [`topic_visits`] and [`STRIPE_VISITS`], which the bound is for, and by [`copy_visits`].
    fn walk(
        &self,
        zone: Zone,
        filter: &str,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk;

    /// How many topics hold a message.
    fn count(&self) -> u64;

    /// As [`Retained::put`], and also keeps the message at the end of its topic's history, an empty
    /// one too: both or none. What is beyond the bounds goes from the beginning of the history, a
    /// few messages each time. A store without histories, and topics that are not kept over a
    /// restart, keep the last message only.
    ///
    /// Numbers go on from those of the history: two successive messages differ by one while
    /// anything of it is there.
    ///
    /// # Errors
    /// As [`Retained::put`].
    fn keep(&self, message: &Arc<Message>, bounds: HistoryBounds) -> Result<Kept, NotKept> {
        let _ = bounds;
        self.put(message)
    }

    /// How many messages the history of a topic has. O(1).
    fn history_len(&self, _zone: Zone, _topic: &str) -> u64 {
        0
    }

    /// Appends messages of histories to `out`, as [`Retained::walk`] does: for each topic in the
    /// order of their numbers. Filters without wildcards are walked as well.
    fn history(
        &self,
        _query: HistoryQuery<'_>,
        _scope: Scope,
        _cursor: &mut Cursor,
        _visits: usize,
        _out: &mut Vec<Arc<Message>>,
    ) -> Walk {
        Walk::Done
    }

    /// As [`Retained::is_fetching`], for the next step of [`Retained::history`].
    fn is_fetching_history(&self, _: HistoryQuery<'_>, _: &Cursor, _visits: usize) -> bool {
        false
    }

    /// Whether publishers clear topics faster than the store can free what lay there: they should
    /// wait a little. O(1), without a lock.
    fn is_behind(&self) -> bool {
        false
    }

    /// The bound that leaves no room for another message of a zone, and its value; `None` where
    /// none is met.
    fn bound_met(&self, _zone: Zone) -> Option<Box<str>> {
        None
    }

    /// What is wrong with the disk now, in a sentence; `None` if it is well.
    fn trouble(&self) -> Option<Box<str>> {
        None
    }
}
