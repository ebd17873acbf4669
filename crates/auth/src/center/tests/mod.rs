//! Logins at the center, against users in memory.

mod costs;
mod methods;
mod web_tokens;

use std::collections::HashMap;
use std::sync::{Mutex, mpsc};

use super::*;
use crate::Method;
use crate::credential::jwt::{Algorithm, KeySource, Keys};
use crate::credential::password::work;
use crate::credential::scram::ScramClient;
use crate::credential::{PasswordHash, ScramSecret, Token};
use crate::model::{Credential, DEFAULT_ZONE};
use crate::rights::Unrestricted;
use crate::store::Unavailable;

const NOW_ISH: u64 = 4_000_000_000;

/// Whose hash, the outdated one, the better one.
type Upgrade = (UserKey, Arc<str>, Arc<str>);

/// Users in memory, found at once on the asking thread.
#[derive(Default)]
struct Memory {
    users: Mutex<HashMap<UserKey, Arc<User>>>,
    upgrades: Mutex<Vec<Upgrade>>,
    /// Whose credentials somebody else keeps.
    foreign: Mutex<Vec<&'static str>>,
    /// What is said of somebody who is no user any more.
    left: Mutex<Option<Arc<User>>>,
    mode: Mutex<Mode>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Up,
    Down,
    Full,
}

impl Accounts for Memory {
    fn look_up(&self, key: UserKey, found: Found) -> bool {
        match *self.mode.lock().unwrap() {
            Mode::Up => found(Ok(self.users.lock().unwrap().get(&key).cloned())),
            Mode::Down => found(Err(Unavailable)),
            Mode::Full => return false,
        }
        true
    }

    fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        let left = self.left.lock().unwrap().clone();
        left.filter(|left| left.key() == *key)
    }

    fn keeps(&self, user: &User, _credential: &str) -> bool {
        !self.foreign.lock().unwrap().contains(&&*user.name)
    }

    fn upgrade(&self, key: UserKey, outdated: Arc<str>, better: Arc<str>) {
        self.upgrades.lock().unwrap().push((key, outdated, better));
    }

    fn waiting(&self) -> usize {
        0
    }
}

/// Everybody may everything; what the proof said is kept.
#[derive(Default)]
struct Everybody(Mutex<Vec<Proof>>);

impl Grants for Everybody {
    fn zone_name(&self, _zone: Zone) -> Option<String> {
        None
    }

    fn zone_number(&self, zone: &str) -> io::Result<Zone> {
        Ok(Zone(u32::from(zone != DEFAULT_ZONE)))
    }

    fn identity(
        &self,
        login: &LoginAttempt,
        _user: Option<&Arc<User>>,
        proof: Proof,
        expires_at: Tick,
    ) -> io::Result<Option<Arc<Identity>>> {
        self.0.lock().unwrap().push(proof);
        Ok(Some(Arc::new(Identity {
            user: Some(Arc::clone(&login.key.name)),
            zone: Zone(u32::from(&*login.key.zone != DEFAULT_ZONE)),
            rights: Arc::new(Unrestricted::default()),
            expires_at,
            guest: None,
        })))
    }

