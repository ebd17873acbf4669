//! The store: all stripes, what they share, and the threads that look after them.

mod admin;
mod children;
mod grow;
mod history;
mod maintenance;
mod meta;
mod open;
mod reader;
mod segments;
mod trouble;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, SystemTime};

use stentor_hub::{
    Cursor, HistoryBounds, HistoryQuery, Kept, Mark, NotKept, Purpose, Retained, STRIPE_VISITS,
    Scope, Stored, Walk, copy_visits,
};
use stentor_session::{Message, Publisher, Tick, Ticket};
use stentor_topic::Zone;

use crate::history::{base_of, is_history, topic_of};
use crate::memory::MemoryStore;
use crate::record::Record;
use crate::stripe::{Budget, Env, Incoming, PutError, Stripe, View, ZoneFilter};
use crate::usage::Quota;
use stentor_disk::{Disk, Region};

pub use admin::{FileUse, StoreStatus, Verified};
pub use children::Child;
pub use history::{HistoryFigures, Remembered};
pub use maintenance::StoreMaintenance;
#[cfg(test)]
pub(crate) use maintenance::{Flush, Round};

use meta::Meta;
use reader::Reader;
use trouble::Troubles;

/// Parts of the store with a lock each: part of the file format.
pub(crate) const STRIPES: usize = 32;
/// Topics that begin so tell of the running server and of who is there, and are not kept over a
/// restart.
const VOLATILE: [&str; 4] = ["$SYS/", "$room/", "$rooms/", "$presence/"];
/// Whether a topic, or the topics of a filter, are not kept over a restart.
fn is_volatile(text: &str) -> bool {
    text.starts_with('$') && VOLATILE.iter().any(|start| text.starts_with(start))
}

/// The stripe that a topic falls to, by its hash.
const fn stripe_of(hash: u64) -> usize {
    // Of bits that the stripe's table uses last.
    (hash >> 40) as usize % STRIPES
}

/// Bytes that wait for a commit to be freed: above the first bound the store does not wait for the
/// next interval, and above the second publishers wait. A topic that is cleared and kept again
/// takes another slot each time, so a client that does nothing else would fill the disk.
const HELD_BYTES_SOON: u64 = 16 << 20;
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Bytes of messages that one step of a walk brings into memory, and the message that crosses it.
pub(crate) const STEP_BYTES: usize = 64 << 10;

/// What a power loss may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Anything that the operating system had not written by itself. A killed process loses
    /// nothing.
    Never,
    /// What was acknowledged in the last interval, and while the disk was busy with it.
    Interval(Duration),
    /// Nothing that was acknowledged: acknowledgements wait for the disk.
    Always,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// What a power loss may cost.
    pub sync: Sync,
    /// What all zones together may hold.
    pub total: Quota,
    /// What each zone may hold.
    pub zone: Quota,
    /// The wall clock's time at [`Tick::ZERO`]. Later, only ticks say what time it is, so
    /// that a step of the wall clock changes nothing.
    pub started_at: SystemTime,
    /// Now.
    pub now: Tick,
    /// A number that nobody can foresee: the secret of a store that is made now.
    pub random: u64,
    /// A number that changes when the machine starts again: then what was not synced may be lost.
    pub boot: u64,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or a file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// Which file, or the folder.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// A later version wrote the files.
    #[error(
        "{file} has format {format}, and this version knows up to {known}: use the version that \
         wrote it, or let that one export its messages",
        known = crate::layout::FORMAT
    )]
    Newer {
        /// Which file.
        file: String,
        /// Its format.
        format: u32,
    },
}

/// What happens to a store without anybody asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// Messages are refused from now on, since the disk does not take them.
    Trouble(String),
    /// The disk takes messages again.
    Recovered,
}

/// An observer of what happens to a store.
pub trait Watcher: Send + std::marker::Sync {
    /// A commit has ended: what waits for the ticket may go on.
    fn resolved(&self, ticket: Ticket, is_kept: bool);

    /// Something else.
    fn event(&self, event: StoreEvent);
}

