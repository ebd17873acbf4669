//! The file `journal`: what all segments have in common. It is there twice.

use std::io;

use stentor_disk::Disk;

use crate::OpenError;
use crate::frame::word;
use crate::head::{FORMAT, HEAD_BYTES, checksum, double_word};

/// The file's name.
pub(crate) const FILE: &str = "journal";
/// The name of its copy.
pub(crate) const COPY: &str = "journal.copy";
/// What a file is called while it is not complete.
pub(crate) const NEW_SUFFIX: &str = ".new";
const MAGIC: &[u8; 8] = b"STENTORM";

/// How the last process that used the folder left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not ended, or not in order.
    Open,
    /// In order, and the disk has everything.
    Closed,
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Keys all checksums.
    pub(crate) secret: u64,
    /// Tells one start of the machine from the next.
    pub(crate) boot: u64,
    /// Counts the starts of the server.
    pub(crate) generation: u32,
    /// Files of generations below this one count no longer.
    pub(crate) oldest: u32,
    /// Generations below this one may have lost what the disk did not have: the power failed.
    pub(crate) lost_power_below: u32,
    /// Numbers of files from this one on were never used.
    pub(crate) numbers_below: u32,
    pub(crate) state: State,
    /// How many files journals had when the folder was closed. `None` while it is open, or if an
    /// earlier version has closed it.
    pub(crate) files: Option<u32>,
}

impl Manifest {
    fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.secret.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.boot.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.generation.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.lost_power_below.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.numbers_below.to_le_bytes());
        bytes[48] = u8::from(self.state == State::Closed);
        bytes[49] = u8::from(self.files.is_some());
        bytes[52..56].copy_from_slice(&self.files.unwrap_or(0).to_le_bytes());
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` for what is damaged; the format if it is newer.
    fn decode(file: &[u8]) -> Result<Option<Self>, u32> {
        let Some(bytes) = file.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        if &bytes[..8] != MAGIC || word(bytes, 12) != checksum(bytes) {
            return Ok(None);
        }
        if word(bytes, 8) != FORMAT {
            return Err(word(bytes, 8));
        }
        Ok(Some(Self {
            secret: double_word(bytes, 16),
            boot: double_word(bytes, 24),
            generation: word(bytes, 32),
            oldest: word(bytes, 36),
            lost_power_below: word(bytes, 40),
            numbers_below: word(bytes, 44),
            state: match bytes[48] {
                1 => State::Closed,
                _ => State::Open,
            },
            files: (bytes[49] == 1).then(|| word(bytes, 52)),
        }))
    }

    /// Reads the file or its copy; `None` if it is missing or damaged.
    ///
    /// # Errors
    /// When it cannot be read, or a later version wrote it.
    pub(crate) fn load<D: Disk>(disk: &D, name: &str) -> Result<Option<Self>, OpenError> {
        let bytes = match disk.read(name) {
            // A folder, a pipe or a device has its name.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            read => read.map_err(|error| OpenError::Read {
                file: name.into(),
                error,
            })?,
        };
        let decoded = bytes.map_or(Ok(None), |bytes| Self::decode(&bytes));
        decoded.map_err(|format| OpenError::Newer {
            file: name.into(),
            format,
        })
    }

    /// Writes the file and its copy: the old one stays until the new one is complete. Where that
    /// fails, since the disk is full for example, it is written over the old one, which takes no
    /// room.
    ///
    /// # Errors
    /// When it could not be written; then the file says what it said before, or this.
    pub(crate) fn save<D: Disk>(&self, disk: &D) -> io::Result<()> {
        let bytes = self.encode();
        for name in [FILE, COPY] {
            let temporary = format!("{name}{NEW_SUFFIX}");
            let anew = disk.write(&temporary, &bytes);
            let anew = anew.and_then(|()| disk.rename(&temporary, name));
            if let Err(error) = anew {
                // The first error is the one to tell.
                disk.overwrite(name, &bytes).map_err(|_| error)?;
            }
        }
        disk.sync_names()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use stentor_disk::simulated::{Operation, SimulatedDisk};

    use super::*;

    const MANIFEST: Manifest = Manifest {
        secret: u64::MAX - 1,
        boot: 7,
        generation: 9,
        oldest: 8,
        lost_power_below: 4,
        numbers_below: 70_000,
        state: State::Closed,
        files: Some(12),
    };

    #[test]
    fn it_is_read_back_and_every_flipped_bit_shows() {
        let bytes = MANIFEST.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(Some(MANIFEST)));
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Manifest::decode(&damaged), Ok(None), "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 2;
        let check = checksum(&newer);
        newer[12..16].copy_from_slice(&check.to_le_bytes());
        assert_eq!(Manifest::decode(&newer), Err(2));
    }

    #[test]
    fn it_is_written_on_a_full_disk() {
        let disk = SimulatedDisk::new(1);
        MANIFEST.save(&disk).unwrap();
        let next = Manifest {
            generation: 10,
            state: State::Open,
            files: None,
            ..MANIFEST
        };
        disk.break_down(Some((Operation::Write, ErrorKind::StorageFull)));
        next.save(&disk).unwrap();
        for name in [FILE, COPY] {
            assert_eq!(Manifest::load(&disk, name).unwrap(), Some(next));
        }
    }
}
