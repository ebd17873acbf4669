//! `stentor hash-password`.

use std::io::{self, Write};

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use clap::Args;

use crate::failure::Failure;
use crate::password;

/// Asks for a password, or reads a line of standard input, and prints its argon2id hash.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stentor hash-password
  pwgen 20 1 | tee secret | stentor hash-password

The line goes into the configuration file:
  [[user]]
  name = \"alice\"
  password_hash = \"$argon2id$...\"")]
pub(crate) struct HashPassword {}

impl HashPassword {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let password = if password::can_ask() {
            let first = password::ask("Password")?;
            if first != password::ask("Again")? {
                return Err(Failure::new("the passwords differ"));
            }
            first
        } else {
            password::read_line()?
        };
        if password.is_empty() {
            return Err(Failure::new("the password is empty"));
        }
        writeln!(io::stdout(), "{}", hash(&password)?).map_err(|error| Failure::output(&error))
    }
}

fn hash(password: &str) -> Result<String, Failure> {
    // 19 MiB, two passes, one lane: enough against guessing, and a login stays quick.
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot hash: {error}"));
    let params = Params::new(19_456, 2, 1, None).map_err(|error| failed(&error))?;
    let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password(password.as_bytes())
        .map_err(|error| failed(&error))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use argon2::PasswordVerifier;
    use argon2::password_hash::phc::PasswordHash;

    #[test]
    fn the_hash_verifies_and_has_a_salt_of_its_own() {
        let (first, second) = (hash("secret").unwrap(), hash("secret").unwrap());
        assert!(
            first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{first}"
        );
        assert_ne!(first, second);
        let parsed = PasswordHash::new(&first).unwrap();
        assert!(
            Argon2::default()
                .verify_password(b"secret", &parsed)
                .is_ok()
        );
        assert!(
            Argon2::default()
                .verify_password(b"Secret", &parsed)
                .is_err()
        );
    }
}