/// The retained messages of all zones in files that are mapped into memory.
///
/// `$SYS/` topics are kept in memory only.
pub struct Store<D: Disk> {
    disk: D,
    env: Env,
    sync: Sync,
    stripes: Vec<Mutex<Stripe<D::Region>>>,
    volatile: MemoryStore,
    meta: Mutex<Meta>,
    /// Held while the file `store` is written.
    saving: Mutex<()>,
    /// The file does not know all segments yet.
    has_new_segments: AtomicBool,
    /// Wall clock at [`Tick::ZERO`], in milliseconds since 1970.
    origin_ms: u64,
    troubles: Troubles,
    refused: Refused,
    /// The names of files changed since the folder was last synced.
    has_new_names: AtomicBool,
    rounds: Rounds,
    reader: Reader<<<D as Disk>::Region as Region>::Flusher>,
    maintenance: Mutex<Option<Thread>>,
    /// A bit for each stripe that is about to need a segment.
    low: AtomicU64,
    /// Segments that were made by whoever put a message.
    grown_late: AtomicU64,
    /// Only tests have a store without one.
    watcher: Mutex<Option<Arc<dyn Watcher>>>,
}

/// Messages that were not kept since the start.
#[derive(Debug, Default)]
struct Refused {
    /// A bound was reached.
    by_bound: AtomicU64,
    /// The disk was full, or failed.
    by_disk: AtomicU64,
}

/// The rounds of group commit.
struct Rounds {
    /// What is put now is on the disk when this round has ended.
    open: AtomicU64,
    /// Somebody waits for the rounds below this one.
    wanted_below: AtomicU64,
    /// Of the thread that commits: whether it should end.
    ends: Mutex<bool>,
    wake: Condvar,
    /// The last round that has ended, and whether the disk has it.
    ended: Mutex<(u64, bool)>,
    has_ended: Condvar,
}

