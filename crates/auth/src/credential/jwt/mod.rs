//! JSON web tokens (RFC 7519): somebody else has checked who it is, and signs it.
//!
//! An [`Issuer`] says whose signatures count, for what audience, and which claims mean what. The
//! signature is checked by `jsonwebtoken` with aws-lc; the claims are checked here, so that every
//! rule is visible: a claim that is there but not of the right shape is refused, never passed over.

mod claims;
mod keys;

use std::path::PathBuf;

use jsonwebtoken::{Header, Validation};
use thiserror::Error;

use crate::model::{NameError, UserKey};

pub use claims::Claims;
pub use jsonwebtoken::Algorithm;
pub use keys::{KEY_FILE_BYTES_MAX, KeyError, Keys};

/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Keys that are tried for a token that does not say which one it is signed by.
const KEYS_TRIED_MAX: usize = 16;

/// Somebody whose tokens are accepted, and under which conditions.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// What the claim `iss` must be; `None`: anything, or nothing.
    pub issuer: Option<String>,
    /// One of these must be in the claim `aud`; if there are none, a token must not have it.
    pub audience: Vec<String>,
    /// How much the clocks may differ, in seconds.
    pub leeway_secs: u64,
    /// The claim that is the user's name.
    pub user_claim: String,
    /// The zone that all its users are in; `None`: the one of the claim `zone`, or the default.
    pub zone: Option<String>,
    /// Whether its users must be known to the directory as well.
    pub known_users: bool,
    /// The keys that it signs by, with the algorithms that each may be used with.
    pub keys: Keys,
}

/// Where the keys of an issuer are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A public key or certificate in PEM format, or the bytes of a secret for HS algorithms.
    File(PathBuf),
    /// A JSON Web Key Set (RFC 7517).
    Jwks(PathBuf),
}

/// Why a token is refused. The answer to the client does not say which reason it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JwtError {
    /// It is none.
    #[error("it is not a JSON web token")]
    Malformed,
    /// It is longer than [`TOKEN_BYTES_MAX`].
    #[error("it has {0} bytes, and one of more than {TOKEN_BYTES_MAX} is not looked at")]
    TooLong(usize),
    /// It is encrypted, or uses extensions that are not known.
    #[error("its header asks for {0}, which is not supported")]
    Unsupported(&'static str),
    /// No key fits its header.
    #[error("no key of a [[jwt]] is for the algorithm and the key id in its header")]
    UnknownKey,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// A claim is missing or has a wrong shape.
    #[error("its claim {0:?} is missing or not of the right shape")]
    Claim(String),
    /// A claim is a name that nobody and nothing can have.
    #[error("its claim {0:?} is not a valid name: {1}")]
    Name(String, NameError),
    /// It is for somebody else than these.
    #[error("its audience is not this server: {}", right_audience(.0))]
    Audience(Vec<String>),
    /// It is from somebody else.
    #[error("its issuer is not the expected one")]
    Issuer,
    /// It holds no more.
    #[error("it has expired")]
    Expired,
    /// It does not hold yet.
    #[error("it is not valid yet")]
    NotYet,
}

/// What a claim `aud` has to be.
fn right_audience(ours: &[String]) -> String {
    if ours.is_empty() {
        return "it must not have a claim `aud`".to_owned();
    }
    format!("its `aud` must be one of: {}", ours.join(", "))
}

/// Whether what somebody shows as a password looks like a JSON web token: three parts in base64,
/// the first of which is a JSON object.
#[must_use]
pub fn is_jwt(shown: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    // `{"` in base64.
    shown.starts_with(b"eyJ")
        && shown.iter().filter(|byte| **byte == b'.').count() == 2
        && shown.iter().all(is_text)
}

/// Refuses a token that is too long to be looked at.
///
/// # Errors
/// [`JwtError::TooLong`].
pub fn check_len(token: &[u8]) -> Result<(), JwtError> {
    match token.len() {
        0..=TOKEN_BYTES_MAX => Ok(()),
        len => Err(JwtError::TooLong(len)),
    }
}

/// Why a token is refused, and whose it is nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The reason.
    pub error: JwtError,
    /// The user that an issuer has named in it: its signature is right, but its claims are not
    /// valid.
    pub bearer: Option<UserKey>,
}

impl From<JwtError> for Rejected {
    fn from(error: JwtError) -> Self {
        Self {
            error,
            bearer: None,
        }
    }
}

/// Checks a token against all issuers; `now_secs` is in seconds since 1970. The first issuer whose
/// key made the signature decides.
///
/// # Errors
/// The reason of the issuer that came furthest.
pub fn verify(issuers: &[Issuer], token: &[u8], now_secs: u64) -> Result<Claims, JwtError> {
    examine(issuers, token, now_secs).map_err(|rejected| rejected.error)
}

/// The same, and says whose token it is that is refused.
///
/// # Errors
/// The reason of the issuer that came furthest.
pub fn examine(issuers: &[Issuer], token: &[u8], now_secs: u64) -> Result<Claims, Rejected> {
    check_len(token)?;
    if !is_jwt(token) {
        return Err(JwtError::Malformed.into());
    }
    keys::install();
    let header = jsonwebtoken::decode_header(token).map_err(|_| JwtError::Malformed)?;
    check_header(&header)?;
    let mut rejected = Rejected::from(JwtError::UnknownKey);
    let mut tries = KEYS_TRIED_MAX;
    for issuer in issuers {
        for key in issuer.keys.fitting(&header) {
            if tries == 0 {
                return Err(rejected);
            }
            tries -= 1;
            let mut validation = Validation::new(header.alg);
            validation.required_spec_claims.clear();
            validation.validate_exp = false;
            validation.validate_aud = false;
            let decoded = jsonwebtoken::decode::<claims::Object>(token, key, &validation);
            match decoded {
                Ok(data) => match Claims::check(&data.claims, issuer, now_secs) {
                    Ok(claims) => return Ok(claims),
                    Err(error) => {
                        let bearer = claims::bearer(&data.claims, issuer);
                        rejected = Rejected { error, bearer };
                    }
                },
                Err(_) if rejected.error == JwtError::UnknownKey => {
                    rejected.error = JwtError::Signature;
                }
                Err(_) => {}
            }
        }
    }
    Err(rejected)
}

/// Refuses extensions in a header that are not supported; they must not be ignored (RFC 7515,
/// 4.1.11).
fn check_header(header: &Header) -> Result<(), JwtError> {
    if header.crit.is_some() {
        return Err(JwtError::Unsupported("critical extensions"));
    }
    if header.enc.is_some() || header.zip.is_some() {
        return Err(JwtError::Unsupported("encryption or compression"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
