//! Opening a store: every file is looked at, and what is damaged never prevents the start.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use stentor_topic::{TopicHasher, Zone};

use super::meta::{COPY, FILE, Meta, NEW_SUFFIX};
use super::reader::Reader;
use super::trouble::Troubles;
use super::{OpenError, Rounds, STRIPES, Store, StoreOptions, Sync};
use crate::damage::{DamageList, DamageReport, Outcome};
use crate::disk::{Disk, Flusher, Region};
use crate::layout::{self, BadHead, FORMAT, SegmentHead};
use crate::memory::{Bounds, MemoryStore};
use crate::record::Record;
use crate::stripe::{Env, Found, Salvaged, recover, salvage};
use crate::usage::Accounts;

/// How much of a file is brought into memory at once.
const LOAD_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;
/// What a file is called that is not used any more, but may be of use to somebody.
pub(super) const ASIDE_SUFFIX: &str = ".damaged";

/// The segments of one stripe, with their numbers.
type Files<D> = Vec<(u32, <D as Disk>::Region)>;

impl<D: Disk> Store<D> {
    /// Opens what lies on a disk, or begins anew.
    ///
    /// # Errors
    /// When the folder cannot be read, or a later version wrote it. Damage is no error: see
    /// [`Store::damage`].
    pub fn open(disk: D, options: &StoreOptions) -> Result<Self, OpenError> {
        let names = disk.names().map_err(|error| OpenError::Read {
            file: "the folder".into(),
            error,
        })?;
        let damage = DamageList::default();
        let meta = load_meta(&disk, &names, options, &damage)?;
        let env = Env {
            hasher: TopicHasher::new(meta.seed),
            // Of the secret, and not the secret itself.
            key: (meta.seed ^ meta.seed >> 32) as u32,
            careful: options.sync != Sync::Never,
            versions: Arc::new(AtomicU64::new(0)),
            accounts: Accounts::new(options.total, options.zone),
            damage,
            // Who lost power lost what was not synced.
            lost_power: meta.boot != options.boot && !meta.is_closed,
        };
        let opened = open_files(&disk, &env, &names, &meta)?;
        let meta = Meta {
            generation: opened.generation,
            segments: opened.names(),
            ..meta
        };
        let found = recover_all(&env, opened.files);
        let store = Self::assemble(disk, env, meta, found, options);
        store.readmit(&opened.salvaged, None);
        Ok(store)
    }

    fn assemble(
        disk: D,
        env: Env,
        mut meta: Meta,
        found: Vec<Found<D::Region>>,
        options: &StoreOptions,
    ) -> Self {
        let newest = found.iter().map(|found| found.stripe.newest()).max();
        // Versions of topics that were cleared since have left no trace.
        let last_version = newest.unwrap_or(0).max(meta.versions_below - 1);
        env.versions.store(last_version, Ordering::SeqCst);
        // Numbers that were given are lost too.
        if env.lost_power || env.damage.losses() > 0 {
            meta.epoch = now_ms().max(meta.epoch + 1);
        }
        let unlimited = MemoryStore::counting_with(
            env.hasher.clone(),
            Bounds::default(),
            Arc::clone(&env.versions),
        );
        let origin = options.started_at.duration_since(SystemTime::UNIX_EPOCH);
        let has_scrubbed = found.iter().any(|found| found.has_scrubbed);
        let (stripes, salvaged): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|found| (Mutex::new(found.stripe), found.salvaged))
            .unzip();
        let store = Self {
            disk,
            env,
            sync: options.sync,
            stripes,
            volatile: unlimited,
            meta: Mutex::new(Meta {
                // So that they are reserved below.
                versions_below: 0,
                boot: options.boot,
                is_closed: false,
                ..meta
            }),
            saving: Mutex::default(),
            has_new_segments: AtomicBool::new(false),
            origin_ms: origin.map_or(0, |since| since.as_millis() as u64),
            troubles: Troubles::default(),
            has_new_names: AtomicBool::new(true),
            rounds: Rounds {
                open: AtomicU64::new(1),
                wanted_below: AtomicU64::new(0),
                ends: Mutex::new(false),
                wake: Condvar::new(),
                ended: Mutex::new((0, true)),
                has_ended: Condvar::new(),
            },
            reader: Reader::new(),
            keeper: Mutex::new(None),
            low: AtomicU64::new(0),
            watcher: Mutex::new(None),
        };
        store.reserve_versions();
        if has_scrubbed && store.env.careful {
            // What was lost must not come back at the next power loss.
            store.commit();
        }
        for (stripe, records) in salvaged.iter().enumerate() {
            store.readmit(records, Some(stripe));
        }
        store
    }

    /// Puts what was salvaged where it belongs; from one stripe, or from files that are not used.
    fn readmit(&self, salvaged: &[Salvaged], from: Option<usize>) {
        for (record, salvaged) in newest(salvaged) {
            let (hash, number) = self.place_of(record.zone, record.topic);
            if from.is_some_and(|from| from != number) {
                // Nothing put it there.
                continue;
            }
            let outcome = loop {
                // The lock is given back before the stripe grows.
                let readmitted = self.lock(number).readmit(&self.env, hash, &record);
                match readmitted {
                    Ok(true) => break Some(Outcome::Salvaged),
                    Ok(false) => break None,
                    Err(blocks) if self.grow(number, blocks).is_ok() => {}
                    // The disk is full: it is lost, since its blocks are given up.
                    Err(_) => break Some(Outcome::Lost),
                }
            };
            if let Some(outcome) = outcome {
                self.env.damage.push(salvaged.report(outcome));
            }
        }
    }

    /// The secret number of the store.
    pub(super) fn seed(&self) -> u64 {
        self.meta().seed
    }
}

