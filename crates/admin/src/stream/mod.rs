//! Event streams: answers that go on for as long as the client reads them, as server-sent events.
//!
//! A stream asks again and again what a verb answers, and sends what is new. It asks only when the
//! client has taken what was sent before, so nothing is queued for a slow client but one answer.
//! It goes out in small pieces, and counts in [`Held`] until its last piece has gone.
//! What the server has forgotten in the meantime is missing, and an event says so. Each time, the
//! token or the session, and the right to the verb, are looked at again.
//!
//! | path | what | the verb whose right decides |
//! |---|---|---|
//! | `events/stream` | what happens to connections | `events` |
//! | `status/stream` | the figures, at an interval | `status` |
//! | `subscribe` | messages, by a session of the user's own | none: the topics decide |
//! | `traces/stream` | the packets of some clients | `traces.start`, `traces.read`, `traces.stop` |

mod body;
pub(crate) mod describe;
mod events;
mod feed;
mod figures;
mod held;
mod message;
mod places;
mod subscribe;
mod trace;
mod watcher;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value};
use stentor_control::Verb;
use stentor_control::schema::{Field, Schemas};
use tokio::sync::{oneshot, watch};

use crate::api::request::{Line, Source};
use crate::api::{ROOT, bad};
use crate::pages::ListenerContext;
use crate::problem::{Problem, busy, other_method, problem};
use body::{Outlet, Pieces};
use figures::Newest;
pub use held::Held;
use places::Places;
use watcher::{Refused, Watcher};

/// The content type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// What all event streams share.
pub(crate) struct Streams {
    places: Arc<Places>,
    /// Its sender goes when the server stops.
    stopping: watch::Receiver<()>,
    /// Tells cursors of this run of the server from those of others.
    run: u64,
    figures: Newest,
    refused: Refused,
    held: Held,
}

impl Streams {
    /// With what ends all of them when it is dropped. They count in `held` what they hold.
    pub(crate) fn new(held: Held) -> (watch::Sender<()>, Arc<Self>) {
        let (stop, stopping) = watch::channel(());
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let streams = Self {
            places: Arc::default(),
            stopping,
            run: since.map_or(0, |since| since.as_millis() as u64),
            figures: Newest::default(),
            refused: Refused::default(),
            held,
        };
        (stop, Arc::new(streams))
    }
}

/// The kinds of streams of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Events,
    Figures,
    Trace,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Events, Self::Figures, Self::Trace];

    /// Where it is.
    pub(crate) fn path(self) -> String {
        let noun = match self {
            Self::Events => "events",
            Self::Figures => "status",
            Self::Trace => "traces",
        };
        format!("{ROOT}{noun}/stream")
    }

    /// The verb whose keys it takes.
    pub(crate) const fn verb(self) -> Verb {
        match self {
            Self::Events => Verb::Events,
            Self::Figures => Verb::Status,
            Self::Trace => Verb::TracesStart,
        }
    }

    /// All verbs that it asks: the right to each is needed.
    pub(crate) const fn verbs(self) -> &'static [Verb] {
        match self {
            Self::Events => &[Verb::Events],
            Self::Figures => &[Verb::Status],
            Self::Trace => &[Verb::TracesStart, Verb::TracesRead, Verb::TracesStop],
        }
    }

    /// The keys that its query may have.
    fn fields(self) -> Vec<Field> {
        match self {
            Self::Figures => vec![figures::interval()],
            Self::Events | Self::Trace => {
                let mut fields = Schemas::of(self.verb()).fields();
                fields.retain(|field| !self.leaves_out(&field.name));
                fields
            }
        }
    }

    /// Whether a key of the verb means nothing here.
    pub(crate) fn leaves_out(self, key: &str) -> bool {
        match self {
            Self::Events => key == "wait_ms",
            Self::Figures => true,
            // Traces by HTTP have no payloads.
            Self::Trace => key == "payload_bytes",
        }
    }
}

/// Where messages are.
pub(crate) fn subscribe_path() -> String {
    format!("{ROOT}subscribe")
}

/// Adds the paths of all streams.
pub(crate) fn router(router: Router<Arc<ListenerContext>>) -> Router<Arc<ListenerContext>> {
    let router = router.route(&subscribe_path(), any(subscribe::open));
    Kind::ALL.into_iter().fold(router, |router, kind| {
        let (verb, fields) = (kind.verb(), kind.fields());
        let line = Arc::new(Line { verb, fields });
        let open = move |State(context): State<Arc<ListenerContext>>, request: Request| {
            let line = Arc::clone(&line);
            async move { open(context, kind, &line, request).await }
        };
        router.route(&kind.path(), any(open))
    })
}

