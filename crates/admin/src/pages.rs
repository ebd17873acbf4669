//! The paths and their answers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bounds::{HEALTH_AT_ONCE, METRICS_AT_ONCE, TOKENS_AT_ONCE};
use crate::guard::{self, Refusal};
use crate::office::{Admission, Exposition, Office, Report};

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
}

/// How many requests of each kind are answered at a time.
pub(crate) struct Slots {
    health: Semaphore,
    metrics: Semaphore,
    tokens: Semaphore,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            health: Semaphore::new(HEALTH_AT_ONCE),
            metrics: Semaphore::new(METRICS_AT_ONCE),
            tokens: Semaphore::new(TOKENS_AT_ONCE),
        }
    }
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
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&desk), admit))
        .with_state(desk)
}

/// What holds for all paths.
async fn admit(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let mut response = match guard::check(&request, desk.is_local, &desk.names) {
        Ok(()) => next.run(request).await,
        Err(Refusal::NoHost) => problem(
            StatusCode::BAD_REQUEST,
            "no-host",
            "a request names the server once, in the header Host",
        ),
        Err(Refusal::OtherHost) => problem(
            StatusCode::MISDIRECTED_REQUEST,
            "other-host",
            "this address answers requests for localhost; name another host in http.names",
        ),
        Err(Refusal::TooLarge) => problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "no request has a body here",
        ),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn index() -> Response {
    let text = "Stentor, for operators\n\n\
                /healthz  whether the process works\n\
                /readyz   whether new clients can connect, and if not, why\n\
                /metrics  figures for Prometheus\n";
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
    let Some(mut report) = desk.ask(&desk.slots.health, move || ask(&*office)).await else {
        return busy();
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
    answer_json(status, "application/json", &value)
}

async fn metrics(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    if !(desk.is_local || desk.are_metrics_open) {
        let address = request.extensions().get::<Client>().map(|client| client.0);
        if let Err(refusal) = desk.check_token(request.headers(), address).await {
            return refusal;
        }
    }
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Exposition::wanted(accept.unwrap_or_default());
    let office = Arc::clone(&desk.office);
    let text = desk.ask(&desk.slots.metrics, move || office.metrics(format));
    match text.await {
        Some(text) => answer(StatusCode::OK, format.content_type(), text),
        None => busy(),
    }
}

impl Desk {
    /// Asks the office on a thread that may wait, when it is this kind's turn.
    async fn ask<T: Send + 'static>(
        &self,
        slot: &Semaphore,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _permit = slot.acquire().await.ok()?;
        tokio::task::spawn_blocking(question).await.ok()
    }

    /// Checks the token of a request.
    async fn check_token(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<(), Response> {
        let Some(token) = guard::bearer(headers).map(str::to_owned) else {
            return Err(unauthorized(
                "the metrics need the token of a user: Authorization: Bearer TOKEN",
            ));
        };
        let office = Arc::clone(&self.office);
        let admission = self.ask(&self.slots.tokens, move || office.admit(&token, address));
        match admission.await {
            Some(Admission::Granted) => Ok(()),
            Some(Admission::Unknown) => Err(unauthorized("this is not the token of a user")),
            Some(Admission::Denied) => Err(problem(
                StatusCode::FORBIDDEN,
                "denied",
                "the user has no right to subscribe to $control/metrics",
            )),
            Some(Admission::Unavailable) | None => Err(busy()),
        }
    }
}

async fn unknown() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "not-found",
        "there are /healthz, /readyz and /metrics",
    )
}

async fn other_method() -> Response {
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "method",
        "this path answers GET and HEAD",
    )
}

fn unauthorized(detail: &str) -> Response {
    let mut response = problem(StatusCode::UNAUTHORIZED, "no-token", detail);
    let scheme = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    response
}

fn busy() -> Response {
    let detail = "the server cannot answer now; try again later";
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
    let later = HeaderValue::from_static("5");
    response.headers_mut().insert(RETRY_AFTER, later);
    response
}

/// An error as RFC 9457 has it.
fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let value = json!({
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    answer_json(status, "application/problem+json", &value)
}

fn answer_json(status: StatusCode, content_type: &'static str, value: &Value) -> Response {
    answer(status, content_type, format!("{value}\n"))
}

fn answer(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
