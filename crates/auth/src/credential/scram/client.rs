//! The client's side.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::message::{ServerFirst, escape, server_signature, text};
use super::{ITERATIONS_MIN, ScramError, prepared, xor};
use crate::credential::{Hidden, MakeError, Sha, base64, random};

/// The most rounds that a client does for a server that it does not know yet: about a second.
const ITERATIONS_MAX: u32 = 2_000_000;

/// A password after its rounds: the expensive part of a login, which a client may keep for as long
/// as the server keeps its salt.
#[derive(Clone)]
pub struct SaltedPassword {
    pub(super) sha: Sha,
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) key: Zeroizing<Vec<u8>>,
}

impl SaltedPassword {
    /// Takes the time of this many rounds.
    ///
    /// # Errors
    /// When SASLprep (RFC 4013) does not allow the password.
    pub fn derive(
        sha: Sha,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> Result<Self, MakeError> {
        let password = prepared(password)?;
        #[cfg(test)]
        super::super::password::work::note(
            password.as_bytes(),
            super::super::Cost::Pbkdf2 {
                digest: sha,
                iterations,
            },
        );
        let mut key = Zeroizing::new(vec![0; sha.bytes()]);
        sha.pbkdf2(password.as_bytes(), salt, iterations, &mut key);
        Ok(Self {
            sha,
            iterations,
            salt: salt.to_vec(),
            key,
        })
    }
}

impl SaltedPassword {
    /// Its digest: which mechanism it is for.
    #[must_use]
    pub const fn sha(&self) -> Sha {
        self.sha
    }
}

/// Leaves out the key.
impl fmt::Debug for SaltedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaltedPassword")
            .field("mechanism", &self.sha.mechanism())
            .field("iterations", &self.iterations)
            .field("key", &Hidden(self.key.len()))
            .finish_non_exhaustive()
    }
}

/// A client that has said nothing yet.
#[derive(Clone)]
pub struct ScramClient {
    sha: Sha,
    secret: Secret,
}

/// What a client proves itself with.
#[derive(Clone)]
enum Secret {
    Password(Zeroizing<Vec<u8>>),
    /// Salted before; used if the server still has that salt.
    Salted(SaltedPassword, Zeroizing<Vec<u8>>),
}

/// A client that waits for salt and rounds.
pub struct AwaitingFirst {
    client: ScramClient,
    nonce: String,
    bare: String,
}

/// A client that waits for the server's own proof.
pub struct AwaitingFinal {
    signature: Zeroizing<Vec<u8>>,
}

/// Leaves out what is secret.
impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramClient")
            .field("mechanism", &self.sha.mechanism())
            .finish_non_exhaustive()
    }
}

/// Leaves out what is secret.
impl fmt::Debug for AwaitingFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AwaitingFirst").field(&self.client).finish()
    }
}

/// Leaves out what is secret.
impl fmt::Debug for AwaitingFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwaitingFinal")
    }
}

impl ScramClient {
    /// A client with its password.
    #[must_use]
    pub fn new(sha: Sha, password: &[u8]) -> Self {
        let secret = Secret::Password(Zeroizing::new(password.to_vec()));
        Self { sha, secret }
    }

    /// A client that has salted its password before, by the salt that the server is expected to
    /// name.
    #[must_use]
    pub fn with_salted(salted: SaltedPassword, password: &[u8]) -> Self {
        Self {
            sha: salted.sha,
            secret: Secret::Salted(salted, Zeroizing::new(password.to_vec())),
        }
    }

    /// The first message.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn first(self, username: &str) -> Result<(AwaitingFirst, Vec<u8>), MakeError> {
        let nonce = base64::bare(&*random::<18>()?);
        Ok(self.first_with(username, nonce))
    }

    /// [`ScramClient::first`] with a given nonce: for test vectors.
    pub(super) fn first_with(self, username: &str, nonce: String) -> (AwaitingFirst, Vec<u8>) {
        let bare = format!("n={},r={nonce}", escape(username));
        let message = format!("n,,{bare}").into_bytes();
        let next = AwaitingFirst {
            client: self,
            nonce,
            bare,
        };
        (next, message)
    }

    fn salted(self, salt: &[u8], iterations: u32) -> Result<SaltedPassword, ScramError> {
        let password = match self.secret {
            Secret::Salted(salted, _) if salted.salt == salt && salted.iterations == iterations => {
                return Ok(salted);
            }
            Secret::Salted(_, password) | Secret::Password(password) => password,
        };
        SaltedPassword::derive(self.sha, &password, salt, iterations)
            .map_err(|_| ScramError::Unsupported("a character of the password"))
    }
}

impl AwaitingFirst {
    /// Answers the server's salt and rounds with a proof. Takes the time of the rounds unless they
    /// were done before.
    ///
    /// # Errors
    /// When the message is none of this exchange, or asks for too few or too many rounds.
    pub fn answer(self, message: &[u8]) -> Result<(AwaitingFinal, Vec<u8>), ScramError> {
        let message = text(message)?;
        let first = ServerFirst::parse(message)?;
        let is_ours = first.nonce.len() > self.nonce.len() && first.nonce.starts_with(&self.nonce);
        if !is_ours {
            return Err(ScramError::Nonce);
        }
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&first.iterations) {
            return Err(ScramError::Iterations(first.iterations));
        }
        let sha = self.client.sha;
        let salted = self.client.salted(&first.salt, first.iterations)?;
        // The header `n,,` in base64.
        let without_proof = format!("c=biws,r={}", first.nonce);
        let parts = [
            self.bare.as_bytes(),
            b",",
            message.as_bytes(),
            b",",
            without_proof.as_bytes(),
        ];
        let client_key = sha.hmac(&salted.key, &[b"Client Key"]);
        let stored_key = sha.digest(&client_key);
        let proof = xor(&client_key, &sha.hmac(&stored_key, &parts));
        let server_key = sha.hmac(&salted.key, &[b"Server Key"]);
        let signature = sha.hmac(&server_key, &parts);
        let answer = format!("{without_proof},p={}", base64::padded(&proof));
        Ok((AwaitingFinal { signature }, answer.into_bytes()))
    }
}

impl AwaitingFinal {
    /// Checks the server's own proof: only who knows the secret could make it.
    ///
    /// # Errors
    /// When it is wrong: then somebody poses as the server.
    pub fn finish(self, message: &[u8]) -> Result<(), ScramError> {
        let signature = server_signature(text(message)?)?;
        if bool::from(signature.ct_eq(&self.signature)) {
            Ok(())
        } else {
            Err(ScramError::Proof)
        }
    }
}
