//! The Auth Center itself: from what a client shows to who it is.
//!
//! ```text
//! shard ─ begin ─► classify ──► throttle ──► directory (one query for many) ──► compare ──► shard
//!                        │            │                                              │
//!                        ▼            ▼                                              ▼
//!               JSON web tokens    delays                                 hashes, at idle priority
//! ```
//!
//! Only what takes microseconds happens on a shard: telling tokens from passwords, reading the
//! messages of SCRAM and checking its proof. Signatures of JSON web tokens are checked by a thread
//! of their own, so that they never wait behind hashes; tokens and certificates are compared where
//! the directory's answer arrives; passwords wait, first come, first served, for the pool of hash
//! threads, unless they were verified a while ago and are remembered. Every queue has a bound, and
//! a full one answers [`Refusal::Busy`] at once.
//!
//! **A login costs as much for an unknown user as for a known one**: the password is hashed all
//! the same, and SCRAM goes on with a made-up salt until the proof is wrong.

mod decoys;
mod delays;
mod identify;
mod jwt;
mod login_attempt;
mod login_record;
mod password;
mod places;
mod remembered;
mod renewal;
mod roles;
mod scram;
mod successors;
mod throttle;
mod zones;

use std::fmt;
use std::hash::RandomState;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use stentor_hub::Identity;
use stentor_session::{Limit, Tick};
use stentor_topic::Zone;

use crate::credential::jwt::{Issuer, is_jwt};
use crate::credential::token::is_token;
use crate::credential::{Cost, MakeError, Sha, release_memory};
use crate::model::{NAME_BYTES_MAX, User, UserKey};
use crate::store::{Directory, Found};
use crate::{
    Answer, Authenticator, Begun, ConnectionBound, Decision, Exchange, Helper, Job, LoginRequest,
    Pool, PoolOptions, Refusal, Secret,
};
pub use decoys::DecoyKey;
use decoys::Decoys;
use delays::Delays;
pub use identify::as_of;
pub use login_attempt::{LoginAttempt, Proof, Returning};
pub use login_record::LoginRecord;
use remembered::Remembered;
pub use renewal::{Changes, Renewals};
pub use roles::RoleGrants;
use throttle::{Admission, Cause, Throttle, Turn};
use zones::Gate;
pub use zones::{SecondLogin, ZoneRule, ZoneRules};

/// The longest password that is hashed, in bytes: what waits for a hash thread takes memory.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// The method that takes a JSON web token by AUTH.
const JWT_METHOD: &str = "JWT";

/// What the center needs of the directory of users.
pub trait Accounts: Send + Sync {
    /// Asks for a user; false, and `found` is forgotten, if too many ask already.
    fn look_up(&self, key: UserKey, found: Found) -> bool;

    /// What the source last said of a user that it no longer has, and that still applies.
    fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        let _ = key;
        None
    }

    /// A user who was looked up, as it is now; `None` if it is gone.
    fn confirm(&self, user: &Arc<User>) -> Option<Arc<User>> {
        Some(Arc::clone(user))
    }

    /// Whether a user's credential is ours to change: not one that somebody else keeps.
    fn keeps(&self, user: &User, credential: &str) -> bool {
        let _ = (user, credential);
        true
    }

    /// Puts a better hash in the place of an outdated one.
    fn upgrade(&self, key: UserKey, outdated: Arc<str>, better: Arc<str>);

    /// Look-ups that wait for their answer.
    fn waiting(&self) -> usize;
}

/// Gives who has proved itself an identity with rights.
pub trait Grants: Send + Sync {
    /// The number of a zone. From then on the identities of its users can be made without writing
    /// anything, as a shard needs them.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    fn zone_number(&self, zone: &str) -> io::Result<Zone>;

    /// Whether there is a zone of this name.
    fn has_zone(&self, zone: &str) -> bool {
        let _ = zone;
        true
    }

    /// Whether a zone has a role of this name, its own or one for all zones.
    fn has_role(&self, zone: &str, role: &str) -> bool {
        let _ = (zone, role);
        true
    }

