//! Users who were looked up, and who is watched.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{User, UserKey};
use crate::store::books::Known;

/// Users kept who are not watched.
const UNWATCHED_MAX: usize = 200_000;

/// Changes remembered at a time of users for whom there was no room.
const CHANGED_MAX: usize = 10_000;

/// Refreshes that a change of such a user is remembered for: no login takes so long.
const CHANGED_REFRESHES_MAX: u32 = 2;

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
    /// Names that are not users and could become disabled ones: how many watch each of them.
    absent: HashMap<UserKey, usize>,
    /// What is said here of users whom somebody else does not know any more.
    left: HashMap<UserKey, Arc<User>>,
    /// Users who were changed or deleted by an order while there was no room for them, and how many
    /// refreshes ago: what a login has found of them before holds no longer.
    changed: HashMap<UserKey, u32>,
}

struct Entry {
    user: Arc<User>,
    foreign: Foreign,
    watches: usize,
    /// Refreshes since the last look-up.
    idle: u32,
}

/// What somebody else says of a user.
enum Foreign {
    /// Nothing.
    Nothing,
    /// All that is known.
    All,
    /// A part of it.
    Part(Box<User>),
}

impl Foreign {
    /// The user, and what of it is foreign; none if there is no such user.
    fn of(known: Known) -> Option<(User, Self)> {
        let foreign = match (&known.own, &known.foreign) {
            (_, None) => Self::Nothing,
            (None, Some(_)) => Self::All,
            (Some(_), Some(foreign)) => Self::Part(Box::new(foreign.clone())),
        };
        Some((known.user()?, foreign))
    }
}

/// Keeps a user current while somebody holds it.
pub struct Watch {
    key: UserKey,
    watched: Watched,
}

/// What is watched.
enum Watched {
    /// A user of the configuration, who is always current.
    Pinned,
    /// A user.
    User(Arc<Mutex<Table>>),
    /// A name that no user has.
    Absent(Arc<Mutex<Table>>),
}

impl Watch {
    pub(super) const fn nothing(key: UserKey) -> Self {
        let watched = Watched::Pinned;
        Self { key, watched }
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

    /// Keeps what was found, if it is a user, and says whether something else was known before. A
    /// user who has not changed keeps its place in memory.
    pub(super) fn keep(&self, known: Known) -> Option<(Arc<User>, bool)> {
        let (user, foreign) = Foreign::of(known)?;
        let mut table = lock(&self.0);
        let key = user.key();
        table.left.remove(&key);
        if let Some(entry) = table.entries.get_mut(&key) {
            entry.idle = 0;
            entry.foreign = foreign;
            let has_changed = *entry.user != user;
            if has_changed {
                entry.user = Arc::new(user);
            }
            return Some((Arc::clone(&entry.user), has_changed));
        }
        let user = Arc::new(user);
        let is_news = table.absent.contains_key(&key);
        // One who was changed gets in all the same: a login that found it before must not get
        // through with that, and one that finds it now has to.
        let was_changed = table.changed.remove(&key).is_some();
        if was_changed || table.has_room() {
            table.insert(key, Arc::clone(&user), foreign, 0);
            table.unwatched += 1;
        }
        Some((user, is_news))
    }

    /// A user who was looked up, as it is known now. The cache never forgets a user that is in use
    /// while it has room, so a user who is missing then was deleted. Without room, it knows the
    /// users that an order has changed or deleted in the meantime.
    pub(super) fn confirm(&self, user: &Arc<User>) -> Option<Arc<User>> {
        let table = lock(&self.0);
        match table.entries.get(&user.key()) {
            Some(entry) => Some(Arc::clone(&entry.user)),
            None if table.has_room() || table.has_changed(&user.key()) => None,
            None => Some(Arc::clone(user)),
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
            // There was no room for it; the next refresh tells from where it comes.
            None => {
                let foreign = match user.foreign {
                    true => Foreign::All,
                    false => Foreign::Nothing,
                };
                table.insert(key.clone(), Arc::clone(user), foreign, 1);
            }
        }
        let watched = Watched::User(Arc::clone(&self.0));
        Watch { key, watched }
    }

    /// Has it told when somebody gets this name, which nobody has.
    pub(super) fn watch_absent(&self, key: UserKey) -> Watch {
        *lock(&self.0).absent.entry(key.clone()).or_default() += 1;
        let watched = Watched::Absent(Arc::clone(&self.0));
        Watch { key, watched }
    }

    /// What is said here of a user whom somebody else does not know any more, and who is none.
    pub(super) fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        lock(&self.0).left.get(key).cloned()
    }

