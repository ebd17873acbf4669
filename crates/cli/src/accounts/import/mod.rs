//! `stentor user import`: many users from one file.

mod csv;
mod json;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use stentor_auth::counted;
use stentor_auth::model::{Credential, DEFAULT_ZONE};
use stentor_auth::store::{Imported, Order};

use super::client::AccountsClient;
use super::secret::{Maker, check as check_password};
use super::show;
use super::user::Format;
use crate::failure::Failure;
use crate::file;
use crate::which::Which;

pub(super) use csv::{in_words, quoted};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Bytes of users that one order carries; a request has to fit into 64 KiB.
const ORDER_BYTES: usize = 40 << 10;

/// Users that one order carries.
const ORDER_USERS: usize = 500;

/// Adds many users. A CSV file begins with the names of its columns: name (or zone/name) and
/// password or credential (hashes that exist already, separated by spaces); zone, roles (separated
/// by spaces, those with spaces in quotes; - for none at all) and disabled may be there too. A JSON
/// file is a list of objects with name and password, or what `stentor user export --format json`
/// writes. What the file does not say of a user is as for an added one; with --replace it stays as
/// it is.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file; its name ends in .csv or .json, or --format says what it is
    file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Replace users that exist, and finish an import that was interrupted. Without it nothing is
    /// imported if one of the users exists
    #[arg(long)]
    replace: bool,
    /// A role for users without a role in the file; can be repeated [default: member]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Zone of users without a zone in the file [default: default]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Store also what SCRAM-SHA-256 and SCRAM-SHA-512 need of passwords
    #[arg(long)]
    scram: bool,
    #[command(flatten)]
    which: Which,
}

/// A user as the file has it, perhaps with a password that is not hashed yet.
struct Row {
    place: Place,
    user: Imported,
    password: Option<String>,
}

impl Row {
    /// A user of whom nothing more is said than perhaps a password, which says nothing of tokens.
    fn new(place: Place, zone: &str, name: &str, password: Option<String>) -> Self {
        let user = Imported {
            zone: zone.into(),
            name: name.into(),
            credentials: None,
            keeps_tokens: true,
            roles: None,
            disabled: None,
            foreign: None,
        };
        Self {
            place,
            user,
            password,
        }
    }
}

/// Where a user is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a line of CSV.
    Line(usize),
    /// In an entry of a list, from 1 on.
    Entry(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

/// Checks what the server does not see, passwords and that nobody stands there twice: where
/// everybody stands.
fn places(rows: &[Row]) -> Result<HashMap<String, Place>, String> {
    let mut places = HashMap::with_capacity(rows.len());
    for row in rows {
        let (place, key) = (row.place, row.user.key().to_string());
        let wrong = |reason: &dyn fmt::Display| format!("{place}, user {key:?}: {reason}");
        if let Some(password) = &row.password {
            check_password(password.as_bytes()).map_err(|reason| wrong(&reason.message()))?;
        }
        if let Some(first) = places.insert(key.clone(), place) {
            return Err(wrong(&format!("the same user is in {first} already")));
        }
    }
    Ok(places)
}

/// Where the user stands whom a refusal is about.
fn place_of(places: &HashMap<String, Place>, message: &str) -> Option<Place> {
    let rest = message.strip_prefix("user ")?;
    // A name may contain what follows it.
    let ends = rest.match_indices(": ").map(|(at, _)| &rest[..at]);
    ends.filter_map(|login| places.get(login)).last().copied()
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let shown = self.file.display();
        let failed = |reason: &dyn fmt::Display| Failure::new(format!("{shown}: {reason}"));
        let text = file::read_text(&self.file, FILE_BYTES_MAX);
        let text = text.map_err(|error| failed(&format!("cannot read it: {error}")))?;
        let (rows, nobody) = match self.form()? {
            Format::Csv => (
                csv::parse(&text),
                "there are no rows below the names of its columns",
            ),
            Format::Json => (json::parse(&text), "its list is empty"),
        };
        let mut rows = rows.map_err(|reason| failed(&reason))?;
        if !self.roles.is_empty() {
            let roles: Vec<_> = self.roles.iter().map(|role| role.as_str().into()).collect();
            for row in &mut rows {
                row.user.roles.get_or_insert_with(|| roles.clone());
            }
        }
        if let Some(zone) = &self.zone {
            let nowhere = |row: &&mut Row| &*row.user.zone == DEFAULT_ZONE;
            for row in rows.iter_mut().filter(nowhere) {
                row.user.zone = zone.as_str().into();
            }
        }
        // Everything that can be refused is, before the long work begins.
        let places = places(&rows).map_err(|reason| failed(&reason))?;
        let mut accounts = self.which.open()?;
        if !self.replace {
            self.refuse_known(&mut accounts, &places)?;
        }
        let placed = |failure: Failure| match place_of(&places, failure.message()) {
            Some(place) => failure.with_note(&format!("see {shown}, {place}")),
            None => failure,
        };
        let maker = accounts.maker(self.scram)?;
        check(&mut accounts, &rows, &maker, self.replace).map_err(placed)?;
        let users = hash_all(rows, &maker).map_err(|reason| failed(&reason))?;
        let imported = send(&mut accounts, users, self.replace).map_err(placed)?;
        let answer = json!({ "imported": imported });
        show(self.which.json, &answer, || match imported {
            0 => format!("{shown}: {nobody}; no user is imported\n"),
            _ => format!("imported: {}\n", counted(imported as u64, "user")),
        })
    }

    /// Refuses users who exist, before the long work begins.
    fn refuse_known(
        &self,
        accounts: &mut AccountsClient,
        places: &HashMap<String, Place>,
    ) -> Result<(), Failure> {
        let known = accounts.users_among(|login| places.contains_key(login))?;
        let Some(first) = known.first() else {
            return Ok(());
        };
        let place = places.get(first).map(Place::to_string).unwrap_or_default();
        Err(Failure::new(format!(
            "{}: {place}, user {first:?}: there is one already, as there are of {} of the {} users \
             here; nothing is imported. --replace replaces them, which also finishes an import \
             that was cut short",
            self.file.display(),
            known.len(),
            places.len()
        )))
    }

    fn form(&self) -> Result<Format, Failure> {
        let form = self.format.or_else(|| Format::of(&self.file));
        form.ok_or_else(|| Failure::usage("say what the file is: --format csv or json"))
    }
}

