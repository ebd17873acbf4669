//! Which adaptors there are, each with what it is for, and how a configuration changes them.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use stentor_auth::center::Center;
use stentor_auth::model::DEFAULT_ZONE;
use stentor_auth::store::Directory;
use stentor_control::adaptors::{Adaptor as Shown, Refused};
use stentor_hub::HookRequest;
use stentor_procedure::adaptor::{Adaptor, Change, HOOKS, OnError, Options, Source, Start};
use stentor_topic::Zone;
use stentor_zone::Interest;
use tracing::info;

use super::Shared;
use super::job::shared;
use crate::config::{self, Config, OnTrouble};
use crate::error::ServerError;

/// Zones of which each has a machine and a thread of its own for an adaptor that is for all zones;
/// the others share one.
const ZONES_APART_MAX: usize = 64;

/// Adaptors that run at a time, each with a thread.
const ADAPTORS_MAX: usize = 1_000;

/// All adaptors. Replaced as a whole when the configuration changes.
#[derive(Default)]
pub(super) struct AdaptorSet {
    /// In the order in which they are asked.
    pub(super) all: Vec<Arc<Scoped>>,
    /// Those of each zone that is named by one of them, in the order of the zones' numbers, so that
    /// a zone does not pay for those of others.
    by_zone: Vec<(Zone, Vec<Arc<Scoped>>)>,
    /// Those of all other zones.
    others: Vec<Arc<Scoped>>,
}

/// A machine with its thread, and how it runs.
pub(super) struct Running {
    pub(super) adaptor: Adaptor,
    options: Mutex<Options>,
}

impl Running {
    /// The options are whole at any time.
    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An adaptor and what it is for.
pub(super) struct Scoped {
    pub(super) running: Arc<Running>,
    zone: Scope,
    /// Whether the configuration names no zone for it.
    is_wide: bool,
    /// `None` for all rooms and everything that is in none.
    room: Option<Box<str>>,
}

/// The zones that a running adaptor is for.
pub(super) enum Scope {
    One(Arc<str>, Zone),
    /// All but these.
    Others(Arc<[(Arc<str>, Zone)]>),
}

impl Scope {
    fn has(&self, zone: Zone) -> bool {
        match self {
            Self::One(_, own) => *own == zone,
            Self::Others(not) => not.iter().all(|(_, number)| *number != zone),
        }
    }
}

impl AdaptorSet {
    fn new(all: Vec<Arc<Scoped>>) -> Self {
        let named = all.iter().flat_map(|one| match &one.zone {
            Scope::One(_, zone) => vec![*zone],
            Scope::Others(not) => not.iter().map(|(_, zone)| *zone).collect(),
        });
        let mut zones: Vec<Zone> = named.collect();
        zones.sort_unstable_by_key(|zone| zone.get());
        zones.dedup();
        let of = |zone: Zone| all.iter().filter(|one| one.is_of(zone)).cloned().collect();
        let is_wide = |one: &&Arc<Scoped>| matches!(one.zone, Scope::Others(_));
        Self {
            by_zone: zones.into_iter().map(|zone| (zone, of(zone))).collect(),
            others: all.iter().filter(is_wide).cloned().collect(),
            all,
        }
    }

    /// The adaptors of a zone.
    pub(super) fn of(&self, zone: Zone) -> &[Arc<Scoped>] {
        let key = |(zone, _): &(Zone, Vec<Arc<Scoped>>)| zone.get();
        match self.by_zone.binary_search_by_key(&zone.get(), key) {
            Ok(at) => self.by_zone.get(at).map_or(&[], |(_, all)| all),
            Err(_) => &self.others,
        }
    }

    /// The adaptors that are asked about a request, in this order, each with the index of a filter
    /// of a SUBSCRIBE. Of several filters in one room, the adaptor is asked about the first.
    pub(super) fn steps(
        &self,
        zone: Zone,
        request: &HookRequest,
    ) -> VecDeque<(Arc<Scoped>, usize)> {
        let hearers = |hook: &'static str, room: Option<&str>, filter: usize| {
            let all = self.of(zone).iter();
            let hearers = all.filter(|one| one.hears(hook, room));
            let hearers = hearers.map(|one| (Arc::clone(one), filter));
            hearers.collect::<VecDeque<_>>()
        };
        match request {
            HookRequest::Publish { .. } => hearers("publish", None, 0),
            HookRequest::Private { .. } => hearers("private", None, 0),
            HookRequest::Say { room, .. } => hearers("say", Some(room), 0),
            HookRequest::Call { room, .. } => hearers("call", room.as_deref(), 0),
            HookRequest::Subscribe(filters) => {
                let mut rooms: HashSet<&str> = HashSet::new();
                let filters = filters.iter().enumerate();
                let each = filters.flat_map(|(at, (text, room))| match room {
                    Some(room) if rooms.insert(room) => hearers("join", Some(room), at),
                    Some(_) => VecDeque::new(),
                    None if Interest::parse(shared(text).1) == Interest::Elsewhere => {
                        hearers("subscribe", None, at)
                    }
                    // A zone's own: its rights say who hears what.
                    None => VecDeque::new(),
                });
                each.collect()
            }
        }
    }

