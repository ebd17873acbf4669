//! What users prove themselves with: password hashes, tokens, SCRAM secrets, JSON web tokens and
//! certificates.
//!
//! Nothing here knows a user, a store or a socket. A stored credential is parsed into a
//! [`Stored`], whose bounds keep a mistaken or hostile hash from eating memory or time; what a
//! client shows is compared with it in constant time. Secrets are wiped when they are dropped and
//! never printed.
//!
//! | stored as | made by | shown as |
//! |---|---|---|
//! | `$argon2id$…`, `$pbkdf2-sha256$…`, `$scrypt$…`, `$2b$…` | [`PasswordHash::make`] | password |
//! | `$6$…`, `$7$…` | mosquitto | password |
//! | `token:…` | [`Token::generate`] | password |
//! | `SCRAM-SHA-256$…`, `SCRAM-SHA-512$…` | [`ScramSecret::make`] | SCRAM, or password |

pub mod certificate;
pub mod jwt;
pub mod made;
pub mod password;
pub mod scram;
pub mod token;

use std::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

pub use password::{Cost, PasswordHash, Sha, keep_memory, release_memory};
pub(crate) use password::{ITERATIONS_MAX, SALT_BYTES_MAX};
pub(crate) use scram::SALT_BYTES;
pub use scram::ScramSecret;
pub use token::{Token, TokenHash, is_token};

/// A stored credential, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The hash of a password.
    Password(PasswordHash),
    /// The hash of a token.
    Token(TokenHash),
    /// What SCRAM compares with.
    Scram(ScramSecret),
}

/// What a password or token proved to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The right one.
    Right,
    /// The right one, but its stored form is older or weaker than new ones: it should be replaced.
    RightButOutdated,
    /// Another one.
    Wrong,
}

/// Why a text is not a credential. The message does not contain the text, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialError {
    /// It begins like none that is known.
    #[error(
        "unknown kind of credential; it must begin with $argon2id$, $argon2i$, $pbkdf2-sha256$, \
         $pbkdf2-sha512$, $scrypt$, $2a$, $2b$, $2y$ (bcrypt), $6$, $7$ (mosquitto), token:, \
         SCRAM-SHA-256$ or SCRAM-SHA-512$"
    )]
    Unknown,
    /// It begins like a known one but does not go on like it.
    #[error("invalid {kind} credential: {reason}")]
    Malformed {
        /// What it begins like.
        kind: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// It asks for more memory or time than this program gives.
    #[error("this {kind} credential has {what} {value}, and {what} must be from {min} to {max}")]
    OutOfBounds {
        /// What it is.
        kind: &'static str,
        /// Which of its numbers.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least that is taken.
        min: u64,
        /// The most that is taken.
        max: u64,
    },
}

/// Why a password or token could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MakeError {
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(String),
    /// bcrypt looks at 72 bytes and no more.
    #[error("bcrypt takes passwords of at most 71 bytes; choose argon2id for longer ones")]
    TooLongForBcrypt,
    /// SCRAM does not allow a character of the password.
    #[error("SCRAM does not allow a character of this password (RFC 4013); choose another one")]
    Prohibited,
    /// A function refused its own parameters.
    #[error("the hash could not be computed: {0}")]
    Function(&'static str),
}

impl Stored {
    /// Parses a stored credential.
    ///
    /// # Errors
    /// When it is none, or its parameters are beyond the bounds of its kind.
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        if text.starts_with('$') {
            PasswordHash::parse(text).map(Self::Password)
        } else if text.starts_with("token:") {
            TokenHash::parse(text).map(Self::Token)
        } else if text.starts_with("SCRAM-") {
            ScramSecret::parse(text).map(Self::Scram)
        } else {
            Err(CredentialError::Unknown)
        }
    }

    /// What a comparison with a password costs: for a token nothing worth mentioning.
    #[must_use]
    pub const fn cost(&self) -> Option<Cost> {
        match self {
            Self::Password(hash) => Some(hash.cost()),
            Self::Scram(secret) => Some(secret.cost()),
            Self::Token(_) => None,
        }
    }

    /// Compares a password with this. Takes the memory and time of [`Stored::cost`]; a token is
    /// never a password. `wanted` is what new passwords are stored as.
    #[must_use]
    pub fn verify_password(&self, password: &[u8], wanted: Cost) -> Verdict {
        match self {
            Self::Password(hash) => hash.verify(password, wanted),
            // A SCRAM secret is a choice, not an old form of something else.
            Self::Scram(secret) if secret.verify_password(password) => Verdict::Right,
            Self::Token(_) | Self::Scram(_) => Verdict::Wrong,
        }
    }
}

/// Random bytes of the system, wiped when dropped.
///
/// # Errors
/// When the system gives none.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, MakeError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut *bytes).map_err(|error| MakeError::Random(error.to_string()))?;
    Ok(bytes)
}

