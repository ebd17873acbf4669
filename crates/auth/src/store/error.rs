//! Why a store did not do what it was asked.

use std::path::PathBuf;

use thiserror::Error;

/// Why a store did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database is not there now; it may be later.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The database is there and says no: a wrong password, a missing table or right.
    #[error("the database refuses: {0}")]
    Refused(String),
    /// What the database holds makes no sense.
    #[error("the database holds something that makes no sense: {0}")]
    Content(String),
    /// A file cannot be read or written.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl StoreError {
    /// Whether waiting may help.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            E::Io(_) | E::Protocol(_) | E::WorkerCrashed | E::PoolTimedOut | E::PoolClosed => {
                Self::Unavailable(error.to_string())
            }
            E::Database(database) if is_passing(database.code().as_deref()) => {
                Self::Unavailable(database.message().to_owned())
            }
            E::Database(database) => Self::Refused(database.message().to_owned()),
            E::ColumnDecode { .. } | E::Decode(_) | E::ColumnNotFound(_) => {
                Self::Content(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::Execute(error) => error.into(),
            sqlx::migrate::MigrateError::ExecuteMigration(error, _) => error.into(),
            error => Self::Refused(format!("migrating the tables: {error}")),
        }
    }
}

/// Whether a database says by this code that it cannot now, but may later.
fn is_passing(code: Option<&str>) -> bool {
    let Some(code) = code else {
        return false;
    };
    // PostgreSQL: classes "connection exception", "insufficient resources", "operator
    // intervention" (shutting down, starting up). MySQL: "communication link failure", and what a
    // server that stops does to its connections. SQLite: busy and locked.
    ["08", "53", "57P", "70100"]
        .iter()
        .any(|class| code.len() == 5 && code.starts_with(class))
        || matches!(code, "5" | "6" | "261" | "517")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(StoreError::from(sqlx::Error::Io(io)).is_unavailable());
        assert!(!StoreError::from(sqlx::Error::RowNotFound).is_unavailable());
        for (code, passing) in [
            ("57P03", true),
            ("53300", true),
            ("08006", true),
            ("28P01", false),
            ("42P01", false),
            ("28000", false),
            ("42S02", false),
            ("70100", true),
            ("08S01", true),
            ("5", true),
            ("1", false),
        ] {
            assert_eq!(is_passing(Some(code)), passing, "{code}");
        }
    }
}
