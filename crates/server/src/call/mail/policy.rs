//! A connection of Postfix's policy delegation.

use std::io;
use std::time::Duration;

use stentor_call_protocol::{Status, Verdict};
use stentor_mail::policy::{Request, encode_action};
use stentor_procedure::{Answer, Content, Envelope, Format, Message, Need};

use super::link::{Link, Patience};
use super::{Ending, Visit, refusal, verdict};

/// Postfix closes a connection that it has not used for five minutes (`smtpd_policy_service_…`).
const IDLE_TIME: Duration = Duration::from_secs(3600);
/// How long a request may take to be whole: it is written at once.
const HALF_TIME: Duration = Duration::from_secs(30);
/// How long Postfix may take to take an answer.
const TAKING_TIME: Duration = Duration::from_secs(60);
/// How long a verdict may take: Postfix waits 100 seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// Answers requests until the connection ends.
pub(super) fn serve(visit: &Visit, mut link: Link) -> Result<(), Ending> {
    link.set_writing(TAKING_TIME)?;
    let mut patience = Patience::new(IDLE_TIME, HALF_TIME);
    let (mut input, mut is_another) = (Vec::new(), false);
    loop {
        match Request::decode(&input)? {
            Some((request, taken)) => {
                input.drain(..taken);
                let mut answer = Vec::new();
                encode_action(&action(&asked(visit, request)), &mut answer);
                link.write_all(&answer)?;
                is_another = true;
                if input.is_empty() && !visit.set_busy(false) {
                    return Ok(());
                }
            }
            // At the end of a connection nothing is left.
            None => {
                let is_first = input.is_empty();
                match patience.read(&mut link, &mut input, is_another) {
                    Err(ending) if ending.is_end() && is_first => return Ok(()),
                    Err(ending) if ending.is_end() => {
                        return Err(io::Error::other("in the middle of a request").into());
                    }
                    read => read?,
                }
                is_another = false;
                // From the first byte of a request to its answer the connection is busy.
                if is_first && !visit.set_busy(true) {
                    // It was made to go while this was on its way.
                    return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
                }
            }
        }
    }
}

fn asked(visit: &Visit, request: Request) -> Answer {
    let size = request.size.unwrap_or(0);
    let content = Content::Bytes(Vec::new());
    let message = match Message::new(content, size, Format::Message) {
        Ok((message, _)) => message,
        Err(error) => return Answer::failed(Status::Failed, &error.to_string()),
    };
    let envelope = Envelope {
        from: request.sender,
        recipients: request.recipient.into_iter().collect(),
        client: request.client,
        helo: request.helo,
        user: request.user,
        queue_id: request.queue_id,
        message_id: None,
    };
    let mut call = visit.about(envelope, message);
    // It is there before the queue id is, so that a procedure can count messages.
    let instance = request.instance.map(|it| ("instance".to_owned(), it));
    call.arguments.extend(instance);
    let version = visit.find();
    let needs = version.as_ref().map(|version| version.needs());
    if needs.is_some_and(|needs| needs > Need::Envelope) {
        let reason = "the procedure needs more of the message than a policy request has";
        return visit.refuse(&call, Status::BadCall, reason);
    }
    visit.ask(version.as_deref(), call, PATIENCE)
}

/// The action that Postfix takes. An acceptance leaves the decision to the restrictions that
/// follow: `OK` would skip them.
fn action(answer: &Answer) -> String {
    let text = answer.text();
    match verdict(answer) {
        Verdict::Accept | Verdict::Modified => "DUNNO".to_owned(),
        Verdict::Reject | Verdict::Tempfail => refusal(answer).to_string(),
        Verdict::Discard => format!("DISCARD {text}"),
        Verdict::Quarantine => format!("HOLD {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_procedure::Outcome;

    #[test]
    fn verdicts_are_actions() {
        for (verdict, expected) in [
            (Verdict::Accept, "DUNNO"),
            (Verdict::Modified, "DUNNO"),
            (Verdict::Reject, "554 5.7.1 why"),
            (Verdict::Tempfail, "451 4.7.1 why"),
            (Verdict::Discard, "DISCARD why"),
            (Verdict::Quarantine, "HOLD why"),
        ] {
            let answer = Answer::done(Outcome::of(verdict, "why"));
            assert_eq!(action(&answer), expected);
        }
        // What only the operator is to know stays in the log.
        let failed = Answer::failed(Status::Failed, "x.luau:3: oops");
        assert_eq!(
            action(&failed),
            "451 4.7.1 the message cannot be checked now"
        );
        let open = Answer {
            advice: Some(Verdict::Accept),
            ..failed
        };
        assert_eq!(action(&open), "DUNNO");
    }
}
