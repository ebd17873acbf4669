//! Records in SQLite, PostgreSQL, MySQL or MariaDB, in tables of Stentor's own.

mod column;
mod dialect;
mod file;
mod link;
mod reconnecting;
mod rows;

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use column::OfQuery;
pub(super) use column::{Typed, UNREAD};
use dialect::{Dialect, marks, pad, padded};
use file::DatabaseFile;
use link::{Answer, Options, Param, Statement};
use reconnecting::Reconnecting;

use super::place::{mysql_options, postgres_options};
use super::{Place, Record, Store, StoreError, Task};
use crate::model::{Role, User, UserKey, ZoneRecord, initial_roles};

/// The columns that make a record.
const USER: &str = "login, disabled, roles, credentials, is_foreign, revision";

/// Rows that one INSERT carries.
const INSERT_ROWS: usize = 64;

/// Keeps records in a database. Look-ups, of roles and zones too, have a connection of their own,
/// so that they never wait for a long change.
pub struct SqlStore {
    reads: Reconnecting,
    writes: Reconnecting,
    dialect: Dialect,
    shown: String,
    /// The file of an SQLite database.
    file: Option<PathBuf>,
}

/// Runs any one query in a database, for foreign users.
pub(super) struct Reader {
    link: Reconnecting,
    dialect: Dialect,
}

fn options(place: &Place, password: Option<&str>, read_only: bool) -> Result<Options, StoreError> {
    match place {
        Place::Sqlite(path) => Ok(Options::sqlite(path, read_only)),
        Place::Postgres(url) => {
            let options = postgres_options(url, password)?;
            Ok(Options::Postgres(Box::new(quiet(options))))
        }
        Place::MySql(url) => {
            let options = mysql_options(url, password)?;
            Ok(Options::MySql(Box::new(quiet(options))))
        }
        Place::Text(_) | Place::Mosquitto(_) => Err(StoreError::Refused(format!(
            "{place} is not an SQL database"
        ))),
    }
}

/// The record of a row. One that somebody else's program has spoiled must not keep the others from
/// logging in.
fn readable(row: Vec<Option<String>>) -> Option<Record> {
    let login = row.first().cloned().flatten().unwrap_or_default();
    match rows::record(row) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(
                login,
                "a user's record in the database cannot be read: {error}"
            );
            None
        }
    }
}

/// Makes a missing file that only its owner may read, as SQLite itself would not.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::File {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Statements do not belong into the log.
fn quiet<O: sqlx::ConnectOptions>(options: O) -> O {
    options.disable_statement_logging()
}

impl SqlStore {
    /// The store at a place. Nothing is connected yet.
    ///
    /// # Errors
    /// When the place is not an SQL database.
    pub fn new(place: &Place, password: Option<&str>) -> Result<Self, StoreError> {
        let options = options(place, password, false)?;
        let file = match place {
            Place::Sqlite(path) => Some(path.clone()),
            _ => None,
        };
        Ok(Self::of(options, file, place.to_string()))
    }

    /// The store in an SQLite file.
    #[must_use]
    pub fn sqlite(path: &Path) -> Self {
        let options = Options::sqlite(path, false);
        let shown = format!("sqlite:{}", path.display());
        Self::of(options, Some(path.to_owned()), shown)
    }

    fn of(options: Options, file: Option<PathBuf>, shown: String) -> Self {
        let watched = file.as_deref().map(DatabaseFile::new).map(Arc::new);
        Self {
            dialect: options.dialect(),
            reads: Reconnecting::new(options.clone(), watched.clone()),
            writes: Reconnecting::new(options, watched),
            shown,
            file,
        }
    }

    fn statement(&self, sql: &str, params: Vec<Param>) -> Statement {
        self.dialect.statement(sql, params)
    }

    async fn change(&self, sql: &str, params: Vec<Param>) -> Result<bool, StoreError> {
        self.writes.change(&[self.statement(sql, params)]).await
    }

