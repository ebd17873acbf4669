//! The event streams in the description of the API.

use serde_json::{Map, Value, json};
use stentor_control::schema::Schemas;

use super::{EVENT_STREAM, Kind, subscribe_path};
use crate::api::{ROOT, parameters, responses, who_may};
use crate::bounds::{EARLIER_MAX, FILTERS_MAX, INTERVAL_MAX_MS, INTERVAL_MIN_MS, INTERVAL_MS};

/// The paths of all streams.
pub(crate) fn paths() -> Map<String, Value> {
    let mut paths: Map<String, Value> = Kind::ALL
        .into_iter()
        .map(|kind| (kind.path(), path(kind)))
        .collect();
    paths.insert(subscribe_path(), subscribe());
    paths
}

/// The path of messages.
fn subscribe() -> Value {
    let description = "Needs the right to subscribe to each filter, and no right to a verb. The \
        first event is called `subscribed`. Stored messages come next, with `retain`, and then \
        those that are published. An event `missed` says how many messages the client has lost \
        because it reads too slowly, and an event `end` why the stream has ended.";
    let data = "Each event without a name is a message, in the keys that `publish` takes: `topic`, \
        `qos`, `retain`, `payload` or `payload_base64`, `expiry_secs` and `properties`.";
    json!({ "get": {
        "operationId": "subscribe",
        "tags": ["subscribe"],
        "summary": "The messages of some topics, as server-sent events.",
        "description": description,
        "parameters": [
            {
                "name": "topic",
                "in": "query",
                "required": true,
                "description": "A topic filter; it may be repeated.",
                "schema": {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "maxItems": FILTERS_MAX,
                },
            },
            {
                "name": "qos",
                "in": "query",
                "required": false,
                "description": "The highest QoS with which messages are delivered.",
                "schema": { "type": "integer", "minimum": 0, "maximum": 1, "default": 0 },
            },
        ],
        "responses": responses(json!({
            "description": data,
            "content": { EVENT_STREAM: { "schema": { "type": "string" } } },
        })),
    } })
}

fn path(kind: Kind) -> Value {
    let (summary, data, more) = match kind {
        Kind::Events => (
            "What happens to connections, as it happens, as server-sent events.",
            "Each event is one of those of `events`. Its id is what the header `Last-Event-ID` \
             brings back, to go on behind it.",
            "Without `after`, `since_ms`, `limit` and `Last-Event-ID`, the stream begins with the \
             next event. ",
        ),
        Kind::Figures => (
            "The figures of the server, at an interval, as server-sent events.",
            "Each event is an answer of `status`, with the rates since the one before.",
            "",
        ),
        Kind::Trace => (
            "The packets of some clients, as server-sent events. The trace ends with the stream.",
            "The first event is called `started` and is the answer of `traces.start`. Each other \
             one is a line of `traces.read`.",
            "",
        ),
    };
    let rights: Vec<String> = kind.verbs().iter().map(|verb| who_may(*verb)).collect();
    let description = format!(
        "{more}{} An event `missed` says that something was left out, and an event `end` why the \
         stream has ended.",
        rights.join(" ")
    );
    json!({ "get": {
        "operationId": kind.path().trim_start_matches(ROOT).replace('/', "."),
        "tags": [kind.verb().name().split('.').next()],
        "summary": summary,
        "description": description,
        "parameters": keys(kind),
        "responses": responses(json!({
            "description": data,
            "content": { EVENT_STREAM: { "schema": { "type": "string" } } },
        })),
    } })
}

/// The keys of the query, and the header of those that can go on.
fn keys(kind: Kind) -> Vec<Value> {
    if kind == Kind::Figures {
        return vec![json!({
            "name": "interval_ms",
            "in": "query",
            "required": false,
            "description": "How often, in milliseconds.",
            "schema": {
                "type": "integer",
                "minimum": INTERVAL_MIN_MS,
                "maximum": INTERVAL_MAX_MS,
                "default": INTERVAL_MS,
            },
        })];
    }
    let Schemas { mut request, .. } = Schemas::of(kind.verb());
    let keys = request.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(keys) = keys {
        keys.retain(|key, _| !kind.leaves_out(key));
        if let Some(limit) = keys.get_mut("limit") {
            limit["description"] = json!("How many earlier events come first; 0 if not given.");
            limit["maximum"] = json!(EARLIER_MAX);
        }
    }
    let mut keys = parameters(&request);
    if kind == Kind::Events {
        keys.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "required": false,
            "description": "The id of the last event that was read.",
            "schema": { "type": "string" },
        }));
    }
    keys
}