    /// The adaptors of a configuration. One for all zones runs for each zone, so that what one of
    /// them makes of it is nothing to the others. Those that run already go on; those whose options
    /// differ take them over when all that is new has been started.
    ///
    /// # Errors
    /// When one cannot be used: its file, and why. What runs goes on.
    pub(super) fn configured(
        plane: &Shared,
        config: &Config,
        directory: &Directory,
    ) -> Result<Self, ServerError> {
        let mut ordered: Vec<&config::Adaptor> = config.adaptors.iter().collect();
        // Those for more come before those for less; a sort keeps the order of equals.
        ordered.sort_by_key(|one| (one.zone.is_some(), one.room.is_some()));
        let apart = numbered(zones_apart(config, directory), &plane.center)?;
        let mut before: Vec<Option<Arc<Scoped>>> = plane
            .adaptor_set
            .load()
            .all
            .iter()
            .cloned()
            .map(Some)
            .collect();
        let mut all: Vec<Arc<Scoped>> = Vec::new();
        let mut changed = Vec::new();
        for one in ordered {
            let source = one.source().map_err(ServerError::Adaptor)?;
            let mut is_new = false;
            for zone in scopes(one, &apart, &plane.center)? {
                if all.len() >= ADAPTORS_MAX {
                    let reason = format!(
                        "{source}: more than {ADAPTORS_MAX} machines would run; give adaptors a `zone`"
                    );
                    return Err(ServerError::Adaptor(reason));
                }
                let place = before.iter_mut().find(|place| {
                    let known = place.as_ref();
                    known.is_some_and(|known| known.is_at(one, &source, &zone))
                });
                let options = options(plane, one, source.clone(), &zone);
                let own = match place.and_then(Option::take) {
                    Some(known) => {
                        changed.push((Arc::clone(&known.running), options));
                        Arc::clone(&known.running)
                    }
                    None => {
                        is_new = true;
                        start(plane, options)?
                    }
                };
                all.push(Arc::new(Scoped {
                    running: own,
                    zone,
                    is_wide: one.zone.is_none(),
                    room: one.room.as_deref().map(Into::into),
                }));
            }
            if is_new {
                info!("adaptor {source} loaded");
            }
        }
        // All of them or none: those that could go on with other options wait for the last.
        let prepared: Result<Vec<_>, _> = changed
            .into_iter()
            .map(|(running, options)| running.prepare(options))
            .collect();
        prepared?.into_iter().flatten().for_each(Prepared::take);
        for gone in before.into_iter().flatten() {
            info!("adaptor {} ended", gone.running.adaptor.source());
        }
        Ok(Self::new(all))
    }
}

/// A machine that is ready to go on with other options.
struct Prepared {
    running: Arc<Running>,
    options: Options,
    change: Change,
}

impl Prepared {
    fn take(self) {
        self.change.take();
        *self.running.options() = self.options;
    }
}

impl Running {
    /// Has it ready for these options, if they are others. It waits from then on.
    fn prepare(self: Arc<Self>, options: Options) -> Result<Option<Prepared>, ServerError> {
        if !self.options().differ(&options) {
            return Ok(None);
        }
        let change = self.adaptor.prepare(options.clone());
        Ok(Some(Prepared {
            change: change.map_err(ServerError::Adaptor)?,
            running: self,
            options,
        }))
    }
}

fn start(plane: &Shared, options: Options) -> Result<Arc<Running>, ServerError> {
    let host = Arc::clone(&plane.actions) as _;
    let adaptor = Adaptor::start(options.clone(), host).map_err(ServerError::Adaptor)?;
    let options = Mutex::new(options);
    Ok(Arc::new(Running { adaptor, options }))
}

fn options(plane: &Shared, one: &config::Adaptor, source: Source, zone: &Scope) -> Options {
    Options {
        id: plane.next_id(),
        source,
        // Of zones that share a machine none is the one whose time it is.
        has_timer: matches!(zone, Scope::One(..)),
        zone: match zone {
            Scope::One(name, _) => Arc::clone(name),
            Scope::Others(_) => DEFAULT_ZONE.into(),
        },
        memory: usize::try_from(one.memory).unwrap_or(usize::MAX),
        time: one.time,
        deadline: one.deadline,
        hosts: one.http.clone(),
        trust: plane.trust.clone(),
        rate: one.rate,
        payload_max: Arc::clone(&plane.payload_max),
        trials: Arc::clone(&plane.trials),
        on_error: match one.on_error {
            OnTrouble::Deny => OnError::Deny,
            OnTrouble::Allow => OnError::Allow,
        },
    }
}

