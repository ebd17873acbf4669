//! A commit on its way to the disk.

use std::io;

use stentor_disk::Flusher;
use thiserror::Error;

use crate::Position;
use crate::segment::Warm;

/// What a commit has to bring to the disk. It is made by the owner of the journal, synced by a
/// thread that may wait, and given back.
#[derive(Debug)]
#[must_use = "until it is given back, no other commit begins"]
pub struct Round<F> {
    pub(crate) up_to: Position,
    pub(crate) segments: Vec<(u32, F)>,
    /// Written again soon: the system may have taken it away for writing it back.
    pub(crate) head: Option<Warm<F>>,
}

/// The segments that a disk failed to sync.
///
/// What was appended to them since the last commit may never get to the disk, even if a later sync
/// succeeds.
#[derive(Debug, Error)]
#[error("segments {segments:?} were not written to the disk: {error}")]
pub struct SyncError {
    /// The numbers of the segments.
    pub segments: Vec<u32>,
    /// The first error.
    pub error: io::Error,
}

/// A round that was synced, or failed.
#[derive(Debug)]
#[must_use = "the journal has to know"]
pub struct Synced {
    pub(crate) up_to: Position,
    pub(crate) outcome: Result<(), SyncError>,
}

impl<F: Flusher> Round<F> {
    /// Everything before this position will be on the disk.
    #[must_use]
    pub fn up_to(&self) -> Position {
        self.up_to
    }

    /// Waits until the disk has everything, and tries all segments whatever the first one says.
    pub fn sync(self) -> Synced {
        let (mut failed, mut first) = (Vec::new(), None);
        for (number, flusher) in &self.segments {
            if let Err(error) = flusher.flush() {
                failed.push(*number);
                first.get_or_insert(error);
            }
        }
        if let Some(head) = self.head {
            // It only saves waiting.
            let _ = head.load();
        }
        Synced {
            up_to: self.up_to,
            outcome: match first {
                None => Ok(()),
                Some(error) => Err(SyncError {
                    segments: failed,
                    error,
                }),
            },
        }
    }
}

impl Synced {
    /// Why the disk does not have it; `None` if it does.
    #[must_use]
    pub fn error(&self) -> Option<&SyncError> {
        self.outcome.as_ref().err()
    }
}
