//! Where the connections of users and zones are counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stentor_hub::{Needs, Newest, Places};

use crate::model::UserKey;

/// Entries before those of users who have gone are looked for.
const ROOM_MIN: usize = 1_024;

/// One [`Places`] per user and per zone whose connections are limited. Connections without a
/// limit are not counted, and cost nothing.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    users: HashMap<UserKey, Weak<Places>>,
    /// Of zones where only a user's newest connection stays.
    newest: HashMap<UserKey, Weak<Newest>>,
    /// How many users there may be before those who have gone are looked for.
    room: usize,
    newest_room: usize,
    zones: HashMap<Arc<str>, Arc<Places>>,
}

impl Registry {
    /// Where a user's newest connection is known, in a zone that leaves each user only that.
    pub(super) fn newest(&self, key: &UserKey) -> Arc<Newest> {
        let mut known = self.lock();
        if let Some(newest) = known.newest.get(key).and_then(Weak::upgrade) {
            return newest;
        }
        if known.newest.len() >= known.newest_room.max(ROOM_MIN) {
            known.newest.retain(|_, newest| newest.strong_count() > 0);
            known.newest_room = 2 * known.newest.len();
        }
        let newest = Arc::new(Newest::default());
        known.newest.insert(key.clone(), Arc::downgrade(&newest));
        newest
    }

    /// The places that a connection needs, with these bounds from now on.
    pub(super) fn needs(
        &self,
        key: Option<&UserKey>,
        zone: &Arc<str>,
        per_user: Option<u32>,
        per_zone: Option<u32>,
    ) -> Needs {
        if per_user.is_none() && per_zone.is_none() {
            return Needs::default();
        }
        let mut known = self.lock();
        let of_user = |(key, max)| known.user(key, max);
        let user = key.zip(per_user).map(of_user);
        let zone = per_zone.map(|max| known.zone(zone, max));
        Needs {
            user,
            zone,
            ..Needs::default()
        }
    }

    /// Nothing can panic half way through a change of the tables.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn user(&mut self, key: &UserKey, max: u32) -> Arc<Places> {
        if let Some(places) = self.users.get(key).and_then(Weak::upgrade) {
            places.set_max(max);
            return places;
        }
        if self.users.len() >= self.room.max(ROOM_MIN) {
            self.users.retain(|_, places| places.strong_count() > 0);
            self.room = 2 * self.users.len();
        }
        let places = Arc::new(Places::new(max));
        self.users.insert(key.clone(), Arc::downgrade(&places));
        places
    }

    fn zone(&mut self, zone: &Arc<str>, max: u32) -> Arc<Places> {
        let new = || Arc::new(Places::new(max));
        let places = self.zones.entry(Arc::clone(zone)).or_insert_with(new);
        places.set_max(max);
        Arc::clone(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_counter_for_as_long_as_it_is_there() {
        let registry = Registry::default();
        let (ann, zone) = (UserKey::parse("ann"), "default".into());
        let needs = |max| registry.needs(Some(&ann), &zone, max, None).user;
        assert!(needs(None).is_none());
        let (first, again) = (needs(Some(1)), needs(Some(2)));
        assert!(Arc::ptr_eq(&first.clone().unwrap(), &again.unwrap()));
        drop(first);
        for number in 0..3 * ROOM_MIN {
            let other = UserKey::parse(&format!("u{number}"));
            registry.needs(Some(&other), &zone, Some(1), None);
        }
        assert!(registry.lock().users.len() <= ROOM_MIN, "nobody stays");
    }

    #[test]
    fn a_zone_is_counted_for_all_its_users() {
        let registry = Registry::default();
        let zone: Arc<str> = "game".into();
        let ann = registry.needs(Some(&UserKey::parse("game/ann")), &zone, None, Some(3));
        let nobody = registry.needs(None, &zone, None, Some(3));
        assert!(Arc::ptr_eq(&ann.zone.unwrap(), &nobody.zone.unwrap()));
        assert!(ann.user.is_none() && nobody.user.is_none());
    }
}
