//! Sessions from lines of JSON.
//!
//! Sessions that cannot be imported whole are refused whole. One that is there already is left
//! alone, unless it is to be replaced. So the same import may be run again.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::json;
use stentor_auth::store::AuditLog;
use stentor_disk::MappedDisk;
use stentor_session_log::{Origin, Presence, Restored, RestoredSession};
use stentor_session_store::{Adder, Options};
use stentor_spool::{Folder, Place};
use stentor_zone::Unambiguous;
use tracing::warn;

use super::SessionsError;
use super::line::{Line, MessageLine, SessionLine, Whose, read};
use super::room::{RoomLine, room_batch};
use super::write::{Pending, Target, Unwritten};
use crate::accounts::AUDIT_LOG;
use crate::config::Config;
use crate::data_dir::{DataDir, is_free};
use crate::lifecycle::{
    SESSION_BOUNDS, SPOOL_FOLDER, boot, keep_the_latest, random, sessions_dir, sync_of,
};
use crate::log;
use crate::retained::{Access, OfflineStore};

/// Sessions and rooms that a folder may have.
const COUNT_MAX: u32 = 50_000_000;

/// Commas of a line: a session with a million subscriptions has fewer.
const COMMAS_MAX: usize = 10_000_000;

/// How to import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// What is there already is replaced, and not left alone.
    pub replace: bool,
    /// Zones that do not exist yet are taken too.
    pub new_zones: bool,
}

/// What an import came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Sessions that are new.
    pub new: u64,
    /// Sessions that were there, and are replaced.
    pub replaced: u64,
    /// Sessions that were there, and are left alone.
    pub left: u64,
    /// Sessions and lines that were refused.
    pub refused: u64,
    /// Messages of the new and the replaced ones.
    pub messages: u64,
    /// Rooms that are new or replaced.
    pub rooms: u64,
    /// Rooms that were there, and are left alone.
    pub rooms_left: u64,
}

/// Something that is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The line, counted from 1 on.
    pub line: u64,
    /// Whether it is only left alone, since it is there already.
    pub is_there: bool,
    /// A sentence that says why.
    pub reason: String,
}

/// An import that is under way, into the folder of a stopped server.
pub struct SessionsImport {
    options: ImportOptions,
    config: Config,
    target: Target,
    /// The numbers of zones, as soon as somebody asks.
    zones: Option<OfflineStore>,
    zone_max: u32,
    /// The sessions that are there.
    there: HashMap<Key, Origin>,
    /// The rooms that are there.
    rooms_there: HashSet<(u32, Box<str>)>,
    /// Those of this import.
    imported: HashSet<Key>,
    next: u32,
    current: Current,
    /// The number of the line that was read last.
    number: u64,
    /// What is not imported, and was not told yet.
    told: Vec<Refused>,
    tally: Imported,
    /// While it is open, no server starts.
    _data_dir: DataDir,
}

/// The zone, the client id and the user of a session.
type Key = (u32, Box<str>, Option<Box<str>>);

/// The session whose messages follow.
enum Current {
    None,
    Taken(Box<Taken>),
    /// Its messages are passed over.
    PassedOver(Whose),
}

struct Taken {
    pending: Pending,
    key: Key,
    /// The number of its line.
    number: u64,
}

/// What ends an import early.
#[derive(Debug, thiserror::Error)]
#[error("{0}; sessions before it are imported, and the import can be run again")]
pub struct Ended(String);

impl SessionsImport {
    /// Opens the folder that a configuration names, which is made if it is missing.
    ///
    /// # Errors
    /// When a server runs, or the folder cannot be used.
    pub fn open(config: &Config, options: ImportOptions) -> Result<Self, SessionsError> {
        if !config.sessions.enabled {
            return Err(SessionsError::Disabled);
        }
        let path = &config.general.data_dir;
        check_place(path)?;
        let data_dir = DataDir::open_for_command(path)?;
        let folder = sessions_dir(config, &config.general.data_dir);
        let fail = |error| SessionsError::of_disk(&folder, error);
        let disk = MappedDisk::new(&folder).map_err(fail)?;
        let store = Options {
            boot: boot(),
            random: random(),
            shards: 1,
            bounds: SESSION_BOUNDS,
        };
        let adder = Adder::open(disk, store).map_err(|error| SessionsError::Open {
            path: folder.clone(),
            error,
        })?;
        let mut restored = adder.earlier().replay(sync_of(config), |_, _| ());
        let chunks = restored.sessions.iter().flat_map(|it| &it.spooled);
        let needed = chunks.filter_map(|chunk| {
            let file = NonZeroU32::new(chunk.place.file)?;
            let (at, len) = (chunk.place.at, chunk.place.len);
            Some(Place { file, at, len })
        });
        let spool_folder = folder.join(SPOOL_FOLDER);
        let of_spool = |error| SessionsError::of_disk(&spool_folder, error);
        let disk = MappedDisk::new(&spool_folder).map_err(of_spool)?;
        let spool = Folder::open(disk, needed, config.sessions.bytes);
        let (spool, _) = spool.map_err(of_spool)?;
        keep_the_latest(&mut restored.sessions);
        Ok(Self {
            zone_max: zone_max(&restored),
            there: {
                let lasting = restored
                    .sessions
                    .iter()
                    .filter(|it| !has_ended(it, now_ms()));
                lasting.map(key_and_origin).collect()
            },
            rooms_there: restored
                .rooms
                .iter()
                .map(|room| (room.zone, room.room.clone()))
                .collect(),
            options,
            config: config.clone(),
            target: Target {
                adder,
                spool,
                has_spool: config.sessions.client_bytes > 0,
            },
            zones: None,
            imported: HashSet::new(),
            next: 0,
            current: Current::None,
            number: 0,
            told: Vec::new(),
            tally: Imported::default(),
            _data_dir: data_dir,
        })
    }

