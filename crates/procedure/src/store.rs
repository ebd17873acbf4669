//! What scripts keep: keys with an expiry, one shelf per procedure, in one file.
//!
//! A write is in the file's memory at once and on the disk within a second: a killed server loses
//! at most that second, and never the file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

/// How long a write may wait for the disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// How often what has expired is thrown away.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// How soon after that it may happen again, for a procedure whose quota is used up.
const SWEEP_PAUSE: Duration = Duration::from_secs(10);
/// The longest key.
const KEY_BYTES_MAX: usize = 512;
/// The longest value.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// What a shelf in memory may hold twice.
const SCRATCH_CACHE_BYTES: usize = 1 << 20;
/// What each entry costs beside its key and value, for the quota.
const ENTRY_BYTES: u64 = 32;
/// The longest time to live of a key: ten years.
pub(crate) const TTL_SECS_MAX: u32 = 10 * 365 * 86_400;

/// A procedure and one of its keys.
type Key = (&'static str, &'static [u8]);
/// An expiry and a value.
type Value = (u64, &'static [u8]);

/// Procedure and key; when it expires (seconds since 1970, 0 for never) and the value.
const ENTRIES: TableDefinition<'_, Key, Value> = TableDefinition::new("entries");
/// Bytes that each procedure uses.
const USED: TableDefinition<'_, &str, u64> = TableDefinition::new("used");

/// Why the store does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The key is empty or too long.
    #[error("a key has 1 to 512 bytes")]
    Key,
    /// The value is too long.
    #[error("a value has at most 64 KiB")]
    Value,
    /// The value is no number, or would become one that is too large.
    #[error("the value of this key is no number that can be added to")]
    Number,
    /// The procedure may not keep more; its quota in bytes.
    #[error("the quota of {0} bytes is used up (`store_bytes` in the manifest)")]
    Quota(u64),
    /// The file cannot be used.
    #[error("{0}")]
    File(String),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::File(error.into().to_string())
    }
}

/// The file with all shelves.
pub struct Store {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    flusher: Option<JoinHandle<()>>,
}

struct Shared {
    database: Database,
    /// Writers go one after the other; reading needs no lock.
    writing: Mutex<()>,
    is_dirty: AtomicBool,
    /// A quota is used up, perhaps by what has expired.
    is_full: AtomicBool,
}

impl Store {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be used, by its name.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |error: StoreError| StoreError::File(format!("{}: {error}", path.display()));
        let file = private_file(path).map_err(|error| fail(StoreError::File(error.to_string())))?;
        let database = Database::builder().create_file(file);
        let shared = database.map_err(StoreError::from).and_then(Shared::new);
        let shared = shared.map_err(fail)?;
        let (stop, stopped) = channel();
        let own = Arc::clone(&shared);
        let flusher = std::thread::Builder::new()
            .name("proc-store".into())
            .spawn(move || {
                let mut swept = Instant::now();
                while stopped.recv_timeout(FLUSH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    own.flush();
                    if own.is_sweep_due(swept.elapsed()) {
                        own.sweep_again();
                        swept = Instant::now();
                    }
                }
                own.flush();
            })
            .map_err(|error| fail(StoreError::File(error.to_string())))?;
        Ok(Self {
            shared,
            stop: Some(stop),
            flusher: Some(flusher),
        })
    }

    /// The shelf of a procedure, which may use `quota` bytes.
    #[must_use]
    pub fn shelf(&self, procedure: &str, quota: u64) -> Shelf {
        Shelf {
            shared: Arc::clone(&self.shared),
            procedure: procedure.to_owned(),
            quota,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(flusher) = self.flusher.take() {
            // It has nothing to say.
            let _ = flusher.join();
        }
    }
}

/// Opens a file for its owner alone, or makes it: what scripts keep may tell who writes to whom.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    // Earlier versions have left it to others, too.
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

impl Shared {
    fn new(database: Database) -> Result<Arc<Self>, StoreError> {
        let shared = Self {
            database,
            writing: Mutex::new(()),
            is_dirty: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
        };
        shared.sweep()?;
        Ok(Arc::new(shared))
    }

