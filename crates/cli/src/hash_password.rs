//! `stentor hash-password`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use stentor_auth::credential::scram::ITERATIONS_DEFAULT;
use stentor_auth::credential::{ScramSecret, Sha};
use stentor_server::config::PasswordFunction;

use crate::accounts::hash;
use crate::failure::Failure;
use crate::output::print;
use crate::password;

/// Asks for a password, or reads a line of standard input, and prints its hash.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stentor hash-password
  pwgen 20 1 | tee secret | stentor hash-password
  stentor hash-password --function SCRAM-SHA-256

The line goes into the configuration file, or to `stentor user add --credential-file`:
  [[user]]
  name = \"alice\"
  password_hash = \"$argon2id$...\"")]
pub(crate) struct HashPassword {
    /// Hash function; SCRAM is for clients of MQTT 5 that do not send their password
    #[arg(long, value_name = "NAME", default_value = "argon2id", value_parser = functions())]
    function: String,
}

/// The names of functions.
fn functions() -> PossibleValuesParser {
    let mechanisms = [Sha::Sha256, Sha::Sha512].map(Sha::mechanism);
    let names = PasswordFunction::NAMES.iter().copied();
    PossibleValuesParser::new(names.chain(mechanisms))
}

impl HashPassword {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let password = password::ask_twice("pipe it in")?;
        if password.is_empty() {
            return Err(Failure::new("the password is empty"));
        }
        let hash = made(&self.function, password.as_bytes())?;
        print(format!("{hash}\n"))
    }
}

fn made(function: &str, password: &[u8]) -> Result<String, Failure> {
    if let Some(sha) = Sha::of_mechanism(function) {
        let secret = ScramSecret::make(sha, password, ITERATIONS_DEFAULT);
        let secret = secret.map_err(|error| Failure::new(error.to_string()))?;
        return Ok(secret.to_string());
    }
    let function = PasswordFunction::named(function).unwrap_or_default();
    hash(password, function.cost())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_auth::credential::{Cost, Stored, Verdict};

    #[test]
    fn the_hash_verifies_and_has_a_salt_of_its_own() {
        let hash = || made("argon2id", b"secret").unwrap();
        let (first, second) = (hash(), hash());
        assert!(
            first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{first}"
        );
        assert_ne!(first, second);
        let stored = Stored::parse(&first).unwrap();
        let verdict = |password: &[u8]| stored.verify_password(password, Cost::DEFAULT);
        assert_eq!(verdict(b"secret"), Verdict::Right);
        assert_eq!(verdict(b"Secret"), Verdict::Wrong);
    }

    #[test]
    fn each_function_makes_its_own_form() {
        for (function, form) in [
            ("bcrypt", "$2b$12$"),
            ("pbkdf2-sha512", "$pbkdf2-sha512$"),
            ("SCRAM-SHA-256", "SCRAM-SHA-256$10000:"),
            ("SCRAM-SHA-512", "SCRAM-SHA-512$10000:"),
        ] {
            let made = made(function, b"secret").unwrap();
            assert!(made.starts_with(form), "{made}");
            assert!(Stored::parse(&made).is_ok());
        }
    }
}
