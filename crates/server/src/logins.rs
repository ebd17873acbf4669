//! The Auth Center of a configuration.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use stentor_auth::Helper;
use stentor_auth::center::{Center, CenterOptions, CenterSettings, Changes, DecoyKey, RoleGrants};
use stentor_auth::credential::jwt::{Algorithm, Issuer, KeySource, Keys};
use stentor_auth::model::{User, UserKey};
use stentor_auth::store::{Directory, Told, ZoneFiles, ZoneNumbers};
use stentor_disk::Disk;
use stentor_hub::ControlItem;
use stentor_retained::Store;
use tracing::warn;

use crate::clock::Clock;
use crate::config::{Config, Jwt};
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::lifecycle::retained_dir;
use crate::priority;
use crate::sessions::Owners;
use crate::shard::ShardCommand;

/// Where zones keep their numbers.
pub(crate) const ZONES: &str = "zones";

/// What is shown to those who log in as nobody is made from this file's content.
pub(crate) const DECOY_KEY: &str = "decoy-key";

/// Hash threads that have ended nothing for this long get no processor, and are helped: a hash
/// takes a tenth of it.
const STUCK: Duration = Duration::from_millis(500);

/// Users whose changes go to the shards together.
const CHANGED_USERS_MAX: usize = 10_000;

/// The Auth Center, before there are shards.
pub(crate) struct Logins {
    pub(crate) center: Arc<Center>,
    grants: Arc<RoleGrants>,
    news: (Sender<News>, Receiver<News>),
    directory: Weak<Directory>,
}

/// What the user database says.
pub(crate) enum News {
    Directory(Told),
    /// The user of a session that was there before the start; none if nobody has the name.
    Returned(UserKey, Option<Arc<User>>),
    /// More of those come later.
    Paused,
    /// Which zones there are is known, for sessions without a user.
    ZonesKnown,
}

/// Starts the center that asks this directory.
///
/// # Errors
/// When a file with keys cannot be used, or the system gives no thread.
pub(crate) fn start(
    config: &Config,
    folder: &Path,
    directory: &Arc<Directory>,
    zones: ZoneNumbers,
    clock: Clock,
) -> Result<Logins, ServerError> {
    let system = |error| ServerError::system("starting the Auth Center", error);
    let news = channel();
    tell(directory, news.0.clone());
    let grants = Arc::new(RoleGrants::new(Arc::clone(directory), zones));
    let options = CenterOptions {
        hash_threads: thread::available_parallelism().map_or(1, std::num::NonZero::get),
        waiting_max: config.auth.queue as usize,
        at_hash_start: priority::lower,
        hash_helper: Some(Helper {
            patience: STUCK,
            at_start: priority::lower_somewhat,
        }),
        clock: Box::new(move || clock.now()),
        decoy_key: DecoyKey::open(&folder.join(DECOY_KEY)).map_err(system)?,
    };
    let accounts = Arc::clone(directory);
    let center = Center::start(
        accounts,
        Arc::clone(&grants) as _,
        settings(config)?,
        options,
    );
    Ok(Logins {
        center: Arc::new(center.map_err(system)?),
        grants,
        news,
        directory: Arc::downgrade(directory),
    })
}

/// Where the zones of a data folder and of the retained messages keep their numbers.
pub(crate) fn zone_files<D: Disk>(
    config: &Config,
    folder: &Path,
    retained: &Store<D>,
) -> ZoneFiles {
    let used = retained
        .status()
        .zones
        .last()
        .map_or(0, |zone| zone.0.get());
    ZoneFiles {
        own: folder.join(ZONES),
        copy: retained_dir(config, folder).join(ZONES),
        used,
    }
}

/// The numbers of zones, and tells what is wrong with them. Sessions use none above
/// `used_by_sessions`.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn zones<D: Disk>(
    config: &Config,
    folder: &Path,
    retained: &Store<D>,
    used_by_sessions: u32,
) -> Result<ZoneNumbers, ServerError> {
    let mut files = zone_files(config, folder, retained);
    files.used = files.used.max(used_by_sessions);
    let zones = ZoneNumbers::open(&files)
        .map_err(|error| ServerError::system("reading the numbers of zones", error))?;
    if let Some(trouble) = zones.trouble() {
        warn!("{trouble}");
    }
    Ok(zones)
}

/// Has the directory tell what changes.
fn tell(directory: &Directory, news: Sender<News>) {
    let is_first = directory.on_change(move |told| {
        // Nobody takes changes over any more when the server ends. The caller is answered all the
        // same.
        if let Err(SendError(News::Directory(Told::Then(act)))) = news.send(News::Directory(told)) {
            act();
        }
    });
    debug_assert!(is_first, "a directory has one hook");
}

