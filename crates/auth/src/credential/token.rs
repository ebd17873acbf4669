//! Tokens: passwords of machines, random enough that one round of SHA-256 keeps them.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::model::NAME_BYTES_MAX;

use super::{CredentialError, Hidden, MakeError, base64, random};

/// What every token begins with, so that people and scanners of source code recognise one.
pub const TOKEN_PREFIX: &str = "stentor_";

/// The prefix, 32 random bytes and 4 bytes of their digest, in base64.
const TOKEN_LEN: usize = TOKEN_PREFIX.len() + 48;

/// What stands before the login name in a token that says whose it is: it is none of base64's.
const NAME_MARK: char = '.';

/// Zone and user name of the greatest length, in base64.
const NAME_CHARS_MAX: usize = (2 * NAME_BYTES_MAX + 1) * 4 / 3 + 1;

/// Random bytes of a token.
const SECRET_BYTES: usize = 32;

/// Bytes of the digest that tell a token from a password that looks like one.
const CHECK_BYTES: usize = 4;

/// A token: 256 random bits. Shown once, when it is made; only its hash is kept.
pub struct Token(Zeroizing<String>);

/// The SHA-256 of a token, stored as `token:` and 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl Token {
    /// A new token.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate() -> Result<Self, MakeError> {
        let secret = random::<SECRET_BYTES>()?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES + CHECK_BYTES]);
        bytes[..SECRET_BYTES].copy_from_slice(&*secret);
        let check = check(&*secret);
        bytes[SECRET_BYTES..].copy_from_slice(&check);
        let body = Zeroizing::new(base64::url(&*bytes));
        Ok(Self(Zeroizing::new(format!("{TOKEN_PREFIX}{}", *body))))
    }

    /// The token itself, to be shown to whoever asked for it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// A new token that says whose it is, for logins that name nobody or no zone. It opens nothing
    /// but what the one named has: the hash is of all of it.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate_for(login: &str) -> Result<Self, MakeError> {
        let mut token = Self::generate()?;
        let name = base64::url(login.as_bytes());
        token.0.push(NAME_MARK);
        token.0.push_str(&name);
        Ok(token)
    }

    /// What is stored of it.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

/// The first bytes of the digest of a token's secret part.
fn check(secret: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new()
        .chain_update(TOKEN_PREFIX)
        .chain_update(secret)
        .finalize();
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&digest[..CHECK_BYTES]);
    check
}

/// Whether somebody shows a token, which no password that people choose looks like: its last bytes
/// are a digest of the others.
#[must_use]
pub fn is_token(shown: &[u8]) -> bool {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (shown, name) = shown.split_at(shown.len().min(TOKEN_LEN));
    let Some(body) = shown.strip_prefix(TOKEN_PREFIX.as_bytes()) else {
        return false;
    };
    let has_name =
        |name: &[u8]| name.first() == Some(&(NAME_MARK as u8)) && name_in(name).is_some();
    if shown.len() != TOKEN_LEN || !(name.is_empty() || has_name(name)) {
        return false;
    }
    let mut bytes = Zeroizing::new([0; SECRET_BYTES + CHECK_BYTES]);
    if URL_SAFE_NO_PAD.decode_slice(body, &mut *bytes) != Ok(bytes.len()) {
        return false;
    }
    let (secret, last) = bytes.split_at(SECRET_BYTES);
    check(secret) == *last
}

/// The login name in a token that a client shows, if the token has one.
#[must_use]
pub fn token_login(shown: &[u8]) -> Option<String> {
    let name = is_token(shown).then(|| shown.get(TOKEN_LEN..))??;
    name_in(name)
}

/// The login name behind the random part.
fn name_in(part: &[u8]) -> Option<String> {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (_, name) = part.split_first()?;
    if name.len() > NAME_CHARS_MAX {
        return None;
    }
    let name = URL_SAFE_NO_PAD.decode(name).ok()?;
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

impl TokenHash {
    /// The hash of what somebody shows.
    #[must_use]
    pub fn of(shown: &[u8]) -> Self {
        Self(Sha256::digest(shown).into())
    }

    /// Parses the stored form.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        let malformed = CredentialError::Malformed {
            kind: "token",
            reason: "it must be token: and 64 hexadecimal digits",
        };
        let digits = text.strip_prefix("token:").unwrap_or_default().as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(malformed);
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            // A sign would be taken for a digit.
            if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(malformed);
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| malformed.clone())?;
        }
        Ok(Self(hash))
    }

    /// Compares two hashes, in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Drop for TokenHash {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Leaves out the token.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&Hidden(self.0.len())).finish()
    }
}

/// Leaves out the hash.
impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenHash")
            .field(&Hidden(self.0.len()))
            .finish()
    }
}

/// The stored form.
impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("token:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_and_its_hash_is_kept() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert!(is_token(one.reveal().as_bytes()));
        assert_eq!(one.reveal().len(), TOKEN_LEN);
        assert_ne!(one.reveal(), other.reveal());
        let stored = TokenHash::parse(&one.hash().to_string()).unwrap();
        assert!(stored.matches(&TokenHash::of(one.reveal().as_bytes())));
        assert!(!stored.matches(&other.hash()));
    }

    #[test]
    fn what_only_looks_like_a_token_is_a_password() {
        let token = Token::generate().unwrap();
        let mut text = token.reveal().as_bytes().to_vec();
        assert!(!is_token(&text[1..]));
        assert!(!is_token(&text[..text.len() - 1]));
        let last = text.len() - 10;
        text[last] ^= 1;
        assert!(!is_token(&text));
        text[last] = b'!';
        assert!(!is_token(&text));
        assert!(!is_token(b""));
    }

    #[test]
    fn a_token_may_say_whose_it_is() {
        let plain = Token::generate().unwrap();
        assert_eq!(token_login(plain.reveal().as_bytes()), None);
        let named = Token::generate_for("game/ann").unwrap();
        let text = named.reveal().as_bytes();
        assert!(is_token(text));
        assert_eq!(token_login(text).as_deref(), Some("game/ann"));
        // Another name is another token.
        let other = Token::generate_for("game/eve").unwrap();
        let mut forged = text[..TOKEN_LEN].to_vec();
        forged.extend_from_slice(&other.reveal().as_bytes()[TOKEN_LEN..]);
        assert_eq!(token_login(&forged).as_deref(), Some("game/eve"));
        assert!(!named.hash().matches(&TokenHash::of(&forged)));
        for tail in ["x", ".", ".!", ".\u{e9}"] {
            let text = format!("{}{tail}", plain.reveal());
            assert!(!is_token(text.as_bytes()), "{tail}");
        }
        let long = format!("{}.{}", plain.reveal(), "A".repeat(NAME_CHARS_MAX + 1));
        assert!(!is_token(long.as_bytes()));
    }

    #[test]
    fn a_stored_token_that_is_none_is_refused() {
        for text in [
            "token:".to_owned(),
            format!("token:{}", "0".repeat(63)),
            format!("token:{}", "0".repeat(65)),
            format!("token:+{}", "0".repeat(63)),
            format!("token:{}é", "0".repeat(62)),
        ] {
            assert!(TokenHash::parse(&text).is_err(), "{text}");
        }
    }
}