/// Users in groups, each of which fits into an order.
fn groups(users: impl Iterator<Item = Imported>) -> impl Iterator<Item = Vec<Imported>> {
    let mut users = users.peekable();
    std::iter::from_fn(move || {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < ORDER_USERS
            && let Some(user) = users.next_if(|user| bytes == 0 || bytes + size(user) < ORDER_BYTES)
        {
            bytes += size(&user);
            group.push(user);
        }
        (!group.is_empty()).then_some(group)
    })
}

/// Lets the user database check all users as they will be, since it knows the zones, roles and
/// tokens. So a bad user is refused before a user is imported or a password is hashed.
fn check(
    accounts: &mut AccountsClient,
    rows: &[Row],
    maker: &Maker,
    replace: bool,
) -> Result<(), Failure> {
    let foreseen = |row: &Row| {
        let mut user = row.user.clone();
        if row.password.is_some() {
            user.credentials
                .get_or_insert_default()
                .extend(maker.foresee());
        }
        user
    };
    for users in groups(rows.iter().map(foreseen)) {
        accounts.order(&Order::UserImportCheck { users, replace })?;
    }
    Ok(())
}

/// Adds users in orders of bounded size; how many.
pub(super) fn send(
    accounts: &mut AccountsClient,
    users: Vec<Imported>,
    replace: bool,
) -> Result<usize, Failure> {
    let count = users.len();
    let mut imported = 0;
    for batch in groups(users.into_iter()) {
        let len = batch.len();
        let order = Order::UserImport {
            users: batch,
            replace,
        };
        let note = format!(
            "{imported} of {count} users were imported before; the same import with --replace \
             takes the others too"
        );
        accounts.order(&order).map_err(|failure| match imported {
            0 => failure,
            _ => failure.with_note(&note),
        })?;
        imported += len;
    }
    Ok(imported)
}

/// About the bytes that a user takes in an order.
fn size(user: &Imported) -> usize {
    let credentials = user.credentials.iter().flatten();
    let credentials = credentials.map(|one| one.text.len() + 100);
    let roles = user.roles.iter().flatten().map(|role| 2 * role.len() + 4);
    let names = 2 * (user.name.len() + user.zone.len());
    names + credentials.sum::<usize>() + roles.sum::<usize>() + 120
}

/// Hashes all passwords, on all processors; that takes a while for thousands.
fn hash_all(rows: Vec<Row>, maker: &Maker) -> Result<Vec<Imported>, String> {
    let count = rows.iter().filter(|row| row.password.is_some()).count();
    let progress = ProgressBar::new(count as u64).with_message("hashing passwords");
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let work = || -> Result<Vec<(usize, Vec<Credential>)>, String> {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(at) else {
                return Ok(made);
            };
            let Some(password) = &row.password else {
                continue;
            };
            let credentials = maker.make(password.as_bytes());
            let told = |failure: Failure| {
                let login = row.user.key().to_string();
                format!("{}, user {login:?}: {}", row.place, failure.message())
            };
            made.push((at, credentials.map_err(told)?));
            progress.inc(1);
        }
    };
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread that hashes has failed".to_owned()))
        });
        results.collect::<Result<Vec<_>, _>>()
    })?;
    progress.finish_and_clear();
    let mut users: Vec<Imported> = rows.into_iter().map(|row| row.user).collect();
    for (at, credentials) in made.into_iter().flatten() {
        users[at]
            .credentials
            .get_or_insert_default()
            .extend(credentials);
    }
    Ok(users)
}
