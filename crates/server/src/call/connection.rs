//! One call on its connection.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use stentor_call_protocol::limits::{EDITS_MAX, INSERTED_BYTES_MAX};
use stentor_call_protocol::{
    Answer as Wire, Arrival, Call as WireCall, Edit, Reception, Status, Transfer, Verdict,
    Violation, encode_need_body,
};
use stentor_procedure::{Answer, Call, Closer, Content, Envelope, Message, Procedure};

use super::body::{Bodies, Body};
use super::identity::Claim;
use super::mounts::Mounts;
use super::stream::Stream;
use crate::fdtable::passing;

/// What is read at once.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Time for the caller to take the answer.
const TAKING_TIME: Duration = Duration::from_secs(10);

/// Where a call stands.
enum Phase {
    /// Not all of it has come.
    Arriving,
    /// The rest of the file is on its way.
    Receiving { asked: Box<Asked>, body: Body },
    /// It is found out who calls, or a procedure has it.
    Running,
    /// The answer leaves.
    Answering { bytes: Vec<u8>, sent: usize },
}

/// What a connection needs of its surroundings.
pub(super) struct Around<'a> {
    /// Finds the caller of a token; `None` if nobody has it.
    pub(super) claim: &'a dyn Fn(&[u8]) -> Option<Claim>,
    /// Which files may be read on this thread.
    pub(super) mounts: &'a Mounts,
}

/// What is to be done with a connection.
pub(super) enum Next {
    /// Nothing, until more happens.
    Wait,
    /// A call has come. If it is true who calls, and they may, hand it to the procedures, or
    /// [`Connection::ask`] for the rest of the message before; [`Connection::answer`] is to get
    /// what they say.
    Called(Box<Called>),
    /// The rest of the message is here: hand it to the procedure.
    Run(Box<Asked>),
    /// The message is not kept, and the call is over for this reason.
    Refuse(Box<Asked>, (Status, String)),
    /// The request is not a valid call: answer with this status and text.
    Wrong(Status, String),
    /// It is over.
    Close,
}

/// A call, and who says to make it.
pub(super) struct Called {
    pub(super) call: Call,
    pub(super) claim: Claim,
}

/// A call whose message was asked for, and the version that needs it.
pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) procedure: Arc<Procedure>,
    /// The message must be complete by then: a caller that sends slowly holds a place for no longer
    /// than the procedure may take.
    until: Instant,
}

/// One connection, which is one call.
pub(super) struct Connection {
    pub(super) stream: Stream,
    phase: Phase,
    reception: Reception,
    input: Vec<u8>,
    /// The file that came along.
    file: Option<OwnedFd>,
    /// Closes what came along and is not used.
    closer: Closer,
    can_edit: bool,
    /// When it is closed if nothing happens.
    pub(super) until: Instant,
}

impl Connection {
    /// A connection whose call has to come within that time.
    pub(super) fn new(stream: Stream, arrival_time: Duration, closer: Closer) -> Self {
        Self {
            stream,
            phase: Phase::Arriving,
            reception: Reception::new(),
            input: Vec::new(),
            file: None,
            closer,
            can_edit: false,
            until: Instant::now() + arrival_time,
        }
    }