    /// Takes a line, which has this number. Returns what is not imported, as far as that is known.
    ///
    /// # Errors
    /// When the disk takes no more.
    pub fn line(&mut self, number: u64, line: &[u8]) -> Result<Vec<Refused>, Ended> {
        self.number = number;
        // In memory, a value takes far more than its two bytes in a line.
        if line.iter().filter(|byte| **byte == b',').count() > COMMAS_MAX {
            self.refuse_line(format!("it has more than {COMMAS_MAX} commas"))?;
            return Ok(std::mem::take(&mut self.told));
        }
        match Unambiguous::from_line(line).and_then(|value| read(&value)) {
            Ok(Line::Session(session)) => self.session(*session)?,
            Ok(Line::Message(message)) => self.message(*message)?,
            Ok(Line::Room(room)) => self.room(*room)?,
            Err(reason) => self.refuse_line(reason)?,
        }
        Ok(std::mem::take(&mut self.told))
    }

    /// Refuses a line that was not read.
    ///
    /// # Errors
    /// When the disk takes no more.
    pub fn unread(&mut self, number: u64, reason: String) -> Result<Vec<Refused>, Ended> {
        self.number = number;
        self.refuse_line(reason)?;
        Ok(std::mem::take(&mut self.told))
    }

    /// Refuses this line. The session before it is whole if all of its messages have come; if not,
    /// this may have been one of them.
    fn refuse_line(&mut self, reason: String) -> Result<(), Ended> {
        let is_whole = |taken: &Taken| taken.pending.line.messages == Some(taken.pending.messages);
        match &self.current {
            Current::Taken(taken) if is_whole(taken) => {
                self.end_session()?;
                self.refuse(self.number, reason);
            }
            Current::Taken(_) => self.refuse_session(&reason),
            Current::None | Current::PassedOver(_) => self.refuse(self.number, reason),
        }
        Ok(())
    }

    /// Refuses this line, and with it the session whose messages follow.
    fn refuse_session(&mut self, reason: &str) {
        let Current::Taken(taken) = &self.current else {
            return;
        };
        let whose = taken.pending.line.whose.clone();
        let text = format!(
            "{reason}; the session {:?} is refused for that",
            whose.client_id
        );
        self.current = Current::PassedOver(whose);
        self.refuse(self.number, text);
    }

    fn refuse(&mut self, line: u64, reason: String) {
        self.tally.refused += 1;
        self.told.push(Refused {
            line,
            is_there: false,
            reason,
        });
    }

    fn leave(&mut self, what: &str) {
        self.told.push(Refused {
            line: self.number,
            is_there: true,
            reason: format!("{what} is there already, and is left alone; --replace replaces it"),
        });
    }

    /// Ends the session before, and begins this one.
    fn session(&mut self, line: SessionLine) -> Result<(), Ended> {
        self.end_session()?;
        let whose = line.whose.clone();
        self.current = Current::PassedOver(whose.clone());
        let zone = match self.zone(&whose.zone) {
            Ok(zone) => zone,
            Err(reason) => {
                self.refuse(self.number, reason);
                return Ok(());
            }
        };
        let key = (zone, whose.client_id.clone(), whose.user.clone());
        let what = format!("{:?}", whose.client_id);
        if self.imported.contains(&key) {
            self.refuse(self.number, format!("{what} is in the file twice"));
        } else if self.there.contains_key(&key) && !self.options.replace {
            self.tally.left += 1;
            self.leave(&what);
        } else if self.next >= COUNT_MAX {
            self.refuse(self.number, format!("there can be {COUNT_MAX} sessions"));
        } else {
            self.current = Current::Taken(Box::new(Taken {
                pending: Pending::new(line, zone),
                key,
                number: self.number,
            }));
        }
        Ok(())
    }

    fn message(&mut self, line: MessageLine) -> Result<(), Ended> {
        match &mut self.current {
            Current::PassedOver(whose) if *whose == line.whose => Ok(()),
            Current::Taken(taken) if taken.pending.line.whose == line.whose => {
                match taken.pending.push(&mut self.target, line) {
                    Ok(()) => Ok(()),
                    Err(Unwritten::Refused(reason)) => {
                        self.refuse_session(&reason);
                        Ok(())
                    }
                    Err(Unwritten::Disk(reason)) => Err(Ended(reason)),
                }
            }
            Current::None | Current::PassedOver(_) | Current::Taken(_) => {
                let id = &line.whose.client_id;
                let text = format!("the line of its session {id:?} does not precede it");
                self.refuse_line(text)
            }
        }
    }

