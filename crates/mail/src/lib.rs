//! What mail servers speak to filters, to and from bytes.
//!
//! - [`milter`]: the protocol of Sendmail's and Postfix's mail filters, version 6 (2 to 5 are
//!   understood as well).
//! - [`policy`]: Postfix's policy delegation, which asks about an envelope in lines of text.
//!
//! Neither does I/O or knows a clock; callers bring both. Every field is bounded; what breaks a
//! bound or an order is a [`Violation`], after which the connection has to be closed: the mail
//! server then does what it does without the filter.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod milter;
pub mod policy;

use core::fmt;

/// Recipients of one message.
pub const RECIPIENTS_MAX: usize = 10_000;

/// The longest address, and the longest name of a client, a user or a message: mail servers take no
/// longer lines from their clients.
pub const NAME_BYTES_MAX: usize = 2048;

/// All recipients of one message together: more than the thousand of them that mail servers take
/// from a client, each as long as may be.
pub const RECIPIENTS_BYTES_MAX: usize = 4 << 20;

/// What a mail server did against its protocol. The connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A version of the milter protocol before 2, with which nothing can be done; the peer's.
    Version(u32),
    /// A command that does not exist; its byte.
    Unknown(u8),
    /// A command that must not come now; its byte.
    Unexpected(u8),
    /// Something goes beyond its bound; what.
    TooLong(&'static str),
    /// A command ends in the middle of a field.
    Length,
    /// A line that is not `name=value`.
    Line,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "the mail server speaks version {version} of the milter protocol; 2 to 6 are known"
            ),
            Self::Unknown(byte) => write!(f, "there is no command {byte:#04x}"),
            Self::Unexpected(byte) => write!(f, "the command {byte:#04x} must not come now"),
            Self::TooLong(what) => write!(f, "the {what} goes beyond its bound"),
            Self::Length => f.write_str("a command ends in the middle of a field"),
            Self::Line => f.write_str("a line is not of the form name=value"),
        }
    }
}

impl core::error::Error for Violation {}
