//! The server's side.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::message::{ClientFinal, text};
use super::{ClientFirst, ScramError, ScramSecret, xor};
use crate::credential::{MakeError, base64, random};

/// The server's half of a nonce: 18 random bytes in base64.
///
/// # Errors
/// When the system gives no random bytes.
pub fn server_nonce() -> Result<String, MakeError> {
    Ok(base64::bare(&*random::<18>()?))
}

/// A server that waits for the proof of a client.
#[derive(Debug)]
pub struct ScramServer {
    secret: ScramSecret,
    header: String,
    /// The client's nonce and the server's, joined.
    nonce: String,
    /// What was said so far: the first half of what both sides sign.
    said: String,
}

impl ScramServer {
    /// Answers the first message of a client. `nonce` is the server's half, never used before.
    #[must_use]
    pub fn begin(first: &ClientFirst, secret: ScramSecret, nonce: &str) -> (Self, Vec<u8>) {
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = base64::padded(&secret.salt);
        let answer = format!("r={nonce},s={salt},i={}", secret.iterations);
        let said = format!("{},{answer}", first.bare);
        let server = Self {
            secret,
            header: first.header.clone(),
            nonce,
            said,
        };
        (server, answer.into_bytes())
    }

    /// Checks the proof of the client and answers with the server's own, which goes to the client
    /// together with the success.
    ///
    /// # Errors
    /// When the message is none of this exchange, or the proof is wrong.
    pub fn finish(self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let message = ClientFinal::parse(text(message)?)?;
        if message.header != self.header.as_bytes() {
            return Err(ScramError::Malformed("it repeats another header"));
        }
        if message.nonce != self.nonce {
            return Err(ScramError::Nonce);
        }
        let sha = self.secret.sha;
        if message.proof.len() != sha.bytes() {
            return Err(ScramError::Malformed("its proof has a wrong length"));
        }
        let signed = [self.said.as_bytes(), b",", message.without_proof.as_bytes()];
        let signature = sha.hmac(&self.secret.stored_key, &signed);
        let client_key: Zeroizing<Vec<u8>> = xor(&signature, &message.proof);
        let stored_key = sha.digest(&client_key);
        if !bool::from(stored_key.ct_eq(&self.secret.stored_key)) {
            return Err(ScramError::Proof);
        }
        let signature = sha.hmac(&self.secret.server_key, &signed);
        Ok(format!("v={}", base64::padded(&signature)).into_bytes())
    }
}
