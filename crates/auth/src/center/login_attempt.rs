//! A client that asks to log in.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use stentor_hub::Identity;
use stentor_topic::Zone;

use crate::model::{Rule, UserKey};

/// A client that asks to log in, apart from the credential that it shows.
#[derive(Clone)]
pub struct LoginAttempt {
    /// The user that it says to be.
    pub key: UserKey,
    /// Whether it said a zone with its name; otherwise a credential that names one may.
    pub says_zone: bool,
    /// The zone of the listener, if that belongs to one.
    pub zone: Option<Arc<str>>,
    /// Its client id; `None` if the server is to choose it.
    pub client_id: Option<Arc<str>>,
    /// Where it comes from; `None` for a Unix socket.
    pub address: Option<IpAddr>,
    /// The identity that it has already, if it authenticates again.
    pub again: Option<Arc<Identity>>,
    /// Whether the user was looked up and is disabled: for the log alone.
    pub is_disabled: bool,
}

#[cfg(test)]
impl LoginAttempt {
    /// One who says a name, and nothing else.
    pub(super) fn named(name: &str) -> Self {
        Self {
            key: UserKey::parse(name),
            says_zone: false,
            zone: None,
            client_id: None,
            address: None,
            again: None,
            is_disabled: false,
        }
    }
}

impl fmt::Debug for LoginAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginAttempt")
            .field("key", &self.key)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Somebody whose session was there before the start of the server.
#[derive(Clone, Debug)]
pub struct Returning<'a> {
    /// The number of its zone.
    pub zone: Zone,
    /// Its name; `None` for a client without one.
    pub user: Option<&'a str>,
    /// Its client id.
    pub client_id: &'a str,
    /// The roles that it had.
    pub roles: Vec<Arc<str>>,
    /// Whether it came with a credential that needs no account.
    pub has_no_account: bool,
    /// Whether the roles are those of that credential, and not of an account.
    pub roles_are_of_credential: bool,
}

/// What a credential says besides who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// When it ends, in seconds since 1970.
    pub expires_at_secs: Option<u64>,
    /// The roles, instead of the user's own, or instead of `member` if there is no user.
    pub roles: Option<Vec<Arc<str>>>,
    /// Rules beside those of the roles.
    pub rules: Vec<Rule>,
    /// The user's token that it is, as it is stored.
    pub token: Option<Arc<str>>,
    /// What the user must still have when it is let in, as it is stored: the password that fitted,
    /// or the secret of SCRAM. What was begun with one is not finished with it when there is
    /// another one.
    pub secret: Option<Arc<str>>,
}