    /// Writes the session whose messages have come.
    fn end_session(&mut self) -> Result<(), Ended> {
        let current = std::mem::replace(&mut self.current, Current::None);
        let Current::Taken(taken) = current else {
            return Ok(());
        };
        let Taken {
            pending,
            key,
            number,
        } = *taken;
        let (said, messages) = (pending.line.messages, pending.messages);
        if let Some(said) = said.filter(|said| *said != messages) {
            let id = &pending.line.whose.client_id;
            let text = format!("{id:?} has {said} messages, and {messages} of them follow");
            self.refuse(number, text);
            return Ok(());
        }
        let replaced = self.there.get(&key).copied();
        match pending.end(&mut self.target, self.next, replaced) {
            Ok(()) => {}
            Err(Unwritten::Refused(reason)) => {
                self.refuse(number, reason);
                return Ok(());
            }
            Err(Unwritten::Disk(reason)) => return Err(Ended(reason)),
        }
        self.next += 1;
        self.tally.messages += messages;
        match replaced {
            Some(_) => self.tally.replaced += 1,
            None => self.tally.new += 1,
        }
        self.imported.insert(key);
        Ok(())
    }

    fn room(&mut self, line: RoomLine) -> Result<(), Ended> {
        self.end_session()?;
        let zone = match self.zone(&line.zone) {
            Ok(zone) => zone,
            Err(reason) => {
                self.refuse(self.number, reason);
                return Ok(());
            }
        };
        let name = &line.room.room;
        if self.rooms_there.contains(&(zone, name.clone())) && !self.options.replace {
            self.tally.rooms_left += 1;
            self.leave(&format!("the room {name:?}"));
            return Ok(());
        }
        let appended = self.target.adder.append(&room_batch(&line.room, zone));
        appended.map_err(|error| Ended(error.to_string()))?;
        self.rooms_there.insert((zone, name.clone()));
        self.tally.rooms += 1;
        Ok(())
    }

    fn zone(&mut self, name: &str) -> Result<u32, String> {
        if name == stentor_auth::model::DEFAULT_ZONE {
            return Ok(0);
        }
        let zones = match self.zones.take() {
            Some(zones) => zones,
            None => OfflineStore::open_for(&self.config, Access::Make, self.zone_max)
                .map_err(|error| error.to_string())?,
        };
        let number = zones.zone_number(name, self.options.new_zones);
        self.zones = Some(zones);
        number.map(|zone| zone.get())
    }

    /// No more lines come, though there may be more: the last session may lack some of its
    /// messages, and is not imported.
    pub fn break_off(&mut self) {
        self.current = Current::None;
    }

    /// All lines have come: brings everything to the disk. Also returns what of the last session is
    /// refused.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end(mut self) -> Result<(Imported, Vec<Refused>), Ended> {
        self.end_session()?;
        let Target {
            adder, mut spool, ..
        } = self.target;
        let ended = spool.flush().and_then(|()| adder.end());
        ended.map_err(|error| Ended(error.to_string()))?;
        note(&self.config, &self.tally);
        Ok((self.tally, self.told))
    }
}

/// No stranger's folder becomes a data folder for a wrong word of the command.
fn check_place(path: &Path) -> Result<(), SessionsError> {
    let path = path.to_owned();
    match is_free(&path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SessionsError::Elsewhere { path }),
        Err(error) => Err(SessionsError::Unusable { path, error }),
    }
}

/// Notes the import in the audit log.
fn note(config: &Config, tally: &Imported) {
    let audit = AuditLog::open(&config.general.data_dir.join(AUDIT_LOG));
    let who = format!("uid {} by a command", nix::unistd::getuid());
    let detail = json!(tally);
    if let Err(error) = audit.note(&who, "sessions.import", "sessions", detail) {
        log::warn_on_stderr();
        warn!(
            what = "sessions.import",
            "the audit log cannot be written: {error}"
        );
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Whether a session has expired: the next start does not go on with it.
fn has_ended<M>(session: &RestoredSession<M>, now_ms: u64) -> bool {
    match session.presence {
        Presence::Away { until_ms, .. } => until_ms.is_some_and(|until_ms| until_ms <= now_ms),
        Presence::Here => false,
    }
}

fn key_and_origin<M>(it: &RestoredSession<M>) -> (Key, Origin) {
    let key = (it.zone, it.client_id.clone(), it.user.clone());
    (key, it.origin)
}

fn zone_max<M>(restored: &Restored<M>) -> u32 {
    let sessions = restored.sessions.iter().map(|session| session.zone);
    let rooms = restored.rooms.iter().map(|room| room.zone);
    sessions.chain(rooms).max().unwrap_or(0)
}
