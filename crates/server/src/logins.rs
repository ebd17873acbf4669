//! The Auth Center of a configuration.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use stentor_auth::center::{Center, CenterOptions, CenterSettings, RoleGrants};
use stentor_auth::credential::Cost;
use stentor_auth::credential::jwt::{Algorithm, Issuer, KeySource, Keys};
use stentor_auth::rights::Book;
use stentor_auth::store::{Change, Directory, ZoneNumbers};

use crate::clock::Clock;
use crate::config::{Config, Jwt, PasswordFunction};
use crate::error::ServerError;
use crate::priority;

/// Where zones keep their numbers.
const ZONES: &str = "zones";

/// Starts the center that asks this directory.
///
/// # Errors
/// When a file with keys cannot be used, or the system gives no thread.
pub(crate) fn start(
    config: &Config,
    folder: &Path,
    directory: &Arc<Directory>,
    clock: Clock,
) -> Result<Arc<Center>, ServerError> {
    let system = |error| ServerError::system("starting the Auth Center", error);
    let zones = ZoneNumbers::open(&folder.join(ZONES)).map_err(system)?;
    let book = Book::new(directory.roles().iter().cloned(), None);
    let grants = Arc::new(RoleGrants::new(book, zones));
    let options = CenterOptions {
        hash_threads: thread::available_parallelism().map_or(1, std::num::NonZero::get),
        waiting_max: config.auth.queue as usize,
        at_hash_start: priority::lower,
        clock: Box::new(move || clock.now()),
    };
    let accounts = Arc::clone(directory);
    let center = Center::start(
        accounts,
        Arc::clone(&grants) as _,
        settings(config)?,
        options,
    );
    let (center, watched) = (Arc::new(center.map_err(system)?), Arc::downgrade(directory));
    let is_first = directory.on_change(move |change| {
        if let (Change::Roles, Some(directory)) = (change, watched.upgrade()) {
            grants.set_roles(directory.roles().iter().cloned());
        }
    });
    debug_assert!(is_first, "a directory has one hook");
    Ok(center)
}

/// What a configuration says about logging in.
///
/// # Errors
/// When a file with keys cannot be used.
pub(crate) fn settings(config: &Config) -> Result<CenterSettings, ServerError> {
    let auth = &config.auth;
    let issuers: Result<Vec<Issuer>, ServerError> = config.jwts.iter().map(issuer).collect();
    Ok(CenterSettings {
        wanted: match auth.password_hash {
            PasswordFunction::Argon2id => Cost::DEFAULT,
            PasswordFunction::Pbkdf2Sha256 => Cost::PBKDF2_SHA256,
            PasswordFunction::Pbkdf2Sha512 => Cost::PBKDF2_SHA512,
            PasswordFunction::Scrypt => Cost::SCRYPT,
            PasswordFunction::Bcrypt => Cost::BCRYPT,
        },
        remember: auth.remember,
        slow_failures: auth.slow_failures,
        issuers: issuers?,
        known_bearers: config.jwts.iter().any(|jwt| jwt.known_users),
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
        keys: Keys::read(&source, &algorithms)?,
    })
}
