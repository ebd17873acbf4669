//! Users in tables that the operator has already, asked by a configured query.

use stentor_auth::credential::{Cost, PasswordHash};
use stentor_tests::database::{Database, Kind};
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Raw, Server, Version};

fn login(server: &Server, user: &str, password: &str) -> (u8, Raw) {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some((user, password))));
    client.speaks(Version::V5);
    let code = client.expect(2).body[1];
    (code, client)
}

fn check(kind: Kind, (no, yes): (&str, &str)) {
    let database = Database::start(kind);
    let url = database.create("shop");
    let hash = |password: &str| PasswordHash::make(password.as_bytes(), Cost::PBKDF2_SHA512);
    let hash = hash("pencil").expect("a hash can be made");
    database.sql(
        "shop",
        &format!(
            "CREATE TABLE customer (login VARCHAR(60), hash VARCHAR(255), locked BOOLEAN, \
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
    check(Kind::Postgres, ("false", "true"));
}

#[test]
fn tables_in_mariadb_let_their_users_in() {
    check(Kind::MariaDb, ("0", "1"));
}
