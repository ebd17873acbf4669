//! What scripts keep: keys with an expiry, one shelf per procedure, in one file.
//!
//! A write is in the file's memory at once and on the disk within a second: a killed server loses
//! at most that second, and never the file. After an error of the disk, a full one say, the
//! database refuses everything until it is opened again, which is tried until it works.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

/// How long a write may wait for the disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait between two attempts to open the file again, at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);
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
    /// The value is not a number, or would become one that is too large.
    #[error("the value of this key is not a number, or would become too large")]
    Number,
    /// The procedure may not keep more; its quota in bytes.
    #[error("the quota of {0} bytes is used up (`store_bytes` in the manifest)")]
    Quota(u64),
    /// The file cannot be used.
    #[error("{0}")]
    File(String),
    /// The file could not be read or written, and has to be opened again.
    #[error("{0}")]
    Broken(String),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            error @ (redb::Error::Io(_) | redb::Error::PreviousIo) => {
                Self::Broken(error.to_string())
            }
            error => Self::File(error.to_string()),
        }
    }
}

/// Opens the database.
type Open = dyn Fn() -> Result<Database, StoreError> + Send + Sync;

/// The file with all shelves.
pub struct Store {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    flusher: Option<JoinHandle<()>>,
}

struct Shared {
    /// None while it cannot be opened.
    database: RwLock<Option<Database>>,
    open: Box<Open>,
    /// Why it has to be opened again, if it has to.
    trouble: Mutex<Option<String>>,
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
        let own = path.to_owned();
        let open = move || {
            let file = private_file(&own).map_err(|error| StoreError::File(error.to_string()))?;
            Ok(Database::builder().create_file(file)?)
        };
        let shared = Shared::new(Box::new(open)).map_err(fail)?;
        let (stop, stopped) = channel();
        let own = Arc::clone(&shared);
        let flusher = std::thread::Builder::new()
            .name("proc-store".into())
            .spawn(move || {
                let mut swept = Instant::now();
                let mut mending = None;
                while stopped.recv_timeout(FLUSH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    own.flush();
                    own.mend(&mut mending, Instant::now());
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

/// Attempts to open the database again.
struct Mending {
    /// Between the last two.
    pause: Duration,
    /// When the next one is due.
    due: Instant,
}

impl Shared {
    fn new(open: Box<Open>) -> Result<Arc<Self>, StoreError> {
        let shared = Self {
            database: RwLock::new(Some(open()?)),
            open,
            trouble: Mutex::default(),
            writing: Mutex::new(()),
            is_dirty: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
        };
        shared.sweep()?;
        Ok(Arc::new(shared))
    }

    /// Does something with the database, if it can be used.
    fn with<R>(
        &self,
        run: impl FnOnce(&Database) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = &*database else {
            return Err(StoreError::File("its file cannot be used now".to_owned()));
        };
        let result = run(database);
        if let Err(StoreError::Broken(reason)) = &result {
            self.trouble().get_or_insert_with(|| reason.clone());
        }
        result
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the database again if it has to be, and not too often. The log hears of the trouble
    /// and of its end.
    fn mend(&self, mending: &mut Option<Mending>, now: Instant) {
        let Some(reason) = self.trouble().clone() else {
            return;
        };
        let attempt = mending.get_or_insert_with(|| {
            tracing::warn!(
                "the store of the procedures cannot be used: {reason}; it is opened again as soon \
                 as that works"
            );
            Mending {
                pause: FLUSH_INTERVAL,
                due: now,
            }
        });
        if now < attempt.due {
            return;
        }
        if self.reopen().is_err() {
            attempt.due = now + attempt.pause;
            attempt.pause = (attempt.pause * 2).min(PAUSE_MAX);
            return;
        }
        *mending = None;
        tracing::info!(
            "the store of the procedures works again; what was kept in the last second before \
             may be lost"
        );
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // The old one has the file's lock.
        drop(database.take());
        *database = Some((self.open)()?);
        drop(database);
        *self.trouble() = None;
        // This writes, too; what goes wrong is new trouble.
        self.sweep().inspect_err(|error| {
            self.trouble().get_or_insert_with(|| error.to_string());
        })
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

    /// Makes the tables, throws away what has expired, and counts again what is used.
    fn sweep(&self) -> Result<(), StoreError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(Self::swept)
    }

    fn swept(database: &Database) -> Result<(), StoreError> {
        let transaction = database.begin_write()?;
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
        let flushed = self.with(|database| Ok(database.begin_write()?.commit()?));
        match flushed {
            Ok(()) => {}
            // The caller reports this error, and there is nothing left to write.
            Err(StoreError::Broken(_)) => {}
            Err(error) => {
                self.is_dirty.store(true, Ordering::Release);
                tracing::warn!("the store of the procedures was not written to disk: {error}");
            }
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
        let open = || {
            let mut builder = Database::builder();
            builder.set_cache_size(SCRATCH_CACHE_BYTES);
            Ok(builder.create_with_backend(InMemoryBackend::new())?)
        };
        Ok(Self {
            shared: Shared::new(Box::new(open))?,
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
        self.shared.with(|database| {
            let transaction = database.begin_read()?;
            let entries = transaction.open_table(ENTRIES)?;
            let entry = entries.get((self.procedure.as_str(), key))?;
            Ok(entry.and_then(|entry| {
                let (expires, value) = entry.value();
                (!is_expired(expires, now_secs())).then(|| value.to_vec())
            }))
        })
    }

    /// Sets a key; with a time to live, it expires after this many seconds.
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
    /// As [`Shelf::set`], and when the value is not a number.
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
        self.shared.with(|database| {
            let mut transaction = database.begin_write()?;
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
        })
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
    use std::sync::MutexGuard;
    use std::sync::atomic::AtomicUsize;

    use redb::StorageBackend;

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

    /// A user that may not read mail may not read either who has answered whom.
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

    /// A disk that may be full.
    #[derive(Clone, Debug, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<AtomicBool>,
        opened: Arc<AtomicUsize>,
    }

    impl Disk {
        fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
            self.bytes.lock().expect("nobody panics with it")
        }

        fn set_full(&self, is_full: bool) {
            self.is_full.store(is_full, Ordering::Release);
        }

        fn check(&self) -> io::Result<()> {
            if self.is_full.load(Ordering::Acquire) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let bytes = self.bytes();
            let from = offset as usize;
            let piece = bytes.get(from..from + out.len());
            out.copy_from_slice(piece.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.check()?;
            self.bytes().resize(len as usize, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            self.check()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.check()?;
            let mut bytes = self.bytes();
            let from = offset as usize;
            let place = bytes.get_mut(from..from + data.len());
            place
                .ok_or(io::ErrorKind::UnexpectedEof)?
                .copy_from_slice(data);
            Ok(())
        }
    }

    /// A disk that is full for a moment keeps nobody's store from working after it.
    #[test]
    fn it_works_again_once_the_disk_does() {
        let disk = Disk::default();
        let own = disk.clone();
        let open = move || {
            own.opened.fetch_add(1, Ordering::AcqRel);
            Ok(Database::builder().create_with_backend(own.clone())?)
        };
        let shared = Shared::new(Box::new(open)).unwrap();
        let shelf = Shelf {
            shared: Arc::clone(&shared),
            procedure: "p".to_owned(),
            quota: 1000,
        };
        shelf.set(b"k", b"old", None).unwrap();
        shared.flush();
        disk.set_full(true);
        // That it cannot be kept is seen at the latest when it goes to the disk.
        let _ = shelf.set(b"k", b"new", None);
        shared.flush();
        assert!(shelf.set(b"k", b"new", None).is_err());
        let (mut mending, start) = (None, Instant::now());
        let attempts = |secs: u64, mending: &mut Option<Mending>| {
            let before = disk.opened.load(Ordering::Acquire);
            shared.mend(mending, start + Duration::from_secs(secs));
            disk.opened.load(Ordering::Acquire) - before
        };
        let tries = [0, 0, 1, 2, 3, 4].map(|secs| attempts(secs, &mut mending));
        assert_eq!(tries, [1, 0, 1, 0, 1, 0], "less and less often");
        assert!(shelf.get(b"k").is_err());
        disk.set_full(false);
        assert_eq!(attempts(1000, &mut mending), 1);
        assert!(mending.is_none());
        let kept = shelf.get(b"k").unwrap();
        assert_eq!(kept.as_deref(), Some(&b"old"[..]));
        shelf.set(b"k", b"newer", None).unwrap();
        shared.flush();
        assert_eq!(attempts(1001, &mut mending), 0, "there is no trouble");
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
