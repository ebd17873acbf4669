//! Adding sessions to the folder of a stopped server.
//!
//! It is a start of the server that goes on with nothing: what earlier ones have left stays as it
//! is, and the next start finds both.

use std::io;

use stentor_disk::Disk;
use stentor_journal::{Folder, Journal, OldJournal, OpenError};
use stentor_session_log::Name;

use crate::Options;
use crate::open::Earlier;

/// A folder to which sessions are added.
pub struct Adder<D: Disk> {
    folder: Folder<D>,
    journal: Journal<D::Region>,
    earlier: Earlier<D::Region>,
}

impl<D: Disk> Adder<D> {
    /// Opens a folder, which only this process uses, and begins a generation with one journal.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or a later version wrote it.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        let opened = Folder::open(disk, options.of_folder())?;
        let mut folder = opened.folder;
        Ok(Self {
            journal: folder.journal(0, options.bounds),
            folder,
            earlier: Earlier::new(opened.journals, &opened.troubles, opened.missing),
        })
    }

    /// What lies there already.
    #[must_use]
    pub const fn earlier(&self) -> &Earlier<D::Region> {
        &self.earlier
    }

    /// Appends a batch, and returns where its first record is. A kill leaves all of it or nothing.
    ///
    /// # Errors
    /// When the disk has no room for it.
    pub fn append(&mut self, records: &[u8]) -> io::Result<Name> {
        self.journal.ask(records.len());
        self.folder.serve(&mut self.journal)?;
        let appended = self.journal.append(records);
        let at = appended.map_err(|full| io::Error::new(io::ErrorKind::StorageFull, full))?;
        Ok(Name {
            file: at.file,
            offset: at.offset,
        })
    }

    /// Brings everything to the disk. Without this, the next start finds what was appended as after
    /// a kill.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end(mut self) -> io::Result<()> {
        let mut earlier = self.earlier.journals.iter();
        earlier.try_for_each(OldJournal::sync)?;
        if let Some(round) = self.journal.begin_last_commit() {
            let ended = self.journal.end_last_commit(round.sync());
            ended.map_err(|error| error.error)?;
        }
        self.folder.close()
    }
}
