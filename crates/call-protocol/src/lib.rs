//! The call protocol: how `stentor-call` asks a server to run a procedure about a file, to and
//! from bytes.
//!
//! One call is one connection. The caller writes a [`Call`]; the server answers with any number of
//! [`Edit`]s and one [`Answer`]. Only if the procedure needs more of the file than the caller sent
//! does the server ask for it in between, once. `docs/call-protocol.md` describes every byte.
//!
//! - [`ToServer`] and [`ToClient`] are the frames, decoded in place without copying.
//! - [`Reception`] and [`Conversation`] are the two ends as state machines: they say which frame
//!   may come when. They do no I/O and know no clock; callers bring both.
//!
//! Every field is bounded ([`limits`]); what breaks a bound or an order is a [`Violation`], after
//! which the connection has to be closed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod call;
mod conversation;
mod format;
mod frame;
pub mod limits;
mod reception;
mod refusal;
mod wire;

pub use answer::{Answer, Edit, Status, Verdict};
pub use call::{Argument, Arguments, Call, Transfer};
pub use conversation::{Conversation, Event};
pub use format::{Format, NoMessage, headers_end};
pub use frame::{HEADER_BYTES, ToClient, ToServer, encode_data, encode_end, encode_need_body};
pub use reception::{Arrival, Reception};
pub use refusal::Refusal;
pub use wire::Violation;

/// The version of the protocol that this code speaks; it is in every [`Call`].
pub const VERSION: u8 = 1;

/// The first bytes of every [`Call`]: what is not a caller is refused before anything else is
/// looked at.
pub const MAGIC: [u8; 4] = *b"STCL";