/// Whether an answer goes on for as long as the client reads it.
pub(crate) fn is_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|it| it == EVENT_STREAM)
}

/// Opens the stream of a verb.
async fn open(
    context: Arc<ListenerContext>,
    kind: Kind,
    line: &Line,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let watcher = admit(&context, &parts).await?;
    watcher.may(kind.verbs())?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let wanted = line.read(Source::Query(query)).map_err(bad)?;
    let last_id = last_id(&parts.headers)?;
    follow(&context, watcher, move |watcher, outlet, told| async move {
        match kind {
            Kind::Events => events::follow(watcher, outlet, wanted, last_id, told).await,
            Kind::Figures => figures::follow(watcher, outlet, wanted, told).await,
            Kind::Trace => trace::follow(watcher, outlet, wanted, told).await,
        }
    })
    .await
}

/// The client that asks for a stream.
async fn admit(context: &Arc<ListenerContext>, parts: &Parts) -> Result<Watcher, Problem> {
    if parts.method != Method::GET {
        return Err(other_method("GET"));
    }
    Watcher::admit(context, parts).await
}

/// Where the client has read up to, if this is not the first time.
fn last_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong = |_| problem("bad-request", "the header Last-Event-ID is not a text");
    let last = headers.get("last-event-id").map(HeaderValue::to_str);
    let last = last.transpose().map_err(wrong)?;
    Ok(last.filter(|id| !id.is_empty()).map(str::to_owned))
}

/// What is asked of a verb.
type Wanted = Map<String, Value>;

/// Told once whether the stream begins: a client that is refused gets a usual answer.
type Told = oneshot::Sender<Result<(), Problem>>;

/// Begins a stream in a task of its own, which ends what it has begun also if the client is gone
/// before that.
async fn follow<F>(
    context: &ListenerContext,
    watcher: Watcher,
    run: impl FnOnce(Watcher, Outlet, Told) -> F + Send + 'static,
) -> Result<Response, Problem>
where
    F: Future<Output = ()> + Send + 'static,
{
    let session = watcher.caller().session_number();
    let place = context
        .streams
        .places
        .take(watcher.name(), session)
        .map_err(full)?;
    let (outlet, pieces) = Outlet::new(
        context.streams.stopping.clone(),
        context.streams.held.stream(),
    );
    let (told, begun) = oneshot::channel();
    tokio::spawn(async move {
        run(watcher, outlet, told).await;
        drop(place);
    });
    begun.await.unwrap_or_else(|_| Err(busy()))?;
    Ok(response(pieces))
}

fn full(why: places::Full) -> Problem {
    problem("too-many", why.to_string())
}

fn response(pieces: Pieces) -> Response {
    let mut response = Response::new(Body::new(pieces));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    // Nothing follows a stream.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    // For proxies that would gather answers.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// An event. Its data is JSON, so it has no line feed.
pub(crate) fn event(name: Option<&str>, id: Option<&str>, data: &Value) -> String {
    let mut text = String::new();
    for (field, value) in [("id", id), ("event", name)] {
        if let Some(value) = value {
            text.push_str(&format!("{field}: {value}\n"));
        }
    }
    text.push_str(&format!("data: {data}\n\n"));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_lines_that_end_with_an_empty_one() {
        let data = json!({ "text": "a\nb" });
        assert_eq!(event(None, None, &data), "data: {\"text\":\"a\\nb\"}\n\n");
        let all = event(Some("end"), Some("1-2"), &json!({}));
        assert_eq!(all, "id: 1-2\nevent: end\ndata: {}\n\n");
    }

    #[test]
    fn a_query_has_the_keys_that_mean_something() {
        let names = |kind: Kind| -> Vec<String> {
            let fields = kind.fields().into_iter();
            fields.map(|field| field.name).collect()
        };
        assert!(names(Kind::Events).contains(&"client_id".to_owned()));
        assert!(!names(Kind::Events).contains(&"wait_ms".to_owned()));
        assert_eq!(names(Kind::Figures), ["interval_ms"]);
        assert!(!names(Kind::Trace).contains(&"payload_bytes".to_owned()));
    }
}
