//! What an earlier process left beside the file of an SQLite database.
//!
//! Stentor keeps its database in one file, with a rollback journal that is gone after each commit.
//! Older versions had a write-ahead log beside it, which SQLite takes into whatever database it
//! finds there: also into a backup that was put in the place of the one that the log is of.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use crate::store::StoreError;

/// How an SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The versions of its format for writers and readers, in bytes 18 and 19 of one that has a
/// write-ahead log. They are written before the log is made, and after it was removed.
const WITH_LOG: [u8; 2] = [2, 2];

/// A file that was changed by so much more than its log is another one than the log is of, in
/// seconds. SQLite itself writes to it right after it has written to the log.
const LATER_SECS: i64 = 10;

/// Why a log is not of the database beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    /// There is no database.
    Missing,
    /// The database has no log.
    Without,
    /// The database was put there later.
    Later,
}

impl Foreign {
    const fn words(self) -> &'static str {
        match self {
            Self::Missing => "the database that it is of is not there",
            Self::Without => "the database has none, so it is another one than it was",
            Self::Later => "the database was put there later",
        }
    }
}

/// Renames a write-ahead log that is not of this database. One that is, SQLite takes into the
/// database when it is opened.
///
/// # Errors
/// [`StoreError::File`].
pub(super) fn set_aside(database: &Path) -> Result<(), StoreError> {
    // SQLite has its files beside the one that a link leads to.
    let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
    let log = beside(&database, "-wal");
    let failed = |path: &Path, error: &io::Error| StoreError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let metadata = match fs::metadata(&log) {
        Ok(metadata) if metadata.len() > 0 => metadata,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&log, &error)),
    };
    let foreign = judge(&database, &metadata).map_err(|error| failed(&database, &error))?;
    let Some(foreign) = foreign else {
        info!(
            "{}: the write-ahead log that an older version left is taken into the database",
            log.display()
        );
        return Ok(());
    };
    let away = free_name(&log);
    fs::rename(&log, &away).map_err(|error| failed(&log, &error))?;
    // It says where things are in the log, and SQLite makes it anew.
    let _ = fs::remove_file(beside(&database, "-shm"));
    warn!(
        "{}: this write-ahead log of an older version is not taken into the database: {}; it is \
         kept as {}, and may be deleted if nobody misses anything",
        log.display(),
        foreign.words(),
        away.display()
    );
    Ok(())
}

/// Whether a log is of another database; `None` if it is of this one, or nobody can tell.
fn judge(database: &Path, log: &Metadata) -> io::Result<Option<Foreign>> {
    let file = match File::open(database) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(Foreign::Missing));
        }
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let mut head = Vec::new();
    file.take(20).read_to_end(&mut head)?;
    Ok(match head.as_slice() {
        [] => Some(Foreign::Missing),
        [magic @ .., write, read] if magic.starts_with(MAGIC) => {
            if [*write, *read] != WITH_LOG {
                Some(Foreign::Without)
            } else {
                is_later(changed(&metadata), changed(log)).then_some(Foreign::Later)
            }
        }
        // It is no database, which SQLite says better.
        _ => None,
    })
}

/// When the content, the name or the owner of a file was changed last. Copying and renaming set
/// it, also where they keep the time of the content.
fn changed(file: &Metadata) -> i64 {
    file.ctime()
}

const fn is_later(database_secs: i64, log_secs: i64) -> bool {
    database_secs.saturating_sub(log_secs) > LATER_SECS
}

/// The name of a file that SQLite has beside a database.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A name for what is set aside, which nothing has yet.
fn free_name(log: &Path) -> PathBuf {
    let name = |number: u32| match number {
        1 => beside(log, ".set-aside"),
        number => beside(log, &format!(".set-aside-{number}")),
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    (1..1_000)
        .map(name)
        .find(is_free)
        .unwrap_or_else(|| name(1))
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
    use sqlx::{ConnectOptions, Connection, Row};

    use super::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(future)
    }

    /// A database with a word in it, as a version that had a log left it when it was killed.
    async fn killed(path: &Path, word: &str) -> SqliteConnection {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let mut open = options.connect().await.unwrap();
        sqlx::query("CREATE TABLE t (word TEXT)")
            .execute(&mut open)
            .await
            .unwrap();
        sqlx::query("INSERT INTO t VALUES (?)")
            .bind(word.to_owned())
            .execute(&mut open)
            .await
            .unwrap();
        open
    }

    /// Opens it as a store does; what is in it.
    async fn taken_up(path: &Path) -> String {
        set_aside(path).unwrap();
        let super::super::Options::Sqlite(options) = super::super::Options::sqlite(path, false)
        else {
            unreachable!("it was just made");
        };
        let mut open = options.connect().await.unwrap();
        let row = sqlx::query("SELECT word FROM t").fetch_one(&mut open).await;
        let word = row.unwrap().get(0);
        open.close().await.unwrap();
        word
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Copies what is there into a folder of its own, as a kill leaves it.
    fn copy(from: &Path, to: &Path, names: &[&str]) {
        for name in names {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }

    #[test]
    fn the_log_of_an_older_version_is_taken_into_the_file() {
        let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        wait(async {
            let _open = killed(&old.path().join("auth.db"), "old").await;
            copy(old.path(), new.path(), &["auth.db", "auth.db-wal"]);
            let path = new.path().join("auth.db");
            assert_eq!(taken_up(&path).await, "old");
            assert_eq!(names(new.path()), ["auth.db"]);
            // From now on, a copy of the file is a copy of all.
            let head = fs::read(&path).unwrap();
            assert_eq!(head[18..20], [1, 1]);
        });
    }

    #[test]
    fn the_log_of_another_database_is_set_aside() {
        let [old, backup, new] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        wait(async {
            let _open = killed(&old.path().join("auth.db"), "old").await;
            let path = backup.path().join("auth.db");
            killed(&path, "backup").await.close().await.unwrap();
            assert_eq!(taken_up(&path).await, "backup");
            for aside in ["auth.db-wal.set-aside", "auth.db-wal.set-aside-2"] {
                copy(old.path(), new.path(), &["auth.db-wal", "auth.db-shm"]);
                copy(backup.path(), new.path(), &["auth.db"]);
                assert_eq!(taken_up(&new.path().join("auth.db")).await, "backup");
                assert!(names(new.path()).iter().any(|name| name == aside));
            }
            assert_eq!(names(new.path()).len(), 3);
        });
    }

    #[test]
    fn a_log_without_its_database_is_kept() {
        let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        wait(async {
            let _open = killed(&old.path().join("auth.db"), "old").await;
            for empty in [false, true] {
                copy(old.path(), new.path(), &["auth.db-wal"]);
                let path = new.path().join("auth.db");
                if empty {
                    fs::write(&path, "").unwrap();
                }
                set_aside(&path).unwrap();
                assert!(!new.path().join("auth.db-wal").exists());
            }
            // What is no database is left to SQLite, and so is a log that says nothing.
            copy(old.path(), new.path(), &["auth.db-wal"]);
            fs::write(new.path().join("auth.db"), "no database at all").unwrap();
            set_aside(&new.path().join("auth.db")).unwrap();
            assert!(new.path().join("auth.db-wal").exists());
        });
    }

    #[test]
    fn a_database_that_was_put_there_later_is_told_by_its_time() {
        for (database, log, expected) in [
            (100, 100, false),
            (100, 90, false),
            (100, 89, true),
            (90, 100, false),
            (i64::MAX, i64::MIN, true),
        ] {
            assert_eq!(is_later(database, log), expected, "{database} {log}");
        }
    }
}