impl Logins {
    /// Takes changes of rights to the shards from now on, on a thread of its own. Finds out, on
    /// another one, what has become of the owners of earlier sessions.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn follow_changes(
        self,
        context: &Arc<ServerContext>,
        owners: Option<Owners>,
    ) -> io::Result<Arc<Center>> {
        let (grants, context) = (self.grants, Arc::downgrade(context));
        let (sender, news) = self.news;
        let run = move || follow(&grants, &context, &news);
        thread::Builder::new().name("rights".into()).spawn(run)?;
        if let Some(owners) = owners {
            let directory = self.directory;
            let run = move || owners.ask(&directory, &sender);
            thread::Builder::new().name("owners".into()).spawn(run)?;
        }
        Ok(self.center)
    }
}

/// Until the directory, or the server, is gone.
fn follow(grants: &Arc<RoleGrants>, context: &Weak<ServerContext>, incoming: &Receiver<News>) {
    while let Ok(first) = incoming.recv() {
        let Gathered { changes, then } = Gathered::from(first, incoming);
        let context = context.upgrade();
        if let (Some(context), false) = (&context, changes.is_empty()) {
            let renewals = grants.take_over(changes);
            context.visitors.renew(&renewals);
            for shard in 0..context.shards.len() {
                let renewal = ControlItem::Renew(Arc::clone(&renewals) as _);
                context.post(shard, ShardCommand::Hub(renewal));
            }
        }
        then.into_iter().for_each(|act| act());
        if context.is_none() {
            return;
        }
    }
}

/// What goes to the shards together. All users that are asked for after the start do: what goes to
/// the shards is held against every session, and there may be a user for each.
#[derive(Default)]
struct Gathered {
    changes: Changes,
    /// To be called after that.
    then: Vec<Box<dyn FnOnce() + Send>>,
}

impl Gathered {
    fn from(first: News, incoming: &Receiver<News>) -> Self {
        let mut gathered = Self::default();
        let mut is_waited_for = false;
        let mut next = Some(first);
        while let Some(news) = next {
            is_waited_for |= matches!(news, News::Directory(_));
            let waits = matches!(news, News::Returned(..)) && !is_waited_for;
            gathered.add(news);
            next = if waits {
                incoming.recv().ok()
            } else if gathered.changes.users() < CHANGED_USERS_MAX {
                incoming.try_recv().ok()
            } else {
                None
            };
        }
        gathered
    }

    fn add(&mut self, news: News) {
        let Self { changes, then } = self;
        match news {
            News::Directory(Told::Changed(change)) => changes.add(change),
            News::Directory(Told::Then(act)) => then.push(act),
            News::Returned(key, user) => changes.add_returned(key, user),
            News::Paused => {}
            News::ZonesKnown => changes.zones_are_known(),
        }
    }
}

/// What a configuration says about logging in.
///
/// # Errors
/// When a file with keys cannot be used.
pub(crate) fn settings(config: &Config) -> Result<CenterSettings, ServerError> {
    let auth = &config.auth;
    let issuers: Result<Vec<Issuer>, ServerError> = config.jwts.iter().map(issuer).collect();
    Ok(CenterSettings {
        wanted: auth.password_hash.cost(),
        remember: auth.remember,
        slow_failures: auth.slow_failures,
        issuers: issuers?,
        zones: crate::zones::rules(config),
    })
}

fn issuer(jwt: &Jwt) -> Result<Issuer, ServerError> {
    let source = match (&jwt.key_file, &jwt.jwks_file) {
        (Some(path), _) => KeySource::File(path.clone()),
        (None, Some(path)) => KeySource::Jwks(path.clone()),
        // The configuration was checked.
        (None, None) => KeySource::File(std::path::PathBuf::new()),
    };
    let names = jwt.algorithms.iter();
    let algorithms: Vec<Algorithm> = names.flat_map(|name| name.parse()).collect();
    Ok(Issuer {
        issuer: jwt.issuer.clone(),
        audience: jwt.audience.clone(),
        leeway_secs: jwt.leeway.as_secs(),
        user_claim: jwt.user_claim.clone(),
        zone: jwt.zone.clone(),
        known_users: jwt.known_users,
        keys: Keys::read(&source, &algorithms)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pass over all sessions confirms all users that were asked for.
    #[test]
    fn users_of_earlier_sessions_go_to_the_shards_together() {
        const USERS: usize = 50;
        // Nothing can be taken before it is waited for.
        let (sender, incoming) = std::sync::mpsc::sync_channel(0);
        let asks = thread::spawn(move || {
            for number in 0..USERS {
                let key = UserKey::parse(&format!("user{number}"));
                sender.send(News::Returned(key, None)).unwrap();
            }
            sender.send(News::Paused).unwrap();
        });
        let first = incoming.recv().unwrap();
        assert_eq!(Gathered::from(first, &incoming).changes.users(), USERS);
        asks.join().unwrap();
    }
}
