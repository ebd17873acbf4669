//! Procedures that are HTTP endpoints: the message is posted to a URL, and the verdict comes back
//! as JSON.

use std::sync::Arc;
use std::time::Instant;

use stentor_call_protocol::Status;

use crate::answer::Answer;
use crate::call::Call;
use crate::manifest::{Manifest, Need};
use crate::net::http::{self, Request, Url};
use crate::net::is_late;
use crate::outside::Outside;
use crate::queue::Runner;
use crate::said;

/// Bytes of all recipients that are shown to an endpoint.
const RECIPIENTS_BYTES_MAX: usize = 32 * 1024;

/// Asks an endpoint.
pub(crate) struct EndpointRunner {
    pub(crate) url: Url,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) outside: Outside,
}

impl Runner for EndpointRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        let body = match self.manifest.needs {
            Need::Size | Need::Envelope => Ok(Vec::new()),
            Need::Headers => call.message.headers(),
            Need::Body => call.message.read(),
        };
        let asked = body.and_then(|body| {
            let request = Request {
                method: "POST",
                url: &self.url,
                headers: &headers(call),
                body: &body,
            };
            http::exchange(&request, &self.outside.trust, end)
        });
        match asked {
            Ok(response) if response.status == 200 => match said::outcome(&response.body) {
                Ok(outcome) => Answer::done(outcome),
                Err(reason) => failed(&format!("the endpoint's answer is not a verdict: {reason}")),
            },
            Ok(response) => failed(&format!("the endpoint said {}", response.status)),
            Err(error) if is_late(&error) => {
                Answer::failed(Status::TimedOut, "the endpoint did not answer in time")
            }
            Err(error) => failed(&format!("the endpoint: {error}")),
        }
    }
}

fn failed(reason: &str) -> Answer {
    Answer::failed(Status::Failed, reason)
}

/// What an endpoint receives besides the message: `Stentor-From`, `Stentor-Rcpt` and so on, and
/// arguments as `Stentor-Arg-NAME`.
fn headers(call: &Call) -> Vec<(String, String)> {
    let envelope = &call.envelope;
    let recipients = crate::answer::line(&envelope.recipients.join(", "), RECIPIENTS_BYTES_MAX);
    let known = [
        ("Content-Type", Some("message/rfc822")),
        ("Stentor-Procedure", Some(call.procedure.as_str())),
        ("Stentor-From", envelope.from.as_deref()),
        ("Stentor-Rcpt", Some(recipients.as_str())),
        ("Stentor-Client", envelope.client.as_deref()),
        ("Stentor-Helo", envelope.helo.as_deref()),
        ("Stentor-User", envelope.user.as_deref()),
        ("Stentor-Queue-Id", envelope.queue_id.as_deref()),
    ];
    let clean = |value: &str| crate::answer::line(value, RECIPIENTS_BYTES_MAX);
    let mut headers: Vec<(String, String)> = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), clean(value?))))
        .collect();
    headers.push(("Stentor-Size".to_owned(), call.message.size().to_string()));
    for (name, value) in &call.arguments {
        // Dots are for names of procedures and arguments, not for those of headers.
        let name = format!("Stentor-Arg-{}", name.replace('.', "-"));
        headers.push((name, clean(value)));
    }
    headers
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use stentor_call_protocol::Verdict;

    use super::*;
    use crate::message::{Content, Message};
    use crate::script::empty_call;

    /// What an endpoint gets, and what becomes of its answer.
    fn ask(response: &'static str) -> (String, Answer) {
        let (send, heard) = std::sync::mpsc::channel();
        let address = crate::net::serve(move |mut stream| {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !request.ends_with(b"body\n") {
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
                    _ => break,
                }
            }
            let _ = send.send(String::from_utf8_lossy(&request).into_owned());
            let _ = stream.write_all(response.as_bytes());
        });
        let text = format!("kind = \"http\"\nurl = \"http://{address}/check\"\ndeadline = \"60s\"");
        let manifest = Manifest::of_file(&text).unwrap();
        let crate::manifest::Kind::Http(url) = manifest.kind.clone() else {
            panic!("not an endpoint");
        };
        let mut call = empty_call("p");
        call.envelope.from = Some("a@b\r\nX: y".into());
        call.envelope.recipients = vec!["c@d".into(), "e@f".into()];
        call.arguments = vec![("a.b".into(), "1".into())];
        let content = Content::Bytes(b"T: u\n\nbody\n".to_vec());
        call.message = Message::new(content, 0, crate::Format::Message).unwrap().0;
        let manifest = Arc::new(manifest);
        let mut runner = EndpointRunner {
            url,
            manifest,
            outside: Outside::default(),
        };
        let answer = runner.run(&call);
        (heard.recv().unwrap(), answer)
    }

    #[test]
    fn an_endpoint_sees_the_message_and_says_a_verdict() {
        let (heard, answer) = ask("HTTP/1.1 200 OK\r\n\r\n\
             {\"verdict\":\"reject\",\"text\":\"no\",\"code\":550,\"status\":\"5.7.1\"}");
        for part in [
            "POST /check HTTP/1.0\r\n",
            "\r\nStentor-From: a@b  X: y\r\n",
            "\r\nStentor-Rcpt: c@d, e@f\r\n",
            "\r\nStentor-Arg-a-b: 1\r\n",
            "\r\nStentor-Size: 11\r\n",
            "\r\n\r\nT: u\n\nbody\n",
        ] {
            assert!(heard.contains(part), "{part:?} is not in {heard}");
        }
        let outcome = answer.outcome.unwrap();
        assert_eq!(
            (outcome.verdict, outcome.reply_code),
            (Verdict::Reject, 550)
        );
        assert_eq!((&*outcome.text, &*outcome.enhanced), ("no", "5.7.1"));
    }

    #[test]
    fn what_is_no_verdict_is_a_failure() {
        for (response, reason) in [
            ("HTTP/1.1 500 Oops\r\n\r\n", "said 500"),
            ("HTTP/1.1 200 OK\r\n\r\nok", "not a verdict"),
            (
                "HTTP/1.1 200 OK\r\n\r\n{\"verdict\":\"modified\"}",
                "modified",
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n{\"verdict\":\"accept\",\"code\":200}",
                "200",
            ),
            ("", "too early"),
        ] {
            let (_, answer) = ask(response);
            assert_eq!(answer.status, Status::Failed, "{response}");
            assert!(answer.reason.contains(reason), "{response}: {answer:?}");
        }
    }
}
