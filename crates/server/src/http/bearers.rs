//! Programs that show a token or a certificate, and browsers that show a password, a link or a
//! cookie.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use stentor_admin::{Admitted, Begun, Login, NewSession, NotAdmitted, Proof, Unproven};
use stentor_auth::center::Center;
use stentor_auth::credential::is_token;
use stentor_auth::{Answer, Asker, Begun as Began, Decision, LoginRequest, Refusal, Secret};
use stentor_control::events::Kind;

use super::caller::Bearer;
use super::known::{Known, Mark};
use super::links::Wrong;
use super::sessions::Visit;
use crate::bans::Party;
use crate::control::Clerk;
use crate::peer::Peer;
use crate::shard::reason_of;
use crate::telemetry::{ByHttp, Claim, why_refused};
use crate::transport::Fault;

/// What the log says of something that no token can be.
const NO_TOKEN: &str = "what the header Authorization has is not a token; `stentor token create \
                        USER` makes one";

/// What it says of a token that nobody has.
const WRONG_TOKEN: &str = "nobody has this token, or not any more: it was revoked, has expired, or \
                           its user was deleted; `stentor token list` lists tokens, `stentor token \
                           create USER` makes one";

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
    pub(super) fn known(&self, proof: Proof<'_>, address: Option<SocketAddr>) -> Option<Admitted> {
        if matches!(proof, Proof::Token(token) if !is_token(token.as_bytes())) {
            let unproven = Unproven {
                user: String::new(),
                why: NO_TOKEN.to_owned(),
            };
            return Some(Err(NotAdmitted::Unknown(unproven)));
        }
        let tokens = &self.clerk.context().visitors.tokens;
        let known = tokens.find(&self.center, &Mark::of(proof))?;
        Some(self.let_in(known, address))
    }

    /// Asks who has this proof. Wrong tokens are slowed down as those of MQTT clients. `then` is
    /// called once, now or on another thread, unless the server ends before.
    pub(super) fn admit(
        &self,
        proof: Proof<'_>,
        address: Option<SocketAddr>,
        then: impl FnOnce(Admitted) + Send + 'static,
    ) {
        let mut request = LoginRequest {
            address: address.map(|it| it.ip()),
            ..LoginRequest::default()
        };
        match proof {
            Proof::Token(token) => request.password = Some(Secret::new(token.into())),
            Proof::Certificate(name) => request.certificate_name = Some(name.to_owned()),
        }
        request.name_by_token();
        let (bearers, mark) = (self.clone(), Mark::of(proof));
        let claim = Claimed::of(&request);
        self.begin(request, None, move |decision| {
            let known = bearers.decided(decision, &claim);
            then(known.and_then(|known| {
                let tokens = &bearers.clerk.context().visitors.tokens;
                tokens.keep(mark, known.clone());
                let how = match claim.is_certificate {
                    true => "by a certificate",
                    false => "by a token",
                };
                bearers.let_in(known.clone(), address).inspect(|_| {
                    bearers.note_login(&known, address, how);
                })
            }));
        });
    }

    /// Asks whether a password is right, as at a login by MQTT, and begins a session. `then` is
    /// called once, now or on another thread, unless the server ends before. Nobody needs to hash a
    /// password any more once what is returned is dropped.
    pub(super) fn log_in(
        &self,
        Login { name, password }: Login,
        address: Option<SocketAddr>,
        then: impl FnOnce(Begun) + Send + 'static,
    ) -> Asker {
        let mut request = LoginRequest {
            username: Some(name),
            password: Some(Secret::new(password.into_bytes())),
            address: address.map(|it| it.ip()),
            ..LoginRequest::default()
        };
        request.name_by_token();
        let (asker, bearers) = (Asker::default(), self.clone());
        let claim = Claimed::of(&request);
        self.begin(request, Some(&asker), move |decision| {
            let known = bearers.decided(decision, &claim);
            let how = "a session begins by a password";
            then(known.and_then(|known| bearers.new_session(known, address, how)));
        });
        asker
    }

    /// Asks whether a password is right, as at a login: wrong ones are slowed down. A token in its
    /// place is wrong. `then` and what is returned are as of [`Bearers::log_in`].
    pub(super) fn prove(
        &self,
        Login { name, password }: Login,
        address: Option<SocketAddr>,
        then: impl FnOnce(Result<(), NotAdmitted>) + Send + 'static,
    ) -> Asker {
        let asker = Asker::default();
        if is_token(password.as_bytes()) {
            then(Err(NotAdmitted::Unknown(Unproven::default())));
            return asker;
        }
        let request = LoginRequest {
            username: Some(name),
            password: Some(Secret::new(password.into_bytes())),
            address: address.map(|it| it.ip()),
            ..LoginRequest::default()
        };
        let (bearers, claim) = (self.clone(), Claimed::of(&request));
        self.begin(request, Some(&asker), move |decision| {
            then(bearers.decided(decision, &claim).map(drop));
        });
        asker
    }

    /// Begins a session of the owner of the server, by a link.
    pub(super) fn open_link(&self, once: &str, address: Option<SocketAddr>) -> Begun {
        let context = self.clerk.context();
        let (links, now) = (&context.visitors.links, context.clock.now());
        match links.open(now, once, address.map(|it| it.ip())) {
            Ok(maker) => {
                let how = "a session begins by a link of `stentor console`";
                self.new_session(Known::owner(&maker), address, how)
            }
            Err(Wrong::Unknown) => Err(NotAdmitted::NoLink),
            Err(Wrong::TooMany) => Err(NotAdmitted::Slowed),
        }
    }

    fn new_session(&self, known: Known, address: Option<SocketAddr>, how: &str) -> Begun {
        self.check_bans(&known, address)?;
        let context = self.clerk.context();
        let owner = known.login(&context.zone_name(known.identity.zone));
        let (sessions, now) = (&context.visitors.sessions, context.clock.now());
        let begun = sessions.begin(&self.center, now, &owner.into(), known);
        let (cookie, found) = begun.ok_or(NotAdmitted::Unavailable)?;
        self.note_login(&found.known, address, how);
        let caller = Arc::new(Bearer::of_session(&self.clerk, found, address));
        Ok(NewSession { cookie, caller })
    }

    /// The owner of a session.
    pub(super) fn session(
        &self,
        cookie: &str,
        address: Option<SocketAddr>,
        visit: Visit,
    ) -> Admitted {
        let context = self.clerk.context();
        let (sessions, now) = (&context.visitors.sessions, context.clock.now());
        let found = sessions.find(&self.center, now, cookie, visit)?;
        self.check_bans(&found.known, address)?;
        Ok(Arc::new(Bearer::of_session(&self.clerk, found, address)))
    }

    /// Ends a session.
    pub(super) fn log_out(&self, cookie: &str) {
        self.clerk.context().visitors.sessions.end(cookie);
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
        let authenticator = &self.clerk.context().authenticator;
        if let Began::Decided(decision) = authenticator.begin(request, answer) {
            give(&then, decision);
        }
    }

    /// Lets somebody in, unless there is a ban.
    fn let_in(&self, known: Known, address: Option<SocketAddr>) -> Admitted {
        self.check_bans(&known, address)?;
        Ok(Arc::new(Bearer::new(&self.clerk, known, address)))
    }

    /// Notes that somebody has logged in.
    fn note_login(&self, known: &Known, address: Option<SocketAddr>, how: &str) {
        let zone = self.clerk.context().zone_name(known.identity.zone);
        self.clerk.note(ByHttp {
            kind: Kind::LoggedIn,
            reason: "",
            user: known.login(&zone).into(),
            peer: address.map(Peer::from),
            port: Arc::clone(self.clerk.http_port()),
            text: how.into(),
            verb: None,
        });
    }

    /// The user, as the Auth Center and the adaptors say.
    fn decided(&self, decision: Decision, claim: &Claimed) -> Result<Known, NotAdmitted> {
        let (reason, fault) = match decision {
            Decision::Accepted(identity, _) => return Ok(Known::new(identity)),
            Decision::Refused(Refusal::Slowed) => return Err(NotAdmitted::Slowed),
            Decision::Refused(Refusal::Busy | Refusal::GuestRate | Refusal::Unavailable) => {
                return Err(NotAdmitted::Unavailable);
            }
            Decision::Denied { text, .. } => return Err(NotAdmitted::Denied(text)),
            Decision::Refused(Refusal::Disabled) => {
                (reason_of(Refusal::Disabled), Some(Fault::Disabled))
            }
            Decision::JwtRefused(why) => {
                (reason_of(Refusal::Credentials), Some(Fault::Bearer(why)))
            }
            Decision::Refused(why) => (reason_of(why), None),
            Decision::Continue(..) => (reason_of(Refusal::Method), None),
        };
        let is_wrong = reason == reason_of(Refusal::Credentials) && fault.is_none();
        let why = match is_wrong && claim.is_token {
            true => WRONG_TOKEN.to_owned(),
            false => {
                let port = self.clerk.http_port();
                let data_dir = self.clerk.context().journal.data_dir();
                why_refused(reason, port, &claim.claim, fault.as_ref(), data_dir)
            }
        };
        Err(NotAdmitted::Unknown(Unproven {
            user: claim.claim.name().to_owned(),
            why,
        }))
    }

    fn check_bans(&self, known: &Known, address: Option<SocketAddr>) -> Result<(), NotAdmitted> {
        let context = self.clerk.context();
        let (bans, now) = (&context.bans, context.clock.now());
        let party = Party {
            zone: known.identity.zone,
            client_id: "",
            user: known.identity.user.as_deref(),
        };
        if bans.of_party(now, party).is_some()
            || bans.of_address(now, address.map(|it| it.ip())).is_some()
        {
            return Err(NotAdmitted::Banned);
        }
        Ok(())
    }
}

/// What a request claims, for the log.
struct Claimed {
    claim: Claim,
    is_token: bool,
    is_certificate: bool,
}

impl Claimed {
    fn of(request: &LoginRequest) -> Self {
        let claim = match (&request.certificate_name, &request.username) {
            (Some(name), _) => Claim::Certified(name.as_str().into()),
            (None, Some(name)) => Claim::Named(name.as_str().into()),
            (None, None) => Claim::Nobody,
        };
        let shown = request.password.as_ref().map(Secret::reveal);
        Self {
            is_certificate: matches!(claim, Claim::Certified(_)),
            is_token: shown.is_some_and(is_token),
            claim,
        }
    }
}

/// Tells somebody a decision who has not heard one.
fn give(then: &Mutex<Option<impl FnOnce(Decision)>>, decision: Decision) {
    let then = then.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(then) = then {
        then(decision);
    }
}
