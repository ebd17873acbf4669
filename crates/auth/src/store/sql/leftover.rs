//! What an earlier process left beside the file of an SQLite database.
//!
//! Stentor keeps its database in one file, with a rollback journal that is gone after each commit.
//! Older versions had a write-ahead log beside it, which SQLite takes into whatever database it
//! finds there: also into a backup that was put in the place of the one that the log is of. Nothing
//! in a log says of which database it is: where that is not certain, what was not chosen is kept.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::store::StoreError;

/// How an SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The versions of its format for writers and readers, in bytes 18 and 19 of one that has a
/// write-ahead log. They are written before the log is made, and after it was removed.
const WITH_LOG: [u8; 2] = [2, 2];

/// A file that was changed by so much more than its log is another one than the log is of, in
/// seconds. SQLite itself writes to it right after it has written to the log.
const LATER_SECS: i64 = 10;

/// Files of one name that are kept beside a database.
const KEPT_MAX: u32 = 1_000;

/// Bytes that are compared at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// Whose a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Another database's, for certain; the words say why.
    Foreign(&'static str),
    /// Another database's as it seems: the one that is there was put there later.
    Earlier,
    /// This database's as it seems: nothing is against it.
    Own,
    /// What is there is no database, which SQLite says better.
    Nobodys,
}

/// Deals with a write-ahead log. One that is of this database, SQLite takes into it when it is
/// opened. One that is not gets another name.
///
/// # Errors
/// [`StoreError::File`].
pub(super) fn set_aside(database: &Path) -> Result<(), StoreError> {
    // SQLite has its files beside the one that a link leads to.
    let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
    let log = named(&database, "-wal");
    let failed = |path: &Path, error: &io::Error| StoreError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let metadata = match fs::metadata(&log) {
        Ok(metadata) if metadata.len() > 0 => metadata,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&log, &error)),
    };
    let whose = judge(&database, &metadata).map_err(|error| failed(&database, &error))?;
    let (database, shown) = (database.as_path(), log.display());
    match whose {
        Whose::Nobodys => {}
        Whose::Foreign(why) => {
            let away = first_name(&log, ".set-aside", |name| Ok(is_free(name)));
            let away = away.map_err(|error| failed(&log, &error))?;
            rename(database, &log, &away).map_err(|error| failed(&log, &error))?;
            warn!(
                "{shown}: this write-ahead log of an older version is not taken into the \
                 database: {why}; it is kept as {}, and may be deleted if nobody misses anything",
                away.display()
            );
        }
        Whose::Earlier => {
            let copy = keep(database, ".with-log")?;
            let away = named(&copy, "-wal");
            rename(database, &log, &away).map_err(|error| failed(&log, &error))?;
            warn!(
                "{shown}: this write-ahead log of an older version is not taken into the \
                 database: that was put there or changed later, so it seems to be another one. \
                 Both are kept as {0} and {0}-wal, and may be deleted if nobody misses anything; \
                 if it is none, stop the server, give both their old names, touch them, and start \
                 it again",
                copy.display(),
            );
        }
        Whose::Own => {
            let copy = keep(database, ".without-log")?;
            warn!(
                "{shown}: this write-ahead log of an older version is taken into the database. \
                 What that was without it is kept as {}, and may be deleted if all users are as \
                 they should be; if it is a backup that the log is not of, stop the server, put \
                 that in the place of {}, and start it again",
                copy.display(),
                database.display()
            );
        }
    }
    Ok(())
}

/// Whose a log is.
fn judge(database: &Path, log: &Metadata) -> io::Result<Whose> {
    const MISSING: Whose = Whose::Foreign("the database that it is of is not there");
    const WITHOUT: Whose =
        Whose::Foreign("the database has none, so it is another one than it was");
    let file = match File::open(database) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(MISSING),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let mut head = Vec::new();
    file.take(20).read_to_end(&mut head)?;
    Ok(match head.as_slice() {
        [] => MISSING,
        [magic @ .., write, read] if magic.starts_with(MAGIC) => {
            if [*write, *read] != WITH_LOG {
                WITHOUT
            } else if is_later(times(&metadata), times(log)) {
                Whose::Earlier
            } else {
                Whose::Own
            }
        }
        _ => Whose::Nobodys,
    })
}

/// When the content, the name or the owner of a file was changed last, and when its content was.
/// Copying and renaming set the first, also where they keep the second; what is done to both files
/// afterwards, as by `chown -R`, leaves the second.
fn times(file: &Metadata) -> [i64; 2] {
    [file.ctime(), file.mtime()]
}

fn is_later(database_secs: [i64; 2], log_secs: [i64; 2]) -> bool {
    let pairs = database_secs.into_iter().zip(log_secs);
    let mut distances = pairs.map(|(database, log)| database.saturating_sub(log));
    distances.any(|secs| secs > LATER_SECS)
}

