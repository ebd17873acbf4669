//! The paths and their answers.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use serde_json::json;

use crate::api;
use crate::backend::{Backend, Exposition, Report};
use crate::guard::{self, Refusal};
use crate::identity::{identify, told};
use crate::problem::{JSON, Problem, answer, busy, problem};
use crate::slots::Slots;
use crate::soon::Soon;
use crate::stream::Streams;

/// What all requests of a listener share.
pub(crate) struct ListenerContext {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) slots: Arc<Slots>,
    /// What is begun at once, and answered from elsewhere.
    pub(crate) soon: Arc<Soon>,
    /// Whether only this machine can reach the listener.
    pub(crate) is_local: bool,
    /// Whether it speaks https.
    pub(crate) is_tls: bool,
    /// Hosts that a request may name besides those of this machine.
    pub(crate) names: Vec<String>,
    /// Whether the metrics need no token.
    pub(crate) are_metrics_open: bool,
    /// The event streams of all listeners.
    pub(crate) streams: Arc<Streams>,
}

/// The client of a connection, which all its requests have as an extension.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// The user whom its certificate names.
    pub(crate) certified: Option<Arc<str>>,
}

/// The address of the client of a request.
pub(crate) fn address_of(parts: &Parts) -> Option<SocketAddr> {
    let client = parts.extensions.get::<Client>();
    client.map(|client| client.address)
}

/// The paths of a listener.
pub(crate) fn router(context: Arc<ListenerContext>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .merge(api::router())
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .with_state(context)
}

/// Checks what holds for the requests of all paths.
///
/// # Errors
/// The answer to one that does not fulfil it.
pub(crate) fn check<B>(
    context: &ListenerContext,
    request: &hyper::Request<B>,
) -> Result<(), Problem> {
    guard::check(request, context.is_local, &context.names).map_err(refused)
}

/// Adds what the answers of all paths say.
pub(crate) fn add_rules(headers: &mut HeaderMap) {
    // With the type and the length of the body.
    headers.reserve(RULES.len() + 2);
    for (name, value) in RULES {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// What all answers say to browsers: nothing is kept, guessed at, told to others, or shown within
/// pages of others.
const RULES: [(HeaderName, &str); 6] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

fn refused(why: Refusal) -> Problem {
    match why {
        Refusal::NoHost => problem(
            "no-host",
            "a request names the server once, in the header Host",
        ),
        Refusal::OtherHost => problem(
            "other-host",
            "this address answers requests for localhost; name another host in http.names",
        )
        .noted("other-host"),
        Refusal::NoBody => problem("too-large", "no request has a body here"),
        Refusal::TooLarge => problem("too-large", "the body has more than 1 MiB"),
    }
}

/// Says what there is, and who is logged in. A link of `stentor console` leads
/// here.
async fn index(State(context): State<Arc<ListenerContext>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let caller = identify(&context, &parts, "")
        .await
        .map(|caller| caller.me());
    let who = match caller {
        Ok(me) => {
            let ends = me.session.map_or(String::new(), |session| {
                let minutes = session.ends_secs / 60;
                format!("; the session ends in {minutes} minutes at most")
            });
            format!("Logged in: {}{ends}.", me.name)
        }
        Err(_) => {
            "Not logged in: open a link of `stentor console`, or POST to /api/v1/login.".to_owned()
        }
    };
    let text = format!(
        "Stentor, for operators\n\n{who}\n\n\
         /healthz  whether the process works\n\
         /readyz   whether new clients can connect, and if not, why\n\
         /metrics  figures for Prometheus\n\
         /api/v1   what `stentor` asks a server, as JSON: see /api/v1/openapi.json\n\
         /api/v1/me  who is logged in, and what that one may ask\n\n\
         This server has no pages for a browser yet.\n"
    );
    answer(StatusCode::OK, "text/plain; charset=utf-8", text)
}

async fn health(State(context): State<Arc<ListenerContext>>) -> Response {
    probe(context, "healthy", |backend| backend.health()).await
}

async fn readiness(State(context): State<Arc<ListenerContext>>) -> Response {
    probe(context, "ready", |backend| backend.readiness()).await
}

/// The answer to a probe. Beyond this machine nobody learns details.
async fn probe(
    context: Arc<ListenerContext>,
    word: &str,
    ask: fn(&dyn Backend) -> Report,
) -> Response {
    let backend = Arc::clone(&context.backend);
    let Some(mut report) = context.slots.health.run(move || ask(&*backend)).await else {
        return busy().into_response();
    };
    if !context.is_local {
        for reason in &mut report.reasons {
            reason.detail.clear();
        }
    }
    let status = match report.is_well() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut value = json!({ word: report.is_well() });
    value["reasons"] = json!(report.reasons);
    answer(status, JSON, format!("{value}\n"))
}

async fn metrics(State(context): State<Arc<ListenerContext>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if !(context.is_local || context.are_metrics_open)
        && let Err(refusal) = may_read_metrics(&context, &parts).await
    {
        return refusal.into_response();
    }
    let accept = parts.headers.get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Exposition::wanted(accept.unwrap_or_default());
    let backend = Arc::clone(&context.backend);
    let text = context.slots.metrics.run(move || backend.metrics(format));
    match text.await {
        Some(text) => answer(StatusCode::OK, format.content_type(), text),
        None => busy().into_response(),
    }
}

/// Whether the sender of a request may read the metrics.
async fn may_read_metrics(context: &ListenerContext, parts: &Parts) -> Result<(), Problem> {
    let caller = identify(context, parts, "the page of metrics").await?;
    let may = caller.may_read_metrics();
    may.map_err(|denied| told(denied, caller.name(), None))
}

async fn unknown() -> Problem {
    problem(
        "not-found",
        "there are /healthz, /readyz, /metrics and the paths of /api/v1/openapi.json",
    )
}

async fn other_method() -> Problem {
    crate::problem::other_method("GET, HEAD")
}
