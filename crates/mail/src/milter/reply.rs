//! What the filter sends.

use alloc::vec::Vec;

/// The longest piece of a new body.
pub const BODY_BYTES_MAX: usize = 65_535;

/// A reply of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// What the filter will do and wants to see; the answer to the first command.
    Negotiate {
        /// Of the protocol.
        version: u32,
        /// See [`actions`](super::actions).
        actions: u32,
        /// See [`steps`](super::steps).
        steps: u32,
    },
    /// Go on.
    Continue,
    /// Take the message; this filter has seen enough of it.
    Accept,
    /// Refuse it, with the mail server's own words.
    Reject,
    /// Refuse it for now, with the mail server's own words.
    Tempfail,
    /// Take it and throw it away.
    Discard,
    /// Refuse it with an SMTP reply: a code, perhaps a status code, and a text.
    Say(&'a str),
    /// Put it aside, for a reason; at the end of a message only.
    Quarantine(&'a str),
    /// Puts a header after the others.
    Add {
        /// Before the colon.
        name: &'a [u8],
        /// After it.
        value: &'a [u8],
    },
    /// Puts a header where there are `index` others before it.
    Insert {
        /// How many there are before it.
        index: u32,
        /// Before the colon.
        name: &'a [u8],
        /// After it.
        value: &'a [u8],
    },
    /// Removes the header that is number `index` of its name, counted from 1.
    Remove {
        /// Which one of that name.
        index: u32,
        /// Before the colon.
        name: &'a [u8],
    },
    /// The next piece of a new body, at most [`BODY_BYTES_MAX`]; all of them together replace the
    /// old one.
    Body(&'a [u8]),
}

impl Reply<'_> {
    /// Appends the reply. A NUL in a text ends that text.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Self::Negotiate {
                version,
                actions,
                steps,
            } => {
                out.push(b'O');
                for number in [version, actions, steps] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
            Self::Continue => out.push(b'c'),
            Self::Accept => out.push(b'a'),
            Self::Reject => out.push(b'r'),
            Self::Tempfail => out.push(b't'),
            Self::Discard => out.push(b'd'),
            Self::Say(text) => {
                out.push(b'y');
                // Sendmail takes the text for a format.
                for byte in text.bytes().take_while(|byte| *byte != 0) {
                    out.push(byte);
                    if byte == b'%' {
                        out.push(byte);
                    }
                }
                out.push(0);
            }
            Self::Quarantine(reason) => {
                out.push(b'q');
                put(reason.as_bytes(), out);
            }
            Self::Add { name, value } => {
                out.push(b'h');
                put(name, out);
                put(value, out);
            }
            Self::Insert { index, name, value } => {
                out.push(b'i');
                out.extend_from_slice(&index.to_be_bytes());
                put(name, out);
                put(value, out);
            }
            Self::Remove { index, name } => {
                out.push(b'm');
                out.extend_from_slice(&index.to_be_bytes());
                put(name, out);
                put(b"", out);
            }
            Self::Body(piece) => {
                out.push(b'b');
                out.extend_from_slice(&piece[..piece.len().min(BODY_BYTES_MAX)]);
            }
        }
        // Everything that is sent has bounds far below four gigabytes.
        let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn put(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().take_while(|byte| **byte != 0));
    out.push(0);
}
