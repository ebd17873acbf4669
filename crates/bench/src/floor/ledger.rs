//! Where a floor writes each message before it is acknowledged: a file that was made before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stentor_disk::{Disk, Flusher, MappedDisk, Region};

/// Bytes of the file, which is written again from its beginning when it is full. A packet of the
/// generator takes a hundredth of it at most.
const FILE_BYTES: usize = 64 << 20;
const FILE_NAME: &str = "messages";

type Mapped = <MappedDisk as Disk>::Region;

/// The file, and how it is written.
pub(super) enum Ledger {
    /// Each message is copied into memory that is mapped.
    Mapped {
        region: Mapped,
        at: usize,
        /// It holds the lock of the folder.
        _disk: MappedDisk,
    },
    /// All that came at once is written and brought to the disk before it is acknowledged.
    Synced {
        file: File,
        at: u64,
        pending: Vec<u8>,
    },
}

impl Ledger {
    /// A file that is mapped, whose pages are in memory and may be written to.
    ///
    /// # Errors
    /// When the folder cannot be made, or the disk is full.
    pub(super) fn mapped(folder: &Path) -> io::Result<Self> {
        let disk = MappedDisk::new(folder)?;
        let region = disk.grow(FILE_NAME, FILE_BYTES)?;
        region.flusher().load(0..FILE_BYTES, true)?;
        Ok(Self::Mapped {
            region,
            at: 0,
            _disk: disk,
        })
    }

    /// A file full of zeros on the disk, so that writing over them changes nothing else.
    ///
    /// # Errors
    /// When the folder cannot be made, or the disk is full.
    pub(super) fn synced(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE_NAME);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at as u64)?;
        }
        file.sync_all()?;
        Ok(Self::Synced {
            file,
            at: 0,
            pending: Vec::new(),
        })
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, packet: &[u8]) {
        match self {
            Self::Mapped { region, at, .. } => {
                if *at + packet.len() > FILE_BYTES {
                    *at = 0;
                }
                region.write(*at, packet);
                *at += packet.len();
            }
            Self::Synced { pending, .. } => pending.extend_from_slice(packet),
        }
    }

    /// Brings it as far as it has to be before it is acknowledged.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Self::Synced { file, at, pending } = self else {
            return Ok(());
        };
        if pending.is_empty() {
            return Ok(());
        }
        if *at + pending.len() as u64 > FILE_BYTES as u64 {
            *at = 0;
        }
        file.write_all_at(pending, *at)?;
        file.sync_data()?;
        *at += pending.len() as u64;
        pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_in_the_file_and_it_never_grows() {
        for make in [Ledger::mapped, Ledger::synced] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("data");
            let mut ledger = make(&path).unwrap();
            let packet = vec![7; 40 << 20];
            for byte in [b'a', b'b'] {
                ledger.take(&[byte; 3]);
                // Now the file is full, and the next one goes to its beginning.
                ledger.take(&packet);
                ledger.settle().unwrap();
            }
            drop(ledger);
            let file = fs::read(path.join(FILE_NAME)).unwrap();
            assert_eq!(file.len(), FILE_BYTES);
            assert!(file.windows(3).any(|part| part == b"bbb"));
        }
    }
}
