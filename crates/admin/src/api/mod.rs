//! `/api/v1`: the verbs of the control socket as paths.
//!
//! Each line of the table of verbs is a path: `clients.kick` is `/api/v1/clients/kick`. A verb that
//! looks answers GET with a query, or POST with JSON. A verb that changes something answers POST
//! alone. Requests and answers have the types of the control socket.
//!
//! A request goes through these steps, and each one that refuses it answers: the method; the token
//! or the session; the right; the content type and the body; the keys; a place among those that are
//! answered. So a body is read only from somebody who may send it.

pub(crate) mod body;
mod openapi;
mod publish;
pub(crate) mod query;
pub(crate) mod request;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use hyper::{Method, StatusCode};
use stentor_control::schema::Schemas;
use stentor_control::{Http, Need, Verb};

use crate::backend::Caller;
use crate::bounds::{API_BODY_BYTES_MAX, BODY_AT_ONCE};
use crate::identity::{Asking, not_done, told};
use crate::login;
use crate::pages::ListenerContext;
use crate::problem::{JSON, PROBLEMS, Problem, answer, busy, list, other_method, problem};
use crate::stream;
use request::{Line, Source, Wrong};

pub use openapi::document as openapi;
pub(crate) use openapi::{parameters, responses, who_may};

/// Where the paths of verbs begin.
pub(crate) const ROOT: &str = "/api/v1/";

/// Methods of verbs that look, and of verbs that change something.
const LOOKING: &str = "GET, HEAD, POST";
const CHANGING: &str = "POST";

/// The paths of all verbs.
pub(crate) fn router() -> Router<Arc<ListenerContext>> {
    let all = Verb::ALL.into_iter();
    let router = all.fold(Router::new(), |router, verb| {
        let path = format!("{ROOT}{}", verb.path());
        if verb.http() == Http::Never {
            return router.route(&path, any(move || socket_only(verb)));
        }
        let fields = Schemas::of(verb).fields();
        let line = Arc::new(Line { verb, fields });
        let carry_out = move |State(context): State<Arc<ListenerContext>>, request: Request| {
            let line = Arc::clone(&line);
            async move { carry_out(&context, line, request).await }
        };
        router.route(&path, any(carry_out))
    });
    login::router(stream::router(router))
        .route(PROBLEMS, get(problems))
        .route(&format!("{ROOT}openapi.json"), get(described))
}

async fn problems() -> Response {
    answer(StatusCode::OK, JSON, format!("{}\n", list()))
}

async fn described() -> Response {
    answer(StatusCode::OK, JSON, openapi::text().to_owned())
}

async fn socket_only(verb: Verb) -> Problem {
    let detail = format!("{} is a verb of the control socket alone", verb.name());
    problem("socket-only", detail)
}

/// Carries out a verb.
async fn carry_out(
    context: &ListenerContext,
    line: Arc<Line>,
    request: Request,
) -> Result<Response, Problem> {
    let verb = line.verb;
    let (parts, body) = request.into_parts();
    let is_query = matches!(parts.method, Method::GET | Method::HEAD);
    match verb.need() {
        Need::Read if is_query || parts.method == Method::POST => {}
        Need::Change | Need::Topic | Need::Administer if parts.method == Method::POST => {}
        Need::Read => return Err(other_method(LOOKING)),
        Need::Change | Need::Topic | Need::Administer => {
            return Err(other_method(CHANGING));
        }
    }
    let mut asking = Asking::of(context, &parts, "this path")?;
    let mut caller = asking.caller(context).await?;
    let denied = |caller: &dyn Caller, denied| told(denied, caller.name(), Some(verb));
    caller.may(verb).map_err(|why| denied(&*caller, why))?;
    let begun = Instant::now();
    let source = match is_query {
        true => Source::Query(parts.uri.query().unwrap_or_default().to_owned()),
        false if !body::is_json(&parts.headers) => {
            let detail = "a POST has a body of JSON here, and its header Content-Type says so";
            return Err(problem("content-type", detail));
        }
        false => {
            let whole = body::whole(body, API_BODY_BYTES_MAX);
            let whole = context.slots.bodies.wait_for(caller.name(), whole).await;
            Source::Body(whole.ok_or_else(busy)?.map_err(body::no_body)?)
        }
    };
    if begun.elapsed() > BODY_AT_ONCE {
        // The caller may have been removed since, or may do less.
        caller = asking.caller(context).await?;
        caller.may(verb).map_err(|why| denied(&*caller, why))?;
    }
    let begun = Instant::now();
    if verb == Verb::Publish
        && let Source::Body(body) = &source
        && let Some(answer) = publish::soon(context, &caller, body).await
    {
        return answer;
    }
    let slot = match line.may_wait() {
        true => &context.slots.waits,
        false => &context.slots.verbs,
    };
    // Large requests are read, and large answers are written, where that holds up nobody.
    let work = move || -> Result<String, Problem> {
        let request = line.read(source).map_err(bad)?;
        let answer = caller.ask(verb, request);
        let answer = answer.map_err(|refused| not_done(refused, caller.name(), verb))?;
        Ok(format!("{answer}\n"))
    };
    let text = slot.run(work).await.ok_or_else(busy)??;
    if verb.need() == Need::Read && begun.elapsed() > BODY_AT_ONCE {
        // What has happened in the meantime is not for a user who was removed in the meantime.
        let caller = asking.caller_again(context).await?;
        caller.may(verb).map_err(|why| denied(&*caller, why))?;
    }
    Ok(answer(StatusCode::OK, JSON, text))
}

pub(crate) fn bad(wrong: Wrong) -> Problem {
    problem("bad-request", wrong.detail).with("field", wrong.field)
}
