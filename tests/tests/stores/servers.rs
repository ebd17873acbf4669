//! Real database servers: the suite, an operator's own tables, and a crash in the middle of logins.

use std::sync::mpsc::channel;

use stentor_auth::model::{DEFAULT_ZONE, UserKey};
use stentor_auth::store::{
    Books, Columns, Directory, DirectoryOptions, Place, QuerySource, Source, SqlStore,
};
use stentor_tests::DEADLINE;
use stentor_tests::database::{Database, Kind};

use crate::suite::{run, user};
use crate::{Bench, SUITE};

fn store(url: &str) -> Bench {
    let place: Place = url.parse().expect("a place");
    Bench {
        books: Books::of(SqlStore::new(&place, None).expect("a store")),
        folder: tempfile::tempdir().expect("a folder can be made"),
    }
}

fn check_suite(kind: Kind) {
    let database = Database::start(kind);
    for (name, test) in SUITE {
        eprintln!("{name}");
        test(&store(&database.create(name)));
    }
}

#[test]
fn postgres_passes_the_suite() {
    check_suite(Kind::Postgres);
}

#[test]
fn mariadb_passes_the_suite() {
    check_suite(Kind::MariaDb);
}

/// An operator's table, in the types that people use, and names that only the mapping tells.
fn check_own_tables(kind: Kind, types: (&str, &str)) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let (text, flag) = types;
    database.sql(
        "shop",
        &format!(
            "CREATE TABLE customer (id INT, login {text}, hash {text}, locked {flag}, team {text}); \
             INSERT INTO customer VALUES (1, 'ann', '$2b$10$abc', {no}, 'sales, boss'), \
             (2, 'bob', NULL, {yes}, NULL), (3, 'Ann', 'x', {no}, NULL), \
             (4, 'o''brien/x', '$2b$10$def', {no}, '');",
            no = if flag == "BOOLEAN" { "false" } else { "0" },
            yes = if flag == "BOOLEAN" { "true" } else { "1" },
        ),
    );
    let columns = Columns {
        name: "login".into(),
        password: "hash".into(),
        roles: "team".into(),
        disabled: "locked".into(),
        ..Columns::default()
    };
    let query = "SELECT login, hash, locked, team FROM customer WHERE login IN (?)";
    let place: Place = url.parse().expect("a place");
    let source =
        QuerySource::new(&place, None, query, columns.clone(), Some("customer")).expect("a query");
    run(source.open()).expect("the query works");
    let keys = ["ann", "bob", "o'brien/x", "nobody"].map(|name| UserKey::new(DEFAULT_ZONE, name));
    let mut found = run(source.find(&keys)).expect("an answer");
    found.retain(|user| keys.contains(&user.key()));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let shown: Vec<_> = found
        .iter()
        .map(|user| {
            (
                &*user.name,
                user.credentials.len(),
                user.roles.join(" "),
                user.disabled,
            )
        })
        .collect();
    let expected = [
        ("ann", 1, "sales boss".to_owned(), false),
        ("bob", 0, "customer".to_owned(), true),
        ("o'brien/x", 1, "customer".to_owned(), false),
    ];
    assert_eq!(shown, expected);

    let wrong = "SELECT login AS n, hash FROM customer WHERE login IN (?)";
    let source = QuerySource::new(&place, None, wrong, columns, None).expect("a query");
    let error = run(source.open())
        .expect_err("the column is missing, which is told at the start")
        .to_string();
    assert!(
        error.contains("\"login\"") && error.contains("AS"),
        "{error}"
    );
    let absent = "SELECT name, password FROM nothing WHERE name IN (?)";
    let source = QuerySource::new(&place, None, absent, Columns::default(), None).expect("a query");
    assert!(
        run(source.open()).is_err(),
        "a missing table is told at the start"
    );
}

#[test]
fn an_operators_tables_in_postgres_are_read() {
    check_own_tables(Kind::Postgres, ("VARCHAR(60)", "BOOLEAN"));
}

#[test]
fn an_operators_tables_in_mariadb_are_read() {
    check_own_tables(
        Kind::MariaDb,
        ("VARCHAR(60) COLLATE utf8mb4_general_ci", "TINYINT(1)"),
    );
}

/// Values that are no text shut out those who have them, and nobody who is looked up with them.
fn check_odd_columns(kind: Kind, prepare: &str, table: &str, rows: &str) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let sql = format!("{prepare} CREATE TABLE account {table}; INSERT INTO account VALUES {rows};");
    database.sql("shop", &sql);
    let query = "SELECT name, password, mood AS roles, disabled FROM account WHERE name IN (?)";
    let place: Place = url.parse().expect("a place");
    let source = QuerySource::new(&place, None, query, Columns::default(), None).expect("a query");
    run(source.open()).expect("the query works");
    let names = ["ann", "bob", "cat", "dan"];
    let keys = names.map(|name| UserKey::new(DEFAULT_ZONE, name));
    let mut found = run(source.find(&keys)).expect("an answer for all");
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let shown: Vec<_> = found
        .iter()
        .map(|user| (&*user.name, user.roles.join(" "), user.disabled))
        .collect();
    let happy = "happy".to_owned();
    let expected = [
        ("ann", happy.clone(), false),
        ("bob", happy.clone(), true),
        ("cat", "member".to_owned(), false),
        ("dan", happy, true),
    ];
    assert_eq!(shown, expected);
    // A column that holds something else altogether.
    let query = "SELECT name, password, since AS roles FROM account WHERE name IN (?)";
    let source = QuerySource::new(&place, None, query, Columns::default(), None).expect("a query");
    let found = run(source.find(&keys)).expect("an answer for all");
    for user in found {
        let is_in = ["ann", "cat"].contains(&&*user.name);
        assert_eq!(user.disabled, !is_in, "{}", user.name);
    }
}

