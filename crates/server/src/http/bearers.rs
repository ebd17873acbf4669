//! Programs that show the token of a user.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stentor_admin::Admission;
use stentor_auth::center::Center;
use stentor_auth::credential::{TokenHash, is_token};
use stentor_auth::{Answer, Authenticator, Begun, Decision, LoginRequest, Refusal, Secret};
use stentor_hub::{Access, Identity};

/// The topic that stands for the right to read metrics.
const METRICS: &str = "$control/metrics";

/// How long the Auth Center may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Programs that are remembered.
const KNOWN_MAX: usize = 1_000;

/// Asks the Auth Center, and remembers what it says until something changes. So a program that is
/// known reads the metrics also while the user database is away.
pub(super) struct Bearers {
    center: Arc<Center>,
    /// By the hash of the token.
    known: Mutex<HashMap<String, Arc<Identity>>>,
}

impl Bearers {
    pub(super) fn new(center: &Arc<Center>) -> Self {
        Self {
            center: Arc::clone(center),
            known: Mutex::default(),
        }
    }

    /// Whether the bearer of a token may read the metrics.
    pub(super) fn admit(&self, token: &str, address: Option<IpAddr>) -> Admission {
        // What cannot be a token costs no question.
        if !is_token(token.as_bytes()) {
            return Admission::Unknown;
        }
        let mark = TokenHash::of(token.as_bytes()).to_string();
        if let Some(identity) = self.find(&mark) {
            return judge(&identity);
        }
        match self.ask(token, address) {
            Some(Decision::Accepted(identity, _)) => {
                let admission = judge(&identity);
                self.keep(mark, identity);
                admission
            }
            Some(Decision::Refused(
                Refusal::Busy | Refusal::Slowed | Refusal::GuestRate | Refusal::Unavailable,
            ))
            | None => Admission::Unavailable,
            Some(_) => Admission::Unknown,
        }
    }

    /// The identity of this token, if it is known and nothing has changed since.
    fn find(&self, mark: &str) -> Option<Arc<Identity>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = Arc::clone(known.get(mark)?);
        if self.center.is_current(&identity) {
            return Some(identity);
        }
        known.remove(mark);
        None
    }

    fn keep(&self, mark: String, identity: Arc<Identity>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(mark, identity);
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
        match self.center.begin(request, answer) {
            Begun::Decided(decision) => Some(decision),
            Begun::Pending => decision.recv_timeout(PATIENCE).ok(),
        }
    }
}

/// Whether somebody may read the metrics of the whole server: a user of the default zone who has
/// the right.
fn judge(identity: &Identity) -> Admission {
    let may = identity.rights.may_subscribe(METRICS) == Access::All;
    match may && identity.zone == stentor_topic::Zone::DEFAULT {
        true => Admission::Granted,
        false => Admission::Denied,
    }
}
