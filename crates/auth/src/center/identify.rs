//! Users whom somebody else vouches for: callers of procedures, whom the system or a file names.

use std::sync::Arc;

use stentor_hub::Identity;
use stentor_session::Tick;

use super::{Center, LoginAttempt, LoginRecord, Proof, Shared};
use crate::model::UserKey;
use crate::store::Found;
use crate::{Decision, Refusal};

impl Center {
    /// Finds out what a user may do without asking for a proof. A name that is not a user has the
    /// rights of the role `member`, like the bearer of a web token without a user. A disabled user
    /// is refused. `then` is called once, on any thread, where it must not wait for anything.
    pub fn identify(&self, key: UserKey, then: impl FnOnce(Decision) + Send + 'static) {
        let shared = Arc::clone(&self.0);
        let login = LoginAttempt {
            key: key.clone(),
            says_zone: true,
            zone: None,
            client_id: None,
            address: None,
            again: None,
            is_disabled: false,
        };
        // A directory that does not take the question drops it.
        let answer = crate::Answer::new(then).or(Refusal::Busy);
        let found: Found = Box::new(move |result| {
            let decision = match result {
                Ok(user) => shared.identified(&login, user.as_ref()),
                Err(_) => Decision::Refused(Refusal::Unavailable),
            };
            answer.give(decision);
        });
        // If it is refused, the dropped answer has said so.
        let _ = self.0.accounts.look_up(key, found);
    }

    /// Whether an identity is as it would be made now: nothing has changed since, and it has not
    /// come to its end. One atomic read.
    #[must_use]
    pub fn is_current(&self, identity: &Identity) -> bool {
        self.is_current_as_of(identity, as_of(identity))
    }

    /// The same of an identity that was held against all changes up to this number.
    #[must_use]
    pub fn is_current_as_of(&self, identity: &Identity, as_of: u64) -> bool {
        let is_newest = as_of >= self.0.grants.changes();
        is_newest && (identity.expires_at == Tick::NEVER || identity.expires_at > (self.0.clock)())
    }
}

/// The number of the last change that is in an identity. No change touches one without a login
/// record.
#[must_use]
pub fn as_of(identity: &Identity) -> u64 {
    let login_record = identity.rights.as_any();
    let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
    login_record.map_or(u64::MAX, |login_record| login_record.as_of)
}

impl Shared {
    fn identified(&self, login: &LoginAttempt, user: Option<&Arc<crate::model::User>>) -> Decision {
        if self.is_shut_out(&login.key, user) {
            return Decision::Refused(Refusal::Credentials);
        }
        let proof = Proof::default();
        match self.grants.identity(login, user, proof, Tick::NEVER) {
            Ok(Some(identity)) => Decision::Accepted(identity, None),
            Ok(None) => Decision::Refused(Refusal::Credentials),
            // A new zone could not be written down.
            Err(_) => Decision::Refused(Refusal::Unavailable),
        }
    }
}
