//! One connection to one of the three databases, with the few things that the stores need.

use std::collections::BTreeSet;
use std::future::poll_fn;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, Either, Executor, Row, SqlSafeStr};
use sqlx::{Statement as _, Type};

use super::column::{Odd, OfQuery, Typed, UNREAD};
use super::dialect::Dialect;
use crate::store::StoreError;

/// Rows of SQLite that its thread hands over before it waits for who takes them.
const ROWS_TOGETHER: usize = 1_024;

/// How to make a connection.
#[derive(Clone, Debug)]
pub(super) enum Options {
    Sqlite(Box<SqliteConnectOptions>),
    /// A file that somebody else keeps, and whose tables they may alter at any time.
    OthersSqlite(Box<SqliteConnectOptions>),
    Postgres(Box<PgConnectOptions>),
    MySql(Box<MySqlConnectOptions>),
}

/// A connection.
pub(super) enum Link {
    Sqlite(SqliteConnection),
    OthersSqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

/// A value that goes into a statement.
#[derive(Clone, Debug)]
pub(super) enum Param {
    Text(String),
    Int(i64),
    MaybeInt(Option<i64>),
}

/// A statement with its values; `?` stands for each.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) params: Vec<Param>,
}

/// What came back: the columns' names once, and the values of each row as text.
#[derive(Debug, Default)]
pub(in crate::store) struct Answer {
    pub(in crate::store) columns: Vec<String>,
    pub(in crate::store) rows: Vec<Vec<Option<String>>>,
    /// Columns with values that cannot be read.
    pub(in crate::store) unread: BTreeSet<Typed>,
}

impl Options {
    pub(super) fn sqlite(path: &std::path::Path, read_only: bool) -> Self {
        let options = SqliteConnectOptions::new().filename(path);
        let options = if read_only {
            options.read_only(true)
        } else {
            // One file, without anything beside it that belongs to it, so that who copies or
            // replaces it has all of it. A commit survives a power loss.
            options
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Delete)
                .synchronous(SqliteSynchronous::Extra)
        };
        let options = options.disable_statement_logging();
        let options = Box::new(options.row_buffer_size(ROWS_TOGETHER));
        match read_only {
            true => Self::OthersSqlite(options),
            false => Self::Sqlite(options),
        }
    }

    pub(super) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) | Self::OthersSqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::MySql,
        }
    }

    pub(super) async fn connect(&self) -> Result<Link, StoreError> {
        Ok(match self {
            Self::Sqlite(options) => Link::Sqlite(options.connect().await?),
            Self::OthersSqlite(options) => Link::OthersSqlite(options.connect().await?),
            Self::Postgres(options) => Link::Postgres(options.connect().await?),
            Self::MySql(options) => Link::MySql(options.connect().await?),
        })
    }
}

/// The same code for the three drivers, whose types share no trait that would do.
macro_rules! on_each {
    ($link:expr, $connection:ident => $code:expr) => {
        match $link {
            Link::Sqlite($connection) | Link::OthersSqlite($connection) => $code,
            Link::Postgres($connection) => $code,
            Link::MySql($connection) => $code,
        }
    };
}

/// A statement for one of the drivers, with its values bound.
macro_rules! bound {
    ($statement:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($statement.sql.clone()));
        for param in &$statement.params {
            query = match param {
                Param::Text(text) => query.bind(text.clone()),
                Param::Int(number) => query.bind(*number),
                Param::MaybeInt(number) => query.bind(*number),
            };
        }
        query
    }};
}

/// Takes the first type that fits; databases say "number" in many ways.
macro_rules! as_text {
    ($row:expr, $at:expr; $($type:ty),+) => {{
        let mut text = None;
        $(
            if text.is_none()
                && let Ok(value) = $row.try_get::<Option<$type>, _>($at)
            {
                text = Some(value.map(|value| value.to_string()));
            }
        )+
        text
    }};
}

/// The rows of one driver as text.
macro_rules! answer {
    ($rows:expr; $($type:ty),+) => {{
        let mut answer = Answer::default();
        for row in $rows {
            if answer.columns.is_empty() {
                let names = row.columns().iter().map(|column| column.name().to_owned());
                answer.columns = names.collect();
            }
            let mut values = Vec::with_capacity(row.len());
            for at in 0..row.len() {
                let text = as_text!(row, at; String, $($type),+).unwrap_or_else(|| {
                    Some(row.odd(at).unwrap_or_else(|| {
                        answer.unread.insert(Typed::of(&row.columns()[at]));
                        UNREAD.to_owned()
                    }))
                });
                values.push(if row.is_padded(at) {
                    text.map(|text| text.trim_end_matches(' ').to_owned())
                } else {
                    text
                });
            }
            answer.rows.push(values);
        }
        answer
    }};
}

/// The columns of a driver's statement.
macro_rules! columns {
    ($connection:expr, $sql:expr, $row:ty; $($type:ty),+) => {{
        let statement = $connection.prepare(AssertSqlSafe($sql.to_owned()).into_sql_str()).await?;
        let columns = statement.columns().iter().map(|column| {
            let kind = column.type_info();
            let is_readable = <$row as Odd>::is_text(kind)
                $(|| <$type as Type<<$row as Row>::Database>>::compatible(kind))+;
            let typed = Typed::of(column);
            OfQuery { typed, is_readable }
        });
        columns.collect()
    }};
}

