//! The sessions of earlier starts: opening their journals, and going on with them.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use stentor_auth::center::{Center, Returning};
use stentor_auth::model::UserKey;
use stentor_disk::MappedDisk;
use stentor_hub::{
    Owner, PriorSession, Start, WrittenSession, home_of_zone, home_shard, prior_message,
    prior_sessions,
};
use stentor_journal::Bounds;
use stentor_session::Message;
use stentor_session_log::{DamageKind, Restored, RestoredRoom, RestoredSession};
use stentor_session_store::{
    JournalMaintenance, Opened, Options, StoreEvent, Sync, Watcher, open as open_journals,
};
use stentor_spool::{Folder, Place, Spool};
use stentor_topic::Zone;
use tracing::{info, warn};

use super::retained::{boot, folder as retained_folder};
use super::start::random;
use crate::clock::Clock;
use crate::config::{Config, SessionSync};
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::queues::Queues;
use crate::sessions::{
    self, Found, Gate, Heritage, Journals, Owners, SpoolMessenger, Spooling, wake,
};

/// The folder of the backlogs in that of the journals.
pub(crate) const SPOOL_FOLDER: &str = "spool";
/// The folder of the journals in the data folder.
const FOLDER: &str = "sessions";
/// Damaged places that the log tells one by one.
const REPORTS_MAX: usize = 20;

/// The journal of each shard: it grows by files of this size. The largest CONNECT fits into one.
pub(crate) const BOUNDS: Bounds = Bounds {
    segment_bytes: 2 << 20,
    ahead: 5,
    reserve: 2,
    segments_max: 1 << 16,
};

/// Where the journals of a configuration are; relative paths start where the command does.
pub(crate) fn folder(config: &Config, data_dir: &Path) -> PathBuf {
    let folder = config.sessions.dir.clone();
    folder.unwrap_or_else(|| data_dir.join(FOLDER))
}

/// Journals that were opened and read.
pub(super) struct Prior {
    opened: Opened<MappedDisk>,
    restored: Restored<Arc<Message>>,
    start: Start,
    sync: Sync,
    folder: PathBuf,
    damaged: u64,
    /// Bytes that backlogs may have on the disk.
    spool_bytes_max: u64,
}

/// Opens the journals that a configuration asks for, if it does, reads what is in them, and tells
/// what was found damaged.
///
/// # Errors
/// When the folder cannot be used, or a later version wrote it.
pub(super) fn open(
    config: &Config,
    data_dir: &Path,
    clock: Clock,
    shards: u8,
) -> Result<Option<Prior>, ServerError> {
    if !config.sessions.enabled {
        return Ok(None);
    }
    let folder = folder(config, data_dir);
    let fail = |reason: String| ServerError::SessionsDir {
        path: folder.clone(),
        reason,
    };
    if folder == retained_folder(config, data_dir) {
        return Err(fail("`retained.dir` is the same folder".to_owned()));
    }
    let disk = MappedDisk::new(&folder).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ServerError::SessionsDirInUse {
            path: folder.clone(),
        },
        _ => fail(error.to_string()),
    })?;
    let options = Options {
        boot: boot(),
        random: random(),
        shards: shards.into(),
        bounds: BOUNDS,
    };
    let opened = open_journals(disk, options).map_err(|error| fail(error.to_string()))?;
    let sessions = &config.sessions;
    let start = Start {
        now: clock.now(),
        zero_ms: zero_ms(clock),
        will_grace_secs: u32::try_from(sessions.will_grace.as_secs()).unwrap_or(u32::MAX),
    };
    let sync = sync_of(config);
    let mut restored = opened
        .earlier
        .replay(sync, |name, body| prior_message(&start, name, body));
    keep_the_latest(&mut restored.sessions);
    let damaged = tell_damage(&opened, &restored, &folder);
    Ok(Some(Prior {
        opened,
        restored,
        start,
        sync,
        folder,
        damaged,
        spool_bytes_max: sessions.bytes,
    }))
}

