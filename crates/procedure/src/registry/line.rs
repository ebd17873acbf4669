//! What the log says about a call.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stentor_call_protocol::{Status, Verdict};

use crate::answer::Answer;
use crate::call::{Call, Caller};
use crate::manifest::{Manifest, Mode};

/// Recipients that the log names.
const RECIPIENTS_SHOWN: usize = 10;

/// Bytes of each value that a mail server or a caller gave.
const SHOWN_BYTES_MAX: usize = 300;

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
        let recipients = envelope.recipients[..shown].iter();
        let recipients: Vec<_> = recipients.map(|address| cut(address)).collect();
        let mut rcpt = cut(&recipients.join(", ")).into_owned();
        if envelope.recipients.len() > shown {
            // Writing into a string does not fail.
            let _ = write!(rcpt, " and {} others", envelope.recipients.len() - shown);
        }
        Self {
            queue_id: shown_of(envelope.queue_id.as_deref()),
            message_id: message_id.unwrap_or_default(),
            from: shown_of(envelope.from.as_deref()),
            rcpt,
            size: call.message.size(),
            caller: match &call.caller {
                Caller::Anonymous(address) => address.clone(),
                Caller::User { .. } => call.caller.name().into_owned(),
            },
        }
    }
}

/// A value that is there, or none.
fn shown_of(value: Option<&str>) -> String {
    cut(value.unwrap_or_default()).into_owned()
}

/// A value as long as the log has room for: lines are kept until they are written, and what is too
/// much of them together is lost.
fn cut(value: &str) -> Cow<'_, str> {
    if value.len() <= SHOWN_BYTES_MAX {
        return Cow::Borrowed(value);
    }
    let start = &value[..value.floor_char_boundary(SHOWN_BYTES_MAX)];
    Cow::Owned(format!("{start}…"))
}

/// The line about a call in the log, which is written when this is dropped: whoever waits for the
/// answer need not wait for the line.
#[derive(Debug)]
pub struct Line(Option<Box<Told>>);

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
    /// Calls of the same kind before it that have no line.
    suppressed: Option<u64>,
}

impl Line {
    /// No line: it was written already.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// The line for an answer, as the procedure gave it.
    pub(super) fn of(
        name: String,
        manifest: Arc<Manifest>,
        about: Arc<OnceLock<About>>,
        answer: &Answer,
        took: Duration,
    ) -> Self {
        Self(Some(Box::new(Told {
            name,
            manifest,
            about,
            status: answer.status,
            verdict: answer.verdict(),
            text: answer.text().to_owned(),
            took,
            suppressed: None,
        })))
    }

    /// The same after this many calls of the same kind that have no line.
    pub(super) fn after(mut self, suppressed: u64) -> Self {
        if let Some(told) = &mut self.0 {
            told.suppressed = Some(suppressed).filter(|count| *count > 0);
        }
        self
    }

    /// No line of this call.
    pub(super) fn held_back(mut self) -> Self {
        self.0 = None;
        self
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
    /// One line per verdict; a warning where there is none, since nobody else may notice that a
    /// procedure fails on every mail.
    fn log(&self) {
        let none = About::default();
        let about = self.about.get().unwrap_or(&none);
        let manifest = &self.manifest;
        macro_rules! tell {
            ($level:ident) => {
                tracing::$level!(
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
                    suppressed = self.suppressed,
                    "{}",
                    self.text,
                )
            };
        }
        match self.status {
            Status::Done => tell!(info),
            _ => tell!(warn),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(cut("a@b"), "a@b");
        assert_eq!(cut(&"x".repeat(SHOWN_BYTES_MAX)).len(), SHOWN_BYTES_MAX);
        let long = "xä".repeat(500_000);
        assert_eq!(*cut(&long), *format!("{}…", "xä".repeat(100)));
        let odd = format!("x{long}");
        assert!(cut(&odd).ends_with("x…"));
        assert_eq!(shown_of(None), "");
    }
}
