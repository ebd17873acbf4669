//! Columns whose types are none of those that are read as a matter of course.
//!
//! An operator's query may answer with whatever a database has. Types whose values travel as text
//! are read as text, and so are PostgreSQL's decimals and bits. A value of any other is [`UNREAD`]:
//! it is there, and that is all that is known.

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

/// A column that a query would answer with.
pub(in crate::store) struct OfQuery {
    pub(in crate::store) typed: Typed,
    pub(in crate::store) is_readable: bool,
}

/// Replaces bytes that are not text by U+FFFD, which no hash, role or name has. So an odd row
/// excludes its own user, and not all who are looked up with it.
fn bytes_as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A NUMERIC of PostgreSQL: the count of its digits of base 10,000, the weight of the first, the
/// sign, the decimals that are shown, and the digits. Infinities and NaN give `None`.
fn decimal(bytes: &[u8]) -> Option<String> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let (&[_, weight, sign, scale], digits) = pairs.split_first_chunk()?;
    let sign = match u16::from_be_bytes(sign) {
        0 => "",
        0x4000 => "-",
        _ => return None,
    };
    let (weight, scale) = (i16::from_be_bytes(weight), u16::from_be_bytes(scale));
    let digit = |power: i32| {
        let at = usize::try_from(i32::from(weight) - power).ok();
        let digit = at.and_then(|at| digits.get(at)).copied();
        format!("{:04}", u16::from_be_bytes(digit.unwrap_or_default()))
    };
    let whole: String = (0..=i32::from(weight)).rev().map(digit).collect();
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let mut decimals: String = (1..=i32::from(scale.div_ceil(4)))
        .map(|power| digit(-power))
        .collect();
    decimals.truncate(scale.into());
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{decimals}"))
}

/// A BIT or VARBIT of PostgreSQL: the count of its bits, and the bits.
fn bits(bytes: &[u8]) -> Option<String> {
    let (count, bytes) = bytes.split_first_chunk()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    let mut text: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    text.truncate(count);
    Some(text)
}

/// A driver's row, and what it takes for text that the driver would not.
pub(super) trait Odd: Row {
    /// Whether values of a type can be made text of, or are bytes that may be.
    fn is_text(kind: &<Self::Database as sqlx::Database>::TypeInfo) -> bool;

    /// The bytes of a value, whatever its type.
    fn bytes(&self, at: usize) -> Option<Vec<u8>>;

    /// Whether the database fills the column's values with blanks that mean nothing.
    fn is_padded(&self, _at: usize) -> bool {
        false
    }

    /// A value of such a type as text, if it has one.
    fn text(kind: &<Self::Database as sqlx::Database>::TypeInfo, bytes: &[u8]) -> Option<String> {
        let _ = kind;
        Some(bytes_as_text(bytes))
    }

    /// The value, if it can be made text of.
    fn odd(&self, at: usize) -> Option<String> {
        let kind = self.columns().get(at)?.type_info();
        let bytes = self.bytes(at).filter(|_| Self::is_text(kind))?;
        Self::text(kind, &bytes)
    }
}

impl Odd for PgRow {
    /// `CHAR(n)`; MariaDB takes the blanks away itself.
    fn is_padded(&self, at: usize) -> bool {
        self.columns()[at].type_info().name() == "CHAR"
    }

    fn is_text(kind: &PgTypeInfo) -> bool {
        matches!(kind.kind(), PgTypeKind::Enum(_))
            || matches!(kind.name(), "NUMERIC" | "BIT" | "VARBIT" | "\"CHAR\"")
            || <String as Type<Postgres>>::compatible(kind)
            || <Vec<u8> as Type<Postgres>>::compatible(kind)
    }

    fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        self.try_get_unchecked(at).ok()
    }

    fn text(kind: &PgTypeInfo, bytes: &[u8]) -> Option<String> {
        match kind.name() {
            "NUMERIC" => decimal(bytes),
            "BIT" | "VARBIT" => bits(bytes),
            _ => Some(bytes_as_text(bytes)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_postgres_are_read() {
        let value = |weight: i16, sign: u16, scale: u16, digits: &[u16]| {
            let count = u16::try_from(digits.len()).expect("there are few");
            let head = [count, weight.cast_unsigned(), sign, scale];
            let all = head.iter().chain(digits);
            let bytes: Vec<u8> = all.flat_map(|one| one.to_be_bytes()).collect();
            decimal(&bytes)
        };
        for (read, expected) in [
            (value(0, 0, 0, &[]), "0"),
            (value(0, 0, 2, &[]), "0.00"),
            (value(0, 0, 0, &[1]), "1"),
            (value(0, 0x4000, 1, &[2, 5_000]), "-2.5"),
            (value(1, 0, 0, &[12]), "120000"),
            (value(1, 0, 6, &[1, 2, 34, 5_600]), "10002.003456"),
            (value(-2, 0, 9, &[1_234]), "0.000012340"),
        ] {
            assert_eq!(read.as_deref(), Some(expected));
        }
        for odd in [value(0, 0xC000, 0, &[]), decimal(&[0; 7]), decimal(&[])] {
            assert_eq!(odd, None);
        }
    }

    #[test]
    fn bits_of_postgres_are_read() {
        assert_eq!(bits(&[0, 0, 0, 1, 0x80]).as_deref(), Some("1"));
        assert_eq!(bits(&[0, 0, 0, 3, 0b0100_0000]).as_deref(), Some("010"));
        assert_eq!(bits(&[0, 0, 0, 9, 0, 0x80]).as_deref(), Some("000000001"));
        assert_eq!(bits(&[0, 0, 0, 0]).as_deref(), Some(""));
        assert_eq!(bits(&[0, 0]), None);
    }
}
