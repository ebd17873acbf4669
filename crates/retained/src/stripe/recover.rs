//! Recovery: finding what lies in the files of a stripe.
//!
//! Of each slot the newest whole record counts, and of each topic the newest of all slots. A note
//! that a topic was cleared counts as a record, so that nothing older comes back.

use std::sync::atomic::Ordering;

use stentor_topic::Zone;

use super::salvage::{Salvaged, Stretch, is_blank, salvage, search};
use super::{Env, Held, Noted, Stripe, ZonePart};
use crate::class::{self, BLOCK_BYTES, ClassId};
use crate::damage::{DamageReport, Outcome};
use crate::history::{Logs, base_of, is_history, message_bytes, parse};
use crate::index::Entry;
use crate::layout;
use crate::names::Names;
use crate::record::{self, EMPTY_BYTES, Head, Record};
use crate::space::{Place, Segment, Slot};
use crate::usage::Change;
use stentor_disk::Region;

/// The records of a stripe, and what could not stay where it was.
pub(crate) struct Found<R> {
    pub(crate) stripe: Stripe<R>,
    /// Whole records from blocks whose directory entry is damaged, to be put elsewhere by
    /// [`Stripe::readmit`].
    pub(crate) salvaged: Vec<Salvaged>,
}

/// Reads all segments of a stripe. Each is readable as a whole and has a sound head.
pub(crate) fn recover<R: Region>(env: &Env, number: u16, files: Vec<(u32, R)>) -> Found<R> {
    let mut stripe = Stripe::new(number);
    let mut leftovers = Leftovers::default();
    for (file, region) in files {
        stripe.next_segment = stripe.next_segment.max(file.saturating_add(1));
        if let Ok(position) = stripe
            .space
            .attach(Segment::new(number, file, env.key, region))
        {
            stripe.read_segment(env, position, &mut leftovers);
        }
    }
    for damaged in std::mem::take(&mut leftovers.damaged) {
        env.damage.push(stripe.judge(env, damaged));
    }
    stripe.sort_out_cleared();
    stripe.restore_names(env);
    stripe.needed = stripe.newest;
    stripe.release_all(env);
    let held = stripe.held.iter().map(|held| stripe.held_bytes(*held));
    env.held_bytes.fetch_add(held.sum(), Ordering::Relaxed);
    Found {
        stripe,
        salvaged: leftovers.salvaged,
    }
}

/// What was found outside of runs.
#[derive(Default)]
struct Leftovers {
    salvaged: Vec<Salvaged>,
    damaged: Vec<Damage>,
}

/// A damaged place, and the numbers that its head names.
struct Damage {
    report: DamageReport,
    version: u64,
    sequence: u64,
}

impl<R: Region> Stripe<R> {
    fn read_segment(&mut self, env: &Env, position: u16, leftovers: &mut Leftovers) {
        let segment = self.space.segment(position);
        let (blocks, key) = segment.map_or((0, 0), |segment| (segment.blocks(), segment.key()));
        let mut block = 0;
        while block < blocks {
            let bytes = self.space.segment(position).map_or(&[][..], Segment::bytes);
            // A segment has at most 2^16 blocks.
            let at = block as u32;
            let is_blank = env.lost_power && layout::is_blank_entry(bytes, block);
            block += match layout::decode_entry(bytes, key, block) {
                layout::Entry::Damaged if is_blank => {
                    // The disk never got it: the block is free, as it was.
                    self.scrub(position, at);
                    if let Some(segment) = self.space.segment_mut(position) {
                        let entry = layout::free_entry(key, block);
                        segment.write(layout::entry_at(block), &entry);
                    }
                    1
                }
                layout::Entry::Free => {
                    if env.lost_power {
                        self.scrub(position, at);
                    }
                    1
                }
                layout::Entry::Run(id) if self.space.restore_run(position, at, id) => {
                    self.read_run(env, position, at, id, leftovers)
                }
                layout::Entry::Run(_) | layout::Entry::Damaged => {
                    self.salvage(env, position, at, leftovers)
                }
            };
        }
    }

