//! All values of a configuration as they were given, with their places, and without secrets.

use std::sync::Arc;

use super::givens::Givens;
use super::keys::SECTIONS;
use super::problem::Origin;
use super::table::{Fallback, Key, Section};
use super::value::Raw;
use super::{Config, diff::Change};

/// A value that was given, or the default of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key, as a [`Change`] names it.
    pub path: String,
    /// The value; `None` if it is not set, and for a secret.
    pub value: Option<String>,
    /// Whether a secret was given.
    pub is_secret: bool,
    /// Where it was given.
    pub origin: Origin,
}

/// The values of a configuration. Two configurations are compared by what they say, not by where
/// they say it, so all lists are equal.
#[derive(Debug, Clone, Default)]
pub struct Listing(Arc<[Listed]>);

impl PartialEq for Listing {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Listing {}

impl Listing {
    /// The values in the order of the documents; of entries of a list, those that were given.
    pub fn iter(&self) -> impl Iterator<Item = &Listed> {
        self.0.iter()
    }

    /// The value of a key; nothing of a secret.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<&str> {
        let found = self.iter().find(|listed| listed.path == path);
        found?.value.as_deref()
    }

    /// The values of a configuration that has no problem.
    pub(super) fn of(givens: &Givens, config: &Config) -> Self {
        let mut all = Vec::new();
        for section in SECTIONS {
            let entries = givens.entries(section.name);
            for (index, entry) in entries.iter().enumerate() {
                let at = name_of(section, index, config);
                for key in section.keys {
                    let given = entry.values.get(key.name);
                    let given = given.map(|given| (&given.raw, given.origin.clone()));
                    if given.is_some() || !section.repeated {
                        all.push(listed(section, key, &at, given));
                    }
                }
            }
            if section.name == "listener" && entries.is_empty() {
                all.extend(config.listeners.iter().map(|listener| {
                    let url = listener.url.to_string();
                    Listed {
                        path: Change::of(section, "url", &url).path,
                        value: Some(url),
                        is_secret: false,
                        origin: Origin::Default,
                    }
                }));
            }
        }
        Self(all.into())
    }
}

fn listed(section: &Section, key: &Key, at: &str, given: Option<(&Raw, Origin)>) -> Listed {
    let path = Change::of(section, key.name, at).path;
    let is_secret = key.is_secret() && given.is_some();
    let (value, origin) = match (given, key.fallback) {
        (Some((raw, origin)), _) => (Some(text(raw)), origin),
        (None, Fallback::Value(text)) => (Some(text.to_owned()), Origin::Default),
        (None, Fallback::Unset(_) | Fallback::Required(_)) => (None, Origin::Default),
    };
    Listed {
        path,
        value: value.filter(|_| !is_secret),
        is_secret,
        origin,
    }
}

fn text(raw: &Raw) -> String {
    match raw {
        Raw::Words(text) | Raw::Text(text) | Raw::Number(text) => text.clone(),
        Raw::Integer(number) => number.to_string(),
        Raw::Flag(flag) => flag.to_string(),
        Raw::List(all) => all.iter().map(text).collect::<Vec<_>>().join(", "),
        Raw::Other(name) => format!("({name})"),
    }
}

/// What an entry of a list is called where two configurations are compared.
fn name_of(section: &Section, index: usize, config: &Config) -> String {
    let name = match section.name {
        _ if !section.repeated => Some(String::new()),
        "listener" => config.listeners.get(index).map(|one| one.url.to_string()),
        "user" => config.users.get(index).map(|one| one.name.clone()),
        "zone" => config.zones.get(index).map(|one| one.name.clone()),
        "room" => config
            .rooms
            .get(index)
            .map(|one| format!("{}/{}", one.zone, one.name)),
        "adaptor" => config
            .adaptors
            .get(index)
            .and_then(|one| Some(one.source().ok()?.to_string())),
        "policy" => config.policies.get(index).map(|one| one.filter.clone()),
        "queue" => config.queues.get(index).map(|one| one.name.clone()),
        _ => None,
    };
    name.unwrap_or_else(|| index.to_string())
}
