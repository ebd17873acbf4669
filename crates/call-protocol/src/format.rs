//! How the file of a call is laid out.

use core::fmt;

use crate::limits::HEAD_BYTES_MAX;

/// How the file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// It is the message, from its first byte to its last.
    Message,
    /// A spool file of XMail: lines with the envelope, a marker, then the message.
    XmailSpool,
}

/// The line of an XMail spool file after which the message begins.
const XMAIL_MARKER: &str = "<<MAIL-DATA>>";

/// Why a file of this format has no message, as far as its beginning tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// The line before the message is missing.
    NoMarker,
    /// The file ends in the middle of that line.
    Cut,
    /// That line is too far from the beginning, if it is there at all.
    TooFar,
}

impl Format {
    /// Where the message begins in a file. `head` is its first [`HEAD_BYTES_MAX`] bytes, or all of
    /// it if it has `is_all`.
    ///
    /// # Errors
    /// When it begins nowhere.
    pub fn message_start(self, head: &[u8], is_all: bool) -> Result<usize, NoMessage> {
        if self == Self::Message {
            return Ok(0);
        }
        let mut at = 0;
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            if line.trim_ascii_end() == XMAIL_MARKER.as_bytes() {
                return if line.ends_with(b"\n") {
                    Ok(at)
                } else {
                    Err(NoMessage::Cut)
                };
            }
        }
        Err(if is_all {
            NoMessage::NoMarker
        } else {
            NoMessage::TooFar
        })
    }
}

impl fmt::Display for NoMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMarker => {
                write!(
                    f,
                    "this is not an XMail spool file: it has no line {XMAIL_MARKER}"
                )
            }
            Self::Cut => write!(
                f,
                "the spool file ends in the middle of its line {XMAIL_MARKER}"
            ),
            Self::TooFar => write!(
                f,
                "the spool file's line {XMAIL_MARKER} is not in its first {HEAD_BYTES_MAX} bytes, \
                 the most that may stand before a message (some two thousand recipients)"
            ),
        }
    }
}

impl core::error::Error for NoMessage {}

/// Where the headers of a message end, their empty line included; `None` if they do not. A line of
/// spaces is not empty: it goes on with the header before it (RFC 5322, obsolete folding).
#[must_use]
pub fn headers_end(message: &[u8]) -> Option<usize> {
    let mut end = 0;
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return Some(end);
        }
    }
    None
}
