//! Reading chunks, without the threads: while no server runs, or beside one.

use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::sync::Arc;

use stentor_disk::Disk;

use crate::file::{Place, file_name, parse_file_name, read};

/// Reads the chunks of a folder that nobody uses, and writes nothing.
pub struct Reader<D: Disk> {
    disk: D,
    /// The file that was read last: chunks that follow each other mostly lie in one.
    last: Option<(NonZeroU32, D::Region)>,
}

/// Reads chunks of a folder that is in use, for people who look at them, on the thread of the
/// caller. A chunk may be freed in the meantime: then it is missing or damaged.
#[derive(Clone)]
pub struct Looker(Arc<Look>);

type Look = dyn Fn(&[Place]) -> Vec<Looked> + Send + Sync;

/// A chunk that somebody looks at.
pub type Looked = Result<Vec<u8>, NotRead>;

impl Looker {
    pub(crate) fn new<D: Disk>(disk: Arc<D>) -> Self {
        Self(Arc::new(move |places: &[Place]| {
            let mut last = None;
            let read = |place: &Place| read_in(&*disk, &mut last, *place);
            places.iter().map(read).collect()
        }))
    }

    /// Reads chunks, one after the other. It waits for the disk.
    #[must_use]
    pub fn read(&self, places: &[Place]) -> Vec<Looked> {
        (self.0)(places)
    }
}

impl std::fmt::Debug for Looker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Looker").finish_non_exhaustive()
    }
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
        read_in(&self.disk, &mut self.last, place)
    }
}

/// Reads a chunk. The file that was read last stays open.
fn read_in<D: Disk>(disk: &D, last: &mut Option<(NonZeroU32, D::Region)>, place: Place) -> Looked {
    let region = match last.take() {
        Some((file, region)) if file == place.file => region,
        _ => open(disk, place.file)?,
    };
    let chunk = read(&region, place).map_err(NotRead::Disk);
    *last = Some((place.file, region));
    chunk?.ok_or(NotRead::Damaged)
}

fn open<D: Disk>(disk: &D, file: NonZeroU32) -> Result<D::Region, NotRead> {
    let region = disk.open(&file_name(file));
    region.map_err(|error| match error.kind() {
        ErrorKind::NotFound => NotRead::Missing,
        _ => NotRead::Disk(error),
    })
}