/// Keeps a copy of a database that only its owner may read, under a name with this ending that no
/// other one has, with a log or without. One that is there already, since the database could not be
/// opened then, is as good.
fn keep(database: &Path, ending: &str) -> Result<PathBuf, StoreError> {
    let is_good = |copy: &Path| -> io::Result<bool> {
        Ok(is_free(&named(copy, "-wal")) && (is_free(copy) || is_same(database, copy)?))
    };
    let make = || -> io::Result<PathBuf> {
        let copy = first_name(database, ending, is_good)?;
        if !is_free(&copy) {
            return Ok(copy);
        }
        let made = copy_privately(database, &copy);
        if made.is_err() {
            // Half a copy is none.
            let _ = fs::remove_file(&copy);
        }
        made.map(|()| copy)
    };
    make().map_err(|error| StoreError::File {
        path: database.to_owned(),
        reason: format!(
            "a write-ahead log of an older version lies beside it, and no copy of it can be kept: \
             {error}"
        ),
    })
}

fn copy_privately(from: &Path, to: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut copy = options.write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}

/// Gives a log another name.
fn rename(database: &Path, log: &Path, away: &Path) -> io::Result<()> {
    fs::rename(log, away)?;
    // It says where things are in the log, and SQLite makes it again.
    let _ = fs::remove_file(named(database, "-shm"));
    Ok(())
}

/// Whether two files have the same content.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let [mut here, mut there] = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
    loop {
        let len = one.read(&mut here)?;
        if len == 0 {
            return Ok(true);
        }
        other.read_exact(&mut there[..len])?;
        if here[..len] != there[..len] {
            return Ok(false);
        }
    }
}

/// The name of a file with more at its end, as SQLite names what it has beside a database.
fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn is_free(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// The first name with this ending, and perhaps a number, that is good.
fn first_name(
    path: &Path,
    ending: &str,
    is_good: impl Fn(&Path) -> io::Result<bool>,
) -> io::Result<PathBuf> {
    for number in 1..KEPT_MAX {
        let name = match number {
            1 => named(path, ending),
            number => named(path, &format!("{ending}-{number}")),
        };
        if is_good(&name)? {
            return Ok(name);
        }
    }
    Err(io::Error::other(format!(
        "too many files beside it end in {ending}; delete those that nobody needs"
    )))
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
            // As it is tried again if it could not be opened.
            set_aside(&path).unwrap();
            assert_eq!(taken_up(&path).await, "old");
            assert_eq!(names(new.path()), ["auth.db", "auth.db.without-log"]);
            let kept = new.path().join("auth.db.without-log");
            assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
            assert!(is_same(&old.path().join("auth.db"), &kept).unwrap());
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

    /// Makes a log as old as one that was left long ago.
    fn age(log: &Path, secs: u64) {
        let file = OpenOptions::new().write(true).open(log).unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(secs);
        file.set_modified(time).unwrap();
    }

    /// A backup of an older version, whoever owns it by now.
    #[test]
    fn a_log_that_seems_to_be_of_another_database_is_kept_with_what_it_may_be_of() {
        let [old, backup, new] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        wait(async {
            let _open = killed(&old.path().join("auth.db"), "old").await;
            let path = backup.path().join("auth.db");
            killed(&path, "backup").await.close().await.unwrap();
            let (path, log) = (new.path().join("auth.db"), new.path().join("auth.db-wal"));
            for (number, suffix) in [(1, ""), (2, "-2")] {
                copy(old.path(), new.path(), &["auth.db-wal", "auth.db-shm"]);
                copy(backup.path(), new.path(), &["auth.db"]);
                age(&log, 3_600);
                assert_eq!(taken_up(&path).await, "backup");
                let pair = named(&path, &format!(".with-log{suffix}"));
                assert!(is_same(&backup.path().join("auth.db"), &pair).unwrap());
                let kept_log = named(&pair, "-wal");
                assert!(is_same(&old.path().join("auth.db-wal"), &kept_log).unwrap());
                assert_eq!(names(new.path()).len(), 1 + 2 * number);
            }
        });
    }

    /// Where the times were wrong, nothing is lost.
    #[test]
    fn a_log_that_was_set_aside_can_be_taken_after_all() {
        let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        wait(async {
            let _open = killed(&old.path().join("auth.db"), "old").await;
            copy(old.path(), new.path(), &["auth.db", "auth.db-wal"]);
            let (path, log) = (new.path().join("auth.db"), new.path().join("auth.db-wal"));
            age(&log, 3_600);
            set_aside(&path).unwrap();
            let pair = named(&path, ".with-log");
            fs::rename(&pair, &path).unwrap();
            fs::rename(named(&pair, "-wal"), &log).unwrap();
            age(&log, 0);
            assert_eq!(taken_up(&path).await, "old");
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
            ([100, 100], [100, 100], false),
            ([100, 100], [90, 90], false),
            ([100, 90], [89, 90], true),
            // Somebody has changed the owner of both since.
            ([100, 90], [100, 79], true),
            ([90, 90], [100, 100], false),
            ([i64::MAX, 0], [i64::MIN, 0], true),
        ] {
            assert_eq!(is_later(database, log), expected, "{database:?} {log:?}");
        }
    }
}
