//! Users in tables that the operator has already.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::warn;

use super::sql::{Reader, Typed, UNREAD};
use super::{Place, Source, StoreError, Task};
use crate::model::{Credential, DEFAULT_ZONE, MEMBER, NameError, SERVER, User, UserKey};

/// What the columns of the operator's query are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The name within the zone. It must be there.
    pub name: String,
    /// The password's hash. The column must be there; NULL means that there is no password.
    pub password: String,
    /// The names of roles, separated by commas or white space.
    pub roles: String,
    /// Whether the user may not log in: a number other than 0, a word for yes, or a date. A value
    /// that is neither a yes nor a no also refuses the user, and is logged.
    pub disabled: String,
    /// The zone.
    pub zone: String,
}

impl Default for Columns {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            name: text("name"),
            password: text("password"),
            roles: text("roles"),
            disabled: text("disabled"),
            zone: text("zone"),
        }
    }
}

/// Which of the columns that may be missing have to be there all the same. A column for disabled
/// that is gone would let everybody in.
#[derive(Clone, Copy, Debug, Default)]
struct Needed {
    roles: bool,
    disabled: bool,
    zone: bool,
}

impl Columns {
    /// Those with names of the operator's own.
    fn mapped(&self) -> Needed {
        let usual = Self::default();
        Needed {
            roles: self.roles != usual.roles,
            disabled: self.disabled != usual.disabled,
            zone: self.zone != usual.zone,
        }
    }

    /// What comes of a value that cannot be read; `None` if it is what the operator expects: a date
    /// in `disabled_at` disables.
    fn effect(&self, typed: &Typed) -> Option<&'static str> {
        let is = |name: &String| typed.column.eq_ignore_ascii_case(name);
        let is_date = ["DATE", "TIME"]
            .iter()
            .any(|start| typed.kind.starts_with(start));
        let others = [&self.name, &self.password, &self.roles, &self.zone];
        if is(&self.disabled) {
            (!is_date).then_some("each user with a value there is disabled")
        } else if others.into_iter().any(is) {
            Some("a user with a value there cannot log in")
        } else {
            None
        }
    }
}

/// Looks users up by a query of the operator's: `SELECT … WHERE name IN (?)`, in which `(?)` stands
/// for the list of names.
pub struct QuerySource {
    reader: Reader,
    query: String,
    columns: Columns,
    role: Arc<str>,
    shown: String,
    /// What the configuration maps, and what was there before.
    needed: Mutex<Needed>,
    /// What was said of columns and values that cannot be read.
    told: Mutex<BTreeSet<String>>,
}

/// Sentences that are remembered, so that they are said once. A column that makes no sense makes
/// one for each user.
const TOLD_MAX: usize = 1_000;

impl QuerySource {
    /// Asks a database with a query. A user without a role there gets this one, or `member`.
    ///
    /// # Errors
    /// When the place is not an SQL database, or `(?)` is not in the query exactly once.
    pub fn new(
        place: &Place,
        password: Option<&str>,
        query: &str,
        columns: Columns,
        role: Option<&str>,
    ) -> Result<Self, StoreError> {
        if query.matches("(?)").count() != 1 || query.matches('?').count() != 1 {
            return Err(StoreError::Refused(
                "the query needs `(?)` exactly once, in the place of the list of names, like: \
                 SELECT name, password FROM account WHERE name IN (?)"
                    .to_owned(),
            ));
        }
        Ok(Self {
            reader: Reader::new(place, password)?,
            query: query.to_owned(),
            needed: Mutex::new(columns.mapped()),
            columns,
            role: role.unwrap_or(MEMBER).into(),
            shown: place.to_string(),
            told: Mutex::default(),
        })
    }

    async fn look(&self, keys: &[UserKey]) -> Result<Vec<User>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut names: Vec<String> = keys.iter().map(|key| key.name.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        let answer = self.reader.fetch(&self.query, names).await?;
        self.tell(
            answer
                .unread
                .iter()
                .filter_map(|typed| self.complaint(typed)),
        );
        if answer.rows.is_empty() {
            return Ok(Vec::new());
        }
        let places = self.places(&answer.columns)?;
        let mut users: BTreeMap<UserKey, User> = BTreeMap::new();
        for user in answer.rows.iter().filter_map(|row| self.user(row, &places)) {
            match users.entry(user.key()) {
                Entry::Vacant(place) => drop(place.insert(user)),
                Entry::Occupied(mut first) => join(first.get_mut(), user),
            }
        }
        let with_role = users.into_values().map(|mut user| {
            if user.roles.is_empty() {
                user.roles.push(Arc::clone(&self.role));
            }
            user
        });
        Ok(with_role.collect())
    }

    /// Where the columns of an answer are. What was there once has to be there from then on.
    fn places(&self, columns: &[String]) -> Result<Places, StoreError> {
        // Every step leaves it whole.
        let mut needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        let places = Places::of(columns, &self.columns, *needed)?;
        needed.roles |= places.roles.is_some();
        needed.disabled |= places.disabled.is_some();
        needed.zone |= places.zone.is_some();
        Ok(places)
    }

