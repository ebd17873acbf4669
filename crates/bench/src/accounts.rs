//! Accounts for a login storm: made in the server's own books before it starts, each used once.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use stentor_auth::credential::scram::SaltedPassword;
use stentor_auth::credential::{
    Cost, PasswordHash, ScramSecret, Sha, Token, keep_memory, release_memory,
};
use stentor_auth::model::{Credential, DEFAULT_ZONE, MEMBER, User};
use stentor_auth::store::{
    Books, Directory, DirectoryOptions, IMPORT_USERS_MAX, Imported, Order, Place, PlaceError,
    SqlStore, TextStore, Who,
};

use crate::error::BenchError;
use crate::mariadb::MariaDb;
use crate::process;
use crate::wire::Login;

/// What everybody knows where passwords are asked for.
const PASSWORD: &str = "correct horse battery staple";

/// What the floor appends to a client's nonce: as much as a server would, with the salt below.
pub(crate) const CANNED_CHALLENGE: &str =
    "0123456789abcdefghijklmn,s=c3RlbnRvciBiZW5jaCAwMQ==,i=4096";

/// The salt of all SCRAM secrets, so that one salted password fits all.
const SCRAM_SALT: &[u8; 16] = b"stentor bench 01";

/// Rounds of SCRAM secrets: they are the client's affair, who did them before the clock starts.
const SCRAM_ITERATIONS: u32 = 4_096;

/// What the clients of a storm prove themselves with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Proof {
    /// A random token
    Token,
    /// SCRAM-SHA-256 by AUTH packets
    ScramSha256,
    /// SCRAM-SHA-512 by AUTH packets
    ScramSha512,
    /// A password with an argon2id hash
    Argon2id,
    /// A password with the PBKDF2 of mosquitto's password files, 101 rounds
    MosquittoPbkdf2,
}

impl Proof {
    /// As on the command line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ScramSha256 => "scram-sha256",
            Self::ScramSha512 => "scram-sha512",
            Self::Argon2id => "argon2id",
            Self::MosquittoPbkdf2 => "mosquitto-pbkdf2",
        }
    }

    /// The digest of SCRAM, if it is that.
    pub(crate) const fn scram(self) -> Option<Sha> {
        match self {
            Self::ScramSha256 => Some(Sha::Sha256),
            Self::ScramSha512 => Some(Sha::Sha512),
            Self::Token | Self::Argon2id | Self::MosquittoPbkdf2 => None,
        }
    }
}

/// The kind of user database that holds the accounts, within the server's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StoreKind {
    /// The embedded database
    Sqlite,
    /// A text file
    File,
}

/// Where the accounts are kept.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// In the server's folder.
    Own(StoreKind),
    /// In a database that runs already.
    Url {
        /// Its address.
        url: String,
        /// The address in the server's configuration: a detour, or the same.
        told: String,
    },
    /// In a database server that is started for the purpose.
    Started(MariaDb),
}

impl Home {
    /// For titles.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Own(StoreKind::Sqlite) => "sqlite",
            Self::Own(StoreKind::File) => "file",
            Self::Started(_) => "mariadb",
            Self::Url { url, .. } => url
                .split_once(':')
                .map_or("a database", |(scheme, _)| scheme),
        }
    }
}

/// Refuses a URL that does not name a database server: the users of a file would be replaced.
///
/// # Errors
/// When it is none. A password is not repeated: the URL has none to have.
pub(crate) fn check_database(url: &str) -> Result<(), BenchError> {
    let refused = |why: &str| BenchError::usage(format!("--database: {why}"));
    match url.parse() {
        Ok(Place::Postgres(_) | Place::MySql(_)) => Ok(()),
        Ok(_) => Err(refused(
            "only a server is named so, by postgres:// or mysql://; files of accounts are made by \
             --store",
        )),
        Err(error @ PlaceError::Password) => Err(refused(&format!(
            "{error}; take it out, and name a user who needs none, as of a database that is for \
             benchmarks and listens on loopback; PostgreSQL's may be in the variable PGPASSWORD"
        ))),
        Err(error @ (PlaceError::Scheme | PlaceError::Path | PlaceError::Url(_))) => {
            Err(refused(&error.to_string()))
        }
    }
}

/// The user of all clients that are there beside the storm.
const CROWD: &str = "crowd";

/// This many accounts with everything that their owners know.
pub(crate) struct Accounts {
    users: Vec<User>,
    secrets: Vec<String>,
    salted: Option<SaltedPassword>,
    home: Home,
    crowd: Login,
    hash: Option<String>,
}

/// Leaves out the secrets.
impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts")
            .field("count", &self.users.len())
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

fn user(name: String, credential: String) -> User {
    User {
        zone: DEFAULT_ZONE.into(),
        name: name.into(),
        credentials: vec![Credential::new(credential)],
        roles: vec![MEMBER.into()],
        disabled: false,
        foreign: false,
    }
}

impl Accounts {
    /// What the names of all accounts start with; the rest is their number.
    pub(crate) const NAME_START: &str = "user-";

    /// The name of the nth account.
    pub(crate) fn name(index: usize) -> String {
        format!("{}{index}", Self::NAME_START)
    }

