//! How many streams there are: in all, of each user, and of each session.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bounds::{STREAMS_MAX, STREAMS_PER_SESSION_MAX, STREAMS_PER_USER_MAX};

/// The streams that are open.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    by_user: HashMap<String, usize>,
    by_session: HashMap<u64, usize>,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    user: String,
    session: Option<u64>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The session has too many.
    Session,
    /// The user has too many.
    User,
    /// There are too many.
    All,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, whose) = match self {
            Self::Session => (STREAMS_PER_SESSION_MAX, "of this session"),
            Self::User => (STREAMS_PER_USER_MAX, "of this user"),
            Self::All => (STREAMS_MAX, "of all users"),
        };
        write!(
            f,
            "{count} event streams {whose} are open, and there can be no more; close another one"
        )
    }
}

impl Places {
    /// A place for another stream of a user, and of a session if there is one.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take(self: &Arc<Self>, user: &str, session: Option<u64>) -> Result<Place, Full> {
        let mut open = self.lock();
        let all: usize = open.by_user.values().sum();
        let of_session = session.and_then(|number| open.by_session.get(&number));
        let of_session = of_session.copied().unwrap_or_default();
        let own = open.by_user.get(user).copied().unwrap_or_default();
        if of_session >= STREAMS_PER_SESSION_MAX {
            return Err(Full::Session);
        }
        if own >= STREAMS_PER_USER_MAX {
            return Err(Full::User);
        }
        if all >= STREAMS_MAX {
            return Err(Full::All);
        }
        open.by_user.insert(user.to_owned(), own + 1);
        if let Some(number) = session {
            open.by_session.insert(number, of_session + 1);
        }
        Ok(Place {
            places: Arc::clone(self),
            user: user.to_owned(),
            session,
        })
    }

    /// The counts of a stream are changed in one step.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.lock();
        one_less(&mut open.by_user, &self.user);
        if let Some(number) = self.session {
            one_less(&mut open.by_session, &number);
        }
    }
}

fn one_less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
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
                taken.push(places.take(&user.to_string(), None).expect("there is room"));
            }
            assert_eq!(places.take(&user.to_string(), None).err(), Some(Full::User));
        }
        assert_eq!(places.take("another", None).err(), Some(Full::All));
        drop(taken.pop());
        assert!(places.take("another", None).is_ok());
        taken.clear();
        assert!(places.lock().by_user.is_empty());
    }

    #[test]
    fn a_session_has_fewer_than_its_user() {
        let places = Arc::new(Places::default());
        let take = |session| places.take("ann", Some(session));
        let mut taken: Vec<_> = (0..STREAMS_PER_SESSION_MAX).map(|_| take(1)).collect();
        assert_eq!(take(1).err(), Some(Full::Session));
        assert!(take(2).is_ok(), "another session of the user");
        drop(taken.pop());
        assert!(take(1).is_ok());
        taken.clear();
        assert!(places.lock().by_session.is_empty());
    }
}
