//! What stores need of a file system.
//!
//! Everything that can fail or be torn goes through these traits, so that tests can make it fail.
//! [`MappedDisk`] is a folder whose files are mapped into memory. `SimulatedDisk` is in memory:
//! it fails, tears writes and loses power.

mod bus;
mod mapped;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;

use std::io;
use std::ops::Range;

pub use bus::faults;
pub use mapped::{MappedDisk, give_way};

/// A folder of files, most of which are mapped into memory.
pub trait Disk: Send + Sync + 'static {
    /// A mapped file.
    type Region: Region;

    /// Lets others use the folder before this is dropped. Nothing may be written from now on.
    fn release(&self) {}

    /// The names of all files.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes a file of this many zero bytes, for which the disk has room from now on, or leaves
    /// none; an old file of the name goes.
    ///
    /// # Errors
    /// When the disk is full, or the folder cannot be written.
    fn grow(&self, name: &str, len: usize) -> io::Result<Self::Region>;

    /// Has the disk give a file of this many bytes what it lacks of blocks: a copy may have holes
    /// where there were zeros. Its content stays.
    ///
    /// # Errors
    /// When the disk is full, or there is no such file. A file system that cannot promise blocks
    /// promises none.
    fn fill(&self, name: &str, len: usize) -> io::Result<()>;

    /// Maps a file.
    ///
    /// # Errors
    /// When it cannot be read or written, or is empty.
    fn open(&self, name: &str) -> io::Result<Self::Region>;

    /// Reads a small file; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Writes a small file and its content to the disk.
    ///
    /// # Errors
    /// When it cannot be written; what it held before may be gone.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes over the beginning of a small file, and to the disk: all of it or nothing, up to 512
    /// bytes. That takes no room, so it works on a full disk.
    ///
    /// # Errors
    /// When there is no such file, or it cannot be written.
    fn overwrite(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name, atomically; a file that had it goes.
    ///
    /// # Errors
    /// When the folder cannot be written.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// When the folder cannot be written.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Bytes of the disk that a file takes.
    ///
    /// # Errors
    /// When there is no such file.
    fn taken(&self, name: &str) -> io::Result<u64>;

    /// Gives the disk back what a part of a file takes, as far as that is whole blocks. The part
    /// reads as zeros from now on, also in regions that are mapped.
    ///
    /// # Errors
    /// When the disk fails, or cannot do that. Then the part is as it was.
    fn punch(&self, name: &str, part: Range<usize>) -> io::Result<()>;

    /// Brings the names of files to the disk.
    ///
    /// # Errors
    /// When the disk fails.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file that is mapped into memory.
pub trait Region: Send + 'static {
    /// Brings it to the disk, from other threads too.
    type Flusher: Flusher;

    /// All its bytes. What the disk cannot give reads as zeros; from then on, the region cannot be
    /// [flushed](Flusher::flush). [`Flusher::load`] says it before.
    fn bytes(&self) -> &[u8];

    /// Says that a part will be read soon, so that the processor fetches it in the meantime.
    fn expect(&self, _part: Range<usize>) {}

    /// Copies bytes into it. A process that is killed leaves all that was written before, and
    /// possibly a part of this; of up to eight bytes at a multiple of eight, all or nothing.
    ///
    /// # Panics
    /// If they do not fit.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// See [`Flusher`].
    fn flusher(&self) -> Self::Flusher;
}

/// Moves the pages of a region; usable while its owner reads and writes.
pub trait Flusher: Clone + Send + Sync + 'static {
    /// Waits until everything that was written before is on the disk.
    ///
    /// # Errors
    /// When the disk fails, or the file has lost a part that was read or written: then what was
    /// written since the last success may never get there, unless it is written again.
    fn flush(&self) -> io::Result<()>;

    /// Waits until a part of the region is in memory, so that reading it waits for nothing; with
    /// `for_writing`, writing too.
    ///
    /// # Errors
    /// When the disk cannot give it.
    fn load(&self, part: Range<usize>, for_writing: bool) -> io::Result<()>;

    /// Whether a part of the region is in memory now; the system may take it away at any time.
    fn is_loaded(&self, part: Range<usize>) -> bool;
}