/// What the segments have in common: from the file that says so, from its copy, or as far as the
/// segments tell.
fn load_meta<D: Disk>(
    disk: &D,
    names: &[String],
    options: &StoreOptions,
    damage: &DamageList,
) -> Result<Meta, OpenError> {
    if let Some(meta) = Meta::load(disk, FILE)? {
        return Ok(meta);
    }
    if let Some(copy) = Meta::load(disk, COPY)? {
        damage.push(report(FILE, Outcome::Mended));
        // It may be older by one change.
        let is_closed = false;
        return Ok(Meta { is_closed, ..copy });
    }
    let mut seed = options.random;
    if names
        .iter()
        .any(|name| layout::parse_file_name(name).is_some())
    {
        seed = common_seed(disk, names).unwrap_or(seed);
        // Whether all segments are there is lost.
        damage.push(report(FILE, Outcome::Lost));
    }
    Ok(Meta {
        seed,
        epoch: now_ms(),
        versions_below: 1,
        boot: options.boot,
        is_closed: false,
        generation: 0,
        segments: BTreeSet::new(),
    })
}

/// Of each topic the newest of the records that were salvaged.
fn newest(salvaged: &[Salvaged]) -> Vec<(Record<'_>, &Salvaged)> {
    let mut newest: HashMap<(Zone, &str), (Record<'_>, &Salvaged)> = HashMap::new();
    for (record, salvaged) in salvaged.iter().filter_map(|it| Some((it.record()?, it))) {
        let known = newest
            .entry((record.zone, record.topic))
            .or_insert((record, salvaged));
        if known.0.version < record.version {
            *known = (record, salvaged);
        }
    }
    let mut newest: Vec<_> = newest.into_values().collect();
    newest.sort_unstable_by_key(|(record, _)| record.version);
    newest
}

/// A new epoch: time goes on even where everything else is lost.
fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |since| since.as_millis() as u64)
}

fn report(file: &str, outcome: Outcome) -> DamageReport {
    DamageReport {
        file: file.to_owned(),
        offset: 0,
        topic: None,
        outcome,
    }
}

/// The seed that most segments have.
fn common_seed<D: Disk>(disk: &D, names: &[String]) -> Option<u64> {
    let mut votes: HashMap<u64, usize> = HashMap::new();
    for name in names {
        if layout::parse_file_name(name).is_none() {
            continue;
        }
        let head = disk.open(name).ok().and_then(|region| {
            region.flusher().load(0..PAGE_BYTES, false).ok()?;
            SegmentHead::decode(region.bytes()).ok()
        });
        if let Some((head, _)) = head {
            *votes.entry(head.seed).or_default() += 1;
        }
    }
    votes
        .into_iter()
        .max_by_key(|(seed, votes)| (*votes, *seed))
        .map(|(seed, _)| seed)
}

/// The segments that can be used.
struct Opened<D: Disk> {
    /// By stripe.
    files: Vec<Files<D>>,
    /// Records of files that cannot be used.
    salvaged: Vec<Salvaged>,
    /// The number of this start.
    generation: u32,
}

impl<D: Disk> Opened<D> {
    /// The segments, by stripe and number.
    fn names(&self) -> BTreeSet<(u16, u32)> {
        let numbered = (0..=u16::MAX).zip(&self.files);
        let named = numbered
            .flat_map(|(stripe, files)| files.iter().map(move |(number, _)| (stripe, *number)));
        named.collect()
    }

