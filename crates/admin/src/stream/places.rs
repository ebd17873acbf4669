//! How many streams there are, in all and of each user.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bounds::{STREAMS_MAX, STREAMS_PER_USER_MAX};

/// The streams that are open, by user.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<String, usize>>);

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    user: String,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The user has too many.
    OfUser,
    /// There are too many.
    OfAll,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, whose) = match self {
            Self::OfUser => (STREAMS_PER_USER_MAX, "of this user"),
            Self::OfAll => (STREAMS_MAX, "of all users"),
        };
        write!(
            f,
            "{count} event streams {whose} are open, and there can be no more; close another one"
        )
    }
}

impl Places {
    /// A place for another stream of a user.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        let mut open = self.lock();
        let all: usize = open.values().sum();
        let own = open.get(user).copied().unwrap_or_default();
        if own >= STREAMS_PER_USER_MAX {
            return Err(Full::OfUser);
        }
        if all >= STREAMS_MAX {
            return Err(Full::OfAll);
        }
        open.insert(user.to_owned(), own + 1);
        Ok(Place {
            places: Arc::clone(self),
            user: user.to_owned(),
        })
    }

    /// A count is changed in one step.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.lock();
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_some_and_all_have_more() {
        let places = Arc::new(Places::default());
        let users = STREAMS_MAX / STREAMS_PER_USER_MAX;
        let mut taken = Vec::new();
        for user in 0..users {
            for _ in 0..STREAMS_PER_USER_MAX {
                taken.push(places.take(&user.to_string()).expect("there is room"));
            }
            assert_eq!(places.take(&user.to_string()).err(), Some(Full::OfUser));
        }
        assert_eq!(places.take("another").err(), Some(Full::OfAll));
        drop(taken.pop());
        assert!(places.take("another").is_ok());
        taken.clear();
        assert!(places.lock().is_empty());
    }
}
