//! Users from a list, with argon2id password hashes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use stentor_hub::{Identity, Rights};
use stentor_session::Tick;
use stentor_topic::Zone;

use crate::model::{ADMIN, ANONYMOUS, MEMBER, initial_roles};
use crate::rights::{Book, Login};
use crate::{Answer, Authenticator, Begun, Decision, Exchange, LoginRequest, Pool, Refusal};

/// The zone of login names without `/`.
const DEFAULT_ZONE: &str = "default";

/// What a password is compared with while there is no user at all, so that the answer takes as
/// long. It is the hash of nothing that anybody knows.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm8gc3VjaCB1c2VyISE$\
                      b5GB0NRDEXeJ2qUoJdhHzDyXKMiLG7NmyRHiAk0Sdf0";

/// One user.
#[derive(Clone)]
pub struct User {
    /// The name, without its zone.
    pub name: String,
    /// The zone.
    pub zone: String,
    /// The password's hash in PHC form: `$argon2id$…`.
    pub password_hash: String,
    /// Whether the user has all rights.
    pub admin: bool,
}

/// Leaves out the hash.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("zone", &self.zone)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a list of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserListError {
    /// A password hash that is none, by user.
    Hash(String),
}

impl fmt::Display for UserListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Hash(name) = self;
        write!(
            f,
            "the password hash of user {name} is not valid; it must be an argon2id hash in PHC \
             form, like $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH"
        )
    }
}

impl std::error::Error for UserListError {}

/// Logs users in from a list that is replaced as a whole on reload. Costs: one lock and one map
/// look-up on the calling thread, the hash in the pool.
pub struct UserList {
    entries: RwLock<Entries>,
    zones: Zones,
    anonymous: Arc<Identity>,
    book: Book,
    pool: Pool,
}

/// The rights of one of the roles that exist from the start. They ask for no client id.
fn rights(book: &Book, role: &str, zone: &str, user: Option<&str>) -> Arc<dyn Rights> {
    let login = Login {
        user: user.map(Into::into),
        client_id: None,
        zone: zone.into(),
    };
    book.holder(&[role.into()], login)
}

#[derive(Default)]
struct Entries {
    users: HashMap<String, Arc<Entry>>,
    /// The hash that unknown names are compared with: some user's, so that it costs the same.
    decoy: Option<Arc<Entry>>,
}

struct Entry {
    identity: Arc<Identity>,
    hash: String,
}

/// Who somebody who logs in may be.
enum Candidate {
    User(Arc<Entry>),
    /// Nobody has that name; whatever is compared, the answer is no.
    Nobody(Option<Arc<Entry>>),
}

impl Candidate {
    /// Compares the password, whoever it is: an unknown name takes as long as a known one.
    fn check(&self, password: &[u8]) -> Decision {
        let hash = match self {
            Self::User(entry) | Self::Nobody(Some(entry)) => &entry.hash,
            Self::Nobody(None) => NOBODY,
        };
        match (verify(hash, password), self) {
            (true, Self::User(entry)) => Decision::Accepted(Arc::clone(&entry.identity), None),
            _ => Decision::Refused(Refusal::Credentials),
        }
    }
}