    /// Says each sentence once.
    fn tell(&self, sentences: impl IntoIterator<Item = String>) {
        for sentence in sentences {
            // Every step leaves the set whole.
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < TOLD_MAX && told.insert(sentence.clone()) {
                warn!("{sentence}");
            }
        }
    }

    /// That a column cannot be read, if that matters.
    fn complaint(&self, typed: &Typed) -> Option<String> {
        let effect = self.columns.effect(typed)?;
        let Typed { column, kind } = typed;
        Some(format!(
            "the column {column:?} of auth.query in {} has the type {kind}, which cannot be read: \
             {effect}; make it text in the query: CAST({column} AS {}) AS {column}",
            self.shown,
            self.reader.text()
        ))
    }

    /// The columns that cannot be read, as far as the database tells before there is a row.
    ///
    /// # Errors
    /// When a column is missing that has to be there.
    async fn complaints(&self) -> Result<Vec<String>, StoreError> {
        let columns = self.reader.columns(&self.query).await?;
        let names: Vec<String> = columns.iter().map(|one| one.typed.column.clone()).collect();
        self.places(&names)?;
        let unread = columns.iter().filter(|one| !one.is_readable);
        Ok(unread
            .filter_map(|one| self.complaint(&one.typed))
            .collect())
    }

    /// Whether a user may not log in, by the value of its column. What is not understood shuts it
    /// out; a value whose type cannot be read was told of as a column, unless it is a date.
    fn is_disabled(&self, key: &UserKey, value: Option<&str>) -> bool {
        let text = value.unwrap_or_default();
        let said = if text == UNREAD {
            Some(true)
        } else {
            disables(text)
        };
        said.unwrap_or_else(|| {
            // The value itself may be anything, a hash too if the wrong column is named.
            self.tell([format!(
                "the user {:?} is refused: its value in the column {:?} of auth.query in {} is \
                 neither yes nor no; write 0 or 1, true or false, NULL or a date there",
                key.to_string(),
                self.columns.disabled,
                self.shown
            )]);
            true
        })
    }

    /// The user of a row; none if the name is NULL. A password that is too long to be a hash is
    /// none, and roles that cannot be read disable, so that this user alone is refused.
    fn user(&self, row: &[Option<String>], at: &Places) -> Option<User> {
        let value = |place: Option<usize>| place.and_then(|at| row.get(at)?.as_deref());
        let name = value(Some(at.name))?;
        if name == SERVER {
            let error = NameError::Server;
            let shown = &self.shown;
            self.tell([format!(
                "a user of auth.query in {shown} is refused: {error}"
            )]);
            return None;
        }
        let roles = value(at.roles).unwrap_or_default();
        let is_unread = roles == UNREAD;
        let zone = value(at.zone).filter(|zone| !zone.is_empty());
        let password = value(Some(at.password))
            .map(str::trim)
            .filter(|hash| (1..=HASH_BYTES_MAX).contains(&hash.len()));
        let key = UserKey::new(zone.unwrap_or(DEFAULT_ZONE), name);
        let is_disabled = self.is_disabled(&key, value(at.disabled));
        Some(User {
            zone: key.zone,
            name: key.name,
            credentials: password.map(Credential::new).into_iter().collect(),
            roles: roles_in(roles).map(Arc::from).collect(),
            disabled: is_unread || is_disabled,
            foreign: true,
        })
    }
}

/// A query that joins accounts with their roles answers with a row for each role: a user has the
/// roles of all rows, and is disabled by any.
fn join(user: &mut User, row: User) {
    user.disabled |= row.disabled;
    for role in row.roles {
        if !user.roles.contains(&role) {
            user.roles.push(role);
        }
    }
    for credential in row.credentials {
        if !user.credentials.contains(&credential) {
            user.credentials.push(credential);
        }
    }
}

/// Where the columns are in a row.
struct Places {
    name: usize,
    password: usize,
    roles: Option<usize>,
    disabled: Option<usize>,
    zone: Option<usize>,
}

impl Places {
    fn of(columns: &[String], wanted: &Columns, needed: Needed) -> Result<Self, StoreError> {
        let find = |name: &String| {
            columns
                .iter()
                .position(|column| column.eq_ignore_ascii_case(name))
        };
        let must = |name: &String| {
            find(name).ok_or_else(|| {
                StoreError::Refused(format!(
                    "the query answers with no column {name:?}, but with {}; rename it with AS, or \
                     map it with auth.column_… in the configuration",
                    columns.join(", ")
                ))
            })
        };
        let may = |name: &String, is_needed: bool| match is_needed {
            true => must(name).map(Some),
            false => Ok(find(name)),
        };
        Ok(Self {
            name: must(&wanted.name)?,
            password: must(&wanted.password)?,
            roles: may(&wanted.roles, needed.roles)?,
            disabled: may(&wanted.disabled, needed.disabled)?,
            zone: may(&wanted.zone, needed.zone)?,
        })
    }
}