    /// Takes other rules for zones from now on.
    fn configure(&self, zones: &ZoneRules) {
        let _ = zones;
    }

    /// The identity of a user, or of the bearer of a token without a user; `None` if the user was
    /// deleted, or disabled, or lost this proof since it was looked up.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    fn identity(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        proof: Proof,
        expires_at: Tick,
    ) -> io::Result<Option<Arc<Identity>>>;

    /// The name of a zone that has this number.
    fn zone_name(&self, zone: Zone) -> Option<String>;

    /// The number of a zone that has one already.
    fn known_zone(&self, zone: &str) -> Option<Zone> {
        let _ = zone;
        None
    }

    /// The identity of somebody whose session was there before the start: see
    /// [`Center::returning`].
    fn returning(&self, zone: &Arc<str>, who: &Returning<'_>) -> Option<Arc<Identity>> {
        let _ = (zone, who);
        None
    }

    /// What sets the connection limit that a login has met.
    fn connection_bound(
        &self,
        login_record: &LoginRecord,
        limit: Limit,
    ) -> Option<ConnectionBound> {
        let _ = (login_record, limit);
        None
    }

    /// The number of the last change of users, roles or zones.
    fn changes(&self) -> u64 {
        0
    }

    /// A hash is about to take the place of another one of the same password.
    fn replaced(&self, outdated: &Arc<str>, better: &Arc<str>) {
        let _ = (outdated, better);
    }

    /// The identity of somebody who is let in without a name, to a zone that has a number.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    fn anonymous(&self, zone: &str, client_id: Option<Arc<str>>) -> io::Result<Arc<Identity>>;
}

impl Accounts for Directory {
    fn look_up(&self, key: UserKey, found: Found) -> bool {
        Self::look_up(self, key, found)
    }

    fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        Self::left(self, key)
    }

    fn confirm(&self, user: &Arc<User>) -> Option<Arc<User>> {
        Self::confirm(self, user)
    }

    fn keeps(&self, user: &User, credential: &str) -> bool {
        Self::keeps(self, user, credential)
    }

    fn upgrade(&self, key: UserKey, outdated: Arc<str>, better: Arc<str>) {
        self.upgrade_credential(key, outdated, better);
    }

    fn waiting(&self) -> usize {
        Self::waiting(self)
    }
}

/// What may change while a center works.
#[derive(Clone, Debug)]
pub struct CenterSettings {
    /// What outdated hashes are replaced by.
    pub wanted: Cost,
    /// How long a verified password is remembered; zero turns it off.
    pub remember: Duration,
    /// Whether failures slow down those who cause them.
    pub slow_failures: bool,
    /// The issuers whose JSON web tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// The rules of zones.
    pub zones: Arc<ZoneRules>,
}

impl Default for CenterSettings {
    fn default() -> Self {
        Self {
            wanted: Cost::DEFAULT,
            remember: Duration::from_secs(600),
            slow_failures: true,
            issuers: Vec::new(),
            zones: Arc::default(),
        }
    }
}

/// How a center is made.
pub struct CenterOptions {
    /// Threads that hash passwords.
    pub hash_threads: usize,
    /// Logins that may wait for one of them, and for each other thing that they wait for.
    pub waiting_max: usize,
    /// Called first on every hash thread: to lower its priority.
    pub at_hash_start: fn(),
    /// Steps in where the hash threads get no processor.
    pub hash_helper: Option<Helper>,
    /// The clock of the hubs.
    pub clock: Box<dyn Fn() -> Tick + Send + Sync>,
    /// What is made up for users who do not exist is made from this.
    pub decoy_key: DecoyKey,
}

impl fmt::Debug for CenterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CenterOptions")
            .field("hash_threads", &self.hash_threads)
            .field("waiting_max", &self.waiting_max)
            .finish_non_exhaustive()
    }
}

/// Logs users in whom a directory knows, by every kind of credential.
pub struct Center(Arc<Shared>);

