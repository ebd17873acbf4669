//! Reading chunks while no server runs.

use std::io::{self, ErrorKind};
use std::num::NonZeroU32;

use stentor_disk::Disk;

use crate::file::{Place, file_name, parse_file_name, read};

/// Reads the chunks of a folder that nobody uses, and writes nothing.
pub struct Reader<D: Disk> {
    disk: D,
    /// The file that was read last: chunks that follow each other mostly lie in one.
    last: Option<(NonZeroU32, D::Region)>,
}

/// Why there is no chunk.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// Its file is not there.
    #[error("the file is missing")]
    Missing,
    /// It is not what was written.
    #[error("it is damaged")]
    Damaged,
    /// The disk does not give it.
    #[error("the disk does not give it: {0}")]
    Disk(io::Error),
}

impl<D: Disk> Reader<D> {
    /// Reads from a folder.
    pub const fn new(disk: D) -> Self {
        Self { disk, last: None }
    }

    /// How many files there are.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn files(&self) -> io::Result<usize> {
        let names = self.disk.names()?;
        let files = names.iter().filter_map(|name| parse_file_name(name));
        Ok(files.count())
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// When it is not there, is damaged, or the disk fails.
    pub fn read(&mut self, place: Place) -> Result<Vec<u8>, NotRead> {
        let region = match self.last.take() {
            Some((file, region)) if file == place.file => region,
            _ => self.open(place.file)?,
        };
        let chunk = read(&region, place).map_err(NotRead::Disk);
        self.last = Some((place.file, region));
        chunk?.ok_or(NotRead::Damaged)
    }

    fn open(&self, file: NonZeroU32) -> Result<D::Region, NotRead> {
        let region = self.disk.open(&file_name(file));
        region.map_err(|error| match error.kind() {
            ErrorKind::NotFound => NotRead::Missing,
            _ => NotRead::Disk(error),
        })
    }
}