/// Has SQLite notice that tables were altered, which it does when a statement runs that reads some.
async fn see_schema(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let nothing = sqlx::query("SELECT 1 FROM sqlite_master LIMIT 0");
    nothing.execute(connection).await?;
    Ok(())
}

/// The rows of a statement of SQLite. Where its thread has ended, the driver has no more rows
/// either, and says nothing of an error: only the end that SQLite itself reports is one.
async fn sqlite_rows(
    connection: &mut SqliteConnection,
    statement: &Statement,
) -> Result<Vec<SqliteRow>, StoreError> {
    // A statement that is kept goes on with the names that its columns had at first, whatever has
    // become of the table.
    let query = bound!(statement).persistent(false);
    let mut steps = connection.fetch_many(query);
    let mut rows = Vec::new();
    let mut is_whole = false;
    while let Some(step) = poll_fn(|cx| steps.as_mut().poll_next(cx)).await {
        match step? {
            Either::Right(row) => rows.push(row),
            Either::Left(_) => is_whole = true,
        }
    }
    match is_whole {
        true => Ok(rows),
        false => Err(sqlx::Error::WorkerCrashed.into()),
    }
}

impl Link {
    /// Runs a statement that answers with rows.
    pub(super) async fn fetch(&mut self, statement: &Statement) -> Result<Answer, StoreError> {
        Ok(match self {
            Self::Sqlite(connection) => {
                let rows = sqlite_rows(connection, statement).await?;
                answer!(rows; i64, bool, f64)
            }
            Self::OthersSqlite(connection) => {
                // The driver notes a statement's columns when it is prepared. SQLite prepares it
                // by the schema that the connection knows, and again while it runs where the file
                // has another one: rows of `SELECT *` with more or fewer columns than were noted
                // make the driver panic. So the schema is brought up to date first, and a
                // transaction keeps it so.
                let mut transaction = connection.begin().await?;
                see_schema(&mut transaction).await?;
                let rows = sqlite_rows(&mut transaction, statement).await?;
                transaction.commit().await?;
                answer!(rows; i64, bool, f64)
            }
            Self::Postgres(connection) => {
                let rows = bound!(statement).fetch_all(connection).await?;
                answer!(rows; i64, i32, i16, bool, f64, f32)
            }
            Self::MySql(connection) => {
                let rows = bound!(statement).fetch_all(connection).await?;
                answer!(rows; i64, u64, bool, f64)
            }
        })
    }

    /// The columns that a query would answer with now, before there is a row.
    pub(super) async fn columns(&mut self, sql: &str) -> Result<Vec<OfQuery>, StoreError> {
        // What is remembered of a statement is what its tables were like when it was first made.
        on_each!(self, link => link.clear_cached_statements().await?);
        if let Self::OthersSqlite(link) = self {
            see_schema(link).await?;
        }
        Ok(match self {
            Self::Sqlite(link) | Self::OthersSqlite(link) => {
                columns!(link, sql, SqliteRow; i64, bool, f64)
            }
            Self::Postgres(link) => columns!(link, sql, PgRow; i64, i32, i16, bool, f64, f32),
            Self::MySql(link) => columns!(link, sql, MySqlRow; i64, u64, bool, f64),
        })
    }

    /// Runs statements, all or none; none too, and false, where each `must_change` a row and one
    /// does not.
    pub(super) async fn execute(
        &mut self,
        statements: &[Statement],
        must_change: bool,
    ) -> Result<bool, StoreError> {
        on_each!(self, connection => {
            let mut transaction = connection.begin().await?;
            for statement in statements {
                let done = bound!(statement).execute(&mut *transaction).await?;
                if must_change && done.rows_affected() == 0 {
                    transaction.rollback().await?;
                    return Ok(false);
                }
            }
            transaction.commit().await?;
        });
        Ok(true)
    }

    /// Asks for nothing, to see whether the database answers.
    pub(super) async fn ping(&mut self) -> Result<(), StoreError> {
        on_each!(self, connection => connection.ping().await?);
        Ok(())
    }

    /// Makes or migrates Stentor's tables. Servers that do it at the same time wait for each other.
    pub(super) async fn migrate(&mut self) -> Result<(), StoreError> {
        let first = match self {
            Self::Sqlite(_) | Self::OthersSqlite(_) => {
                include_str!("../../../migrations/sqlite/0001_first.sql")
            }
            Self::Postgres(_) => include_str!("../../../migrations/postgres/0001_first.sql"),
            Self::MySql(_) => include_str!("../../../migrations/mysql/0001_first.sql"),
        };
        let foreign = include_str!("../../../migrations/0002_foreign.sql");
        let migration = |number, name: &'static str, sql: &'static str| {
            let kind = MigrationType::Simple;
            Migration::new(number, name.into(), kind, sql.into_sql_str(), false)
        };
        let migrations = vec![
            migration(1, "first", first),
            migration(2, "foreign", foreign),
        ];
        let mut migrator = Migrator::with_migrations(migrations);
        migrator.dangerous_set_table_name("stentor_migration");
        on_each!(self, connection => migrator.run_direct(None, connection, false).await?);
        Ok(())
    }
}