/// What all logins share.
struct Shared {
    accounts: Arc<dyn Accounts>,
    grants: Arc<dyn Grants>,
    settings: ArcSwap<CenterSettings>,
    hashes: Pool,
    signatures: Pool,
    delays: Delays,
    throttle: Throttle,
    remembered: Remembered,
    decoys: Decoys,
    /// How fast guests come in.
    gate: Gate,
    /// Makes the marks of guests.
    marks: RandomState,
    clock: Box<dyn Fn() -> Tick + Send + Sync>,
}

impl fmt::Debug for Center {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Center")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// What a client shows, by kind.
enum Shown {
    Password(Secret),
    Token(Secret),
    Jwt(Secret),
    /// The name in a certificate that TLS has verified.
    Certificate,
    /// The first message of SCRAM.
    Scram(Sha, Secret),
}

impl Center {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no thread or no random bytes.
    pub fn start(
        accounts: Arc<dyn Accounts>,
        grants: Arc<dyn Grants>,
        settings: CenterSettings,
        options: CenterOptions,
    ) -> io::Result<Self> {
        grants.configure(&settings.zones);
        let random = |error: MakeError| io::Error::other(error.to_string());
        let waiting_max = options.waiting_max;
        let hashes = Pool::start(PoolOptions {
            name: "hash",
            threads: options.hash_threads,
            waiting_max,
            at_start: options.at_hash_start,
            at_rest: release_memory,
            helper: options.hash_helper,
        })?;
        let signatures = Pool::start(PoolOptions {
            name: "signature",
            waiting_max,
            ..PoolOptions::default()
        })?;
        Ok(Self(Arc::new(Shared {
            accounts,
            grants,
            decoys: Decoys::new(settings.wanted, options.decoy_key),
            remembered: Remembered::new().map_err(random)?,
            settings: ArcSwap::from_pointee(settings),
            hashes,
            signatures,
            delays: Delays::start(waiting_max)?,
            throttle: Throttle::default(),
            gate: Gate::default(),
            marks: RandomState::new(),
            clock: options.clock,
        })))
    }

    /// Takes other settings from now on.
    pub fn configure(&self, settings: CenterSettings) {
        self.0.grants.configure(&settings.zones);
        self.0.settings.store(Arc::new(settings));
    }

    /// Whether the keys of an issuer are others than those that it has in its place now.
    #[must_use]
    pub fn has_other_keys(&self, place: usize, issuer: &Issuer) -> bool {
        let settings = self.0.settings.load();
        settings
            .issuers
            .get(place)
            .is_none_or(|known| known.keys != issuer.keys)
    }

    /// The number of a zone, which it has for good.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    pub fn zone_number(&self, zone: &str) -> io::Result<Zone> {
        self.0.grants.zone_number(zone)
    }

    /// The identity of somebody whose session goes on after a restart of the server, with the roles
    /// that it had. It is not confirmed: see [`Changes::add_returned`]. `None` if its zone has no
    /// number any more.
    #[must_use]
    pub fn returning(&self, who: &Returning<'_>) -> Option<Arc<Identity>> {
        let zone = self.zone_of(who.zone)?;
        self.0.grants.returning(&zone, who)
    }

    /// The name of a zone, the default one included.
    #[must_use]
    pub fn zone_of(&self, zone: Zone) -> Option<Arc<str>> {
        match zone {
            Zone::DEFAULT => Some(crate::model::DEFAULT_ZONE.into()),
            zone => self.0.grants.zone_name(zone).map(Into::into),
        }
    }

    /// Forgets that any password was verified.
    pub fn forget_remembered(&self) {
        self.0.remembered.clear();
    }
}

impl Authenticator for Center {
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun {
        match classify(request, &self.0.settings.load()) {
            Ok((login, shown)) => {
                let answer = self.0.explaining(&login, &shown, answer);
                self.0.begin(login, shown, answer);
                Begun::Pending
            }
            Err(Unknown::Anonymous(login)) => answer.decided(self.0.let_in_anonymous(&login)),
            Err(Unknown::Guest(login)) => answer.decided(self.0.let_in_guest(login)),
            Err(Unknown::Refused(refusal)) => answer.decided(Decision::Refused(refusal)),
        }
    }

