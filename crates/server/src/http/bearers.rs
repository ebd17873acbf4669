//! Programs that show the token of a user.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use stentor_admin::{Admitted, NotAdmitted};
use stentor_auth::center::Center;
use stentor_auth::credential::{TokenHash, is_token};
use stentor_auth::{Answer, Begun, Decision, LoginRequest, Refusal, Secret};

use super::caller::Bearer;
use super::known::Known;
use crate::bans::Party;
use crate::control::Clerk;

/// Asks the adaptors and the Auth Center, as at a login, and remembers what they say until
/// the user changes. So a program that is known is let in also while the user database is away.
#[derive(Clone)]
pub(super) struct Bearers {
    center: Arc<Center>,
    clerk: Clerk,
}

impl Bearers {
    pub(super) fn new(center: &Arc<Center>, clerk: Clerk) -> Self {
        Self {
            center: Arc::clone(center),
            clerk,
        }
    }

    /// The bearer of a token that was accepted before, if nothing has changed since; or that it
    /// cannot be a token, which costs no question either.
    pub(super) fn known(&self, token: &str, address: Option<IpAddr>) -> Option<Admitted> {
        if !is_token(token.as_bytes()) {
            return Some(Err(NotAdmitted::Unknown));
        }
        let tokens = &self.clerk.backplane().tokens;
        let known = tokens.find(&self.center, &mark(token))?;
        Some(self.let_in(known, address))
    }

    /// Asks who has this token. Wrong ones are slowed down as those of MQTT clients. `then` is
    /// called once, now or on another thread, unless the server ends before.
    pub(super) fn admit(
        &self,
        token: &str,
        address: Option<IpAddr>,
        then: impl FnOnce(Admitted) + Send + 'static,
    ) {
        let mut request = LoginRequest {
            password: Some(Secret::new(token.as_bytes().to_vec())),
            address,
            ..LoginRequest::default()
        };
        request.name_by_token();
        let (bearers, mark) = (self.clone(), mark(token));
        let then = move |decision| then(bearers.decided(decision, mark, address));
        // What is decided at once does not come by the answer.
        let then = Arc::new(Mutex::new(Some(then)));
        let later = Arc::clone(&then);
        let answer = Answer::new(move |decision| give(&later, decision));
        let authenticator = &self.clerk.backplane().authenticator;
        if let Begun::Decided(decision) = authenticator.begin(request, answer) {
            give(&then, decision);
        }
    }

    /// The bearer, as the Auth Center and the adaptors say.
    fn decided(&self, decision: Decision, mark: String, address: Option<IpAddr>) -> Admitted {
        match decision {
            Decision::Accepted(identity, _) => {
                let known = Known::new(identity);
                self.clerk.backplane().tokens.keep(mark, known.clone());
                self.let_in(known, address)
            }
            Decision::Refused(Refusal::Slowed) => Err(NotAdmitted::Slowed),
            Decision::Refused(Refusal::Busy | Refusal::GuestRate | Refusal::Unavailable) => {
                Err(NotAdmitted::Unavailable)
            }
            Decision::Denied { text, .. } => Err(NotAdmitted::Denied(text)),
            _ => Err(NotAdmitted::Unknown),
        }
    }

    /// Lets somebody in, unless there is a ban.
    fn let_in(&self, known: Known, address: Option<IpAddr>) -> Admitted {
        let backplane = self.clerk.backplane();
        let (bans, now) = (&backplane.bans, backplane.clock.now());
        let party = Party {
            zone: known.identity.zone,
            client_id: "",
            user: known.identity.user.as_deref(),
        };
        if bans.of_party(now, party).is_some() || bans.of_address(now, address).is_some() {
            return Err(NotAdmitted::Banned);
        }
        Ok(Arc::new(Bearer::new(&self.clerk, known, address)))
    }
}

/// Tells somebody a decision who has not heard one.
fn give(then: &Mutex<Option<impl FnOnce(Decision)>>, decision: Decision) {
    let then = then.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(then) = then {
        then(decision);
    }
}

/// What a token is remembered by.
fn mark(token: &str) -> String {
    TokenHash::of(token.as_bytes()).to_string()
}
