//! `/history`: messages of a topic's history, by the rights of the caller.

use std::time::Duration;

use serde_json::{Map, Value};
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::call::Call;
use crate::outlet::{Question, Unread};

/// Messages of one answer.
const MESSAGES_MAX: u32 = 1_000;
/// Messages of an answer whose caller does not say how many.
const MESSAGES: u32 = 100;
/// The longest message with arguments, in bytes: a topic has 64 KiB at most.
pub(crate) const ARGUMENTS_BYTES_MAX: u64 = 128 * 1024;
/// How long it may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Arguments that mail servers' clients add to every call, and that mean nothing here.
const ENVELOPE: [&str; 6] = ["from", "rcpt", "client", "helo", "user", "queue-id"];

/// Answers a call: its arguments say which messages of which topic.
pub(crate) fn run(call: &Call) -> Answer {
    let question = match arguments(call).and_then(|arguments| read(&arguments)) {
        Ok(question) => question,
        Err(reason) => return Answer::failed(Status::BadCall, &reason),
    };
    let Some(outlet) = &call.outlet else {
        return Answer::failed(
            Status::NotAllowed,
            "/history needs a caller with rights of its own",
        );
    };
    match outlet.history(&question) {
        Ok(json) => {
            let mut outcome = Outcome::of(Verdict::Accept, "");
            outcome.result = json;
            outcome.result.push(b'\n');
            Answer::done(outcome)
        }
        Err(unread) => {
            let status = match unread {
                Unread::Denied(_) => Status::NotAllowed,
                Unread::Nonsense(_) => Status::BadCall,
                Unread::Stopping => Status::Failed,
            };
            Answer::failed(status, &unread.to_string())
        }
    }
}

/// The arguments of a call, and those in its message: a JSON object, for callers that have no
/// other way.
fn arguments(call: &Call) -> Result<Vec<(String, String)>, String> {
    let mut all = call.arguments.clone();
    if !call.message.exists() {
        return Ok(all);
    }
    if call.message.size() > ARGUMENTS_BYTES_MAX {
        return Err(format!(
            "the message has {} bytes; the limit is {ARGUMENTS_BYTES_MAX}",
            call.message.size()
        ));
    }
    let bytes = call.message.read().map_err(|error| error.to_string())?;
    let object: Map<String, Value> = serde_json::from_slice(&bytes)
        .map_err(|error| format!("the message is not a JSON object of arguments: {error}"))?;
    for (name, value) in object {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(format!("{name:.64} is neither a text nor a number")),
        };
        all.push((name, text));
    }
    Ok(all)
}