    fn proceed(&self, exchange: Exchange, data: Vec<u8>, answer: Answer) -> Begun {
        let decision = match exchange.into_state::<scram::Waiting>() {
            Some(waiting) => self.0.finish_scram(waiting, &data),
            None => Decision::Refused(Refusal::Protocol),
        };
        answer.decided(decision)
    }

    fn zone_name(&self, zone: Zone) -> Option<String> {
        self.0.grants.zone_name(zone)
    }

    fn known_zone(&self, zone: &str) -> Option<Zone> {
        self.0.grants.known_zone(zone)
    }

    fn has_zone(&self, zone: &str) -> bool {
        self.0.grants.has_zone(zone)
    }

    fn zone_number(&self, zone: &str) -> io::Result<Zone> {
        self.0.grants.zone_number(zone)
    }

    fn connection_bound(&self, identity: &Identity, limit: Limit) -> Option<ConnectionBound> {
        let login_record = identity.rights.as_any()?.downcast_ref::<LoginRecord>()?;
        self.0.grants.connection_bound(login_record, limit)
    }

    fn hash(&self, job: Job) -> bool {
        self.0.hashes.submit_repeatable(job)
    }

    fn waiting(&self) -> usize {
        let shared = &self.0;
        let pools = shared.hashes.waiting() + shared.signatures.waiting();
        pools + shared.delays.waiting() + shared.accounts.waiting()
    }
}

/// Why a request is not one of somebody with a credential.
enum Unknown {
    /// It names nobody and may.
    Anonymous(LoginAttempt),
    /// It asks for a name, where the zone gives some.
    Guest(LoginAttempt),
    Refused(Refusal),
}

/// The user that a client says to be, and what it shows as a proof.
fn classify(
    request: LoginRequest,
    settings: &CenterSettings,
) -> Result<(LoginAttempt, Shown), Unknown> {
    let login = |name: &str| {
        let key = zones::key(name, request.zone.as_ref()).map_err(Unknown::Refused)?;
        Ok(LoginAttempt {
            key,
            says_zone: name.contains('/'),
            zone: request.zone.clone(),
            client_id: request.client_id.clone(),
            address: request.address,
            again: request.again.clone(),
            is_disabled: false,
        })
    };
    if let Some(method) = request.method {
        if method.name.as_ref() == JWT_METHOD && !settings.issuers.is_empty() {
            let name = request.username.unwrap_or_default();
            return Ok((login(&name)?, Shown::Jwt(method.data)));
        }
        let sha = Sha::of_mechanism(&method.name);
        let sha = sha.ok_or(Unknown::Refused(Refusal::Method))?;
        let name = scram::username(method.data.reveal(), request.username.as_deref());
        let name = name.map_err(Unknown::Refused)?;
        return Ok((login(&name)?, Shown::Scram(sha, method.data)));
    }
    let shown = |password: Secret| {
        if is_token(password.reveal()) {
            Shown::Token(password)
        } else if !settings.issuers.is_empty() && is_jwt(password.reveal()) {
            Shown::Jwt(password)
        } else {
            Shown::Password(password)
        }
    };
    let is_bare = request
        .password
        .as_ref()
        .is_none_or(|it| it.reveal().is_empty());
    if let (Some(name), true, None) = (&request.username, is_bare, &request.certificate_name) {
        let login = login(name)?;
        if settings.zones.takes_guest(&login.key) {
            return Err(Unknown::Guest(login));
        }
    }
    match (
        &request.username,
        request.password,
        &request.certificate_name,
    ) {
        (Some(name), Some(password), _) => Ok((login(name)?, shown(password))),
        // MQTT 5 lets a password come alone; only a web token says whose it is.
        (None, Some(password), certified) => match (shown(password), certified) {
            (Shown::Jwt(token), _) => Ok((login("")?, Shown::Jwt(token))),
            // Any other proves nothing: whoever shows a certificate is whom that names, not nobody.
            (_, Some(certified)) => Ok((login(certified)?, Shown::Certificate)),
            _ if request.anonymous => Err(Unknown::Anonymous(login("")?)),
            _ => Err(Unknown::Refused(Refusal::LoginRequired)),
        },
        (Some(name), None, Some(certified)) if names(name, certified) => {
            Ok((login(certified)?, Shown::Certificate))
        }
        (None, None, Some(certified)) => Ok((login(certified)?, Shown::Certificate)),
        (Some(name), None, _) => Ok((login(name)?, Shown::Password(Secret::default()))),
        (None, None, None) if request.anonymous => Err(Unknown::Anonymous(login("")?)),
        (None, None, None) => Err(Unknown::Refused(Refusal::LoginRequired)),
    }
}

