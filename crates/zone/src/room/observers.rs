//! Sessions that hear what happens in a room without being seen.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::effect::SessionId;

#[derive(Debug, Default)]
pub(super) struct Observers {
    by_session: BTreeMap<SessionId, Arc<str>>,
}

impl Observers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_session.is_empty()
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.by_session.contains_key(&session)
    }

    pub(super) fn add(&mut self, user: &str, session: SessionId) {
        self.by_session.insert(session, user.into());
    }

    /// False if it is none.
    pub(super) fn remove(&mut self, session: SessionId) -> bool {
        self.by_session.remove(&session).is_some()
    }

    /// The sessions by which a user observes are out; returns them. O(observers).
    pub(super) fn send_out(&mut self, user: &str) -> Vec<SessionId> {
        let is_own = |_: &SessionId, of: &mut Arc<str>| **of == *user;
        let gone = self.by_session.extract_if(.., is_own);
        gone.map(|(session, _)| session).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_session.len()
    }

    /// Sends somebody away; returns where it sat.
    pub(super) fn pop(&mut self) -> Option<SessionId> {
        self.by_session.pop_first().map(|(session, _)| session)
    }
}
