//! Log-ins: the adaptors are asked before the Auth Center.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use stentor_auth::center::Center;
use stentor_auth::model::UserKey;
use stentor_auth::{Answer, Authenticator, Begun, Decision, Exchange, LoginRequest, Refusal};
use stentor_procedure::adaptor::{Allowed, Answer as Verdicted, Event, Field, Verdict};
use stentor_topic::Zone;
use tracing::warn;

use super::{Plane, Scoped};

/// Asks the adaptors about log-ins, then the Auth Center.
pub(crate) struct Doorkeeper {
    center: Arc<Center>,
    plane: Plane,
    unknown: Arc<Unknown>,
}

/// Roles that adaptors have given and zones do not have, of which the log has been told: once each,
/// and no more than so many.
#[derive(Debug, Default)]
struct Unknown(Mutex<BTreeSet<(Arc<str>, Arc<str>)>>);

const UNKNOWN_MAX: usize = 100;

impl Unknown {
    fn tell(&self, zone: &Arc<str>, role: &Arc<str>) {
        // An insertion leaves it whole.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (Arc::clone(zone), Arc::clone(role));
        if told.len() < UNKNOWN_MAX && told.insert(place) {
            warn!(
                zone = &**zone,
                role = &**role,
                "an adaptor lets users in with a role that the zone does not have, which gives no \
                 right; `stentor role list` shows those that there are"
            );
        }
    }
}

impl Doorkeeper {
    pub(crate) fn new(center: Arc<Center>, plane: Plane) -> Self {
        let unknown = Arc::default();
        Self {
            center,
            plane,
            unknown,
        }
    }
}

/// A log-in on its way from one adaptor to the next.
struct Visit {
    request: LoginRequest,
    answer: Answer,
    zone: Arc<str>,
    steps: VecDeque<Arc<Scoped>>,
    center: Arc<Center>,
    unknown: Arc<Unknown>,
}

impl Authenticator for Doorkeeper {
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun {
        // Whoever proves itself by a method, or again, shows nothing that an adaptor could judge.
        let name = match (&request.username, &request.method, &request.again) {
            (Some(name), None, None) => name.as_str(),
            _ => return self.center.begin(request, answer),
        };
        let key = UserKey::parse(name);
        let is_bare = !name.contains('/');
        let zone = request.zone.clone().filter(|_| is_bare).unwrap_or(key.zone);
        let steps = self.plane.judges_of_logins(&zone);
        if steps.is_empty() {
            return self.center.begin(request, answer);
        }
        let visit = Visit {
            request,
            answer,
            zone,
            steps,
            center: Arc::clone(&self.center),
            unknown: Arc::clone(&self.unknown),
        };
        visit.go_on();
        Begun::Pending
    }

    fn proceed(&self, exchange: Exchange, data: Vec<u8>, answer: Answer) -> Begun {
        self.center.proceed(exchange, data, answer)
    }

    fn zone_name(&self, zone: Zone) -> Option<String> {
        self.center.zone_name(zone)
    }

    fn known_zone(&self, zone: &str) -> Option<Zone> {
        self.center.known_zone(zone)
    }

    fn has_zone(&self, zone: &str) -> bool {
        self.center.has_zone(zone)
    }

    fn zone_number(&self, zone: &str) -> std::io::Result<Zone> {
        self.center.zone_number(zone)
    }

    fn waiting(&self) -> usize {
        self.center.waiting()
    }
}

impl Visit {
    fn go_on(mut self) {
        let Some(next) = self.steps.pop_front() else {
            return self.ask_center();
        };
        let event = self.event();
        let answer: Verdicted = Box::new(move |verdict| self.take(verdict));
        next.running.adaptor.ask(event, answer);
    }

    fn event(&self) -> Event {
        let request = &self.request;
        let name = request.username.as_deref().unwrap_or_default();
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        let mut fields = vec![("user", Field::from(name))];
        if let Some(password) = &request.password {
            fields.push(("password", Field::from(password.reveal())));
        }
        if let Some(client_id) = &request.client_id {
            fields.push(("client_id", Field::from(&**client_id)));
        }
        if let Some(address) = request.address {
            fields.push(("address", Field::from(address.to_string().as_str())));
        }
        Event {
            hook: "login",
            zone: Arc::clone(&self.zone),
            fields,
        }
    }

    fn take(self, verdict: Verdict) {
        match verdict {
            Verdict::Deny { code, text } => self.answer.give(Decision::Denied { code, text }),
            Verdict::Busy => self.answer.give(Decision::Refused(Refusal::Busy)),
            Verdict::Allow(Allowed {
                roles: Some(roles), ..
            }) => {
                let roles: Vec<Arc<str>> = roles.into_iter().map(Into::into).collect();
                for role in &roles {
                    if !self.center.has_role(&self.zone, role) {
                        self.unknown.tell(&self.zone, role);
                    }
                }
                let decision = self.center.vouch(&self.request, roles);
                self.answer.give(decision);
            }
            Verdict::Allow(_) => self.go_on(),
        }
    }

    /// Nobody had anything against it: the Auth Center decides as usual.
    fn ask_center(self) {
        let slot = Arc::new(Mutex::new(Some(self.answer)));
        let own = Arc::clone(&slot);
        let give = move |decision| {
            let answer = own.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(answer) = answer {
                answer.give(decision);
            }
        };
        let later = Answer::new(give.clone());
        if let Begun::Decided(decision) = self.center.begin(self.request, later) {
            give(decision);
        }
    }
}