/// Whether a login name is the one in a certificate, with its zone or without.
fn names(said: &str, certified: &str) -> bool {
    let without_zone = certified.split_once('/').map(|(_, name)| name);
    said == certified || without_zone == Some(said)
}

impl Shared {
    /// An answer that says more than that credentials are wrong, where that reveals no secret.
    fn explaining(self: &Arc<Self>, login: &LoginAttempt, shown: &Shown, answer: Answer) -> Answer {
        let is_bare = matches!(shown, Shown::Password(password) if password.reveal().is_empty());
        let (shared, key) = (Arc::clone(self), login.key.clone());
        answer.through(move |answer, decision| {
            answer.give(match decision {
                Decision::Refused(Refusal::Credentials) => {
                    Decision::Refused(zones::explain(&*shared.grants, &key, is_bare))
                }
                decision => decision,
            });
        })
    }

    /// Decides about somebody who shows something; the answer is always given.
    fn begin(self: &Arc<Self>, login: LoginAttempt, shown: Shown, answer: Answer) {
        let is_too_long = match &shown {
            Shown::Password(password) => password.reveal().len() > PASSWORD_BYTES_MAX,
            Shown::Token(_) | Shown::Jwt(_) | Shown::Certificate | Shown::Scram(..) => false,
        };
        let UserKey { zone, name } = &login.key;
        if is_too_long || zone.len() > NAME_BYTES_MAX || name.len() > NAME_BYTES_MAX {
            // Nobody has such a name, and no password is so long.
            return answer.give(Decision::Refused(Refusal::Credentials));
        }
        let admission = match &shown {
            // TLS has verified it, and there is nothing to guess.
            Shown::Certificate => Admission::Free,
            // Nor here: only those whose tokens do not hold wait, once that is known.
            Shown::Jwt(_) => Admission::Free,
            Shown::Password(_) | Shown::Token(_) | Shown::Scram(..) => self.admission(&login),
        };
        match admission {
            Admission::Free => self.go_on(login, shown, answer, Turn::Free),
            Admission::Now => self.go_on(login, shown, answer, Turn::Taken),
            Admission::At(time, cause) => {
                let luggage = (login, shown, answer);
                let put = self.put_off(time, cause, luggage, |shared, luggage| {
                    let (login, shown, answer) = luggage;
                    shared.go_on(login, shown, answer, Turn::Taken);
                });
                if let Err((_, _, answer)) = put {
                    answer.give(Decision::Refused(Refusal::Busy));
                }
            }
            Admission::Never => answer.give(Decision::Refused(Refusal::Slowed)),
        }
    }

    /// When an attempt may be made.
    fn admission(&self, login: &LoginAttempt) -> Admission {
        match self.settings.load().slow_failures {
            true => self.throttle.admit(Instant::now(), login),
            false => Admission::Free,
        }
    }

