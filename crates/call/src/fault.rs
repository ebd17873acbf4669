//! Why there is no answer.

use std::fmt;

use stentor_call_protocol::{Status, Violation};

/// What a server begins with that waits for TLS. No frame has this kind.
const TLS_ALERT: u8 = 0x15;

/// Why a call came to no verdict. Each of them leads to what `--on-error` says.
#[derive(Debug)]
pub enum Fault {
    /// The command line makes no sense, or a file that it names cannot be used.
    Usage(String),
    /// The file cannot be read: what was tried, and the reason.
    File(String),
    /// The message was decided on, and cannot be passed on as it has to be: what was tried, and
    /// the reason.
    Delivery(String),
    /// The server cannot be reached: where, and the reason.
    Unreachable(String),
    /// There is no TLS where the command line asks for it: why, and what to do.
    NoTls(String),
    /// The deadline passed.
    Timeout,
    /// The deadline passed while the changed message was written.
    TooLarge,
    /// The server ended the connection without an answer.
    Closed,
    /// The connection broke.
    Broken(String),
    /// The server does not speak the protocol.
    Nonsense(Violation),
    /// The call cannot be put into a frame: an argument is too long, for example.
    Unspeakable(Violation),
    /// The server answered that the call did not work, and had no verdict to give.
    Refused(Status, String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{text} (--help shows what there is)"),
            Self::File(reason)
            | Self::Delivery(reason)
            | Self::Unreachable(reason)
            | Self::NoTls(reason) => f.write_str(reason),
            Self::Timeout => f.write_str(
                "there was no answer before the deadline; --deadline gives the server more time",
            ),
            Self::TooLarge => f.write_str(
                "the message is too large to be changed before the deadline, and a file stays as \
                 it is; --deadline gives it more time",
            ),
            Self::Closed => f.write_str(
                "the server closed the connection without an answer; perhaps it has no call listener \
                 there",
            ),
            Self::Broken(reason) => write!(f, "the connection broke: {reason}"),
            Self::Nonsense(Violation::UnknownFrame(TLS_ALERT)) => f.write_str(
                "the server speaks TLS there; if it is a listener calls://, give --server \
                 calls://ADDRESS",
            ),
            Self::Nonsense(violation) => write!(f, "the server's answer is not valid: {violation}"),
            Self::Unspeakable(violation) => write!(f, "this call cannot be sent: {violation}"),
            Self::Refused(status, text) => write!(f, "{}: {text}", status.name()),
        }
    }
}
