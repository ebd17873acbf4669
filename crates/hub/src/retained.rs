//! The retained store, as the hub needs it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Message, Tick};
use stentor_topic::Zone;

/// A point in the history of the store: what was put later comes to the subscriber live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// The store cannot keep another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFull;

/// How far a walk over the matches of a filter has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Which part of the store.
    pub stripe: u16,
    /// The last topic visited there.
    pub after: Option<Box<str>>,
}

/// Whether a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// There may be more: call again.
    More,
    /// Everything was visited.
    Done,
}

/// The last message of each topic, shared by all shards.
///
/// Order is per topic: a publisher's shard puts, then reads interest, then forwards; a
/// subscriber's shard raises interest, takes a mark, acknowledges, then reads. A value that was
/// put after the mark is not read, since it comes live: so there is no gap and no stored value
/// follows a newer live one.
pub trait Retained: Send + Sync {
    /// Keeps a message as the last of its topic; an empty payload clears the topic
    /// [MQTT-3.3.1-6].
    ///
    /// # Errors
    /// When the store is full; what it held for the topic stays.
    fn put(&self, message: &Arc<Message>) -> Result<(), StoreFull>;

    /// Now, in the history of the store.
    fn mark(&self) -> Mark;

    /// The last message of one topic, unless it was put after the mark or has expired.
    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>>;

    /// Appends matches of a wildcard filter to `out`, visiting at most `visits` topics.
    fn walk(
        &self,
        zone: Zone,
        filter: &str,
        scope: (Mark, Tick),
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk;

    /// How many topics hold a message.
    fn count(&self) -> u64;
}
