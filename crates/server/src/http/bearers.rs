//! Programs that show a token or a certificate, and browsers that show a password, a link or a
//! cookie.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use stentor_admin::{Admitted, Begun, Login, NewSession, NotAdmitted, Proof};
use stentor_auth::center::Center;
use stentor_auth::credential::is_token;
use stentor_auth::{Answer, Asker, Begun as Began, Decision, LoginRequest, Refusal, Secret};

use super::caller::Bearer;
use super::known::{Known, Mark};
use super::links::Wrong;
use super::sessions::Visit;
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

    /// The bearer of a proof that was accepted before, if nothing has changed since; or that it
    /// cannot be a token, which costs no question either.
    pub(super) fn known(&self, proof: Proof<'_>, address: Option<IpAddr>) -> Option<Admitted> {
        if matches!(proof, Proof::Token(token) if !is_token(token.as_bytes())) {
            return Some(Err(NotAdmitted::Unknown));
        }
        let tokens = &self.clerk.backplane().visitors.tokens;
        let known = tokens.find(&self.center, &Mark::of(proof))?;
        Some(self.let_in(known, address))
    }

    /// Asks who has this proof. Wrong tokens are slowed down as those of MQTT clients. `then` is
    /// called once, now or on another thread, unless the server ends before.
    pub(super) fn admit(
        &self,
        proof: Proof<'_>,
        address: Option<IpAddr>,
        then: impl FnOnce(Admitted) + Send + 'static,
    ) {
        let mut request = LoginRequest {
            address,
            ..LoginRequest::default()
        };
        match proof {
            Proof::Token(token) => request.password = Some(Secret::new(token.into())),
            Proof::Certificate(name) => request.certificate_name = Some(name.to_owned()),
        }
        request.name_by_token();
        let (bearers, mark) = (self.clone(), Mark::of(proof));
        self.begin(request, None, move |decision| {
            then(decided(decision).and_then(|known| {
                let tokens = &bearers.clerk.backplane().visitors.tokens;
                tokens.keep(mark, known.clone());
                bearers.let_in(known, address)
            }));
        });
    }

    /// Asks whether a password is right, as at a login by MQTT, and begins a session. `then` is
    /// called once, now or on another thread, unless the server ends before. Nobody needs to hash a
    /// password any more once what is returned is dropped.
    pub(super) fn log_in(
        &self,
        Login { name, password }: Login,
        address: Option<IpAddr>,
        then: impl FnOnce(Begun) + Send + 'static,
    ) -> Asker {
        let mut request = LoginRequest {
            username: Some(name),
            password: Some(Secret::new(password.into_bytes())),
            address,
            ..LoginRequest::default()
        };
        request.name_by_token();
        let (asker, bearers) = (Asker::default(), self.clone());
        self.begin(request, Some(&asker), move |decision| {
            then(decided(decision).and_then(|known| bearers.new_session(known, address)));
        });
        asker
    }

    /// Asks whether a password is right, as at a login: wrong ones are slowed down. A token in its
    /// place is wrong. `then` and what is returned are as of [`Bearers::log_in`].
    pub(super) fn prove(
        &self,
        Login { name, password }: Login,
        address: Option<IpAddr>,
        then: impl FnOnce(Result<(), NotAdmitted>) + Send + 'static,
    ) -> Asker {
        let asker = Asker::default();
        if is_token(password.as_bytes()) {
            then(Err(NotAdmitted::Unknown));
            return asker;
        }
        let request = LoginRequest {
            username: Some(name),
            password: Some(Secret::new(password.into_bytes())),
            address,
            ..LoginRequest::default()
        };
        self.begin(request, Some(&asker), move |decision| {
            then(decided(decision).map(drop));
        });
        asker
    }

    /// Begins a session of the owner of the server, by a link.
    pub(super) fn open_link(&self, once: &str, address: Option<IpAddr>) -> Begun {
        let backplane = self.clerk.backplane();
        let (links, now) = (&backplane.visitors.links, backplane.clock.now());
        match links.open(now, once, address) {
            Ok(maker) => self.new_session(Known::owner(&maker), address),
            Err(Wrong::Unknown) => Err(NotAdmitted::NoLink),
            Err(Wrong::TooMany) => Err(NotAdmitted::Slowed),
        }
    }

    fn new_session(&self, known: Known, address: Option<IpAddr>) -> Begun {
        self.check_bans(&known, address)?;
        let backplane = self.clerk.backplane();
        let owner = known.login(&backplane.zone_name(known.identity.zone));
        let (sessions, now) = (&backplane.visitors.sessions, backplane.clock.now());
        let begun = sessions.begin(&self.center, now, &owner.into(), known);
        let (cookie, found) = begun.ok_or(NotAdmitted::Unavailable)?;
        let caller = Arc::new(Bearer::of_session(&self.clerk, found, address));
        Ok(NewSession { cookie, caller })
    }

    /// The owner of a session.
    pub(super) fn session(&self, cookie: &str, address: Option<IpAddr>, visit: Visit) -> Admitted {
        let backplane = self.clerk.backplane();
        let (sessions, now) = (&backplane.visitors.sessions, backplane.clock.now());
        let found = sessions.find(&self.center, now, cookie, visit)?;
        self.check_bans(&found.known, address)?;
        Ok(Arc::new(Bearer::of_session(&self.clerk, found, address)))
    }

    /// Ends a session.
    pub(super) fn log_out(&self, cookie: &str) {
        self.clerk.backplane().visitors.sessions.end(cookie);
    }

    /// Asks the adaptors and the Auth Center. `then` is called once.
    fn begin(
        &self,
        request: LoginRequest,
        asker: Option<&Asker>,
        then: impl FnOnce(Decision) + Send + 'static,
    ) {
        // What is decided at once does not come by the answer.
        let then = Arc::new(Mutex::new(Some(then)));
        let later = Arc::clone(&then);
        let mut answer = Answer::new(move |decision| give(&later, decision));
        if let Some(asker) = asker {
            answer = answer.asked_by(asker);
        }
        let authenticator = &self.clerk.backplane().authenticator;
        if let Began::Decided(decision) = authenticator.begin(request, answer) {
            give(&then, decision);
        }
    }

    /// Lets somebody in, unless there is a ban.
    fn let_in(&self, known: Known, address: Option<IpAddr>) -> Admitted {
        self.check_bans(&known, address)?;
        Ok(Arc::new(Bearer::new(&self.clerk, known, address)))
    }

    fn check_bans(&self, known: &Known, address: Option<IpAddr>) -> Result<(), NotAdmitted> {
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
        Ok(())
    }
}

/// The user, as the Auth Center and the adaptors say.
fn decided(decision: Decision) -> Result<Known, NotAdmitted> {
    match decision {
        Decision::Accepted(identity, _) => Ok(Known::new(identity)),
        Decision::Refused(Refusal::Slowed) => Err(NotAdmitted::Slowed),
        Decision::Refused(Refusal::Busy | Refusal::GuestRate | Refusal::Unavailable) => {
            Err(NotAdmitted::Unavailable)
        }
        Decision::Denied { text, .. } => Err(NotAdmitted::Denied(text)),
        _ => Err(NotAdmitted::Unknown),
    }
}

/// Tells somebody a decision who has not heard one.
fn give(then: &Mutex<Option<impl FnOnce(Decision)>>, decision: Decision) {
    let then = then.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(then) = then {
        then(decision);
    }
}
