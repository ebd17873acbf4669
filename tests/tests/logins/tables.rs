//! Users in tables that the operator has already, asked by a configured query.

use stentor_auth::credential::{Cost, PasswordHash};
use stentor_tests::database::{Database, Kind};
use stentor_tests::process;
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Raw, Server, Version};

use std::process::Command;

fn login(server: &Server, user: &str, password: &str) -> (u8, Raw) {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some((user, password))));
    client.speaks(Version::V5);
    let code = client.expect(2).body[1];
    (code, client)
}

/// A column of a type, which says who is disabled by one of two values.
fn check(kind: Kind, locked: &str, (no, yes): (&str, &str)) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let hash = |password: &str| PasswordHash::make(password.as_bytes(), Cost::PBKDF2_SHA512);
    let hash = hash("pencil").expect("a hash can be made");
    database.sql(
        "shop",
        &format!(
            "CREATE TABLE customer (login VARCHAR(60), hash VARCHAR(255), locked {locked}, \
             team VARCHAR(60)); INSERT INTO customer VALUES ('ann', '{hash}', {no}, 'member'), \
             ('bob', '{hash}', {yes}, 'member');"
        ),
    );
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"{url}\"\n\
         query = \"SELECT login, hash, locked, team FROM customer WHERE login IN (?)\"\n\
         column_name = \"login\"\ncolumn_password = \"hash\"\ncolumn_disabled = \"locked\"\n\
         column_roles = \"team\"\nrefresh = \"1h\"\n"
    );
    let server = Plan::new().config(&config).start();
    let (code, mut ann) = login(&server, "ann", "pencil");
    assert_eq!(code, 0);
    ann.subscribe("a", 0);
    for (user, password) in [
        ("ann", "eraser"),
        ("bob", "pencil"),
        ("o'x\" OR 1=1 --", "pencil"),
    ] {
        assert_eq!(login(&server, user, password).0, 0x86, "{user}");
    }
    database.sql("shop", &format!("UPDATE customer SET locked = {yes}"));
    ann.ping();
    server.control(&["auth", "refresh"]).success();
    assert_eq!(ann.expect(14).body[0], 0x98);
    ann.closed();
    assert_eq!(login(&server, "ann", "pencil").0, 0x86);
}

#[test]
fn tables_in_postgres_let_their_users_in() {
    check(Kind::Postgres, "BOOLEAN", ("false", "true"));
    check(Kind::Postgres, "TIMESTAMPTZ", ("NULL", "now()"));
}

#[test]
fn tables_in_mariadb_let_their_users_in() {
    check(Kind::MariaDb, "BOOLEAN", ("0", "1"));
    check(Kind::MariaDb, "DATETIME", ("NULL", "NOW()"));
}

/// What a log-in finds out counts for those who are connected: a later refresh finds it known.
#[test]
fn who_is_locked_out_at_the_door_is_sent_away_inside() {
    let plan = Plan::new();
    let file = plan.folder().join("shop.db");
    let sql = |script: &str| {
        let script = format!(
            "import sqlite3,sys\nsqlite3.connect(sys.argv[1]).executescript(\"\"\"{script}\"\"\")"
        );
        process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    };
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    sql(&format!(
        "CREATE TABLE customer (name TEXT, password TEXT, disabled INT);\
         INSERT INTO customer VALUES ('ann', '{hash}', 0), ('bob', '{hash}', 0);"
    ));
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT name, password, disabled FROM customer WHERE name IN (?)\"\n\
         refresh = \"1h\"\nremember = \"0s\"\n",
        file.display()
    );
    let server = plan.config(&config).start();
    let clients = ["ann", "bob"].map(|name| login(&server, name, "pencil"));
    let [(0, mut ann), (0, mut bob)] = clients else {
        panic!("both are let in: {clients:?}");
    };
    sql("UPDATE customer SET disabled = 1 WHERE name = 'ann';\
         DELETE FROM customer WHERE name = 'bob';");
    for (name, client) in [("ann", &mut ann), ("bob", &mut bob)] {
        client.ping();
        let mut second = server.dial();
        second.send(&connect_as(Version::V5, "2", true, Some((name, "pencil"))));
        assert_eq!(second.expect(2).body[1], 0x86, "{name}");
        assert_eq!(client.expect(14).body[0], 0x98, "{name}");
        client.closed();
    }
}

