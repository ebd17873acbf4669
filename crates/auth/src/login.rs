//! What the shards ask, and what they are answered.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use stentor_hub::Identity;
use stentor_session::Limit;
use stentor_topic::Zone;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::credential::Sha;
use crate::credential::jwt::JwtError;
use crate::credential::scram::ClientFirst;
use crate::credential::token::token_login;

/// Decides who may log in.
pub trait Authenticator: Send + Sync {
    /// Begins a login. What can be decided without waiting is returned; for everything else
    /// `answer` is called later, exactly once, on another thread.
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun;

    /// Goes on with an exchange after [`Decision::Continue`]: `data` is what the client says.
    fn proceed(&self, exchange: Exchange, data: Vec<u8>, answer: Answer) -> Begun;

    /// The name of a zone; `None` if it does not know.
    fn zone_name(&self, zone: Zone) -> Option<String> {
        let _ = zone;
        None
    }

    /// The number of a zone that has one; `None` if it does not know.
    fn known_zone(&self, zone: &str) -> Option<Zone> {
        let _ = zone;
        None
    }

    /// Whether there is such a zone: it was added, or the configuration names it.
    fn has_zone(&self, zone: &str) -> bool {
        let _ = zone;
        false
    }

    /// The number of a zone, which gets one if it has none.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    fn zone_number(&self, zone: &str) -> std::io::Result<Zone> {
        let _ = zone;
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// What sets the connection limit that a client with this identity has met; `None` if the
    /// authenticator does not know.
    fn connection_bound(&self, identity: &Identity, limit: Limit) -> Option<ConnectionBound> {
        let _ = (identity, limit);
        None
    }

    /// Has something done by the threads that hash passwords, behind the logins that wait. It may
    /// be begun twice. False, and it is forgotten, if too many wait.
    fn hash(&self, job: crate::Job) -> bool {
        let _ = job;
        false
    }

    /// How many logins wait for their answer.
    fn waiting(&self) -> usize;
}

/// What sets the connection limit of a user or a zone, and the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionBound {
    /// A role of the user.
    Role {
        /// Its name.
        name: Arc<str>,
        /// Its zone, if it is for the users of one alone.
        zone: Option<Arc<str>>,
        /// Connections.
        max: u32,
    },
    /// The configuration, for a zone.
    Configured {
        /// The zone.
        zone: Arc<str>,
        /// Connections.
        max: u32,
    },
    /// What the zone was added with.
    Added {
        /// The zone.
        zone: Arc<str>,
        /// Connections.
        max: u32,
    },
}

/// What a client shows to be let in.
#[derive(Clone, Default)]
pub struct LoginRequest {
    /// The login name: `user` or `zone/user`.
    pub username: Option<String>,
    /// The password, or a token.
    pub password: Option<Secret>,
    /// The client id; `None` if the server is to choose it.
    pub client_id: Option<Arc<str>>,
    /// Where it comes from; `None` for a Unix socket.
    pub address: Option<IpAddr>,
    /// The zone that the listener belongs to: everybody who comes is of it.
    pub zone: Option<Arc<str>>,
    /// Whether the listener lets clients in without a name.
    pub anonymous: bool,
    /// The name in its certificate, if the listener takes it for a user's.
    pub certificate_name: Option<String>,
    /// The enhanced authentication that it asks for.
    pub method: Option<Method>,
    /// The identity that it has already, if it authenticates again.
    pub again: Option<Arc<Identity>>,
}

impl LoginRequest {
    /// Has a token that says whose it is name the user, where the login names nobody, or a name
    /// without its zone. A login with another name keeps it, and is refused with that token.
    pub fn name_by_token(&mut self) {
        let shown = self.password.as_ref().map(Secret::reveal);
        let Some(login) = shown.and_then(token_login) else {
            return;
        };
        let (_, user) = login.split_once('/').unwrap_or(("", &login));
        if self
            .username
            .as_deref()
            .is_none_or(|said| said.is_empty() || said == user)
        {
            self.username = Some(login);
        }
    }
}

