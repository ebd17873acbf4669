//! What is stored of a new password.

use std::path::{Path, PathBuf};

use clap::Args;
use stentor_auth::center::PASSWORD_BYTES_MAX;
pub(super) use stentor_auth::credential::made::dated;
use stentor_auth::credential::made::{self, MECHANISMS};
use stentor_auth::credential::{Cost, MakeError, PasswordHash, Sha, Stored};
use stentor_auth::model::Credential;

use crate::failure::Failure;
use crate::password;

/// What to do where nobody can be asked.
const INSTEAD: &str = "give it by --password-file FILE, or - for standard input; for a user with \
                       a token or a certificate, `user add` takes --no-password";

/// Where a new password comes from.
#[derive(Debug, Args)]
pub(super) struct Password {
    /// A file whose first line is the password; `-` reads standard input. Without it the command
    /// asks
    #[arg(long, value_name = "FILE", conflicts_with = "credential_file")]
    password_file: Option<PathBuf>,
    /// A file whose first line is a hash of the password: $argon2id$…, $7$…, $2b$…, SCRAM-…
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// Store also what SCRAM-SHA-256 and SCRAM-SHA-512 need, so that clients of MQTT 5 can log in
    /// without sending the password
    #[arg(long, conflicts_with = "credential_file")]
    pub(super) scram: bool,
}

/// What was given as a password.
pub(super) enum Given {
    /// A password that is to be hashed.
    Plain(Vec<u8>),
    /// What is stored, as it is.
    Stored(Credential),
}

impl Password {
    /// Reads it from where the options say.
    pub(super) fn read(&self) -> Result<Given, Failure> {
        if let Some(file) = &self.credential_file {
            let text = password::from_file(file)?;
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            Stored::parse(&text)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
            return Ok(Given::Stored(dated(&text)));
        }
        let password = match &self.password_file {
            Some(file) if file.as_os_str() == "-" => password::read_line()?.into_bytes(),
            Some(file) => from_file(file)?,
            None => password::ask_twice(INSTEAD)?.into_bytes(),
        };
        check(&password)?;
        Ok(Given::Plain(password))
    }
}

/// How new passwords are stored.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    cost: Cost,
    mechanisms: Vec<Sha>,
}

impl Maker {
    pub(super) fn new(cost: Cost, scram: bool) -> Self {
        let mechanisms = if scram { MECHANISMS.into() } else { Vec::new() };
        Self { cost, mechanisms }
    }

    /// Makes secrets for those mechanisms too whose secrets stand among these kinds, so that who
    /// logs in by SCRAM still does with another password.
    pub(super) fn keep<'a>(&mut self, kinds: impl Iterator<Item = &'a str>) {
        let kept: Vec<Sha> = kinds.filter_map(Sha::of_mechanism).collect();
        for sha in kept {
            if !self.mechanisms.contains(&sha) {
                self.mechanisms.push(sha);
            }
        }
    }

    /// Something in the place of each credential that a password becomes.
    pub(super) fn foresee(&self) -> impl Iterator<Item = Credential> {
        std::iter::repeat_n(Credential::new(""), 1 + self.mechanisms.len())
    }

    /// What is stored of a password: its hash first. Takes the time of hashing.
    pub(super) fn make(&self, password: &[u8]) -> Result<Vec<Credential>, Failure> {
        check(password)?;
        let failed = |error: MakeError| Failure::new(format!("cannot store the password: {error}"));
        made::of_password(password, self.cost, &self.mechanisms).map_err(failed)
    }

    /// What is stored of what was given.
    pub(super) fn credentials(&self, given: Given) -> Result<Vec<Credential>, Failure> {
        match given {
            Given::Plain(password) => self.make(&password),
            Given::Stored(credential) => Ok(vec![credential]),
        }
    }
}

/// The password in a file. Only text is one: SCRAM allows nothing else, and who types it sends
/// UTF-8.
fn from_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let password = password::from_file(file)?;
    let wrong = |reason: &str| Failure::new(format!("{}: {reason}", file.display()));
    if password.is_empty() {
        return Err(wrong(
            "the password is empty: there is nothing in the first line",
        ));
    }
    match std::str::from_utf8(&password) {
        Ok(_) => Ok(password),
        Err(_) => Err(wrong(password::NO_UTF8)),
    }
}

/// Refuses passwords that nobody could log in with.
pub(super) fn check(password: &[u8]) -> Result<(), Failure> {
    if password.is_empty() {
        return Err(Failure::new(
            "the password is empty; it needs at least one character",
        ));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!("a password has at most {PASSWORD_BYTES_MAX} bytes");
        return Err(Failure::new(message));
    }
    Ok(())
}

/// The hash of a password, as a standard string.
pub(crate) fn hash(password: &[u8], cost: Cost) -> Result<String, Failure> {
    let hash = PasswordHash::make(password, cost)
        .map_err(|error| Failure::new(format!("cannot hash the password: {error}")))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(maker: &Maker, password: &[u8]) -> Vec<String> {
        let made = maker.make(password).unwrap();
        made.iter().map(|one| one.kind().to_owned()).collect()
    }

    #[test]
    fn the_hash_stands_first_and_secrets_are_made_on_demand() {
        let mut plain = Maker::new(Cost::CHEAPEST, false);
        assert_eq!(kinds(&plain, b"pencil"), ["argon2id"]);
        let both = ["argon2id", "SCRAM-SHA-256", "SCRAM-SHA-512"];
        assert_eq!(kinds(&Maker::new(Cost::CHEAPEST, true), b"pencil"), both);
        plain.keep(["token", "argon2id", "SCRAM-SHA-512"].into_iter());
        assert_eq!(kinds(&plain, b"pencil"), ["argon2id", "SCRAM-SHA-512"]);
        assert_eq!(plain.foresee().count(), 2);
    }

    #[test]
    fn passwords_that_nobody_could_use_are_refused() {
        let maker = Maker::new(Cost::CHEAPEST, true);
        let long = vec![b'x'; PASSWORD_BYTES_MAX + 1];
        for (password, reason) in [
            (&b""[..], "empty"),
            (&long, "at most"),
            (b"bell\x07", "SCRAM does not allow"),
        ] {
            let error = maker.make(password).unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{error:?}");
        }
        assert!(maker.make(&long[1..]).is_ok());
    }
}
