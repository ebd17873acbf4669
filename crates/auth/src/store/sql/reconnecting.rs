//! A connection that is made when it is needed, and made again when it is gone.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use super::column::OfQuery;
use super::file::DatabaseFile;
use super::link::{Answer, Link, Options, Statement};
use crate::store::StoreError;

/// One connection, used by one statement at a time. sqlx's own pool is not used: it asks the
/// database before or after each use whether it is still there, which costs a round trip.
pub(super) struct Reconnecting {
    pub(super) options: Options,
    link: Mutex<Option<Link>>,
    /// Of SQLite.
    file: Option<Arc<DatabaseFile>>,
}

/// A connection that was taken out. A statement that is given up half way leaves nothing behind:
/// whoever takes a connection puts it back only when it is whole.
type Place<'a> = MutexGuard<'a, Option<Link>>;

impl Reconnecting {
    pub(super) fn new(options: Options, file: Option<Arc<DatabaseFile>>) -> Self {
        let link = Mutex::new(None);
        Self {
            options,
            link,
            file,
        }
    }

    /// A new connection. Another file than the one that was opened first is refused, and a new one
    /// is not made in its place.
    async fn connect(&self) -> Result<Link, StoreError> {
        self.check()?;
        let link = self.options.connect().await?;
        if let Some(file) = &self.file {
            file.note_opened();
        }
        Ok(link)
    }

    /// Refuses if the file of the database is not where it was.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_or(Ok(()), |file| file.check())
    }

    /// Has the next statement use a new connection if the path leads to another file now.
    pub(super) async fn follow(&self) {
        if self.file.as_ref().is_some_and(|file| file.has_moved()) {
            self.link.lock().await.take();
        }
    }

    /// Runs a statement. If the connection turns out to be gone, it is made again, once; so it is
    /// if the database refuses: PostgreSQL goes on refusing what was prepared before its
    /// table was altered, on that connection.
    pub(super) async fn fetch(&self, statement: &Statement) -> Result<Answer, StoreError> {
        let mut place = self.link.lock().await;
        if let Some(mut link) = place.take() {
            match link.fetch(statement).await {
                Err(StoreError::Unavailable(_) | StoreError::Refused(_)) => {}
                result => return keep(place, link, result),
            }
        }
        let mut link = self.connect().await?;
        let result = link.fetch(statement).await;
        keep(place, link, result)
    }

    /// The columns that a query would answer with.
    pub(super) async fn columns(&self, sql: &str) -> Result<Vec<OfQuery>, StoreError> {
        let mut place = self.link.lock().await;
        let mut link = match place.take() {
            Some(link) => link,
            None => self.connect().await?,
        };
        let result = link.columns(sql).await;
        keep(place, link, result)
    }

    /// Runs statements, all or none.
    pub(super) async fn execute(&self, statements: &[Statement]) -> Result<(), StoreError> {
        self.run(statements, false).await.map(drop)
    }

    /// Runs statements, each of which has to change a row; false, and nothing is changed, if one
    /// of them would not.
    pub(super) async fn change(&self, statements: &[Statement]) -> Result<bool, StoreError> {
        self.run(statements, true).await
    }

    /// Runs statements on a new connection if the first one was gone before it was asked. What
    /// would be written to a file that nobody finds again is refused.
    async fn run(&self, statements: &[Statement], must_change: bool) -> Result<bool, StoreError> {
        self.check()?;
        let mut place = self.link.lock().await;
        let link = match place.take() {
            // Nobody knows what became of a statement whose answer is lost, so ask first.
            Some(mut link) => link.ping().await.is_ok().then_some(link),
            None => None,
        };
        let mut link = match link {
            Some(link) => link,
            None => self.connect().await?,
        };
        let result = link.execute(statements, must_change).await;
        keep_whole(place, link, result)
    }

    /// Makes sure that the database answers.
    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        let mut place = self.link.lock().await;
        if let Some(mut link) = place.take()
            && link.ping().await.is_ok()
        {
            *place = Some(link);
            return Ok(());
        }
        *place = Some(self.connect().await?);
        Ok(())
    }

    /// Makes or migrates Stentor's tables.
    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        let place = self.link.lock().await;
        let mut link = self.connect().await?;
        let result = link.migrate().await;
        keep_whole(place, link, result)
    }

    /// Keeps everybody else waiting, as a long change does.
    #[cfg(test)]
    pub(super) async fn hold(&self) -> impl Drop + '_ {
        self.link.lock().await
    }
}

