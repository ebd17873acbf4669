//! What somebody who was let in may do, and why: so that changes can find it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use stentor_hub::{Access, Needs, Quotas, Rights};

use super::Proof;
use crate::model::{Effect, Rule, User, UserKey};
use crate::rights::Holder;
use crate::store::Watch;

/// The rights of one login with what they were made from.
pub struct LoginRecord {
    pub(super) holder: Arc<Holder>,
    pub(super) needs: Needs,
    /// The user's name; `None` for a client without one.
    pub(super) key: Option<UserKey>,
    /// The user as it was found; `None` for the bearer of a token without a user.
    pub(super) user: Option<Arc<User>>,
    /// What the credential says besides; nothing for most.
    pub(super) proof: Option<Box<Proof>>,
    /// Whether a credential that somebody else keeps has let it in.
    pub(super) is_theirs: bool,
    /// Of a session that was there before the start of the server, until the user database has
    /// answered.
    pub(super) returned: Option<Box<Returned>>,
    /// Whether the client chose its client id.
    pub(super) has_client_id: bool,
    /// Its zone.
    pub(super) zone: Arc<str>,
    /// The number of the last change that is in it.
    pub(super) as_of: u64,
    /// Keeps the user current in the directory, for as long as this exists.
    #[expect(dead_code, reason = "it is held, not used")]
    pub(super) watch: Option<Watch>,
}

/// What the journal says of a user for whom the user database has not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Returned {
    /// The roles, whether there are such roles now or not.
    pub(super) roles: Vec<Arc<str>>,
    /// Whether it came with a credential that needs no account.
    pub(super) has_no_account: bool,
    /// Whether the roles are those of that credential.
    pub(super) roles_are_of_credential: bool,
}

impl LoginRecord {
    /// The rules that are asked.
    #[must_use]
    pub const fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// Whether the credential has rules that deny something.
    fn is_denied_something(&self) -> bool {
        let denies = |rule: &Rule| rule.effect == Effect::Deny;
        let proof = self.proof.as_deref();
        proof.is_some_and(|proof| proof.rules.iter().any(denies))
    }

    /// Whether the directory has this user.
    #[must_use]
    pub const fn has_account(&self) -> bool {
        self.user.is_some()
    }

    /// The user's name; `None` for a client without one.
    #[must_use]
    pub const fn key(&self) -> Option<&UserKey> {
        self.key.as_ref()
    }
}

impl fmt::Debug for LoginRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRecord")
            .field("key", &self.key)
            .field("as_of", &self.as_of)
            .finish_non_exhaustive()
    }
}

impl Rights for LoginRecord {
    fn may_publish(&self, topic: &str) -> bool {
        self.holder.may_publish(topic)
    }

    fn may_subscribe(&self, filter: &str) -> Access {
        self.holder.may_subscribe(filter)
    }

    fn may_receive(&self, topic: &str) -> bool {
        self.holder.may_receive(topic)
    }

    fn rules(&self) -> usize {
        self.holder.rules()
    }

    fn quotas(&self) -> Quotas {
        let quotas = self.holder.grant().quotas();
        Quotas {
            messages_per_sec: quotas.messages_per_sec,
            bytes_per_sec: quotas.bytes_per_sec,
            subscriptions: quotas.subscriptions,
            queued_bytes: quotas.queued_bytes,
        }
    }

    fn roles(&self) -> Vec<&str> {
        if let Some(returned) = &self.returned {
            return returned.roles.iter().map(|role| &**role).collect();
        }
        let mut roles = self.holder.roles();
        // The rules of a credential stand behind the others. They have no name.
        if self.proof.as_ref().is_some_and(|it| !it.rules.is_empty()) {
            roles.pop();
        }
        // Without the rules that deny something, the roles would allow more than before.
        if self.is_denied_something() {
            roles.clear();
        }
        roles
    }

    fn has_no_account(&self) -> bool {
        match &self.returned {
            Some(returned) => returned.has_no_account,
            None => self.key.is_some() && self.user.is_none(),
        }
    }

    fn roles_are_of_credential(&self) -> bool {
        if let Some(returned) = &self.returned {
            return returned.roles_are_of_credential;
        }
        // A login with rules of a credential and no account has no roles, not even `member`.
        let is_whole =
            |proof: &Proof| proof.roles.is_some() || self.user.is_none() && !proof.rules.is_empty();
        self.proof.as_deref().is_some_and(is_whole) || self.is_denied_something()
    }

    fn is_confirmed(&self) -> bool {
        self.returned.is_none()
    }

    fn needs(&self) -> Needs {
        self.needs.clone()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