    /// Whether it has not made its call.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.phase, Phase::Arriving)
    }

    /// Whether its answer is on its way.
    pub(super) const fn is_answering(&self) -> bool {
        matches!(self.phase, Phase::Answering { .. })
    }

    /// While its message is on its way: when that is no longer waited for.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Receiving { asked, .. } => Some(asked.until),
            _ => None,
        }
    }

    /// Waits no longer for a message that is on its way.
    pub(super) fn give_up(&mut self) -> Option<Box<Asked>> {
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Receiving { asked, .. } => Some(asked),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// Takes what has come, by way of a buffer for [`READ_BYTES`].
    pub(super) fn readable(&mut self, buffer: &mut [u8], around: &Around<'_>) -> Next {
        loop {
            let read = match self.read(buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Wait,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Next::Wrong(Status::BadCall, error.to_string());
                }
                Err(_) => return Next::Close,
            };
            if read == 0 || matches!(self.phase, Phase::Running | Phase::Answering { .. }) {
                // The caller gave up, or says more than there is to say.
                return Next::Close;
            }
            match self.take(around) {
                Ok(Next::Wait) => {}
                Ok(next) => return next,
                Err(reason) => return Next::Wrong(Status::BadCall, reason),
            }
        }
    }

    /// Reads into the input, and keeps the first descriptor that comes along. The kernel drops what
    /// is not received, without a word to its file system. Returns how many bytes came.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.read(buffer, &mut self.input),
            Stream::Unix(stream) => {
                let mut descriptors = Vec::new();
                let max = usize::from(self.file.is_none() && !self.closer.is_behind());
                let read = passing::receive(stream.as_fd(), buffer, &mut descriptors, max);
                self.file = self.file.take().or_else(|| descriptors.pop());
                let read = read.map_err(|errno: Errno| io::Error::from(errno))?;
                self.input.extend_from_slice(&buffer[..read]);
                Ok(read)
            }
        }
    }

    /// Takes whole frames off the input.
    fn take(&mut self, around: &Around<'_>) -> Result<Next, String> {
        let input = std::mem::take(&mut self.input);
        let mut taken = 0;
        let mut next = Next::Wait;
        let show = |violation: Violation| violation.to_string();
        while let Some((arrival, len)) = self.reception.receive(&input[taken..]).map_err(show)? {
            taken += len;
            next = match arrival {
                Arrival::Call(call) => self.called(&call, around)?,
                Arrival::Data(piece) => self.received(piece),
                Arrival::Complete => self.complete()?,
            };
            if !matches!(next, Next::Wait) {
                break;
            }
        }
        if matches!(next, Next::Called(_)) && taken < input.len() {
            // Nothing was asked for.
            return Err("more came along than the call".to_owned());
        }
        self.input = rest(input, taken);
        Ok(next)
    }

    fn called(&mut self, wire: &WireCall<'_>, around: &Around<'_>) -> Result<Next, String> {
        let Some(claim) = (around.claim)(wire.token) else {
            let reason = "nobody has this token".to_owned();
            return Ok(Next::Wrong(Status::NotAllowed, reason));
        };
        self.can_edit = wire.can_edit;
        let opened = |content| {
            let message = Message::new(content, wire.size, wire.format);
            message.map_err(|error| error.to_string())
        };
        let (message, spooled) = match wire.transfer {
            Transfer::None => opened(Content::None)?,
            Transfer::OnDemand => opened(Content::Bytes(wire.head.to_vec()))?,
            // It is opened once it is known who calls.
            Transfer::Descriptor => match self.file.take().map(File::from) {
                Some(file) => {
                    let is_prompt = around.mounts.is_prompt(&file);
                    let closer = self.closer.clone();
                    let (size, format) = (wire.size, wire.format);
                    let message = Message::later(file, size, format, is_prompt, closer);
                    (message, Envelope::default())
                }
                None if self.closer.is_behind() => {
                    let reason = "a file system does not answer, so no more files are taken";
                    return Ok(Next::Wrong(Status::Overloaded, reason.to_owned()));
                }
                None => return Err("no file came with the call".to_owned()),
            },
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let arguments: Vec<_> = wire
            .arguments
            .iter()
            .map(|argument| (argument.name.to_owned(), text(argument.value)))
            .collect();
        let mut envelope = Envelope::of_arguments(&arguments);
        envelope.complete(spooled);
        let wait = Duration::from_millis(wire.deadline_ms.into());
        // The answer has to be there before the caller stops waiting.
        let margin = (wait / 10).min(Duration::from_millis(100));
        let call = Call {
            procedure: wire.procedure.to_owned(),
            arguments,
            envelope,
            caller: claim.caller(),
            deadline: Instant::now() + (wait - margin),
            can_edit: wire.can_edit && message.exists(),
            is_clients: false,
            outlet: None,
            message,
        };
        self.until = call.deadline + TAKING_TIME;
        self.phase = Phase::Running;
        Ok(Next::Called(Box::new(Called { call, claim })))
    }

    /// Asks for the rest of the message, which this version of a procedure needs.
    pub(super) fn ask(
        &mut self,
        call: Call,
        procedure: Arc<Procedure>,
        bodies: &Arc<Bodies>,
    ) -> Next {
        let mut body = bodies.begin(&call.caller);
        let head = call.message.beginning();
        let kept = body
            .reserve(call.message.start() + call.message.size())
            .and_then(|()| body.add(head));
        let until = call.deadline.min(Instant::now() + procedure.deadline());
        let asked = Box::new(Asked {
            call,
            procedure,
            until,
        });
        if let Err(unkept) = kept {
            return Next::Refuse(asked, unkept.why());
        }
        self.reception.ask();
        self.phase = Phase::Receiving { asked, body };
        let mut bytes = Vec::new();
        encode_need_body(&mut bytes);
        // Five bytes on a connection that has sent nothing yet always fit.
        match self.stream.write(&bytes) {
            Ok(sent) if sent == bytes.len() => Next::Wait,
            _ => Next::Close,
        }
    }

    fn received(&mut self, piece: &[u8]) -> Next {
        let Phase::Receiving { body, .. } = &mut self.phase else {
            return Next::Wait;
        };
        let Err(unkept) = body.add(piece) else {
            return Next::Wait;
        };
        match self.give_up() {
            Some(asked) => Next::Refuse(asked, unkept.why()),
            None => Next::Wait,
        }
    }

    fn complete(&mut self) -> Result<Next, String> {
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Receiving { mut asked, body } => {
                let (content, share) = body.content();
                asked.call.message.complete(content, share);
                Ok(Next::Run(asked))
            }
            _ => Err("the file ended before it began".to_owned()),
        }
    }

    /// Sends the answer, as much as the socket takes.
    pub(super) fn answer(&mut self, answer: &Answer) -> Next {
        let bytes = encoded(answer, self.can_edit);
        self.until = Instant::now() + TAKING_TIME;
        self.phase = Phase::Answering { bytes, sent: 0 };
        self.writable()
    }

    /// Sends more of the answer.
    pub(super) fn writable(&mut self) -> Next {
        let Phase::Answering { bytes, sent } = &mut self.phase else {
            return match self.stream.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Next::Close,
                _ => Next::Wait,
            };
        };
        while *sent < bytes.len() {
            match self.stream.write(&bytes[*sent..]) {
                Ok(0) => return Next::Close,
                Ok(more) => *sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Wait,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Close,
            }
        }
        match self.stream.end() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::Wait,
            _ => Next::Close,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(unused) = self.file.take() {
            self.closer.close(unused);
        }
    }
}