/// Puts a connection back, unless it is gone, or a transaction may have been left open on it.
fn keep<T>(
    mut place: Place<'_>,
    link: Link,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    let is_whole = match &result {
        Ok(_) => true,
        Err(error) => !error.is_unavailable() && !matches!(link, Link::OthersSqlite(_)),
    };
    if is_whole {
        *place = Some(link);
    }
    result
}

/// Puts a connection back whose transaction did not fail. After one that did, nobody knows how deep
/// in transactions it is: SQLite ends some by itself, on a full disk for example, and the driver
/// goes on as if they were open. All that is changed later would be done, and never be committed.
fn keep_whole<T>(
    mut place: Place<'_>,
    link: Link,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if result.is_ok() {
        *place = Some(link);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: &std::path::Path) -> Reconnecting {
        Reconnecting::new(Options::sqlite(path, false), None)
    }

    /// Rows of another width than the driver expects make it panic, on its own thread or on ours.
    #[tokio::test]
    async fn tables_of_somebody_else_may_be_altered_at_any_time() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x.db");
        let theirs = link(&path);
        let alter = async |sql: &str| {
            let sql = sql.to_owned();
            let params = Vec::new();
            let done = theirs.execute(&[Statement { sql, params }]).await;
            done.expect("the table is theirs");
        };
        alter("CREATE TABLE one (a TEXT, b TEXT, c TEXT)").await;
        alter("INSERT INTO one VALUES ('1', '2', '3')").await;
        let ours = Reconnecting::new(Options::sqlite(&path, true), None);
        let seen = async || {
            let sql = "SELECT * FROM one".to_owned();
            let params = Vec::new();
            let answer = ours.fetch(&Statement { sql, params }).await;
            let answer = answer.expect("they may be read");
            assert_eq!(answer.rows.len(), 1);
            assert_eq!(answer.rows[0].len(), answer.columns.len());
            answer.columns.join(" ")
        };
        assert_eq!(seen().await, "a b c");
        alter("ALTER TABLE one DROP COLUMN b").await;
        assert_eq!(seen().await, "a c");
        alter("ALTER TABLE one ADD COLUMN d").await;
        alter("ALTER TABLE one RENAME COLUMN a TO e").await;
        assert_eq!(seen().await, "e c d");
        alter("ALTER TABLE one ADD COLUMN f").await;
        let columns = ours.columns("SELECT * FROM one").await.expect("the same");
        let columns: Vec<&str> = columns.iter().map(|one| &*one.typed.column).collect();
        assert_eq!(columns, ["e", "c", "d", "f"]);
    }

    /// As a full disk does, `OR ROLLBACK` ends the transaction behind the driver's back.
    #[tokio::test]
    async fn what_is_changed_after_a_failure_is_committed() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x.db");
        let links = [link(&path), link(&path)];
        let run = async |sql: &str| {
            let sql = sql.to_owned();
            let params = Vec::new();
            links[0].execute(&[Statement { sql, params }]).await
        };
        run("CREATE TABLE one (n INTEGER PRIMARY KEY)")
            .await
            .expect("it is new");
        run("INSERT INTO one VALUES (1)")
            .await
            .expect("it is empty");
        for again in ["OR ROLLBACK", "", "OR ROLLBACK", "OR ROLLBACK", ""] {
            let refused = run(&format!("INSERT {again} INTO one VALUES (1)")).await;
            assert!(
                matches!(refused, Err(StoreError::Refused(_))),
                "{refused:?}"
            );
        }
        run("INSERT INTO one VALUES (2)")
            .await
            .expect("it is not there");
        let sql = "SELECT COUNT(*) FROM one".to_owned();
        let params = Vec::new();
        let seen = links[1].fetch(&Statement { sql, params }).await;
        let seen = seen.expect("others may read").rows[0][0].clone();
        assert_eq!(seen.as_deref(), Some("2"));
    }
}
