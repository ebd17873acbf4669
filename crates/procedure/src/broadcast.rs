//! `/broadcast`: one message to many recipients, by the rights of the caller.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::call::Call;
use crate::outlet::{Parcel, Recipient, Sent, Unsent};

/// Recipients of one broadcast.
pub(crate) const RECIPIENTS_MAX: usize = 1_000;
/// The longest message, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 256 * 1024;
/// All messages of one broadcast together, in bytes.
const ALL_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Recipients that the answer names because they did not get the message.
const NAMED_MAX: usize = 100;
/// How long one broadcast may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// So long before the deadline the answer has to be ready.
const MARGIN: Duration = Duration::from_millis(50);

/// Arguments that mail servers' clients add to every call, and that mean nothing here.
const ENVELOPE: [&str; 6] = ["from", "rcpt", "client", "helo", "user", "queue-id"];

/// What the arguments of a call say.
struct Asked {
    recipients: Vec<Recipient>,
    text: Option<String>,
    qos: u8,
}

/// Sends the message of a call to the recipients that its arguments name.
pub(crate) fn run(call: &Call) -> Answer {
    let parcel = match parcel(call) {
        Ok(parcel) => parcel,
        Err((status, reason)) => return Answer::failed(status, &reason),
    };
    let Some(outlet) = &call.outlet else {
        return Answer::failed(
            Status::NotAllowed,
            "a broadcast needs a caller with rights of its own; an adaptor has `publish` and `send`",
        );
    };
    let recipients = parcel.recipients.clone();
    let end = call.deadline.checked_sub(MARGIN).unwrap_or(call.deadline);
    match outlet.send(parcel, end) {
        Ok(sent) => report(&recipients, &sent),
        Err(unsent) => {
            let status = match unsent {
                Unsent::TooFast(_) | Unsent::Busy => Status::Overloaded,
                Unsent::Stopping => Status::Failed,
            };
            Answer::failed(status, &unsent.to_string())
        }
    }
}

fn parcel(call: &Call) -> Result<Parcel, (Status, String)> {
    let asked = read(&call.arguments).map_err(|reason| (Status::BadCall, reason))?;
    let bad = |reason: String| Err((Status::BadCall, reason));
    let payload = match (asked.text, call.message.exists()) {
        (Some(_), true) => {
            return bad("there is a message and -text; leave one of them out".to_owned());
        }
        (None, false) => {
            let ways = "give it by -text TEXT; stentor-call shows a file by --file FILE";
            return bad(format!("there is no message to send; {ways}"));
        }
        (Some(text), false) => text.into_bytes(),
        (None, true) if call.message.size() > MESSAGE_BYTES_MAX => {
            let size = call.message.size();
            let reason = format!("the message has {size} bytes; the limit is {MESSAGE_BYTES_MAX}");
            return bad(reason);
        }
        (None, true) => {
            let read = call.message.read();
            read.map_err(|error| (Status::Failed, error.to_string()))?
        }
    };
    let all = payload.len().saturating_mul(asked.recipients.len());
    if all > ALL_BYTES_MAX {
        let (bytes, count) = (payload.len(), asked.recipients.len());
        return bad(format!(
            "{bytes} bytes for {count} recipients are {all} bytes; the limit is {ALL_BYTES_MAX}: \
             call once for each part of the recipients"
        ));
    }
    Ok(Parcel {
        recipients: asked.recipients,
        payload: payload.into(),
        qos: asked.qos,
    })
}

/// Reads the arguments. A recipient that is named twice gets one message.
fn read(arguments: &[(String, String)]) -> Result<Asked, String> {
    let mut asked = Asked {
        recipients: Vec::new(),
        text: None,
        qos: 1,
    };
    let mut known = BTreeSet::new();
    for (name, value) in arguments {
        let recipient = match name.as_str() {
            "to" => Recipient::User(value.clone()),
            "topic" => Recipient::Topic(value.clone()),
            "text" if asked.text.is_none() => {
                asked.text = Some(value.clone());
                continue;
            }
            "text" => return Err("-text is given twice; a broadcast has one message".to_owned()),
            "qos" => {
                asked.qos = match value.as_str() {
                    "0" => 0,
                    "1" => 1,
                    "2" => 2,
                    _ => return Err(format!("-qos {value}: it is 0, 1 or 2")),
                };
                continue;
            }
            name if ENVELOPE.contains(&name) => continue,
            name => {
                let known = "/broadcast has -to, -topic, -text and -qos";
                return Err(format!("-{name:.64}: {known}"));
            }
        };
        if known.insert(recipient.clone()) {
            asked.recipients.push(recipient);
        }
    }
    match asked.recipients.len() {
        0 => Err("nobody is to get it; name users by -to USER and topics by -topic TOPIC".into()),
        count if count > RECIPIENTS_MAX => Err(format!(
            "there are {count} recipients; the limit is {RECIPIENTS_MAX}: call once for each part \
             of them"
        )),
        _ => Ok(asked),
    }
}

