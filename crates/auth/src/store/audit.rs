//! A line for everything that changes a right.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::inode::Inode;
use crate::calendar::Utc;

/// `DATA_DIR/audit.log`: one JSON object per line,
/// `{"at":…,"who":…,"what":…,"target":…,"outcome":…}` and what else the change says, never a
/// secret. The outcome is `done`, or `refused` with a reason. Only the server's user may read it.
/// It may be renamed away at any time (by logrotate, for example, whether it makes a new file or
/// not) and begins again then.
///
/// If it cannot be written, the change takes place all the same. The trouble is reported, and each
/// line tries again.
#[derive(Debug)]
pub struct AuditLog {
    path: Option<std::path::PathBuf>,
    file: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    trouble: Option<AuditTrouble>,
}

/// What keeps the audit log from being written.
#[derive(Clone, Debug)]
pub struct AuditTrouble {
    /// What the system says, with the file.
    pub text: String,
    /// When that was found first.
    pub since: SystemTime,
}

impl AuditLog {
    /// A log that takes everything and keeps nothing.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            path: None,
            file: Mutex::default(),
        }
    }

    /// The log in a file, which is made if it is missing. If that does not succeed, there is a
    /// [`AuditLog::trouble`].
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let mut state = State::default();
        let opened = append(path).map(|file| state.file = Some(file));
        state.judge(path, &opened);
        Self {
            file: Mutex::new(state),
            path: Some(path.to_owned()),
        }
    }

    /// Why what was to be written last was not, if so.
    #[must_use]
    pub fn trouble(&self) -> Option<AuditTrouble> {
        self.lock().trouble.clone()
    }

    /// A file is whole after any panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line down, before whoever asked hears that it is done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, who: &str, what: &str, target: &str, detail: Value) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut line = json!({
            "at": now(), "who": who, "what": what, "target": target, "outcome": "done",
        });
        if let (Value::Object(line), Value::Object(detail)) = (&mut line, detail) {
            line.extend(detail);
        }
        let mut state = self.lock();
        let written = state.write(path, &format!("{line}\n"));
        state.judge(path, &written);
        written
    }
}

impl State {
    fn write(&mut self, path: &Path, line: &str) -> io::Result<()> {
        let open = self.file.take().filter(|file| is_at(file, path));
        let file = match open {
            Some(file) => file,
            None => append(path)?,
        };
        write_whole(self.file.insert(file), line)
    }

    /// Remembers whether there is a trouble, and since when.
    fn judge(&mut self, path: &Path, result: &io::Result<()>) {
        let before = self.trouble.take();
        self.trouble = result.as_ref().err().map(|error| AuditTrouble {
            text: format!("{}: {error}", path.display()),
            since: before.map_or_else(SystemTime::now, |before| before.since),
        });
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // What a server that was killed has left is looked at.
    options.read(true);
    options.append(true).create(true).mode(0o600).open(path)
}

/// Writes a line at the end of the file, whole or not at all: on a full disk a part of it may be
/// written, and the next line is not to end up behind that.
fn write_whole(file: &mut File, line: &str) -> io::Result<()> {
    let before = file.metadata()?.len();
    let mut last = [b'\n'];
    if before > 0 {
        file.read_exact_at(&mut last, before - 1)?;
    }
    let begin = if last == *b"\n" { "" } else { "\n" };
    let written = file.write_all(format!("{begin}{line}").as_bytes());
    if written.is_err() {
        // Where this fails too, the next line begins with a line feed.
        let _ = file.set_len(before);
    }
    written
}

/// Whether this file is the one at a path: it may have been renamed away, and another one made.
fn is_at(file: &File, path: &Path) -> bool {
    match (Inode::of(file), Inode::at(path)) {
        (Ok(open), Ok(there)) => open == there,
        _ => false,
    }
}

/// The time in UTC: `2026-11-21T08:15:30Z`.
fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Utc::new(since.as_secs()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_line_is_kept_for_the_owner_alone_and_survives_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(&path);
        log.note("uid 0", "user.add", "ann", json!({ "roles": ["member"] }))
            .unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::rename(&path, folder.path().join("audit.log.1")).unwrap();
        log.note("uid 0", "user.delete", "ann", Value::Null)
            .unwrap();
        let old = fs::read_to_string(folder.path().join("audit.log.1")).unwrap();
        let old: Value = serde_json::from_str(&old).unwrap();
        assert_eq!(
            (&old["who"], &old["what"], &old["target"], &old["roles"][0]),
            (
                &json!("uid 0"),
                &json!("user.add"),
                &json!("ann"),
                &json!("member")
            )
        );
        let new = fs::read_to_string(&path).unwrap();
        assert!(new.contains("user.delete") && new.ends_with("}\n"), "{new}");
        // Again, and a new file is there at once, as by `create` of logrotate.
        fs::rename(&path, folder.path().join("audit.log.2")).unwrap();
        fs::write(&path, "").unwrap();
        log.note("uid 0", "user.add", "bob", Value::Null).unwrap();
        let old = fs::read_to_string(folder.path().join("audit.log.2")).unwrap();
        assert_eq!(old, new);
        let newest = fs::read_to_string(&path).unwrap();
        assert!(newest.contains("bob"), "{newest}");
    }

    #[test]
    fn a_log_that_cannot_be_written_says_so_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::create_dir(&path).unwrap();
        let log = AuditLog::open(&path);
        let found = log.trouble().unwrap();
        assert!(found.text.contains("audit.log: "), "{}", found.text);
        log.note("uid 0", "user.add", "ann", Value::Null)
            .unwrap_err();
        assert_eq!(log.trouble().unwrap().since, found.since);
        fs::remove_dir(&path).unwrap();
        log.note("uid 0", "user.add", "bob", Value::Null).unwrap();
        assert!(log.trouble().is_none());
        assert!(fs::read_to_string(&path).unwrap().contains("bob"));
    }

    #[test]
    fn half_a_line_spoils_no_other_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(&path, "{\"at\":\"2026\"}\n{\"at\":\"20").unwrap();
        let log = AuditLog::open(&path);
        for name in ["ann", "bob"] {
            log.note("uid 0", "user.add", name, Value::Null).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for (line, name) in lines[2..].iter().zip(["ann", "bob"]) {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["target"], name);
        }
    }
}
