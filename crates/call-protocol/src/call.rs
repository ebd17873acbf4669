//! What a caller asks.

use core::fmt;

use alloc::vec::Vec;

use crate::format::Format;
use crate::frame::{CALL, put_frame};
use crate::limits::{
    ARGUMENTS_BYTES_MAX, ARGUMENTS_MAX, CALL_BYTES_MAX, DEADLINE_MS_MAX, HEAD_BYTES_MAX,
    NAME_BYTES_MAX, PROCEDURE_BYTES_MAX, TOKEN_BYTES_MAX, VALUE_BYTES_MAX,
};
use crate::wire::{Fields, Violation, put_long, put_medium, put_short};
use crate::{MAGIC, VERSION};

/// How the file gets to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// There is no file.
    None,
    /// Its descriptor comes with the first byte of the call (`SCM_RIGHTS`); Unix sockets only.
    Descriptor,
    /// Its beginning is in the call; the rest follows if the server asks for it.
    OnDemand,
}

/// A call, as it came from a caller or is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The procedure's name, without the slash that it is written with.
    pub procedure: &'a str,
    /// The secret that says who calls; empty on a Unix socket, where the system says so.
    pub token: &'a [u8],
    /// How long the caller will wait, in milliseconds; at least 1.
    pub deadline_ms: u32,
    /// Whether the caller is able to change the file as [`Edit`](crate::Edit)s ask.
    pub can_edit: bool,
    /// How the file gets to the server.
    pub transfer: Transfer,
    /// How the file is laid out.
    pub format: Format,
    /// The size of the file in bytes; 0 without a file.
    pub size: u64,
    /// What the procedure receives, envelope included.
    pub arguments: Arguments<'a>,
    /// The beginning of the file, for [`Transfer::OnDemand`].
    pub head: &'a [u8],
}

/// One argument of a call. Names may come several times, as recipients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The name: letters, digits, `-`, `_` and `.`.
    pub name: &'a str,
    /// The value: any bytes.
    pub value: &'a [u8],
}

/// The arguments of a call, in the order in which they were given. Encoded and valid.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Arguments<'a> {
    count: u16,
    encoded: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// Encodes arguments into `buffer`, which is cleared before.
    ///
    /// # Errors
    /// When there are too many, or one is too long or has an impossible name.
    pub fn encode(
        arguments: impl IntoIterator<Item = Argument<'a>>,
        buffer: &mut Vec<u8>,
    ) -> Result<Arguments<'_>, Violation> {
        buffer.clear();
        let mut count: u16 = 0;
        for argument in arguments {
            let name = check_name(argument.name.as_bytes())?;
            put_short(name.as_bytes(), NAME_BYTES_MAX, "argument's name", buffer)?;
            put_medium(argument.value, VALUE_BYTES_MAX, "argument's value", buffer)?;
            count = count.saturating_add(1);
        }
        if usize::from(count) > ARGUMENTS_MAX || buffer.len() > ARGUMENTS_BYTES_MAX {
            return Err(Violation::TooLong("list of arguments"));
        }
        Ok(Arguments {
            count,
            encoded: buffer,
        })
    }

    fn decode(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let count = fields.u16()?;
        if usize::from(count) > ARGUMENTS_MAX {
            return Err(Violation::TooLong("list of arguments"));
        }
        let before = fields.0;
        for _ in 0..count {
            check_name(fields.short(NAME_BYTES_MAX, "argument's name")?)?;
            fields.medium(VALUE_BYTES_MAX, "argument's value")?;
        }
        let encoded = &before[..before.len() - fields.0.len()];
        if encoded.len() > ARGUMENTS_BYTES_MAX {
            return Err(Violation::TooLong("list of arguments"));
        }
        Ok(Self { count, encoded })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Argument<'a>> {
        let mut fields = Fields(self.encoded);
        core::iter::from_fn(move || {
            // They were checked when they were encoded or decoded.
            let name = fields.short(NAME_BYTES_MAX, "").ok()?;
            Some(Argument {
                name: core::str::from_utf8(name).ok()?,
                value: fields.medium(VALUE_BYTES_MAX, "").ok()?,
            })
        })
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Names of arguments and procedures: they get into logs, file names and environments.
fn check_name(bytes: &[u8]) -> Result<&str, Violation> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match core::str::from_utf8(bytes) {
        Ok(name) if !name.is_empty() && name.bytes().all(|byte| allowed(&byte)) => Ok(name),
        _ => Err(Violation::Value("name")),
    }
}