    /// Sorts the segments, and writes the number of this start into each.
    fn sort_and_mark(&mut self, seed: u64) {
        for (stripe, files) in (0..=u16::MAX).zip(&mut self.files) {
            let files: &mut Files<D> = files;
            files.sort_unstable_by_key(|(number, _)| *number);
            for (number, region) in files {
                let head = SegmentHead {
                    seed,
                    stripe,
                    number: *number,
                    blocks: 0,
                };
                let (at, word) = head.generation_at(self.generation);
                region.write(at, &word);
            }
        }
    }
}

/// Opens the segments of all stripes; what is not complete goes.
fn open_files<D: Disk>(
    disk: &D,
    env: &Env,
    names: &[String],
    meta: &Meta,
) -> Result<Opened<D>, OpenError> {
    let mut opened: Opened<D> = Opened {
        files: (0..STRIPES).map(|_| Vec::new()).collect(),
        salvaged: Vec::new(),
        generation: meta.generation + 1,
    };
    let mut missing = meta.segments.clone();
    let mut renamed = Vec::new();
    for name in names {
        if name.ends_with(NEW_SUFFIX) {
            // If it stays, nothing uses it either.
            let _ = disk.remove(name);
            continue;
        }
        let Some((stripe, number)) = layout::parse_file_name(name) else {
            continue;
        };
        if usize::from(stripe) >= STRIPES {
            continue;
        }
        let is_listed = missing.remove(&(stripe, number));
        let head = SegmentHead {
            seed: meta.seed,
            stripe,
            number,
            blocks: 0,
        };
        match open_segment(disk, env, (name, is_listed), head)? {
            Segment::Usable(region, generation) => {
                let is_older = generation.is_some_and(|of| of < meta.generation);
                if is_older && !env.lost_power {
                    env.damage.push(report(name, Outcome::Previous));
                }
                // A start that was cut short may have counted already.
                let next = generation.unwrap_or(0).saturating_add(1);
                opened.generation = opened.generation.max(next);
                opened.files[usize::from(stripe)].push((number, region));
            }
            Segment::Unusable(salvaged) => opened.salvaged.extend(salvaged),
            Segment::Renamed(head, salvaged) => {
                renamed.push((head.stripe, head.number));
                opened.salvaged.extend(salvaged);
            }
        }
    }
    missing.retain(|missing| !renamed.contains(missing));
    for (stripe, number) in missing {
        let name = layout::file_name(stripe, number);
        env.damage.push(report(&name, Outcome::Lost));
    }
    opened.sort_and_mark(meta.seed);
    Ok(opened)
}

/// What became of a segment's file.
enum Segment<R> {
    /// It can be read as a whole; the generation that its head says, if it does.
    Usable(R, Option<u32>),
    /// It cannot; these records were found in it.
    Unusable(Vec<Salvaged>),
    /// It is another one, whole, whose name it has lost; these records were found in it.
    Renamed(SegmentHead, Vec<Salvaged>),
}

/// Opens a segment; `is_listed` if the store knows that there is one of this name.
fn open_segment<D: Disk>(
    disk: &D,
    env: &Env,
    (name, is_listed): (&str, bool),
    expected: SegmentHead,
) -> Result<Segment<D::Region>, OpenError> {
    let region = match disk.open(name) {
        Ok(region) => region,
        // A system that lacks memory or permissions does not mean that the file is bad.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
            let file = name.to_owned();
            return Err(OpenError::Read { file, error });
        }
        Err(_) => {
            set_aside(disk, env, name, Outcome::Lost);
            return Ok(Segment::Unusable(Vec::new()));
        }
    };
    let Some(mut region) = readable(disk, env, name, region) else {
        return Ok(Segment::Unusable(Vec::new()));
    };
    let blocks = layout::blocks_of(region.bytes().len());
    let blocks = blocks.filter(|blocks| (1..=1 << 24).contains(blocks));
    let expected = SegmentHead {
        blocks: blocks
            .and_then(|blocks| u32::try_from(blocks).ok())
            .unwrap_or(0),
        ..expected
    };
    let found = match SegmentHead::decode(region.bytes()) {
        Err(BadHead::Newer(format)) => {
            let file = name.to_owned();
            return Err(OpenError::Newer { file, format });
        }
        Err(BadHead::Damaged) => None,
        Ok(found) => Some(found),
    };
    match found {
        Some((head, FORMAT)) if head == expected => {
            let generation = head.generation(region.bytes());
            if generation.is_none() {
                env.damage.push(report(name, Outcome::Mended));
            }
            return Ok(Segment::Usable(region, generation));
        }
        Some((head, _)) if head == expected => {
            region = upgrade(disk, env, name, &region, head)?;
        }
        // The name and the length say all that the head said.
        None if expected.blocks > 0 => {
            // A power loss may take a whole segment that held nothing yet.
            if !env.lost_power && region.bytes().iter().all(|byte| *byte == 0) {
                env.damage.push(report(name, Outcome::Lost));
                for (at, part) in expected.fresh(env.key, 0) {
                    region.write(at, &part);
                }
            } else {
                env.damage.push(report(name, Outcome::Mended));
                region.write(0, &expected.encode(0));
            }
        }
        found => {
            let found = found.map(|(head, _)| head);
            return Ok(leave(disk, env, (name, is_listed), expected, found, region));
        }
    }
    Ok(Segment::Usable(region, None))
}

