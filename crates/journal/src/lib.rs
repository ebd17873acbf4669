//! A journal: batches of bytes that survive the process once they are appended, and a power loss
//! once they are committed.
//!
//! A [`Folder`] holds the journals of all shards. Its owner, the maintenance thread, makes files
//! ahead; each shard fills those of its [`Journal`] through memory maps, without a lock or a system
//! call. The page cache outlives the process, so a batch is kept as soon as it is copied.
//!
//! ```text
//! folder    the maintenance thread's side: makes, recycles and removes files
//! journal   a shard's side: the ring, its bounds, floor and commits
//! commit    what is on its way to the disk
//! segment   a file while it is filled          frame     a batch as bytes
//! open      all files at the start             head      the beginning of a file
//! old       reading: what is whole, and what is missing
//! manifest  what all files have in common
//! ```
//!
//! # What is promised
//!
//! | after | is read |
//! |---|---|
//! | a kill at any instruction | every batch that was appended, and nothing else |
//! | a power loss | every batch before the last completed commit, and some that follow it |
//! | damage of a file | every batch that is whole; a survey lists the gaps and their lengths |
//!
//! A batch is read whole or not at all.
//!
//! # Files
//!
//! | file | what it is |
//! |---|---|
//! | `journal` | the manifest: the secret, the generation, which numbers of files were used |
//! | `journal.copy` | the same once more, for when `journal` is missing or damaged |
//! | `NNNNNNNN.log` | segment number N of a journal; numbers are never used twice |
//! | `*.spare` | a file that was written once and holds nothing; a new segment is made of it |
//! | `*.new` | a file that was not complete when the server ended; removed at the start |
//! | `lock` | locked by the process that uses the folder |
//!
//! All numbers are little-endian. Checksums are CRC-32 (IEEE). All files have format 1. A position
//! is the number of a file (4 bytes) and an offset there (4 bytes).
//!
//! ## The manifest: 64 bytes
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 8 | `STENTORM` |
//! | 8 | 4 | format |
//! | 12 | 4 | checksum of bytes 0 to 11 and 16 to 63, in every format |
//! | 16 | 8 | secret: keys checksums |
//! | 24 | 8 | which start of the machine |
//! | 32 | 4 | generation: counts the starts of the server |
//! | 36 | 4 | generations below this one count no longer |
//! | 40 | 4 | after generations below this one, the power failed |
//! | 44 | 4 | numbers of files from this one on were never used |
//! | 48 | 1 | 1: closed in order, and the disk had everything |
//! | 49 | 15 | zero |
//!
//! ## A segment
//!
//! A segment never changes its length, and is written once before it is used. It has a head, then
//! frames without a gap, and then the mark. What stands behind the mark is of no account.
//!
//! | at | bytes | head |
//! |---|---|---|
//! | 0 | 8 | `STENTORJ` |
//! | 8 | 4 | format |
//! | 12 | 4 | checksum of bytes 0 to 11 and 16 to 63, in every format |
//! | 16 | 8 | secret of the folder |
//! | 24 | 4 | number |
//! | 28 | 4 | generation |
//! | 32 | 2 | shard |
//! | 34 | 6 | zero |
//! | 40 | 8 | bytes of the file |
//! | 48 | 16 | zero |
//!
//! | at | bytes | frame |
//! |---|---|---|
//! | 0 | 4 | checksum of bytes 4 to 23, begun with the first key of the place |
//! | 4 | 4 | length of the records |
//! | 8 | 8 | the disk had everything before this position |
//! | 16 | 4 | the oldest file that counts |
//! | 20 | 4 | checksum of the records, begun with the second key of the place |
//! | 24 | | records, and any bytes up to a multiple of eight |
//!
//! With `mix` as the finalizer of `SplitMix64`, the *key of a file* is `mix(secret ^ number *
//! 0x9E3779B97F4A7C15)`. `mix(key of the file ^ offset)` has the first key of a place in its low
//! half and the second one in its high half. So neither a payload nor what a file held under an
//! earlier number passes for a frame.
//!
//! The *mark* of a place is `mix(key of the file ^ offset ^ 0xE0E0000000000000)`: eight bytes where
//! the next frame goes. So a page that was lost differs from one that was never written.
//!
//! The first frame of a segment is a *link*. Frames without records say only what their headers
//! say.
//!
//! | at | bytes | records of a link |
//! |---|---|---|
//! | 0 | 4 | generation |
//! | 4 | 2 | shard |
//! | 6 | 2 | zero |
//! | 8 | 8 | where the journal ended before, in the segment before this one |
//! | 16 | 4 each | segments that the disk failed to sync; their live content follows |
//!
//! # How an append is safe
//!
//! The mark of the next place is written first, then the records, then the header but for its first
//! eight bytes. These replace the mark of this place, and are written last and at once. So after a
//! kill, a mark or a whole frame stands at the end. Anything else is a power loss or damage.
//!
//! A released segment is used again after a commit that began later. So a power loss never finds
//! the old content gone and the new one not there.

mod commit;
mod folder;
mod frame;
mod head;
mod journal;
mod manifest;
mod old;
mod open;
mod position;
mod segment;
#[cfg(test)]
mod tests;

pub use commit::{Round, SyncError, Synced};
pub use folder::{Answer, Folder};
pub use journal::{Bounds, Full, Journal, Order, Room, Usage};
pub use old::{Batch, Gap, GapKind, OldJournal, Survey};
pub use open::{OpenError, OpenOptions, Opened, Peeked, Trouble, TroubleKind, peek};
pub use position::Position;
pub use segment::{Segment, Warm};