/// Input without what was taken of it. While nothing could be taken, nothing is copied: a frame
/// that comes byte by byte would be copied once for each.
fn rest(mut input: Vec<u8>, taken: usize) -> Vec<u8> {
    match taken {
        0 => input,
        _ if taken == input.len() => Vec::new(),
        _ => {
            input.drain(..taken);
            input.shrink_to(READ_BYTES);
            input
        }
    }
}

/// The frames of an answer. One that the protocol cannot carry becomes a failure.
fn encoded(answer: &Answer, can_edit: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let result = frames(answer, can_edit, &mut bytes);
    if let Err(violation) = result {
        bytes.clear();
        let text = format!("the procedure's answer cannot be sent: {violation}");
        let failed = Wire {
            verdict: answer.advice,
            ..Wire::of(Status::Failed, &text)
        };
        // A short text without control characters can be.
        let _ = failed.encode(&mut bytes);
    }
    bytes
}

fn frames(answer: &Answer, can_edit: bool, bytes: &mut Vec<u8>) -> Result<(), Violation> {
    let mut wire = Wire {
        verdict: answer.verdict(),
        version: &answer.version,
        ..Wire::of(answer.status, answer.text())
    };
    if let Some(outcome) = &answer.outcome {
        wire.reply_code = outcome.reply_code;
        wire.enhanced = &outcome.enhanced;
        wire.result = &outcome.result;
        if outcome.verdict == Verdict::Modified {
            if !can_edit || outcome.changes.is_empty() {
                wire.verdict = Some(Verdict::Accept);
            } else {
                wire.edits = edits(outcome, bytes)?;
            }
        }
    }
    wire.encode(bytes)
}

/// Appends an outcome's changes as frames; returns how many.
fn edits(outcome: &stentor_procedure::Outcome, bytes: &mut Vec<u8>) -> Result<u32, Violation> {
    let mut count = 0;
    for change in &outcome.changes {
        let mut pieces = change.inserted.chunks(INSERTED_BYTES_MAX);
        let first = pieces.next().unwrap_or_default();
        // The deletion goes with the last piece: all of them insert at its beginning.
        let pieces: Vec<&[u8]> = std::iter::once(first).chain(pieces).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let is_last = index + 1 == pieces.len();
            let edit = Edit {
                offset: change.offset,
                deleted: if is_last { change.deleted } else { 0 },
                inserted: piece,
            };
            edit.encode(bytes)?;
            count += 1;
        }
    }
    if count as usize > EDITS_MAX {
        return Err(Violation::TooLong("list of edits"));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_input_is_not_copied_in_vain() {
        let input = b"abc".to_vec();
        let place = input.as_ptr();
        let input = rest(input, 0);
        assert_eq!((input.as_ptr(), &*input), (place, &b"abc"[..]));
        let input = rest(input, 2);
        assert_eq!(&*input, b"c");
        assert_eq!(rest(input, 1).capacity(), 0);
        // What is left of a long one takes no more room than it needs.
        let long = vec![0; 10 * READ_BYTES];
        assert!(rest(long, 10 * READ_BYTES - 1).capacity() <= READ_BYTES);
    }
}
