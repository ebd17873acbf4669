//! A connection of a mail server that speaks the milter protocol.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stentor_call_protocol::{Status, Verdict};
use stentor_mail::milter::{Command, Event, Reply, Session, changes};
use stentor_procedure::{
    Answer, Change, Content, Envelope, Format, Message, Need, Procedure, message_id,
};

use super::link::{Link, Patience};
use super::{Ending, Visit, refusal, verdict};
use crate::call::body::{Body, Unkept};

/// How long a connection may say nothing, as filters made with Sendmail's own library have it.
const IDLE_TIME: Duration = Duration::from_secs(7210);
/// How long a command may take to be whole: longer than a mail server waits for its client, for
/// Postfix writes when its buffer is full, which may be in the midst of one.
const HALF_TIME: Duration = Duration::from_secs(600);
/// How long the mail server may take to take a reply.
const TAKING_TIME: Duration = Duration::from_secs(60);
/// How long a verdict on an envelope may take: Postfix waits 30 seconds for a command's reply.
const COMMAND_PATIENCE: Duration = Duration::from_secs(25);
/// How long a verdict on a message may take: mail servers wait five minutes.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(250);

/// Answers commands until the connection ends.
pub(super) fn serve(visit: &Visit, link: Link) -> Result<(), Ending> {
    link.set_writing(TAKING_TIME)?;
    let mut patience = Patience::new(IDLE_TIME, HALF_TIME);
    let mut conversation = Conversation {
        visit,
        link,
        session: Session::new(),
        message: Arriving::default(),
    };
    let mut input = Vec::new();
    let mut was_busy = false;
    loop {
        let mut taken = 0;
        while let Some((command, len)) = Command::decode(&input[taken..])? {
            taken += len;
            let event = conversation.session.receive(&command)?;
            if matches!(event, Event::Over) {
                return Ok(());
            }
            conversation.follow(event)?;
        }
        input.drain(..taken);
        let is_busy = conversation.session.in_message() || !input.is_empty();
        // An idle visit reports that each time, because the length of its silence counts.
        let stays_busy = is_busy && was_busy;
        if !stays_busy && !visit.set_busy(is_busy) {
            return Ok(());
        }
        was_busy = is_busy;
        match patience.read(&mut conversation.link, &mut input, taken > 0) {
            // Postfix ends connections by closing them as well.
            Err(ending) if ending.is_end() && input.is_empty() => return Ok(()),
            read => read?,
        }
    }
}

struct Conversation<'a> {
    visit: &'a Visit,
    link: Link,
    session: Session,
    message: Arriving,
}

/// What has come of a message's body, as far as the procedure has to see it.
#[derive(Default)]
struct Arriving {
    /// The procedure as it was when the message began, if there was one then: another version may
    /// need what was not kept.
    version: Option<Option<Arc<Procedure>>>,
    /// Bytes of the body.
    size: u64,
    kept: Kept,
    /// The verdict on the envelope, if there was one that has to wait for the end.
    decided: Option<Answer>,
}

/// Headers and body of a message, if the procedure needs the body.
#[derive(Default)]
enum Kept {
    #[default]
    Nothing,
    Body(Body),
    /// It is not whole, and there is no verdict on it.
    Lost(Unkept),
}

