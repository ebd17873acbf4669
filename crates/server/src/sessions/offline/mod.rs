//! The sessions of a stopped server: checking, exporting and importing them.
//!
//! ```text
//! mod       the folder, and why it cannot be used      fields    the fields of a JSON object
//! verify    what is there, and what is damaged         line      sessions and messages as JSON
//! export    sessions as lines of JSON                  room      permanent rooms as JSON
//! import    from these lines                           write     a session as records
//! ```

mod export;
mod fields;
mod import;
mod line;
mod room;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use stentor_disk::{Disk, MappedDisk, Region};
use stentor_session_log::{Chunk, RestoredChunk, RestoredSession};
use stentor_session_store::{Earlier, Found, OpenError, read};
use stentor_spool::{NotRead, Place, Reader};
use stentor_topic::Zone;

use crate::config::Config;
use crate::error::ServerError;
use crate::lifecycle::{SPOOL_FOLDER, boot, sessions_dir};
use crate::retained::{Access, OfflineError, OfflineStore};

pub use export::{Exported, export_sessions};
pub use import::{Ended, ImportOptions, Imported, Refused, SessionsImport};
pub use verify::{DamagedPlace, HarmedSession, Outcome, SessionsReport, verify_sessions};

/// Why the sessions of a stopped server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// There are none.
    #[error(
        "there are no sessions in {}: name the server's data folder with --data-dir, or its \
         configuration file with --config",
        path.display()
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A server or another command has it.
    #[error(
        "a server, or another command, uses {}: while a server runs, its files change all the \
         time; stop it (`stentor stop`) and run this command again, or do both with a copy that \
         was made while it was stopped",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// There are none, and the data folder has something else in it.
    #[error(
        "{} has files in it and nothing of a server, so no sessions are made there: name the \
         server's data folder or a new one with --data-dir; if this is meant, start a server on it \
         first",
        path.display()
    )]
    Elsewhere {
        /// The data folder.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("{} cannot be used: {error}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A later version wrote it, or it cannot be read.
    #[error("{} cannot be used: {error}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
    /// The numbers of zones are not known.
    #[error("the names of zones cannot be read: {0}")]
    Zones(#[from] OfflineError),
    /// The data folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] ServerError),
    /// The file `zones` does not name a zone.
    #[error(
        "the file `zones` of the data folder names no zone with number {0}, in which there are \
         sessions: copy it back from where these files come from. If the zone was removed, start \
         and stop the server, which ends these sessions"
    )]
    NoZone(u32),
    /// Messages wait that only a server gives to their sessions.
    #[error(
        "the server was killed while messages were on their way from one shard to another, and \
         only a server knows which sessions get them: start it, stop it with `stentor stop`, and \
         run this command again"
    )]
    OnTheWay,
    /// The configuration does not keep sessions.
    #[error(
        "the configuration has `sessions.enabled = false`, so no server would read what is \
         imported: set it to true"
    )]
    Disabled,
}

impl SessionsError {
    /// Whether a server or another command uses the files.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::InUse { .. }
                | Self::DataDir(ServerError::DataDirInUse { .. } | ServerError::DataDirBusy { .. })
        )
    }

    fn of_disk(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::WouldBlock => Self::InUse { path },
            _ => Self::Unusable { path, error },
        }
    }
}

/// The files of a stopped server, which are read and not changed.
struct Files {
    folder: PathBuf,
    found: Found<<MappedDisk as Disk>::Region>,
    spool: Reader<MappedDisk>,
    /// Keeps servers away.
    _disk: MappedDisk,
}

impl Files {
    fn open(config: &Config) -> Result<Self, SessionsError> {
        let folder = sessions_dir(config, &config.general.data_dir);
        if !folder.is_dir() {
            return Err(SessionsError::Missing { path: folder });
        }
        let fail = |error| SessionsError::of_disk(&folder, error);
        let disk = MappedDisk::read_only(&folder).map_err(fail)?;
        let spool_folder = folder.join(SPOOL_FOLDER);
        let spool = MappedDisk::read_only(&spool_folder);
        let spool = spool.map_err(|error| SessionsError::of_disk(&spool_folder, error))?;
        let found = read(&disk, boot()).map_err(|error| SessionsError::Open {
            path: folder.clone(),
            error,
        })?;
        Ok(Self {
            folder,
            found,
            spool: Reader::new(spool),
            _disk: disk,
        })
    }
}

/// Whether the sessions that a configuration names can be read now.
///
/// # Errors
/// When a server runs, or the files cannot be read.
pub fn check_sessions(config: &Config) -> Result<(), SessionsError> {
    Files::open(config).map(drop)
}

/// The starts after which the power failed. A file of backlogs that is missing then had only
/// messages that were delivered.
fn lost_power<R: Region>(earlier: &Earlier<R>) -> BTreeSet<u32> {
    let all = earlier.figures().filter(|it| it.has_lost_power);
    all.map(|it| it.generation).collect()
}

/// What it means that a part of a backlog is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Nothing: after a power loss, its messages were delivered before.
    Delivered,
    /// Its messages are lost.
    Lost,
}

impl Missing {
    /// What it means for a session, by the generations that ended with a power loss.
    fn of<M>(session: &RestoredSession<M>, lost_power: &BTreeSet<u32>) -> Self {
        match lost_power.contains(&session.origin.generation) {
            true => Self::Delivered,
            false => Self::Lost,
        }
    }
}

/// Reads a part of the backlog of a session. What is somebody else's counts as damaged.
fn read_chunk<D: Disk, M>(
    spool: &mut Reader<D>,
    session: &RestoredSession<M>,
    chunk: &RestoredChunk,
) -> Result<Vec<u8>, NotRead> {
    let place = Place {
        file: NonZeroU32::new(chunk.place.file).ok_or(NotRead::Missing)?,
        at: chunk.place.at,
        len: chunk.place.len,
    };
    let bytes = spool.read(place)?;
    let is_its = Chunk::decode(&bytes).is_ok_and(|content| {
        // A chunk counts deliveries from 1 on.
        (content.zone, content.client_id, content.first)
            == (session.zone, &*session.client_id, chunk.first + 1)
            && content.deliveries.len() == usize::from(chunk.count)
    });
    match is_its {
        true => Ok(bytes),
        false => Err(NotRead::Damaged),
    }
}

/// The names of zones, which are read when somebody asks.
struct ZoneNames<'c> {
    config: &'c Config,
    store: Option<OfflineStore>,
}

impl<'c> ZoneNames<'c> {
    const fn new(config: &'c Config) -> Self {
        Self {
            config,
            store: None,
        }
    }

    /// The name of a zone; its number in words where it has none any more.
    fn name(&mut self, zone: u32) -> Result<String, SessionsError> {
        let known = self.known(zone)?;
        Ok(known.unwrap_or_else(|| zone.to_string()))
    }

    /// The name of a zone, if it has one still: a start ends sessions of other ones.
    fn known(&mut self, zone: u32) -> Result<Option<String>, SessionsError> {
        if Zone(zone) == Zone::DEFAULT {
            return Ok(Some(stentor_auth::model::DEFAULT_ZONE.to_owned()));
        }
        let store = match self.store.take() {
            Some(store) => store,
            None => OfflineStore::open(self.config, Access::Compare)?,
        };
        let name = store.zone_name(Zone(zone));
        self.store = Some(store);
        Ok(name)
    }
}
