//! Every store keeps what it is told, and the directory works with each of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory;
mod servers;
mod suite;

use stentor_auth::store::{Books, SqlStore, TextStore};
use tempfile::TempDir;

/// A store that the suite is run against, with whatever has to live as long.
struct Bench {
    books: Books,
    folder: TempDir,
}

/// A test of the suite.
type Test = fn(&Bench);

fn sqlite() -> Bench {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let books = Books::of(SqlStore::sqlite(&folder.path().join("auth.db")));
    Bench { books, folder }
}

fn text() -> Bench {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let books = Books::of(TextStore::new(&folder.path().join("users.toml")));
    Bench { books, folder }
}

/// One test per store for each function of the suite.
macro_rules! for_every_store {
    ($($test:ident)+) => {
        mod on_sqlite { $(#[test] fn $test() { crate::suite::$test(&crate::sqlite()); })+ }
        mod on_text { $(#[test] fn $test() { crate::suite::$test(&crate::text()); })+ }

        /// All tests of the suite, for a server that is started once for all of them.
        const SUITE: &[(&str, Test)] = &[$((stringify!($test), suite::$test)),+];
    };
}

for_every_store! {
    a_new_store_has_the_initial_roles
    users_are_kept_as_they_are
    users_are_listed_in_pages
    a_lost_race_is_told
    roles_and_zones_are_kept
    a_role_goes_with_its_bearers_or_stays
    the_first_start_is_remembered
    names_are_told_apart_exactly
    many_are_found_at_once
    orders_do_what_they_say
}