    fn is_sweep_due(&self, since: Duration) -> bool {
        let is_full = since >= SWEEP_PAUSE && self.is_full.load(Ordering::Acquire);
        is_full || since >= SWEEP_INTERVAL
    }

    fn sweep_again(&self) {
        self.is_full.store(false, Ordering::Release);
        if let Err(error) = self.sweep() {
            tracing::warn!("what expired in the store of the procedures stays there: {error}");
        }
    }

    /// Makes the tables, throws away what has expired, and counts anew what is used.
    fn sweep(&self) -> Result<(), StoreError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = self.database.begin_write()?;
        {
            let mut entries = transaction.open_table(ENTRIES)?;
            let now = now_secs();
            entries.retain(|_, (expires, _)| !is_expired(expires, now))?;
            let mut totals = std::collections::BTreeMap::<String, u64>::new();
            for entry in entries.iter()? {
                let (key, value) = entry?;
                let ((procedure, key), (_, value)) = (key.value(), value.value());
                *totals.entry(procedure.to_owned()).or_default() += cost(key, value);
            }
            let mut used = transaction.open_table(USED)?;
            used.retain(|_, _| false)?;
            for (procedure, total) in totals {
                used.insert(procedure.as_str(), total)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn flush(&self) {
        if !self.is_dirty.swap(false, Ordering::AcqRel) {
            return;
        }
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = self
            .database
            .begin_write()
            .map_err(StoreError::from)
            .and_then(|transaction| transaction.commit().map_err(StoreError::from));
        if let Err(error) = flushed {
            self.is_dirty.store(true, Ordering::Release);
            tracing::warn!("the store of the procedures was not written to disk: {error}");
        }
    }
}

/// When a key expires that is written; seconds to live, if it ever does.
#[derive(Clone, Copy)]
enum Expiry {
    /// Counted from now.
    New(Option<u32>),
    /// Counted from when there was no such key.
    OfFirst(Option<u32>),
}

/// What one procedure keeps.
pub struct Shelf {
    shared: Arc<Shared>,
    procedure: String,
    quota: u64,
}

impl Shelf {
    /// An empty shelf of `quota` bytes in memory, which is gone when it is dropped.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn scratch(quota: u64) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(SCRATCH_CACHE_BYTES);
        let database = builder.create_with_backend(InMemoryBackend::new())?;
        Ok(Self {
            shared: Shared::new(database)?,
            procedure: "scratch".to_owned(),
            quota,
        })
    }

    /// The value of a key, unless it has expired.
    ///
    /// # Errors
    /// When the key is impossible, or the file cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        check_key(key)?;
        let transaction = self.shared.database.begin_read()?;
        let entries = transaction.open_table(ENTRIES)?;
        let entry = entries.get((self.procedure.as_str(), key))?;
        Ok(entry.and_then(|entry| {
            let (expires, value) = entry.value();
            (!is_expired(expires, now_secs())).then(|| value.to_vec())
        }))
    }

    /// Sets a key; with a time to live, it expires after so many seconds.
    ///
    /// # Errors
    /// When key or value are impossible or the quota is used up.
    pub fn set(&self, key: &[u8], value: &[u8], ttl_secs: Option<u32>) -> Result<(), StoreError> {
        self.change(key, Expiry::New(ttl_secs), |_| Ok((value.to_vec(), ())))
    }

    /// Adds to the number of a key, which is 0 if there is none, and returns the sum. Nobody gets
    /// in between. A time to live counts from the first addition.
    ///
    /// # Errors
    /// As [`Shelf::set`], and when the value is no number.
    pub fn add(&self, key: &[u8], amount: i64, ttl_secs: Option<u32>) -> Result<i64, StoreError> {
        self.change(key, Expiry::OfFirst(ttl_secs), |old| {
            let old = match old {
                None => 0,
                Some(old) => std::str::from_utf8(old)
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .ok_or(StoreError::Number)?,
            };
            let sum = i64::checked_add(old, amount).ok_or(StoreError::Number)?;
            Ok((sum.to_string().into_bytes(), sum))
        })
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// When the key is impossible or the file cannot be written.
    pub fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        check_key(key)?;
        self.write(|entries, used, now| {
            let name = (self.procedure.as_str(), key);
            let Some(old) = entries.remove(name)? else {
                return Ok(false);
            };
            let (expires, value) = old.value();
            let total = used
                .get(self.procedure.as_str())?
                .map_or(0, |total| total.value());
            used.insert(
                self.procedure.as_str(),
                total.saturating_sub(cost(key, value)),
            )?;
            Ok(!is_expired(expires, now))
        })
    }