impl Conversation<'_> {
    fn follow(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Nothing | Event::Over => Ok(()),
            Event::Answer(reply) => self.say(&reply),
            Event::Envelope => self.envelope(),
            Event::Body(piece, wants_reply) => {
                self.keep(piece);
                if wants_reply {
                    self.say(&Reply::Continue)?;
                }
                Ok(())
            }
            Event::End(piece) => {
                self.keep(piece);
                let replies = self.end()?;
                self.message = Arriving::default();
                self.session.settle();
                self.link.write_all(&replies)
            }
            Event::Reset(wants_reply) => {
                self.message = Arriving::default();
                if wants_reply {
                    self.say(&Reply::Continue)?;
                }
                Ok(())
            }
        }
    }

    fn say(&mut self, reply: &Reply<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        self.link.write_all(&bytes)
    }

    /// The procedure that is asked about this message.
    fn version(&mut self) -> Option<Arc<Procedure>> {
        let version = &mut self.message.version;
        version.get_or_insert_with(|| self.visit.find()).clone()
    }

    /// A procedure that sees only envelopes is asked now, before the message is sent at all; so is
    /// one that this mail server may not ask, to be refused.
    fn envelope(&mut self) -> io::Result<()> {
        let version = self.version();
        let is_decided = version.as_ref().is_some_and(|version| {
            version.needs() == Need::Envelope || !version.admits(&self.visit.caller)
        });
        if !is_decided {
            return self.say(&Reply::Continue);
        }
        let size = self.session.transaction().announced.unwrap_or(0);
        let answer = match message(Content::Bytes(Vec::new()), size) {
            Ok(message) => {
                let call = self.visit.about(self.known(), message);
                let version = version.as_deref();
                self.visit.ask(version, call, COMMAND_PATIENCE)
            }
            Err(error) => Answer::failed(Status::Failed, &error.to_string()),
        };
        if verdict(&answer) == Verdict::Quarantine {
            // It can be put aside once it is there.
            self.message.decided = Some(answer);
            return self.say(&Reply::Continue);
        }
        let mut replies = Vec::new();
        final_reply(&answer, false, &mut replies);
        self.message = Arriving::default();
        self.session.settle();
        self.link.write_all(&replies)
    }

    /// Takes a piece of the body.
    fn keep(&mut self, piece: &[u8]) {
        let version = self.version();
        self.message.size += piece.len() as u64;
        let caller = &self.visit.caller;
        let is_wanted = version.is_some_and(|version| {
            version.needs() == Need::Body
                && self.size() <= version.max_body()
                && version.admits(caller)
        });
        if !is_wanted {
            // Beyond what is looked at, only the size counts.
            self.message.kept = Kept::Nothing;
            return;
        }
        let kept = match std::mem::take(&mut self.message.kept) {
            Kept::Nothing => {
                let mut body = self.visit.shared.bodies.begin(caller);
                body.add(&self.head()).map(|()| body)
            }
            Kept::Body(body) => Ok(body),
            Kept::Lost(why) => Err(why),
        };
        let kept = kept.and_then(|mut body| body.add(piece).map(|()| body));
        self.message.kept = kept.map_or_else(Kept::Lost, Kept::Body);
    }

    /// The headers with the empty line that ends them.
    fn head(&self) -> Vec<u8> {
        [&self.session.transaction().headers[..], b"\r\n"].concat()
    }

    /// The size of the message as far as it has come.
    fn size(&self) -> u64 {
        self.session.transaction().headers.len() as u64 + 2 + self.message.size
    }

    fn known(&self) -> Envelope {
        let transaction = self.session.transaction();
        Envelope {
            from: transaction.sender.clone(),
            recipients: transaction.recipients.clone(),
            client: self.session.client().map(str::to_owned),
            helo: self.session.helo().map(str::to_owned),
            user: transaction.user.clone(),
            queue_id: transaction.queue_id.clone(),
            message_id: message_id(&transaction.headers),
        }
    }

    /// The message is complete: the replies that end it.
    fn end(&mut self) -> io::Result<Vec<u8>> {
        let can_quarantine = self.session.can_quarantine();
        let mut replies = Vec::new();
        if let Some(answer) = self.message.decided.take() {
            final_reply(&answer, can_quarantine, &mut replies);
            return Ok(replies);
        }
        let (size, head) = (self.size(), self.head());
        let (content, _share) = match std::mem::take(&mut self.message.kept) {
            Kept::Nothing => (Content::Bytes(head.clone()), None),
            Kept::Body(body) => {
                debug_assert_eq!(body.len(), size, "all of it was kept");
                let (content, share) = body.content();
                (content, Some(share))
            }
            Kept::Lost(unkept) => {
                let (status, reason) = unkept.why();
                let message = message(Content::Bytes(head), size)?;
                let call = self.visit.about(self.known(), message);
                let answer = self.visit.refuse(&call, status, &reason);
                final_reply(&answer, can_quarantine, &mut replies);
                return Ok(replies);
            }
        };
        let message = message(content, size)?;
        let whole = if self.session.can_edit() && message.is_whole() {
            message.read()?
        } else {
            head
        };
        let mut call = self.visit.about(self.known(), message);
        call.can_edit = self.session.can_edit();
        let version = self.version();
        let answer = self.visit.ask(version.as_deref(), call, MESSAGE_PATIENCE);
        if let (Verdict::Modified, Some(outcome)) = (verdict(&answer), &answer.outcome) {
            match apply(&whole, &outcome.changes) {
                Some(changed) => {
                    replies = changes(&whole, &changed, self.session.has_space());
                }
                None => {
                    let reason = "a change is outside of the part of the message that was received";
                    let failed = Answer::failed(Status::Failed, reason);
                    tracing::warn!("{}: {reason}; mail is deferred", self.visit.endpoint.url);
                    final_reply(&failed, can_quarantine, &mut replies);
                    return Ok(replies);
                }
            }
        }
        final_reply(&answer, can_quarantine, &mut replies);
        Ok(replies)
    }
}