impl Shared {
    /// A number that no adaptor has.
    fn next_id(&self) -> u16 {
        let adaptor_set = self.adaptor_set.load();
        loop {
            // It begins again at 0; there are far fewer adaptors than numbers.
            let id = self.last_id.fetch_add(1, Ordering::Relaxed);
            if adaptor_set
                .all
                .iter()
                .all(|one| one.running.adaptor.id() != id)
            {
                return id;
            }
        }
    }
}

/// The zones that have machines of their own for adaptors of all zones.
fn zones_apart(config: &Config, directory: &Directory) -> Vec<Arc<str>> {
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    names.insert(DEFAULT_ZONE.into());
    names.extend(
        config
            .zones
            .iter()
            .map(|zone| Arc::from(zone.name.as_str())),
    );
    for record in directory.zones().iter() {
        if names.len() < ZONES_APART_MAX {
            names.insert(Arc::clone(&record.name));
        }
    }
    names.into_iter().take(ZONES_APART_MAX).collect()
}

fn numbered(names: Vec<Arc<str>>, center: &Center) -> Result<Vec<(Arc<str>, Zone)>, ServerError> {
    let number = |name: Arc<str>| {
        let number = center.zone_number(&name);
        let number = number.map_err(|error| ServerError::system("numbering a zone", error))?;
        Ok((name, number))
    };
    names.into_iter().map(number).collect()
}

/// The zones that a configured adaptor is started for.
fn scopes(
    one: &config::Adaptor,
    apart: &[(Arc<str>, Zone)],
    center: &Center,
) -> Result<Vec<Scope>, ServerError> {
    let single = |(name, number)| Scope::One(name, number);
    if let Some(name) = &one.zone {
        let named = numbered(vec![name.as_str().into()], center)?;
        return Ok(named.into_iter().map(single).collect());
    }
    let each = apart.iter().cloned().map(single);
    Ok(each.chain([Scope::Others(apart.into())]).collect())
}

impl Scoped {
    pub(super) fn is_of(&self, zone: Zone) -> bool {
        self.zone.has(zone)
    }

    /// Whether it is asked about logins to a zone.
    pub(super) fn judges_logins(&self, zone: &str) -> bool {
        self.runs_in(zone) && self.room.is_none() && self.running.adaptor.has("login")
    }

    /// Whether it runs in this zone.
    pub(super) fn runs_in(&self, zone: &str) -> bool {
        match &self.zone {
            Scope::One(name, _) => **name == *zone,
            Scope::Others(not) => not.iter().all(|(name, _)| **name != *zone),
        }
    }

    /// Whether it is asked by this hook about something in a room, or in none.
    pub(super) fn hears(&self, hook: &str, room: Option<&str>) -> bool {
        let fits = self.room.as_deref().is_none_or(|own| Some(own) == room);
        fits && self.running.adaptor.has(hook)
    }

    pub(super) fn describe(&self) -> Shown {
        let zone = match &self.zone {
            Scope::One(name, _) => Some(name.to_string()),
            Scope::Others(_) => None,
        };
        let hooks = self.running.adaptor.hooks();
        let has = |(bit, _): &(usize, &&str)| hooks & (1 << bit) != 0;
        let names = HOOKS.iter().enumerate().filter(has);
        let figures = self.running.adaptor.figures();
        let refused = self.running.adaptor.refused().map(|refused| {
            let since = refused.since.duration_since(SystemTime::UNIX_EPOCH);
            Refused {
                since: since.map_or(0, |since| since.as_secs()),
                reason: refused.reason,
            }
        });
        Shown {
            file: self.running.adaptor.source().to_string(),
            zone,
            room: self.room.as_deref().map(str::to_owned),
            hooks: names.map(|(_, name)| (*name).to_owned()).collect(),
            runs: figures.runs,
            failures: figures.failures,
            refused: figures.refused,
            suppressed_lines: figures.suppressed,
            file_refused: refused,
        }
    }

    /// Whether it is the one that this entry of a configuration has for a zone.
    fn is_at(&self, one: &config::Adaptor, source: &Source, zone: &Scope) -> bool {
        let is_same_zone = match (&self.zone, zone) {
            (Scope::One(own, _), Scope::One(other, _)) => own == other,
            (Scope::Others(_), Scope::Others(_)) => true,
            _ => false,
        };
        is_same_zone
            && self.is_wide == one.zone.is_none()
            && self.room.as_deref() == one.room.as_deref()
            && self.running.adaptor.source() == source
    }

    /// Whether it runs this file, which may be named by its last part alone; or whether it is the
    /// one that comes with the server and is shown like this.
    pub(super) fn is_of_file(&self, file: &Path) -> bool {
        let source = self.running.adaptor.source();
        let Some(own) = source.path() else {
            return file.to_str() == Some(&source.to_string());
        };
        let is_same_file = || match (own.canonicalize(), file.canonicalize()) {
            (Ok(own), Ok(file)) => own == file,
            _ => false,
        };
        own == file || own.file_name() == Some(file.as_os_str()) || is_same_file()
    }

    /// Looks at the file now.
    pub(super) fn reload(&self, start: Start) -> Result<bool, String> {
        self.running.adaptor.reload(start)
    }
}