    fn change<R>(
        &self,
        key: &[u8],
        expiry: Expiry,
        make: impl FnOnce(Option<&[u8]>) -> Result<(Vec<u8>, R), StoreError>,
    ) -> Result<R, StoreError> {
        check_key(key)?;
        self.write(|entries, used, now| {
            let name = (self.procedure.as_str(), key);
            let old = entries.get(name)?.map(|old| {
                let (expires, value) = old.value();
                (expires, value.to_vec())
            });
            let old_cost = old.as_ref().map_or(0, |(_, value)| cost(key, value));
            let live = old.filter(|(expires, _)| !is_expired(*expires, now));
            let (value, result) = make(live.as_ref().map(|(_, value)| value.as_slice()))?;
            if value.len() > VALUE_BYTES_MAX {
                return Err(StoreError::Value);
            }
            let total = used
                .get(self.procedure.as_str())?
                .map_or(0, |total| total.value());
            let total = total.saturating_sub(old_cost) + cost(key, &value);
            if total > self.quota {
                self.shared.is_full.store(true, Ordering::Release);
                return Err(StoreError::Quota(self.quota));
            }
            let expires = match (expiry, &live) {
                (Expiry::OfFirst(_), Some((expires, _))) => *expires,
                (Expiry::OfFirst(Some(ttl)) | Expiry::New(Some(ttl)), _) => now + u64::from(ttl),
                (Expiry::OfFirst(None) | Expiry::New(None), _) => 0,
            };
            entries.insert(name, (expires, value.as_slice()))?;
            used.insert(self.procedure.as_str(), total)?;
            Ok(result)
        })
    }

    fn write<R>(
        &self,
        change: impl FnOnce(
            &mut redb::Table<'_, Key, Value>,
            &mut redb::Table<'_, &'static str, u64>,
            u64,
        ) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let _one = self
            .shared
            .writing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut transaction = self.shared.database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let result = {
            let mut entries = transaction.open_table(ENTRIES)?;
            let mut used = transaction.open_table(USED)?;
            change(&mut entries, &mut used, now_secs())
        };
        // What failed is forgotten with the transaction.
        let result = result?;
        transaction.commit()?;
        self.shared.is_dirty.store(true, Ordering::Release);
        Ok(result)
    }
}

fn check_key(key: &[u8]) -> Result<(), StoreError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        Ok(())
    } else {
        Err(StoreError::Key)
    }
}

const fn cost(key: &[u8], value: &[u8]) -> u64 {
    key.len() as u64 + value.len() as u64 + ENTRY_BYTES
}