    /// All keys, for a refresh. Users that have not been used for long are forgotten.
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
        table.changed.retain(|_, refreshes| {
            *refreshes += 1;
            *refreshes <= CHANGED_REFRESHES_MAX
        });
        // A login with such a name is looked up first.
        let Table { absent, left, .. } = &mut *table;
        left.retain(|key, _| absent.contains_key(key));
        let absent = table.absent.keys();
        let absent = absent.filter(|key| !table.entries.contains_key(*key));
        table.entries.keys().chain(absent).cloned().collect()
    }

    /// Whether anybody wants to know what becomes of this user.
    pub(super) fn has(&self, key: &UserKey) -> bool {
        let table = lock(&self.0);
        table.entries.contains_key(key) || table.absent.contains_key(key)
    }

    /// Forgets a user; whether it was known.
    pub(super) fn forget(&self, key: &UserKey) -> bool {
        let mut table = lock(&self.0);
        let forgotten = table.entries.remove(key);
        let unwatched = forgotten.as_ref().is_some_and(|entry| entry.watches == 0);
        table.unwatched -= usize::from(unwatched);
        forgotten.is_some()
    }

    /// Takes over that an order has deleted a user of whom nobody else knows. The new state, if it
    /// is another one.
    pub(super) fn deleted(&self, key: &UserKey) -> Option<Option<Arc<User>>> {
        lock(&self.0).note_change(key);
        self.refresh(key, Known::default())
    }

    /// Takes over what an order has made of a user in the store. What somebody else said of it last
    /// holds. The new state, if it is another one.
    pub(super) fn put_own(&self, key: &UserKey, own: Option<User>) -> Option<Option<Arc<User>>> {
        let (foreign, matters) = {
            let mut table = lock(&self.0);
            table.note_change(key);
            let foreign = table.entries.get(key).and_then(Entry::foreign);
            (foreign, table.absent.contains_key(key))
        };
        let known = Known { own, foreign };
        // Nobody has asked them, and they may know the user.
        let left = known.left().filter(|_| matters);
        self.take(key, known, left)
    }

    /// Takes over what a refresh has found. The new state, if it is another one.
    pub(super) fn refresh(&self, key: &UserKey, known: Known) -> Option<Option<Arc<User>>> {
        let left = known.left();
        self.take(key, known, left)
    }

    fn take(&self, key: &UserKey, known: Known, left: Option<User>) -> Option<Option<Arc<User>>> {
        let found = Foreign::of(known);
        let mut table = lock(&self.0);
        let is_watched = table.absent.contains_key(key);
        let is_bound_anew = table.put_left(key, left);
        let Some(entry) = table.entries.get_mut(key) else {
            return match found {
                Some((user, _)) => is_watched.then(|| Some(Arc::new(user))),
                None => (is_watched && is_bound_anew).then_some(None),
            };
        };
        match found {
            Some((user, foreign)) => {
                entry.foreign = foreign;
                if *entry.user == user {
                    return None;
                }
                entry.user = Arc::new(user);
                Some(Some(Arc::clone(&entry.user)))
            }
            None => {
                drop(table);
                self.forget(key);
                Some(None)
            }
        }
    }
}

impl Entry {
    fn foreign(&self) -> Option<User> {
        match &self.foreign {
            Foreign::Nothing => None,
            Foreign::All => Some(User::clone(&self.user)),
            Foreign::Part(foreign) => Some(User::clone(foreign)),
        }
    }
}