    /// Reads the slots of a run; its blocks.
    fn read_run(
        &mut self,
        env: &Env,
        segment: u16,
        block: u32,
        id: ClassId,
        leftovers: &mut Leftovers,
    ) -> usize {
        let Some(class) = class::get(id) else {
            return 1;
        };
        self.mend_inside(env, segment, block, class.run_blocks);
        self.index.reserve(class.run_slots);
        for index in (0..=u8::MAX).take(class.run_slots) {
            let slot = Slot {
                segment,
                block,
                index,
            };
            self.read_slot(env, slot, leftovers);
        }
        class.run_blocks
    }

    /// Makes the entries of a run's blocks behind its first one free, as they were when the run was
    /// made. Nothing reads them before the run has gone: what a power loss took of them would be
    /// found missing then, and nobody would know why.
    fn mend_inside(&mut self, env: &Env, position: u16, first: u32, run_blocks: usize) {
        let Some(segment) = self.space.segment_mut(position) else {
            return;
        };
        let (first, key) = (first as usize, segment.key());
        for block in first + 1..first + run_blocks {
            if layout::decode_entry(segment.bytes(), key, block) == layout::Entry::Free {
                continue;
            }
            let at = layout::entry_at(block);
            segment.write(at, &layout::free_entry(key, block));
            if !env.lost_power {
                env.damage.push(DamageReport {
                    file: layout::file_name(self.number, segment.number()),
                    offset: at as u64,
                    topic: None,
                    outcome: Outcome::Mended,
                });
            }
        }
    }

    fn read_slot(&mut self, env: &Env, slot: Slot, leftovers: &mut Leftovers) {
        let first = Place {
            slot,
            second: false,
        };
        let places = [first, first.spare()];
        let read = places.map(|place| match self.space.read(place) {
            Ok(Some(record)) => Ok(Some(record.version)),
            Ok(None) => Ok(None),
            // The disk never got the page: what it was to hold was promised to nobody.
            Err(_) if env.lost_power && is_blank(self.space.bytes(place)) => {
                self.space.wipe(place);
                Ok(None)
            }
            Err(damaged) => Err(damaged),
        });
        let newest = match (read[0], read[1]) {
            (Ok(Some(a)), Ok(Some(b))) => Some(if a > b { places[0] } else { places[1] }),
            (Ok(Some(_)), _) => Some(places[0]),
            (_, Ok(Some(_))) => Some(places[1]),
            _ => None,
        };
        let mut was_told = None;
        for (place, read) in places.into_iter().zip(read) {
            if read.is_err() {
                let damage = self.damage_at(place);
                // Of a slot of which nothing can be read, one place says it all.
                let told = damage
                    .report
                    .topic
                    .is_none()
                    .then_some(damage.report.outcome);
                if told.is_none() || told != was_told {
                    leftovers.damaged.push(damage);
                }
                was_told = told;
                self.space.wipe(place);
            }
        }
        if let Some(place) = newest {
            self.space.restore_slot(slot);
            self.admit(env, place);
        }
    }

    /// What is to be told of a damaged place, for now.
    fn damage_at(&self, place: Place) -> Damage {
        let (bytes, key) = self.space.keyed(place);
        if record::was_empty(bytes, key) {
            let mut report = self.describe(place, Outcome::Mended);
            report.topic = None;
            return Damage {
                report,
                version: 0,
                sequence: 0,
            };
        }
        let head = self.space.head(place).ok().flatten();
        Damage {
            report: self.describe(place, Outcome::Lost),
            version: head.map_or(u64::MAX, |head| head.version),
            sequence: head.map_or(u64::MAX, |head| head.sequence),
        }
    }

