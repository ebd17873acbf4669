//! Opening the user database that a configuration names: for the server, and for commands while
//! no server runs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stentor_auth::model::{ADMIN, Credential, DEFAULT_ZONE, MEMBER, User};
use stentor_auth::store::{
    AuditLog, Books, Columns, Directory, DirectoryOptions, MosquittoFile, Order, OrderError, Place,
    QuerySource, Source, SqlStore, Store, StoreError, TextStore, Who,
};
use stentor_hub::WideSubscription;
use tracing::warn;

use crate::config::{Config, Secret};
use crate::data_dir::DataDir;
use crate::error::ServerError;
use crate::log;
use crate::logins;
use crate::retained::{Access, OfflineError, OfflineStore};

/// The embedded database in the data folder.
const DATABASE: &str = "auth.db";

/// Where the password of the first administrator goes.
const ADMIN_PASSWORD: &str = "admin-password";

/// Where changes of rights are written down.
pub(crate) const AUDIT_LOG: &str = "audit.log";

/// Users, roles and zones of a data folder on which no server runs. While it is open, none starts.
pub struct Accounts {
    directory: Directory,
    config: Config,
    _data_dir: DataDir,
}

impl Accounts {
    /// Opens the user database that a configuration names.
    ///
    /// # Errors
    /// When a server runs on the data folder, another command holds it for too long, or the user
    /// database cannot be opened.
    pub fn open(config: &Config) -> Result<Self, ServerError> {
        // What a server would log is not lost on whoever runs the command.
        log::warn_on_stderr();
        let data_dir = DataDir::open_for_command(&config.general.data_dir)?;
        let directory = open(config, &data_dir, false)?;
        if !directory.is_available() {
            let reason = "it is not there now".to_owned();
            return Err(StoreError::Unavailable(reason).into());
        }
        Ok(Self {
            directory,
            config: config.clone(),
            _data_dir: data_dir,
        })
    }

    /// Why a command that only looks or changes finds nothing: a user database that is a file, and
    /// is not there. `None` if it is there, or elsewhere. A command that `adds` something makes it,
    /// but not in the place of the one that a server had by default.
    #[must_use]
    pub fn missing(config: &Config, adds: bool) -> Option<String> {
        let folder = &config.general.data_dir;
        let Ok(Place::Sqlite(path) | Place::Text(path)) = own_place(config, folder) else {
            return None;
        };
        let was_used = was_used(folder);
        if !is_missing(&path) || (adds && !(was_used && config.auth.database.is_none())) {
            return None;
        }
        let (path, folder) = (path.display(), folder.display());
        Some(match (was_used, &config.auth.database) {
            // Only the configuration tells where the users of that server were.
            (true, None) => format!(
                "a server ran on {folder} before, and there is no user database {path}; if its \
                 configuration names another one (`auth.database`), name that file by --config \
                 or STENTOR_CONFIG; else put it back, or make a new one, with a new administrator, \
                 by starting the server"
            ),
            (true, Some(_)) => format!(
                "a server ran on {folder} before, and its user database {path} is not there; put \
                 it back, or make a new one, with a new administrator, by starting the server"
            ),
            (false, _) => format!(
                "there is no user database {path} yet; `stentor serve` makes it, and so does \
                 `stentor user add`; if there is a server already, name its configuration by \
                 --config or its data folder by --data-dir"
            ),
        })
    }

    /// Carries an order out. With a zone its retained messages are removed.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn order(&self, order: Order) -> Result<serde_json::Value, OrderError> {
        let uid = nix::unistd::getuid();
        let removed = match &order {
            Order::ZoneRemove { name } => Some(Arc::clone(name)),
            _ => None,
        };
        let who = Who::new(format!("uid {uid} by a command"));
        let done = self.directory.order(who, order);
        let Some(zone) = removed else {
            return done;
        };
        let is_unknown = matches!(&done, Err(error) if error.code == "not-found");
        if done.is_err() && !is_unknown {
            return done;
        }
        match self.clear_zone(&zone) {
            Ok(0) if is_unknown => done,
            Ok(messages) => Ok(serde_json::json!({ "retained_messages": messages })),
            Err(reason) => Err(OrderError {
                code: "unavailable",
                message: format!("the zone {zone:?} keeps its retained messages: {reason}"),
            }),
        }
    }

    /// Removes the retained messages of a zone; returns how many there were.
    fn clear_zone(&self, zone: &str) -> Result<u64, String> {
        match OfflineStore::open(&self.config, Access::Change) {
            Err(OfflineError::Missing { .. }) => Ok(0),
            Err(error) => Err(error.to_string()),
            Ok(store) => match store.known_zone(zone) {
                None => Ok(0),
                Some(zone) => store.clear_zone(zone),
            },
        }
    }
}

