//! The paths and their answers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::header::{ACCEPT, CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, StatusCode};
use serde_json::json;

use crate::api;
use crate::guard::{self, Refusal};
use crate::office::{Exposition, Office, Report};
use crate::problem::{JSON, Problem, answer, busy, problem};
use crate::slots::Slots;
use crate::stream::Streams;

/// What all requests of a door share.
pub(crate) struct Desk {
    pub(crate) office: Arc<dyn Office>,
    pub(crate) slots: Arc<Slots>,
    /// Whether only this machine can reach the door.
    pub(crate) is_local: bool,
    /// Hosts that a request may name besides those of this machine.
    pub(crate) names: Vec<String>,
    /// Whether the metrics need no token.
    pub(crate) are_metrics_open: bool,
    /// The event streams of all doors.
    pub(crate) streams: Arc<Streams>,
}

/// The address of the client of a request.
#[derive(Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

/// The paths of a door.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .merge(api::router())
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&desk), admit))
        .with_state(desk)
}

/// What holds for all paths.
async fn admit(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let checked = guard::check(&request, desk.is_local, &desk.names);
    let mut response = match checked.map_err(refused) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refused(why: Refusal) -> Problem {
    match why {
        Refusal::NoHost => problem(
            "no-host",
            "a request names the server once, in the header Host",
        ),
        Refusal::OtherHost => problem(
            "other-host",
            "this address answers requests for localhost; name another host in http.names",
        ),
        Refusal::NoBody => problem("too-large", "no request has a body here"),
        Refusal::TooLarge => problem("too-large", "the body has more than 1 MiB"),
    }
}

async fn index() -> Response {
    let text = "Stentor, for operators\n\n\
                /healthz  whether the process works\n\
                /readyz   whether new clients can connect, and if not, why\n\
                /metrics  figures for Prometheus\n\
                /api/v1   what `stentor` asks a server, as JSON: see /api/v1/openapi.json\n";
    answer(StatusCode::OK, "text/plain; charset=utf-8", text.to_owned())
}

async fn health(State(desk): State<Arc<Desk>>) -> Response {
    probe(desk, "healthy", |office| office.health()).await
}

async fn readiness(State(desk): State<Arc<Desk>>) -> Response {
    probe(desk, "ready", |office| office.readiness()).await
}

/// The answer to a probe. Beyond this machine nobody learns details.
async fn probe(desk: Arc<Desk>, word: &str, ask: fn(&dyn Office) -> Report) -> Response {
    let office = Arc::clone(&desk.office);
    let Some(mut report) = desk.slots.health.run(move || ask(&*office)).await else {
        return busy().into_response();
    };
    if !desk.is_local {
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

async fn metrics(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    if !(desk.is_local || desk.are_metrics_open) {
        let address = request.extensions().get::<Client>().map(|client| client.0);
        if let Err(refusal) = may_read_metrics(&desk, request.headers(), address).await {
            return refusal.into_response();
        }
    }
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Exposition::wanted(accept.unwrap_or_default());
    let office = Arc::clone(&desk.office);
    let text = desk.slots.metrics.run(move || office.metrics(format));
    match text.await {
        Some(text) => answer(StatusCode::OK, format.content_type(), text),
        None => busy().into_response(),
    }
}

/// Whether the token of a request is one that may read the metrics.
async fn may_read_metrics(
    desk: &Desk,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<(), Problem> {
    let caller = api::identify(desk, headers, address, "the page of metrics").await?;
    caller.may_read_metrics().map_err(api::told)
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