    /// Takes a record into the index, unless there is a newer one of its topic.
    fn admit(&mut self, env: &Env, place: Place) {
        let Ok(Some(head)) = self.space.head(place) else {
            return;
        };
        self.newest = self.newest.max(head.version);
        let Some((zone, topic)) = head.topic(self.space.bytes(place)) else {
            return;
        };
        let hash = env.hasher.hash(zone, topic);
        match self.find(hash, zone, topic) {
            None => self.index.insert(Entry::new(hash, place)),
            Some(entry) => {
                let other = entry.place();
                if self.version(other) >= head.version {
                    self.held.push(Held::Moved(place.slot));
                } else {
                    if let Some(entry) = self.index.entry_mut(hash, other) {
                        entry.set_place(place);
                    }
                    self.held.push(Held::Moved(other.slot));
                }
            }
        }
    }

    /// What came of a damaged place, once all segments are read. Where both numbers of its head are
    /// older than those of what is there of the topic, nothing was lost.
    fn judge(&self, env: &Env, damaged: Damage) -> DamageReport {
        let mut report = damaged.report;
        let Some((zone, topic)) = &report.topic else {
            return report;
        };
        let found = self.find(env.hasher.hash(*zone, topic), *zone, topic);
        let head = found.and_then(|entry| self.space.head(entry.place()).ok().flatten());
        report.outcome = match head {
            Some(head) if damaged.version < head.version && damaged.sequence < head.sequence => {
                Outcome::Mended
            }
            Some(_) => Outcome::Previous,
            None => Outcome::Lost,
        };
        report
    }

    fn version(&self, place: Place) -> u64 {
        let head = self.space.head(place).ok().flatten();
        head.map_or(0, |head| head.version)
    }

    /// Topics whose newest record says that they were cleared hold nothing.
    fn sort_out_cleared(&mut self) {
        let mut cleared = Vec::new();
        let space = &self.space;
        self.index.retain(|entry| {
            let is_cleared = matches!(space.head(entry.place()), Ok(Some(head)) if head.cleared);
            if is_cleared {
                cleared.push(Held::Cleared(entry.place()));
            }
            !is_cleared
        });
        self.held.extend(cleared);
    }

    /// Orders the topics and counts what they hold.
    fn restore_names(&mut self, env: &Env) {
        let mut topics: Vec<(Zone, &str, Head, u64)> = self
            .index
            .iter()
            .filter_map(|entry| {
                let head = self.space.head(entry.place()).ok().flatten()?;
                let (zone, topic) = head.topic(self.space.bytes(entry.place()))?;
                Some((zone, topic, head, entry.hash))
            })
            .collect();
        topics.sort_unstable_by_key(|(zone, topic, ..)| (*zone, *topic));
        let (mut before, mut logs) = ("", Logs::default());
        let mut timed = Vec::new();
        for (zone, topic, head, hash) in &topics {
            let part = self.zones.entry(*zone).or_insert_with(|| {
                before = "";
                ZonePart {
                    names: Names::default(),
                    usage: env.accounts.zone(base_of(*zone)),
                }
            });
            part.names.push_last(topic, before);
            before = topic;
            let change = Change::between(None, Some(head.content_len()));
            env.accounts.apply(&part.usage, change);
            if let Some(expires_ms) = env.deadline(head) {
                timed.push((expires_ms, *hash));
            }
            if let Some((topic, number)) = parse(topic).filter(|_| is_history(*zone)) {
                let zone = base_of(*zone);
                let hash = env.hasher.hash(zone, topic);
                let bytes = message_bytes(head.content_len());
                logs.add(hash, zone, topic, number, bytes, head.received_ms);
            }
        }
        self.logs = logs;
        for (expires_ms, hash) in timed {
            let entry = self.index.find(hash, |entry| !entry.is_timed());
            if let Some(entry) = entry
                && let Some(entry) = self.index.entry_mut(hash, entry.place())
            {
                entry.set_timed(true);
                self.deadlines.note(hash, expires_ms, false, None);
            }
        }
    }