/// The time at the start of the clock, in milliseconds since 1970.
pub(super) fn zero_ms(clock: Clock) -> u64 {
    let since = clock
        .started_at()
        .duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// When what sessions are comes to the disk, by a configuration.
pub(crate) const fn sync_of(config: &Config) -> Sync {
    match config.sessions.sync {
        SessionSync::Never => Sync::Never,
        SessionSync::Interval => Sync::Interval(config.sessions.sync_interval),
        SessionSync::Always => Sync::Always,
    }
}

/// A session may be there twice, if a server was killed on a full disk before it had taken over
/// what was there. The later one counts.
pub(crate) fn keep_the_latest<M>(sessions: &mut Vec<RestoredSession<M>>) {
    let mut latest = HashMap::new();
    let key = |session: &RestoredSession<M>| {
        (
            session.zone,
            session.client_id.clone(),
            session.user.clone(),
        )
    };
    for session in &*sessions {
        latest.insert(key(session), session.origin);
    }
    sessions.retain(|session| latest.get(&key(session)) == Some(&session.origin));
}

/// Tells what was found damaged. Returns how many places there are.
fn tell_damage(
    opened: &Opened<MappedDisk>,
    restored: &Restored<Arc<Message>>,
    folder: &Path,
) -> u64 {
    for trouble in opened.troubles.iter().take(REPORTS_MAX) {
        warn!(
            file = trouble.file,
            trouble = ?trouble.kind,
            "a file of the sessions is not as it was left"
        );
    }
    for damage in restored.damage.iter().take(REPORTS_MAX) {
        let (file, offset) = match damage.kind {
            DamageKind::Gap { file, from, .. } => (Some(file), Some(from)),
            DamageKind::Batch(name, _) => (Some(name.file), Some(name.offset)),
            DamageKind::Files(_) | DamageKind::Orphans { .. } => (None, None),
        };
        warn!(file, offset, what = ?damage.kind, "a damaged place among the sessions");
    }
    let places = opened.troubles.len() + restored.damage.len();
    if places > 0 {
        let may_lack = restored
            .sessions
            .iter()
            .filter(|it| !it.may_lack.is_empty())
            .count();
        warn!(
            places,
            sessions = restored.sessions.len(),
            sessions_that_may_lack_something = may_lack,
            "damage was found among the sessions in {}: what could not be read is lost",
            folder.display()
        );
    }
    places as u64
}

/// What the shards begin with.
#[derive(Default)]
pub(super) struct Dealt {
    /// One for each shard; none if nothing is written down.
    pub(super) heritages: Vec<Heritage>,
    pub(super) maintenance: Option<JournalMaintenance<MappedDisk>>,
    pub(super) spool: Option<Spool>,
    /// The users of these sessions.
    pub(super) owners: Option<Owners>,
}

impl Prior {
    /// The highest number of a zone that sessions or rooms have.
    pub(super) fn zone_max(&self) -> u32 {
        let zones = self.restored.sessions.iter().map(|session| session.zone);
        let rooms = self.restored.rooms.iter().map(|room| room.zone);
        zones.chain(rooms).max().unwrap_or(0)
    }

    /// The journals as others see them.
    pub(super) fn journals(&self) -> Journals {
        Journals {
            folder: self.folder.clone(),
            found: Found {
                restored: AtomicU64::new(0),
                damaged: self.damaged,
            },
            monitor: self.opened.maintenance.monitor(),
            spool: OnceLock::new(),
            looker: OnceLock::new(),
            unreadable: AtomicU64::new(0),
        }
    }

    /// Starts the maintenance thread, and deals sessions and rooms to the shards.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn deal(
        mut self,
        mut queues: Queues,
        center: &Center,
        context: &Arc<ServerContext>,
    ) -> io::Result<Dealt> {
        let Opened {
            earlier,
            writers,
            maintenance,
            ..
        } = self.opened;
        let watcher = Arc::new(Messenger(Arc::downgrade(context)));
        let maintenance = maintenance.start(self.sync, earlier, watcher)?;
        let all = writers.iter().map(|_| sessions::Prior::default());
        let mut priors: Vec<sessions::Prior> = all.collect();
        let (mut users, mut homeless) = (HashSet::new(), 0_usize);
        let identify = |session: &WrittenSession| {
            homeless += usize::from(center.zone_of(Zone(session.zone)).is_none());
            if Queues::is_one(session) {
                return queues.owner(session).map(|identity| (identity, None));
            }
            let owner = identify(session, center, context)?;
            if let Some(user) = &owner.0.user {
                let zone = center.zone_of(owner.0.zone)?;
                users.insert(UserKey::new(zone, Arc::clone(user)));
            }
            Some(owner)
        };
        let prior_rooms = std::mem::take(&mut self.restored.rooms);
        let (count, hasher) = (context.shard_count(), &context.hasher);
        let mut prior = prior_sessions(self.restored, &self.start, identify);
        let restored = prior.len();
        let now_ms = self.start.zero_ms + self.start.now.as_micros() / 1_000;
        let spool = open_spool(&self.folder, self.spool_bytes_max, &mut prior)?;
        let spool = start_spool(spool, context)?;
        for session in prior.into_iter().chain(queues.begin(now_ms)) {
            let zone = session.identity.zone;
            let home = home_shard(hasher, zone, &session.client_id, count);
            priors[usize::from(home.0)].sessions.push(session);
        }
        let prior_rooms = prior_rooms.into_iter();
        deal_rooms(
            prior_rooms.filter(|room| center.zone_of(Zone(room.zone)).is_some()),
            &mut priors,
            count,
        );
        tell_restored(restored, homeless, context);
        let gate = Arc::new(Gate::new(writers.len()));
        let owners = (restored > 0).then(|| Owners::new(users, &gate));
        let all = (0..).zip(writers.into_iter().zip(priors));
        let heritages = all.map(|(shard, (writer, prior))| {
            let gate = Arc::clone(&gate);
            Heritage {
                writer,
                spooling: Spooling::new(spool.handle(shard)),
                syncs_first: self.sync == Sync::Always,
                prior,
                gate,
            }
        });
        Ok(Dealt {
            heritages: heritages.collect(),
            spool: Some(spool),
            maintenance: Some(maintenance),
            owners,
        })
    }
}

