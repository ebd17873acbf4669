//! Users who were looked up, and who is watched.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{User, UserKey};

/// Users kept who are not watched.
const UNWATCHED_MAX: usize = 200_000;

/// Refreshes that a user who is not watched is kept for after the last look-up.
const IDLE_REFRESHES_MAX: u32 = 10;

/// Users by key. Costs: one lock and one look into a table.
#[derive(Default)]
pub(super) struct Cache(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    entries: HashMap<UserKey, Entry>,
    /// Entries without a watch.
    unwatched: usize,
}

struct Entry {
    user: Arc<User>,
    watches: usize,
    /// Refreshes since the last look-up.
    idle: u32,
}

/// Keeps a user current while somebody holds it.
pub struct Watch {
    key: UserKey,
    /// `None` for a user of the configuration, who is always current.
    cache: Option<Arc<Mutex<Table>>>,
}

impl Watch {
    pub(super) const fn nothing(key: UserKey) -> Self {
        Self { key, cache: None }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.key).finish()
    }
}

/// Nothing can panic half way through a change of the table.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    pub(super) fn get(&self, key: &UserKey) -> Option<Arc<User>> {
        let mut table = lock(&self.0);
        let entry = table.entries.get_mut(key)?;
        entry.idle = 0;
        Some(Arc::clone(&entry.user))
    }

    /// Keeps what was found. A user who has not changed keeps its place in memory.
    pub(super) fn keep(&self, user: User) -> Arc<User> {
        let mut table = lock(&self.0);
        let key = user.key();
        if let Some(entry) = table.entries.get_mut(&key) {
            entry.idle = 0;
            if *entry.user != user {
                entry.user = Arc::new(user);
            }
            return Arc::clone(&entry.user);
        }
        let user = Arc::new(user);
        if table.unwatched < UNWATCHED_MAX {
            table.insert(key, Arc::clone(&user), 0);
            table.unwatched += 1;
        }
        user
    }

    /// A user who was looked up, as it is known now. Who is held by somebody is never forgotten
    /// while there is room, so whoever is not there then was deleted.
    pub(super) fn confirm(&self, user: &Arc<User>) -> Option<Arc<User>> {
        let table = lock(&self.0);
        match table.entries.get(&user.key()) {
            Some(entry) => Some(Arc::clone(&entry.user)),
            None if table.unwatched >= UNWATCHED_MAX => Some(Arc::clone(user)),
            None => None,
        }
    }

    pub(super) fn watch(&self, user: &Arc<User>) -> Watch {
        let key = user.key();
        let mut table = lock(&self.0);
        match table.entries.get_mut(&key) {
            Some(entry) => {
                entry.watches += 1;
                let first = entry.watches == 1;
                table.unwatched -= usize::from(first);
            }
            None => table.insert(key.clone(), Arc::clone(user), 1),
        }
        let cache = Some(Arc::clone(&self.0));
        Watch { key, cache }
    }

    /// All keys, for a refresh; who has not been used for long is forgotten.
    pub(super) fn keys_to_refresh(&self) -> Vec<UserKey> {
        let mut table = lock(&self.0);
        let mut forgotten = 0;
        table.entries.retain(|_, entry| {
            entry.idle += 1;
            // A login that waits for its hash holds its user.
            let is_held = entry.watches > 0 || Arc::strong_count(&entry.user) > 1;
            let keep = is_held || entry.idle <= IDLE_REFRESHES_MAX;
            forgotten += usize::from(!keep);
            keep
        });
        table.unwatched -= forgotten;
        table.entries.keys().cloned().collect()
    }

    /// Whether this user is known.
    pub(super) fn has(&self, key: &UserKey) -> bool {
        lock(&self.0).entries.contains_key(key)
    }

    /// Takes over what a refresh has found. The new state, if it is another one.
    pub(super) fn refresh(&self, key: &UserKey, found: Option<User>) -> Option<Option<Arc<User>>> {
        let mut table = lock(&self.0);
        let entry = table.entries.get_mut(key)?;
        match found {
            Some(user) if *entry.user == user => None,
            Some(user) => {
                entry.user = Arc::new(user);
                Some(Some(Arc::clone(&entry.user)))
            }
            None => {
                let unwatched = entry.watches == 0;
                table.entries.remove(key);
                table.unwatched -= usize::from(unwatched);
                Some(None)
            }
        }
    }
}

impl Table {
    fn insert(&mut self, key: UserKey, user: Arc<User>, watches: usize) {
        let entry = Entry {
            user,
            watches,
            idle: 0,
        };
        self.entries.insert(key, entry);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(cache) = &self.cache else { return };
        let mut table = lock(cache);
        // A user who was deleted is forgotten before its watches end, and may be there again.
        if let Some(entry) = table.entries.get_mut(&self.key)
            && entry.watches > 0
        {
            entry.watches -= 1;
            let last = entry.watches == 0;
            table.unwatched += usize::from(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User {
            zone: "default".into(),
            name: name.into(),
            credentials: Vec::new(),
            roles: Vec::new(),
            disabled: false,
        }
    }

    #[test]
    fn who_is_watched_stays_and_who_is_idle_goes() {
        let cache = Cache::default();
        let ann = cache.keep(user("ann"));
        let bob = cache.keep(user("bob"));
        let watch = cache.watch(&ann);
        drop(ann);
        drop(bob);
        for _ in 0..=IDLE_REFRESHES_MAX {
            cache.keys_to_refresh();
        }
        let (ann, bob) = (user("ann").key(), user("bob").key());
        assert!(cache.has(&ann) && !cache.has(&bob));
        drop(watch);
        cache.keys_to_refresh();
        assert!(!cache.has(&ann));
        assert_eq!(lock(&cache.0).unwatched, 0);
    }

    #[test]
    fn who_is_held_by_a_login_is_confirmed_until_it_is_deleted() {
        let cache = Cache::default();
        let ann = cache.keep(user("ann"));
        for _ in 0..=2 * IDLE_REFRESHES_MAX {
            cache.keys_to_refresh();
        }
        assert!(Arc::ptr_eq(&cache.confirm(&ann).unwrap(), &ann));
        cache.refresh(&ann.key(), None);
        assert!(cache.confirm(&ann).is_none());
    }

    #[test]
    fn a_refresh_tells_what_has_changed() {
        let cache = Cache::default();
        let ann = cache.keep(user("ann"));
        let key = ann.key();
        let _watch = cache.watch(&ann);
        assert!(cache.refresh(&key, Some(user("ann"))).is_none());
        let mut other = user("ann");
        other.disabled = true;
        let told = cache.refresh(&key, Some(other)).unwrap().unwrap();
        assert!(told.disabled && cache.get(&key).unwrap().disabled);
        assert!(cache.refresh(&key, None).unwrap().is_none());
        assert!(cache.refresh(&key, None).is_none(), "nobody is told twice");
        // Somebody of the same name is another user.
        cache.keep(user("ann"));
        assert_eq!(lock(&cache.0).unwatched, 1);
    }
}
