//! The milter protocol: how Sendmail and Postfix show a message to a filter while it arrives.
//!
//! The mail server connects and says what it can do; the filter says what it wants ([`Session`]
//! does that). Then come the SMTP client, the envelope, the headers and the body, piece by piece,
//! and at the end the filter's changes and its verdict. One connection serves many messages.
//!
//! - [`Command`] is what the mail server sends, decoded in place.
//! - [`Session`] follows the order of the commands and keeps what a message is about.
//! - [`Reply`] is what the filter sends; [`changes`] finds the replies that turn one message into
//!   another.

mod changes;
mod command;
mod reply;
mod session;

pub use changes::{body_start, changes};
pub use command::{COMMAND_BYTES_MAX, Command, Words};
pub use reply::{BODY_BYTES_MAX, Reply};
pub use session::{Event, HEADERS_BYTES_MAX, Session, Transaction};

/// What a filter may do to a message; bits as they stand on the wire.
pub mod actions {
    /// Add headers.
    pub const ADD_HEADERS: u32 = 0x01;
    /// Replace the body.
    pub const CHANGE_BODY: u32 = 0x02;
    /// Change and remove headers.
    pub const CHANGE_HEADERS: u32 = 0x10;
    /// Put the message aside.
    pub const QUARANTINE: u32 = 0x20;
    /// All that is needed to change a message.
    pub const EDIT: u32 = ADD_HEADERS | CHANGE_BODY | CHANGE_HEADERS;
}

/// Which commands come, and which of them want a reply; bits as they stand on the wire.
pub mod steps {
    /// Commands that SMTP does not know are not shown.
    pub const NO_UNKNOWN: u32 = 0x0100;
    /// The DATA command is not shown.
    pub const NO_DATA: u32 = 0x0200;
    /// A header gets no reply.
    pub const SILENT_HEADER: u32 = 0x0080;
    /// The connection gets no reply.
    pub const SILENT_CONNECT: u32 = 0x1000;
    /// HELO gets no reply.
    pub const SILENT_HELO: u32 = 0x2000;
    /// MAIL gets no reply.
    pub const SILENT_MAIL: u32 = 0x4000;
    /// RCPT gets no reply.
    pub const SILENT_RCPT: u32 = 0x8000;
    /// The end of the headers gets no reply.
    pub const SILENT_END_OF_HEADERS: u32 = 0x4_0000;
    /// A piece of the body gets no reply.
    pub const SILENT_BODY: u32 = 0x8_0000;
    /// Values of headers come and go with the space after the colon.
    pub const LEADING_SPACE: u32 = 0x10_0000;
}