impl<D: Disk> fmt::Debug for Store<D> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Store")
            .field("sync", &self.sync)
            .field("messages", &self.count())
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Store<D> {
    /// A panic while a lock was held left a stripe whose records are whole; the index may miss
    /// one topic.
    fn lock(&self, stripe: usize) -> MutexGuard<'_, Stripe<D::Region>> {
        self.stripes[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn meta(&self) -> MutexGuard<'_, Meta> {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of a topic, and the stripe that it falls to.
    fn place_of(&self, zone: Zone, topic: &str) -> (u64, usize) {
        let hash = self.env.hasher.hash(zone, topic);
        if is_history(zone) {
            // With the last message of its topic.
            let topic = topic_of(zone, topic);
            let of_topic = self.env.hasher.hash(base_of(zone), topic);
            return (hash, stripe_of(of_topic));
        }
        (hash, stripe_of(hash))
    }

    fn wall_ms(&self, now: Tick) -> u64 {
        self.origin_ms + now.as_micros() / 1_000
    }

    /// The tick at a time of the wall clock; what was before the start was at the start.
    fn tick(&self, ms: u64) -> Tick {
        Tick::from_millis(ms.saturating_sub(self.origin_ms))
    }

    fn view(&self, scope: Scope) -> View {
        View {
            after: scope.after.0,
            mark: scope.mark.0,
            now_ms: self.wall_ms(scope.now),
        }
    }

    /// The message of a record.
    fn message(&self, record: &Record<'_>) -> Arc<Message> {
        Arc::new(self.stored(record).to_message())
    }

    /// The message of a record, where it lies.
    fn stored<'r>(&self, record: &Record<'r>) -> Stored<'r> {
        let expires_ms =
            self.env
                .expires_ms(record.version, record.received_ms, record.expiry_secs);
        Stored {
            zone: record.zone,
            topic: record.topic,
            properties: record.properties,
            payload: record.payload,
            qos: record.qos,
            publisher: Publisher::from_bits(record.publisher),
            received_at: self.tick(record.received_ms),
            expires_at: expires_ms.map_or(Tick::NEVER, |ms| self.tick(ms)),
            sequence: record.sequence,
        }
    }

    /// Keeps a message that was received when it says, or at another time: in the history of its
    /// topic too, if that has one.
    fn put_received(
        &self,
        message: &Message,
        received_ms: Option<u64>,
        history: Option<HistoryBounds>,
    ) -> Result<Kept, NotKept> {
        let (sequence, kept) = self.change(&self.incoming(message, received_ms), history)?;
        message.stamp(sequence);
        Ok(kept)
    }

    /// A message that was received when it says, or at another time.
    fn incoming<'m>(&self, message: &'m Message, received_ms: Option<u64>) -> Incoming<'m> {
        let lifetime = message.expires_at.since(message.received_at);
        let expiry_secs = (message.expires_at != Tick::NEVER)
            .then(|| u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX));
        Incoming {
            zone: message.zone,
            topic: message.topic(),
            properties: message.properties(),
            payload: message.payload(),
            qos: message.qos,
            publisher: message.publisher.to_bits(),
            received_ms: received_ms.unwrap_or_else(|| self.wall_ms(message.received_at)),
            expiry_secs,
            sequence: None,
        }
    }

    /// Keeps a message, growing the stripe if it must: in the history of its topic too, if that has
    /// one.
    fn change(
        &self,
        incoming: &Incoming<'_>,
        history: Option<HistoryBounds>,
    ) -> Result<(u64, Kept), NotKept> {
        let (hash, number) = self.place_of(incoming.zone, incoming.topic);
        loop {
            let mut stripe = self.lock(number);
            let stamp = match history {
                Some(bounds) => stripe.keep(&self.env, hash, incoming, bounds),
                None => stripe.put(&self.env, hash, incoming),
            };
            match stamp {
                Ok(stamp) => {
                    // Under the lock, so that the round's commit of this stripe comes after.
                    let kept = self.promise();
                    let is_filling = stripe.space_mut().take_carved() && grow::is_filling(&stripe);
                    drop(stripe);
                    if is_filling {
                        self.ask_for_room(number);
                    }
                    if self.held_bytes() > HELD_BYTES_SOON {
                        self.want_round();
                    }
                    return Ok((stamp.sequence, kept));
                }
                Err(PutError::Quota | PutError::TooLarge) => {
                    self.refused.by_bound.fetch_add(1, Ordering::Relaxed);
                    return Err(NotKept::Full);
                }
                Err(PutError::Grow(blocks)) => {
                    drop(stripe);
                    if let Err(refusal) = self.grow_now(number, blocks) {
                        self.refused.by_disk.fetch_add(1, Ordering::Relaxed);
                        return Err(refusal);
                    }
                }
            }
        }
    }

    /// Bytes that wait for a commit to be freed.
    fn held_bytes(&self) -> u64 {
        self.env.held_bytes.load(Ordering::Relaxed)
    }

    /// When what was just put is safe.
    fn promise(&self) -> Kept {
        if self.sync != Sync::Always {
            return Kept::Now;
        }
        Kept::Later(self.want_round())
    }

    /// Asks for a commit of what was put until now.
    fn want_round(&self) -> Ticket {
        let round = self.rounds.open.load(Ordering::SeqCst);
        let known = self
            .rounds
            .wanted_below
            .fetch_max(round + 1, Ordering::SeqCst);
        if known <= round {
            // Under the mutex, so that the thread is waiting or will look again.
            let ends = self.rounds.ends.lock();
            self.rounds.wake.notify_one();
            drop(ends);
        }
        Ticket(round)
    }
}

impl<D: Disk> Retained for Store<D> {
    fn is_behind(&self) -> bool {
        self.held_bytes() > HELD_BYTES_MAX
    }

    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept> {
        if is_volatile(message.topic()) {
            return self.volatile.put(message);
        }
        self.put_received(message, None, None)
    }

    fn epoch(&self) -> u64 {
        self.meta().epoch
    }

    fn mark(&self) -> Mark {
        Mark(self.env.versions.load(Ordering::SeqCst))
    }

    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>> {
        if is_volatile(topic) {
            return self.volatile.get(zone, topic, mark, now);
        }
        if mark == Mark(0) {
            // Nothing had been put then.
            return None;
        }
        let (hash, stripe) = self.place_of(zone, topic);
        let view = self.view(Scope::until(mark, now));
        self.lock(stripe)
            .get(&self.env, hash, zone, topic, view, |record| {
                self.message(record)
            })
    }

