//! What messages contain needs the right to their topics, whatever the right to a verb says.
//!
//! The rules of a user are about the topics of his own zone. Messages of another zone need the
//! right to administer that zone: to publish to `$control/zones/NAME`.

use serde_json::{Map, Value};
use stentor_admin::Denied;
use stentor_control::Verb;

use super::caller::Bearer;
use super::rights::Wish;

/// Messages that one request writes: each is answered, and shards take them in one turn.
const MESSAGES_MAX: usize = 1_000;

/// Whether somebody may read or write the messages that a request is about.
///
/// # Errors
/// When not.
pub(super) fn check(
    bearer: &Bearer,
    verb: Verb,
    request: &Map<String, Value>,
) -> Result<(), Denied> {
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    match verb {
        Verb::RetainedPage => {
            bearer.check_zone(text("zone"))?;
            may_read(bearer, verb, text("filter").unwrap_or_default())
        }
        Verb::RetainedHistory => {
            bearer.check_zone(text("zone"))?;
            may_read(bearer, verb, text("topic").unwrap_or_default())
        }
        // Which topics are cleared is not known before. The right to the verb is enough in a zone
        // of which somebody may write the messages.
        Verb::RetainedClear => bearer.check_zone(text("zone")),
        Verb::RetainedPut => {
            let messages = request.get("messages").and_then(Value::as_array);
            let count = messages.map_or(0, Vec::len);
            if count > MESSAGES_MAX {
                return Err(Denied {
                    code: "too-large",
                    detail: format!("{count} messages; one request has at most {MESSAGES_MAX}"),
                    rule: None,
                });
            }
            for message in messages.into_iter().flatten() {
                let of = |key: &str| message.get(key).and_then(Value::as_str);
                bearer.check_zone(of("zone").or_else(|| text("zone")))?;
                bearer.check(Wish::Publish(of("topic").unwrap_or_default()))?;
            }
            Ok(())
        }
        Verb::TracesStart if request.get("payload_bytes").is_some_and(|it| *it != 0) => {
            Err(Denied {
                code: "denied",
                detail: "payloads are traced by `stentor trace --payload` on the machine of the \
                         server alone, since a trace may be of many topics; leave payload_bytes out"
                    .to_owned(),
                rule: None,
            })
        }
        _ => Ok(()),
    }
}

/// Whether somebody may read all that a filter matches. Topics with `$` belong to services: by
/// MQTT, each client has its own messages there, whatever its rights. A user that reads those of
/// others needs all rights.
fn may_read(bearer: &Bearer, verb: Verb, filter: &str) -> Result<(), Denied> {
    if filter.starts_with('$') {
        return bearer.check_everything(verb);
    }
    bearer.check(Wish::Subscribe(filter))
}

/// Takes payloads out of an answer that somebody may not read: all of a trace, which somebody else
/// has asked for, and those of a queue by their topics.
pub(super) fn withhold(bearer: &Bearer, verb: Verb, answer: &mut Value) {
    match verb {
        Verb::TracesRead => withhold_all(answer),
        Verb::SessionsQueue => {
            let is_of_zone = bearer.check_zone(answer["zone"].as_str()).is_ok();
            withhold_some(answer, |topic| {
                is_of_zone && may_read(bearer, verb, topic).is_ok()
            });
        }
        _ => {}
    }
}

fn withhold_all(answer: &mut Value) {
    let lines = answer["lines"].as_array_mut().into_iter().flatten();
    for line in lines {
        line["payload"] = Value::Null;
    }
}

fn withhold_some(answer: &mut Value, mut may_read: impl FnMut(&str) -> bool) {
    let messages = answer["messages"].as_array_mut().into_iter().flatten();
    for message in messages.filter_map(Value::as_object_mut) {
        let shown = ["payload", "payload_base64"];
        if !shown.iter().any(|key| message.contains_key(*key)) {
            continue;
        }
        let topic = message.get("topic").and_then(Value::as_str);
        if !topic.is_some_and(&mut may_read) {
            for key in shown {
                message.remove(key);
            }
            message.insert("withheld".into(), true.into());
            message.insert("payload_cut".into(), false.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_trace_lose_their_payloads() {
        let mut answer = json!({ "lines": [{ "topic": "a", "payload": "x" }], "ended": false });
        withhold_all(&mut answer);
        assert_eq!(answer["lines"][0], json!({ "topic": "a", "payload": null }));
    }

    #[test]
    fn messages_of_a_queue_lose_the_payloads_of_topics_that_are_not_permitted() {
        let shown = json!({ "topic": "a", "payload": "x", "withheld": false });
        let mut answer = json!({ "messages": [
            shown,
            { "topic": "b", "payload_base64": "/w==", "payload_cut": true, "withheld": false },
            { "topic": "b", "withheld": false },
            { "payload": "x" },
        ] });
        withhold_some(&mut answer, |topic| topic == "a");
        let gone = json!({ "topic": "b", "payload_cut": false, "withheld": true });
        let nobodys = json!({ "payload_cut": false, "withheld": true });
        let unasked = json!({ "topic": "b", "withheld": false });
        assert_eq!(answer["messages"], json!([shown, gone, unasked, nobodys]));
    }
}
