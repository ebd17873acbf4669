//! Columns whose types are none of those that are read as a matter of course.
//!
//! An operator's query may answer with whatever a database has. Types whose values travel as text
//! are read as text. A value of any other is [`UNREAD`]: it is there, and that is all that is
//! known.

use sqlx::mysql::{MySql, MySqlRow, MySqlTypeInfo};
use sqlx::postgres::{PgRow, PgTypeInfo, PgTypeKind, Postgres};
use sqlx::sqlite::SqliteRow;
use sqlx::{Column, Row, Type, TypeInfo};

/// What stands for a value that cannot be read: no hash, role, zone or name, and no "no" either.
pub(in crate::store) const UNREAD: &str = "\u{FFFD}";

/// A column of an answer, and its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Typed {
    pub(in crate::store) column: String,
    pub(in crate::store) kind: String,
}

impl Typed {
    pub(super) fn of(column: &impl Column) -> Self {
        Self {
            column: column.name().to_owned(),
            kind: column.type_info().name().to_owned(),
        }
    }
}

/// Bytes that are no text get U+FFFD in their places, which no hash, role or name has: one odd row
/// shuts out its own user, and not all who are looked up with it.
fn bytes_as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A driver's row, and what it takes for text that the driver would not.
pub(super) trait Odd: Row {
    /// Whether values of a type travel as text, or as bytes that may be.
    fn is_text(kind: &<Self::Database as sqlx::Database>::TypeInfo) -> bool;

    /// The bytes of a value, whatever its type.
    fn bytes(&self, at: usize) -> Option<Vec<u8>>;

    /// The value, if its bytes are text or may be.
    fn odd(&self, at: usize) -> Option<String> {
        let kind = self.columns().get(at)?.type_info();
        let bytes = self.bytes(at).filter(|_| Self::is_text(kind))?;
        Some(bytes_as_text(&bytes))
    }
}

impl Odd for PgRow {
    fn is_text(kind: &PgTypeInfo) -> bool {
        matches!(kind.kind(), PgTypeKind::Enum(_))
            || <String as Type<Postgres>>::compatible(kind)
            || <Vec<u8> as Type<Postgres>>::compatible(kind)
    }

    fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        self.try_get_unchecked(at).ok()
    }
}

impl Odd for MySqlRow {
    fn is_text(kind: &MySqlTypeInfo) -> bool {
        matches!(kind.name(), "DECIMAL" | "SET" | "JSON")
            || <String as Type<MySql>>::compatible(kind)
            || <Vec<u8> as Type<MySql>>::compatible(kind)
    }

    fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        self.try_get_unchecked(at).ok()
    }
}

impl Odd for SqliteRow {
    /// Each value has a type of its own, whatever the column says.
    fn is_text(_: &sqlx::sqlite::SqliteTypeInfo) -> bool {
        true
    }

    fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        self.try_get_unchecked(at).ok()
    }
}
