//! Memory before a storm of logins and during it, as it was published in 2005: of the server, of
//! what has the accounts, and of both.

use crate::measure::{Leg, Metric, Unit};
use crate::process;

const SERVER_BEFORE: Metric = Metric::new("memory_before_bytes", "server before", Unit::Bytes);
const SERVER_DURING: Metric = Metric::new("memory_during_bytes", "server during", Unit::Bytes);
const BOOKS_BEFORE: Metric = Metric::new(
    "auth_memory_before_bytes",
    "Auth. Center before",
    Unit::Bytes,
);
const BOOKS_DURING: Metric = Metric::new(
    "auth_memory_during_bytes",
    "Auth. Center during",
    Unit::Bytes,
);
const BOTH_BEFORE: Metric = Metric::new("both_memory_before_bytes", "both before", Unit::Bytes);
const BOTH_DURING: Metric = Metric::new("both_memory_during_bytes", "both during", Unit::Bytes);
const EACH: Metric = Metric::new("memory_per_login_bytes", "memory/login", Unit::Bytes);

/// Bytes of a published KB.
const KB: f64 = 1_024.0;
/// Connections of the published storm.
const CONNECTIONS: f64 = 3_000.0;

/// What was published: the kernel is the server, and the Auth. Center asked the database.
pub(super) fn published() -> [(&'static str, f64); 7] {
    [
        (SERVER_BEFORE.key, 17_048.0 * KB),
        (SERVER_DURING.key, 118_598.0 * KB),
        (BOOKS_BEFORE.key, 5_380.0 * KB),
        (BOOKS_DURING.key, 29_038.0 * KB),
        (BOTH_BEFORE.key, 23_428.0 * KB),
        (BOTH_DURING.key, 147_636.0 * KB),
        // Derived.
        (EACH.key, (147_636.0 - 23_428.0) * KB / CONNECTIONS),
    ]
}

/// Resident bytes before the first client connects.
#[derive(Debug)]
pub(super) struct Before {
    server: Option<u64>,
    books: Option<u64>,
    /// The process of the database.
    database: Option<u32>,
}

impl Before {
    /// Reads them of the server's process, and of the database's, as far as they are known.
    pub(super) fn read(server: Option<u32>, database: Option<u32>) -> Self {
        Self {
            server: resident(server),
            books: resident(database),
            database,
        }
    }

    /// Adds the figures. `during` is the server's memory while this many connections are open; the
    /// database still has what it took for them.
    pub(super) fn push(self, leg: &mut Leg, during: Option<u64>, connections: usize) {
        let books = resident(self.database);
        // Of a database that nobody knows it is the server alone. One that has ended is unknown.
        let both = |server: Option<u64>, books: Option<u64>| match self.database {
            Some(_) => Some(server? + books?),
            None => server,
        };
        let (before, after) = (both(self.server, self.books), both(during, books));
        let grown = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        for (metric, bytes) in [
            (SERVER_BEFORE, self.server),
            (SERVER_DURING, during),
            (BOOKS_BEFORE, self.books),
            (BOOKS_DURING, books),
            (BOTH_BEFORE, before),
            (BOTH_DURING, after),
        ] {
            leg.push(metric, bytes.map(|bytes| bytes as f64));
        }
        // Beyond all numbers where nobody is in, which is left out.
        leg.push(EACH, grown.map(|grown| grown as f64 / connections as f64));
    }
}

fn resident(pid: Option<u32>) -> Option<u64> {
    pid.and_then(process::usage).map(|usage| usage.rss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_beside_the_published_ones_and_add_up() {
        let mut leg = Leg::default();
        let before = Before {
            server: Some(1_000),
            books: None,
            database: None,
        };
        before.push(&mut leg, Some(4_000), 3);
        for (key, expected) in [
            ("memory_before_bytes", Some(1_000.0)),
            ("memory_during_bytes", Some(4_000.0)),
            ("auth_memory_before_bytes", None),
            ("auth_memory_during_bytes", None),
            ("both_memory_before_bytes", Some(1_000.0)),
            ("both_memory_during_bytes", Some(4_000.0)),
            ("memory_per_login_bytes", Some(1_000.0)),
        ] {
            assert_eq!(leg.figure(key), expected, "{key}");
        }
        // Each of them is there to stand beside.
        for (key, _) in published() {
            let is_there = leg.figures.iter().any(|(metric, _)| metric.key == key);
            assert!(is_there, "{key}");
        }
    }

    #[test]
    fn a_database_that_is_known_counts() {
        let own = Some(std::process::id());
        let mut leg = Leg::default();
        Before::read(own, own).push(&mut leg, resident(own), 0);
        let figure = |key| leg.figure(key).unwrap_or_default();
        let parts = figure("memory_before_bytes") + figure("auth_memory_before_bytes");
        assert!(parts > 200_000.0 && figure("both_memory_before_bytes") == parts);
        assert_eq!(leg.figure("memory_per_login_bytes"), None, "nobody is in");
    }

    #[test]
    fn the_memory_of_a_database_that_has_ended_is_unknown() {
        let mut leg = Leg::default();
        let before = Before {
            server: Some(1_000),
            books: Some(2_000),
            database: Some(u32::MAX),
        };
        before.push(&mut leg, Some(4_000), 3);
        assert_eq!(leg.figure("both_memory_before_bytes"), Some(3_000.0));
        assert_eq!(leg.figure("memory_during_bytes"), Some(4_000.0));
        for key in [
            "auth_memory_during_bytes",
            "both_memory_during_bytes",
            "memory_per_login_bytes",
        ] {
            assert_eq!(leg.figure(key), None, "{key}");
        }
    }
}