/// Tells how many sessions go on, and how many end since nobody knows their zones.
fn tell_restored(restored: usize, homeless: usize, context: &ServerContext) {
    if homeless > 0 {
        warn!(
            sessions = homeless,
            "sessions end, since the file `zones` of the data folder does not name their zones"
        );
    }
    if restored > 0 {
        info!(sessions = restored, "sessions go on that were there before");
        let found = context.journals.as_ref().map(|it| &it.found.restored);
        found.inspect(|found| found.store(restored as u64, Ordering::Relaxed));
    }
}

/// Gives each room to the home of its zone.
fn deal_rooms(all: impl Iterator<Item = RestoredRoom>, priors: &mut [sessions::Prior], shards: u8) {
    let mut rooms = 0_usize;
    for room in all {
        let home = home_of_zone(Zone(room.zone), shards);
        priors[usize::from(home.0)].rooms.push(room);
        rooms += 1;
    }
    if rooms > 0 {
        info!(rooms, "permanent rooms go on that were there before");
    }
}

/// Starts the threads of the backlogs.
fn start_spool(folder: Folder<MappedDisk>, context: &Arc<ServerContext>) -> io::Result<Spool> {
    let watcher = Arc::new(SpoolMessenger::new(context));
    let spool = Spool::start(folder, context.shard_count().into(), watcher)?;
    if let Some(journals) = &context.journals {
        // It is set once.
        let _ = journals.spool.set(spool.monitor());
        let _ = journals.looker.set(spool.looker());
    }
    Ok(spool)
}

/// Opens the backlogs that these sessions have on the disk. What is not there any more was
/// delivered, unless somebody has removed it.
fn open_spool(
    folder: &Path,
    bytes_max: u64,
    sessions: &mut [PriorSession],
) -> io::Result<Folder<MappedDisk>> {
    let folder = folder.join(SPOOL_FOLDER);
    let chunks = sessions.iter().flat_map(|it| &it.deliveries.spooled);
    let needed = chunks.filter_map(|chunk| {
        let file = NonZeroU32::new(chunk.place.file)?;
        let (at, len) = (chunk.place.at, chunk.place.len);
        Some(Place { file, at, len })
    });
    let disk = MappedDisk::new(&folder)?;
    let (opened, missing) = Folder::open(disk, needed, bytes_max)?;
    if !missing.is_empty() {
        let is_missing = |file: u32| missing.iter().any(|it| it.get() == file);
        let (mut messages, mut losers) = (0_usize, 0_usize);
        for session in sessions {
            let before = session.deliveries.spooled.len();
            session.deliveries.spooled.retain(|chunk| {
                let gone = is_missing(chunk.place.file);
                let left = usize::from(chunk.count) - chunk.gone.len();
                messages += if gone { left } else { 0 };
                !gone
            });
            losers += usize::from(before != session.deliveries.spooled.len());
        }
        warn!(
            messages,
            sessions = losers,
            files = missing.len(),
            "files of backlogs are not there: after a power loss, their messages were delivered \
             before; otherwise somebody has removed them from {}",
            folder.display()
        );
    }
    Ok(opened)
}

/// The client of a session, with the rights of the roles that it had, until the user database has
/// told of its user. A guest is not recognised after a restart.
fn identify(session: &WrittenSession, center: &Center, context: &ServerContext) -> Option<Owner> {
    if session.guest.is_some() {
        return None;
    }
    let (zone, user) = (Zone(session.zone), session.user.as_deref());
    let identity = center.returning(&Returning {
        zone,
        user,
        client_id: &session.client_id,
        roles: session.roles.iter().map(|it| Arc::from(&**it)).collect(),
        has_no_account: session.has_no_account,
        roles_are_of_credential: session.roles_are_of_credential,
    })?;
    let tenants = context.tenants.returning(&identity, session.owner);
    Some((identity, tenants))
}

/// Passes on what the maintenance thread says. The server context ends before it.
struct Messenger(Weak<ServerContext>);

impl Watcher for Messenger {
    fn wake(&self, shard: u16) {
        wake(&self.0, shard);
    }

    fn event(&self, event: StoreEvent) {
        match event {
            StoreEvent::Trouble(what) => {
                warn!(
                    "sessions are in trouble: {what}; while there is no room, messages to sessions \
                     that last are refused"
                );
            }
            StoreEvent::Recovered => info!("sessions are written down again"),
            StoreEvent::Forgotten => {}
        }
    }
}
