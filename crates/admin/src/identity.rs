//! The sender of a request, known by a token, by the cookie of a session or by a certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use stentor_control::{Failure, Verb};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::backend::{Admitted, Caller, Denied, NotAdmitted, Proof, REASONS, Refused};
use crate::cookie;
use crate::guard;
use crate::origin::{self, Demand};
use crate::pages::{Client, ListenerContext};
use crate::problem::{Problem, busy, problem};

/// How often a session is looked for again that a change is on its way to, and after which pause.
const LOOKS: u32 = 100;
/// See [`LOOKS`].
const PAUSE: Duration = Duration::from_millis(5);

/// What a request shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The token of a user.
    Token(String),
    /// The cookie of a session, and the user whom a certificate names besides.
    Session(String, Option<Arc<str>>),
    /// The user whom a certificate names.
    Certificate(Arc<str>),
}

/// Somebody who asks, and where from.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) shown: Shown,
    pub(crate) address: Option<SocketAddr>,
}

impl Asking {
    /// By the headers of a request. `what` needs to know.
    ///
    /// # Errors
    /// When they show nothing, or a page of others makes a browser show it.
    pub(crate) fn of(
        context: &ListenerContext,
        parts: &Parts,
        what: &str,
    ) -> Result<Self, Problem> {
        let client = parts.extensions.get::<Client>();
        let address = client.map(|client| client.address);
        if let Some(token) = guard::bearer(&parts.headers) {
            let shown = Shown::Token(token.to_owned());
            return Ok(Self { shown, address });
        }
        let certified = client.and_then(|client| client.certified.clone());
        let cookie = cookie::of(&parts.headers, context.is_tls);
        let shown = match (cookie, certified) {
            (Some(cookie), certified) => Shown::Session(cookie, certified),
            (None, Some(name)) => Shown::Certificate(name),
            (None, None) => {
                let detail = format!(
                    "{what} needs the token of a user, Authorization: Bearer TOKEN, or a login"
                );
                return Err(problem("no-token", detail).noted("no-token"));
            }
        };
        let is_look = origin::looks(&parts.method);
        let demand = match shown {
            Shown::Session(..) if !is_look => Demand::Own,
            // What it looks at stays in the browser: no answer lets pages of others read it. And
            // programs have certificates too: they say nothing of an origin.
            _ => Demand::NotAnother,
        };
        if !origin::is_own(&parts.headers, demand, is_look) {
            return Err(cross_site());
        }
        Ok(Self { shown, address })
    }

    /// The caller that this is. A cookie whose session has ended counts as not shown if there is a
    /// certificate: from then on, that is what is shown.
    ///
    /// # Errors
    /// The answer, if nobody is known by what is shown.
    pub(crate) async fn caller(
        &mut self,
        context: &ListenerContext,
    ) -> Result<Arc<dyn Caller>, Problem> {
        let name = match &self.shown {
            Shown::Token(token) => {
                return admitted(context, Proof::Token(token), self.address).await;
            }
            Shown::Certificate(name) => Arc::clone(name),
            Shown::Session(cookie, certified) => {
                let first = context.backend.session(cookie, self.address);
                match (
                    current(context, cookie, self.address, first).await,
                    certified,
                ) {
                    (Err(NotAdmitted::NoSession), Some(name)) => Arc::clone(name),
                    (caller, _) => return caller.map_err(not_admitted),
                }
            }
        };
        let caller = admitted(context, Proof::Certificate(&name), self.address).await;
        self.shown = Shown::Certificate(name);
        caller
    }

    /// The caller that this is now, without a request. A session that has ended is not replaced
    /// here: nobody goes on as another user.
    ///
    /// # Errors
    /// The answer, if nobody is known by what was shown.
    pub(crate) async fn caller_again(
        &self,
        context: &ListenerContext,
    ) -> Result<Arc<dyn Caller>, Problem> {
        match &self.shown {
            Shown::Session(cookie, _) => {
                let first = context.backend.session_now(cookie, self.address);
                let caller = current(context, cookie, self.address, first).await;
                caller.map_err(not_admitted)
            }
            Shown::Token(token) => admitted(context, Proof::Token(token), self.address).await,
            Shown::Certificate(name) => {
                admitted(context, Proof::Certificate(name), self.address).await
            }
        }
    }
}

