//! Procedures that connected MQTT clients serve: the call is handed to one of them, and the verdict
//! comes back as JSON.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use stentor_call_protocol::Status;
use stentor_call_protocol::limits::PROCEDURE_BYTES_MAX;

use crate::answer::{Answer, line};
use crate::call::Call;
use crate::manifest::{Manifest, Need};
use crate::queue::Runner;
use crate::said;

/// The longest value that is passed on.
const VALUE_BYTES_MAX: usize = 32 * 1024;
/// Bytes of all that is passed on beside the message.
const ALL_BYTES_MAX: usize = 256 * 1024;

/// Finds clients that serve procedures.
pub trait Clients: fmt::Debug + Send + Sync {
    /// Gives a request to one of the clients of a zone that serve the procedure, and waits for
    /// its answer until `end`.
    ///
    /// # Errors
    /// Why there is none.
    fn ask(&self, zone: &str, request: Request, end: Instant) -> Result<Vec<u8>, Unserved>;
}

/// The clients of a trial without a server.
#[derive(Debug)]
pub(crate) struct NoClients;

impl Clients for NoClients {
    fn ask(&self, _: &str, _: Request, _: Instant) -> Result<Vec<u8>, Unserved> {
        Err(Unserved::Nobody)
    }
}

/// What a client is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The procedure's name.
    pub procedure: String,
    /// What is known besides the message: names of at most 128 bytes, values of at most 32 KiB,
    /// all together at most 256 KiB; no control characters.
    pub properties: Vec<(String, String)>,
    /// As much of the message as the manifest says.
    pub message: Vec<u8>,
}

/// Why a client gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// There is none.
    #[error("no connected client serves this procedure")]
    Nobody,
    /// It has gone.
    #[error("the connection of the client that served this call has ended")]
    Gone,
    /// It takes no more.
    #[error("the client that serves this procedure does not keep up")]
    Busy,
    /// It takes no packet of this size.
    #[error("the message is larger than the packets that the client takes")]
    TooLarge,
    /// It did not answer by the deadline.
    #[error("the client that serves this procedure did not answer in time")]
    Late,
    /// Clients cannot be reached: the server ends, or the zone cannot be used.
    #[error("clients cannot be asked now")]
    Broken,
}

impl Unserved {
    const fn status(self) -> Status {
        match self {
            Self::Nobody => Status::Unavailable,
            Self::Busy => Status::Overloaded,
            Self::Late => Status::TimedOut,
            Self::Gone | Self::TooLarge | Self::Broken => Status::Failed,
        }
    }
}

/// Asks clients.
pub(crate) struct ClientRunner {
    pub(crate) clients: Arc<dyn Clients>,
    pub(crate) zone: String,
    pub(crate) manifest: Arc<Manifest>,
}

impl Runner for ClientRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        let message = match self.manifest.needs {
            Need::Size | Need::Envelope => Ok(Vec::new()),
            Need::Headers => call.message.headers(),
            Need::Body => call.message.read(),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => return Answer::failed(Status::Failed, &error.to_string()),
        };
        let properties = match properties(call) {
            Ok(properties) => properties,
            Err(reason) => return Answer::failed(Status::BadCall, &reason),
        };
        let request = Request {
            procedure: call.procedure.clone(),
            properties,
            message,
        };
        match self.clients.ask(&self.zone, request, end) {
            Ok(json) => match said::outcome(&json) {
                Ok(outcome) => Answer::done(outcome),
                Err(reason) => {
                    let reason = format!("the client's answer is not a verdict: {reason}");
                    Answer::failed(Status::Failed, &reason)
                }
            },
            Err(unserved) => Answer::failed(unserved.status(), &unserved.to_string()),
        }
    }
}

