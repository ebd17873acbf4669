//! The retained messages of a stopped server.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use stentor_auth::store::{AuditLog, ZoneNumbers};
use stentor_disk::MappedDisk;
use stentor_hub::NotKept;
use stentor_retained::{OpenError, Store, StoreOptions, Sync};
use stentor_session::{Message, Tick};
use stentor_topic::Zone;
use stentor_zone::check_name;
use tracing::warn;

use super::{Entry, RetainedAdmin, TopicBounds, ZoneNames, clear_zone};
use crate::accounts::AUDIT_LOG;
use crate::config::Config;
use crate::control::Subject;
use crate::data_dir::is_free;
use crate::lifecycle::{boot, quotas, random, retained_dir};
use crate::log;
use crate::logins::zone_files;

/// The store of a stopped server, for this process alone.
#[derive(Debug)]
pub struct OfflineStore {
    store: Store<MappedDisk>,
    zones: Zones,
    bounds: TopicBounds,
    access: Access,
    /// Where there was no store before.
    missing: Option<PathBuf>,
    /// Where changes are noted.
    audit: PathBuf,
}

/// What the files of a stopped server are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written: damage is repaired only in memory.
    Read,
    /// The same; a store that is not there passes for an empty one where [`Access::Make`] would
    /// make it.
    Compare,
    /// Messages are changed, and damage is repaired.
    Change,
    /// The same; a store that is not there is made, as a server would.
    Make,
}

/// Why the store of a stopped server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is none.
    #[error(
        "there are no retained messages in {}: name the server's data folder with --data-dir, or \
         its configuration file with --config",
        path.display()
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// There is none, and the data folder has something else in it.
    #[error(
        "{} has files in it and nothing of a server, so no store is made there: name the server's \
         data folder or a new one with --data-dir; if this is meant, start a server on it first",
        path.display()
    )]
    Elsewhere {
        /// The data folder.
        path: PathBuf,
    },
    /// Somebody has it, and no server answers on the control socket of this data folder.
    #[error(
        "a server that does not answer on the control socket of this data folder, or another \
         `stentor retained` command, uses {}",
        path.display()
    )]
    InUse {
        /// The folder.
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
    /// It was written by a later version, or cannot be read.
    #[error("{} cannot be used: {error}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
}

impl OfflineStore {
    /// Opens the store of a configuration, whose quotas hold.
    ///
    /// # Errors
    /// When there is none, or a server runs on it.
    pub fn open(config: &Config, access: Access) -> Result<Self, OfflineError> {
        Self::open_for(config, access, 0)
    }

    /// The same where sessions have numbers of zones up to this one.
    pub(crate) fn open_for(
        config: &Config,
        access: Access,
        used_by_sessions: u32,
    ) -> Result<Self, OfflineError> {
        let data_dir = &config.general.data_dir;
        let path = retained_dir(config, data_dir);
        let missing = (!path.is_dir()).then(|| path.clone());
        if missing.is_some() {
            match access {
                Access::Read | Access::Change => return Err(OfflineError::Missing { path }),
                Access::Compare => check_place(data_dir)?,
                Access::Make => make(data_dir)?,
            }
        }
        let disk = match access {
            Access::Read | Access::Compare => MappedDisk::read_only(&path),
            Access::Change | Access::Make => MappedDisk::new(&path),
        };
        let disk = disk.map_err(|error| {
            let path = path.clone();
            match error.kind() {
                io::ErrorKind::WouldBlock => OfflineError::InUse { path },
                _ => OfflineError::Unusable { path, error },
            }
        })?;
        let (total, zone) = quotas(config);
        let options = StoreOptions {
            // There are no threads; `ask` commits what it changed.
            sync: Sync::Interval(config.retained.sync_interval),
            total,
            zone,
            // So that times before now are ticks as well.
            started_at: SystemTime::UNIX_EPOCH,
            now: now(),
            random: random(),
            boot: boot(),
        };
        let store =
            Store::open(disk, &options).map_err(|error| OfflineError::Open { path, error })?;
        let of_rooms = config.rooms.iter().map(|room| &room.zone);
        let named = config.zones.iter().map(|zone| &zone.name);
        let mut files = zone_files(config, data_dir, &store);
        files.used = files.used.max(used_by_sessions);
        let zones = match access {
            Access::Read | Access::Compare => ZoneNumbers::read(&files),
            Access::Change | Access::Make => ZoneNumbers::open(&files),
        };
        let zones = zones.map_err(|error| OfflineError::Unusable {
            path: files.own,
            error,
        })?;
        Ok(Self {
            store,
            zones: Zones {
                numbers: zones,
                configured: named.chain(of_rooms).cloned().collect(),
            },
            bounds: TopicBounds::new(&config.limits),
            access,
            missing,
            audit: data_dir.join(AUDIT_LOG),
        })
    }

    /// The folder of the store, if there was none before: with [`Access::Make`] it is made by now,
    /// with [`Access::Compare`] it is not.
    #[must_use]
    pub fn missing(&self) -> Option<&Path> {
        self.missing.as_deref()
    }