    fn update_statement(&self, record: &Record) -> Result<Statement, StoreError> {
        let sql = "UPDATE stentor_user SET disabled = ?, roles = ?, credentials = ?, \
                   is_foreign = ?, revision = ? WHERE login = ? AND revision = ?";
        let [login, _, disabled, roles, credentials, foreign, next] =
            rows::user_params(&record.user, record.revision.wrapping_add(1))?;
        let revision = Param::Int(record.revision);
        let params = vec![disabled, roles, credentials, foreign, next, login, revision];
        Ok(self.statement(sql, params))
    }

    /// Makes the tables, and puts the initial roles and the zone `default` into new ones.
    async fn prepare(&self) -> Result<(), StoreError> {
        self.writes.check()?;
        if let Some(path) = &self.file {
            make_private(path)?;
        }
        self.writes.migrate().await?;
        let facts = "SELECT value FROM stentor_fact WHERE name = 'roles'";
        let known = self
            .writes
            .fetch(&self.statement(facts, Vec::new()))
            .await?;
        if !known.rows.is_empty() {
            return Ok(());
        }
        let keep = self.dialect.or_keep("scope, name");
        let mut statements = Vec::new();
        for role in initial_roles() {
            statements.push(self.role_statement(&role, &keep)?);
        }
        let fact = format!(
            "INSERT INTO stentor_fact (name, value) VALUES ('roles', 'initial'){}",
            self.dialect.or_keep("name")
        );
        statements.push(self.statement(&fact, Vec::new()));
        self.writes.execute(&statements).await?;
        Ok(())
    }

    fn role_statement(&self, role: &Role, end: &str) -> Result<Statement, StoreError> {
        let sql = format!(
            "INSERT INTO stentor_role (scope, name, rules, quotas) VALUES (?, ?, ?, ?){end}"
        );
        Ok(self.statement(&sql, rows::role_params(role)?))
    }

    fn insert_statements(&self, users: &[User], end: &str) -> Result<Vec<Statement>, StoreError> {
        let statement = |users: &[User]| {
            let row = format!("({})", marks(rows::USER_COLUMNS));
            let sql = format!(
                "INSERT INTO stentor_user (login, zone, disabled, roles, credentials, is_foreign, \
                 revision) VALUES {}{end}",
                vec![row; users.len()].join(", ")
            );
            let mut params = Vec::with_capacity(users.len() * rows::USER_COLUMNS);
            for user in users {
                params.extend(rows::user_params(user, 1)?);
            }
            Ok(self.statement(&sql, params))
        };
        users.chunks(INSERT_ROWS).map(statement).collect()
    }