    /// Wipes the records that lie in a free block, because a power loss took the entry of their run
    /// or kept it from being emptied: they would come back when the block is used again.
    fn scrub(&mut self, position: u16, block: u32) {
        let Some(segment) = self.space.segment_mut(position) else {
            return;
        };
        let from = segment.block_at(block);
        let mut found = Vec::new();
        let part = from..from + BLOCK_BYTES;
        search(segment.bytes(), part, segment.key(), |at, len| {
            if len > 0 {
                found.push(at);
            }
        });
        for at in &found {
            segment.write(*at, &[0; EMPTY_BYTES]);
        }
    }

    /// Looks for whole records where nothing says how the blocks are divided, up to the next run;
    /// how many blocks that are. They are set aside until the next start.
    fn salvage(
        &mut self,
        env: &Env,
        position: u16,
        block: u32,
        leftovers: &mut Leftovers,
    ) -> usize {
        let Some(segment) = self.space.segment_mut(position) else {
            return 1;
        };
        let blocks = segment.blocks();
        let key = segment.key();
        let is_run = |at: &usize| {
            let entry = layout::decode_entry(segment.bytes(), key, *at);
            matches!(entry, layout::Entry::Run(_))
        };
        let first = block as usize;
        let next = (first + 1..blocks).find(is_run).unwrap_or(blocks);
        let stretch = Stretch {
            file: segment.bytes(),
            key,
            blocks: first..next,
            lost_power: env.lost_power,
        };
        let name = layout::file_name(self.number, segment.number());
        let mut found = salvage(&name, segment.bytes(), stretch.part(), key);
        let lost = stretch.lost(&found);
        leftovers.salvaged.append(&mut found.salvaged);
        for block in first..next {
            let entry = layout::free_entry(key, block);
            segment.write(layout::entry_at(block), &entry);
        }
        segment.give_up(block, next - first);
        let report = |block, outcome| DamageReport {
            file: name.clone(),
            offset: layout::entry_at(block) as u64,
            topic: None,
            outcome,
        };
        if lost.is_empty() {
            env.damage.push(report(first, Outcome::Mended));
        }
        for block in lost {
            env.damage.push(report(block, Outcome::Lost));
        }
        next - first
    }

    /// Puts a salvaged record into a slot, unless there is a newer one of its topic, or it says
    /// that there is none; whether it was put. If there is no room, the error is the
    /// number of blocks by which the stripe has to grow first.
    pub(crate) fn readmit(
        &mut self,
        env: &Env,
        hash: u64,
        record: &Record<'_>,
    ) -> Result<bool, usize> {
        let known = self.find(hash, record.zone, record.topic);
        if known.is_some_and(|entry| self.version(entry.place()) >= record.version) {
            return Ok(false);
        }
        self.newest = self.newest.max(record.version);
        self.needed = self.needed.max(record.version);
        // Readers see what was put up to now.
        env.versions.fetch_max(record.version, Ordering::SeqCst);
        if let Some(entry) = known {
            let head = self.space.head(entry.place()).ok().flatten();
            self.release(env, Held::Moved(entry.place().slot));
            self.forget(env, entry, record.zone, record.topic, head);
        }
        if record.cleared {
            return Ok(false);
        }
        self.readmit_new(env, hash, record)
    }

    fn readmit_new(&mut self, env: &Env, hash: u64, record: &Record<'_>) -> Result<bool, usize> {
        let Some((id, class)) = class::for_record(record.encoded_len()) else {
            return Ok(false);
        };
        let slot = self.space.take(id, class).ok_or(class.run_blocks)?;
        let place = Place {
            slot,
            second: false,
        };
        self.space.write(place, record);
        self.index.insert(Entry::new(hash, place));
        let usage = self.usage(env, record.zone);
        if let Some(part) = self.zones.get_mut(&record.zone) {
            part.names.insert(record.topic);
        }
        let len = record.topic.len() + record.properties.len() + record.payload.len();
        let added = Noted::Added(len as u64, record.received_ms);
        self.note_history(env, record.zone, record.topic, added);
        env.accounts
            .apply(&usage, Change::between(None, Some(len as u64)));
        self.keep_deadline(env, hash, place, None);
        Ok(true)
    }
}
