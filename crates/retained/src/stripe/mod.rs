//! One stripe of the store: the topics whose hash falls to it, under one lock.
//!
//! Which place may be overwritten is what everything depends on. A place that holds the newest
//! message is never written, so a killed process loses nothing. In a store that syncs (`careful`),
//! neither is a place that a power loss may have to fall back on: one that holds the newest message
//! that the disk is known to have, or may be about to be known to have. Where that leaves none of
//! the two, the message goes to a new slot, and the old slot is held until the disk has the new
//! one.

mod commit;
mod compact;
mod deadlines;
mod history;
mod recover;
mod salvage;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stentor_mqtt::QoS;
use stentor_topic::{TopicHasher, Zone};

use crate::class;
use crate::damage::{DamageList, DamageReport, Outcome};
use crate::history::{Logs, base_of};
use crate::index::{Entry, Index};
use crate::layout;
use crate::names::Names;
use crate::record::{Head, Record, encoded_len};
use crate::space::{Place, Slot, Space};
use crate::usage::{Accounts, Change, Usage};
use stentor_disk::Region;

pub(crate) use commit::Batch;
pub(crate) use compact::Compaction;
use deadlines::Deadlines;
use history::Noted;
pub(crate) use recover::{Found, recover};
pub(crate) use salvage::{Salvaged, salvage};
pub(crate) use walk::{Budget, Seek, View, ZoneFilter};

/// What all stripes share.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) hasher: TopicHasher,
    /// The key of records' checksums.
    pub(crate) key: u32,
    /// Whether the store promises anything about power losses.
    pub(crate) careful: bool,
    /// Bytes of the slots of all stripes that wait for a commit to be freed.
    pub(crate) held_bytes: AtomicU64,
    /// Counts puts; a record's version is the count at its put.
    pub(crate) versions: Arc<AtomicU64>,
    pub(crate) accounts: Accounts,
    pub(crate) damage: DamageList,
    /// The machine has lost power since the files were written.
    pub(crate) lost_power: bool,
    /// Wall clock when the store was opened, in milliseconds since 1970.
    pub(crate) opened_ms: u64,
    /// The newest version that was there then; the highest number until that is known.
    pub(crate) opened_version: u64,
}

impl Env {
    /// When a record's message expires, in milliseconds since 1970.
    ///
    /// What was there at the opening was received by then, whatever clock it was written by: so
    /// nothing lives longer than its publisher said.
    pub(crate) fn expires_ms(
        &self,
        version: u64,
        received_ms: u64,
        expiry_secs: Option<u32>,
    ) -> Option<u64> {
        let received_ms = if version <= self.opened_version {
            received_ms.min(self.opened_ms)
        } else {
            received_ms
        };
        expiry_secs.map(|secs| received_ms + u64::from(secs) * 1_000)
    }

    /// The same of a record's head.
    fn deadline(&self, head: &Head) -> Option<u64> {
        self.expires_ms(head.version, head.received_ms, head.expiry_secs)
    }

    fn is_expired(&self, head: &Head, now_ms: u64) -> bool {
        self.deadline(head).is_some_and(|at| at <= now_ms)
    }
}

/// A message to keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) zone: Zone,
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a [u8],
    /// Empty to clear the topic.
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) publisher: u64,
    pub(crate) received_ms: u64,
    pub(crate) expiry_secs: Option<u32>,
    /// The number that it gets; `None` for the next one of its topic.
    pub(crate) sequence: Option<u64>,
}

impl Incoming<'_> {
    fn content_len(&self) -> u64 {
        (self.topic.len() + self.properties.len() + self.payload.len()) as u64
    }

    fn encoded_len(&self) -> usize {
        let variable = self.topic.len() + self.properties.len() + self.payload.len();
        encoded_len(self.zone, self.expiry_secs.is_some(), variable)
    }
}

/// The numbers that a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) version: u64,
    pub(crate) sequence: u64,
}

