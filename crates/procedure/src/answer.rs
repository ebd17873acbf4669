//! What comes of a call.

use stentor_call_protocol::limits::{ENHANCED_BYTES_MAX, TEXT_BYTES_MAX};
use stentor_call_protocol::{Status, Verdict};

/// A change of a message: offsets are counted in the file that the caller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub offset: u64,
    /// How many bytes go.
    pub deleted: u64,
    /// What comes.
    pub inserted: Vec<u8>,
}

/// What a procedure came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it thinks of the message.
    pub verdict: Verdict,
    /// The SMTP reply code that it wants, 400 to 599; 0 for none.
    pub reply_code: u16,
    /// The enhanced status code that it wants, as in `5.7.1`; empty for none.
    pub enhanced: String,
    /// One line for people; see [`line`].
    pub text: String,
    /// Changes in the order of their offsets; none but for [`Verdict::Modified`].
    pub changes: Vec<Change>,
    /// Whatever else it returned.
    pub result: Vec<u8>,
}

impl Outcome {
    /// A verdict with a text and nothing else.
    #[must_use]
    pub fn of(verdict: Verdict, text: &str) -> Self {
        Self {
            verdict,
            reply_code: 0,
            enhanced: String::new(),
            text: line(text, TEXT_BYTES_MAX),
            changes: Vec::new(),
            result: Vec::new(),
        }
    }

    /// Sets the enhanced status code, if it is one.
    pub(crate) fn set_enhanced(&mut self, code: &str) {
        let is_code = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        if code.len() <= ENHANCED_BYTES_MAX && is_code(code) {
            code.clone_into(&mut self.enhanced);
        }
    }
}

/// The end of a call, as the caller gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How the call went.
    pub status: Status,
    /// With [`Status::Done`], what the procedure came to.
    pub outcome: Option<Outcome>,
    /// Without an outcome, what the operator wants for such messages, if the procedure is known.
    pub advice: Option<Verdict>,
    /// One line for people: why there is no outcome.
    pub reason: String,
    /// The procedure's version; empty if there is no procedure.
    pub version: String,
}

impl Answer {
    /// A call that came to no outcome.
    #[must_use]
    pub fn failed(status: Status, reason: &str) -> Self {
        Self {
            status,
            outcome: None,
            advice: None,
            reason: line(reason, TEXT_BYTES_MAX),
            version: String::new(),
        }
    }

    /// A call that was answered.
    #[must_use]
    pub const fn done(outcome: Outcome) -> Self {
        Self {
            status: Status::Done,
            outcome: Some(outcome),
            advice: None,
            reason: String::new(),
            version: String::new(),
        }
    }

    /// What is done with the message: the verdict, or the advice.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.outcome
            .as_ref()
            .map(|outcome| outcome.verdict)
            .or(self.advice)
    }

    /// The line for people.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.outcome {
            Some(outcome) => &outcome.text,
            None => &self.reason,
        }
    }
}

/// Text as one line of at most `max` bytes: control characters become spaces, so that nothing in
/// it can end a line of a mail, a log or an SMTP reply.
#[must_use]
pub(crate) fn line(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.trim().chars().map(clean).collect();
    if line.len() > max {
        let end = (0..=max).rev().find(|end| line.is_char_boundary(*end));
        line.truncate(end.unwrap_or(0));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\r\nb\0c ", 80), "a  b c");
        assert_eq!(line("äää", 3), "ä");
        assert_eq!(line("", 3), "");
    }
}
