//! A room's custom properties, with compare-and-set and locks.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Actor, Bounds, Refusal, notice};
use crate::name::check_name;

/// A property: the payload of `$room/<room>/prop/<name>`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Property {
    /// Its value; `None` for one that is only locked.
    pub value: Option<Value>,
    /// Grows with every change of a property in the room, so that no two values share one; 0 for
    /// one that was never set.
    pub version: u64,
    /// The user who set it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The only user who may change it; the server itself has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Arc<str>>,
}

impl Property {
    /// A property whose value is this JSON: it has no value if these bytes are not JSON.
    #[must_use]
    pub fn from_json(
        json: Option<&[u8]>,
        version: u64,
        by: Option<Arc<str>>,
        lock: Option<Arc<str>>,
    ) -> Self {
        Self {
            value: json.and_then(|json| serde_json::from_slice(json).ok()),
            version,
            by,
            lock,
        }
    }

    /// Its value as JSON.
    #[must_use]
    pub fn json(&self) -> Option<Vec<u8>> {
        self.value.as_ref().map(notice::json)
    }
}

/// When a property may be set.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Whatever it is.
    Always,
    /// If it has no value.
    Absent,
    /// If it has this version.
    Version(u64),
    /// If it has this value.
    Value(Value),
}

impl Condition {
    fn holds(&self, property: Option<&Property>) -> bool {
        let value = property.and_then(|p| p.value.as_ref());
        match self {
            Self::Always => true,
            Self::Absent => value.is_none(),
            Self::Version(version) => property.map_or(0, |p| p.version) == *version,
            Self::Value(expected) => value.is_some_and(|value| is_same(value, expected)),
        }
    }
}

/// Whether two values are the same to their users: of numbers, some languages write 1 and some 1.0.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(name, value): (&String, &Value)| {
                b.get(name).is_some_and(|other| is_same(value, other))
            };
            a.len() == b.len() && a.iter().all(has)
        }
        (a, b) => a == b,
    }
}

#[derive(Debug, Default)]
pub(super) struct Properties {
    by_name: BTreeMap<Arc<str>, Property>,
    last_version: u64,
    /// Bytes of all names and of all values as JSON.
    bytes: usize,
}

/// Bytes of a property.
fn cost(name: &str, property: &Property) -> usize {
    name.len() + value_bytes(&property.value)
}

fn value_bytes(value: &Option<Value>) -> usize {
    value.as_ref().map_or(0, |value| notice::json(value).len())
}

