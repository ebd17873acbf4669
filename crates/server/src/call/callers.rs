//! What callers may do, as the Auth Center says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stentor_auth::center::{Center, LoginRecord};
use stentor_auth::credential::TokenHash;
use stentor_auth::{Answer, Authenticator, Begun, Decision, LoginRequest};
use stentor_hub::Identity;

use super::identity::Claim;

/// Callers whose rights are kept.
const KNOWN_MAX: usize = 10_000;

/// How long the rights of somebody are kept whom nobody has added: that this happens is not told.
const UNKNOWN_TIME: Duration = Duration::from_secs(1);

/// The rights of those who called before, each with the Auth Center's newest changes or not at all.
pub(super) struct Callers {
    center: Arc<Center>,
    /// By what [`mark`] makes of a claim.
    known: HashMap<String, Known>,
}

struct Known {
    identity: Arc<Identity>,
    /// `None` for as long as nothing changes.
    until: Option<Instant>,
}

impl Callers {
    pub(super) fn new(center: &Arc<Center>) -> Self {
        Self {
            center: Arc::clone(center),
            known: HashMap::new(),
        }
    }

    /// The identity of this claim, if it is known and nothing has changed since.
    pub(super) fn find(&mut self, claim: &Claim) -> Option<Arc<Identity>> {
        let mark = mark(claim)?;
        let known = self.known.get(&mark)?;
        let is_over = known.until.is_some_and(|until| until <= Instant::now());
        if is_over || !self.center.is_current(&known.identity) {
            self.known.remove(&mark);
            return None;
        }
        Some(Arc::clone(&known.identity))
    }

    /// Asks the Auth Center. `then` is called once, now or on another thread.
    pub(super) fn ask(&self, claim: &Claim, then: impl FnOnce(Decision) + Send + 'static) {
        match claim {
            Claim::Vouched(key) => self.center.identify(key.clone(), then),
            Claim::Shown {
                name,
                token,
                address,
            } => {
                let request = LoginRequest {
                    username: Some(name.clone()),
                    password: Some(token.clone()),
                    address: *address,
                    ..LoginRequest::default()
                };
                // A token always takes a look at its user, so this is never decided here.
                let begun = self.center.begin(request, Answer::new(then));
                debug_assert!(matches!(begun, Begun::Pending));
            }
            Claim::Nobody(_) | Claim::Owner(_) => debug_assert!(false, "nothing is to be asked"),
        }
    }

    /// Remembers what the Auth Center has said.
    pub(super) fn keep(&mut self, claim: &Claim, identity: &Arc<Identity>) {
        let Some(mark) = mark(claim) else { return };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let login_record = identity.rights.as_any();
        let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
        let has_account = login_record.is_some_and(LoginRecord::has_account);
        let known = Known {
            identity: Arc::clone(identity),
            until: (!has_account).then(|| Instant::now() + UNKNOWN_TIME),
        };
        self.known.insert(mark, known);
    }
}

/// What tells one claim from another; no secret is in it.
fn mark(claim: &Claim) -> Option<String> {
    match claim {
        Claim::Nobody(_) | Claim::Owner(_) => None,
        Claim::Vouched(key) => Some(key.to_string()),
        // No name has a space or a colon from another claim in it that means the same.
        Claim::Shown { name, token, .. } => {
            Some(format!("{}:{name}", TokenHash::of(token.reveal())))
        }
    }
}
