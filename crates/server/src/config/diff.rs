//! What a reload changes.

use std::collections::{BTreeMap, VecDeque};

use super::table::{Reload, Section};
use super::{Config, Listener, Policy, Queue};

/// One key that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key, for example `limits.packet_bytes` or `listener[mqtt://[::1]:1883].anonymous`. An
    /// entry that was added or removed stands there without a key.
    pub path: String,
    /// When the new value takes effect.
    pub reload: Reload,
}

impl Change {
    /// A changed key of `section`; `at` names the entry of a list.
    pub(super) fn of(section: &Section, name: &str, at: &str) -> Self {
        let path = match (section.name, at) {
            ("", _) => name.to_owned(),
            (section, "") => format!("{section}.{name}"),
            (section, at) => format!("{section}[{at}].{name}"),
        };
        let reload = section.key(name).map_or(Reload::Restart, |key| key.reload);
        Self { path, reload }
    }
}

/// The differences between the running configuration and a newly loaded one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The keys that differ, in the order of the documents.
    pub changes: Vec<Change>,
    /// Indexes into the new list of listeners: those to open.
    pub listeners_added: Vec<usize>,
    /// Indexes into the old list of listeners: those to close.
    pub listeners_removed: Vec<usize>,
    /// Indexes (old, new) of the listeners that stay open, whether their other keys changed or
    /// not.
    pub listeners_kept: Vec<(usize, usize)>,
}

impl Diff {
    /// Nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The keys whose new value waits for a restart.
    pub fn restart(&self) -> impl Iterator<Item = &str> {
        let waiting = self
            .changes
            .iter()
            .filter(|change| change.reload == Reload::Restart);
        waiting.map(|change| change.path.as_str())
    }
}

/// Compares the running configuration with a newly loaded one.
///
/// A listener is known by its URL: another URL is another listener.
#[must_use]
pub fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    let changes = &mut diff.changes;
    old.general.changes(&new.general, "", changes);
    old.log.changes(&new.log, "", changes);
    let listeners = Pairs::of(&old.listeners, &new.listeners, |listener| {
        listener.url.to_string()
    });
    for &index in &listeners.added {
        changes.push(entry_change(&new.listeners[index]));
    }
    for &index in &listeners.removed {
        changes.push(entry_change(&old.listeners[index]));
    }
    for &(from, to) in &listeners.kept {
        let at = old.listeners[from].url.to_string();
        old.listeners[from].changes(&new.listeners[to], &at, changes);
    }
    old.tls.changes(&new.tls, "", changes);
    old.auth.changes(&new.auth, "", changes);
    if old.jwts.len() == new.jwts.len() {
        for (index, (from, to)) in old.jwts.iter().zip(&new.jwts).enumerate() {
            from.changes(to, &index.to_string(), changes);
        }
    } else {
        changes.push(Change {
            path: "jwt".to_owned(),
            reload: Reload::Live,
        });
    }
    let users = Pairs::of(&old.users, &new.users, |user| user.name.clone());
    let added = users.added.iter().map(|index| &new.users[*index]);
    for user in added.chain(users.removed.iter().map(|index| &old.users[*index])) {
        changes.push(Change {
            path: format!("user[{}]", user.name),
            reload: Reload::Live,
        });
    }
    for &(from, to) in &users.kept {
        old.users[from].changes(&new.users[to], &old.users[from].name, changes);
    }
    zones_and_rooms(old, new, changes);
    old.limits.changes(&new.limits, "", changes);
    policies(&old.policies, &new.policies, changes);
    queues(&old.queues, &new.queues, changes);
    old.retained.changes(&new.retained, "", changes);
    old.sessions.changes(&new.sessions, "", changes);
    old.procedures.changes(&new.procedures, "", changes);
    old.sys.changes(&new.sys, "", changes);
    old.figures.changes(&new.figures, "", changes);
    old.http.changes(&new.http, "", changes);
    diff.listeners_added = listeners.added;
    diff.listeners_removed = listeners.removed;
    diff.listeners_kept = listeners.kept;
    diff
}