    /// Runs statements that add these users; false if one of them is there already.
    async fn add(&self, users: &[User], statements: &[Statement]) -> Result<bool, StoreError> {
        match self.writes.execute(statements).await {
            Ok(()) => Ok(true),
            // A row is there already, or something else is wrong.
            Err(StoreError::Refused(reason)) => {
                let keys: Vec<UserKey> = users.iter().map(User::key).collect();
                if self.lookup(&keys).await?.is_empty() {
                    return Err(StoreError::Refused(reason));
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn lookup(&self, keys: &[UserKey]) -> Result<Vec<Record>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {USER} FROM stentor_user WHERE login IN ({})",
            marks(padded(keys.len()))
        );
        let params = keys.iter().map(rows::login).map(Param::Text).collect();
        let answer = self.reads.fetch(&self.statement(&sql, pad(params))).await?;
        Ok(answer.rows.into_iter().filter_map(readable).collect())
    }

    async fn page(
        &self,
        zone: Option<&str>,
        after: Option<&UserKey>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError> {
        let mut conditions = Vec::new();
        let mut params = Vec::new();
        if let Some(zone) = zone {
            conditions.push("zone = ?");
            params.push(Param::Text(zone.to_owned()));
        }
        if let Some(after) = after {
            conditions.push("login > ?");
            params.push(Param::Text(rows::login(after)));
        }
        let filter = match conditions.as_slice() {
            [] => String::new(),
            conditions => format!("WHERE {}", conditions.join(" AND ")),
        };
        let sql = format!("SELECT {USER} FROM stentor_user {filter} ORDER BY login LIMIT {limit}");
        let answer = self.writes.fetch(&self.statement(&sql, params)).await?;
        let records = answer.rows.into_iter().filter_map(readable);
        Ok(records.map(|record| record.user).collect())
    }
}

impl Store for SqlStore {
    fn describe(&self) -> String {
        self.shown.clone()
    }

    fn open(&self) -> Task<'_, ()> {
        Box::pin(async {
            self.prepare().await?;
            self.reads.ping().await
        })
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<Record>> {
        Box::pin(self.lookup(keys))
    }

    fn list<'a>(
        &'a self,
        zone: Option<&'a str>,
        after: Option<&'a UserKey>,
        limit: usize,
    ) -> Task<'a, Vec<User>> {
        Box::pin(self.page(zone, after, limit))
    }

    fn count<'a>(&'a self, zone: Option<&'a str>) -> Task<'a, u64> {
        Box::pin(async move {
            let all = "SELECT COUNT(*) FROM stentor_user";
            let statement = match zone {
                None => self.statement(all, Vec::new()),
                Some(zone) => {
                    let params = vec![Param::Text(zone.to_owned())];
                    self.statement(&format!("{all} WHERE zone = ?"), params)
                }
            };
            let answer = self.writes.fetch(&statement).await?;
            rows::number(answer.rows.first().and_then(|row| row.first()))
        })
    }

    fn insert<'a>(&'a self, users: &'a [User]) -> Task<'a, bool> {
        Box::pin(async move {
            let statements = self.insert_statements(users, "")?;
            self.add(users, &statements).await
        })
    }

    fn put<'a>(&'a self, users: &'a [User]) -> Task<'a, ()> {
        Box::pin(async move {
            let columns = ["disabled", "roles", "credentials", "is_foreign"];
            let mut end = self.dialect.or_replace("login", &columns);
            end += ", revision = stentor_user.revision + 1";
            let statements = self.insert_statements(users, &end)?;
            self.writes.execute(&statements).await?;
            Ok(())
        })
    }

    fn update<'a>(&'a self, record: &'a Record) -> Task<'a, bool> {
        Box::pin(async move {
            let statement = self.update_statement(record)?;
            self.writes.change(&[statement]).await
        })
    }

    fn delete<'a>(&'a self, key: &'a UserKey) -> Task<'a, bool> {
        Box::pin(async move {
            let params = vec![Param::Text(rows::login(key))];
            self.change("DELETE FROM stentor_user WHERE login = ?", params)
                .await
        })
    }

    fn roles(&self) -> Task<'_, Vec<Role>> {
        Box::pin(async {
            // Roles are read every `auth.refresh`: that the file is gone is in the log before
            // somebody is refused a change.
            let _ = self.writes.check();
            let sql = "SELECT scope, name, rules, quotas FROM stentor_role ORDER BY scope, name";
            let answer = self.reads.fetch(&self.statement(sql, Vec::new())).await?;
            answer.rows.into_iter().map(rows::role).collect()
        })
    }

    fn put_role<'a>(&'a self, role: &'a Role) -> Task<'a, ()> {
        Box::pin(async move {
            let end = self.dialect.or_replace("scope, name", &["rules", "quotas"]);
            self.writes
                .execute(&[self.role_statement(role, &end)?])
                .await?;
            Ok(())
        })
    }