/// Opens the directory of a configuration. Only the server itself makes the first administrator.
pub(crate) fn open(
    config: &Config,
    data_dir: &DataDir,
    is_server: bool,
) -> Result<Directory, ServerError> {
    let folder = data_dir.path();
    let audit = AuditLog::open(&folder.join(AUDIT_LOG));
    if let Some(trouble) = audit.trouble() {
        warn!(
            "the audit log cannot be written: {}; changes of rights are made all the same, and are \
             not written down; make it a file that the server's user may write (a command that \
             root ran may have made it)",
            trouble.text
        );
    }
    let auth = &config.auth;
    let options = DirectoryOptions {
        refresh: auth.refresh,
        timeout: auth.timeout,
        waiting_max: auth.queue as usize,
        audit,
        admin_password: is_server.then(|| folder.join(ADMIN_PASSWORD)),
    };
    if is_server {
        warn_of_loss(&own_place(config, folder)?, folder);
    }
    let directory = Directory::start(books(config, folder)?, options)?;
    directory.pin(pinned(config));
    configure(&directory, config);
    Ok(directory)
}

/// Tells a directory what the configuration says of zones and of subscriptions.
pub(crate) fn configure(directory: &Directory, config: &Config) {
    directory.name_zones(zones(config));
    directory.subscribe_strictly(config.auth.subscribe == WideSubscription::Refuse);
}

/// Tells if a server ran on this data folder and its users are not there any more.
fn warn_of_loss(place: &Place, folder: &Path) {
    let (Place::Sqlite(path) | Place::Text(path)) = place else {
        return;
    };
    if was_used(folder) && is_missing(path) {
        warn!(
            "a server ran on {} before, and its user database {} is not there: a new one is made, \
             without users but a new administrator; if that is not meant, stop the server and put \
             the old one back",
            folder.display(),
            path.display()
        );
    }
}

/// Whether a user database is not there, or is an empty file, as a copy that failed leaves one. If
/// the metadata cannot be read, the code that opens the file reports why.
fn is_missing(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Whether a server ran on this data folder.
fn was_used(folder: &Path) -> bool {
    folder.join(logins::DECOY_KEY).exists()
}

/// Whether the user database that a configuration names can be opened at all: checks the paths and
/// the query, and opens no connection.
///
/// # Errors
/// When a place is none, or a query lacks what it needs.
pub(crate) fn check(config: &Config) -> Result<(), ServerError> {
    books(config, &config.general.data_dir)?;
    Ok(())
}

/// The zones that the configuration names.
fn zones(config: &Config) -> Vec<Arc<str>> {
    let zones = config.zones.iter().map(|zone| &zone.name);
    let rooms = config.rooms.iter().map(|room| &room.zone);
    let users = config.users.iter().map(|user| &user.zone);
    let listeners = config.listeners.iter().filter_map(|one| one.zone.as_ref());
    let issuers = config.jwts.iter().filter_map(|one| one.zone.as_ref());
    let adaptors = config.adaptors.iter().filter_map(|one| one.zone.as_ref());
    let all = zones
        .chain(rooms)
        .chain(users)
        .chain(listeners)
        .chain(issuers)
        .chain(adaptors);
    let names: BTreeSet<&str> = all.map(String::as_str).collect();
    let is_named = |name: &&str| *name != DEFAULT_ZONE;
    names.into_iter().filter(is_named).map(Into::into).collect()
}

/// The users of the configuration.
pub(crate) fn pinned(config: &Config) -> Vec<User> {
    let user = |user: &crate::config::User| {
        let hash = user.password_hash.as_ref().map(Secret::reveal);
        User {
            zone: user.zone.as_str().into(),
            name: user.name.as_str().into(),
            credentials: hash.map(Credential::new).into_iter().collect(),
            roles: vec![if user.admin { ADMIN } else { MEMBER }.into()],
            disabled: false,
            foreign: false,
        }
    };
    config.users.iter().map(user).collect()
}

/// The place of the server's own books.
fn own_place(config: &Config, folder: &Path) -> Result<Place, StoreError> {
    let own = place(config.auth.database.as_deref(), folder)?;
    Ok(own.unwrap_or_else(|| Place::Sqlite(PathBuf::from(DATABASE)).below(folder)))
}

/// A place that the configuration names.
fn place(text: Option<&str>, folder: &Path) -> Result<Option<Place>, StoreError> {
    let Some(text) = text else { return Ok(None) };
    let place: Place = text
        .parse()
        .map_err(|error| StoreError::Refused(format!("{error}")))?;
    Ok(Some(place.below(folder)))
}

fn books(config: &Config, folder: &Path) -> Result<Books, StoreError> {
    let auth = &config.auth;
    let own = own_place(config, folder)?;
    let store: Arc<dyn Store> = match &own {
        Place::Text(path) => Arc::new(TextStore::new(path)),
        own => Arc::new(SqlStore::new(own, reveal(auth.password.as_ref()))?),
    };
    let source: Option<Arc<dyn Source>> = match place(auth.source.as_deref(), folder)? {
        None => None,
        Some(Place::Mosquitto(path)) => Some(Arc::new(MosquittoFile::new(&path, Some(&auth.role)))),
        Some(place) => {
            let columns = Columns {
                name: auth.column_name.clone(),
                password: auth.column_password.clone(),
                roles: auth.column_roles.clone(),
                disabled: auth.column_disabled.clone(),
                zone: auth.column_zone.clone(),
            };
            let password = reveal(auth.source_password.as_ref());
            let query = auth.query.as_deref().unwrap_or_default();
            let source = QuerySource::new(&place, password, query, columns, Some(&auth.role))?;
            Some(Arc::new(source))
        }
    };
    Ok(Books { store, source })
}

fn reveal(secret: Option<&Secret>) -> Option<&str> {
    secret.map(Secret::reveal)
}
