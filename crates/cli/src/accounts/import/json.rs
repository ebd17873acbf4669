//! Users in JSON: a list of objects.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value};
use stentor_auth::credential::Stored;
use stentor_auth::model::{Credential, DEFAULT_ZONE, Login};

use super::{Place, Row};

/// An object of a list, with the first key that is in it twice: of two passwords, nobody knows
/// which one is meant.
struct Entry {
    fields: Map<String, Value>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut fields, mut twice) = (Map::new(), None);
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if fields.insert(key.clone(), value).is_some() {
                twice.get_or_insert(key);
            }
        }
        Ok(Entry { fields, twice })
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| no_list(&error))?;
    let entry = |(at, entry)| row(Place::Entry(at + 1), entry);
    entries.into_iter().enumerate().map(entry).collect()
}

/// Why a file is not a list of users. The parser's message might quote a value,
/// which may be a secret.
fn no_list(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let what = match error.classify() {
        Category::Eof => "the file ends in the middle of its JSON",
        Category::Io | Category::Syntax => "this is not JSON",
        Category::Data => {
            "it is not a list of objects, as `stentor user export --format json` writes it"
        }
    };
    format!("line {line}, column {column}: {what}")
}

/// The keys that an object may have.
const KEYS: [&str; 7] = [
    "name",
    "password",
    "credentials",
    "zone",
    "roles",
    "disabled",
    "foreign",
];

/// Takes a value out of an object; null is none.
fn field<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, String> {
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|_| {
            format!("the value of {key:?} is not as `stentor user export --format json` writes it")
        }),
    }
}

/// A user with what is stored of it, or with a password.
fn row(place: Place, entry: Entry) -> Result<Row, String> {
    let Entry { mut fields, twice } = entry;
    let name: Option<String> = field(&mut fields, "name").map_err(|error| at(place, "", &error))?;
    let name = name.ok_or_else(|| at(place, "", "the key \"name\" is missing"))?;
    let wrong = |reason: &str| at(place, &name, reason);
    if let Some(key) = twice {
        return Err(wrong(&format!("the key {key:?} is there twice")));
    }
    let password: Option<String> = field(&mut fields, "password").map_err(|e| wrong(&e))?;
    let credentials: Option<Vec<Credential>> =
        field(&mut fields, "credentials").map_err(|e| wrong(&e))?;
    let zone: Option<String> = field(&mut fields, "zone").map_err(|e| wrong(&e))?;
    let roles: Option<Vec<Arc<str>>> = field(&mut fields, "roles").map_err(|e| wrong(&e))?;
    let disabled: Option<bool> = field(&mut fields, "disabled").map_err(|e| wrong(&e))?;
    let foreign: Option<bool> = field(&mut fields, "foreign").map_err(|e| wrong(&e))?;
    if let Some(key) = fields.keys().next() {
        let known = KEYS.join(", ");
        return Err(wrong(&format!(
            "there is no key {key:?}; there are {known}"
        )));
    }
    for credential in credentials.iter().flatten() {
        Stored::parse(&credential.text).map_err(|error| wrong(&error.to_string()))?;
    }
    let (zone, name) = match zone.as_deref() {
        None | Some(DEFAULT_ZONE) => {
            let login = Login::parse(&name);
            (login.zone, login.name)
        }
        Some(zone) => (zone, &*name),
    };
    let mut row = Row::new(place, zone, name, password);
    // A list of credentials is all that the user has.
    row.user.keeps_tokens = credentials.is_none();
    row.user.credentials = credentials;
    row.user.roles = roles;
    row.user.disabled = disabled;
    row.user.foreign = foreign;
    Ok(row)
}

/// A reason with its place; the name is empty where none is known.
fn at(place: Place, name: &str, reason: &str) -> String {
    match name {
        "" => format!("{place}: {reason}"),
        name => format!("{place}, user {name:?}: {reason}"),
    }
}