/// The bit of the flags that says that the caller can edit.
const CAN_EDIT: u8 = 1;

impl<'a> Call<'a> {
    /// Appends the call as one frame.
    ///
    /// # Errors
    /// When a field is beyond its bound; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Violation> {
        self.check()?;
        put_frame(CALL, out, |out| {
            out.extend_from_slice(&MAGIC);
            let transfer = match self.transfer {
                Transfer::None => 0,
                Transfer::Descriptor => 1,
                Transfer::OnDemand => 2,
            };
            let format = match self.format {
                Format::Message => 0,
                Format::XmailSpool => 1,
            };
            let flags = if self.can_edit { CAN_EDIT } else { 0 };
            out.extend_from_slice(&[VERSION, flags, transfer, format]);
            out.extend_from_slice(&self.deadline_ms.to_be_bytes());
            out.extend_from_slice(&self.size.to_be_bytes());
            put_short(
                check_name(self.procedure.as_bytes())?.as_bytes(),
                PROCEDURE_BYTES_MAX,
                "procedure's name",
                out,
            )?;
            put_medium(self.token, TOKEN_BYTES_MAX, "token", out)?;
            out.extend_from_slice(&self.arguments.count.to_be_bytes());
            out.extend_from_slice(self.arguments.encoded);
            put_long(self.head, HEAD_BYTES_MAX, "beginning of the file", out)
        })
    }

    pub(crate) fn decode(content: &'a [u8]) -> Result<Self, Violation> {
        debug_assert!(content.len() <= CALL_BYTES_MAX);
        let mut fields = Fields(content);
        if fields.bytes(MAGIC.len())? != MAGIC {
            return Err(Violation::Magic);
        }
        let version = fields.u8()?;
        if version != VERSION {
            return Err(Violation::Version(version));
        }
        let flags = fields.u8()?;
        if flags & !CAN_EDIT != 0 {
            return Err(Violation::Value("flags"));
        }
        let transfer = match fields.u8()? {
            0 => Transfer::None,
            1 => Transfer::Descriptor,
            2 => Transfer::OnDemand,
            _ => return Err(Violation::Value("transfer")),
        };
        let format = match fields.u8()? {
            0 => Format::Message,
            1 => Format::XmailSpool,
            _ => return Err(Violation::Value("format")),
        };
        let call = Self {
            can_edit: flags & CAN_EDIT != 0,
            transfer,
            format,
            deadline_ms: fields.u32()?,
            size: fields.u64()?,
            procedure: check_name(fields.short(PROCEDURE_BYTES_MAX, "procedure's name")?)?,
            token: fields.medium(TOKEN_BYTES_MAX, "token")?,
            arguments: Arguments::decode(&mut fields)?,
            head: fields.long(HEAD_BYTES_MAX, "beginning of the file")?,
        };
        fields.end()?;
        call.check()?;
        Ok(call)
    }

    /// The rules between fields.
    const fn check(&self) -> Result<(), Violation> {
        if self.deadline_ms == 0 || self.deadline_ms > DEADLINE_MS_MAX {
            return Err(Violation::Value("deadline"));
        }
        let fits = match self.transfer {
            Transfer::None => self.size == 0 && self.head.is_empty(),
            Transfer::Descriptor => self.head.is_empty(),
            Transfer::OnDemand => self.head.len() as u64 <= self.size,
        };
        if fits { Ok(()) } else { Err(Violation::Size) }
    }
}