    /// Goes on at a time; gives everything back if too much waits already.
    fn put_off<T: Send + 'static>(
        self: &Arc<Self>,
        at: Instant,
        cause: Cause,
        luggage: T,
        then: impl FnOnce(&Arc<Self>, T) + Send + 'static,
    ) -> Result<(), T> {
        let shared = Arc::downgrade(self);
        self.delays.put(at, cause, luggage, move |luggage| {
            if let Some(shared) = shared.upgrade() {
                then(&shared, luggage);
            }
        })
    }

    fn go_on(self: &Arc<Self>, login: LoginAttempt, shown: Shown, answer: Answer, turn: Turn) {
        let UserKey { zone, name } = &login.key;
        // No user can have such a name, and a database may refuse to look for it. SCRAM refuses the
        // name itself, and the bearer of a web token is looked up by the name in the token.
        let is_named_later = matches!(shown, Shown::Scram(..) | Shown::Jwt(_));
        if (zone.contains('\0') || name.contains('\0')) && !is_named_later {
            return answer.give(self.fail(&login));
        }
        match shown {
            Shown::Password(password) => self.begin_password(login, password, answer, turn),
            Shown::Token(token) => self.begin_token(login, &token, answer),
            Shown::Jwt(token) => self.begin_jwt(login, token, answer),
            Shown::Certificate => self.begin_certificate(login, answer),
            Shown::Scram(sha, message) => {
                self.begin_scram(login, turn, sha, &message, answer);
            }
        }
    }

    /// Looks a user up and goes on with it, on the thread where it is found. A user who is refused
    /// counts as unknown, and so does a foreign user in a zone that does not exist.
    fn find(
        self: &Arc<Self>,
        mut login: LoginAttempt,
        answer: Answer,
        then: impl FnOnce(&Arc<Self>, LoginAttempt, Option<Arc<User>>, Answer) + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        let key = login.key.clone();
        // A directory that does not take the question drops it.
        let answer = answer.or(Refusal::Busy);
        let found: Found = Box::new(move |result| match result {
            Ok(user) => {
                let user = user.filter(|user| shared.has_home(user));
                login.is_disabled = user.as_ref().is_some_and(|user| user.disabled);
                let user = user.filter(|user| !user.disabled);
                then(&shared, login, user, answer);
            }
            Err(_) => answer.give(Decision::Refused(Refusal::Unavailable)),
        });
        // If it is refused, the dropped answer has said so.
        let _ = self.accounts.look_up(key, found);
    }

    /// Whether there is the zone of a user. Somebody else's tables may name any, and a zone of a
    /// user of ours may have left the configuration only.
    fn has_home(&self, user: &User) -> bool {
        !user.foreign || self.grants.has_zone(&user.zone)
    }

    /// Whether somebody is disabled, as a user or by what is left of one.
    fn is_shut_out(&self, key: &UserKey, user: Option<&Arc<User>>) -> bool {
        match user {
            Some(user) => user.disabled,
            None => self.accounts.left(key).is_some_and(|left| left.disabled),
        }
    }

    /// It is who it says to be.
    fn accept(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        proof: Proof,
        data: Option<Vec<u8>>,
    ) -> Decision {
        let admitted = self.admit(login, user, proof, data);
        admitted.unwrap_or_else(|| self.fail(login))
    }

    /// The same; `None` if what it has proved proves nothing any more.
    fn admit(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        proof: Proof,
        data: Option<Vec<u8>>,
    ) -> Option<Decision> {
        let expires_at = self.tick_of(proof.expires_at_secs);
        match self.grants.identity(login, user, proof, expires_at) {
            Ok(None) => None,
            Ok(Some(identity)) => {
                self.throttle.succeeded(Instant::now(), login);
                Some(Decision::Accepted(identity, data))
            }
            // A new zone could not be written down.
            Err(_) => Some(Decision::Refused(Refusal::Unavailable)),
        }
    }

    /// It is not.
    fn fail(&self, login: &LoginAttempt) -> Decision {
        self.throttle.failed(Instant::now(), login);
        Decision::Refused(match login.is_disabled {
            true => Refusal::Disabled,
            false => Refusal::Credentials,
        })
    }

    fn let_in_anonymous(&self, login: &LoginAttempt) -> Decision {
        let (zone, client_id) = (&login.key.zone, login.client_id.clone());
        match self.grants.anonymous(zone, client_id) {
            Ok(identity) => Decision::Accepted(identity, None),
            // A new zone could not be written down.
            Err(_) => Decision::Refused(Refusal::Unavailable),
        }
    }

    /// The hubs' time of a time in seconds since 1970.
    fn tick_of(&self, secs: Option<u64>) -> Tick {
        let Some(secs) = secs else {
            return Tick::NEVER;
        };
        let left = secs.saturating_sub(now_secs());
        (self.clock)().after(Duration::from_secs(left))
    }
}

/// Now, in seconds since 1970.
fn now_secs() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
