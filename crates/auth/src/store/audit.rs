//! A line for everything that changes a right.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// `DATA_DIR/audit.log`: one JSON object per line, `{"at":…,"who":…,"what":…,"target":…}` and what
/// else the change says, never a secret. Only the server's user may read it. It may be renamed away
/// at any time (by logrotate, for example) and begins anew then.
#[derive(Debug)]
pub struct AuditLog {
    path: Option<std::path::PathBuf>,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// A log that takes everything and keeps nothing.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            path: None,
            file: Mutex::new(None),
        }
    }

    /// The log in a file, which is made if it is missing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(Some(append(path)?)),
            path: Some(path.to_owned()),
        })
    }

    /// Writes a line down, before whoever asked hears that it is done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, who: &str, what: &str, target: &str, detail: Value) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut line = json!({ "at": now(), "who": who, "what": what, "target": target });
        if let (Value::Object(line), Value::Object(detail)) = (&mut line, detail) {
            line.extend(detail);
        }
        // A file is whole after any panic.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() || file.is_none() {
            *file = Some(append(path)?);
        }
        match &mut *file {
            Some(file) => file.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

/// The time in UTC: `2026-11-21T08:15:30Z`.
fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    utc(since.as_secs())
}

/// A time in seconds since 1970 as ISO 8601 has it.
pub(super) fn utc(secs: u64) -> String {
    let (days, rest) = (secs / 86_400, secs % 86_400);
    // Counted in eras of 400 years, from the first of March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn times_are_written_in_utc() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_249_530, "2026-11-21T08:25:30Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(utc(secs), text);
        }
    }

    #[test]
    fn a_line_is_kept_for_the_owner_alone_and_survives_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(&path).unwrap();
        log.note("uid 0", "user.add", "ann", json!({ "roles": ["member"] }))
            .unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::rename(&path, folder.path().join("audit.log.1")).unwrap();
        log.note("uid 0", "user.delete", "ann", Value::Null)
            .unwrap();
        let old = std::fs::read_to_string(folder.path().join("audit.log.1")).unwrap();
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
        let new = std::fs::read_to_string(&path).unwrap();
        assert!(new.contains("user.delete") && new.ends_with("}\n"), "{new}");
    }
}