impl fmt::Debug for UserList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserList")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl UserList {
    /// Logs these users in, hashing in this pool.
    ///
    /// # Errors
    /// When a hash is no argon2 hash.
    pub fn new(users: &[User], pool: Pool) -> Result<Self, UserListError> {
        let book = Book::new(initial_roles().into_iter().map(Arc::new), None);
        let identity = Identity {
            user: None,
            zone: Zone::DEFAULT,
            rights: rights(&book, ANONYMOUS, DEFAULT_ZONE, None),
            expires_at: Tick::NEVER,
        };
        let list = Self {
            entries: RwLock::default(),
            zones: Zones::default(),
            anonymous: Arc::new(identity),
            book,
            pool,
        };
        list.replace(users)?;
        Ok(list)
    }

    /// Takes another list from now on. Who is connected stays so.
    ///
    /// # Errors
    /// When a hash is no argon2 hash; the old list then stays.
    pub fn replace(&self, users: &[User]) -> Result<(), UserListError> {
        let mut entries = Entries::default();
        for user in users {
            let full_name = format!("{}/{}", user.zone, user.name);
            PasswordHash::new(&user.password_hash)
                .map_err(|_| UserListError::Hash(full_name.clone()))?;
            let role = if user.admin { ADMIN } else { MEMBER };
            let identity = Arc::new(Identity {
                user: Some(user.name.as_str().into()),
                zone: self.zones.number(&user.zone),
                rights: rights(&self.book, role, &user.zone, Some(&user.name)),
                expires_at: Tick::NEVER,
            });
            let hash = user.password_hash.clone();
            let entry = Arc::new(Entry { identity, hash });
            entries.decoy.get_or_insert_with(|| Arc::clone(&entry));
            entries.users.insert(full_name, entry);
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    /// What to compare the password of a login name with.
    fn find(&self, login: &str) -> Candidate {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let found = if login.contains('/') {
            entries.users.get(login)
        } else {
            entries.users.get(&format!("{DEFAULT_ZONE}/{login}"))
        };
        match found {
            Some(entry) => Candidate::User(Arc::clone(entry)),
            None => Candidate::Nobody(entries.decoy.clone()),
        }
    }
}

impl Authenticator for UserList {
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun {
        if request.method.is_some() {
            return answer.decided(Decision::Refused(Refusal::Method));
        }
        let Some(username) = &request.username else {
            return answer.decided(if request.anonymous {
                Decision::Accepted(Arc::clone(&self.anonymous), None)
            } else {
                Decision::Refused(Refusal::LoginRequired)
            });
        };
        let candidate = self.find(username);
        let password = request.password.unwrap_or_default();
        match self
            .pool
            .submit((password, answer), move |(password, answer)| {
                answer.give(candidate.check(password.reveal()));
            }) {
            Ok(()) => Begun::Pending,
            Err((_, answer)) => answer.decided(Decision::Refused(Refusal::Busy)),
        }
    }

    fn proceed(&self, _exchange: Exchange, _data: Vec<u8>, answer: Answer) -> Begun {
        answer.decided(Decision::Refused(Refusal::Method))
    }

    fn zone_name(&self, zone: Zone) -> Option<String> {
        self.zones.name(zone)
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }
}

/// Whether a password belongs to a hash. Takes the memory and time that the hash says.
fn verify(hash: &str, password: &[u8]) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// Numbers for the names of zones. A zone keeps its number while the server runs.
#[derive(Debug, Default)]
struct Zones(Mutex<Vec<String>>);

impl Zones {
    fn name(&self, zone: Zone) -> Option<String> {
        let Some(index) = zone.get().checked_sub(1) else {
            return Some(DEFAULT_ZONE.to_owned());
        };
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(index as usize).cloned()
    }

    fn number(&self, name: &str) -> Zone {
        if name == DEFAULT_ZONE {
            return Zone::DEFAULT;
        }
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
        // More zones than a u32 counts do not fit into a configuration file.
        Zone(u32::try_from(index + 1).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PoolOptions, Secret};
    use argon2::password_hash::PasswordHasher;
    use argon2::{Algorithm, Params, Version};
    use std::sync::mpsc;

    /// A hash that costs next to nothing.
    fn cheap_hash(password: &str) -> String {
        let params = Params::new(8, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2
            .hash_password_with_salt(password.as_bytes(), b"saltsalt")
            .unwrap()
            .to_string()
    }

    fn user(zone: &str, name: &str, password: &str) -> User {
        let (name, zone) = (name.to_owned(), zone.to_owned());
        User {
            name,
            zone,
            password_hash: cheap_hash(password),
            admin: false,
        }
    }

    fn list(users: &[User]) -> UserList {
        UserList::new(users, Pool::start(PoolOptions::default()).unwrap()).unwrap()
    }

    fn login(list: &UserList, request: LoginRequest) -> Decision {
        let (sender, receiver) = mpsc::channel();
        match list.begin(
            request,
            Answer::new(move |decision| sender.send(decision).unwrap()),
        ) {
            Begun::Decided(decision) => decision,
            Begun::Pending => receiver.recv().unwrap(),
        }
    }

    fn with_password(username: &str, password: &str) -> LoginRequest {
        LoginRequest {
            username: Some(username.into()),
            password: Some(Secret::new(password.into())),
            ..LoginRequest::default()
        }
    }

    #[test]
    fn the_right_password_of_the_right_user_logs_in() {
        let list = list(&[
            user("default", "ann", "secret"),
            user("game", "ann", "other"),
        ]);
        let cases = [
            ("ann", "secret", Some(Zone::DEFAULT)),
            ("default/ann", "secret", Some(Zone::DEFAULT)),
            ("game/ann", "other", Some(Zone(1))),
            ("ann", "other", None),
            ("game/ann", "secret", None),
            ("bob", "secret", None),
            ("", "", None),
            ("nozone/ann", "secret", None),
        ];
        for (name, password, expected) in cases {
            match (login(&list, with_password(name, password)), expected) {
                (Decision::Accepted(identity, None), Some(zone)) => {
                    assert_eq!(identity.user.as_deref(), Some("ann"));
                    assert_eq!(identity.zone, zone);
                }
                (Decision::Refused(Refusal::Credentials), None) => {}
                (decision, _) => panic!("{name}: {decision:?}"),
            }
        }
    }

    #[test]
    fn nameless_clients_need_a_listener_that_lets_them_in() {
        let list = list(&[]);
        let request = LoginRequest {
            anonymous: true,
            ..LoginRequest::default()
        };
        assert!(matches!(login(&list, request), Decision::Accepted(who, _) if who.user.is_none()));
        let request = LoginRequest::default();
        assert!(matches!(
            login(&list, request),
            Decision::Refused(Refusal::LoginRequired)
        ));
        // A name is checked even where none is needed.
        let request = LoginRequest {
            anonymous: true,
            ..with_password("ann", "x")
        };
        assert!(matches!(
            login(&list, request),
            Decision::Refused(Refusal::Credentials)
        ));
    }

    #[test]
    fn a_reload_replaces_all_or_nothing() {
        let list = list(&[user("default", "ann", "old")]);
        let mut broken = user("default", "bob", "x");
        broken.password_hash = "secret".into();
        let error = list
            .replace(&[user("default", "ann", "new"), broken])
            .unwrap_err();
        assert_eq!(error, UserListError::Hash("default/bob".into()));
        assert!(matches!(
            login(&list, with_password("ann", "old")),
            Decision::Accepted(..)
        ));
        list.replace(&[user("default", "ann", "new")]).unwrap();
        assert!(matches!(
            login(&list, with_password("ann", "old")),
            Decision::Refused(_)
        ));
        assert!(matches!(
            login(&list, with_password("ann", "new")),
            Decision::Accepted(..)
        ));
    }

    #[test]
    fn the_hash_for_nobody_costs_like_a_real_one() {
        let hash = PasswordHash::new(NOBODY).unwrap();
        let params = Params::try_from(&hash).unwrap();
        let default = Params::default();
        assert_eq!(
            (params.m_cost(), params.t_cost(), params.p_cost()),
            (default.m_cost(), default.t_cost(), default.p_cost())
        );
        assert!(!verify(NOBODY, b""));
    }
}
