//! Logins: the adaptors are asked before the Auth Center.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use stentor_auth::center::Center;
use stentor_auth::model::UserKey;
use stentor_auth::{
    Answer, Authenticator, Begun, ConnectionBound, Decision, Exchange, Job, LoginRequest, Refusal,
};
use stentor_hub::Identity;
use stentor_procedure::adaptor::{Allowed, Answer as Verdicted, Event, Field, Verdict};
use stentor_session::Limit;
use stentor_topic::Zone;
use tracing::warn;

use super::{Plane, Scoped};

/// Asks the adaptors about logins, then the Auth Center: where a name is given with a password.
/// A client that proves itself in another way has a name only after the Auth Center's answer, so
/// the adaptors are asked after that.
#[derive(Clone)]
pub(crate) struct LoginHooks {
    center: Arc<Center>,
    plane: Plane,
    unknown: Arc<Unknown>,
}

/// Roles that adaptors have given and zones do not have, of which the log has been told: once each,
/// and no more than this many.
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

impl LoginHooks {
    pub(crate) fn new(center: Arc<Center>, plane: Plane) -> Self {
        let unknown = Arc::default();
        Self {
            center,
            plane,
            unknown,
        }
    }
}

/// A login on its way from one adaptor to the next.
struct Visit {
    hooks: LoginHooks,
    answer: Answer,
    zone: Arc<str>,
    user: String,
    client_id: Option<Arc<str>>,
    address: Option<IpAddr>,
    stage: Stage,
    steps: VecDeque<Arc<Scoped>>,
}

/// What the Auth Center has to do with a login.
enum Stage {
    /// It is asked when all adaptors have been.
    Before(LoginRequest),
    /// It lets it in as this, with the last data of its method.
    After(Arc<Identity>, Option<Vec<u8>>),
}

/// A login of which the Auth Center says who it is.
#[derive(Clone)]
struct Unnamed {
    client_id: Option<Arc<str>>,
    address: Option<IpAddr>,
    /// Whether the client is logged in already and authenticates again, which is not a login.
    is_again: bool,
    /// As whom the adaptors have judged it already, in which zone.
    judged: Option<(Arc<str>, String)>,
}

impl Unnamed {
    /// Whether the adaptors have judged it as who it is: a web token or a certificate may know the
    /// zone of a bare name, and the name where it is empty. Guests are judged without their mark.
    fn was_judged(&self, zone: &str, user: &str) -> bool {
        self.judged.as_ref().is_some_and(|(in_zone, name)| {
            let user = match user.split_once('/') {
                Some((guest, _)) => guest,
                None => user,
            };
            **in_zone == *zone && name == user
        })
    }
}

/// An exchange of the Auth Center's, and whose it is.
struct Underway(Exchange, Unnamed);

impl Authenticator for LoginHooks {
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun {
        let name = match (&request.username, &request.method, &request.again) {
            (Some(name), None, None) => name.as_str(),
            _ if !self.plane.judges_logins() => return self.center.begin(request, answer),
            _ => {
                let unnamed = Unnamed {
                    client_id: request.client_id.clone(),
                    address: request.address,
                    is_again: request.again.is_some(),
                    judged: None,
                };
                let begin = |answer| self.center.begin(request, answer);
                return self.ask_later(unnamed, answer, begin);
            }
        };
        let key = UserKey::parse(name);
        let is_bare = !name.contains('/');
        let zone = request.zone.clone().filter(|_| is_bare).unwrap_or(key.zone);
        if !self.plane.judges_logins() {
            return self.center.begin(request, answer);
        }
        let steps = self.plane.judges_of_logins(&zone);
        let user = name.split_once('/').map_or(name, |(_, name)| name);
        let visit = Visit {
            hooks: self.clone(),
            answer,
            zone,
            user: user.to_owned(),
            client_id: request.client_id.clone(),
            address: request.address,
            stage: Stage::Before(request),
            steps,
        };
        visit.go_on();
        Begun::Pending
    }