    fn delete_role<'a>(
        &'a self,
        zone: Option<&'a str>,
        name: &'a str,
        bearers: &'a [Record],
    ) -> Task<'a, bool> {
        Box::pin(async move {
            let scope = Param::Text(zone.unwrap_or_default().to_owned());
            let params = vec![scope, Param::Text(name.to_owned())];
            let sql = "DELETE FROM stentor_role WHERE scope = ? AND name = ?";
            let updates = bearers.iter().map(|record| self.update_statement(record));
            let mut statements: Vec<Statement> = updates.collect::<Result<_, _>>()?;
            statements.push(self.statement(sql, params));
            self.writes.change(&statements).await
        })
    }

    fn zones(&self) -> Task<'_, Vec<ZoneRecord>> {
        Box::pin(async {
            let sql = "SELECT name, connections FROM stentor_zone ORDER BY name";
            let answer = self.reads.fetch(&self.statement(sql, Vec::new())).await?;
            answer.rows.into_iter().map(rows::zone).collect()
        })
    }

    fn put_zone<'a>(&'a self, zone: &'a ZoneRecord) -> Task<'a, ()> {
        Box::pin(async move {
            let sql = format!(
                "INSERT INTO stentor_zone (name, connections) VALUES (?, ?){}",
                self.dialect.or_replace("name", &["connections"])
            );
            let connections = Param::MaybeInt(zone.connections.map(i64::from));
            self.change(&sql, vec![Param::Text(zone.name.to_string()), connections])
                .await?;
            Ok(())
        })
    }

    fn delete_zone<'a>(&'a self, name: &'a str) -> Task<'a, bool> {
        Box::pin(async move {
            let params = vec![Param::Text(name.to_owned())];
            self.change("DELETE FROM stentor_zone WHERE name = ?", params)
                .await
        })
    }

    fn is_started(&self) -> Task<'_, bool> {
        Box::pin(async {
            let sql = "SELECT value FROM stentor_fact WHERE name = 'started'";
            let answer = self.writes.fetch(&self.statement(sql, Vec::new())).await?;
            Ok(!answer.rows.is_empty())
        })
    }

    fn start<'a>(&'a self, users: &'a [User]) -> Task<'a, bool> {
        Box::pin(async move {
            let sql = format!(
                "INSERT INTO stentor_fact (name, value) VALUES ('started', 'yes'){}",
                self.dialect.or_keep("name")
            );
            let mut statements = self.insert_statements(users, "")?;
            statements.push(self.statement(&sql, Vec::new()));
            self.add(users, &statements).await
        })
    }
}

impl Reader {
    pub(super) fn new(place: &Place, password: Option<&str>) -> Result<Self, StoreError> {
        let options = options(place, password, true)?;
        let file = match place {
            Place::Sqlite(path) => Some(Arc::new(DatabaseFile::new(path))),
            _ => None,
        };
        Ok(Self {
            dialect: options.dialect(),
            link: Reconnecting::new(options, file),
        })
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        self.link.ping().await
    }

    /// Runs a query in which `(?)` stands for a list of texts.
    pub(super) async fn fetch(
        &self,
        query: &str,
        texts: Vec<String>,
    ) -> Result<Answer, StoreError> {
        // The owner of the file may put another one in its place.
        self.link.follow().await;
        let params = pad(texts.into_iter().map(Param::Text).collect());
        let sql = with_list(query, params.len());
        self.link.fetch(&self.dialect.statement(&sql, params)).await
    }

    /// The type to which a query makes another one text.
    pub(super) const fn text(&self) -> &'static str {
        match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => "TEXT",
            Dialect::MySql => "CHAR",
        }
    }

    /// The columns of the answers to such a query.
    pub(super) async fn columns(&self, query: &str) -> Result<Vec<OfQuery>, StoreError> {
        let sql = self.dialect.number(&with_list(query, 1));
        self.link.columns(&sql).await
    }
}

fn with_list(query: &str, values: usize) -> String {
    query.replacen("(?)", &format!("({})", marks(values)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one does that waits for a row that somebody else has locked.
    #[tokio::test]
    async fn nothing_that_log_ins_need_waits_for_a_change() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let store = SqlStore::sqlite(&folder.path().join("auth.db"));
        store.open().await.expect("a new one can be made");
        let _change = store.writes.hold().await;
        let look = async {
            let ann = [UserKey::parse("ann")];
            assert!(store.find(&ann).await.expect("users").is_empty());
            assert_eq!(
                store.roles().await.expect("roles").len(),
                initial_roles().len()
            );
            store.zones().await.expect("zones");
        };
        let in_time = tokio::time::timeout(std::time::Duration::from_secs(10), look).await;
        assert!(in_time.is_ok(), "they wait");
    }
}
