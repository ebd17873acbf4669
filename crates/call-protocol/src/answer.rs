//! What a server answers.

use alloc::vec::Vec;

use crate::frame::{ANSWER, EDIT, put_frame};
use crate::limits::{
    EDITS_MAX, ENHANCED_BYTES_MAX, INSERTED_BYTES_MAX, RESULT_BYTES_MAX, TEXT_BYTES_MAX,
    VERSION_BYTES_MAX,
};
use crate::wire::{Fields, Violation, line, put_long, put_medium, put_short};

macro_rules! numbered {
    (
        $(#[$meta:meta])* $name:ident, $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $number:literal, $text:literal; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$doc])* $variant, )+ }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u8 {
                match self { $( Self::$variant => $number, )+ }
            }

            /// The name that logs, statistics and configuration use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }

            /// The variant of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $text => Some(Self::$variant), )+ _ => None }
            }

            fn from_number(number: u8) -> Result<Self, Violation> {
                match number {
                    $( $number => Ok(Self::$variant), )+
                    _ => Err(Violation::Value($what)),
                }
            }
        }
    };
}

numbered! {
    /// How the call itself went: the health of the server and of the procedure. It says nothing
    /// about the file; only with [`Status::Done`] is there a [`Verdict`].
    Status, "status" {
        /// The procedure ran and came to a verdict.
        Done = 0, "done";
        /// There is no procedure of that name.
        NotFound = 1, "not-found";
        /// This caller may not call it.
        NotAllowed = 2, "not-allowed";
        /// Too many calls are waiting.
        Overloaded = 3, "overloaded";
        /// It did not come to a verdict in time.
        TimedOut = 4, "timed-out";
        /// It broke: an error, a crash, a bound.
        Failed = 5, "failed";
        /// The call makes no sense to the server.
        BadCall = 6, "bad-call";
        /// Nobody who serves the procedure is connected.
        Unavailable = 7, "unavailable";
    }
}

