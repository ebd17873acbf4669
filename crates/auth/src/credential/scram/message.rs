//! The four messages of SCRAM as text.

use super::ScramError;
use crate::credential::base64;

/// The longest message that is taken, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// The longest nonce that is taken, in bytes.
const NONCE_BYTES_MAX: usize = 256;

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user name, unescaped.
    pub username: String,
    /// The GS2 header, which the client repeats in its second message.
    pub(super) header: String,
    /// The message without the header.
    pub(super) bare: String,
    /// The client's half of the nonce.
    pub(super) nonce: String,
}

/// The second message of a client.
pub(super) struct ClientFinal<'a> {
    /// The repeated GS2 header.
    pub(super) header: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) proof: Vec<u8>,
    /// The message up to the proof: what both sides sign.
    pub(super) without_proof: &'a str,
}

/// The first message of a server.
pub(super) struct ServerFirst<'a> {
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
}

/// The text of a message of decent length.
pub(super) fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(ScramError::Malformed("it is too long"));
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed("it is not valid UTF-8"))
}

/// The value of the attribute `name=` that must stand here.
fn attribute<'a>(part: Option<&'a str>, name: &str) -> Result<&'a str, ScramError> {
    part.and_then(|part| part.strip_prefix(name))
        .and_then(|rest| rest.strip_prefix('='))
        .ok_or(ScramError::Malformed("an attribute is missing"))
}

fn nonce(text: &str) -> Result<&str, ScramError> {
    let is_printable = text
        .bytes()
        .all(|byte| matches!(byte, 0x21..=0x2B | 0x2D..=0x7E));
    if text.is_empty() || text.len() > NONCE_BYTES_MAX || !is_printable {
        return Err(ScramError::Malformed("its nonce is none"));
    }
    Ok(text)
}

/// Bytes in base64 with padding, as RFC 5802 asks.
fn bytes(text: &str) -> Result<Vec<u8>, ScramError> {
    base64::decode("SCRAM", text, MESSAGE_BYTES_MAX)
        .map_err(|_| ScramError::Malformed("a value is not valid base64"))
}

/// A name with `,` and `=` escaped.
pub(super) fn escape(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

fn unescape(name: &str) -> Result<String, ScramError> {
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            (None, None) => return Err(ScramError::Malformed("its name is badly escaped")),
        };
        plain.push(character);
        plain.push_str(rest);
    }
    if plain.is_empty() {
        return Err(ScramError::Malformed("its name is empty"));
    }
    Ok(plain)
}

impl ClientFirst {
    /// Reads the first message of a client.
    ///
    /// # Errors
    /// When it is none, asks for channel binding or an extension, or asks to act as somebody else,
    /// or its name has a control character, which RFC 4013 forbids.
    pub fn parse(message: &[u8]) -> Result<Self, ScramError> {
        let first = Self::read(message)?;
        if first.username.contains(char::is_control) {
            return Err(ScramError::Malformed("its name has a control character"));
        }
        Ok(first)
    }

    /// Reads it whatever its name is, which a failure is counted for.
    pub(crate) fn read(message: &[u8]) -> Result<Self, ScramError> {
        let text = text(message)?;
        let mut parts = text.splitn(3, ',');
        match parts.next() {
            // A client that could do channel binding but believes that this server cannot is right.
            Some("n" | "y") => {}
            Some(flag) if flag.starts_with("p=") => {
                return Err(ScramError::Unsupported("channel binding"));
            }
            _ => return Err(ScramError::Malformed("its channel binding flag is none")),
        }
        let acts_as = match parts.next() {
            Some("") => None,
            part => Some(unescape(attribute(part, "a")?)?),
        };
        let bare = parts
            .next()
            .ok_or(ScramError::Malformed("an attribute is missing"))?;
        if bare.starts_with("m=") {
            return Err(ScramError::Unsupported("a mandatory extension"));
        }
        let mut parts = bare.split(',');
        let username = unescape(attribute(parts.next(), "n")?)?;
        let nonce = nonce(attribute(parts.next(), "r")?)?;
        if acts_as.is_some_and(|name| name != username) {
            return Err(ScramError::Unsupported("acting as another user"));
        }
        Ok(Self {
            username,
            header: text[..text.len() - bare.len()].to_owned(),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
        })
    }
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, ScramError> {
        let (without_proof, proof) = text
            .rsplit_once(",p=")
            .ok_or(ScramError::Malformed("its proof is missing"))?;
        let mut parts = without_proof.split(',');
        Ok(Self {
            header: bytes(attribute(parts.next(), "c")?)?,
            nonce: nonce(attribute(parts.next(), "r")?)?,
            proof: bytes(proof)?,
            without_proof,
        })
    }
}

impl<'a> ServerFirst<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, ScramError> {
        if text.starts_with("m=") {
            return Err(ScramError::Unsupported("a mandatory extension"));
        }
        let mut parts = text.split(',');
        let nonce = nonce(attribute(parts.next(), "r")?)?;
        let salt = bytes(attribute(parts.next(), "s")?)?;
        let iterations = attribute(parts.next(), "i")?;
        let iterations = crate::credential::number("SCRAM", iterations)
            .map_err(|_| ScramError::Malformed("its number of rounds is none"))?;
        Ok(Self {
            nonce,
            salt,
            iterations,
        })
    }
}

/// The signature in the last message of a server.
pub(super) fn server_signature(text: &str) -> Result<Vec<u8>, ScramError> {
    let first = text.split(',').next();
    if attribute(first, "e").is_ok() {
        return Err(ScramError::Refused);
    }
    bytes(attribute(first, "v")?)
}