    fn look(
        &self,
        zone: Zone,
        topic: &str,
        mark: Mark,
        now: Tick,
        found: &mut dyn FnMut(&Stored<'_>),
    ) {
        if is_volatile(topic) {
            return self.volatile.look(zone, topic, mark, now, found);
        }
        if mark != Mark(0) {
            let (hash, stripe) = self.place_of(zone, topic);
            let view = self.view(Scope::until(mark, now));
            let stripe = self.lock(stripe);
            stripe.get(&self.env, hash, zone, topic, view, |record| {
                found(&self.stored(record));
            });
        }
    }

    fn lacks(&self, zone: Zone, topic: &str, mark: Mark) -> bool {
        if is_volatile(topic) {
            return self.volatile.lacks(zone, topic, mark);
        }
        if mark == Mark(0) {
            // Nothing had been put then.
            return true;
        }
        let (hash, stripe) = self.place_of(zone, topic);
        self.lock(stripe).lacks(hash)
    }

    fn expect(&self, zone: Zone, topics: &[&[u8]], purpose: Purpose) {
        if self.env.accounts.total().0 == 0 {
            return;
        }
        // By stripe: within one, no look-up waits for another. Each hash with the position, from 1
        // on, of the one before it in its stripe.
        let mut last = [0; STRIPES];
        let mut hashes = Vec::with_capacity(topics.len());
        for topic in topics {
            // What is not kept here is not found.
            let hash = self.env.hasher.hash_bytes(zone, topic);
            let last = &mut last[stripe_of(hash)];
            hashes.push((hash, *last));
            *last = hashes.len();
        }
        let mut places = Vec::new();
        for (stripe, mut at) in last.into_iter().enumerate().filter(|(_, at)| *at > 0) {
            // Waiting for another shard would cost more than it saves.
            let Ok(stripe) = self.stripes[stripe].try_lock() else {
                continue;
            };
            let hashes = std::iter::from_fn(|| {
                let (hash, before) = *hashes.get(at.checked_sub(1)?)?;
                at = before;
                Some(hash)
            });
            stripe.expect(hashes, purpose, &mut places);
        }
    }

    fn is_fetching(&self, zone: Zone, filter: &str, cursor: &Cursor, visits: usize) -> bool {
        self.fetch(zone, filter, cursor, visits)
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
        if is_volatile(filter) {
            return self.volatile.walk(zone, filter, scope, cursor, visits, out);
        }
        let view = self.view(scope);
        let mut budget = Budget::new(visits, STEP_BYTES);
        while usize::from(cursor.stripe) < STRIPES {
            if budget.is_spent() {
                return Walk::More;
            }
            let before = budget.spent();
            let Cursor { after, visits, .. } = cursor;
            let stripe = self.lock(usize::from(cursor.stripe));
            let is_done = stripe.walk(
                &self.env,
                ZoneFilter { zone, filter },
                view,
                after,
                &mut budget,
                &mut |record| {
                    *visits += copy_visits(record.encoded_len());
                    out.push(self.message(record));
                },
            );
            drop(stripe);
            budget.spend(STRIPE_VISITS);
            cursor.visits += (budget.spent() - before) as u64;
            if !is_done {
                return Walk::More;
            }
            cursor.stripe += 1;
            cursor.after = None;
        }
        Walk::Done
    }

    fn count(&self) -> u64 {
        let of_topics = self.env.accounts.total().0;
        let of_topics = of_topics.saturating_sub(self.histories().messages);
        of_topics + self.volatile.count()
    }

    fn keep(&self, message: &Arc<Message>, bounds: HistoryBounds) -> Result<Kept, NotKept> {
        self.keep_in_history(message, bounds)
    }

    fn history_len(&self, zone: Zone, topic: &str) -> u64 {
        let extent = self.history_extent(zone, topic);
        extent.map_or(0, |extent| extent.messages)
    }

    fn history(
        &self,
        query: HistoryQuery<'_>,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk {
        self.recall(query, scope, cursor, visits, &mut |record| {
            out.push(Arc::new(self.remembered(record)));
        })
    }

    fn is_fetching_history(&self, query: HistoryQuery<'_>, cursor: &Cursor, visits: usize) -> bool {
        self.fetch_history(query, cursor, visits)
    }

    fn bound_met(&self, zone: Zone) -> Option<Box<str>> {
        Some(self.env.accounts.bound_met(zone)?.into())
    }

    fn trouble(&self) -> Option<Box<str>> {
        self.troubles.first()
    }
}
