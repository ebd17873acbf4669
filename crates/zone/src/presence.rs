//! Which users of a zone are there.

use alloc::sync::Arc;
use alloc::vec::Vec;

use alloc::collections::BTreeMap;

use crate::effect::{Effect, SessionId};
use crate::topic;

/// What happens when a user logs in who is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uniqueness {
    /// The newcomer is refused.
    Refuse,
    /// The newcomer replaces who is there.
    Replace,
    /// Both stay, up to this many sessions; with 0, without a limit.
    #[default]
    Many,
}

/// Whether a session of a user is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Admitted,
    /// It is, and these end.
    Replaced(Vec<SessionId>),
    /// It is not: the user is there already.
    Refused,
}

/// What can be seen of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceStatus {
    /// At least one session is connected.
    Online,
    /// None is.
    Offline,
}

/// The connected sessions of a zone's users. What it publishes is `$presence/<user>`, retained
/// while the user is there and cleared when the last session goes.
///
/// One instance decides for a whole zone, so that of two racing logins one is the first.
#[derive(Debug, Default)]
pub struct Presence {
    uniqueness: Uniqueness,
    users: BTreeMap<Arc<str>, Vec<SessionId>>,
}

impl Presence {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(uniqueness: Uniqueness) -> Self {
        Self {
            uniqueness,
            users: BTreeMap::new(),
        }
    }

    /// How many users are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether nobody is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether a user is there.
    #[must_use]
    pub fn standing(&self, user: &str) -> PresenceStatus {
        if self.users.contains_key(user) {
            PresenceStatus::Online
        } else {
            PresenceStatus::Offline
        }
    }

    /// The sessions of a user.
    #[must_use]
    pub fn sessions(&self, user: &str) -> &[SessionId] {
        self.users.get(user).map_or(&[], Vec::as_slice)
    }

    /// A session of a user wants to come. `max` bounds the user's sessions; 0 does not. One
    /// that is there already, a client that reconnects to its own session, is always let in.
    pub fn arrive(
        &mut self,
        user: &str,
        session: SessionId,
        max: u32,
        out: &mut Vec<Effect>,
    ) -> Verdict {
        let Some(sessions) = self.users.get_mut(user) else {
            self.users.insert(user.into(), alloc::vec![session]);
            out.push(show(user, PresenceStatus::Online));
            return Verdict::Admitted;
        };
        if sessions.contains(&session) {
            return Verdict::Admitted;
        }
        match self.uniqueness {
            Uniqueness::Refuse => Verdict::Refused,
            Uniqueness::Replace => {
                let replaced = core::mem::replace(sessions, alloc::vec![session]);
                Verdict::Replaced(replaced)
            }
            Uniqueness::Many if max > 0 && sessions.len() >= max as usize => Verdict::Refused,
            Uniqueness::Many => {
                sessions.push(session);
                Verdict::Admitted
            }
        }
    }

    /// Everybody is gone: the zone ends.
    pub fn clear(&mut self, out: &mut Vec<Effect>) {
        let users = core::mem::take(&mut self.users).into_keys();
        out.extend(users.map(|user| show(&user, PresenceStatus::Offline)));
    }

    /// A session is gone. Nothing happens if it was replaced before.
    pub fn depart(&mut self, user: &str, session: SessionId, out: &mut Vec<Effect>) {
        let Some(sessions) = self.users.get_mut(user) else {
            return;
        };
        sessions.retain(|&other| other != session);
        if sessions.is_empty() {
            self.users.remove(user);
            out.push(show(user, PresenceStatus::Offline));
        }
    }
}

fn show(user: &str, standing: PresenceStatus) -> Effect {
    let payload = match standing {
        PresenceStatus::Online => br#"{"state":"online"}"#.to_vec(),
        PresenceStatus::Offline => Vec::new(),
    };
    Effect::Publish {
        topic: topic::presence(user),
        payload,
        retain: true,
    }
}
