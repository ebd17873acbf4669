//! A database that goes away while clients are connected, and comes back.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

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

/// What was confirmed is there after a restart: what would be written to a file that nobody finds
/// again is refused.
#[test]
fn a_database_that_is_taken_away_is_not_changed() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nremember = \"0s\"\n";
    let server = Plan::new().config(config).start();
    add(&server, "ann");
    let [path, away] = ["auth.db", "away"].map(|name| server.data_dir().join(name));
    std::fs::rename(&path, &away).expect("a file can be renamed");
    let from = server.log().len();
    for (what, is_there) in [("removed", false), ("replaced", true)] {
        if is_there {
            std::fs::copy(&away, &path).expect("a file can be copied");
        }
        for change in [
            &["user", "add", "bob", "--no-password"][..],
            &["user", "delete", "ann"],
            &["role", "add", "r", "--rule", "allow both a"],
            &["token", "create", "ann"],
            &["zone", "add", "game"],
        ] {
            let refusal = server.control(change).refusal();
            let expected = format!("was {what} while it was open");
            assert!(refusal.contains(&expected), "{change:?}: {refusal}");
        }
        assert_eq!(path.exists(), is_there, "nothing is made in its place");
        assert_eq!(code(&server, "ann"), 0, "logins go on");
        let log = server.wait_log(from, &format!("was {what} while it was open"));
        let told = log[from..].matches("while it was open").count();
        assert_eq!(told, 1 + usize::from(is_there), "{log}");
    }
    std::fs::rename(&away, &path).expect("a file can be renamed");
    add(&server, "bob");
    let plan = server.stop_for_restart();
    let server = plan.start();
    assert_eq!(code(&server, "bob"), 0);
    // What a start finds missing is told as well.
    let plan = server.stop_for_restart();
    std::fs::remove_file(&path).expect("a file can be removed");
    let server = plan.start();
    server.wait_log(0, "its user database");
    server.control(&["user", "show", "bob"]).refusal();
}

/// What a server left behind, however it ended, is one file, and so is a backup.
#[test]
fn a_backup_is_one_file_and_can_be_put_back() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\nremember = \"0s\"\n";
    let server = Plan::new().config(config).start();
    let [path, backup] = ["auth.db", "backup"].map(|name| server.data_dir().join(name));
    let is_alone = || {
        let entries = std::fs::read_dir(path.parent().expect("a folder")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let beside = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("auth.db-");
        assert_eq!(names.filter(beside).count(), 0);
    };
    add(&server, "ann");
    let plan = server.kill();
    is_alone();
    std::fs::copy(&path, &backup).expect("a file can be copied");
    let server = plan.start();
    add(&server, "bob");
    server.control(&["user", "delete", "ann"]).success();
    let plan = server.stop_for_restart();
    is_alone();
    std::fs::copy(&backup, &path).expect("a file can be copied");
    let server = plan.start();
    assert_eq!(code(&server, "ann"), 0);
    assert_eq!(code(&server, "bob"), WRONG);
}

/// A way to a Unix socket that may fall silent, as a network does: nothing is closed, and nothing
/// comes any more over what was open then.
struct Way {
    silent: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Way {
    fn open(from: &Path, to: &Path) -> Self {
        let listener = UnixListener::bind(from).expect("a socket can be made");
        let (way, to) = (
            Self {
                silent: Arc::default(),
            },
            to.to_owned(),
        );
        let connections = Arc::clone(&way.silent);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = UnixStream::connect(&to) else {
                    continue;
                };
                let silent = Arc::new(AtomicBool::new(false));
                connections
                    .lock()
                    .expect("no panic")
                    .push(Arc::clone(&silent));
                let copies = [near.try_clone(), far.try_clone()].map(|one| one.expect("a copy"));
                let [near_copy, far_copy] = copies;
                for (from, to) in [(near, far_copy), (far, near_copy)] {
                    let silent = Arc::clone(&silent);
                    thread::spawn(move || Self::carry(from, to, &silent));
                }
            }
        });
        way
    }

    fn carry(mut from: UnixStream, mut to: UnixStream, silent: &AtomicBool) {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            if !silent.load(Ordering::SeqCst) && to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        if !silent.load(Ordering::SeqCst) {
            // The other side may have gone first.
            let _ = to.shutdown(Shutdown::Both);
        }
    }

    /// What is open falls silent for good; what is opened from now on works.
    fn fall_silent(&self) {
        for silent in self.silent.lock().expect("no panic").drain(..) {
            silent.store(true, Ordering::SeqCst);
        }
    }
}

/// A connection that says nothing any more holds nobody up who comes after it.
#[test]
fn a_network_that_falls_silent_is_passed() {
    let database = Database::start(Kind::Postgres);
    let url = database.create("users");
    let folder = tempfile::tempdir().expect("a folder can be made");
    let name = ".s.PGSQL.5432";
    let way = Way::open(&folder.path().join(name), &database.folder().join(name));
    let (url, _) = url.split_once('?').expect("the URL names a folder");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[auth]\n\
         database = \"{url}?host={}\"\nremember = \"0s\"\ntimeout = \"300ms\"\nrefresh = \"1s\"\n",
        folder.path().display()
    );
    let server = Plan::new().config(&config).start();
    add(&server, "bob");
    for _ in 0..2 {
        let from = server.log().len();
        way.fall_silent();
        // Found out by reading again, with nobody logging in.
        server.wait_log(from, "is gone");
        server.wait_log(from, "answers again, after");
        eventually("logins work again", || code(&server, "bob") == 0);
        eventually("commands work again", || {
            let show = server.control(&["user", "show", "bob"]);
            show.status.success()
        });
    }
}

/// Commands say that it is gone, and not that there are no roles.
#[test]
fn a_command_says_that_the_database_was_never_there() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  [auth]\ndatabase = \"postgres://stentor@localhost/users?host=/nonexistent\"\n";
    let server = Plan::new().config(config).start();
    for args in [
        &["user", "add", "bob", "--no-password"][..],
        &["user", "test", "bob", "publish", "a"],
        &["role", "list"],
    ] {
        let refusal = server.control(args).refusal();
        assert!(
            refusal.contains("the database does not answer"),
            "{refusal}"
        );
    }
}