/// An enhanced authentication method with the first data of the client.
#[derive(Clone)]
pub struct Method {
    /// Its name, like `SCRAM-SHA-256`.
    pub name: Box<str>,
    /// The data.
    pub data: Secret,
}

impl Method {
    /// The login name that the first message of SCRAM says, as it is said.
    #[must_use]
    pub fn said_name(&self) -> Option<String> {
        Sha::of_mechanism(&self.name)?;
        let first = ClientFirst::parse(self.data.reveal()).ok()?;
        Some(first.username)
    }
}

/// Bytes that are wiped when dropped and not shown by `Debug`.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Leaves out what is secret.
impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest")
            .field("username", &self.username)
            .field("client_id", &self.client_id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Where the decision goes. One that is dropped answers by itself that the service is unavailable,
/// so that nobody waits for ever for a thread that failed.
pub struct Answer {
    take: Option<Box<dyn FnOnce(Decision) + Send>>,
    /// What is answered if nothing else is.
    otherwise: Refusal,
    /// The one that waits for it, if that may go away.
    asker: Option<Weak<()>>,
}

/// The one that waits for an [`Answer`]. Dropping it says that nothing waits any more.
#[derive(Debug, Default)]
pub struct Asker(Arc<()>);

impl Answer {
    /// An answer that is taken by this.
    #[must_use]
    pub fn new(take: impl FnOnce(Decision) + Send + 'static) -> Self {
        Self {
            take: Some(Box::new(take)),
            otherwise: Refusal::Unavailable,
            asker: None,
        }
    }

    /// Need not be found once this asker is gone.
    #[must_use]
    pub fn asked_by(mut self, asker: &Asker) -> Self {
        self.asker = Some(Arc::downgrade(&asker.0));
        self
    }

    /// Whether somebody waits for it: what takes long is not begun for nobody.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let asker = self.asker.as_ref();
        asker.is_none_or(|asker| asker.strong_count() > 0)
    }

    /// An answer that passes through this on its way, for the same asker.
    #[must_use]
    pub fn through(self, then: impl FnOnce(Self, Decision) + Send + 'static) -> Self {
        let asker = self.asker.clone();
        let mut answer = Self::new(move |decision| then(self, decision));
        answer.asker = asker;
        answer
    }

    /// Answers this if it is dropped from now on.
    #[must_use]
    pub fn or(mut self, otherwise: Refusal) -> Self {
        self.otherwise = otherwise;
        self
    }

    /// Answers.
    pub fn give(mut self, decision: Decision) {
        if let Some(take) = self.take.take() {
            take(decision);
        }
    }

    /// Answers by returning: to be called by [`Authenticator::begin`] on its caller's thread.
    #[must_use]
    pub fn decided(mut self, decision: Decision) -> Begun {
        self.take = None;
        Begun::Decided(decision)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(take) = self.take.take() {
            take(Decision::Refused(self.otherwise));
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// What came of [`Authenticator::begin`].
#[derive(Debug)]
pub enum Begun {
    /// Decided at once; the [`Answer`] is not called.
    Decided(Decision),
    /// The [`Answer`] will be called.
    Pending,
}

/// Whether a client is let in.
#[derive(Debug)]
pub enum Decision {
    /// It is, as this; with the last data of its method, if it came by one.
    Accepted(Arc<Identity>, Option<Vec<u8>>),
    /// It has to answer this first; see [`Authenticator::proceed`].
    Continue(Exchange, Vec<u8>),
    /// It is not.
    Refused(Refusal),
    /// The server refuses its JSON web token. The client receives the same answer as for a wrong
    /// password; only the log has the reason.
    JwtRefused(JwtRefusal),
    /// The operator's own code does not let it in.
    Denied {
        /// The reason code of MQTT 5; none for the usual one.
        code: Option<u8>,
        /// Why, for people. The client receives it, too.
        text: String,
    },
}

/// An enhanced authentication that waits for what the client says next. Only the authenticator that
/// made it knows what is in it.
pub struct Exchange(Box<dyn Any + Send>);

impl Exchange {
    /// What an authenticator has to remember.
    #[must_use]
    pub fn new(state: impl Any + Send) -> Self {
        Self(Box::new(state))
    }

    /// Whether it is this that it has remembered.
    #[must_use]
    pub fn is<T: Any>(&self) -> bool {
        self.0.is::<T>()
    }

    /// What it has remembered; `None` if that was something else.
    #[must_use]
    pub fn into_state<T: Any>(self) -> Option<T> {
        self.0.downcast::<T>().ok().map(|state| *state)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

/// Why a client is not let in. The answer to the client does not distinguish a wrong name from a
/// wrong password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Wrong name, wrong password, wrong proof, or a token that is not valid (any more).
    Credentials,
    /// The user is disabled. The client receives the same answer as for a wrong password.
    Disabled,
    /// No name was given and the listener asks for one.
    LoginRequired,
    /// An authentication method that this server does not have.
    Method,
    /// What the client says is not what its method has here.
    Protocol,
    /// Too many logins wait.
    Busy,
    /// Too many logins from this address, or of this account from there, have failed lately.
    Slowed,
    /// Guests come faster than their zone lets them in.
    GuestRate,
    /// The database of users does not answer.
    Unavailable,
    /// There is no zone of the name that it says.
    NoZone,
    /// The listener belongs to another zone than the name.
    OtherZone,
    /// It asks for the name of a guest where the zone gives none.
    NoGuests,
}

/// Why the bearer of a JSON web token is not let in. It says nothing of what is in the token but
/// the name of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JwtRefusal {
    /// The token does not hold.
    #[error("its JSON web token is not valid: {0}")]
    Token(JwtError),
    /// The token is of another user.
    #[error("its JSON web token belongs to another user than its user name")]
    OtherUser,
    /// The token is of a user of another zone than the listener's.
    #[error("the user of its JSON web token is in another zone than the listener")]
    OtherZone,
    /// The name is reserved: no user can have it.
    #[error("the name in its JSON web token is reserved for the server or for guests")]
    Reserved,
    /// The token is of a user of a zone that does not exist.
    #[error("the zone of its JSON web token does not exist")]
    NoZone,
    /// The directory has the user, and it may not log in.
    #[error("the user of its JSON web token is disabled")]
    Disabled,
    /// The directory does not have the user, and its issuer is trusted about known ones only.
    #[error("the user of its JSON web token was not added")]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_answer_is_given_once_and_never_forgotten() {
        let (sender, answers) = mpsc::channel();
        let answer = || {
            let sender = sender.clone();
            Answer::new(move |decision| sender.send(decision).unwrap())
        };
        answer().give(Decision::Refused(Refusal::Busy));
        assert!(matches!(
            answers.try_recv(),
            Ok(Decision::Refused(Refusal::Busy))
        ));
        drop(answer());
        let lost = answers.try_recv();
        assert!(matches!(lost, Ok(Decision::Refused(Refusal::Unavailable))));
        drop(answer().or(Refusal::Busy));
        let lost = answers.try_recv();
        assert!(matches!(lost, Ok(Decision::Refused(Refusal::Busy))));
        let begun = answer().decided(Decision::Refused(Refusal::Method));
        assert!(matches!(
            begun,
            Begun::Decided(Decision::Refused(Refusal::Method))
        ));
        assert!(answers.try_recv().is_err());
    }

    #[test]
    fn an_answer_knows_whether_somebody_waits_for_it() {
        let asker = Asker::default();
        let answer = Answer::new(drop).asked_by(&asker).through(Answer::give);
        assert!(answer.is_awaited());
        drop(asker);
        assert!(!answer.is_awaited());
        assert!(Answer::new(drop).is_awaited());
    }

    #[test]
    fn debug_shows_no_secret() {
        let request = LoginRequest {
            password: Some(Secret::new(b"pencil".to_vec())),
            method: Some(Method {
                name: "JWT".into(),
                data: Secret::new(b"eraser".to_vec()),
            }),
            ..LoginRequest::default()
        };
        let shown = format!("{request:?} {:?}", request.password);
        let bytes = format!("{:?}{:?}", b"pencil", b"eraser");
        assert!(
            !shown.contains("pencil") && !shown.contains("eraser"),
            "{shown}"
        );
        assert!(!shown.contains(&bytes));
    }
}