/// Writes `len` where something secret stands.
pub(crate) struct Hidden(pub(crate) usize);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// A number within bounds, or an error that names them.
pub(crate) fn bounded<T: Copy + Into<u64>>(
    kind: &'static str,
    what: &'static str,
    value: T,
    min: u64,
    max: u64,
) -> Result<T, CredentialError> {
    let number = value.into();
    if (min..=max).contains(&number) {
        return Ok(value);
    }
    Err(CredentialError::OutOfBounds {
        kind,
        what,
        value: number,
        min,
        max,
    })
}

/// A decimal number without sign in a credential.
pub(crate) fn number(kind: &'static str, text: &str) -> Result<u32, CredentialError> {
    let malformed = CredentialError::Malformed {
        kind,
        reason: "a value is not a valid number",
    };
    if text.is_empty() || text.len() > 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed);
    }
    text.parse().map_err(|_| malformed)
}

/// Base64 as people and programs write it: either alphabet for 62 that passwords know (`+`, and
/// `.` of passlib), padded or not.
pub(crate) mod base64 {
    use base64::Engine;
    use base64::alphabet::{Alphabet, STANDARD};
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
    use base64::engine::{DecodePaddingMode, general_purpose};

    use super::CredentialError;

    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);

    /// The alphabet of passlib, with `.` instead of `+`.
    fn passlib() -> Option<GeneralPurpose> {
        let text = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./";
        let alphabet = Alphabet::new(text).ok()?;
        Some(GeneralPurpose::new(&alphabet, LENIENT))
    }

    /// Decodes at most `max` bytes.
    pub(crate) fn decode(
        kind: &'static str,
        text: &str,
        max: usize,
    ) -> Result<Vec<u8>, CredentialError> {
        let malformed = |reason| CredentialError::Malformed { kind, reason };
        if text.len() > max.div_ceil(3) * 4 {
            return Err(malformed("a salt or hash is too long"));
        }
        let decoded = if text.contains('.') {
            passlib().and_then(|engine| engine.decode(text).ok())
        } else {
            PLAIN.decode(text).ok()
        };
        let bytes = decoded.ok_or_else(|| malformed("a salt or hash is not valid base64"))?;
        if bytes.len() > max {
            return Err(malformed("a salt or hash is too long"));
        }
        Ok(bytes)
    }

    /// With padding.
    pub(crate) fn padded(bytes: &[u8]) -> String {
        general_purpose::STANDARD.encode(bytes)
    }

    /// Without padding.
    pub(crate) fn bare(bytes: &[u8]) -> String {
        general_purpose::STANDARD_NO_PAD.encode(bytes)
    }

    /// Without padding, in the alphabet of URLs.
    pub(crate) fn url(bytes: &[u8]) -> String {
        general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told_by_its_beginning() {
        let password = PasswordHash::make(b"x", Cost::CHEAPEST)
            .unwrap()
            .to_string();
        let token = Token::generate().unwrap().hash().to_string();
        let scram = ScramSecret::make(Sha::Sha256, b"x", 4096)
            .unwrap()
            .to_string();
        assert!(matches!(Stored::parse(&password), Ok(Stored::Password(_))));
        assert!(matches!(Stored::parse(&token), Ok(Stored::Token(_))));
        assert!(matches!(Stored::parse(&scram), Ok(Stored::Scram(_))));
        for text in [
            "", "secret", "{SSHA}x", "$1$x$y", "$5$x$y", "$", "$$", "$é$",
        ] {
            assert_eq!(Stored::parse(text), Err(CredentialError::Unknown), "{text}");
        }
    }

    #[test]
    fn a_scram_secret_takes_the_plain_password_too() {
        let secret = ScramSecret::make(Sha::Sha512, b"pencil", 4096).unwrap();
        let stored = Stored::parse(&secret.to_string()).unwrap();
        let verdict = |password: &[u8]| stored.verify_password(password, Cost::DEFAULT);
        assert_eq!(verdict(b"pencil"), Verdict::Right);
        assert_eq!(verdict(b"pencils"), Verdict::Wrong);
    }

    #[test]
    fn debug_shows_no_secret() {
        let token = Token::generate().unwrap();
        let secret = token.reveal().to_owned();
        let hash = token.hash().to_string();
        let scram = ScramSecret::make(Sha::Sha256, b"pencil", 4096).unwrap();
        let password = PasswordHash::make(b"pencil", Cost::CHEAPEST).unwrap();
        let shown = format!("{token:?} {:?} {scram:?} {password:?}", token.hash());
        let texts = [hash, scram.to_string(), password.to_string()];
        let tails = texts.iter().map(|text| &text[text.len() - 10..]);
        for hidden in tails.chain([&secret[secret.len() - 10..], "pencil"]) {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
