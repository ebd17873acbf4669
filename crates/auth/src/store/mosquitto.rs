//! Users from mosquitto's password file, as it is.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::{Source, StoreError, Task};
use crate::model::{CREDENTIAL_BYTES_MAX, Credential, DEFAULT_ZONE, MEMBER, User, UserKey};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Mosquitto's password file: a line `name:$7$…` for each user. It is read again when it has
/// changed. Its users are in the zone `default`.
pub struct MosquittoFile {
    path: PathBuf,
    role: std::sync::Arc<str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    users: HashMap<String, String>,
    seen: Option<(SystemTime, u64)>,
}

impl MosquittoFile {
    /// The users of a file, who get a role, unless they have others.
    #[must_use]
    pub fn new(path: &Path, role: Option<&str>) -> Self {
        Self {
            path: path.to_owned(),
            role: role.unwrap_or(MEMBER).into(),
            state: Mutex::default(),
        }
    }

    /// Reads a password file: hashes by name.
    ///
    /// # Errors
    /// When mosquitto would not accept a line; the reason names the line, never its content.
    pub fn parse(bytes: &[u8]) -> Result<HashMap<String, String>, String> {
        let mut users = HashMap::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            let line = std::str::from_utf8(line)
                .map_err(|_| format!("line {number} is no UTF-8; save the file as UTF-8"))?;
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, hash)) = line.split_once(':') else {
                return Err(format!("line {number} has no colon after the name"));
            };
            let hash = hash.trim_end();
            if name.is_empty() || name.contains('\0') {
                return Err(format!("line {number} has no name"));
            }
            if hash.len() > CREDENTIAL_BYTES_MAX {
                return Err(format!("line {number} is too long"));
            }
            if !hash.starts_with('$') {
                return Err(format!(
                    "the password in line {number} is not hashed; hash the file with \
                     mosquitto_passwd -U first"
                ));
            }
            // As mosquitto: the first of two lines for one name counts.
            users
                .entry(name.to_owned())
                .or_insert_with(|| hash.to_owned());
        }
        Ok(users)
    }

    fn failed(&self, reason: impl ToString) -> StoreError {
        StoreError::File {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    fn look(&self, keys: &[UserKey]) -> Result<Vec<User>, StoreError> {
        // The state is replaced as a whole, so it is whole after any panic.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = fs::metadata(&self.path).map_err(|error| self.failed(error))?;
        let modified = metadata.modified().map_err(|error| self.failed(error))?;
        let stamp = Some((modified, metadata.len()));
        if stamp != state.seen {
            if metadata.len() > FILE_BYTES_MAX {
                return Err(self.failed("the file is too large"));
            }
            let bytes = fs::read(&self.path).map_err(|error| self.failed(error))?;
            let users = Self::parse(&bytes).map_err(|reason| self.failed(reason))?;
            *state = State { users, seen: stamp };
        }
        let in_default = keys.iter().filter(|key| *key.zone == *DEFAULT_ZONE);
        let user = |key: &UserKey| {
            let credential = state.users.get(&*key.name)?;
            Some(User {
                zone: key.zone.clone(),
                name: key.name.clone(),
                credentials: vec![Credential::new(credential.as_str())],
                roles: vec![self.role.clone()],
                disabled: false,
            })
        };
        Ok(in_default.filter_map(user).collect())
    }
}

impl Source for MosquittoFile {
    fn describe(&self) -> String {
        format!("mosquitto:{}", self.path.display())
    }

    fn open(&self) -> Task<'_, ()> {
        Box::pin(std::future::ready(self.look(&[]).map(|_| ())))
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<User>> {
        Box::pin(std::future::ready(self.look(keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_mosquitto_reads_it() {
        let text = b"# users\nann:$7$101$c2FsdA==$aGFzaA==\r\n\nbob:$6$x$y\nann:$7$other\n";
        let users = MosquittoFile::parse(text).unwrap();
        assert_eq!(users.len(), 2);
        assert_eq!(users["ann"], "$7$101$c2FsdA==$aGFzaA==");
        assert_eq!(users["bob"], "$6$x$y");
        assert!(MosquittoFile::parse(b"").unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_not_shown() {
        let long = [b"ann:$".as_slice(), &[b'x'; CREDENTIAL_BYTES_MAX]].concat();
        for (text, reason) in [
            (b"ann\n".as_slice(), "line 1 has no colon"),
            (b"\n:$7$x\n", "line 2 has no name"),
            (b"ann:secret\n", "line 1 is not hashed"),
            (b"ann:\xff\n", "line 1 is no UTF-8"),
            (&long, "line 1 is too long"),
        ] {
            let error = MosquittoFile::parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("secret"));
        }
    }
}
