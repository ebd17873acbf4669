//! Look-ups that a database refuses for one of the names.
//!
//! A column that keeps fewer characters than there are refuses a whole query for one name that it
//! cannot hold, and everybody who logs in at the same time would be refused with it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Worker;
use crate::model::{DEFAULT_ZONE, User, UserKey};
use crate::store::StoreError;
use crate::store::books::Known;

/// Queries that one refused look-up costs at most: whoever sends odd names must not keep the others
/// waiting for long.
const QUERIES_MAX: usize = 48;

/// What is known after a look-up.
#[derive(Default)]
pub(super) struct Findings {
    /// What is known of the users that exist. A user that was asked for and is neither here nor in
    /// `unknown` does not exist.
    pub(super) users: HashMap<UserKey, Known>,
    /// Those of whom nothing could be found out.
    pub(super) unknown: HashSet<UserKey>,
}

impl Findings {
    /// Takes over what the store says of some of them now.
    pub(super) fn put_own(&mut self, keys: &[UserKey], mut own: HashMap<UserKey, User>) {
        for key in keys {
            let known = self.users.entry(key.clone()).or_default();
            known.own = own.remove(key);
        }
    }
}

/// Whether every database holds a name like this. PostgreSQL's texts have no NUL.
fn is_plain(key: &UserKey) -> bool {
    let plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    plain(&key.zone) && plain(&key.name)
}

impl Worker {
    /// Users of a look-up that was refused, without those whose names the database cannot hold:
    /// it cannot have such users.
    ///
    /// # Errors
    /// The first refusal, if it is not for names.
    pub(super) async fn sift(
        &self,
        keys: &[UserKey],
        refusal: StoreError,
    ) -> Result<Findings, StoreError> {
        let (plain, odd): (Vec<UserKey>, Vec<UserKey>) = keys.iter().cloned().partition(is_plain);
        if odd.is_empty() {
            return Err(refusal);
        }
        let mut findings = Findings::default();
        // Every database holds these; if they are refused, the tables are to blame. Nobody has the
        // name that is asked for if there is no other.
        let probe = [UserKey::new(DEFAULT_ZONE, "\u{1}")];
        let plain = if plain.is_empty() { &probe[..] } else { &plain };
        findings.users = self.ask(plain).await?;
        let mut refused = VecDeque::from([odd]);
        let mut queries = 1;
        while let Some(part) = refused.pop_front() {
            if part.len() < 2 {
                continue;
            }
            if queries >= QUERIES_MAX {
                findings.unknown.extend(part);
                continue;
            }
            let (one, other) = part.split_at(part.len() / 2);
            for half in [one, other] {
                queries += 1;
                match self.ask(half).await {
                    Ok(users) => findings.users.extend(users),
                    Err(error) if error.is_unavailable() => return Err(error),
                    Err(_) => refused.push_back(half.to_vec()),
                }
            }
        }
        Ok(findings)
    }
}
