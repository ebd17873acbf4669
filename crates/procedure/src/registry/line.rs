//! What the log says about a call.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stentor_call_protocol::{Status, Verdict};

use crate::answer::Answer;
use crate::call::{Call, Caller};
use crate::manifest::{Manifest, Mode};

/// Recipients that the log names.
const RECIPIENTS_SHOWN: usize = 10;

/// What the log says about a call, kept while it runs.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) queue_id: String,
    message_id: String,
    from: String,
    rcpt: String,
    size: u64,
    pub(super) caller: String,
}

impl About {
    /// For the name of the message its headers are read if need be, and only if they may be.
    pub(super) fn of(call: &Call, may_read: bool) -> Self {
        let envelope = &call.envelope;
        let read = || {
            call.message
                .headers()
                .ok()
                .and_then(|headers| message_id(&headers))
        };
        let known = envelope.message_id.clone();
        let message_id = known.or_else(|| may_read.then(read).flatten());
        let shown = envelope.recipients.len().min(RECIPIENTS_SHOWN);
        let mut rcpt = envelope.recipients[..shown].join(", ");
        if envelope.recipients.len() > shown {
            // Writing into a string does not fail.
            let _ = write!(rcpt, " and {} others", envelope.recipients.len() - shown);
        }
        Self {
            queue_id: envelope.queue_id.clone().unwrap_or_default(),
            message_id: message_id.unwrap_or_default(),
            from: envelope.from.clone().unwrap_or_default(),
            rcpt,
            size: call.message.size(),
            caller: match &call.caller {
                Caller::Anonymous(address) => address.clone(),
                Caller::User { .. } => call.caller.name().into_owned(),
            },
        }
    }
}

/// The line about a call in the log, which is written when this is dropped: whoever waits for the
/// answer need not wait for the line.
#[derive(Debug)]
pub struct Line(Option<Told>);

/// What a line says.
#[derive(Debug)]
struct Told {
    name: String,
    manifest: Arc<Manifest>,
    about: Arc<OnceLock<About>>,
    status: Status,
    verdict: Option<Verdict>,
    text: String,
    took: Duration,
}

impl Line {
    /// No line: it was written already.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// The line for an answer, as the procedure gave it.
    pub(super) fn of(
        (name, manifest): (String, Arc<Manifest>),
        about: Arc<OnceLock<About>>,
        answer: &Answer,
        took: Duration,
    ) -> Self {
        Self(Some(Told {
            name,
            manifest,
            about,
            status: answer.status,
            verdict: answer.verdict(),
            text: answer.text().to_owned(),
            took,
        }))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            told.log();
        }
    }
}

impl Told {
    /// One line per verdict.
    fn log(&self) {
        let none = About::default();
        let about = self.about.get().unwrap_or(&none);
        let manifest = &self.manifest;
        tracing::info!(
            target: "call",
            procedure = self.name,
            version = manifest.version,
            status = self.status.name(),
            verdict = self.verdict.map_or("none", Verdict::name),
            observe = manifest.mode == Mode::Observe,
            queue_id = about.queue_id,
            message_id = about.message_id,
            from = about.from,
            rcpt = about.rcpt,
            size = about.size,
            caller = about.caller,
            ms = self.took.as_micros() as f64 / 1000.0,
            "{}",
            self.text,
        );
    }
}

/// The value of the Message-ID header in a block of headers, as one line.
#[must_use]
pub fn message_id(headers: &[u8]) -> Option<String> {
    let name = b"message-id:";
    let mut lines = headers.split(|byte| *byte == b'\n');
    let first = lines.find_map(|line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some(rest)
    })?;
    // A long one stands on a line of its own.
    let folded = lines.take_while(|line| matches!(line.first(), Some(b' ' | b'\t')));
    let pieces: Vec<_> = std::iter::once(first)
        .chain(folded)
        .map(|piece| String::from_utf8_lossy(piece.trim_ascii()))
        .collect();
    Some(crate::answer::line(&pieces.join(" "), 250))
}