const fn is_expired(expires: u64, now: u64) -> bool {
    expires != 0 && expires <= now
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &tempfile::TempDir) -> Store {
        Store::open(&folder.path().join("procedures.redb")).unwrap()
    }

    #[test]
    fn what_is_kept_survives_and_shelves_are_apart() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let (one, two) = (store.shelf("one", 1000), store.shelf("two", 1000));
        one.set(b"key", b"value", None).unwrap();
        assert_eq!(one.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(two.get(b"key").unwrap(), None);
        drop((one, two, store));
        let store = open(&folder);
        let one = store.shelf("one", 1000);
        assert_eq!(one.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(one.delete(b"key").unwrap());
        assert!(!one.delete(b"key").unwrap());
        assert_eq!(one.get(b"key").unwrap(), None);
    }

    /// Whoever may not read mail may not read who has answered whom, either.
    #[test]
    fn the_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("procedures.redb");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        open(&folder).shelf("p", 100).set(b"k", b"v", None).unwrap();
        assert_eq!(mode(), 0o600);
        // As earlier versions have made it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let store = open(&folder);
        assert_eq!(mode(), 0o600);
        let value = store.shelf("p", 100).get(b"k").unwrap();
        assert_eq!(value.as_deref(), Some(&b"v"[..]));
    }

    #[test]
    fn a_scratch_shelf_has_its_quota() {
        let shelf = Shelf::scratch(100).unwrap();
        assert_eq!(shelf.add(b"n", 2, None).unwrap(), 2);
        let full = shelf.set(b"k", &[b'x'; 100], None);
        assert!(matches!(full, Err(StoreError::Quota(100))));
        assert_eq!(Shelf::scratch(100).unwrap().get(b"n").unwrap(), None);
    }

    #[test]
    fn numbers_are_added_to_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let shelf = store.shelf("p", 1000);
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        shelf.add(b"n", 2, Some(3600)).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let shelf = store.shelf("p", 1000);
        assert_eq!(shelf.add(b"n", 0, None).unwrap(), 400);
        shelf.set(b"t", b"text", None).unwrap();
        assert!(matches!(shelf.add(b"t", 1, None), Err(StoreError::Number)));
        shelf
            .set(b"t", i64::MAX.to_string().as_bytes(), None)
            .unwrap();
        assert!(matches!(shelf.add(b"t", 1, None), Err(StoreError::Number)));
    }

    #[test]
    fn expired_keys_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let shelf = store.shelf("p", 1000);
        shelf.set(b"k", b"v", Some(60)).unwrap();
        // As if the minute had passed.
        let old = now_secs() - 1;
        shelf
            .write(|entries, _, _| {
                entries.insert(("p", &b"k"[..]), (old, &b"v"[..]))?;
                Ok(())
            })
            .unwrap();
        assert_eq!(shelf.get(b"k").unwrap(), None);
        assert!(!shelf.delete(b"k").unwrap());
        shelf.set(b"k", b"5", Some(60)).unwrap();
        shelf
            .write(|entries, _, _| {
                entries.insert(("p", &b"k"[..]), (old, &b"5"[..]))?;
                Ok(())
            })
            .unwrap();
        assert_eq!(shelf.add(b"k", 1, Some(60)).unwrap(), 1);
    }

    /// A full shelf is swept soon, and what has expired uses no quota any more.
    #[test]
    fn what_has_expired_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let shelf = store.shelf("p", 200);
        shelf.set(b"a", &[b'x'; 100], Some(60)).unwrap();
        let old = now_secs() - 1;
        shelf
            .write(|entries, _, _| {
                entries.insert(("p", &b"a"[..]), (old, &[b'x'; 100][..]))?;
                Ok(())
            })
            .unwrap();
        assert!(!store.shared.is_sweep_due(SWEEP_PAUSE));
        let full = shelf.set(b"b", &[b'x'; 100], None);
        assert!(matches!(full, Err(StoreError::Quota(200))));
        assert!(store.shared.is_sweep_due(SWEEP_PAUSE));
        assert!(!store.shared.is_sweep_due(Duration::ZERO));
        store.shared.sweep_again();
        shelf.set(b"b", &[b'x'; 100], None).unwrap();
        assert!(!store.shared.is_sweep_due(SWEEP_PAUSE));
    }

    #[test]
    fn quotas_and_bounds_hold() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let shelf = store.shelf("p", 200);
        shelf.set(b"a", &[b'x'; 100], None).unwrap();
        let full = shelf.set(b"b", &[b'x'; 100], None);
        assert!(matches!(full, Err(StoreError::Quota(200))));
        // A value in the place of another one counts once, and one that goes makes room.
        shelf.set(b"a", &[b'y'; 110], None).unwrap();
        shelf.delete(b"a").unwrap();
        shelf.set(b"b", &[b'x'; 100], None).unwrap();
        assert!(matches!(shelf.get(b""), Err(StoreError::Key)));
        assert!(matches!(shelf.get(&[0; 513]), Err(StoreError::Key)));
        let roomy = store.shelf("q", 1 << 20);
        let long = roomy.set(b"k", &[0; VALUE_BYTES_MAX + 1], None);
        assert!(matches!(long, Err(StoreError::Value)));
    }
}
