//! Verdicts as mail servers say them.

use core::fmt;

use crate::answer::Verdict;

/// The answer to an SMTP client about a message that does not pass. Shown as a reply line, as in
/// `554 5.7.1 message refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The reply code: 400 to 499 for a verdict of "tempfail", 500 to 599 for others.
    pub code: u16,
    /// The enhanced status code, of the same class.
    pub status: &'a str,
    /// Why.
    pub text: &'a str,
}

impl<'a> Refusal<'a> {
    /// The refusal that a verdict stands for. Wishes that do not fit it are passed over: a reply
    /// code of 0 or of another class, a status code of another class, an empty text.
    #[must_use]
    pub fn of(verdict: Verdict, code: u16, status: &'a str, text: &'a str) -> Self {
        let (class, default) = match verdict {
            Verdict::Tempfail => ("4.", (451, "4.7.1")),
            _ => ("5.", (554, "5.7.1")),
        };
        let has_code = code / 100 == default.0 / 100;
        let has_status = status.starts_with(class);
        Self {
            code: if has_code { code } else { default.0 },
            status: if has_status { status } else { default.1 },
            text: if text.is_empty() {
                "message refused"
            } else {
                text
            },
        }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.status, self.text)
    }
}
