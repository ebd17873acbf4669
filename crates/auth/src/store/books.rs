//! All that is known about users: what Stentor keeps, and what somebody else keeps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Source, Store, StoreError};
use crate::model::{User, UserKey};

/// A store, perhaps with a source of foreign users beside it.
///
/// Who is in the store and in the source is one user: credentials come from both, roles from the
/// store if it names any, and either may disable it. So an operator gives roles to people who live
/// in tables of their own. Who was added to the store is a user without the source too; who is
/// foreign is one only where the source knows it.
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
        let own = self.store.find(keys).await?;
        let mut own: HashMap<UserKey, User> = own
            .into_iter()
            .map(|record| (record.user.key(), record.user))
            .collect();
        let mut users = HashMap::with_capacity(own.len());
        if let Some(source) = &self.source {
            for foreign in source.find(keys).await? {
                let merged = match own.remove(&foreign.key()) {
                    Some(own) => merge(own, foreign),
                    None => foreign,
                };
                users.insert(merged.key(), merged);
            }
        }
        users.extend(own.into_iter().filter(|(_, user)| !user.foreign));
        let asked: HashSet<&UserKey> = keys.iter().collect();
        users.retain(|key, _| asked.contains(key));
        Ok(users)
    }
}

fn merge(mut own: User, foreign: User) -> User {
    own.credentials.extend(foreign.credentials);
    if own.roles.is_empty() {
        own.roles = foreign.roles;
    }
    own.disabled |= foreign.disabled;
    own
}