impl Properties {
    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.by_name.get(name)
    }

    /// The values of these.
    pub(super) fn values(&self, tells: impl Fn(&str) -> bool) -> Map<String, Value> {
        self.each(tells, |property| property.value.clone())
    }

    /// The holders of the locks of these; an empty name is the server's.
    pub(super) fn locks(&self, tells: impl Fn(&str) -> bool) -> Map<String, Value> {
        self.each(tells, |property| property.lock.as_deref().map(Value::from))
    }

    /// What there is of each of these.
    fn each(
        &self,
        tells: impl Fn(&str) -> bool,
        what: impl Fn(&Property) -> Option<Value>,
    ) -> Map<String, Value> {
        self.by_name
            .iter()
            .filter(|(name, _)| tells(name))
            .filter_map(|(name, property)| Some((String::from(&**name), what(property)?)))
            .collect()
    }

    pub(super) fn set(
        &mut self,
        actor: Actor<'_>,
        name: &str,
        value: Option<Value>,
        condition: &Condition,
        bounds: &Bounds,
        spare: usize,
    ) -> Result<u64, Refusal> {
        let present = self.by_name.get(name);
        let is_locked = present
            .and_then(|property| property.lock.as_deref())
            .is_some_and(|holder| holder != actor.user);
        if is_locked {
            return Err(Refusal::PropertyLocked);
        }
        if !condition.holds(present) {
            return Err(Refusal::Conflict);
        }
        let bytes = value_bytes(&value);
        if bytes > bounds.property_bytes {
            return Err(Refusal::TooLarge);
        }
        if value.is_none() && present.is_none() {
            return Err(Refusal::Unknown);
        }
        let before = present.map_or(0, |property| cost(name, property));
        if (name.len() + bytes).saturating_sub(before) > spare {
            return Err(Refusal::TooMany);
        }
        let version = self.last_version + 1;
        let property = self.entry(name, bounds, spare)?;
        let old = value_bytes(&property.value);
        property.version = version;
        // The server itself has no name.
        property.by = Some(actor.user.into()).filter(|by: &Arc<str>| !by.is_empty());
        property.value = value;
        self.bytes = self.bytes + bytes - old;
        self.last_version = version;
        self.tidy(name);
        Ok(version)
    }

    pub(super) fn lock(
        &mut self,
        user: &str,
        name: &str,
        bounds: &Bounds,
        spare: usize,
    ) -> Result<(), Refusal> {
        let property = self.entry(name, bounds, spare)?;
        match property.lock.as_deref() {
            Some(holder) if holder != user => Err(Refusal::PropertyLocked),
            _ => {
                property.lock = Some(user.into());
                Ok(())
            }
        }
    }

    pub(super) fn unlock(
        &mut self,
        name: &str,
        may: impl FnOnce(&str) -> bool,
    ) -> Result<(), Refusal> {
        let property = self.by_name.get_mut(name).ok_or(Refusal::Unknown)?;
        match property.lock.as_deref() {
            None => Err(Refusal::Unknown),
            Some(holder) if !may(holder) => Err(Refusal::PropertyLocked),
            Some(_) => {
                property.lock = None;
                self.tidy(name);
                Ok(())
            }
        }
    }

    /// Takes a user's locks away; returns which.
    pub(super) fn release(&mut self, user: &str) -> Vec<Arc<str>> {
        let held = |property: &Property| property.lock.as_deref() == Some(user);
        let names: Vec<_> = self
            .by_name
            .iter()
            .filter(|(_, property)| held(property))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &names {
            if let Some(property) = self.by_name.get_mut(name) {
                property.lock = None;
            }
            self.tidy(name);
        }
        names
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Property)> {
        self.by_name.iter()
    }

    /// The version of the last change.
    pub(super) const fn version(&self) -> u64 {
        self.last_version
    }

    /// These are its properties, and this is the version of the last change.
    pub(super) fn restore(&mut self, all: Vec<(Arc<str>, Property)>, version: u64) {
        self.by_name = all.into_iter().collect();
        let costs = self.by_name.iter().map(|(name, it)| cost(name, it));
        self.bytes = costs.sum();
        let versions = self.by_name.values().map(|property| property.version);
        self.last_version = versions.fold(version, u64::max);
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) -> Vec<Arc<str>> {
        self.bytes = 0;
        core::mem::take(&mut self.by_name).into_keys().collect()
    }

    fn entry(
        &mut self,
        name: &str,
        bounds: &Bounds,
        spare: usize,
    ) -> Result<&mut Property, Refusal> {
        if !self.by_name.contains_key(name) {
            check_name(name).map_err(|_| Refusal::Name)?;
            if self.by_name.len() >= bounds.properties || name.len() > spare {
                return Err(Refusal::TooMany);
            }
            self.bytes += name.len();
        }
        Ok(self.by_name.entry(name.into()).or_insert(Property {
            value: None,
            version: 0,
            by: None,
            lock: None,
        }))
    }

    /// Forgets a property that says nothing any more.
    fn tidy(&mut self, name: &str) {
        let says_nothing =
            |property: &Property| property.value.is_none() && property.lock.is_none();
        if self.by_name.get(name).is_some_and(says_nothing) {
            self.by_name.remove(name);
            self.bytes -= name.len();
        }
    }
}
