//! The file.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};

use crate::bytes::Reader;
use crate::recorder::Batch;
use crate::ring::{BLOCK_ROWS, Slot, keys_of, keys_of_days};
use crate::{Peaks, Ring, Row};

/// The most bytes of the file, for ever: it refuses to be made longer.
pub const FILE_BYTES_MAX: u64 = 32 << 20;

/// What redb may keep of it in memory.
const CACHE_BYTES: usize = 1 << 20;

/// The format of the file.
const FORMAT: u8 = 1;

const RINGS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("rings");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// Why the file does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not a file of this kind, or it is damaged.
    #[error("{0}")]
    Damaged(String),
    /// It could not be read or written, and has to be opened again.
    #[error("{0}")]
    Broken(String),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(error) if is_damage(&error) => Self::Damaged(error.to_string()),
            error @ (redb::Error::Io(_)
            | redb::Error::PreviousIo
            | redb::Error::DatabaseAlreadyOpen) => Self::Broken(error.to_string()),
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// Whether reading failed for what is in the file.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof)
}

/// Tells a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    /// Its number there.
    inode: u64,
}

/// The file, open.
#[derive(Debug)]
pub struct Store {
    database: Database,
    identity: Identity,
}

impl Store {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let broken = |error: io::Error| StoreError::Broken(error.to_string());
        let kind = path.symlink_metadata().map(|it| it.file_type());
        if kind.is_ok_and(|kind| !kind.is_file()) {
            return Err(StoreError::Damaged("it is not a file".to_owned()));
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path).map_err(broken)?;
        let metadata = file.metadata().map_err(broken)?;
        if metadata.mode() & 0o077 != 0 {
            let own = Permissions::from_mode(0o600);
            file.set_permissions(own).map_err(broken)?;
        }
        Self::with_backend(FileBackend::new(file)?, identity(&metadata))
    }

    fn with_backend(file: impl StorageBackend, identity: Identity) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let store = Self {
            database: builder.create_with_backend(Bounded(file))?,
            identity,
        };
        store.begin()?;
        Ok(store)
    }

    /// Makes the tables, or checks that they are of this format.
    fn begin(&self) -> Result<(), StoreError> {
        let transaction = self.write()?;
        {
            let mut meta = transaction.open_table(META)?;
            let format = meta.get("format")?.map(|it| it.value().to_vec());
            match format.as_deref() {
                Some([FORMAT]) => return Ok(()),
                None => meta.insert("format", &[FORMAT][..])?,
                Some(other) => {
                    return Err(StoreError::Damaged(format!(
                        "it has the format {other:?}, which this release does not know"
                    )));
                }
            };
            transaction.open_table(RINGS)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn write(&self) -> Result<WriteTransaction, StoreError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction)
    }

    /// Whether a path leads to this file.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| identity(&found) == self.identity)
    }

    /// Writes a batch, all of it or nothing.
    ///
    /// # Errors
    /// When it is not certain that it is written.
    pub fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let transaction = self.write()?;
        {
            let mut rings = transaction.open_table(RINGS)?;
            let rows = batch.rows.iter();
            let rows = rows.map(|(ring, row)| Entry::of_row(*ring, row));
            let days = batch.days.iter().map(Entry::of_day);
            for entry in rows.chain(days) {
                let old = rings.get(entry.slot.key)?.map(|it| it.value().to_vec());
                let mut block = Block::decode(old.as_deref().unwrap_or_default());
                block.place(&entry, batch.is_settled);
                rings.insert(entry.slot.key, block.encode().as_slice())?;
            }
            let mut meta = transaction.open_table(META)?;
            let mut peaks = batch.peaks.clone();
            let old = meta.get("peaks")?.and_then(|it| Peaks::decode(it.value()));
            old.iter().for_each(|old| peaks.merge(old));
            meta.insert("peaks", peaks.encode().as_slice())?;
            meta.insert("batch", &batch.number.to_le_bytes()[..])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// The file as it is now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot(self.database.begin_read()?))
    }
}

fn identity(metadata: &Metadata) -> Identity {
    Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
    }
}

/// Does something with the file. Bytes that nobody has foreseen may make the database panic.
pub(crate) fn guarded<R>(run: impl FnOnce() -> Result<R, StoreError>) -> Result<R, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let text = "the database in it makes no sense";
        Err(StoreError::Damaged(text.to_owned()))
    })
}

/// The file as it was at a moment.
pub struct Snapshot(ReadTransaction);

