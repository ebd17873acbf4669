//! What is stored of a new password or token.

use std::time::{SystemTime, UNIX_EPOCH};

use super::scram::ITERATIONS_DEFAULT;
use super::{Cost, MakeError, PasswordHash, ScramSecret, Sha};
use crate::model::Credential;

/// The mechanisms of SCRAM that secrets are made for.
pub const MECHANISMS: [Sha; 2] = [Sha::Sha256, Sha::Sha512];

/// A credential that is made now.
#[must_use]
pub fn dated(text: &str) -> Credential {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Credential {
        created_at_secs: since.map_or(0, |since| since.as_secs()),
        ..Credential::new(text)
    }
}

/// What is stored of a new password: its hash, then a secret for each mechanism of SCRAM. It takes
/// the time of hashing.
///
/// # Errors
/// When the password is one that the function or SCRAM does not take, or the system gives no
/// random bytes.
pub fn of_password(
    password: &[u8],
    cost: Cost,
    mechanisms: &[Sha],
) -> Result<Vec<Credential>, MakeError> {
    let hash = PasswordHash::make(password, cost)?;
    let secrets = mechanisms.iter().map(|sha| {
        let secret = ScramSecret::make(*sha, password, ITERATIONS_DEFAULT)?;
        Ok(dated(&secret.to_string()))
    });
    std::iter::once(Ok(dated(&hash.to_string())))
        .chain(secrets)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_stands_first_and_each_mechanism_has_a_secret() {
        let made = of_password(b"pencil", Cost::CHEAPEST, &MECHANISMS).expect("it can be made");
        let kinds: Vec<&str> = made.iter().map(Credential::kind).collect();
        assert_eq!(kinds, ["argon2id", "SCRAM-SHA-256", "SCRAM-SHA-512"]);
        assert!(made.iter().all(|one| one.created_at_secs > 0));
        let prohibited = of_password(b"bell\x07", Cost::CHEAPEST, &MECHANISMS);
        assert_eq!(prohibited, Err(MakeError::Prohibited));
    }
}
