//! What the three databases say differently.

use super::link::{Param, Statement};

/// A kind of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

impl Dialect {
    /// A statement; `?` stands for each value.
    pub(super) fn statement(self, sql: &str, params: Vec<Param>) -> Statement {
        let sql = self.number(sql);
        Statement { sql, params }
    }

    /// PostgreSQL numbers its parameters.
    pub(super) fn number(self, sql: &str) -> String {
        if self != Self::Postgres {
            return sql.to_owned();
        }
        let mut numbered = String::with_capacity(sql.len() + 16);
        for (number, part) in sql.split('?').enumerate() {
            if number > 0 {
                numbered += &format!("${number}");
            }
            numbered += part;
        }
        numbered
    }

    /// The end of an INSERT that replaces these columns where the row exists.
    pub(super) fn or_replace(self, key: &str, columns: &[&str]) -> String {
        let assignments: Vec<String> = columns
            .iter()
            .map(|column| match self {
                Self::Sqlite | Self::Postgres => format!("{column} = excluded.{column}"),
                Self::MySql => format!("{column} = VALUES({column})"),
            })
            .collect();
        let assignments = assignments.join(", ");
        match self {
            Self::Sqlite | Self::Postgres => {
                format!(" ON CONFLICT ({key}) DO UPDATE SET {assignments}")
            }
            Self::MySql => format!(" ON DUPLICATE KEY UPDATE {assignments}"),
        }
    }

    /// The end of an INSERT that changes nothing where the row exists.
    pub(super) fn or_keep(self, key: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!(" ON CONFLICT ({key}) DO NOTHING"),
            Self::MySql => {
                let first = key.split(',').next().unwrap_or(key);
                format!(" ON DUPLICATE KEY UPDATE {first} = {first}")
            }
        }
    }
}

/// How many `?` a list gets for this many values: one of a few sizes, so that few statements have
/// to be prepared.
pub(super) fn padded(count: usize) -> usize {
    count.next_power_of_two()
}

/// `?, ?, ?`
pub(super) fn marks(count: usize) -> String {
    let mut text = "?, ".repeat(count);
    text.truncate(text.len().saturating_sub(2));
    text
}

/// The values of a padded list: the last one stands for the rest.
pub(super) fn pad(mut params: Vec<Param>) -> Vec<Param> {
    if let Some(last) = params.last().cloned() {
        params.resize(padded(params.len()), last);
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_where_they_have_to_be() {
        assert_eq!(
            Dialect::Postgres.number("a = ? AND b IN (?, ?)"),
            "a = $1 AND b IN ($2, $3)"
        );
        assert_eq!(Dialect::MySql.number("a = ?"), "a = ?");
        assert_eq!(
            (marks(3), marks(1), marks(0)),
            ("?, ?, ?".into(), "?".into(), String::new())
        );
    }

    #[test]
    fn lists_are_padded_to_few_sizes() {
        let sizes: Vec<usize> = [1, 2, 3, 5, 512, 513].into_iter().map(padded).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 512, 1024]);
        let list = pad(vec![Param::Int(1), Param::Int(2), Param::Int(3)]);
        assert!(matches!(list[..], [_, _, _, Param::Int(3)]));
        assert!(pad(Vec::new()).is_empty());
    }
}
