//! All that is known about users: what Stentor keeps, and what somebody else keeps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Source, Store, StoreError};
use crate::model::{ADMIN, User, UserKey};

/// A store, perhaps with a source of foreign users beside it.
///
/// A name that is in the store and in the source is one user: credentials come from both, roles
/// from the store if it names any, and either may disable the user. So an operator can give roles
/// to users of a foreign table. A user who was added to the store needs no entry in the source; a
/// foreign user exists only while the source has it.
///
/// An administrator of the store proves itself by what the store says alone: whoever may write to
/// the source and takes that name would be the administrator otherwise.
#[derive(Clone)]
pub struct Books {
    /// What Stentor keeps.
    pub store: Arc<dyn Store>,
    /// What somebody else keeps.
    pub source: Option<Arc<dyn Source>>,
}

impl Books {
    /// Only a store.
    #[must_use]
    pub fn of(store: impl Store + 'static) -> Self {
        Self {
            store: Arc::new(store),
            source: None,
        }
    }

    /// What this is, for logs.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.source {
            None => self.store.describe(),
            Some(source) => format!("{} and {}", self.store.describe(), source.describe()),
        }
    }

    /// Opens both.
    ///
    /// # Errors
    /// The first that does not open.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.store.open().await?;
        match &self.source {
            None => Ok(()),
            Some(source) => source.open().await,
        }
    }

    /// The users among these that exist. A name has to be exactly as it was asked for, whatever a
    /// database takes for equal.
    ///
    /// # Errors
    /// When either does not answer.
    pub async fn find(&self, keys: &[UserKey]) -> Result<HashMap<UserKey, User>, StoreError> {
        let known = self.look(keys).await?.into_iter();
        let users = known.filter_map(|(key, known)| Some((key, known.user()?)));
        Ok(users.collect())
    }

    /// The same, with what comes from where.
    pub(super) async fn look(
        &self,
        keys: &[UserKey],
    ) -> Result<HashMap<UserKey, Known>, StoreError> {
        let own = self.own(keys).await?.into_iter();
        let of_own = |(key, user)| {
            let own = Some(user);
            (key, Known { own, foreign: None })
        };
        let mut known: HashMap<UserKey, Known> = own.map(of_own).collect();
        if let Some(source) = &self.source {
            for foreign in source.find(keys).await? {
                let entry = known.entry(foreign.key());
                entry.or_default().foreign = Some(foreign);
            }
        }
        let asked: HashSet<&UserKey> = keys.iter().collect();
        known.retain(|key, _| asked.contains(key));
        Ok(known)
    }

    /// What the store alone says of users.
    pub(super) async fn own(&self, keys: &[UserKey]) -> Result<HashMap<UserKey, User>, StoreError> {
        let records = self.store.find(keys).await?.into_iter();
        Ok(records
            .map(|record| (record.user.key(), record.user))
            .collect())
    }
}

/// What is known of a user, by who says it.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What the store says.
    pub(super) own: Option<User>,
    /// What the source says.
    pub(super) foreign: Option<User>,
}

impl Known {
    /// The user that this makes, if it makes one. Its credentials say who keeps them.
    pub(super) fn user(mut self) -> Option<User> {
        for credential in self.foreign.iter_mut().flat_map(|one| &mut one.credentials) {
            credential.foreign = true;
        }
        match (self.own, self.foreign) {
            (Some(own), Some(foreign)) => Some(merge(own, foreign)),
            (Some(own), None) => (!own.foreign).then_some(own),
            (None, foreign) => foreign,
        }
    }
}

impl Known {
    /// Whether this makes no user.
    pub(super) fn is_nobody(&self) -> bool {
        self.foreign.is_none() && self.own.as_ref().is_none_or(|own| own.foreign)
    }

    /// What the store says of a user whom the source does not know any more. It makes no user, but
    /// binds whoever comes by that name and needs to be none.
    pub(super) fn left(&self) -> Option<User> {
        let own = self.own.as_ref();
        let own = own.filter(|own| own.foreign && self.foreign.is_none())?;
        Some(User {
            credentials: Vec::new(),
            ..own.clone()
        })
    }

    /// Whether the source has credentials under a name that is not theirs to give.
    pub(super) fn is_taken(&self) -> bool {
        let foreign = self.foreign.as_ref();
        foreign.is_some_and(|foreign| !foreign.credentials.is_empty())
            && self.own.as_ref().is_some_and(stands_alone)
    }
}

/// Whether somebody else's credentials prove nothing about a user of the store.
pub(crate) fn stands_alone(own: &User) -> bool {
    !own.foreign && own.roles.iter().any(|role| **role == *ADMIN)
}

fn merge(mut own: User, foreign: User) -> User {
    if stands_alone(&own) {
        return own;
    }
    own.credentials.extend(foreign.credentials);
    if own.roles.is_empty() {
        own.roles = foreign.roles;
    }
    own.disabled |= foreign.disabled;
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Credential, DEFAULT_ZONE, MEMBER};

    fn user(role: &str, credential: &str, foreign: bool) -> User {
        User {
            zone: DEFAULT_ZONE.into(),
            name: "ann".into(),
            credentials: vec![Credential::new(credential)],
            roles: vec![role.into()],
            disabled: false,
            foreign,
        }
    }

    #[test]
    fn nobody_becomes_an_administrator_by_a_name_in_the_source() {
        for (role, foreign, taken) in [
            (ADMIN, false, true),
            (MEMBER, false, false),
            // An operator has given this role on purpose.
            (ADMIN, true, false),
        ] {
            let known = Known {
                own: Some(user(role, "token:ours", foreign)),
                foreign: Some(user(MEMBER, "$theirs", true)),
            };
            assert_eq!(known.is_taken(), taken, "{role} {foreign}");
            let merged = known.user().expect("it is one");
            let texts: Vec<&str> = merged.credentials.iter().map(|one| &*one.text).collect();
            let expected = ["token:ours", "$theirs"];
            assert_eq!(
                texts,
                expected[..if taken { 1 } else { 2 }],
                "{role} {foreign}"
            );
            assert_eq!(&*merged.roles[0], role);
        }
    }

    #[test]
    fn whose_a_credential_is_is_known() {
        let ours = || Some(user(MEMBER, "$ours", false));
        let theirs = || Some(user(MEMBER, "$theirs", true));
        for (own, foreign, expected) in [
            (ours(), None, &[("$ours", false)][..]),
            (None, theirs(), &[("$theirs", true)]),
            (ours(), theirs(), &[("$ours", false), ("$theirs", true)]),
        ] {
            let found = Known { own, foreign }.user().expect("it is one");
            let of = |one: &'_ Credential| (one.text.to_string(), one.foreign);
            let whose: Vec<(String, bool)> = found.credentials.iter().map(of).collect();
            let expected = expected
                .iter()
                .map(|(text, foreign)| ((*text).to_owned(), *foreign));
            assert_eq!(whose, expected.collect::<Vec<_>>());
        }
    }
}
