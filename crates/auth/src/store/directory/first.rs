//! The first administrator.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tracing::info;

use crate::credential::{Cost, PasswordHash};
use crate::model::{ADMIN, Credential, DEFAULT_ZONE, User};
use crate::store::{Books, StoreError};

/// Letters and digits that nobody takes for another one.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Characters of the password: 120 bits.
const LENGTH: usize = 24;

/// Makes the user `admin` with a password that is written to a file, unless a server has been
/// started with these books before. Whether it did.
pub(super) async fn administrator(books: &Books, file: &Path) -> Result<bool, StoreError> {
    if books.store.is_started().await? {
        return Ok(false);
    }
    let refused = |reason: String| StoreError::Refused(reason);
    let password = random_password().map_err(refused)?;
    let hash = PasswordHash::make(password.as_bytes(), Cost::DEFAULT)
        .map_err(|error| refused(error.to_string()))?;
    let admin = User {
        zone: DEFAULT_ZONE.into(),
        name: ADMIN.into(),
        credentials: vec![Credential::new(hash.to_string())],
        roles: vec![ADMIN.into()],
        disabled: false,
        foreign: false,
    };
    let known = books.store.find(&[admin.key()]).await?;
    if !known.is_empty() {
        // The operator was quicker; a file at this path is not ours.
        return books.store.start(&[]).await.map(|_| false);
    }
    // The password is on disk before anybody needs it, and the user is made and the start is
    // remembered at once: a crash before that only means another password, and one after it
    // nothing at all.
    write(file, &password)?;
    let added = books.store.start(&[admin]).await?;
    if added {
        info!(
            "the user admin was made, with all rights; its password is in {}; delete the file when \
             you have changed the password with `stentor user set-password admin`",
            file.display()
        );
    } else {
        // Another server was quicker, just now.
        let _ = fs::remove_file(file);
        books.store.start(&[]).await?;
    }
    Ok(added)
}

fn write(path: &Path, password: &str) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    // Whatever is there may have other permissions.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(format!("{password}\n").as_bytes())
        .map_err(failed)?;
    file.sync_all().map_err(failed)?;
    // The name of the file has to last too.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or_else(|| Path::new("."))).map_err(failed)?;
    folder.sync_all().map_err(failed)
}

fn random_password() -> Result<String, String> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 32)]);
    Ok(bytes.iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_and_differ() {
        let (one, other) = (random_password().unwrap(), random_password().unwrap());
        assert_eq!((one.len(), other.len()), (LENGTH, LENGTH));
        assert_ne!(one, other);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