/// Why a message is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// A quota of the zone or of the whole store.
    Quota,
    /// No slot is that large.
    TooLarge,
    /// The stripe has no run of this many free blocks: it has to grow first.
    Grow(usize),
}

/// A slot that must not be reused before the disk has what replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Its message is in another slot.
    Moved(Slot),
    /// This place says that the topic was cleared; the other place of the slot is old.
    Cleared(Place),
    /// As cleared, and the old place is empty.
    Emptied(Slot),
}

/// What there is of a topic.
#[derive(Clone, Copy, Debug)]
struct Known {
    entry: Entry,
    /// `None` where it cannot be read: then its content is not known, and its account is lost with
    /// it.
    head: Option<Head>,
}

/// The topics of one zone in one stripe.
#[derive(Debug)]
struct ZonePart {
    names: Names,
    usage: Arc<Usage>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stripe<R> {
    number: u16,
    space: Space<R>,
    index: Index,
    zones: BTreeMap<Zone, ZonePart>,
    /// Which topics have a history.
    logs: Logs,
    /// When the messages of timed topics expire.
    deadlines: Deadlines,
    held: Vec<Held>,
    /// The version of the last put.
    newest: u64,
    /// Every version up to this one is on the disk, or replaced by one that is.
    durable: u64,
    /// A power loss may have to fall back on versions up to this one.
    needed: u64,
    /// A commit of versions up to this one is on its way.
    committing: Option<u64>,
    /// The number of the next segment.
    next_segment: u32,
}

impl<R: Region> Stripe<R> {
    /// A stripe without topics or segments.
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            space: Space::new(),
            index: Index::default(),
            zones: BTreeMap::new(),
            logs: Logs::default(),
            deadlines: Deadlines::new(),
            held: Vec::new(),
            newest: 0,
            durable: 0,
            needed: 0,
            committing: None,
            next_segment: 0,
        }
    }

    pub(crate) fn space(&self) -> &Space<R> {
        &self.space
    }

    pub(crate) fn space_mut(&mut self) -> &mut Space<R> {
        &mut self.space
    }

    /// A number for a new segment.
    pub(crate) fn take_segment_number(&mut self) -> u32 {
        let number = self.next_segment;
        self.next_segment += 1;
        number
    }

    /// The version of the last put.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Bytes of memory for finding topics.
    pub(crate) fn memory(&self) -> usize {
        let names = self.zones.values().map(|zone| zone.names.memory());
        self.index.memory() + names.sum::<usize>() + self.logs.memory()
    }

    /// The topics that have a history.
    pub(crate) const fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The entry of a topic. One whose record is damaged is taken for the topic's, since no other
    /// topic has its hash but by the rarest chance.
    fn find(&self, hash: u64, zone: Zone, topic: &str) -> Option<Entry> {
        self.find_known(hash, zone, topic).map(|known| known.entry)
    }

    /// The same, with what it says.
    fn find_known(&self, hash: u64, zone: Zone, topic: &str) -> Option<Known> {
        let mut known = None;
        self.index.find(hash, |entry| {
            let place = entry.place();
            // A put looks at the newest record, and then writes beside it.
            self.space.expect(place.spare());
            let (bytes, key) = self.space.keyed(place);
            let head = Head::read(bytes, key).ok().flatten();
            let is_it = match head {
                Some(head) if head.is_for(bytes, zone, topic) => true,
                _ => !matches!(self.space.read(place), Ok(Some(_))),
            };
            if is_it {
                known = Some(Known { entry, head });
            }
            is_it
        });
        known
    }

    /// Keeps a message as the last of its topic, or clears the topic.
    pub(crate) fn put(
        &mut self,
        env: &Env,
        hash: u64,
        message: &Incoming<'_>,
    ) -> Result<Stamp, PutError> {
        let known = self.find_known(hash, message.zone, message.topic);
        if message.payload.is_empty() {
            return match known {
                Some(known) => self.clear(env, known, message),
                None => {
                    let version = self.next_version(env);
                    let sequence = message.sequence.unwrap_or(version);
                    Ok(Stamp { version, sequence })
                }
            };
        }
        match known {
            Some(known) => self.replace(env, known, message),
            None => self.add(env, hash, message),
        }
    }

    fn next_version(&mut self, env: &Env) -> u64 {
        self.newest = env.versions.fetch_add(1, Ordering::SeqCst) + 1;
        self.newest
    }

    fn usage(&mut self, env: &Env, zone: Zone) -> Arc<Usage> {
        let part = self.zones.entry(zone).or_insert_with(|| ZonePart {
            names: Names::default(),
            usage: env.accounts.zone(base_of(zone)),
        });
        Arc::clone(&part.usage)
    }

    /// A message for a topic that has none.
    fn add(&mut self, env: &Env, hash: u64, message: &Incoming<'_>) -> Result<Stamp, PutError> {
        let usage = self.usage(env, message.zone);
        let change = Change::between(None, Some(message.content_len()));
        if !env.accounts.reserve(&usage, change) {
            return Err(PutError::Quota);
        }
        let give_back = |_: &PutError| env.accounts.release(&usage, change);
        let slot = self
            .take_slot(message.encoded_len())
            .inspect_err(give_back)?;
        let version = self.next_version(env);
        let place = Place {
            slot,
            second: false,
        };
        // Versions grow faster than the numbers of any topic, so that they go on growing.
        let sequence = message.sequence.unwrap_or(version);
        self.space.write(place, &record(message, version, sequence));
        self.index.insert(Entry::new(hash, place));
        if let Some(zone) = self.zones.get_mut(&message.zone) {
            zone.names.insert(message.topic);
        }
        let added = Noted::Added(message.content_len(), message.received_ms);
        self.note_history(env, message.zone, message.topic, added);
        env.accounts.settle(&usage, change);
        if message.expiry_secs.is_some() {
            self.keep_deadline(env, hash, place, None);
        }
        Ok(Stamp { version, sequence })
    }

    /// A message for a topic that has one.
    fn replace(
        &mut self,
        env: &Env,
        Known { entry, head }: Known,
        message: &Incoming<'_>,
    ) -> Result<Stamp, PutError> {
        let live = entry.place();
        let before = head.map_or(0, |head| head.content_len());
        let change = Change::between(Some(before), Some(message.content_len()));
        // Most updates leave the length as it is, and need no account.
        let usage = (change != Change::default()).then(|| self.usage(env, message.zone));
        if usage
            .as_ref()
            .is_some_and(|usage| !env.accounts.reserve(usage, change))
        {
            return Err(PutError::Quota);
        }
        let place = self
            .place_beside(env, live, head, message.encoded_len())
            .inspect_err(|_| {
                if let Some(usage) = &usage {
                    env.accounts.release(usage, change);
                }
            })?;
        let version = self.next_version(env);
        let next = head.map_or(version, |head| head.sequence + 1);
        let sequence = message.sequence.unwrap_or(next);
        self.space.write(place, &record(message, version, sequence));
        if let Some(entry) = self.index.entry_mut(entry.hash, live) {
            entry.set_place(place);
        }
        if place.slot != live.slot {
            self.leave(env, live.slot);
        }
        if let Some(usage) = usage {
            env.accounts.settle(&usage, change);
        }
        if message.expiry_secs.is_some() {
            let before = head.and_then(|head| env.deadline(&head));
            self.keep_deadline(env, entry.hash, place, before);
        }
        Ok(Stamp { version, sequence })
    }

    /// Where the next record of a topic goes: beside the newest one, or into another slot.
    fn place_beside(
        &mut self,
        env: &Env,
        live: Place,
        head: Option<Head>,
        need: usize,
    ) -> Result<Place, PutError> {
        if self.fits(live.slot, need) && self.may_overwrite_spare(env, live, head) {
            return Ok(live.spare());
        }
        Ok(Place {
            slot: self.take_slot(need)?,
            second: false,
        })
    }

    /// Whether a record belongs into a slot: it fits, and does not waste most of it.
    fn fits(&self, slot: Slot, need: usize) -> bool {
        const SMALL: usize = 512;
        self.space
            .place_bytes(slot)
            .is_some_and(|bytes| need <= bytes && (bytes <= SMALL || need > bytes / 4))
    }

    /// See the module.
    fn may_overwrite_spare(&self, env: &Env, live: Place, head: Option<Head>) -> bool {
        let is_needed = |head: Head| env.careful && head.version > self.durable;
        if !head.is_some_and(is_needed) {
            return true;
        }
        let needed = self.needed.max(self.committing.unwrap_or(0));
        match self.space.head(live.spare()) {
            Ok(Some(spare)) => spare.version > needed,
            _ => true,
        }
    }

    fn take_slot(&mut self, need: usize) -> Result<Slot, PutError> {
        let (id, class) = class::for_record(need).ok_or(PutError::TooLarge)?;
        self.space
            .take(id, class)
            .ok_or(PutError::Grow(class.run_blocks))
    }

    /// Removes the message of a topic.
    fn clear(
        &mut self,
        env: &Env,
        Known { entry, head }: Known,
        message: &Incoming<'_>,
    ) -> Result<Stamp, PutError> {
        let live = entry.place();
        let mut note = live.spare();
        if env.careful && !self.may_overwrite_spare(env, live, head) {
            let need = encoded_len(message.zone, false, message.topic.len());
            note = Place {
                slot: self.take_slot(need)?,
                second: false,
            };
        }
        let version = self.next_version(env);
        let next = head.map_or(version, |head| head.sequence + 1);
        let sequence = message.sequence.unwrap_or(next);
        if env.careful {
            let cleared = Record {
                cleared: true,
                expiry_secs: None,
                properties: &[],
                payload: &[],
                ..record(message, version, sequence)
            };
            self.space.write(note, &cleared);
            self.release(env, Held::Cleared(note));
            if note.slot != live.slot {
                self.release(env, Held::Moved(live.slot));
            }
        } else {
            // The older one first: a kill in between leaves the newer.
            self.space.wipe(live.spare());
            self.space.free(live.slot);
        }
        self.forget(env, entry, message.zone, message.topic, head);
        Ok(Stamp { version, sequence })
    }

    /// The topic holds nothing any more.
    fn forget(&mut self, env: &Env, entry: Entry, zone: Zone, topic: &str, head: Option<Head>) {
        self.index.remove(entry.hash, entry.place());
        if let Some(part) = self.zones.get_mut(&zone) {
            part.names.remove(topic);
            let before = head.map_or(0, |head| head.content_len());
            env.accounts
                .apply(&part.usage, Change::between(Some(before), None));
            if part.names.len() == 0 {
                self.zones.remove(&zone);
            }
        }
        self.note_history(env, zone, topic, Noted::gone(head));
    }

    /// The message of a slot is in another one now. What a power loss never falls back on is free
    /// at once: else messages of changing length would take a slot each for as long as a commit
    /// lasts.
    fn leave(&mut self, env: &Env, slot: Slot) {
        let first = Place {
            slot,
            second: false,
        };
        let needed = self.needed.max(self.committing.unwrap_or(0));
        let is_needed = |place| match self.space.head(place) {
            Ok(Some(head)) => head.version <= needed,
            Ok(None) => false,
            // Nobody knows what it was.
            Err(_) => true,
        };
        if is_needed(first) || is_needed(first.spare()) {
            self.release(env, Held::Moved(slot));
        } else {
            self.space.free(slot);
        }
    }

    /// A slot is not needed any more, once the disk has what replaces it.
    fn release(&mut self, env: &Env, held: Held) {
        match held {
            Held::Moved(slot) if !env.careful => self.space.free(slot),
            held => {
                let bytes = self.held_bytes(held);
                env.held_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.held.push(held);
            }
        }
    }

    /// Bytes of the slot that something waits for.
    fn held_bytes(&self, held: Held) -> u64 {
        let slot = match held {
            Held::Moved(slot) | Held::Emptied(slot) => slot,
            Held::Cleared(place) => place.slot,
        };
        2 * self.space.place_bytes(slot).unwrap_or_default() as u64
    }

    /// Sees to it that the message in a place is removed when it expires. `before` is when the one
    /// would have been that it replaces.
    fn keep_deadline(&mut self, env: &Env, hash: u64, place: Place, before: Option<u64>) {
        let expires_ms = match self.space.head(place) {
            Ok(Some(head)) => env.deadline(&head),
            _ => None,
        };
        if let Some(expires_ms) = expires_ms
            && let Some(entry) = self.index.entry_mut(hash, place)
        {
            let is_timed = entry.is_timed();
            self.deadlines.note(hash, expires_ms, is_timed, before);
            entry.set_timed(true);
        }
    }

    /// Removes messages that have expired, at most this many; whether there may be more.
    pub(crate) fn sweep(&mut self, env: &Env, now_ms: u64, at_most: usize) -> bool {
        for _ in 0..at_most {
            let Some(hash) = self.deadlines.pop(now_ms) else {
                return false;
            };
            let Some(entry) = self.index.find(hash, |entry| entry.is_timed()) else {
                continue;
            };
            let place = entry.place();
            if let Some(entry) = self.index.entry_mut(hash, place) {
                entry.set_timed(false);
            }
            // It may have a later message by now.
            let expired = match self.space.read(place) {
                Ok(Some(record)) if self.is_expired(env, place, now_ms) => {
                    Some((record.zone, record.topic.to_owned(), record.qos))
                }
                _ => None,
            };
            match expired {
                None => self.keep_deadline(env, hash, place, None),
                Some((zone, topic, qos)) => self.expire(env, hash, now_ms, zone, &topic, qos),
            }
        }
        true
    }

    fn is_expired(&self, env: &Env, place: Place, now_ms: u64) -> bool {
        matches!(self.space.head(place), Ok(Some(head)) if env.is_expired(&head, now_ms))
    }

    fn expire(&mut self, env: &Env, hash: u64, now_ms: u64, zone: Zone, topic: &str, qos: QoS) {
        /// When it is tried again where there was no room.
        const LATER_MS: u64 = 1_000;
        let message = Incoming {
            qos,
            ..Incoming::clearing(zone, topic)
        };
        if self.put(env, hash, &message).is_err()
            && let Some(entry) = self.find(hash, zone, topic)
        {
            // There is no room for the note: it is tried again, and is not read in the meantime.
            if let Some(entry) = self.index.entry_mut(hash, entry.place()) {
                entry.set_timed(true);
                self.deadlines.note(hash, now_ms + LATER_MS, false, None);
            }
        }
    }

    /// Reports a damaged place.
    fn report(&self, env: &Env, place: Place, outcome: Outcome) {
        env.damage.push(self.describe(place, outcome));
    }

    fn describe(&self, place: Place, outcome: Outcome) -> DamageReport {
        let (bytes, key) = self.space.keyed(place);
        let topic = match (self.space.read(place.spare()), Head::read(bytes, key)) {
            (Ok(Some(record)), _) => Some((record.zone, record.topic.to_owned())),
            (_, Ok(Some(head))) => head
                .topic(bytes)
                .map(|(zone, topic)| (zone, topic.to_owned())),
            _ => None,
        };
        let number = self
            .space
            .segment(place.slot.segment)
            .map_or(0, crate::space::Segment::number);
        DamageReport {
            file: layout::file_name(self.number, number),
            offset: self.space.offset(place),
            topic,
            outcome,
        }
    }
}

fn record<'a>(message: &Incoming<'a>, version: u64, sequence: u64) -> Record<'a> {
    Record {
        version,
        sequence,
        publisher: message.publisher,
        received_ms: message.received_ms,
        zone: message.zone,
        qos: message.qos,
        expiry_secs: message.expiry_secs,
        cleared: false,
        topic: message.topic,
        properties: message.properties,
        payload: message.payload,
    }
}
