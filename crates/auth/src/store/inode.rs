//! Which file one is, whatever it is called.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file: its device, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    /// The file that a path leads to now.
    ///
    /// # Errors
    /// When there is none, or it cannot be seen.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(Self::from)
    }

    /// A file that is open.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(Self::from)
    }
}

impl From<Metadata> for Inode {
    fn from(file: Metadata) -> Self {
        Self::from(&file)
    }
}

impl From<&Metadata> for Inode {
    fn from(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            number: file.ino(),
        }
    }
}
