//! Changes on their way to those who are logged in.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use stentor_hub::{Identity, Renewal, Renewed};

use super::RoleGrants;
use crate::model::{User, UserKey};
use crate::store::Change;

/// What has changed since the last time: many changes at once are one visit to every session.
#[derive(Debug, Default)]
pub struct Changes {
    /// Users as they are now; `None` for one who is gone.
    pub(super) users: HashMap<UserKey, Option<Arc<User>>>,
    /// The users of sessions that were there before the start, as the user database has them.
    pub(super) returned: HashMap<UserKey, Option<Arc<User>>>,
    /// Whether it has told which zones there are, for sessions that have no user.
    pub(super) zones_are_known: bool,
    /// Whether any role has changed.
    pub(super) roles: bool,
    /// Whether any zone has.
    pub(super) zones: bool,
}

impl Changes {
    /// Adds what has changed later.
    pub fn add(&mut self, change: Change) {
        match change {
            Change::User(key, user) => {
                // Somebody who was gone in between is somebody else.
                if !matches!(self.users.get(&key), Some(None)) {
                    self.users.insert(key, user);
                }
            }
            Change::Roles => self.roles = true,
            Change::Zones => self.zones = true,
        }
    }

    /// Adds what the user database says of the user of a session that was there before the start
    /// of the server: nothing if nobody has that name.
    pub fn add_returned(&mut self, key: UserKey, user: Option<Arc<User>>) {
        self.returned.insert(key, user);
    }

    /// The user database has told which zones there are.
    pub const fn zones_are_known(&mut self) {
        self.zones_are_known = true;
    }

    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users() == 0 && !self.zones_are_known && !self.has_all()
    }

    /// How many users are in it.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users.len() + self.returned.len()
    }

    /// What is said of a user. That it was deleted in between counts before all else.
    pub(super) fn of(&self, key: &UserKey) -> Option<&Option<Arc<User>>> {
        self.users.get(key).or_else(|| self.returned.get(key))
    }

    /// Whether somebody may be touched who is not among the users.
    pub(super) const fn has_all(&self) -> bool {
        self.roles || self.zones
    }
}

/// Changes that every shard applies to its sessions.
pub struct Renewals {
    grants: Weak<RoleGrants>,
    number: u64,
    changes: Changes,
    subject: String,
}

impl Renewals {
    pub(super) fn new(grants: Weak<RoleGrants>, number: u64, changes: Changes) -> Self {
        Self {
            grants,
            number,
            changes,
            subject: format!("change {number}"),
        }
    }

    /// Which change this is: they are numbered from 1, one after the other.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether somebody's password is another one from now on. A better hash of the same password
    /// is not another one.
    #[must_use]
    pub fn ends_password(&self, identity: &Identity) -> bool {
        let grants = self.grants.upgrade();
        grants.is_some_and(|grants| grants.has_other_password(identity, &self.changes))
    }

    /// Whether this hash is one of somebody's passwords from now on.
    #[must_use]
    pub fn has_password(&self, identity: &Identity, hash: &str) -> bool {
        let grants = self.grants.upgrade();
        grants.is_some_and(|grants| grants.has_password(identity, &self.changes, hash))
    }
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals")
            .field("number", &self.number)
            .field("users", &self.changes.users.len())
            .finish_non_exhaustive()
    }
}

impl Renewal for Renewals {
    /// No change takes the place of another: each says something about other users.
    fn subject(&self) -> &str {
        &self.subject
    }

    fn renew(&self, identity: &Arc<Identity>, client_id: &str) -> Renewed {
        match self.grants.upgrade() {
            Some(grants) => grants.renewed(identity, client_id, self.number, &self.changes),
            // The server ends.
            None => Renewed::Keep,
        }
    }
}
