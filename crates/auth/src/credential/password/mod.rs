//! Hashes of passwords, in every form that Stentor makes or takes over.

mod form;
mod function;
mod memory;

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::{CredentialError, Hidden, MakeError, Verdict, random};
use form::Form;
pub(crate) use function::ITERATIONS_MAX;
#[cfg(test)]
pub(crate) use function::work;
pub use function::{Argon2Kind, Cost, Sha};
pub use memory::{keep_memory, release_memory};

/// Bytes of a new salt.
const SALT_BYTES: usize = 16;

/// The longest salt that is taken, in bytes.
pub const SALT_BYTES_MAX: usize = 256;

/// The longest hash that is taken, in bytes.
pub const HASH_BYTES_MAX: usize = 128;

/// The shortest hash that is taken, in bytes: fewer could be guessed.
pub const HASH_BYTES_MIN: usize = 10;

/// How much of a password bcrypt looks at.
const BCRYPT_BYTES: usize = 72;

/// The hash of a password with what it was made by, within the bounds of [`Cost`].
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    form: Form,
    cost: Cost,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl PasswordHash {
    /// Hashes a password with a random salt. Takes the memory and time of `cost`.
    ///
    /// # Errors
    /// When the system gives no random bytes or the function does not take the password.
    pub fn make(password: &[u8], cost: Cost) -> Result<Self, MakeError> {
        let salt = random::<SALT_BYTES>()?.to_vec();
        let hash = cost.compute(password, &salt, cost.hash_bytes())?.to_vec();
        Ok(Self {
            form: Form::Modular,
            cost,
            salt,
            hash,
        })
    }

    /// Parses a standard string.
    ///
    /// # Errors
    /// When it is none, or asks for more than the bounds allow.
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        form::parse(text)
    }

    /// What a comparison costs.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Compares a password with this hash, in a time that depends on the cost alone.
    #[must_use]
    pub fn verify(&self, password: &[u8], wanted: Cost) -> Verdict {
        let computed = self.cost.compute(password, &self.salt, self.hash.len());
        let is_right = computed.is_ok_and(|hash| bool::from(hash.ct_eq(&self.hash)));
        match is_right {
            false => Verdict::Wrong,
            true if !self.sees_all_of(password) => Verdict::Right,
            true if self.is_outdated(wanted) => Verdict::RightButOutdated,
            true => Verdict::Right,
        }
    }

    /// Whether a password that fits this hash is the one that it was made of. What a function does
    /// not tell apart may be anything: a hash made of that would shut the user out who knows the
    /// password. HMAC, and bcrypt, take a password with zeros behind it for the one without.
    fn sees_all_of(&self, password: &[u8]) -> bool {
        match self.cost {
            Cost::Argon2 { .. } | Cost::Sha512 => true,
            // The last of the bytes that it looks at is the zero behind the password.
            Cost::Bcrypt { .. } => password.len() < BCRYPT_BYTES && !password.contains(&0),
            Cost::Pbkdf2 { .. } | Cost::Scrypt { .. } => !password.contains(&0),
        }
    }

    /// Whether new hashes are made by another function, or with larger parameters.
    #[must_use]
    pub fn is_outdated(&self, wanted: Cost) -> bool {
        self.cost.is_below(wanted) || self.salt.len() < SALT_BYTES.min(wanted.salt_bytes())
    }
}

impl Cost {
    /// Takes the memory and time of comparing `password` with a hash of this cost, for a user who
    /// does not exist.
    pub fn spend(self, password: &[u8]) {
        const NOBODY: [u8; SALT_BYTES] = *b"nobody of anyone";
        let computed = self.compute(password, &NOBODY, self.hash_bytes());
        std::hint::black_box(computed.is_ok());
    }

    /// The hash itself, wiped when dropped.
    fn compute(
        self,
        password: &[u8],
        salt: &[u8],
        len: usize,
    ) -> Result<Zeroizing<Vec<u8>>, MakeError> {
        let mut out = Zeroizing::new(vec![0; len]);
        self.fill(password, salt, &mut out)?;
        Ok(out)
    }
}

impl Drop for PasswordHash {
    fn drop(&mut self) {
        self.hash.zeroize();
    }
}

/// Leaves out salt and hash.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash")
            .field("cost", &self.cost)
            .field("hash", &Hidden(self.hash.len()))
            .finish_non_exhaustive()
    }
}

/// The standard string: what [`PasswordHash::parse`] reads.
impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        form::write(f, self.form, self.cost, &self.salt, &self.hash)
    }
}

#[cfg(test)]
mod tests;
