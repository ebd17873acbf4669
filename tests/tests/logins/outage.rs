//! A database that goes away while clients are connected, and comes back.

use stentor_tests::database::{Database, Kind};
use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{Plan, Server, Version};

/// Bad user name or password.
const WRONG: u8 = 0x86;

/// Server unavailable.
const UNAVAILABLE: u8 = 0x88;

fn add(server: &Server, name: &str) {
    let file = server.folder().join("password");
    std::fs::write(&file, name).expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let added = server.control(&["user", "add", name, "--password-file", file]);
    added.success();
}

fn code(server: &Server, user: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some((user, user))));
    client.expect(2).body[1]
}

fn check(kind: Kind) {
    let mut database = Database::start(kind);
    let url = database.create("users");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
         [auth]\ndatabase = \"{url}\"\nremember = \"0s\"\n"
    );
    let server = Plan::new().config(&config).start();
    add(&server, "ann");
    add(&server, "bob");
    let mut ann = server.dial();
    ann.send(&connect_as(Version::V5, "live", true, Some(("ann", "ann"))));
    assert_eq!(ann.expect(2).body[1], 0);
    ann.speaks(Version::V5);
    ann.subscribe("a/#", 0);
    database.kill();
    let from = server.log().len();
    // A storm while it is away: everybody is told, nobody waits, and who is there goes on.
    let mut storm: Vec<_> = (0..300).map(|_| server.dial()).collect();
    for (n, client) in storm.iter_mut().enumerate() {
        let id = format!("s{n}");
        client.send(&connect_as(Version::V5, &id, true, Some(("bob", "bob"))));
    }
    for client in &mut storm {
        assert_eq!(client.expect(2).body[1], UNAVAILABLE);
    }
    ann.publish("a/b", b"still here");
    assert_eq!(ann.message().1, b"still here");
    let log = server.wait_log(from, "is gone");
    let new = &log[from..];
    assert_eq!(new.matches("is gone").count(), 1, "{new}");
    assert!(new.lines().count() < 40, "{new}");
    database.restart();
    eventually("logins work again", || code(&server, "bob") == 0);
    ann.ping();
    let log = server.wait_log(from, "answers again, after");
    assert_eq!(
        log[from..].matches("answers again, after").count(),
        1,
        "{log}"
    );
}

#[test]
fn an_outage_of_postgres_is_passed() {
    check(Kind::Postgres);
}

#[test]
fn an_outage_of_mariadb_is_passed() {
    check(Kind::MariaDb);
}

/// A file that is taken away or emptied says nothing about its users.
#[test]
fn an_outage_of_a_text_file_is_passed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("users.toml");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
         [auth]\ndatabase = \"file:{}\"\nremember = \"0s\"\n",
        file.display()
    );
    let server = Plan::new().config(&config).start();
    add(&server, "ann");
    add(&server, "bob");
    let mut ann = server.dial();
    ann.send(&connect_as(Version::V5, "live", true, Some(("ann", "ann"))));
    assert_eq!(ann.expect(2).body[1], 0);
    ann.speaks(Version::V5);
    ann.subscribe("a/#", 0);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    for empty in [None, Some(""), Some("\n")] {
        let from = server.log().len();
        match empty {
            None => std::fs::remove_file(&file),
            Some(text) => std::fs::write(&file, text),
        }
        .expect("the file can be changed");
        server.control(&["auth", "refresh"]).refusal();
        for _ in 0..10 {
            assert_eq!(code(&server, "bob"), UNAVAILABLE, "{empty:?}");
        }
        server.control(&["user", "delete", "bob"]).refusal();
        ann.publish("a/b", b"still here");
        assert_eq!(ann.message().1, b"still here");
        server.wait_log(from, "is gone");
        std::fs::write(&file, &text).expect("the file can be written");
        eventually("logins work again", || code(&server, "bob") == 0);
        ann.ping();
        let log = server.wait_log(from, "answers again, after");
        assert_eq!(log[from..].matches("is gone").count(), 1, "{log}");
    }
    // A file that is there and has no users says so.
    std::fs::write(&file, "started = true\n").expect("the file can be written");
    assert_eq!(code(&server, "bob"), WRONG);
    server.control(&["auth", "refresh"]).success();
    assert_eq!(ann.expect(14).body[0], 0x98);
}