impl Table {
    fn has_room(&self) -> bool {
        self.unwatched < UNWATCHED_MAX
    }

    /// An order changes a user; whoever is kept, or would be, is changed there.
    fn note_change(&mut self, key: &UserKey) {
        let is_kept = self.has_room() || self.entries.contains_key(key);
        if !is_kept && self.changed.len() < CHANGED_MAX {
            self.changed.insert(key.clone(), 0);
        }
    }

    /// Whether a user who is not kept may have been changed lately: where more were than can be
    /// remembered, any.
    fn has_changed(&self, key: &UserKey) -> bool {
        self.changed.len() >= CHANGED_MAX || self.changed.contains_key(key)
    }

    /// Keeps what is said of a user who is none; whether it is something else than before.
    fn put_left(&mut self, key: &UserKey, left: Option<User>) -> bool {
        if self.left.get(key).map(|left| &**left) == left.as_ref() {
            return false;
        }
        match left {
            Some(left) => self.left.insert(key.clone(), Arc::new(left)),
            None => self.left.remove(key),
        };
        true
    }

    fn forget_absent(&mut self, key: &UserKey) {
        if let Some(watches) = self.absent.get_mut(key) {
            *watches -= 1;
            if *watches == 0 {
                self.absent.remove(key);
            }
        }
    }

