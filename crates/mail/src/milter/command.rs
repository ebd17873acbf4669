//! What the mail server sends.

use crate::Violation;

/// The longest command with its content. Pieces of the body have 64 KiB at most; Postfix sends a
/// header of up to its `header_size_limit` (100 KiB) whole.
pub const COMMAND_BYTES_MAX: usize = 512 * 1024;

/// A command of the mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// What the mail server speaks and offers; the first command.
    Negotiate {
        /// Of the protocol.
        version: u32,
        /// What a filter may do, see [`actions`](super::actions).
        actions: u32,
        /// What may be left out, see [`steps`](super::steps).
        steps: u32,
    },
    /// Values that belong to a command which comes next.
    Macros {
        /// The byte of that command.
        command: u8,
        /// Names and values in turn.
        list: Words<'a>,
    },
    /// The SMTP client.
    Connect {
        /// Its host name, or its address in brackets.
        host: &'a [u8],
        /// Its address; empty if the mail server does not know it.
        address: &'a [u8],
    },
    /// The name that the client said hello with.
    Helo(&'a [u8]),
    /// The sender, in angle brackets, and parameters of the command.
    Mail(Words<'a>),
    /// A recipient, in angle brackets, and parameters of the command.
    Rcpt(Words<'a>),
    /// The envelope is complete.
    Data,
    /// A header.
    Header {
        /// Before the colon.
        name: &'a [u8],
        /// After it, folded lines included.
        value: &'a [u8],
    },
    /// The headers are complete.
    EndOfHeaders,
    /// A piece of the body.
    Body(&'a [u8]),
    /// The message is complete; perhaps with a last piece of its body.
    End(&'a [u8]),
    /// The message comes to nothing.
    Abort,
    /// The connection is over.
    Quit,
    /// The SMTP client is over, another one follows.
    Next,
    /// A command that SMTP does not know.
    Unknown(&'a [u8]),
}

impl<'a> Command<'a> {
    /// Takes the first command off `input`: the command and how many bytes it took, or `None`
    /// while it is not complete. Looks at no more than the length to find that it is too long.
    ///
    /// # Errors
    /// What the mail server did wrong.
    pub fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, Violation> {
        let Some((length, rest)) = input.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > COMMAND_BYTES_MAX {
            return Err(Violation::TooLong("command"));
        }
        if length == 0 {
            return Err(Violation::Length);
        }
        match rest.get(..length) {
            Some([kind, content @ ..]) => Ok(Some((Self::of(*kind, content)?, 4 + length))),
            _ => Ok(None),
        }
    }

    fn of(kind: u8, content: &'a [u8]) -> Result<Self, Violation> {
        let mut fields = Fields(content);
        Ok(match kind {
            b'O' => Self::Negotiate {
                version: fields.number()?,
                actions: fields.number()?,
                steps: fields.number()?,
            },
            b'D' => Self::Macros {
                command: fields.byte()?,
                list: Words(fields.0),
            },
            b'C' => Self::connect(fields)?,
            b'H' => Self::Helo(fields.word()?),
            b'M' => Self::Mail(Words(content)),
            b'R' => Self::Rcpt(Words(content)),
            b'T' => Self::Data,
            b'L' => Self::Header {
                name: fields.word()?,
                value: fields.word()?,
            },
            b'N' => Self::EndOfHeaders,
            b'B' => Self::Body(content),
            b'E' => Self::End(content),
            b'A' => Self::Abort,
            b'Q' => Self::Quit,
            b'K' => Self::Next,
            b'U' => Self::Unknown(fields.word()?),
            kind => return Err(Violation::Unknown(kind)),
        })
    }

    fn connect(mut fields: Fields<'a>) -> Result<Self, Violation> {
        let host = fields.word()?;
        let address = match fields.byte()? {
            b'4' | b'6' | b'L' => {
                fields.take(2)?;
                let address = fields.word()?;
                // Sendmail's notation of IPv6.
                address.strip_prefix(b"IPv6:").unwrap_or(address)
            }
            _ => &[],
        };
        Ok(Self::Connect { host, address })
    }

    /// The byte that names this kind of command.
    #[must_use]
    pub const fn byte(&self) -> u8 {
        match self {
            Self::Negotiate { .. } => b'O',
            Self::Macros { .. } => b'D',
            Self::Connect { .. } => b'C',
            Self::Helo(_) => b'H',
            Self::Mail(_) => b'M',
            Self::Rcpt(_) => b'R',
            Self::Data => b'T',
            Self::Header { .. } => b'L',
            Self::EndOfHeaders => b'N',
            Self::Body(_) => b'B',
            Self::End(_) => b'E',
            Self::Abort => b'A',
            Self::Quit => b'Q',
            Self::Next => b'K',
            Self::Unknown(_) => b'U',
        }
    }
}

/// A list of texts, each of which ends with a NUL; the last one may lack it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let mut parts = self.0.splitn(2, |byte| *byte == 0);
        let word = parts.next();
        self.0 = parts.next().unwrap_or_default();
        word
    }
}

/// A cursor over the content of a command.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Violation::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Violation> {
        let (byte, rest) = self.0.split_first().ok_or(Violation::Length)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u32, Violation> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Violation::Length)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// Bytes up to a NUL.
    fn word(&mut self) -> Result<&'a [u8], Violation> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let word = self.take(end.ok_or(Violation::Length)?)?;
        self.byte()?;
        Ok(word)
    }
}