/// All that people make a column of which says yes or no.
fn check_flags(kind: Kind, flags: &[(&str, &str, &str)]) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let place: Place = url.parse().expect("a place");
    for (number, (flag, no, yes)) in flags.iter().enumerate() {
        database.sql(
            "shop",
            &format!(
                "CREATE TABLE account{number} (name VARCHAR(60), password TEXT, disabled {flag}); \
                 INSERT INTO account{number} VALUES ('ann', 'x', {no}), ('bob', 'x', {yes}), \
                 ('cat', 'x', NULL);"
            ),
        );
        let query =
            format!("SELECT name, password, disabled FROM account{number} WHERE name IN (?)");
        let source = QuerySource::new(&place, None, &query, Columns::default(), None);
        let source = source.expect("a query");
        run(source.open()).expect("the query works");
        let complaints = run(source.complaints()).expect("an answer");
        assert_eq!(complaints, [""; 0], "{flag}");
        let keys = ["ann", "bob", "cat"].map(|name| UserKey::new(DEFAULT_ZONE, name));
        let mut found = run(source.find(&keys)).expect("an answer for all");
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let disabled: Vec<bool> = found.iter().map(|user| user.disabled).collect();
        assert_eq!(disabled, [false, true, false], "{flag} {no} {yes}");
    }
}

#[test]
fn flags_in_postgres_say_yes_or_no() {
    check_flags(
        Kind::Postgres,
        &[
            ("BOOLEAN", "false", "true"),
            ("SMALLINT", "0", "1"),
            ("NUMERIC", "0", "1"),
            ("NUMERIC(5,2)", "0.00", "0.25"),
            ("REAL", "0", "0.5"),
            ("BIT", "B'0'", "B'1'"),
            ("BIT(3)", "B'000'", "B'010'"),
            ("VARBIT", "B''", "B'01'"),
            ("\"char\"", "'f'", "'t'"),
            ("CHAR(5)", "'f'", "'t'"),
            ("TEXT", "'False'", "'TRUE'"),
            ("TEXT", "'0.0'", "'2026-01-01 10:00'"),
        ],
    );
}

#[test]
fn flags_in_mariadb_say_yes_or_no() {
    check_flags(
        Kind::MariaDb,
        &[
            ("BOOLEAN", "false", "true"),
            ("TINYINT UNSIGNED", "0", "1"),
            ("BIT(1)", "b'0'", "b'1'"),
            ("BIT(8)", "b'0'", "b'10'"),
            ("DECIMAL(5,2)", "0.00", "0.25"),
            ("FLOAT", "0", "0.5"),
            ("CHAR(1)", "'N'", "'Y'"),
            ("ENUM('no', 'yes')", "'no'", "'yes'"),
            ("VARCHAR(20)", "'f'", "'t'"),
        ],
    );
}

#[test]
fn odd_columns_in_postgres_shut_out_their_own_users() {
    check_odd_columns(
        Kind::Postgres,
        "CREATE TYPE mood AS ENUM ('happy', 'sad');",
        "(name TEXT, password TEXT, mood mood, disabled TIMESTAMPTZ, since DATE)",
        "('ann', 'x', 'happy', NULL, NULL), ('bob', 'x', 'happy', now(), now()), ('cat', 'x', NULL, NULL, NULL), \
         ('dan', 'x', 'happy', now(), now())",
    );
}

#[test]
fn odd_columns_in_mariadb_shut_out_their_own_users() {
    check_odd_columns(
        Kind::MariaDb,
        "",
        "(name VARCHAR(60), password TEXT, mood ENUM('happy', 'sad'), disabled DATETIME, since DATE)",
        "('ann', 'x', 'happy', NULL, NULL), ('bob', 'x', 'happy', NOW(), NOW()), ('cat', 'x', NULL, NULL, NULL), \
         ('dan', 'x', 'happy', NOW(), NOW())",
    );
    check_odd_columns(
        Kind::MariaDb,
        "",
        "(name VARCHAR(60), password TEXT, mood SET('happy', 'sad'), disabled DECIMAL(3, 1), since DATE)",
        "('ann', 'x', 'happy', NULL, NULL), ('bob', 'x', 'happy', 1.0, NOW()), ('cat', 'x', NULL, NULL, NULL), \
         ('dan', 'x', 'happy', 0.5, NOW())",
    );
}

