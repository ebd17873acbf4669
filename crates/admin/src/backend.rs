//! What the HTTP server asks the server that it belongs to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use stentor_control::login::Me;
use stentor_control::publish::Plain;
use stentor_control::{Failure, Verb};

use crate::soon::Reply;
use crate::stream::Held;

/// The messaging server, as the HTTP server knows it. Its methods may block, except those that let
/// somebody in: the HTTP server calls them on threads that are there for it, a few at a time.
pub trait Backend: Send + Sync + 'static {
    /// Whether the process works. It asks no database.
    fn health(&self) -> Report;

    /// Whether new clients can be let in.
    fn readiness(&self) -> Report;

    /// All figures, as text.
    fn metrics(&self, format: Exposition) -> String;

    /// The bearer of a proof that was accepted before, if nothing has changed since. It asks
    /// nobody, so it answers at once.
    fn known(&self, proof: Proof<'_>, address: Option<SocketAddr>) -> Option<Admitted>;

    /// Asks who has a proof. `then` is called once, now or on another thread; for a wrong token
    /// that takes its time. It is dropped if nobody can say.
    fn admit(
        &self,
        proof: Proof<'_>,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Admitted) + Send>,
    );

    /// Asks whether a password is right, and begins a session. `then` is called as by
    /// [`Backend::admit`]. The caller keeps what is returned while it waits for the answer.
    fn log_in(
        &self,
        login: Login,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Begun) + Send>,
    ) -> Box<dyn Send>;

    /// Asks whether a password is right, as [`Backend::log_in`] does, and begins nothing.
    fn prove(
        &self,
        login: Login,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Result<(), NotAdmitted>) + Send>,
    ) -> Box<dyn Send>;

    /// Begins a session by a link that was made on the control socket. It asks nobody.
    ///
    /// # Errors
    /// When the link does not work.
    fn open_link(&self, once: &str, address: Option<SocketAddr>) -> Begun;

    /// The owner of a session, by what its cookie has. It asks nobody.
    ///
    /// # Errors
    /// When there is no such session, or its requests come too fast.
    fn session(&self, cookie: &str, address: Option<SocketAddr>) -> Admitted;

    /// The same without a request of the browser: a stream looks whether its session goes on.
    ///
    /// # Errors
    /// When there is no such session.
    fn session_now(&self, cookie: &str, address: Option<SocketAddr>) -> Admitted;

    /// Notes that a request was refused: for the log, the events and the metrics. It waits for
    /// nothing.
    fn refused(&self, refused: &Rejected<'_>);

    /// Ends a session, if there is one.
    fn log_out(&self, cookie: &str);

    /// Where event streams count what they hold.
    fn held(&self) -> Held;

    /// What was begun by [`Caller::publish`] goes on now: all that came together was begun. It asks
    /// nobody.
    fn go_on(&self);

    /// A descriptor that does not block, and can be read each time that there are replies to be
    /// given: eight bytes, whose value says nothing.
    ///
    /// # Errors
    /// When there is no descriptor left.
    fn reply_event(&self) -> io::Result<OwnedFd>;

    /// Gives the replies that are there. It asks nobody.
    fn give_replies(&self);
}

/// What a program shows with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof<'p> {
    /// The token of a user.
    Token(&'p str),
    /// The name of a user in a certificate that TLS has verified.
    Certificate(&'p str),
}

/// What somebody shows to begin a session.
#[derive(Clone)]
pub struct Login {
    /// The login name: `user` or `zone/user`.
    pub name: String,
    /// The password, or a token.
    pub password: String,
}

/// Leaves out the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A session that has begun, or why not.
pub type Begun = Result<NewSession, NotAdmitted>;

/// A session that has begun.
pub struct NewSession {
    /// What the cookie is to have. Nobody else has it.
    pub cookie: String,
    /// The owner of the session.
    pub caller: Arc<dyn Caller>,
}

/// Leaves out the secret.
impl fmt::Debug for NewSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSession")
            .field("caller", &self.caller.name())
            .finish_non_exhaustive()
    }
}

/// Somebody who is known, or why not.
pub type Admitted = Result<Arc<dyn Caller>, NotAdmitted>;

/// Somebody who is known, by a token or a session.
pub trait Caller: Send + Sync {
    /// The user, as at a login: `zone/name` outside the default zone.
    fn name(&self) -> &str;

    /// The number of the session, for somebody who is known by one: no other session has it.
    fn session_number(&self) -> Option<u64>;

    /// Everything that the caller may know of himself, but the verbs.
    fn me(&self) -> Me;

    /// Whether the caller may read the metrics.
    ///
    /// # Errors
    /// When the right is missing.
    fn may_read_metrics(&self) -> Result<(), Denied>;

    /// Whether the caller may have a verb done. It asks nobody, so it answers at once.
    ///
    /// # Errors
    /// When the right is missing.
    fn may(&self, verb: Verb) -> Result<(), Denied>;