/// Waits for a change that is on its way to a session: a moment.
async fn current(
    context: &ListenerContext,
    cookie: &str,
    address: Option<SocketAddr>,
    first: Admitted,
) -> Admitted {
    let mut admitted = first;
    for _ in 0..LOOKS {
        if !matches!(admitted, Err(NotAdmitted::Unavailable)) {
            break;
        }
        sleep(PAUSE).await;
        admitted = context.backend.session_now(cookie, address);
    }
    admitted
}

/// The sender of a request. `what` needs one.
///
/// # Errors
/// The answer, if nobody is known.
pub(crate) async fn identify(
    context: &ListenerContext,
    parts: &Parts,
    what: &str,
) -> Result<Arc<dyn Caller>, Problem> {
    Asking::of(context, parts, what)?.caller(context).await
}

/// The bearer of a proof.
async fn admitted(
    context: &ListenerContext,
    proof: Proof<'_>,
    address: Option<SocketAddr>,
) -> Result<Arc<dyn Caller>, Problem> {
    let not_admitted = |why| match (proof, why) {
        (Proof::Certificate(name), NotAdmitted::Unknown(unproven)) => {
            let detail = format!("{name:?}, whom the certificate names, is not a user who may ask");
            let problem = problem("no-user", detail).noted("no-user");
            problem.noted_as(unproven.why).by(name)
        }
        (Proof::Certificate(name), why) => not_admitted(why).by(name),
        (Proof::Token(_), why) => not_admitted(why),
    };
    if let Some(caller) = context.backend.known(proof, address) {
        return caller.map_err(not_admitted);
    }
    let (then, admitted) = oneshot::channel();
    let answer = async {
        // The asker may be gone.
        let then = Box::new(|admitted| drop(then.send(admitted)));
        context.backend.admit(proof, address, then);
        admitted.await.unwrap_or(Err(NotAdmitted::Unavailable))
    };
    let admitted = context.slots.tokens.wait(address.map(|it| it.ip()), answer);
    admitted.await.ok_or_else(busy)?.map_err(not_admitted)
}

/// The answer to a request that a page of others makes.
pub(crate) fn cross_site() -> Problem {
    let detail = "a browser sends this request for a page that is not the server's own: its \
                  header Sec-Fetch-Site or Origin says so, or says nothing";
    problem("cross-site", detail).noted("cross-site")
}

/// The answer to somebody who is not let in.
pub(crate) fn not_admitted(why: NotAdmitted) -> Problem {
    match why {
        NotAdmitted::Unknown(unproven) => {
            let problem = problem("no-token", "this is not the token of a user");
            let problem = problem.noted("wrong-token").noted_as(unproven.why);
            problem.by(&unproven.user)
        }
        NotAdmitted::NoSession => {
            let detail = "the session has ended: by a logout, after 30 minutes without a request, \
                          after 12 hours, by a newer login, or by a change of the user";
            problem("no-session", detail).noted("no-session")
        }
        NotAdmitted::NoLink => {
            let detail = "this link does not work: it works once, for 60 seconds";
            problem("no-link", detail).noted("no-link")
        }
        NotAdmitted::TooFast(time) => {
            let detail = "a session has 20 requests in a second, and 60 at once";
            problem("too-fast", detail).after(time).noted("too-fast")
        }
        NotAdmitted::Slowed => {
            let detail = "too many wrong tokens came from this address or for this user";
            problem("slowed", detail).noted("slowed")
        }
        NotAdmitted::Unavailable => busy().noted("unavailable"),
        NotAdmitted::Banned => {
            let detail = "the user, or the address that the request comes from, is banned";
            problem("banned", detail).noted("banned")
        }
        NotAdmitted::Denied(detail) => problem("adaptor", detail).noted("adaptor"),
    }
}

/// The answer to a user who has not the right, perhaps to a verb.
pub(crate) fn told(denied: Denied, user: &str, verb: Option<Verb>) -> Problem {
    let text = denied.detail.clone();
    let problem = problem(denied.code, denied.detail).with("rule", denied.rule);
    match REASONS.contains(&denied.code) {
        true => problem
            .noted(denied.code)
            .noted_as(text)
            .lacked_by(user, verb),
        false => problem,
    }
}

/// The answer to a user whose verb was not done.
pub(crate) fn not_done(refused: Refused, user: &str, verb: Verb) -> Problem {
    match refused {
        Refused::Denied(denied) => told(denied, user, Some(verb)),
        Refused::Failed(failure) => failed(failure),
    }
}

/// The answer to a request that has failed.
pub(crate) fn failed(failure: Failure) -> Problem {
    let field = failure.field.map(str::to_owned);
    problem(failure.code, failure.message).with("field", field)
}
