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

    /// How many users have changed.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users.len()
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
