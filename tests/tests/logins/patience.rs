//! How long a login may take: who sends nothing is sent away, who waits for the server is not.

use nix::sys::signal::Signal;
use stentor_tests::database::{Database, Kind};
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Version};

/// The time-out is for what the client has to send: time in the queue does not count.
#[test]
fn waiting_for_the_database_is_not_held_against_the_client() {
    let database = Database::start(Kind::MariaDb);
    let url = database.create("users");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[limits]\nlogin_timeout = \"1s\"\n\
         [auth]\ndatabase = \"{url}\"\ntimeout = \"60s\"\n"
    );
    let server = Plan::new().config(&config).start();
    let file = server.folder().join("password");
    std::fs::write(&file, "pencil").expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let add = ["user", "add", "ann", "--password-file", file];
    server.control(&add).success();
    // A database that thinks for long, not one that is gone.
    database.signal(Signal::SIGSTOP);
    let mut waiting: Vec<_> = (0..20)
        .map(|number| {
            let mut client = server.dial();
            let id = format!("c{number}");
            client.send(&connect_as(Version::V5, &id, true, Some(("ann", "pencil"))));
            client
        })
        .collect();
    // A client that came after all of them and says nothing is sent away when the time is over,
    // twice.
    for _ in 0..2 {
        assert!(server.dial().rest().is_empty());
    }
    database.signal(Signal::SIGCONT);
    for client in &mut waiting {
        assert_eq!(client.expect(2).body[1], 0);
    }
}