/// A row for each role, names in a column of fixed width, and a table that is altered meanwhile.
fn check_joined_rows(kind: Kind) {
    let database = Database::start(kind);
    let url = database.create("shop");
    database.sql(
        "shop",
        "CREATE TABLE account (name CHAR(20), password CHAR(60), disabled INT, roles CHAR(20)); \
         INSERT INTO account VALUES ('ann', 'x', 0, 'sales'), ('ann', 'x', 0, 'boss'), \
         ('bob', 'x', 0, NULL), ('bob', 'y', 1, NULL);",
    );
    let query = "SELECT * FROM account WHERE name IN (?)";
    let place: Place = url.parse().expect("a place");
    let source = QuerySource::new(&place, None, query, Columns::default(), Some("customer"))
        .expect("a query");
    run(source.open()).expect("the query works");
    let keys = ["ann", "bob"].map(|name| UserKey::new(DEFAULT_ZONE, name));
    let check = || {
        let mut found = run(source.find(&keys)).expect("an answer");
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let shown = found.iter_mut().map(|user| {
            user.roles.sort();
            let roles = user.roles.join(" ");
            (&*user.name, user.credentials.len(), roles, user.disabled)
        });
        let expected = [
            ("ann", 1, "boss sales".to_owned(), false),
            ("bob", 2, "customer".to_owned(), true),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    };
    check();
    database.sql("shop", "ALTER TABLE account ADD COLUMN since INT;");
    check();
    database.sql("shop", "DROP TABLE account;");
    run(source.find(&keys)).expect_err("there is no table");
}

#[test]
fn rows_of_one_user_are_joined_in_postgres() {
    check_joined_rows(Kind::Postgres);
}

#[test]
fn rows_of_one_user_are_joined_in_mariadb() {
    check_joined_rows(Kind::MariaDb);
}

/// A name that no text of PostgreSQL holds is nobody's, and nobody else's trouble.
#[test]
fn a_name_with_a_nul_is_nobodys_in_postgres() {
    let database = Database::start(Kind::Postgres);
    let url = database.create("users");
    let bench = store(&url);
    run(bench.books.open()).expect("the store opens");
    let ann = user(DEFAULT_ZONE, "ann");
    run(bench.books.store.insert(std::slice::from_ref(&ann))).expect("a user is added");
    let directory =
        Directory::start(store(&url).books, DirectoryOptions::default()).expect("it starts");
    let (sender, answers) = channel();
    let keys = [UserKey::parse("a\0b"), ann.key(), UserKey::parse("z\0/b")];
    for key in keys.iter().cycle().take(60).cloned() {
        let (sender, name) = (sender.clone(), key.name.clone());
        let found = Box::new(move |answer: Result<Option<_>, _>| {
            let is_found = answer.map(|user| user.is_some());
            sender.send((name, is_found)).expect("the test waits");
        });
        assert!(directory.look_up(key, found), "the queue is long enough");
    }
    for _ in 0..60 {
        let (name, is_found) = answers.recv_timeout(DEADLINE).expect("all are answered");
        assert_eq!(is_found, Ok(&*name == "ann"), "{name:?}");
    }
}

/// The server crashes and comes back while users log in without a pause.
fn check_crash(kind: Kind) {
    const USERS: usize = 500;
    let mut database = Database::start(kind);
    let url = database.create("users");
    let bench = store(&url);
    let users: Vec<_> = (0..USERS)
        .map(|n| user(DEFAULT_ZONE, &format!("u{n}")))
        .collect();
    run(bench.books.open()).expect("the store opens");
    run(bench.books.store.insert(&users)).expect("users are added");
    let directory =
        Directory::start(store(&url).books, DirectoryOptions::default()).expect("it starts");
    // A storm: everybody at once. Each look-up is answered, with the user or "not now".
    let storm = || {
        let (sender, answers) = channel();
        for user in &users {
            let sender = sender.clone();
            let found = Box::new(move |answer: Result<Option<_>, _>| {
                sender
                    .send(answer.map(|user| user.is_some()))
                    .expect("the test waits");
            });
            assert!(
                directory.look_up(user.key(), found),
                "the queue is long enough"
            );
        }
        let mut logins = 0;
        for _ in 0..USERS {
            let answer = answers.recv_timeout(DEADLINE);
            if let Ok(found) = answer.expect("every look-up is answered") {
                assert!(found, "nobody is told that a user does not exist");
                logins += 1;
            }
        }
        logins
    };
    assert_eq!(storm(), USERS);
    database.kill();
    assert_eq!(storm(), 0);
    assert!(
        directory.cached(&users[0].key()).is_some(),
        "what is known stays known"
    );
    database.restart();
    while storm() < USERS {}
    // In the middle of storms: some of them fail, all of them end, and it comes back.
    std::thread::scope(|scope| {
        let crash = scope.spawn(|| {
            database.kill();
            database.restart();
        });
        while !crash.is_finished() {
            storm();
        }
    });
    while storm() < USERS {}
}

#[test]
fn a_crash_of_postgres_in_a_storm_passes() {
    check_crash(Kind::Postgres);
}

#[test]
fn a_crash_of_mariadb_in_a_storm_passes() {
    check_crash(Kind::MariaDb);
}