/// The result of a call, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    sent: usize,
    unheard: usize,
    refused: usize,
    /// Recipients without the message, up to [`NAMED_MAX`].
    missed: Vec<Missed<'a>>,
}

/// Somebody who did not get the message, and why.
#[derive(Serialize)]
struct Missed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    status: &'a str,
    text: &'a str,
}

fn report(recipients: &[Recipient], sent: &[Option<Sent>]) -> Answer {
    let mut report = Report {
        sent: 0,
        unheard: 0,
        refused: 0,
        missed: Vec::new(),
    };
    let mut unknown = 0;
    for (place, recipient) in recipients.iter().enumerate() {
        let (status, text) = match sent.get(place).and_then(Option::as_ref) {
            None => {
                unknown += 1;
                continue;
            }
            Some(Sent::Taken) => {
                report.sent += 1;
                continue;
            }
            Some(Sent::Unheard(text)) => {
                report.unheard += 1;
                ("nobody-listening", text.as_str())
            }
            Some(Sent::Refused { status, text }) => {
                report.refused += 1;
                (status.as_str(), text.as_str())
            }
        };
        if report.missed.len() < NAMED_MAX {
            let (to, topic) = match recipient {
                Recipient::User(user) => (Some(user.as_str()), None),
                Recipient::Topic(topic) => (None, Some(topic.as_str())),
            };
            report.missed.push(Missed {
                to,
                topic,
                status,
                text,
            });
        }
    }
    let count = recipients.len();
    let mut text = format!("sent to {} of {count}", report.sent);
    for (missed, why) in [(report.refused, "refused"), (report.unheard, "unheard")] {
        if missed > 0 {
            text.push_str(&format!(", {missed} {why}"));
        }
    }
    if unknown > 0 {
        let reason = format!("{text}; it is not known whether {unknown} others have it");
        return Answer::failed(Status::TimedOut, &reason);
    }
    let verdict = match report.refused {
        0 => Verdict::Accept,
        _ => Verdict::Reject,
    };
    let mut outcome = Outcome::of(verdict, &text);
    // Numbers and text always serialise.
    outcome.result = serde_json::to_vec(&report).unwrap_or_default();
    outcome.result.push(b'\n');
    Answer::done(outcome)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;
    use crate::message::{Content, Message};
    use crate::outlet::Outlet;
    use crate::script::empty_call;
    use stentor_call_protocol::Format;

    /// Says this of each recipient, and remembers the parcel.
    #[derive(Debug)]
    struct Post {
        says: Result<Vec<Option<Sent>>, Unsent>,
        got: Mutex<Option<Parcel>>,
    }

    impl Outlet for Post {
        fn send(&self, parcel: Parcel, _: Instant) -> Result<Vec<Option<Sent>>, Unsent> {
            *self.got.lock().unwrap() = Some(parcel);
            self.says.clone()
        }
    }

    fn post(says: Result<Vec<Option<Sent>>, Unsent>) -> Arc<Post> {
        let got = Mutex::default();
        Arc::new(Post { says, got })
    }

    fn call(arguments: &[(&str, &str)], post: &Arc<Post>) -> Call {
        let pairs = arguments.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Call {
            arguments: pairs.collect(),
            outlet: Some(Arc::clone(post) as Arc<dyn Outlet>),
            ..empty_call("broadcast")
        }
    }

    fn with_message(mut call: Call, bytes: usize) -> Call {
        let content = Content::Bytes(vec![b'x'; bytes]);
        call.message = Message::new(content, 0, Format::Message).unwrap().0;
        call
    }

    #[test]
    fn arguments_say_what_and_to_whom() {
        let post = post(Ok(vec![Some(Sent::Taken); 3]));
        let arguments = [
            ("to", "ann"),
            ("topic", "a/b"),
            ("to", "ann"),
            ("from", "x@y"),
            ("qos", "2"),
            ("to", "bob"),
            ("text", "hi"),
        ];
        let answer = run(&call(&arguments, &post));
        let outcome = answer.outcome.expect("an outcome");
        assert_eq!(outcome.verdict, Verdict::Accept);
        assert_eq!(outcome.text, "sent to 3 of 3");
        let json = b"{\"sent\":3,\"unheard\":0,\"refused\":0,\"missed\":[]}\n";
        assert_eq!(outcome.result, json);
        let got = post.got.lock().unwrap().take().expect("a parcel");
        let user = |name: &str| Recipient::User(name.to_owned());
        let topic = Recipient::Topic("a/b".to_owned());
        assert_eq!(got.recipients, [user("ann"), topic, user("bob")]);
        assert_eq!((&*got.payload, got.qos), (b"hi".as_slice(), 2));
        // A message in the place of -text.
        run(&with_message(call(&[("to", "ann")], &post), 3));
        let got = post.got.lock().unwrap().take().expect("a parcel");
        assert_eq!((&*got.payload, got.qos), (b"xxx".as_slice(), 1));
    }

    #[test]
    fn what_is_too_much_or_makes_no_sense_is_refused() {
        let post = post(Ok(Vec::new()));
        let names: Vec<String> = (0..=RECIPIENTS_MAX).map(|n| n.to_string()).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| ("to", name.as_str())).collect();
        let text = ("text", "hi");
        let most = usize::try_from(MESSAGE_BYTES_MAX).unwrap();
        for (call, word) in [
            (call(&[text], &post), "-to USER"),
            (
                call(&[&many[..], &[text]].concat(), &post),
                "the limit is 1000",
            ),
            (
                call(&[("to", "a"), ("qos", "3"), text], &post),
                "-qos 3: it is 0, 1 or 2",
            ),
            (
                call(&[("to", "a"), ("topics", "b"), text], &post),
                "-topics: /broadcast has",
            ),
            (
                call(&[("to", "a"), text, text], &post),
                "-text is given twice",
            ),
            (call(&[("to", "a")], &post), "no message"),
            (
                with_message(call(&[("to", "a"), text], &post), 1),
                "leave one",
            ),
            (
                with_message(call(&[("to", "a")], &post), most + 1),
                "the limit is 262144",
            ),
            (
                with_message(call(&many[..17], &post), most),
                "the limit is 4194304",
            ),
        ] {
            let answer = run(&call);
            assert_eq!(answer.status, Status::BadCall, "{word}");
            assert!(answer.reason.contains(word), "{}: {word}", answer.reason);
        }
        assert!(post.got.lock().unwrap().is_none());
        // The most of both is fine.
        run(&with_message(call(&many[..16], &post), most));
        assert!(post.got.lock().unwrap().is_some());
        let nobody = Call {
            outlet: None,
            ..call(&[("to", "a"), text], &post)
        };
        assert_eq!(run(&nobody).status, Status::NotAllowed);
    }

    #[test]
    fn the_answer_names_those_who_were_missed() {
        let refused = || Sent::Refused {
            status: "not-allowed".to_owned(),
            text: "no right".to_owned(),
        };
        let says = vec![
            Some(Sent::Taken),
            Some(refused()),
            Some(Sent::Unheard("nobody".to_owned())),
        ];
        let arguments = [("to", "a"), ("topic", "b"), ("to", "c"), ("text", "hi")];
        let answer = run(&call(&arguments, &post(Ok(says))));
        let outcome = answer.outcome.expect("an outcome");
        assert_eq!(outcome.verdict, Verdict::Reject);
        assert_eq!(outcome.text, "sent to 1 of 3, 1 refused, 1 unheard");
        let json: serde_json::Value = serde_json::from_slice(&outcome.result).unwrap();
        let expected = serde_json::json!([
            { "topic": "b", "status": "not-allowed", "text": "no right" },
            { "to": "c", "status": "nobody-listening", "text": "nobody" },
        ]);
        assert_eq!(json["missed"], expected);
        // A user that is merely away is not a reason to refuse.
        let says = vec![Some(Sent::Taken), Some(Sent::Unheard(String::new()))];
        let answer = run(&call(&arguments[..2], &post(Ok(says))));
        assert_eq!(answer.status, Status::BadCall, "no message");
        let says = vec![Some(Sent::Unheard(String::new()))];
        let arguments = [("to", "a"), ("text", "hi")];
        let answer = run(&call(&arguments, &post(Ok(says))));
        assert_eq!(answer.verdict(), Some(Verdict::Accept));
        // Of many, the first are named.
        let names: Vec<String> = (0..RECIPIENTS_MAX).map(|n| n.to_string()).collect();
        let many = names.iter().map(|name| ("to", name.as_str()));
        let many: Vec<(&str, &str)> = many.chain([("text", "hi")]).collect();
        let says = vec![Some(refused()); RECIPIENTS_MAX];
        let answer = run(&call(&many, &post(Ok(says))));
        let outcome = answer.outcome.expect("an outcome");
        let json: serde_json::Value = serde_json::from_slice(&outcome.result).unwrap();
        assert_eq!(json["refused"], RECIPIENTS_MAX);
        assert_eq!(json["missed"].as_array().unwrap().len(), NAMED_MAX);
    }

    #[test]
    fn what_is_not_known_is_no_outcome() {
        let arguments = [("to", "a"), ("to", "b"), ("to", "c"), ("text", "hi")];
        let says = vec![Some(Sent::Taken), None];
        let answer = run(&call(&arguments, &post(Ok(says))));
        assert_eq!(answer.status, Status::TimedOut);
        let reason = "sent to 1 of 3; it is not known whether 2 others have it";
        assert_eq!(answer.reason, reason);
        for (unsent, status) in [
            (Unsent::TooFast(Duration::from_secs(3)), Status::Overloaded),
            (Unsent::Busy, Status::Overloaded),
            (Unsent::Stopping, Status::Failed),
        ] {
            let answer = run(&call(&arguments, &post(Err(unsent))));
            assert_eq!(answer.status, status, "{}", answer.reason);
        }
    }
}
