//! The sessions that there are, with their bounds in number and time. It knows no clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stentor_session::Tick;

use super::pace::Pace;

/// For how long a session goes on without a request.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// For how long a session goes on in any case.
pub(super) const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Sessions of one user.
const PER_OWNER_MAX: usize = 10;

/// Sessions in all.
const SESSIONS_MAX: usize = 1_000;

/// See the module. The key is the hash of what a browser shows.
#[derive(Debug)]
pub(super) struct Store<T> {
    sessions: HashMap<String, Session<T>>,
    /// How many there were.
    begun: u64,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            begun: 0,
        }
    }
}

/// A session.
#[derive(Debug)]
pub(super) struct Session<T> {
    /// Its number: sessions are numbered from 1, in the order in which they began.
    pub(super) number: u64,
    /// What was kept with it.
    pub(super) held: T,
    owner: Arc<str>,
    begun_at: Tick,
    used_at: Tick,
    pace: Pace,
}

/// Why there is no session for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// There is none, or it has ended.
    Unknown,
    /// Its requests come too fast; another one may come after this time.
    TooFast(Duration),
}

impl<T> Session<T> {
    fn has_ended(&self, now: Tick) -> bool {
        now.since(self.used_at) >= IDLE_MAX || self.left(now).is_zero()
    }

    /// How long it goes on at most.
    pub(super) fn left(&self, now: Tick) -> Duration {
        AGE_MAX.saturating_sub(now.since(self.begun_at))
    }
}

impl<T> Store<T> {
    /// Begins a session. The oldest one of the same owner makes room if that has too many; if all
    /// have too many, the oldest one of the owner who has most.
    pub(super) fn begin(&mut self, now: Tick, mark: String, owner: &Arc<str>, held: T) {
        self.sessions.retain(|_, session| !session.has_ended(now));
        if self.count(owner) >= PER_OWNER_MAX {
            self.end_oldest(owner);
        }
        if self.sessions.len() >= SESSIONS_MAX
            && let Some(most) = self.owner_of_most()
        {
            self.end_oldest(&most);
        }
        self.begun += 1;
        let session = Session {
            number: self.begun,
            held,
            owner: Arc::clone(owner),
            begun_at: now,
            used_at: now,
            pace: Pace::default(),
        };
        self.sessions.insert(mark, session);
    }

    /// The session of a request, which is counted.
    ///
    /// # Errors
    /// When there is none, or the request comes too early.
    pub(super) fn ask(&mut self, now: Tick, mark: &str) -> Result<&mut Session<T>, Absent> {
        let session = self.look(now, mark).ok_or(Absent::Unknown)?;
        session.pace.count(now).map_err(Absent::TooFast)?;
        session.used_at = now;
        Ok(session)
    }

    /// The session, without a request: that does not keep it from ending.
    pub(super) fn look(&mut self, now: Tick, mark: &str) -> Option<&mut Session<T>> {
        let session = self.sessions.get(mark)?;
        if session.has_ended(now) {
            self.end(mark);
            return None;
        }
        self.sessions.get_mut(mark)
    }

    /// What was kept with the session of this number.
    pub(super) fn numbered(&mut self, number: u64) -> Option<&mut T> {
        let mut sessions = self.sessions.values_mut();
        let found = sessions.find(|session| session.number == number)?;
        Some(&mut found.held)
    }

    /// Ends a session, if there is one.
    pub(super) fn end(&mut self, mark: &str) {
        self.sessions.remove(mark);
    }

