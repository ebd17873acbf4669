//! Opening the books that a configuration names: for the server, and for commands while no server
//! runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stentor_auth::model::{ADMIN, Credential, DEFAULT_ZONE, MEMBER, User};
use stentor_auth::store::{
    AuditLog, Books, Columns, Directory, DirectoryOptions, MosquittoFile, Order, OrderError, Place,
    QuerySource, Source, SqlStore, Store, StoreError, TextStore, Who,
};

use crate::config::{Config, Secret};
use crate::data_dir::{self, DataDir};
use crate::error::ServerError;

/// The embedded database in the data folder.
const DATABASE: &str = "auth.db";

/// Where the password of the first administrator goes.
const ADMIN_PASSWORD: &str = "admin-password";

/// Where changes of rights are written down.
const AUDIT_LOG: &str = "audit.log";

/// Users, roles and zones of a data folder on which no server runs. While it is open, none starts.
pub struct Accounts {
    directory: Directory,
    _data_dir: DataDir,
}

impl Accounts {
    /// Opens the books that a configuration names.
    ///
    /// # Errors
    /// When a server runs on the data folder, or the books cannot be opened.
    pub fn open(config: &Config) -> Result<Self, ServerError> {
        let data_dir = DataDir::open(&config.general.data_dir)?;
        let directory = open(config, &data_dir, false)?;
        if !directory.is_available() {
            let reason = "it is not there now".to_owned();
            return Err(StoreError::Unavailable(reason).into());
        }
        Ok(Self {
            directory,
            _data_dir: data_dir,
        })
    }

    /// Carries an order out.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn order(&self, order: Order) -> Result<serde_json::Value, OrderError> {
        let uid = nix::unistd::getuid();
        self.directory
            .order(Who::new(format!("uid {uid} by a command")), order)
    }
}

/// Opens the directory of a configuration. Only the server itself makes the first administrator.
pub(crate) fn open(
    config: &Config,
    data_dir: &DataDir,
    is_server: bool,
) -> Result<Directory, ServerError> {
    let folder = data_dir.path();
    let audit = folder.join(AUDIT_LOG);
    let audit = AuditLog::open(&audit).map_err(|error| data_dir::failure(&audit, error))?;
    let auth = &config.auth;
    let options = DirectoryOptions {
        refresh: auth.refresh,
        timeout: auth.timeout,
        waiting_max: auth.queue as usize,
        audit,
        admin_password: is_server.then(|| folder.join(ADMIN_PASSWORD)),
    };
    let directory = Directory::start(books(config, folder)?, options)?;
    directory.pin(pinned(config));
    directory.name_zones(zones(config));
    Ok(directory)
}

/// Whether the books that a configuration names can be opened at all: looks at their places and
/// the query, connects to nothing.
///
/// # Errors
/// When a place is none, or a query lacks what it needs.
pub(crate) fn check(config: &Config) -> Result<(), ServerError> {
    books(config, &config.general.data_dir)?;
    Ok(())
}

/// The zones that the configuration names.
pub(crate) fn zones(config: &Config) -> Vec<Arc<str>> {
    let zones = config.zones.iter().map(|zone| &zone.name);
    let rooms = config.rooms.iter().map(|room| &room.zone);
    let users = config.users.iter().map(|user| &user.zone);
    let listeners = config.listeners.iter().filter_map(|one| one.zone.as_ref());
    let issuers = config.jwts.iter().filter_map(|one| one.zone.as_ref());
    let all = zones
        .chain(rooms)
        .chain(users)
        .chain(listeners)
        .chain(issuers);
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
        }
    };
    config.users.iter().map(user).collect()
}

fn books(config: &Config, folder: &Path) -> Result<Books, StoreError> {
    let auth = &config.auth;
    let place = |text: &Option<String>| -> Result<Option<Place>, StoreError> {
        match text {
            Some(text) => {
                let place: Place = text
                    .parse()
                    .map_err(|error| StoreError::Refused(format!("{error}")))?;
                Ok(Some(place.below(folder)))
            }
            None => Ok(None),
        }
    };
    let default = || Place::Sqlite(PathBuf::from(DATABASE)).below(folder);
    let own = place(&auth.database)?.unwrap_or_else(default);
    let store: Arc<dyn Store> = match &own {
        Place::Text(path) => Arc::new(TextStore::new(path)),
        own => Arc::new(SqlStore::new(own, reveal(auth.password.as_ref()))?),
    };
    let source: Option<Arc<dyn Source>> = match place(&auth.source)? {
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