fn read(arguments: &[(String, String)]) -> Result<Question, String> {
    let (mut topic, mut ask, mut limit) = (None, None, None);
    for (name, value) in arguments {
        let known = match name.as_str() {
            "topic" => topic.replace(value.clone()).is_some(),
            "last" | "since" | "after" => ask.replace(format!("{name}:{value}")).is_some(),
            "limit" => {
                let number = value.parse().ok();
                let number = number.filter(|it| (1..=MESSAGES_MAX).contains(it));
                let wrong =
                    || format!("-limit {value:.64}: it is a number from 1 to {MESSAGES_MAX}");
                limit.replace(number.ok_or_else(wrong)?).is_some()
            }
            name if ENVELOPE.contains(&name) => false,
            name => {
                let known = "/history has -topic, -last, -since, -after and -limit";
                return Err(format!("-{name:.64}: {known}"));
            }
        };
        if known {
            return Err(format!(
                "-{name}: give each argument once, and one of -last, -since and -after"
            ));
        }
    }
    Ok(Question {
        topic: topic.ok_or("the topic is missing; name it by -topic TOPIC")?,
        ask,
        limit: limit.unwrap_or(MESSAGES),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use stentor_call_protocol::Format;

    use super::*;
    use crate::message::{Content, Message};
    use crate::outlet::{Outlet, Parcel, Sent, Unsent};
    use crate::script::empty_call;

    /// Answers so, and remembers what was asked.
    #[derive(Debug)]
    struct Shelf {
        says: Result<Vec<u8>, Unread>,
        got: Mutex<Option<Question>>,
    }

    impl Outlet for Shelf {
        fn send(&self, _: Parcel, _: Instant) -> Result<Vec<Option<Sent>>, Unsent> {
            Err(Unsent::Stopping)
        }

        fn history(&self, question: &Question) -> Result<Vec<u8>, Unread> {
            *self.got.lock().unwrap() = Some(question.clone());
            self.says.clone()
        }
    }

    fn ask(
        arguments: &[(&str, &str)],
        message: &str,
        says: Result<Vec<u8>, Unread>,
    ) -> (Answer, Option<Question>) {
        let got = Mutex::default();
        let shelf = Arc::new(Shelf { says, got });
        let pairs = arguments.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut call = Call {
            arguments: pairs.collect(),
            outlet: Some(Arc::clone(&shelf) as Arc<dyn Outlet>),
            ..empty_call("history")
        };
        if !message.is_empty() {
            let content = Content::Bytes(message.as_bytes().to_vec());
            call.message = Message::new(content, 0, Format::Message).unwrap().0;
        }
        let answer = run(&call);
        let got = shelf.got.lock().unwrap().take();
        (answer, got)
    }

    fn question(topic: &str, ask: Option<&str>, limit: u32) -> Question {
        Question {
            topic: topic.to_owned(),
            ask: ask.map(str::to_owned),
            limit,
        }
    }

    #[test]
    fn arguments_and_a_message_say_what_is_asked() {
        let json = || Ok(b"{}".to_vec());
        let all = [
            ("topic", "a/b"),
            ("last", "7"),
            ("limit", "9"),
            ("from", "x@y"),
        ];
        let (answer, got) = ask(&all, "", json());
        assert_eq!(got, Some(question("a/b", Some("last:7"), 9)));
        assert_eq!(answer.outcome.expect("an outcome").result, b"{}\n");
        let (_, got) = ask(&[("topic", "a")], "", json());
        assert_eq!(got, Some(question("a", None, MESSAGES)));
        let (_, got) = ask(&[], r#"{"topic":"a","after":5,"limit":"2"}"#, json());
        assert_eq!(got, Some(question("a", Some("after:5"), 2)));
        let (_, got) = ask(
            &[("topic", "a")],
            r#"{"since":"2026-01-31T12:00:00Z"}"#,
            json(),
        );
        assert_eq!(
            got,
            Some(question("a", Some("since:2026-01-31T12:00:00Z"), 100))
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
        let topic = ("topic", "a");
        for (arguments, message, word) in [
            (&[][..], "", "the topic is missing"),
            (&[topic, topic], "", "-topic: give each argument once"),
            (&[topic, ("last", "1"), ("after", "1")], "", "one of -last"),
            (&[topic, ("limit", "0")], "", "from 1 to 1000"),
            (&[topic, ("limit", "1001")], "", "from 1 to 1000"),
            (&[topic, ("limit", "x")], "", "-limit x"),
            (&[topic, ("first", "1")], "", "-first: /history has"),
            (&[topic], "[]", "not a JSON object"),
            (&[topic], r#"{"last":[1]}"#, "last is neither"),
            (&[topic], r#"{"topic":"b"}"#, "give each argument once"),
        ] {
            let (answer, got) = ask(arguments, message, Ok(Vec::new()));
            assert_eq!((answer.status, got), (Status::BadCall, None), "{word}");
            assert!(answer.text().contains(word), "{}", answer.text());
        }
        let long = format!("{{\"topic\":\"{}\"}}", "x".repeat(200_000));
        let (answer, _) = ask(&[], &long, Ok(Vec::new()));
        assert!(answer.text().contains("the limit is"), "{}", answer.text());
    }

    #[test]
    fn what_the_server_refuses_is_told() {
        for (unread, status) in [
            (Unread::Denied("a".into()), Status::NotAllowed),
            (Unread::Nonsense("last is".into()), Status::BadCall),
            (Unread::Stopping, Status::Failed),
        ] {
            let (answer, _) = ask(&[("topic", "a")], "", Err(unread));
            assert_eq!(answer.status, status);
        }
        let call = Call {
            arguments: vec![("topic".into(), "a".into())],
            ..empty_call("history")
        };
        assert_eq!(run(&call).status, Status::NotAllowed);
    }
}
