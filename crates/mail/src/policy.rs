//! Postfix's policy delegation: lines `name=value` up to an empty one, answered by one
//! `action=…` and an empty line. One connection serves many requests.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{NAME_BYTES_MAX, Violation};

/// The longest request.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// The longest action that is sent.
pub const ACTION_BYTES_MAX: usize = 512;

/// What Postfix asks about. Attributes that it does not have are empty in the request and `None`
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The state of the SMTP conversation, as in `RCPT` or `DATA`.
    pub state: Option<String>,
    /// The sender's address; empty for a bounce.
    pub sender: Option<String>,
    /// The recipient's address; at DATA, only if there is a single one.
    pub recipient: Option<String>,
    /// The SMTP client's address.
    pub client: Option<String>,
    /// The name that it said hello with.
    pub helo: Option<String>,
    /// The user who it logged in as.
    pub user: Option<String>,
    /// The message's name in the queue, once it has one.
    pub queue_id: Option<String>,
    /// What all requests about one message have in common.
    pub instance: Option<String>,
    /// The size in bytes: what the client announced, or at END-OF-MESSAGE what came.
    pub size: Option<u64>,
}

impl Request {
    /// Takes the first request off `input`: the request and how many bytes it took, or `None`
    /// while it is not complete.
    ///
    /// # Errors
    /// What Postfix did wrong.
    pub fn decode(input: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        // MQTT and TLS begin so. Both wait for an answer, and write no line.
        let is_foreign = |byte: &u8| byte.is_ascii_control() && *byte != b'\n';
        if input.first().is_some_and(is_foreign) {
            return Err(Violation::Line);
        }
        let mut request = Self::default();
        let mut at = 0;
        for line in input.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            if at > REQUEST_BYTES_MAX {
                return Err(Violation::TooLong("request"));
            }
            let Some(line) = line.strip_suffix(b"\n") else {
                return Ok(None);
            };
            if line.is_empty() {
                return Ok(Some((request, at)));
            }
            let equals = line.iter().position(|byte| *byte == b'=');
            let (name, value) = line.split_at(equals.ok_or(Violation::Line)?);
            request.set(name, &value[1..])?;
        }
        Ok(None)
    }

    /// Keeps an attribute, if it is one of those that procedures receive.
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Violation> {
        let (place, what) = match name {
            b"protocol_state" => (&mut self.state, "state"),
            b"sender" => (&mut self.sender, "address"),
            b"recipient" => (&mut self.recipient, "address"),
            b"client_address" => (&mut self.client, "client's address"),
            b"helo_name" => (&mut self.helo, "client's name"),
            b"sasl_username" => (&mut self.user, "user's name"),
            b"queue_id" => (&mut self.queue_id, "queue id"),
            b"instance" => (&mut self.instance, "instance"),
            b"size" => {
                let size = core::str::from_utf8(value)
                    .ok()
                    .and_then(|size| size.parse().ok());
                // Postfix writes 0 for a size that nobody announced.
                self.size = size.filter(|size| *size > 0);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if value.len() > NAME_BYTES_MAX {
            return Err(Violation::TooLong(what));
        }
        // The sender of a bounce is the empty one.
        let is_given = !value.is_empty() || name == b"sender";
        *place = is_given.then(|| String::from_utf8_lossy(value).into_owned());
        Ok(())
    }
}

/// Appends an answer. What could end the line becomes a space, and what is too long is cut.
pub fn encode_action(action: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"action=");
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut text: String = action.chars().map(clean).collect();
    while text.len() > ACTION_BYTES_MAX {
        text.pop();
    }
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\n\n");
}