    /// Makes accounts. All passwords are the same and so are their hashes, which no server can
    /// know; tokens differ.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn make(proof: Proof, home: Home, count: usize) -> Result<Self, BenchError> {
        let failed = |error: stentor_auth::credential::MakeError| {
            BenchError::usage(format!("cannot make accounts: {error}"))
        };
        let mut accounts = Self {
            users: Vec::with_capacity(count),
            secrets: Vec::with_capacity(count),
            salted: None,
            home,
            crowd: Login::default(),
            hash: None,
        };
        let password = |cost| PasswordHash::make(PASSWORD.as_bytes(), cost).map_err(failed);
        let shared = match proof {
            Proof::Token => None,
            Proof::Argon2id => Some(password(Cost::DEFAULT)?.to_string()),
            Proof::MosquittoPbkdf2 => {
                let digest = Sha::Sha512;
                let iterations = 101;
                Some(password(Cost::Pbkdf2 { digest, iterations })?.to_string())
            }
            Proof::ScramSha256 | Proof::ScramSha512 => {
                let sha = proof.scram().unwrap_or(Sha::Sha256);
                let bytes = PASSWORD.as_bytes();
                let salted = SaltedPassword::derive(sha, bytes, SCRAM_SALT, SCRAM_ITERATIONS);
                let salted = salted.map_err(failed)?;
                let text = ScramSecret::of(&salted).to_string();
                accounts.salted = Some(salted);
                Some(text)
            }
        };
        accounts.hash = shared.clone().filter(|text| text.starts_with('$'));
        let token = Token::generate().map_err(failed)?;
        accounts
            .users
            .push(user(CROWD.to_owned(), token.hash().to_string()));
        accounts.crowd = Login {
            username: Some(CROWD.to_owned()),
            password: Some(token.reveal().to_owned()),
        };
        for index in 0..count {
            let (secret, text) = match &shared {
                Some(text) => (PASSWORD.to_owned(), text.clone()),
                None => {
                    let token = Token::generate().map_err(failed)?;
                    (token.reveal().to_owned(), token.hash().to_string())
                }
            };
            accounts.secrets.push(secret);
            accounts.users.push(user(Self::name(index), text));
        }
        Ok(accounts)
    }

    /// What clients beside the storm log in with.
    pub(crate) const fn crowd(&self) -> &Login {
        &self.crowd
    }

    /// The CPU seconds that one comparison of a password takes on this machine, nothing else being
    /// done; `None` where no password is hashed.
    pub(crate) fn hash_cpu_s(&self) -> Option<f64> {
        // Some seconds, as the storm lasts: a processor that was idle is quicker at first.
        const TIMES: u32 = 100;
        let hash = PasswordHash::parse(self.hash.as_deref()?).ok()?;
        let verify = || std::hint::black_box(hash.verify(PASSWORD.as_bytes(), hash.cost()));
        // One hash after the other, as in a storm.
        keep_memory();
        verify();
        let before_s = process::thread_cpu_s();
        for _ in 0..TIMES {
            verify();
        }
        let used_s = process::thread_cpu_s() - before_s;
        release_memory();
        Some(used_s / f64::from(TIMES))
    }

    /// What the nth client shows in CONNECT.
    pub(crate) fn login(&self, index: usize) -> Login {
        Login {
            username: Some(Self::name(index)),
            password: self.secrets.get(index).cloned(),
        }
    }

    /// The name of the nth client, and the password that it has salted before.
    pub(crate) fn scram(&self, index: usize) -> Option<(String, SaltedPassword)> {
        Some((Self::name(index), self.salted.clone()?))
    }

    /// The place of the user database in a server's data folder, if it is not the default.
    ///
    /// # Errors
    /// When a database server has to be started for it, and does not start.
    pub(crate) fn database(&self) -> Result<Option<String>, BenchError> {
        Ok(match &self.home {
            Home::Own(StoreKind::Sqlite) => None,
            Home::Own(StoreKind::File) => Some("file:users.txt".to_owned()),
            Home::Url { told, .. } => Some(told.clone()),
            Home::Started(database) => Some(database.url()?),
        })
    }

    /// Writes the accounts to the user database of a data folder on which no server runs yet.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn fill(&self, data_dir: &Path) -> Result<(), BenchError> {
        let failed = |error: &dyn fmt::Display| {
            BenchError::usage(format!("cannot write the accounts: {error}"))
        };
        std::fs::create_dir_all(data_dir).map_err(|error| failed(&error))?;
        let place = match &self.home {
            Home::Own(StoreKind::Sqlite) => Place::Sqlite(data_dir.join("auth.db")),
            Home::Own(StoreKind::File) => Place::Text(data_dir.join("users.txt")),
            Home::Url { url, .. } => url.parse().map_err(|error| failed(&error))?,
            Home::Started(database) => database.url()?.parse().map_err(|error| failed(&error))?,
        };
        let books = match &place {
            Place::Text(path) => Books::of(TextStore::new(path)),
            place => Books::of(SqlStore::new(place, None).map_err(|error| failed(&error))?),
        };
        let options = DirectoryOptions {
            admin_password: Some(data_dir.join("admin-password")),
            ..DirectoryOptions::default()
        };
        let directory = Directory::start(books, options).map_err(|error| failed(&error))?;
        for users in self.users.chunks(IMPORT_USERS_MAX) {
            let order = Order::UserImport {
                users: users.iter().cloned().map(Imported::from).collect(),
                // A database that lasts has those of an earlier run.
                replace: true,
            };
            directory
                .order(Who::new("bench"), order)
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}
