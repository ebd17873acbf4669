//! Users from mosquitto's password file, as it is.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::warn;

use super::{Source, StoreError, Task};
use crate::model::{CREDENTIAL_BYTES_MAX, Credential, DEFAULT_ZONE, MEMBER, SERVER, User, UserKey};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Bad lines that the log names.
const TOLD_MAX: usize = 5;

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

    /// Reads a password file: hashes by name, and the lines that mean nobody, by number and with a
    /// reason that never shows what is in them.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> (HashMap<String, String>, Vec<(usize, &'static str)>) {
        let mut users = HashMap::new();
        let mut bad = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            match parse_line(line) {
                Ok(None) => {}
                // As mosquitto: the first of two lines for one name counts.
                Ok(Some((name, hash))) => {
                    let entry = users.entry(name.to_owned());
                    entry.or_insert_with(|| hash.to_owned());
                }
                Err(reason) => bad.push((index + 1, reason)),
            }
        }
        (users, bad)
    }

    /// The users of a file. Lines that mean nobody shut nobody else out.
    fn read(&self, bytes: &[u8]) -> Result<HashMap<String, String>, StoreError> {
        let (users, bad) = Self::parse(bytes);
        if bad.is_empty() {
            return Ok(users);
        }
        let path = self.path.display();
        let some = bad.iter().take(TOLD_MAX);
        let mut told: Vec<String> = some
            .map(|(number, reason)| format!("{path}:{number}: {reason}"))
            .collect();
        if bad.len() > TOLD_MAX {
            told.push(format!("and {} lines more", bad.len() - TOLD_MAX));
        }
        let told = told.join("; ");
        if users.is_empty() {
            return Err(self.failed(format!("no line of it names a user: {told}")));
        }
        warn!("lines of the password file are passed over, and their users cannot log in: {told}");
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
            let mut bytes = Vec::new();
            let file = File::open(&self.path).map_err(|error| self.failed(error))?;
            file.take(FILE_BYTES_MAX + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| self.failed(error))?;
            if bytes.len() as u64 > FILE_BYTES_MAX {
                return Err(self.failed("the file has more than 256 MiB"));
            }
            if state.seen.is_some() && bytes.trim_ascii().is_empty() {
                // As while `mosquitto_passwd` writes it again: not the end of all users.
                let empty = format!("{} is empty", self.path.display());
                return Err(StoreError::Unavailable(empty));
            }
            let users = self.read(&bytes)?;
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
                foreign: true,
            })
        };
        Ok(in_default.filter_map(user).collect())
    }
}

/// The name and the hash of a line; `None` if it says nothing.
fn parse_line(line: &[u8]) -> Result<Option<(&str, &str)>, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not valid UTF-8")?;
    let line = line.trim_end_matches('\r');
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, hash) = line
        .split_once(':')
        .ok_or("there is no colon after the name")?;
    let hash = hash.trim_end();
    if name.is_empty() || name.contains('\0') {
        return Err("there is no name");
    }
    if name == SERVER {
        return Err("no user is called server: messages of the server's own are from that name");
    }
    if hash.len() > CREDENTIAL_BYTES_MAX {
        return Err("it is too long");
    }
    if !hash.starts_with('$') {
        return Err("the password is not hashed, which `mosquitto_passwd -U` does");
    }
    Ok(Some((name, hash)))
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
        let (users, bad) = MosquittoFile::parse(text);
        assert_eq!((users.len(), bad.len()), (2, 0));
        assert_eq!(users["ann"], "$7$101$c2FsdA==$aGFzaA==");
        assert_eq!(users["bob"], "$6$x$y");
        assert!(MosquittoFile::parse(b"").0.is_empty());
    }

    #[test]
    fn a_bad_line_shuts_out_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        let source = MosquittoFile::new(&path, None);
        let found = |name: &str| {
            let users = source.look(&[UserKey::parse(name)]);
            users.map(|users| users.len())
        };
        fs::write(&path, "ann:$7$x\nbob\ncat:hush\ndan:$7$y\n").unwrap();
        for (name, count) in [("ann", 1), ("bob", 0), ("cat", 0), ("dan", 1)] {
            assert_eq!(found(name).unwrap(), count, "{name}");
        }
        fs::write(&path, "bob\ncat:hush\n").unwrap();
        let error = found("ann").unwrap_err().to_string();
        assert!(error.contains("passwords:1: there is no colon"), "{error}");
        assert!(
            error.contains("passwords:2: the password is not hashed"),
            "{error}"
        );
        assert!(!error.contains("hush"), "{error}");
        fs::write(&path, "# nobody\n").unwrap();
        assert_eq!(found("ann").unwrap(), 0);
        fs::write(&path, "").unwrap();
        assert!(found("ann").unwrap_err().is_unavailable());
        fs::write(&path, "ann:$7$x\n").unwrap();
        assert_eq!(found("ann").unwrap(), 1);
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_not_shown() {
        let long = [b"ann:$".as_slice(), &[b'x'; CREDENTIAL_BYTES_MAX]].concat();
        for (text, reason) in [
            (b"ann\n".as_slice(), (1, "no colon")),
            (b"\n:$7$x\n", (2, "no name")),
            (b"ann:secret\n", (1, "not hashed")),
            (b"server:$7$x\n", (1, "no user is called server")),
            (b"ann:\xff\n", (1, "not valid UTF-8")),
            (&long, (1, "too long")),
        ] {
            let (users, bad) = MosquittoFile::parse(text);
            let (line, told) = bad[0];
            assert_eq!((users.len(), bad.len(), line), (0, 1, reason.0));
            assert!(
                told.contains(reason.1) && !told.contains("secret"),
                "{told}"
            );
        }
    }
}