    /// Ends all sessions but those whose part this wants to keep.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&mut T) -> bool) {
        self.sessions
            .retain(|_, session| is_kept(&mut session.held));
    }

    fn count(&self, owner: &Arc<str>) -> usize {
        let all = self.sessions.values();
        all.filter(|session| session.owner == *owner).count()
    }

    fn end_oldest(&mut self, owner: &Arc<str>) {
        let own = self.sessions.iter();
        let own = own.filter(|(_, session)| session.owner == *owner);
        let oldest = own.min_by_key(|(_, session)| session.number);
        if let Some(mark) = oldest.map(|(mark, _)| mark.clone()) {
            self.end(&mark);
        }
    }

    /// The owner who has most; of several, the one whose oldest session is the oldest.
    fn owner_of_most(&self) -> Option<Arc<str>> {
        let mut counts: HashMap<&Arc<str>, (usize, u64)> = HashMap::new();
        for session in self.sessions.values() {
            let (count, oldest) = counts.entry(&session.owner).or_insert((0, u64::MAX));
            *count += 1;
            *oldest = session.number.min(*oldest);
        }
        let most = counts.into_iter();
        let most = most.max_by_key(|(_, (count, oldest))| (*count, u64::MAX - oldest));
        most.map(|(owner, _)| Arc::clone(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Tick = Tick::from_secs(1_000);

    fn owner(name: &str) -> Arc<str> {
        name.into()
    }

    fn with(marks: &[(&str, &str)]) -> Store<()> {
        let mut store = Store::default();
        for (mark, name) in marks {
            store.begin(START, (*mark).to_owned(), &owner(name), ());
        }
        store
    }

    fn minutes(count: u64) -> Tick {
        START.after(Duration::from_secs(60 * count))
    }

    #[test]
    fn a_session_without_requests_ends() {
        let mut store = with(&[("a", "ann")]);
        assert!(store.ask(minutes(29), "a").is_ok());
        let almost = minutes(58).after(Duration::from_secs(59));
        assert!(store.look(almost, "a").is_some(), "29 min 59 s are left");
        assert!(store.look(minutes(59), "a").is_none(), "a look is no use");
        assert_eq!(store.ask(minutes(59), "a").err(), Some(Absent::Unknown));
        assert!(store.sessions.is_empty());
    }

    #[test]
    fn a_session_that_is_used_ends_after_twelve_hours() {
        let mut store = with(&[("a", "ann")]);
        for minute in (20..720).step_by(20) {
            assert!(store.ask(minutes(minute), "a").is_ok(), "{minute}");
        }
        let session = store.look(minutes(719), "a").expect("a minute is left");
        assert_eq!(session.left(minutes(719)), Duration::from_secs(60));
        assert_eq!(store.ask(minutes(720), "a").err(), Some(Absent::Unknown));
    }

    #[test]
    fn the_oldest_of_a_user_makes_room() {
        let names: Vec<String> = (0..PER_OWNER_MAX).map(|at| at.to_string()).collect();
        let mut marks: Vec<(&str, &str)> = vec![("other", "ben")];
        marks.extend(names.iter().map(|name| (name.as_str(), "ann")));
        let mut store = with(&marks);
        // Use makes no session younger.
        assert!(store.ask(minutes(1), "0").is_ok());
        store.begin(minutes(1), "new".to_owned(), &owner("ann"), ());
        assert!(store.look(minutes(1), "0").is_none());
        for mark in ["1", "9", "new", "other"] {
            assert!(store.look(minutes(1), mark).is_some(), "{mark}");
        }
        assert_eq!(store.count(&owner("ann")), PER_OWNER_MAX);
    }

    #[test]
    fn there_are_no_more_than_a_thousand() {
        let mut store = with(&[("first", "ann"), ("second", "ann"), ("third", "ann")]);
        for at in 0..SESSIONS_MAX - 3 {
            store.begin(START, format!("m{at}"), &owner(&format!("u{at}")), ());
        }
        store.begin(START, "new".to_owned(), &owner("ben"), ());
        assert_eq!(store.sessions.len(), SESSIONS_MAX);
        assert!(store.look(START, "first").is_none(), "ann has most");
        assert!(store.look(START, "second").is_some());
        assert!(store.look(START, "m0").is_some());
        // Those that have ended make room first.
        let later = minutes(31);
        store.begin(later, "late".to_owned(), &owner("ben"), ());
        assert_eq!(store.sessions.len(), 1);
    }

    #[test]
    fn requests_that_come_too_fast_do_not_count_as_use() {
        let mut store = with(&[("a", "ann")]);
        let passed = (0..100).filter(|_| store.ask(START, "a").is_ok()).count();
        assert_eq!(passed, 60);
        let refused = store.ask(START, "a").err();
        assert!(matches!(refused, Some(Absent::TooFast(_))), "{refused:?}");
        assert!(store.look(START, "a").is_some());
        assert!(store.ask(START.after(Duration::from_secs(1)), "a").is_ok());
    }

    #[test]
    fn what_is_ended_is_gone() {
        let mut store = with(&[("a", "ann"), ("b", "ben")]);
        store.end("a");
        store.end("nothing");
        assert_eq!(store.ask(START, "a").err(), Some(Absent::Unknown));
        assert!(store.ask(START, "b").is_ok());
        store.retain(|()| false);
        assert_eq!(store.ask(START, "b").err(), Some(Absent::Unknown));
    }
}
