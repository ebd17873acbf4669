//! Opening a store: every file is looked at, and what is damaged never prevents the start.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use stentor_topic::TopicHasher;

use super::meta::{FILE, Meta, NEW_SUFFIX};
use super::reader::Reader;
use super::trouble::Troubles;
use super::{OpenError, Rounds, STRIPES, Store, StoreOptions, Sync};
use crate::damage::{DamageList, DamageReport, Outcome};
use crate::disk::{Disk, Flusher, Region};
use crate::layout::{self, BadHead, SegmentHead};
use crate::memory::{Bounds, MemoryStore};
use crate::stripe::{Env, Found, recover};
use crate::usage::Accounts;

/// How much of a file is brought into memory at once.
const LOAD_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;
/// What a file is called that is not used any more, but may be of use to somebody.
const ASIDE_SUFFIX: &str = ".damaged";

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
        let known = Meta::load(&disk)?;
        let has_segments = names
            .iter()
            .any(|name| layout::parse_file_name(name).is_some());
        let meta = match known {
            Some(meta) => meta,
            None => Meta {
                seed: if has_segments {
                    common_seed(&disk, &names).unwrap_or(options.random)
                } else {
                    options.random
                },
                epoch: now_ms(),
                versions_below: 1,
                boot: options.boot,
                is_closed: false,
            },
        };
        if known.is_none() && has_segments {
            damage.push(report(FILE, Outcome::Mended));
        }
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
        let files = open_files(&disk, &env, &names, meta.seed)?;
        let found = recover_all(&env, files);
        Ok(Self::assemble(disk, env, meta, found, options))
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
        let (_, reports) = env.damage.page(0, usize::MAX);
        // Numbers that were given are lost too.
        let is_lost = |report: &DamageReport| report.outcome != Outcome::Mended;
        if env.lost_power || reports.iter().any(is_lost) {
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
            store.readmit(stripe, records);
        }
        store
    }

    /// Puts what was salvaged into the stripe.
    fn readmit(&self, number: usize, records: &[Box<[u8]>]) {
        for record in records {
            loop {
                let readmitted = self.lock(number).readmit(&self.env, record);
                let Err(blocks) = readmitted else {
                    break;
                };
                if self.grow(number, blocks).is_err() {
                    // The disk is full: it is lost, since its blocks are given up.
                    self.env
                        .damage
                        .push(report(&format!("stripe {number}"), Outcome::Lost));
                    return;
                }
            }
        }
    }

    /// The secret number of the store.
    pub(super) fn seed(&self) -> u64 {
        let meta = self.meta.lock();
        meta.unwrap_or_else(PoisonError::into_inner).seed
    }
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
        if let Some(head) = head {
            *votes.entry(head.seed).or_default() += 1;
        }
    }
    votes
        .into_iter()
        .max_by_key(|(seed, votes)| (*votes, *seed))
        .map(|(seed, _)| seed)
}

/// Opens the segments of all stripes; what is not complete goes.
fn open_files<D: Disk>(
    disk: &D,
    env: &Env,
    names: &[String],
    seed: u64,
) -> Result<Vec<Files<D>>, OpenError> {
    let mut files: Vec<Files<D>> = (0..STRIPES).map(|_| Vec::new()).collect();
    for name in names {
        if name.ends_with(NEW_SUFFIX) {
            // If it stays, nothing uses it either.
            let _ = disk.remove(name);
            continue;
        }
        let Some((stripe, number)) = layout::parse_file_name(name) else {
            continue;
        };
        let Some(of_stripe) = files.get_mut(usize::from(stripe)) else {
            continue;
        };
        let head = SegmentHead {
            seed,
            stripe,
            number,
            blocks: 0,
        };
        if let Some(region) = open_segment(disk, env, name, head)? {
            of_stripe.push((number, region));
        }
    }
    for of_stripe in &mut files {
        of_stripe.sort_unstable_by_key(|(number, _)| *number);
    }
    Ok(files)
}

/// Opens a segment that can be read as a whole; `None` for what cannot be used.
fn open_segment<D: Disk>(
    disk: &D,
    env: &Env,
    name: &str,
    expected: SegmentHead,
) -> Result<Option<D::Region>, OpenError> {
    let region = match disk.open(name) {
        Ok(region) => region,
        // A system that lacks memory or permissions does not mean that the file is bad.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
            let file = name.to_owned();
            return Err(OpenError::Read { file, error });
        }
        Err(_) => return Ok(set_aside(disk, env, name)),
    };
    let blocks = layout::blocks_of(region.bytes().len());
    let Some(blocks) = blocks.filter(|blocks| (1..=1 << 24).contains(blocks)) else {
        return Ok(set_aside(disk, env, name));
    };
    let Some(mut region) = readable(disk, env, name, region) else {
        return Ok(None);
    };
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let expected = SegmentHead { blocks, ..expected };
    match SegmentHead::decode(region.bytes()) {
        Ok(head) if head == expected => {}
        // Another store's file, or a renamed one.
        Ok(_) => {
            drop(region);
            return Ok(set_aside(disk, env, name));
        }
        Err(BadHead::Newer(format)) => {
            let file = name.to_owned();
            return Err(OpenError::Newer { file, format });
        }
        Err(BadHead::Damaged) => {
            // The name and the length say all that the head said.
            env.damage.push(report(name, Outcome::Mended));
            region.write(0, &expected.encode());
        }
    }
    Ok(Some(region))
}

/// Gives a file another name, under which it is not used.
fn set_aside<D: Disk, T>(disk: &D, env: &Env, name: &str) -> Option<T> {
    env.damage.push(report(name, Outcome::Lost));
    // If it keeps its name, the next start looks at it again.
    let _ = disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"));
    None
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
