//! `events/stream`: what happens to connections, as it happens.

use serde_json::{Value, json};
use stentor_control::Verb;

use super::body::{End, Outlet};
use super::watcher::Watcher;
use super::{Told, Wanted, event};
use crate::bounds::{EARLIER_MAX, EVENTS_AT_ONCE, LOOK_AGAIN};
use crate::problem::{Problem, problem};

/// What is said when events are missing.
const MISSED: &str = "events may be left out here: the server keeps the newest 10,000";
const MISSED_BY_RESTART: &str =
    "events may be left out here: the server was started again since the last one";

/// Sends events until the client is gone, or may not have them any more.
pub(super) async fn follow(
    mut watcher: Watcher,
    mut outlet: Outlet,
    wanted: Wanted,
    last_id: Option<String>,
    told: Told,
) {
    let run = watcher.context().streams.run;
    let begin = Begin::new(run, wanted, last_id.as_deref());
    let (first, mut request, begin) = match begin {
        Ok(begin) => match watcher.look(Verb::Events, begin.request.clone()).await {
            Ok(first) => (first, begin.request.clone(), begin),
            Err(problem) => return drop(told.send(Err(problem))),
        },
        Err(problem) => return drop(told.send(Err(problem))),
    };
    if told.send(Ok(())).is_err() {
        return;
    }
    request.insert("limit".into(), json!(EVENTS_AT_ONCE));
    let end = go_on(&mut watcher, &mut outlet, first, request, &begin).await;
    if let Err(end) = end {
        outlet.close(&end);
    }
}

async fn go_on(
    watcher: &mut Watcher,
    outlet: &mut Outlet,
    first: Value,
    mut request: Wanted,
    begin: &Begin,
) -> Result<(), End> {
    let mut text = ": events of connections\n\n".to_owned();
    if begin.is_of_another_run {
        text += &missed(MISSED_BY_RESTART);
    }
    let mut answer = first;
    if begin.is_from_now_on {
        answer["events"] = json!([]);
    }
    loop {
        let count = write(&answer, begin, &mut text);
        request.insert("after".into(), answer["cursor"].clone());
        // The client may take its time.
        drop(answer);
        outlet.put(std::mem::take(&mut text)).await?;
        if count < EVENTS_AT_ONCE {
            outlet.pause(LOOK_AGAIN).await?;
        }
        watcher.renew(&[Verb::Events]).await?;
        answer = watcher.look(Verb::Events, request.clone()).await?;
    }
}

/// Writes the events of an answer; how many there are.
fn write(answer: &Value, begin: &Begin, text: &mut String) -> u64 {
    if answer["missed"] == json!(true) {
        *text += &missed(MISSED);
    }
    let events = answer["events"].as_array().into_iter().flatten();
    let mut count = 0;
    for one in events {
        let id = format!("{:x}-{}", begin.run, one["seq"]);
        *text += &event(None, Some(&id), one);
        count += 1;
    }
    count
}

fn missed(detail: &str) -> String {
    event(Some("missed"), None, &json!({ "detail": detail }))
}

/// Where a stream begins.
#[derive(Debug)]
struct Begin {
    run: u64,
    request: Wanted,
    /// Without any event that has happened before.
    is_from_now_on: bool,
    /// The client has read events of an earlier run of the server.
    is_of_another_run: bool,
}

impl Begin {
    /// Behind the event that the client has read last, or where the query says.
    fn new(run: u64, mut request: Wanted, last_id: Option<&str>) -> Result<Self, Problem> {
        let limit = request.get("limit").and_then(Value::as_u64);
        if limit.is_some_and(|limit| limit > EARLIER_MAX) {
            let detail = format!("limit is up to {EARLIER_MAX} in an event stream");
            return Err(problem("bad-request", detail).with("field", Some("limit".into())));
        }
        let mut begin = Self {
            run,
            request: Wanted::new(),
            is_from_now_on: false,
            is_of_another_run: false,
        };
        let is_named = |key: &str| request.get(key).is_some_and(|value| !value.is_null());
        if let Some(id) = last_id {
            let own = id.split_once('-').and_then(|(run, seq)| {
                let run = u64::from_str_radix(run, 16).ok()?;
                Some((run, seq.parse::<u64>().ok()?))
            });
            let own = own.filter(|(of, _)| *of == run);
            begin.is_of_another_run = own.is_none();
            request.insert("after".into(), json!(own.map_or(0, |(_, seq)| seq)));
            request.insert("limit".into(), json!(EVENTS_AT_ONCE));
        } else if is_named("after") || is_named("since_ms") {
            request.entry("after").or_insert_with(|| json!(0));
            request.insert("limit".into(), json!(EVENTS_AT_ONCE));
        } else if limit.unwrap_or(0) == 0 {
            begin.is_from_now_on = true;
            request.insert("limit".into(), json!(1));
        }
        begin.request = request;
        Ok(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(query: Value, last_id: Option<&str>) -> Begin {
        let request = query.as_object().cloned().unwrap_or_default();
        Begin::new(0xAB, request, last_id).expect("it is one")
    }

    #[test]
    fn a_stream_begins_where_the_client_has_stopped() {
        let now = begin(json!({ "client_id": "a" }), None);
        assert!(now.is_from_now_on);
        let some = begin(json!({ "limit": 7 }), None);
        assert_eq!(
            (some.is_from_now_on, &some.request["limit"]),
            (false, &json!(7))
        );
        let since = begin(json!({ "since_ms": 7 }), None);
        assert_eq!(since.request["after"], json!(0));
        let again = begin(json!({ "limit": 7, "after": 3 }), Some("ab-9"));
        assert_eq!(again.request["after"], json!(9));
        assert!(!again.is_of_another_run);
        for other in ["ac-9", "9", "x", "ab-x", "ab-99999999999999999999"] {
            let other = begin(json!({}), Some(other));
            assert!(other.is_of_another_run && other.request["after"] == json!(0));
        }
        let wrong = Begin::new(1, Wanted::from_iter([("limit".into(), json!(1001))]), None);
        assert!(wrong.is_err());
    }

    #[test]
    fn what_is_missing_is_told() {
        let later = begin(json!({ "after": 5 }), None);
        let answer = json!({ "events": [{ "seq": 9 }], "cursor": 9, "missed": true });
        let mut text = String::new();
        assert_eq!(write(&answer, &later, &mut text), 1);
        assert!(text.starts_with("event: missed\n"), "{text}");
        assert!(text.ends_with("id: ab-9\ndata: {\"seq\":9}\n\n"), "{text}");
    }
}