/// The owner of a database may put a new one in its place.
#[test]
fn a_file_that_is_replaced_is_read_anew() {
    let plan = Plan::new();
    let file = plan.folder().join("shop.db");
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    let make = |name: &str| {
        let script = format!(
            "import os,sqlite3,sys\nnew = sys.argv[1] + '.new'\nd = sqlite3.connect(new)\n\
             d.executescript(\"\"\"CREATE TABLE customer (name TEXT, password TEXT);\
             INSERT INTO customer VALUES ('{name}', '{hash}');\"\"\")\nd.close()\n\
             os.rename(new, sys.argv[1])"
        );
        process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    };
    make("ann");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT name, password FROM customer WHERE name IN (?)\"\n\
         slow_failures = false\nremember = \"0s\"\n",
        file.display()
    );
    let server = plan.config(&config).start();
    for (name, other) in [("ann", "bob"), ("bob", "ann")] {
        make(name);
        assert_eq!(login(&server, name, "pencil").0, 0, "{name}");
        assert_eq!(login(&server, other, "pencil").0, 0x86, "{other}");
    }
}

/// A column that shuts people out by its type is told at the start, and by `stentor auth refresh`
/// where the table was changed since.
#[test]
fn a_column_that_cannot_be_read_is_told_at_the_start() {
    let database = Database::start(Kind::Postgres);
    let url = database.create("shop");
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    database.sql(
        "shop",
        &format!(
            "CREATE TABLE account (name TEXT, password TEXT, disabled UUID); \
             INSERT INTO account VALUES ('ann', '{hash}', NULL);"
        ),
    );
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"{url}\"\n\
         query = \"SELECT name, password, disabled FROM account WHERE name IN (?)\"\n"
    );
    let server = Plan::new().config(&config).start();
    for part in ["UUID", "CAST(disabled AS TEXT) AS disabled"] {
        server.wait_log(0, part);
    }
    assert_eq!(login(&server, "ann", "pencil").0, 0);
    let change = |kind: &str, value: &str| {
        let sql = format!("ALTER TABLE account ALTER disabled TYPE {kind} USING {value}");
        database.sql("shop", &sql);
        let finished = server.control(&["auth", "refresh"]);
        assert!(finished.status.success(), "{finished}");
        finished.stderr
    };
    assert_eq!(change("NUMERIC", "0"), "");
    assert_eq!(login(&server, "ann", "pencil").0, 0);
    let told = change("INET", "'10.0.0.1'");
    assert!(told.contains("\"disabled\" of auth.query"), "{told}");
    assert!(told.contains("INET") && told.contains("CAST("), "{told}");
    assert_eq!(login(&server, "ann", "pencil").0, 0x86);
    // A column that is gone is no less clear.
    database.sql("shop", "ALTER TABLE account RENAME password TO hash");
    let told = server.control(&["auth", "refresh"]).refusal();
    assert!(told.contains("password"), "{told}");
}

/// A column that has to be there and is not keeps the server from starting.
#[test]
fn a_column_that_is_missing_is_told_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let file = folder.path().join("shop.db");
    let script = "import sqlite3,sys\nsqlite3.connect(sys.argv[1]).execute(\"CREATE TABLE customer \
                  (login TEXT, hash TEXT)\")";
    process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT login, hash FROM customer WHERE login IN (?)\"\n\
         column_name = \"login\"\n",
        file.display()
    );
    for (more, missing) in [
        ("", "password"),
        (
            "column_password = \"hash\"\ncolumn_disabled = \"locked\"\n",
            "locked",
        ),
        (
            "column_password = \"hash\"\ncolumn_roles = \"team\"\n",
            "team",
        ),
        (
            "column_password = \"hash\"\ncolumn_zone = \"realm\"\n",
            "realm",
        ),
    ] {
        let plan = Plan::new().config(&format!("{config}{more}"));
        let refusal = plan.refused().refusal();
        let told = format!("no column \"{missing}\", but with login, hash");
        for part in [told.as_str(), "auth.column_"] {
            assert!(refusal.contains(part), "{refusal}");
        }
    }
}

/// Nobody comes in because nobody can say any more who is shut out.
#[test]
fn a_column_that_was_there_is_not_taken_for_one_that_never_was() {
    let plan = Plan::new();
    let file = plan.folder().join("shop.db");
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    let sql = |script: &str| {
        let script = format!(
            "import sqlite3,sys\nsqlite3.connect(sys.argv[1]).executescript(\"\"\"{script}\"\"\")"
        );
        process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    };
    sql(&format!(
        "CREATE TABLE customer (name TEXT, password TEXT, disabled INT);\
         INSERT INTO customer VALUES ('ann', '{hash}', 0), ('bob', '{hash}', 1),\
         ('cat', '{hash}', 0), ('dan', '{hash}', 1);"
    ));
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT * FROM customer WHERE name IN (?)\"\n\
         slow_failures = false\nremember = \"0s\"\n",
        file.display()
    );
    let server = plan.config(&config).start();
    assert_eq!(login(&server, "ann", "pencil").0, 0);
    assert_eq!(login(&server, "bob", "pencil").0, 0x86);
    sql("ALTER TABLE customer RENAME disabled TO blocked");
    // SQLite itself hears of the change with the first look-up after it. Those that are known
    // already are so for as long as in any outage.
    login(&server, "somebody", "pencil");
    for name in ["dan", "cat"] {
        assert_eq!(login(&server, name, "pencil").0, 0x88, "{name}");
    }
    server.wait_log(0, "no column \"disabled\"");
    sql("ALTER TABLE customer RENAME blocked TO disabled");
    login(&server, "somebody", "pencil");
    server.control(&["auth", "refresh"]).success();
    assert_eq!(login(&server, "dan", "pencil").0, 0x86);
    assert_eq!(login(&server, "cat", "pencil").0, 0);
}