/// The longest text that may be a hash, in bytes.
const HASH_BYTES_MAX: usize = 1_024;

/// The names of roles in a value: people write lists over several lines, too.
fn roles_in(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |one: char| one == ',' || one.is_whitespace();
    text.split(is_between).filter(|role| !role.is_empty())
}

/// Whether a value disables, in what databases and people write for yes and for no; `None` if it
/// says neither.
fn disables(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "" | "f" | "false" | "n" | "no" | "off" => Some(false),
        "t" | "true" | "y" | "yes" | "on" => Some(true),
        date if is_date(date) => Some(true),
        number => {
            let number = number.parse::<f64>().ok().filter(|one| one.is_finite());
            number.map(|one| one != 0.0)
        }
    }
}

/// Whether a text begins with a date, as the one in `disabled_at` of SQLite does.
fn is_date(text: &str) -> bool {
    let shape = text.bytes().take(10).map(|byte| match byte {
        b'0'..=b'9' => b'0',
        other => other,
    });
    shape.eq(*b"0000-00-00")
}

impl Source for QuerySource {
    fn describe(&self) -> String {
        self.shown.clone()
    }

    fn open(&self) -> Task<'_, ()> {
        Box::pin(async {
            self.reader.ping().await?;
            // This finds a query that does not work at the start. No user has this name.
            self.look(&[UserKey::new(DEFAULT_ZONE, "\u{1}")]).await?;
            self.tell(self.complaints().await?);
            Ok(())
        })
    }

    fn complaints(&self) -> Task<'_, Vec<String>> {
        Box::pin(self.complaints())
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<User>> {
        Box::pin(self.look(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_separated_by_commas_and_white_space() {
        for text in ["a,b", " a  b ", "a\tb", "a\r\nb\n", "a,\n\tb,", "a\u{a0}b"] {
            assert_eq!(roles_in(text).collect::<Vec<_>>(), ["a", "b"], "{text:?}");
        }
        assert_eq!(roles_in(" \n,").count(), 0);
    }

    #[test]
    fn a_value_disables_or_does_not_or_says_neither() {
        for (text, expected) in [
            ("1", Some(true)),
            ("t", Some(true)),
            ("TRUE", Some(true)),
            ("yes", Some(true)),
            ("-2", Some(true)),
            ("0.5", Some(true)),
            ("00000100", Some(true)),
            ("2026-01-01", Some(true)),
            ("2026-01-01 10:00", Some(true)),
            ("0", Some(false)),
            ("f", Some(false)),
            ("", Some(false)),
            (" No\n", Some(false)),
            ("0.00", Some(false)),
            ("0000", Some(false)),
            ("maybe", None),
            ("inf", None),
            ("NaN", None),
            ("$7$101$", None),
            ("2026-1-1", None),
        ] {
            assert_eq!(disables(text), expected, "{text}");
        }
    }

    #[test]
    fn a_column_that_cannot_be_read_is_told_by_what_comes_of_it() {
        let columns = Columns::default();
        for (column, kind, expected) in [
            ("disabled", "TIMESTAMPTZ", None),
            ("Disabled", "DATETIME", None),
            ("disabled", "UUID", Some("is disabled")),
            ("roles", "DATE", Some("cannot log in")),
            ("zone", "UUID", Some("cannot log in")),
            ("seen_at", "TIMESTAMP", None),
        ] {
            let typed = Typed {
                column: column.to_owned(),
                kind: kind.to_owned(),
            };
            let effect = columns.effect(&typed);
            let ends = effect
                .zip(expected)
                .is_some_and(|(it, end)| it.ends_with(end));
            assert!(ends || effect == expected, "{column} {kind}: {effect:?}");
        }
    }

    #[test]
    fn a_query_without_its_list_is_refused() {
        let place: Place = "sqlite:x".parse().unwrap();
        for query in [
            "SELECT 1",
            "SELECT (?) WHERE (?)",
            "SELECT ? WHERE x IN (?)",
        ] {
            let made = QuerySource::new(&place, None, query, Columns::default(), None);
            assert!(matches!(made, Err(StoreError::Refused(_))), "{query}");
        }
    }

    #[test]
    fn missing_columns_are_named() {
        let columns = ["login".to_owned(), "PASSWORD".to_owned()];
        let usual = Columns::default();
        let error = Places::of(&columns, &usual, usual.mapped())
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("\"name\"") && error.contains("login, PASSWORD"),
            "{error}"
        );
        let mapped = Columns {
            name: "login".into(),
            ..Columns::default()
        };
        let places = Places::of(&columns, &mapped, mapped.mapped()).unwrap();
        assert_eq!((places.name, places.password, places.zone), (0, 1, None));
        let mapped = Columns {
            disabled: "locked".into(),
            ..mapped
        };
        let refused = Places::of(&columns, &mapped, mapped.mapped())
            .err()
            .unwrap();
        assert!(refused.to_string().contains("\"locked\""), "{refused}");
    }
}