    /// Whether there may be a topic that the caller may publish to. It asks nobody.
    fn may_publish(&self) -> bool;

    /// Whether the caller may subscribe to all that a filter matches. It asks nobody.
    ///
    /// # Errors
    /// When the right is missing.
    fn may_subscribe(&self, filter: &str) -> Result<(), Denied>;

    /// Opens an MQTT 5 session with the caller's rights, which ends with the connection. The first
    /// packet that comes is its CONNACK; no CONNECT is sent. It may block.
    ///
    /// # Errors
    /// When the server has no room.
    fn session(&self) -> Result<UnixStream, Failure>;

    /// How many messages a session of the caller has lost; `None` if there is none of this client
    /// id. It may block.
    fn lost(&self, client_id: &str) -> Option<u64>;

    /// Ends a session of the caller whose stream holds too much memory: so the log says it. It may
    /// block.
    fn cut(&self, client_id: &str);

    /// Gives the caller, who has shown the present password, another one. The session of the caller
    /// goes on, and the user's other sessions end. It may block.
    ///
    /// # Errors
    /// When the password cannot be one, or the user's password is not the server's to change.
    fn set_password(&self, new: &str) -> Result<(), Failure>;

    /// Begins to publish a message, as [`Verb::Publish`] does. It goes on with [`Backend::go_on`],
    /// and [`Backend::give_replies`] gives the reply. It asks nobody, so it returns at once.
    ///
    /// # Errors
    /// When that takes something that may block, or the message is refused: nothing was done, and
    /// [`Caller::ask`] does it, or says why not.
    fn publish(&self, message: &Plain<'_>, reply: Reply) -> Result<(), Reply>;

    /// Has a verb done. It may block. The request was checked: it is one of this verb.
    ///
    /// # Errors
    /// When that is denied, or fails.
    fn ask(&self, verb: Verb, request: Map<String, Value>) -> Result<Value, Refused>;
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It is the token or the certificate of nobody, or a wrong password.
    Unknown(Unproven),
    /// There is no such session, or it has ended.
    NoSession,
    /// The link does not work, or not any more.
    NoLink,
    /// The requests of the session come too fast. Another one may come after this time.
    TooFast(Duration),
    /// Too many wrong ones came before.
    Slowed,
    /// Nobody can say now.
    Unavailable,
    /// Its user, or the address, is banned.
    Banned,
    /// The operator's own code does not let the user in: a sentence.
    Denied(String),
}

/// What the server knows of a proof that does not hold. No answer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unproven {
    /// The user whom it names; empty if it names nobody.
    pub user: String,
    /// What is wrong, and what helps: for the operator.
    pub why: String,
}

/// The words for refusals, in order: a request counts under one of them.
pub const REASONS: [&str; 16] = [
    "adaptor",
    "banned",
    "cross-site",
    "denied",
    "no-link",
    "no-session",
    "no-token",
    "no-user",
    "other-host",
    "other-zone",
    "slowed",
    "too-fast",
    "unavailable",
    "wrong-login",
    "wrong-password",
    "wrong-token",
];

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected<'r> {
    /// One of [`REASONS`].
    pub reason: &'static str,
    /// The user who asks, or whom the request names; empty if that is nobody.
    pub user: &'r str,
    /// What is wrong, and what helps.
    pub text: &'r str,
    /// The other end.
    pub address: Option<SocketAddr>,
    /// Whether the user is known, and lacks a right.
    pub is_known: bool,
    /// The verb, if that is what the right is for.
    pub verb: Option<Verb>,
}

/// A right that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// `denied`, or `other-zone`.
    pub code: &'static str,
    /// A sentence.
    pub detail: String,
    /// The rule that denies it; nothing if no rule allows it.
    pub rule: Option<String>,
}

/// Why a verb was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A right is missing, for what the request names.
    Denied(Denied),
    /// It has failed.
    Failed(Failure),
}

/// The forms of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The content type of an answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The form that a header `Accept` prefers.
    #[must_use]
    pub fn wanted(accept: &str) -> Self {
        let quality = |wanted: &str| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next()?;
                let quality = parts.find_map(|part| part.strip_prefix("q="));
                let quality = quality.map_or(Some(1.0), |text| text.parse::<f32>().ok());
                name.eq_ignore_ascii_case(wanted)
                    .then(|| quality.unwrap_or(0.0))
            });
            ranges.fold(0.0, f32::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

/// The answer to a probe: well if there is no reason against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A word for programs.
    pub name: &'static str,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_form_is_given() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,\
                            application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, wanted) in [
            ("", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("text/html", Exposition::Prometheus),
            (prometheus_2, Exposition::OpenMetrics),
            (
                "text/plain, application/openmetrics-text;q=0.2",
                Exposition::Prometheus,
            ),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("Application/OpenMetrics-Text", Exposition::OpenMetrics),
        ] {
            assert_eq!(Exposition::wanted(accept), wanted, "{accept}");
        }
    }
}