    fn insert(&mut self, key: UserKey, user: Arc<User>, foreign: Foreign, watches: usize) {
        let entry = Entry {
            user,
            foreign,
            watches,
            idle: 0,
        };
        self.entries.insert(key, entry);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = match &self.watched {
            Watched::Pinned => return,
            Watched::User(table) => lock(table),
            Watched::Absent(table) => return lock(table).forget_absent(&self.key),
        };
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
            foreign: false,
        }
    }

    fn own(name: &str) -> Known {
        let own = Some(user(name));
        Known { own, foreign: None }
    }

    fn keep(cache: &Cache, name: &str) -> (Arc<User>, bool) {
        cache.keep(own(name)).expect("it is a user")
    }

    #[test]
    fn who_is_watched_stays_and_who_is_idle_goes() {
        let cache = Cache::default();
        let (ann, _) = keep(&cache, "ann");
        let (bob, _) = keep(&cache, "bob");
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
        let (ann, _) = keep(&cache, "ann");
        for _ in 0..=2 * IDLE_REFRESHES_MAX {
            cache.keys_to_refresh();
        }
        assert!(Arc::ptr_eq(&cache.confirm(&ann).unwrap(), &ann));
        cache.refresh(&ann.key(), Known::default());
        assert!(cache.confirm(&ann).is_none());
    }

    /// As many users as are kept were looked up lately, and nobody watches them.
    #[test]
    fn who_was_changed_while_there_was_no_room_is_looked_up_again() {
        let cache = Cache::default();
        for number in 0..UNWATCHED_MAX {
            keep(&cache, &number.to_string());
        }
        let (ann, bob) = (keep(&cache, "ann").0, keep(&cache, "bob").0);
        let confirms = |user| cache.confirm(user).is_some();
        assert!(!cache.has(&ann.key()) && confirms(&ann) && confirms(&bob));
        cache.deleted(&ann.key());
        let disabled = User {
            disabled: true,
            ..user("bob")
        };
        cache.put_own(&bob.key(), Some(disabled.clone()));
        assert!(!confirms(&ann) && !confirms(&bob));
        // The next look-up finds what is true now, and so do those who found something else before.
        cache.keep(Known {
            own: Some(disabled),
            foreign: None,
        });
        assert!(cache.confirm(&bob).expect("it is there").disabled);
        for _ in 0..=CHANGED_REFRESHES_MAX {
            cache.keys_to_refresh();
        }
        assert!(lock(&cache.0).changed.is_empty());
    }

    #[test]
    fn who_gets_a_name_that_is_watched_is_told() {
        let cache = Cache::default();
        let key = user("ann").key();
        assert!(!cache.has(&key) && cache.refresh(&key, own("ann")).is_none());
        let (watch, other) = (
            cache.watch_absent(key.clone()),
            cache.watch_absent(key.clone()),
        );
        assert!(cache.has(&key));
        assert_eq!(cache.keys_to_refresh(), std::slice::from_ref(&key));
        assert!(cache.refresh(&key, Known::default()).is_none());
        assert!(cache.refresh(&key, own("ann")).unwrap().is_some());
        drop(watch);
        assert!(cache.has(&key));
        drop(other);
        assert!(!cache.has(&key) && lock(&cache.0).absent.is_empty());
    }

    #[test]
    fn a_refresh_tells_what_has_changed() {
        let cache = Cache::default();
        let (ann, is_news) = keep(&cache, "ann");
        assert!(!is_news && !keep(&cache, "ann").1);
        let key = ann.key();
        let _watch = cache.watch(&ann);
        assert!(cache.refresh(&key, own("ann")).is_none());
        let mut other = own("ann");
        other.own.as_mut().expect("it is ours").disabled = true;
        let told = cache.refresh(&key, other).unwrap().unwrap();
        assert!(told.disabled && cache.get(&key).unwrap().disabled);
        // What a look-up finds is no less a change.
        let (ann, is_news) = keep(&cache, "ann");
        assert!(is_news && !ann.disabled);
        assert!(cache.refresh(&key, Known::default()).unwrap().is_none());
        assert!(
            cache.refresh(&key, Known::default()).is_none(),
            "nobody is told twice"
        );
        // Somebody of the same name is another user.
        keep(&cache, "ann");
        assert_eq!(lock(&cache.0).unwatched, 1);
    }

    #[test]
    fn what_is_said_of_who_is_gone_is_known_and_told_to_who_has_the_name() {
        let cache = Cache::default();
        let left = |disabled| User {
            disabled,
            foreign: true,
            ..user("ann")
        };
        let known = |disabled| Known {
            own: Some(left(disabled)),
            foreign: None,
        };
        let key = user("ann").key();
        // Nobody has the name, and who asks is told.
        assert!(cache.refresh(&key, known(true)).is_none());
        assert_eq!(cache.left(&key).as_deref(), Some(&left(true)));
        assert!(cache.keys_to_refresh().is_empty() && cache.left(&key).is_none());
        assert!(cache.put_own(&key, Some(left(true))).is_none());
        assert!(cache.left(&key).is_none(), "they may know the user");
        let watch = cache.watch_absent(key.clone());
        assert_eq!(cache.put_own(&key, Some(left(false))), Some(None));
        assert!(cache.refresh(&key, known(false)).is_none(), "it was told");
        assert_eq!(cache.refresh(&key, known(true)), Some(None));
        assert_eq!(cache.keys_to_refresh(), std::slice::from_ref(&key));
        assert!(cache.left(&key).is_some());
        assert_eq!(cache.refresh(&key, Known::default()), Some(None));
        assert!(cache.left(&key).is_none());
        cache.refresh(&key, known(true));
        keep(&cache, "ann");
        assert!(cache.left(&key).is_none(), "it is somebody");
        drop(watch);
    }

    #[test]
    fn what_somebody_else_said_last_holds() {
        let cache = Cache::default();
        let foreign = User {
            roles: vec!["clerk".into()],
            foreign: true,
            ..user("ann")
        };
        let key = foreign.key();
        let found = Known {
            own: None,
            foreign: Some(foreign),
        };
        cache.keep(found).expect("it is a user");
        let different = |disabled| {
            let own = User {
                disabled,
                foreign: true,
                ..user("ann")
            };
            cache.put_own(&key, Some(own)).unwrap().unwrap()
        };
        for disabled in [true, false] {
            let now = different(disabled);
            assert_eq!((now.disabled, &*now.roles[0]), (disabled, "clerk"));
        }
        assert!(
            cache.put_own(&key, None).is_none(),
            "the same is known without"
        );
        cache.refresh(&key, Known::default());
        assert!(
            cache.put_own(&key, Some(user("ann"))).is_none(),
            "nobody wants to know"
        );
    }
}