numbered! {
    /// What a procedure thinks of the file.
    Verdict, "verdict" {
        /// Let it pass.
        Accept = 0, "accept";
        /// Let it pass, changed by the edits of the answer.
        Modified = 1, "modified";
        /// Refuse it for good.
        Reject = 2, "reject";
        /// Refuse it for now.
        Tempfail = 3, "tempfail";
        /// Take it and throw it away.
        Discard = 4, "discard";
        /// Take it and put it aside.
        Quarantine = 5, "quarantine";
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// How the call went.
    pub status: Status,
    /// What the procedure thinks; with [`Status::Done`], what `on_error` says otherwise, if the
    /// procedure is known.
    pub verdict: Option<Verdict>,
    /// The SMTP reply code that the procedure wants, 400 to 599; 0 leaves it to the caller.
    pub reply_code: u16,
    /// The enhanced status code, as in `5.7.1`; empty leaves it to the caller.
    pub enhanced: &'a str,
    /// One line for people.
    pub text: &'a str,
    /// The version of the procedure that answered; empty if there is none.
    pub version: &'a str,
    /// How many edits came before.
    pub edits: u32,
    /// Whatever else the procedure returned.
    pub result: &'a [u8],
}

/// Number of [`Answer::verdict`] where there is none.
const NO_VERDICT: u8 = 0xFF;

impl<'a> Answer<'a> {
    /// An answer with nothing but a status and a text.
    #[must_use]
    pub const fn of(status: Status, text: &'a str) -> Self {
        Self {
            status,
            verdict: None,
            reply_code: 0,
            enhanced: "",
            text,
            version: "",
            edits: 0,
            result: b"",
        }
    }

    /// Appends the answer as one frame.
    ///
    /// # Errors
    /// When a field is beyond its bound or impossible; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Violation> {
        self.check()?;
        put_frame(ANSWER, out, |out| {
            let verdict = self.verdict.map_or(NO_VERDICT, Verdict::number);
            out.extend_from_slice(&[self.status.number(), verdict]);
            out.extend_from_slice(&self.reply_code.to_be_bytes());
            let enhanced = line(self.enhanced.as_bytes(), "status code")?;
            put_short(enhanced.as_bytes(), ENHANCED_BYTES_MAX, "status code", out)?;
            let text = line(self.text.as_bytes(), "text")?;
            put_medium(text.as_bytes(), TEXT_BYTES_MAX, "text", out)?;
            let version = line(self.version.as_bytes(), "version")?;
            put_short(version.as_bytes(), VERSION_BYTES_MAX, "version", out)?;
            out.extend_from_slice(&self.edits.to_be_bytes());
            put_long(self.result, RESULT_BYTES_MAX, "result", out)
        })
    }

    pub(crate) fn decode(content: &'a [u8]) -> Result<Self, Violation> {
        let mut fields = Fields(content);
        let answer = Self {
            status: Status::from_number(fields.u8()?)?,
            verdict: match fields.u8()? {
                NO_VERDICT => None,
                number => Some(Verdict::from_number(number)?),
            },
            reply_code: fields.u16()?,
            enhanced: line(
                fields.short(ENHANCED_BYTES_MAX, "status code")?,
                "status code",
            )?,
            text: line(fields.medium(TEXT_BYTES_MAX, "text")?, "text")?,
            version: line(fields.short(VERSION_BYTES_MAX, "version")?, "version")?,
            edits: fields.u32()?,
            result: fields.long(RESULT_BYTES_MAX, "result")?,
        };
        fields.end()?;
        answer.check()?;
        Ok(answer)
    }

    /// The rules between fields.
    fn check(&self) -> Result<(), Violation> {
        if self.status == Status::Done && self.verdict.is_none() {
            return Err(Violation::Value("verdict"));
        }
        let is_changed = self.status == Status::Done && self.verdict == Some(Verdict::Modified);
        if (self.edits > 0) != is_changed || self.edits as usize > EDITS_MAX {
            return Err(Violation::Value("number of edits"));
        }
        if self.reply_code != 0 && !(400..600).contains(&self.reply_code) {
            return Err(Violation::Value("reply code"));
        }
        let is_code = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        if !self.enhanced.bytes().all(is_code) {
            return Err(Violation::Value("status code"));
        }
        Ok(())
    }
}

/// A change of the file: at `offset`, take `deleted` bytes out and put `inserted` in.
///
/// The edits of one answer come in the order of their offsets, all counted in the old file, and
/// none touches what another one deleted. Several may insert at one place, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// Where, in the file as it was sent.
    pub offset: u64,
    /// How many bytes of the old file go.
    pub deleted: u64,
    /// What comes.
    pub inserted: &'a [u8],
}

impl<'a> Edit<'a> {
    /// Appends the edit as one frame.
    ///
    /// # Errors
    /// When the insertion is too long, which several edits can carry, or the end is beyond all
    /// numbers.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Violation> {
        self.end()?;
        if self.inserted.len() > INSERTED_BYTES_MAX {
            return Err(Violation::TooLong("insertion"));
        }
        put_frame(EDIT, out, |out| {
            out.extend_from_slice(&self.offset.to_be_bytes());
            out.extend_from_slice(&self.deleted.to_be_bytes());
            out.extend_from_slice(self.inserted);
            Ok(())
        })
    }

    pub(crate) fn decode(content: &'a [u8]) -> Result<Self, Violation> {
        let mut fields = Fields(content);
        let edit = Self {
            offset: fields.u64()?,
            deleted: fields.u64()?,
            inserted: fields.0,
        };
        edit.end()?;
        Ok(edit)
    }

    /// The first byte of the old file after what is deleted.
    ///
    /// # Errors
    /// When that is beyond all numbers.
    pub(crate) const fn end(&self) -> Result<u64, Violation> {
        match self.offset.checked_add(self.deleted) {
            Some(end) => Ok(end),
            None => Err(Violation::Value("edit")),
        }
    }
}