/// A row that makes no sense shuts its own user out, also where it is read together with others.
#[test]
fn one_odd_row_is_nobody_elses_trouble() {
    let plan = Plan::new();
    let file = plan.folder().join("shop.db");
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    let script = format!(
        "import sqlite3,sys\nd = sqlite3.connect(sys.argv[1])\nd.executescript(\"\"\"\
         CREATE TABLE customer (name TEXT, password, disabled);\
         INSERT INTO customer VALUES ('good', '{hash}', NULL), ('gone', '{hash}', '2026-01-01'),\
         ('odd', X'FF00FF', 0), ('long', '{}', 0), ('here', '{hash}', 'no'),\
         ('vague', '{hash}', 'perhaps'), ('server', '{hash}', 0);\"\"\")",
        "x".repeat(2_000)
    );
    process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT name, password, disabled FROM customer WHERE name IN (?)\"\n\
         slow_failures = false\nremember = \"0s\"\n",
        file.display()
    );
    let server = plan.config(&config).start();
    // Sent before any is answered, so that they are looked up together.
    let names = [
        "odd", "good", "long", "gone", "here", "vague", "odd", "good", "long", "server",
    ];
    let mut clients: Vec<Raw> = names.iter().map(|_| server.dial()).collect();
    for (client, name) in clients.iter_mut().zip(names) {
        client.speaks(Version::V5);
        let id = format!("{name}-client");
        client.send(&connect_as(Version::V5, &id, true, Some((name, "pencil"))));
    }
    for (client, name) in clients.iter_mut().zip(names) {
        let is_sound = ["good", "here"].contains(&name);
        let expected = if is_sound { 0 } else { 0x86 };
        assert_eq!(client.expect(2).body[1], expected, "{name}");
    }
    // The log names the user whose value says neither yes nor no, and nobody else.
    let log = server.wait_lines(2, &[" is refused: "]);
    let told = log.lines().filter(|line| line.contains(" is refused: "));
    // Two shards ask, so that either may be looked up first.
    let (vague, server): (Vec<_>, Vec<_>) = told.partition(|line| line.contains("\"vague\""));
    assert!(
        matches!((&vague[..], &server[..]), ([vague], [server]) if vague.contains("\"disabled\"")
            && server.contains("no user is called server")),
        "{log}"
    );
    assert!(!log.contains("perhaps"), "{log}");
}

/// A zone that a table names has to be there: nobody's table makes one.
#[test]
fn a_zone_that_is_not_there_lets_nobody_in() {
    let plan = Plan::new();
    let file = plan.folder().join("shop.db");
    let hash = PasswordHash::make(b"pencil", Cost::PBKDF2_SHA512).expect("a hash can be made");
    let script = format!(
        "import sqlite3,sys\nd = sqlite3.connect(sys.argv[1])\nd.executescript(\"\"\"\
         CREATE TABLE customer (name TEXT, password TEXT, zone TEXT);\
         INSERT INTO customer VALUES ('eve', '{hash}', 'nowhere'), ('ann', '{hash}', NULL);\"\"\")"
    );
    process::run(Command::new("python3").arg("-c").arg(script).arg(&file)).success();
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nsource = \"sqlite:{}\"\n\
         query = \"SELECT name, password, zone FROM customer WHERE name IN (?)\"\n",
        file.display()
    );
    let server = plan.config(&config).start();
    assert_eq!(login(&server, "ann", "pencil").0, 0);
    assert_eq!(login(&server, "nowhere/eve", "pencil").0, 0x86);
    let log = server.wait_log(0, "there is no zone \"nowhere\"");
    assert!(log.contains("stentor zone add"), "{log}");
    let status = server.json(&["status"]);
    assert!(!status["zones"].to_string().contains("nowhere"), "{status}");
    server.control(&["zone", "add", "nowhere"]).success();
    assert_eq!(login(&server, "nowhere/eve", "pencil").0, 0);
}
