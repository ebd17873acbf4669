//! Programs that show the token of a user.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stentor_admin::{Admitted, NotAdmitted};
use stentor_auth::center::Center;
use stentor_auth::credential::{TokenHash, is_token};
use stentor_auth::{Answer, Begun, Decision, LoginRequest, Refusal, Secret};
use stentor_hub::Identity;

use super::caller::Bearer;
use super::meter::Meter;
use crate::bans::Party;
use crate::control::Clerk;

/// How long the Auth Center may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Programs that are remembered.
const KNOWN_MAX: usize = 1_000;

/// Asks the adaptors and the Auth Center, as at a login, and remembers what they say until
/// something changes. So a program that is known is let in also while the user database is away.
pub(super) struct Bearers {
    center: Arc<Center>,
    clerk: Clerk,
    /// By the hash of the token.
    known: Mutex<HashMap<String, Known>>,
}

/// Somebody whose token was accepted.
#[derive(Clone)]
struct Known {
    identity: Arc<Identity>,
    meter: Arc<Meter>,
}

impl Bearers {
    pub(super) fn new(center: &Arc<Center>, clerk: Clerk) -> Self {
        Self {
            center: Arc::clone(center),
            clerk,
            known: Mutex::default(),
        }
    }

    /// The bearer of a token that was accepted before, if nothing has changed since; or that it
    /// cannot be a token, which costs no question either.
    pub(super) fn known(&self, token: &str, address: Option<IpAddr>) -> Option<Admitted> {
        if !is_token(token.as_bytes()) {
            return Some(Err(NotAdmitted::Unknown));
        }
        let known = self.find(&mark(token))?;
        Some(self.let_in(known, address))
    }

    /// The bearer of a token.
    pub(super) fn admit(&self, token: &str, address: Option<IpAddr>) -> Admitted {
        if let Some(known) = self.known(token, address) {
            return known;
        }
        match self.ask(token, address) {
            Some(Decision::Accepted(identity, _)) => {
                let known = Known {
                    identity,
                    meter: Arc::default(),
                };
                self.keep(mark(token), known.clone());
                self.let_in(known, address)
            }
            Some(Decision::Refused(Refusal::Slowed)) => Err(NotAdmitted::Slowed),
            Some(Decision::Refused(Refusal::Busy | Refusal::GuestRate | Refusal::Unavailable))
            | None => Err(NotAdmitted::Unavailable),
            Some(Decision::Denied { text, .. }) => Err(NotAdmitted::Denied(text)),
            Some(_) => Err(NotAdmitted::Unknown),
        }
    }

    /// Lets somebody in, unless there is a ban.
    fn let_in(&self, known: Known, address: Option<IpAddr>) -> Admitted {
        let Known { identity, meter } = known;
        let backplane = self.clerk.backplane();
        let (bans, now) = (&backplane.bans, backplane.clock.now());
        let party = Party {
            zone: identity.zone,
            client_id: "",
            user: identity.user.as_deref(),
        };
        if bans.of_party(now, party).is_some() || bans.of_address(now, address).is_some() {
            return Err(NotAdmitted::Banned);
        }
        Ok(Arc::new(Bearer::new(
            &self.clerk,
            (identity, meter),
            address,
        )))
    }

    /// The bearer of this token, if it is known and nothing has changed since.
    fn find(&self, mark: &str) -> Option<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(mark)?;
        if self.center.is_current(&found.identity) {
            return Some(found.clone());
        }
        known.remove(mark);
        None
    }

    fn keep(&self, mark: String, bearer: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(mark, bearer);
    }

    /// Asks who has this token. Wrong ones are slowed down as those of MQTT clients.
    fn ask(&self, token: &str, address: Option<IpAddr>) -> Option<Decision> {
        let (decided, decision) = channel();
        let mut request = LoginRequest {
            password: Some(Secret::new(token.as_bytes().to_vec())),
            address,
            ..LoginRequest::default()
        };
        request.name_by_token();
        // Whoever asked may have given up.
        let answer = Answer::new(move |decision| drop(decided.send(decision)));
        let authenticator = &self.clerk.backplane().authenticator;
        match authenticator.begin(request, answer) {
            Begun::Decided(decision) => Some(decision),
            Begun::Pending => decision.recv_timeout(PATIENCE).ok(),
        }
    }
}

/// What a token is remembered by.
fn mark(token: &str) -> String {
    TokenHash::of(token.as_bytes()).to_string()
}
