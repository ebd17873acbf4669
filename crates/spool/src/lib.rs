//! Messages on the disk, for sessions whose clients are away.
//!
//! A session that is owed much gives the oldest of it to the spool, in *chunks*, and remembers a
//! [`Place`] for each. It reads them when its client is back, and frees them when they are
//! delivered. A chunk never changes, and nobody but its owner knows what is in it.
//!
//! ```text
//! file      a file of chunks               channels  between shards and the threads
//! folder    all files: who is in which     threads   the two that wait for the disk
//! extents   what of a file is needed       reader    without the threads
//! ```
//!
//! Chunks lie in files of 4 MiB, one after the other. A file goes when nobody needs one of its
//! chunks. Where a few chunks keep many files, the parts between them are given back when the bound
//! is reached or the disk is full. Which are needed, the owners say at the start: so nothing has to
//! be written when one is freed, and a file that is not there held only chunks that were freed.

#![forbid(unsafe_code)]

mod channels;
mod extents;
mod file;
mod folder;
mod reader;
#[cfg(test)]
mod tests;
mod threads;

pub use channels::{Batch, Monitor, Owner, Reply, SpoolHandle};
pub use file::{Place, UNIT};
pub use folder::{Folder, NotKept};
pub use reader::{Looked, Looker, NotRead, Reader};
pub use threads::{Spool, SpoolEvent, Watcher};