    fn proceed(&self, exchange: Exchange, data: Vec<u8>, answer: Answer) -> Begun {
        // It began when there was no such adaptor.
        if !exchange.is::<Underway>() {
            return self.center.proceed(exchange, data, answer);
        }
        let Some(Underway(exchange, unnamed)) = exchange.into_state() else {
            return answer.decided(Decision::Refused(Refusal::Protocol));
        };
        let proceed = |answer| self.center.proceed(exchange, data, answer);
        self.ask_later(unnamed, answer, proceed)
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

    fn connection_bound(&self, identity: &Identity, limit: Limit) -> Option<ConnectionBound> {
        self.center.connection_bound(identity, limit)
    }

    fn hash(&self, job: Job) -> bool {
        self.center.hash(job)
    }

    fn waiting(&self) -> usize {
        self.center.waiting()
    }
}

impl LoginHooks {
    /// The Auth Center decides first; then the adaptors are asked about whom it lets in.
    fn ask_later(
        &self,
        unnamed: Unnamed,
        answer: Answer,
        begin: impl FnOnce(Answer) -> Begun,
    ) -> Begun {
        let slot = Arc::new(Mutex::new(Some((self.clone(), unnamed, answer))));
        let own = Arc::clone(&slot);
        let decided = move |decision| {
            let waiting = own.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((hooks, unnamed, answer)) = waiting {
                hooks.decided(unnamed, answer, decision);
            }
        };
        match begin(Answer::new(decided.clone())) {
            Begun::Decided(decision) => decided(decision),
            Begun::Pending => {}
        }
        Begun::Pending
    }

    fn decided(self, unnamed: Unnamed, answer: Answer, decision: Decision) {
        let (identity, data) = match decision {
            Decision::Continue(exchange, data) => {
                let exchange = Exchange::new(Underway(exchange, unnamed));
                return answer.give(Decision::Continue(exchange, data));
            }
            Decision::Accepted(identity, data) => (identity, data),
            other => return answer.give(other),
        };
        let zone: Arc<str> = self
            .center
            .zone_name(identity.zone)
            .unwrap_or_default()
            .into();
        let user = identity.user.as_deref().map(str::to_owned);
        let steps = self.plane.judges_of_logins(&zone);
        let is_asked = |user: &String| !unnamed.is_again && !unnamed.was_judged(&zone, user);
        let user = match user {
            Some(user) if is_asked(&user) && !steps.is_empty() => user,
            _ => return answer.give(Decision::Accepted(identity, data)),
        };
        let visit = Visit {
            hooks: self,
            answer,
            zone,
            user,
            client_id: unnamed.client_id,
            address: unnamed.address,
            stage: Stage::After(identity, data),
            steps,
        };
        visit.go_on();
    }
}

impl Visit {
    fn go_on(mut self) {
        let Some(next) = self.steps.pop_front() else {
            return self.finish();
        };
        let event = self.event();
        let answer: Verdicted = Box::new(move |verdict| self.take(verdict));
        next.running.adaptor.ask(event, answer);
    }

    fn event(&self) -> Event {
        let mut fields = vec![("user", Field::from(&*self.user))];
        if let Stage::Before(request) = &self.stage
            && let Some(password) = &request.password
        {
            fields.push(("password", Field::from(password.reveal())));
        }
        if let Some(client_id) = &self.client_id {
            fields.push(("client_id", Field::from(&**client_id)));
        }
        if let Some(address) = self.address {
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
            }) => self.vouch(roles),
            Verdict::Allow(_) => self.go_on(),
        }
    }

    /// It is let in with these roles.
    fn vouch(self, roles: Vec<String>) {
        let center = &self.hooks.center;
        let roles: Vec<Arc<str>> = roles.into_iter().map(Into::into).collect();
        for role in &roles {
            if !center.has_role(&self.zone, role) {
                self.hooks.unknown.tell(&self.zone, role);
            }
        }
        let decision = match self.stage {
            Stage::Before(request) => center.vouch(&request, roles),
            Stage::After(identity, data) => {
                let request = LoginRequest {
                    username: Some(format!("{}/{}", self.zone, self.user)),
                    client_id: self.client_id,
                    address: self.address,
                    ..LoginRequest::default()
                };
                match center.vouch(&request, roles) {
                    Decision::Accepted(vouched, _) => {
                        // What it has shown does not hold longer for that.
                        let vouched = Identity {
                            expires_at: identity.expires_at,
                            ..(*vouched).clone()
                        };
                        Decision::Accepted(Arc::new(vouched), data)
                    }
                    other => other,
                }
            }
        };
        self.answer.give(decision);
    }

    /// Nobody had anything against it.
    fn finish(self) {
        let request = match self.stage {
            Stage::Before(request) => request,
            Stage::After(identity, data) => {
                return self.answer.give(Decision::Accepted(identity, data));
            }
        };
        // The Auth Center decides as usual, and may know it as somebody else.
        let unnamed = Unnamed {
            client_id: self.client_id,
            address: self.address,
            is_again: false,
            judged: Some((self.zone, self.user)),
        };
        let center = Arc::clone(&self.hooks.center);
        let begin = move |answer| center.begin(request, answer);
        self.hooks.ask_later(unnamed, self.answer, begin);
    }
}