fn zones_and_rooms(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let zones = Pairs::of(&old.zones, &new.zones, |zone| zone.name.clone());
    entries("zone", &zones, changes);
    for &(from, to) in &zones.kept {
        old.zones[from].changes(&new.zones[to], &old.zones[from].name, changes);
    }
    let rooms = Pairs::of(&old.rooms, &new.rooms, |room| {
        format!("{}/{}", room.zone, room.name)
    });
    entries("room", &rooms, changes);
    for &(from, to) in &rooms.kept {
        old.rooms[from].changes(&new.rooms[to], &old.rooms[from].name, changes);
    }
    let adaptors = Pairs::of(&old.adaptors, &new.adaptors, |adaptor| {
        let source = (&adaptor.file, &adaptor.builtin);
        format!("{source:?} {:?} {:?}", adaptor.zone, adaptor.room)
    });
    entries("adaptor", &adaptors, changes);
    for &(from, to) in &adaptors.kept {
        let source = old.adaptors[from].source();
        let name = source.map_or_else(|_| String::new(), |source| source.to_string());
        old.adaptors[from].changes(&new.adaptors[to], &name, changes);
    }
}

/// Entries of a list that have come or gone.
fn entries(section: &str, pairs: &Pairs, changes: &mut Vec<Change>) {
    if !pairs.added.is_empty() || !pairs.removed.is_empty() {
        changes.push(Change {
            path: section.to_owned(),
            reload: Reload::Live,
        });
    }
}

/// The order of the policies counts, so entries are compared place by place, and lists of other
/// filters as a whole.
fn policies(old: &[Policy], new: &[Policy], changes: &mut Vec<Change>) {
    if old
        .iter()
        .map(|policy| &policy.filter)
        .ne(new.iter().map(|policy| &policy.filter))
    {
        changes.push(Change {
            path: "policy".to_owned(),
            reload: Reload::Live,
        });
        return;
    }
    for (from, to) in old.iter().zip(new) {
        from.changes(to, &from.filter, changes);
    }
}

/// A queue is known by its place among the shared subscriptions. They begin and end with the
/// server.
fn queues(old: &[Queue], new: &[Queue], changes: &mut Vec<Change>) {
    let pairs = Pairs::of(old, new, |queue| {
        format!("{}/{}/{}", queue.zone, queue.name, queue.filter)
    });
    if !pairs.added.is_empty() || !pairs.removed.is_empty() {
        changes.push(Change {
            path: "queue".to_owned(),
            reload: Reload::Restart,
        });
    }
    for &(from, to) in &pairs.kept {
        old[from].changes(&new[to], &old[from].name, changes);
    }
}

fn entry_change(listener: &Listener) -> Change {
    Change {
        path: format!("listener[{}]", listener.url),
        reload: if listener.url.is_call() {
            Reload::Restart
        } else {
            Reload::Live
        },
    }
}

/// Two lists matched by a name of their entries; of entries with the same name, the first is
/// matched with the first.
struct Pairs {
    added: Vec<usize>,
    removed: Vec<usize>,
    kept: Vec<(usize, usize)>,
}

impl Pairs {
    fn of<T>(old: &[T], new: &[T], name: impl Fn(&T) -> String) -> Self {
        let mut places: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        for (index, item) in old.iter().enumerate() {
            places.entry(name(item)).or_default().push_back(index);
        }
        let mut pairs = Self {
            added: Vec::new(),
            removed: Vec::new(),
            kept: Vec::new(),
        };
        for (to, item) in new.iter().enumerate() {
            match places.get_mut(&name(item)).and_then(VecDeque::pop_front) {
                Some(from) => pairs.kept.push((from, to)),
                None => pairs.added.push(to),
            }
        }
        pairs.removed = places.into_values().flatten().collect();
        pairs.removed.sort_unstable();
        pairs
    }
}