fn message(content: Content, size: u64) -> io::Result<Message> {
    Message::new(content, size, Format::Message).map(|(message, _)| message)
}

/// The message with the changes, which are in order; `None` if one lies outside of it.
fn apply(message: &[u8], changes: &[Change]) -> Option<Vec<u8>> {
    let mut changed = Vec::new();
    let mut at = 0;
    for change in changes {
        let offset = usize::try_from(change.offset).ok()?;
        changed.extend_from_slice(message.get(at..offset)?);
        changed.extend_from_slice(&change.inserted);
        at = offset.checked_add(usize::try_from(change.deleted).ok()?)?;
    }
    changed.extend_from_slice(message.get(at..)?);
    Some(changed)
}

/// Appends the reply that ends a message.
fn final_reply(answer: &Answer, can_quarantine: bool, replies: &mut Vec<u8>) {
    match verdict(answer) {
        Verdict::Accept | Verdict::Modified => Reply::Accept.encode(replies),
        Verdict::Reject | Verdict::Tempfail => {
            Reply::Say(&refusal(answer).to_string()).encode(replies);
        }
        Verdict::Discard => Reply::Discard.encode(replies),
        Verdict::Quarantine if can_quarantine => {
            let reason = match answer.text() {
                "" => "put aside by a procedure",
                text => text,
            };
            Reply::Quarantine(reason).encode(replies);
            Reply::Accept.encode(replies);
        }
        // It must not pass, and there is nowhere to put it.
        Verdict::Quarantine => Reply::Tempfail.encode(replies),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_procedure::Outcome;

    #[test]
    fn verdicts_are_replies() {
        let encoded = |verdict, can_quarantine| {
            let answer = Answer::done(Outcome::of(verdict, "why"));
            let mut bytes = Vec::new();
            final_reply(&answer, can_quarantine, &mut bytes);
            bytes
        };
        assert_eq!(encoded(Verdict::Accept, true), b"\0\0\0\x01a");
        assert_eq!(encoded(Verdict::Discard, true), b"\0\0\0\x01d");
        assert_eq!(encoded(Verdict::Quarantine, false), b"\0\0\0\x01t");
        assert_eq!(
            encoded(Verdict::Quarantine, true),
            b"\0\0\0\x05qwhy\0\0\0\0\x01a"
        );
        let reject = encoded(Verdict::Reject, true);
        assert_eq!(reject, b"\0\0\0\x0fy554 5.7.1 why\0");
    }

    #[test]
    fn changes_are_applied_in_order() {
        let change = |offset, deleted, inserted: &str| Change {
            offset,
            deleted,
            inserted: inserted.into(),
        };
        let apply = |changes: &[Change]| apply(b"abcd", changes);
        let both = [change(0, 0, "x"), change(1, 2, "y")];
        assert_eq!(apply(&both).unwrap(), b"xayd");
        assert_eq!(apply(&[change(4, 0, "z")]).unwrap(), b"abcdz");
        assert_eq!(apply(&[change(5, 0, "z")]), None);
        assert_eq!(apply(&[change(3, 2, "")]), None);
    }
}
