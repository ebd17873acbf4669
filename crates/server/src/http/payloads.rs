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
            bearer.check(Wish::Subscribe(text("filter").unwrap_or_default()))
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

/// Takes payloads out of an answer that somebody else has asked for.
pub(super) fn withhold(verb: Verb, answer: &mut Value) {
    if verb != Verb::TracesRead {
        return;
    }
    let lines = answer["lines"].as_array_mut().into_iter().flatten();
    for line in lines {
        line["payload"] = Value::Null;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_trace_lose_their_payloads() {
        let mut answer = json!({ "lines": [{ "topic": "a", "payload": "x" }], "ended": false });
        withhold(Verb::TracesRead, &mut answer);
        assert_eq!(answer["lines"][0], json!({ "topic": "a", "payload": null }));
    }
}
