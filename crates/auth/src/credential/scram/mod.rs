//! SCRAM (RFC 5802, RFC 7677): logins in which neither the password nor anything that is worth it
//! crosses the wire, and in which the client does the expensive part.
//!
//! Both sides are state machines without I/O: bytes of one message in, bytes of the next out, each
//! step consuming the state before it. Channel binding is not offered.
//!
//! ```text
//! client                                         server
//! ScramClient::first      ── n,,n=ann,r=… ──►    ClientFirst::parse, ScramServer::begin
//! AwaitingFirst::answer   ◄── r=…,s=…,i=… ──
//!                         ── c=biws,r=…,p=… ──►  ScramServer::finish
//! AwaitingFinal::finish   ◄── v=… ──
//! ```

mod client;
mod message;
mod secret;
mod server;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha512};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{MakeError, Sha};

pub use client::{AwaitingFinal, AwaitingFirst, SaltedPassword, ScramClient};
pub use message::{ClientFirst, MESSAGE_BYTES_MAX};
pub(crate) use secret::SALT_BYTES;
pub use secret::{ITERATIONS_MIN, ScramSecret};
pub use server::{ScramServer, server_nonce};

/// Rounds of new secrets. The client pays them once for each login, so a small device does not
/// give up; RFC 7677 asks for at least 4,096.
pub const ITERATIONS_DEFAULT: u32 = 10_000;

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScramError {
    /// A message is none of SCRAM's, or too long.
    #[error("a message is not what SCRAM has here: {0}")]
    Malformed(&'static str),
    /// The client asks for channel binding or an extension.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// The proof of the client, or the signature of the server, is wrong.
    #[error("the proof is wrong")]
    Proof,
    /// The nonce is not the one of this exchange.
    #[error("the nonce is not the one of this exchange")]
    Nonce,
    /// The server asks for fewer rounds than is safe, or more than is decent.
    #[error("the server asks for {0} rounds, which is beyond the bounds")]
    Iterations(u32),
    /// The server says that it is not right.
    #[error("the server refuses")]
    Refused,
}

impl Sha {
    /// The name of the SASL mechanism, which is also the Authentication Method of MQTT 5.
    #[must_use]
    pub const fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The digest of a mechanism.
    #[must_use]
    pub fn of_mechanism(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|sha| sha.mechanism() == name)
    }

    /// HMAC of some pieces, one after the other; wiped when dropped.
    fn hmac(self, key: &[u8], pieces: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha256 => hmac::<Hmac<Sha256>>(key, pieces),
            Self::Sha512 => hmac::<Hmac<Sha512>>(key, pieces),
        }
    }

    /// The plain digest.
    fn digest(self, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        })
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], pieces: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        // HMAC takes keys of every length.
        return Zeroizing::default();
    };
    for piece in pieces {
        mac.update(piece);
    }
    Zeroizing::new(mac.finalize().into_bytes().to_vec())
}

/// A password as SCRAM hashes it: normalised by SASLprep (RFC 4013).
fn prepared(password: &[u8]) -> Result<Zeroizing<String>, MakeError> {
    let text = std::str::from_utf8(password).map_err(|_| MakeError::Prohibited)?;
    let prepared = stringprep::saslprep(text).map_err(|_| MakeError::Prohibited)?;
    Ok(Zeroizing::new(prepared.into_owned()))
}

/// `a` XOR `b`, as long as the shorter of them.
fn xor(a: &[u8], b: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(a.iter().zip(b).map(|(a, b)| a ^ b).collect())
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
