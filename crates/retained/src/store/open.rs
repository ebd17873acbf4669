//! Opening a store: every file is looked at, and what is damaged never prevents the start.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use stentor_topic::{TopicHasher, Zone};

use super::Refused;
use super::meta::{COPY, FILE, Meta};
use super::reader::Reader;
use super::segments::{PAGE_BYTES, open_files};
use super::trouble::Troubles;
use super::{OpenError, Rounds, STRIPES, Store, StoreOptions, Sync};
use crate::damage::{DamageList, DamageReport, Outcome};
use crate::layout::{self, SegmentHead};
use crate::memory::{Bounds, MemoryStore};
use crate::record::Record;
use crate::stripe::{Env, Found, Salvaged, recover};
use crate::usage::Accounts;
use stentor_disk::{Disk, Flusher, Region};

impl<D: Disk> Store<D> {
    /// Opens what lies on a disk, or begins again.
    ///
    /// # Errors
    /// When the folder cannot be read, or a later version wrote it. Damage is not an error: see
    /// [`Store::damage`].
    pub fn open(disk: D, options: &StoreOptions) -> Result<Self, OpenError> {
        let names = disk.names().map_err(|error| OpenError::Read {
            file: "the folder".into(),
            error,
        })?;
        let damage = DamageList::default();
        let meta = load_meta(&disk, &names, options, &damage)?;
        let env = Env {
            held_bytes: AtomicU64::new(0),
            hasher: TopicHasher::new(meta.seed),
            // Of the secret, and not the secret itself.
            key: (meta.seed ^ meta.seed >> 32) as u32,
            careful: options.sync != Sync::Never,
            versions: Arc::new(AtomicU64::new(0)),
            accounts: Accounts::new(options.total, options.zone),
            damage,
            // A power loss costs what was not synced.
            lost_power: meta.boot != options.boot && !meta.is_closed,
            opened_ms: origin_ms(options) + options.now.as_micros() / 1_000,
            opened_version: u64::MAX,
        };
        let opened = open_files(&disk, &env, &names, &meta)?;
        let meta = Meta {
            generation: opened.generation,
            segments: opened.names(),
            ..meta
        };
        let found = recover_all(&env, opened.files);
        let mut store = Self::assemble(disk, env, meta, found, options);
        store.readmit(&opened.salvaged, None);
        store.finish_kept();
        store.env.opened_version = store.env.versions.load(Ordering::SeqCst);
        if store.env.careful {
            // What the disk is not known to have cannot be written over: on a full disk, nothing
            // could be cleared. And what was lost must not come back at the next power loss.
            store.commit();
        }
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
            origin_ms: origin_ms(options),
            troubles: Troubles::default(),
            refused: Refused::default(),
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
            maintenance: Mutex::new(None),
            low: AtomicU64::new(0),
            grown_late: AtomicU64::new(0),
            watcher: Mutex::new(None),
        };
        store.reserve_versions();
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

/// Wall clock at [`Tick::ZERO`](stentor_session::Tick::ZERO), in milliseconds since 1970.
fn origin_ms(options: &StoreOptions) -> u64 {
    let since = options.started_at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
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

/// Of a whole file.
pub(super) fn report(file: &str, outcome: Outcome) -> DamageReport {
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