    /// The name of a zone that has one.
    pub(crate) fn zone_name(&self, zone: Zone) -> Option<String> {
        self.zones.numbers.name(zone)
    }

    /// The number of a zone, which gets one if it has none and `takes_new` holds.
    ///
    /// # Errors
    /// A sentence that says why it gets none.
    pub(crate) fn zone_number(&self, name: &str, takes_new: bool) -> Result<Zone, String> {
        check_zone(name)?;
        if !takes_new && !self.zones.exists(name) {
            return Err(unknown_zone(name));
        }
        self.zones.number(name)
    }

    /// The number of a zone that has one.
    pub(crate) fn known_zone(&self, name: &str) -> Option<Zone> {
        self.zones.numbers.known(name)
    }

    /// Answers a request of the control socket whose verb begins with `retained.`, and notes in the
    /// audit log what it changes, as a running server would.
    ///
    /// # Errors
    /// A sentence that says why it is refused.
    pub fn ask(&self, request: &Value) -> Result<Value, String> {
        let answer = self.answer(request);
        self.note(request, &answer);
        answer
    }

    /// Answers such a request.
    fn answer(&self, request: &Value) -> Result<Value, String> {
        let answer = self.with_admin(|admin| admin.answer(request.to_string().as_bytes()));
        answer.map_err(|refusal| refusal.message)
    }

    /// Clears all messages of a zone, as a part of another change, which has its own line.
    pub(crate) fn clear_zone(&self, zone: Zone) -> Result<u64, String> {
        let cleared = self.with_admin(|admin| clear_zone(admin, zone));
        cleared.map_err(|refusal| refusal.message)?.all()
    }

    fn with_admin<T>(&self, use_it: impl FnOnce(&RetainedAdmin<'_>) -> T) -> T {
        let restore = |(message, received_ms): Entry| {
            let message: &Message = &message;
            self.store.restore(message, received_ms, None).map(|_| ())
        };
        use_it(&RetainedAdmin {
            store: &self.store,
            now: now(),
            zones: &self.zones,
            bounds: &self.bounds,
            keep: &|entries| {
                let mut kept: Vec<_> = entries.into_iter().map(restore).collect();
                if !self.store.commit() {
                    kept.fill(Err(NotKept::Failed));
                }
                kept
            },
            commit: &|| self.store.commit(),
        })
    }

    fn note(&self, request: &Value, answer: &Result<Value, String>) {
        let verb = request["verb"].as_str().unwrap_or_default();
        let Some(subject) = Subject::of(verb, request.to_string().as_bytes()) else {
            return;
        };
        let audit = AuditLog::open(&self.audit);
        let answer = answer.as_ref().map_err(String::as_str);
        if let Err(error) = subject.note_offline(&audit, answer) {
            log::warn_on_stderr();
            warn!(what = verb, "the audit log cannot be written: {error}");
        }
    }
}

/// The system's clock, as the store's.
fn now() -> Tick {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Tick::ZERO.after(since.unwrap_or_default())
}

impl Drop for OfflineStore {
    fn drop(&mut self) {
        match self.access {
            Access::Read | Access::Compare => {}
            Access::Change | Access::Make => {
                if self.store.commit() {
                    self.store.close();
                }
            }
        }
    }
}

/// The zones that a stopped server is known to have had, and those of its configuration.
#[derive(Debug)]
struct Zones {
    numbers: ZoneNumbers,
    configured: Vec<String>,
}

impl ZoneNames for Zones {
    fn name(&self, zone: Zone) -> String {
        let name = self.numbers.name(zone);
        name.unwrap_or_else(|| zone.get().to_string())
    }

    fn exists(&self, name: &str) -> bool {
        self.known(name).is_some() || self.configured.iter().any(|it| it == name)
    }

    fn known(&self, name: &str) -> Option<Zone> {
        self.numbers.known(name)
    }

    fn number(&self, name: &str) -> Result<Zone, String> {
        let number = self.numbers.number(name);
        number.map_err(|error| not_noted(name, &error))
    }
}

/// Refuses to make a store in a folder of somebody else's: its name was a mistake.
fn check_place(data_dir: &Path) -> Result<(), OfflineError> {
    let path = data_dir.to_owned();
    match is_free(data_dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OfflineError::Elsewhere { path }),
        Err(error) => Err(OfflineError::Unusable { path, error }),
    }
}

/// Makes a data folder if it is missing.
fn make(data_dir: &Path) -> Result<(), OfflineError> {
    check_place(data_dir)?;
    let path = data_dir.to_owned();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .map_err(|error| OfflineError::Unusable { path, error })
}

/// There is no such zone.
pub(super) fn unknown_zone(name: &str) -> String {
    format!(
        "there is nothing of a zone {name:?}; `stentor zone list` lists the zones, and with \
         --new-zones others are taken too"
    )
}

/// Refuses what no zone can be called.
pub(super) fn check_zone(name: &str) -> Result<(), String> {
    check_name(name).map_err(|error| format!("{name:?} is not a valid name of a zone: {error}"))
}

/// The number of a new zone could not be written down.
pub(crate) fn not_noted(name: &str, error: &io::Error) -> String {
    format!("the zone {name:?} cannot be written down: {error}")
}