    fn anonymous(&self, zone: &str, _client_id: Option<Arc<str>>) -> io::Result<Arc<Identity>> {
        Ok(Arc::new(Identity {
            user: None,
            zone: self.zone_number(zone)?,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }
}

struct World {
    center: Center,
    memory: Arc<Memory>,
    grants: Arc<Everybody>,
}

fn settings() -> CenterSettings {
    CenterSettings {
        wanted: Cost::CHEAPEST,
        ..CenterSettings::default()
    }
}

/// One hash thread, on a clock that stands.
pub(super) fn options() -> CenterOptions {
    CenterOptions {
        hash_threads: 1,
        waiting_max: 100,
        at_hash_start: || {},
        hash_helper: None,
        clock: Box::new(|| Tick::from_secs(1)),
        decoy_key: DecoyKey::forgetful().unwrap(),
    }
}

fn world_with(settings: CenterSettings, users: Vec<User>) -> World {
    let memory = Arc::new(Memory::default());
    let keyed = users.into_iter().map(|user| (user.key(), Arc::new(user)));
    *memory.users.lock().unwrap() = keyed.collect();
    let grants = Arc::new(Everybody::default());
    let (accounts, granting) = (Arc::clone(&memory), Arc::clone(&grants));
    let center = Center::start(accounts, granting, settings, options()).unwrap();
    World {
        center,
        memory,
        grants,
    }
}

fn world(users: Vec<User>) -> World {
    world_with(settings(), users)
}

fn user(login: &str, credentials: &[String]) -> User {
    let key = UserKey::parse(login);
    let credential = |text: &String| Credential::new(text.as_str());
    User {
        zone: key.zone,
        name: key.name,
        credentials: credentials.iter().map(credential).collect(),
        roles: Vec::new(),
        disabled: false,
        foreign: false,
    }
}

fn hash(password: &str, cost: Cost) -> String {
    PasswordHash::make(password.as_bytes(), cost)
        .unwrap()
        .to_string()
}

fn cheap(password: &str) -> String {
    hash(password, Cost::CHEAPEST)
}

fn with_password(name: &str, password: &str) -> LoginRequest {
    LoginRequest {
        username: Some(name.into()),
        password: Some(Secret::new(password.into())),
        ..LoginRequest::default()
    }
}

/// How a log-in came out, in few words.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    In(Option<String>),
    Asked,
    Out(Refusal),
}

fn named(name: &str) -> Outcome {
    Outcome::In(Some(name.into()))
}

fn outcome(decision: &Decision) -> Outcome {
    match decision {
        Decision::Accepted(identity, _) => Outcome::In(identity.user.as_deref().map(Into::into)),
        Decision::Continue(..) => Outcome::Asked,
        Decision::Refused(refusal) => Outcome::Out(*refusal),
        // Which the client is not told.
        Decision::JwtRefused(_) => WRONG,
        Decision::Denied { text, .. } => panic!("nobody denies log-ins here: {text}"),
    }
}

impl World {
    fn begin(&self, request: LoginRequest) -> Decision {
        let (sender, receiver) = mpsc::channel();
        let answer = Answer::new(move |decision| sender.send(decision).unwrap());
        match self.center.begin(request, answer) {
            Begun::Decided(decision) => decision,
            Begun::Pending => receiver.recv().unwrap(),
        }
    }

    fn login(&self, request: LoginRequest) -> Outcome {
        outcome(&self.begin(request))
    }

    fn password(&self, name: &str, password: &str) -> Outcome {
        self.login(with_password(name, password))
    }

    /// A whole exchange; whether the server proved itself in the end.
    fn scram(&self, sha: Sha, name: &str, password: &str) -> (Outcome, bool) {
        let client = ScramClient::new(sha, password.as_bytes());
        let (client, first) = client.first(name).unwrap();
        let decision = self.begin(LoginRequest {
            method: Some(Method {
                name: sha.mechanism().into(),
                data: Secret::new(first),
            }),
            ..LoginRequest::default()
        });
        let Decision::Continue(exchange, challenge) = decision else {
            return (outcome(&decision), false);
        };
        let (client, proof) = client.answer(&challenge).unwrap();
        let answer = Answer::new(|_| unreachable!("decided at once"));
        let Begun::Decided(decision) = self.center.proceed(exchange, proof, answer) else {
            panic!("a proof is checked at once");
        };
        let proven = match &decision {
            Decision::Accepted(_, Some(signature)) => client.finish(signature).is_ok(),
            _ => false,
        };
        (outcome(&decision), proven)
    }
}

const WRONG: Outcome = Outcome::Out(Refusal::Credentials);
const DISABLED: Outcome = Outcome::Out(Refusal::Disabled);