/// What a client receives besides the message: envelope, size, caller, and the arguments as
/// `arg-NAME`.
fn properties(call: &Call) -> Result<Vec<(String, String)>, String> {
    let envelope = &call.envelope;
    let caller = call.caller.name();
    let mut properties = vec![("size".to_owned(), call.message.size().to_string())];
    let known = [
        ("caller", Some(&*caller).filter(|name| !name.is_empty())),
        ("from", envelope.from.as_deref()),
        ("client", envelope.client.as_deref()),
        ("helo", envelope.helo.as_deref()),
        ("user", envelope.user.as_deref()),
        ("queue-id", envelope.queue_id.as_deref()),
    ];
    let mut bytes = 0;
    let mut add = |name: String, value: &str| {
        bytes += name.len() + value.len();
        if value.len() > VALUE_BYTES_MAX || bytes > ALL_BYTES_MAX {
            return Err(format!(
                "{name:.32}: a client receives values of up to {VALUE_BYTES_MAX} bytes, and up to \
                 {ALL_BYTES_MAX} bytes in all"
            ));
        }
        properties.push((name, line(value, VALUE_BYTES_MAX)));
        Ok(())
    };
    for (name, value) in known {
        if let Some(value) = value {
            add(name.to_owned(), value)?;
        }
    }
    for recipient in &envelope.recipients {
        add("rcpt".to_owned(), recipient)?;
    }
    for (name, value) in &call.arguments {
        if name.len() > PROCEDURE_BYTES_MAX {
            return Err(format!(
                "{name:.32}…: a client receives arguments with names of up to \
                 {PROCEDURE_BYTES_MAX} bytes"
            ));
        }
        let name = line(name, PROCEDURE_BYTES_MAX);
        add(format!("arg-{name}"), value)?;
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use stentor_call_protocol::Verdict;

    use super::*;
    use crate::message::{Content, Message};
    use crate::script::empty_call;

    /// Says one thing to everybody, and remembers what it was asked.
    #[derive(Debug)]
    struct Fake {
        says: Result<&'static str, Unserved>,
        asked: Mutex<Vec<(String, Request)>>,
    }

    impl Clients for Fake {
        fn ask(&self, zone: &str, request: Request, _: Instant) -> Result<Vec<u8>, Unserved> {
            let asked = (zone.to_owned(), request);
            self.asked.lock().unwrap().push(asked);
            self.says.map(|text| text.as_bytes().to_vec())
        }
    }

    fn run(says: Result<&'static str, Unserved>, call: &Call) -> (Answer, Option<Request>) {
        let asked = Mutex::default();
        let fake = Arc::new(Fake { says, asked });
        let text = "kind = \"client\"\nzone = \"game\"\nneeds = \"headers\"";
        let mut runner = ClientRunner {
            clients: Arc::clone(&fake) as _,
            zone: "game".into(),
            manifest: Arc::new(Manifest::of_file(text).unwrap()),
        };
        let answer = runner.run(call);
        let asked = fake.asked.lock().unwrap().pop();
        let request = asked.map(|(zone, request)| {
            assert_eq!(zone, "game");
            request
        });
        (answer, request)
    }

    fn asked() -> Call {
        let mut call = empty_call("check");
        call.envelope.from = Some("a@b\r\nc".into());
        call.envelope.recipients = vec!["c@d".into(), "e@f".into()];
        call.arguments = vec![("size".into(), "lie".into()), ("max".into(), "1".into())];
        let content = Content::Bytes(b"T: u\n\nbody\n".to_vec());
        call.message = Message::new(content, 0, crate::Format::Message).unwrap().0;
        call
    }

    #[test]
    fn a_client_sees_what_the_manifest_says_and_comes_to_a_verdict() {
        let (answer, request) = run(Ok(r#"{"verdict":"discard","text":"t"}"#), &asked());
        let request = request.unwrap();
        assert_eq!(request.message, b"T: u\n\n");
        let shown: Vec<String> = request
            .properties
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "size=11",
            "caller=test",
            "from=a@b  c",
            "rcpt=c@d",
            "rcpt=e@f",
            "arg-size=lie",
            "arg-max=1",
        ];
        assert_eq!(shown, expected);
        let outcome = answer.outcome.unwrap();
        assert_eq!((outcome.verdict, &*outcome.text), (Verdict::Discard, "t"));
    }

    #[test]
    fn without_an_answer_the_status_says_why() {
        for (unserved, status) in [
            (Unserved::Nobody, Status::Unavailable),
            (Unserved::Gone, Status::Failed),
            (Unserved::Busy, Status::Overloaded),
            (Unserved::TooLarge, Status::Failed),
            (Unserved::Late, Status::TimedOut),
            (Unserved::Broken, Status::Failed),
        ] {
            let (answer, _) = run(Err(unserved), &asked());
            assert_eq!(
                (answer.status, answer.reason),
                (status, unserved.to_string())
            );
        }
        let (answer, _) = run(Ok("yes"), &asked());
        assert_eq!(answer.status, Status::Failed);
        assert!(answer.reason.contains("not a verdict"), "{}", answer.reason);
    }

    #[test]
    fn what_is_too_long_is_not_passed_on() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let some = "x".repeat(VALUE_BYTES_MAX);
        for (name, value, count) in [("a", &long, 1), (&*some, &"v".into(), 1), ("a", &some, 9)] {
            let mut call = asked();
            call.arguments = vec![(name.to_owned(), value.clone()); count];
            let (answer, request) = run(Ok("{}"), &call);
            assert_eq!(answer.status, Status::BadCall, "{}", answer.reason);
            assert_eq!(request, None);
        }
    }
}
