//! What a server keeps for SCRAM.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::client::SaltedPassword;
use crate::credential::password::{ITERATIONS_MAX, SALT_BYTES_MAX};
use crate::credential::{
    Cost, CredentialError, Hidden, MakeError, Sha, base64, bounded, number, random,
};

/// The fewest rounds that are taken: what RFC 5802 and RFC 7677 ask for.
pub const ITERATIONS_MIN: u32 = 4_096;

/// Bytes of a new salt.
pub(crate) const SALT_BYTES: usize = 16;

/// What a server keeps of a password for SCRAM, stored as
/// `SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY`, as RFC 5803 and PostgreSQL have it. From
/// it nobody can log in without guessing the password, but its thief can pose as the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramSecret {
    pub(super) sha: Sha,
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Vec<u8>,
    pub(super) server_key: Vec<u8>,
}

impl ScramSecret {
    /// Derives a secret from a password with a random salt: takes the time of this many rounds.
    ///
    /// # Errors
    /// When the system gives no random bytes, or SASLprep does not allow the password.
    pub fn make(sha: Sha, password: &[u8], iterations: u32) -> Result<Self, MakeError> {
        let salt = random::<SALT_BYTES>()?;
        let salted = SaltedPassword::derive(sha, password, &*salt, iterations)?;
        Ok(Self::of(&salted))
    }

    /// The secret of a password that was salted already.
    #[must_use]
    pub fn of(salted: &SaltedPassword) -> Self {
        let sha = salted.sha;
        let client_key = sha.hmac(&salted.key, &[b"Client Key"]);
        Self {
            sha,
            iterations: salted.iterations,
            salt: salted.salt.clone(),
            stored_key: sha.digest(&client_key).to_vec(),
            server_key: sha.hmac(&salted.key, &[b"Server Key"]).to_vec(),
        }
    }

    /// The secret of nobody, which looks like somebody's with this many rounds and bytes of salt:
    /// the same name always gets the same salt, and no password fits it. `key` is secret.
    #[must_use]
    pub fn decoy(sha: Sha, key: &[u8], name: &str, iterations: u32, salt_bytes: usize) -> Self {
        let part = |what: &[u8]| sha.hmac(key, &[what, name.as_bytes()]).to_vec();
        let mut salt = Vec::with_capacity(salt_bytes);
        for number in 0..salt_bytes.div_ceil(sha.bytes()) {
            salt.extend(part(format!("salt {number}/").as_bytes()));
        }
        salt.truncate(salt_bytes);
        Self {
            sha,
            iterations,
            salt,
            stored_key: part(b"stored/"),
            server_key: part(b"server/"),
        }
    }

    /// Parses the stored form.
    ///
    /// # Errors
    /// When it is none, or its parameters are beyond the bounds.
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        const KIND: &str = "SCRAM";
        const FORM: CredentialError = CredentialError::Malformed {
            kind: KIND,
            reason: "it must be like SCRAM-SHA-256$10000:SALT$STORED_KEY:SERVER_KEY",
        };
        let mut fields = text.split('$');
        let mut field = || fields.next().ok_or(FORM);
        let sha = Sha::of_mechanism(field()?).ok_or(FORM)?;
        let (iterations, salt) = field()?.split_once(':').ok_or(FORM)?;
        let (stored_key, server_key) = field()?.split_once(':').ok_or(FORM)?;
        if fields.next().is_some() {
            return Err(FORM);
        }
        let iterations = number(KIND, iterations)?;
        let (min, max) = (u64::from(ITERATIONS_MIN), ITERATIONS_MAX);
        let secret = Self {
            sha,
            iterations: bounded(KIND, "iterations", iterations, min, max)?,
            salt: base64::decode(KIND, salt, SALT_BYTES_MAX)?,
            stored_key: base64::decode(KIND, stored_key, sha.bytes())?,
            server_key: base64::decode(KIND, server_key, sha.bytes())?,
        };
        let lens = [secret.stored_key.len(), secret.server_key.len()];
        if lens != [sha.bytes(); 2] || secret.salt.is_empty() {
            return Err(FORM);
        }
        Ok(secret)
    }

    /// Its digest: which mechanism it is for.
    #[must_use]
    pub const fn sha(&self) -> Sha {
        self.sha
    }

    /// Its rounds.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The length of its salt, in bytes.
    #[must_use]
    pub const fn salt_bytes(&self) -> usize {
        self.salt.len()
    }

    /// What deriving it from a password costs.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        Cost::Pbkdf2 {
            digest: self.sha,
            iterations: self.iterations,
        }
    }

    /// Whether a password is the one of this secret. Takes the time of its rounds.
    #[must_use]
    pub fn verify_password(&self, password: &[u8]) -> bool {
        let Ok(salted) = SaltedPassword::derive(self.sha, password, &self.salt, self.iterations)
        else {
            self.cost().spend(password);
            return false;
        };
        let other = Self::of(&salted);
        other.stored_key.ct_eq(&self.stored_key).into()
    }
}

impl Drop for ScramSecret {
    fn drop(&mut self) {
        self.stored_key.zeroize();
        self.server_key.zeroize();
    }
}

/// Leaves out salt and keys.
impl fmt::Debug for ScramSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramSecret")
            .field("mechanism", &self.sha.mechanism())
            .field("iterations", &self.iterations)
            .field("keys", &Hidden(self.stored_key.len()))
            .finish_non_exhaustive()
    }
}

/// The stored form.
impl fmt::Display for ScramSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}${}:{}${}:{}",
            self.sha.mechanism(),
            self.iterations,
            base64::padded(&self.salt),
            base64::padded(&self.stored_key),
            base64::padded(&self.server_key)
        )
    }
}