/// Takes what can be found from a file that was cut off, another store's, or a renamed one, and
/// sets it aside.
fn leave<D: Disk>(
    disk: &D,
    env: &Env,
    (name, is_listed): (&str, bool),
    expected: SegmentHead,
    found: Option<SegmentHead>,
    region: D::Region,
) -> Segment<D::Region> {
    let key = found.unwrap_or(expected).key(env.key);
    let end = region.bytes().len() / 8 * 8;
    let salvaged = salvage((name, region.bytes()), 0..end, key).salvaged;
    drop(region);
    let is_whole = found.is_some_and(|head| head.blocks == expected.blocks);
    let is_other = found.is_some_and(|head| head.seed != expected.seed);
    // What belongs there is lost, unless nothing does.
    let outcome = if is_listed || !(is_whole || is_other) {
        Outcome::Lost
    } else {
        Outcome::Mended
    };
    set_aside(disk, env, name, outcome);
    match found {
        Some(head) if is_whole && !is_other => Segment::Renamed(head, salvaged),
        _ => Segment::Unusable(salvaged),
    }
}

/// Writes a segment of format 1 anew: a kill leaves the old file or the new one.
fn upgrade<D: Disk>(
    disk: &D,
    env: &Env,
    name: &str,
    old: &D::Region,
    head: SegmentHead,
) -> Result<D::Region, OpenError> {
    let temporary = format!("{name}{NEW_SUFFIX}");
    let grown = disk.grow(&temporary, old.bytes().len());
    let region = grown.and_then(|mut region| {
        for (at, part) in layout::upgraded(old.bytes(), head, env.key) {
            region.write(at, &part);
        }
        disk.rename(&temporary, name)?;
        Ok(region)
    });
    region.map_err(|error| OpenError::Read {
        file: format!("{name}, which has to be written anew in format {FORMAT}"),
        error,
    })
}

/// Gives a file another name, under which it is not used.
fn set_aside<D: Disk>(disk: &D, env: &Env, name: &str, outcome: Outcome) {
    env.damage.push(report(name, outcome));
    // If it keeps its name, the next start looks at it again.
    let _ = disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"));
}

/// Brings a file into memory. If the disk cannot give all of it, the rest is copied to a new file;
/// reading the old one would end the process.
fn readable<D: Disk>(disk: &D, env: &Env, name: &str, region: D::Region) -> Option<D::Region> {
    let (flusher, len) = (region.flusher(), region.bytes().len());
    let load = |from: usize, step: usize| flusher.load(from..len.min(from + step), false);
    if (0..len)
        .step_by(LOAD_BYTES)
        .all(|from| load(from, LOAD_BYTES).is_ok())
    {
        return Some(region);
    }
    env.damage.push(report(name, Outcome::Lost));
    let temporary = format!("{name}{NEW_SUFFIX}");
    let mut copy = disk.grow(&temporary, len).ok()?;
    for from in (0..len).step_by(PAGE_BYTES) {
        if load(from, PAGE_BYTES).is_ok() {
            let page = &region.bytes()[from..len.min(from + PAGE_BYTES)];
            copy.write(from, page);
        }
    }
    disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"))
        .and_then(|()| disk.rename(&temporary, name))
        .ok()?;
    Some(copy)
}

/// Recovers all stripes, on as many threads as there are processors.
fn recover_all<R: Region>(env: &Env, files: Vec<Vec<(u32, R)>>) -> Vec<Found<R>> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let queue: Mutex<Vec<_>> = Mutex::new(files.into_iter().enumerate().rev().collect());
    let done: Mutex<Vec<(usize, Found<R>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads.min(STRIPES) {
            scope.spawn(|| {
                loop {
                    let next = lock(&queue).pop();
                    let Some((number, files)) = next else {
                        return;
                    };
                    // There are `STRIPES`.
                    let found = recover(env, number as u16, files);
                    lock(&done).push((number, found));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, found)| found).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