impl Snapshot {
    /// The number of the last batch.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn number(&self) -> Result<Option<u64>, StoreError> {
        guarded(|| {
            let meta = self.0.open_table(META)?;
            let number = meta.get("batch")?;
            Ok(number.and_then(|it| Reader(it.value()).u64()))
        })
    }

    /// The rows of a ring.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn rows(&self, ring: Ring, mut take: impl FnMut(&Row)) -> Result<(), StoreError> {
        self.entries(keys_of(ring), |bytes| {
            Row::decode(bytes).iter().for_each(&mut take);
        })
    }

    /// The peaks of each day, in no order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn days(&self, mut take: impl FnMut(&Peaks)) -> Result<(), StoreError> {
        self.entries(keys_of_days(), |bytes| {
            Peaks::decode(bytes).iter().for_each(&mut take);
        })
    }

    /// The peaks of all times.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn peaks(&self) -> Result<Option<Peaks>, StoreError> {
        guarded(|| {
            let meta = self.0.open_table(META)?;
            let peaks = meta.get("peaks")?;
            Ok(peaks.and_then(|it| Peaks::decode(it.value())))
        })
    }

    fn entries(&self, keys: Range<u32>, mut take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        guarded(|| {
            let rings = self.0.open_table(RINGS)?;
            for block in rings.range(keys)? {
                let block = block?;
                let block = Block::decode(block.1.value());
                block.0.iter().flatten().for_each(|entry| take(entry));
            }
            Ok(())
        })
    }
}

/// A row or the peaks of a day, on the way into the file.
enum What<'a> {
    Row(&'a Row),
    Day(&'a Peaks),
}

struct Entry<'a> {
    slot: Slot,
    what: What<'a>,
}

impl<'a> Entry<'a> {
    fn of_row(ring: Ring, row: &'a Row) -> Self {
        Self {
            slot: Slot::of_row(ring, row.start),
            what: What::Row(row),
        }
    }

    fn of_day(day: &'a Peaks) -> Self {
        Self {
            slot: Slot::of_day(day.start),
            what: What::Day(day),
        }
    }

    const fn start(&self) -> u64 {
        match self.what {
            What::Row(row) => row.start,
            What::Day(day) => day.start,
        }
    }

    /// Its bytes, with what is known of the same period.
    fn with(&self, known: Option<&[u8]>) -> Vec<u8> {
        match self.what {
            What::Row(row) => {
                let mut row = row.clone();
                let known = known.and_then(Row::decode);
                known.iter().for_each(|known| row.merge(known));
                row.encode()
            }
            What::Day(day) => {
                let mut day = day.clone();
                let known = known.and_then(Peaks::decode);
                known.iter().for_each(|known| day.merge(known));
                day.encode()
            }
        }
    }
}

/// Four entries, each with its length before it (2 bytes; 0 for none).
#[derive(Debug, Default)]
struct Block([Option<Vec<u8>>; BLOCK_ROWS as usize]);

impl Block {
    /// What can be read of it.
    fn decode(bytes: &[u8]) -> Self {
        let (mut block, mut reader) = (Self::default(), Reader(bytes));
        for entry in &mut block.0 {
            let Some(bytes) = reader.u16().and_then(|it| reader.take(it.into())) else {
                break;
            };
            *entry = (!bytes.is_empty()).then(|| bytes.to_vec());
        }
        block
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.0 {
            let bytes = entry.as_deref().unwrap_or_default();
            // At most 990 bytes.
            out.extend((bytes.len() as u16).to_le_bytes());
            out.extend(bytes);
        }
        out
    }

    /// Puts an entry into its place: to what is known of the same period, or in the place of an
    /// older one. A newer one was written when the clock said something else. It stays until the
    /// clock is believed.
    fn place(&mut self, entry: &Entry<'_>, is_settled: bool) {
        let place = &mut self.0[entry.slot.place];
        let known = place.as_deref().and_then(|it| Reader(it).u64());
        let known = known.map(|start| start.cmp(&entry.start()));
        match known {
            Some(std::cmp::Ordering::Equal) => *place = Some(entry.with(place.as_deref())),
            Some(std::cmp::Ordering::Greater) if !is_settled => {}
            _ => *place = Some(entry.with(None)),
        }
    }
}

/// A file that refuses to be longer than [`FILE_BYTES_MAX`].
#[derive(Debug)]
struct Bounded<B>(B);

impl<B: StorageBackend> StorageBackend for Bounded<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > FILE_BYTES_MAX {
            let full = "the file would be longer than 32 MiB";
            return Err(io::Error::new(io::ErrorKind::StorageFull, full));
        }
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests;
