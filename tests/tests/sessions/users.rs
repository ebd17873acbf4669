//! Users who are changed while the server is down.

use stentor_tests::database::{Database, Kind};
use stentor_tests::raw::{connect_as, eventually, packet, string};
use stentor_tests::{Plan, Raw, Server, Version, process, server};

use crate::{acknowledged, come_back, status};

/// A CONNECT of a user whose password is its name: its session lasts, and its will says the name.
fn connect_with_will(user: &str) -> Vec<u8> {
    let head = [&string("MQTT")[..], &[5, 0b1100_1100, 0, 0]].concat();
    let properties = [5, 0x11, 0, 0, 0, 200];
    let will = [&[0][..], &string("wills"), &string(user)].concat();
    let login = [string(user), string(user)].concat();
    packet(
        0x10,
        &[&head[..], &properties, &string(user), &will, &login].concat(),
    )
}

/// The client of a user, and whether its session was there.
fn log_in(server: &Server, user: &str) -> (Raw, bool) {
    let mut client = server.dial();
    client.speaks(Version::V5);
    client.send(&connect_as(Version::V5, user, false, Some((user, user))));
    let connack = client.expect(2);
    assert_eq!(connack.body[1], 0, "{user}: {connack:?}");
    (client, connack.body[0] == 1)
}

/// A command on the data folder of a server that does not run.
fn offline(plan: &Plan, args: &[&str]) {
    let mut command = server::stentor();
    command.args(args).arg("--data-dir").arg(plan.data_dir());
    process::run(&mut command).success();
}

fn add_users(server: &Server, users: &[&str]) {
    for user in users {
        let file = server.folder().join("password");
        let password = user.rsplit('/').next().unwrap_or(user);
        std::fs::write(&file, password).expect("a file can be written");
        let file = file.to_str().expect("plain names");
        server
            .control(&["user", "add", user, "--password-file", file])
            .success();
    }
}

/// Sessions of users who were deleted end. Those who are disabled, or have fewer roles, neither
/// receive anything nor leave wills.
#[test]
fn what_became_of_users_in_the_meantime_holds_from_the_start() {
    let config = "[sessions]\nwill_grace = \"0s\"\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    let rule = [
        "role",
        "add",
        "press",
        "--rule",
        "allow both news",
        "--rule",
    ];
    let rule = [&rule[..], &["allow both wills"]].concat();
    server.control(&rule).success();
    let users = ["stays", "deleted", "disabled", "demoted"];
    add_users(&server, &users);
    come_back(&server, Version::V5, "watcher")
        .0
        .subscribe("wills", 1);
    let clients = users.map(|user| {
        server.control(&["grant", user, "press"]).success();
        server.control(&["revoke", user, "member"]).success();
        let mut client = server.dial();
        client.speaks(Version::V5);
        client.send(&connect_with_will(user));
        assert_eq!(client.expect(2).body[1], 0, "{user}");
        client.subscribe("news", 1);
        client
    });
    let plan = server.kill();
    drop(clients);
    offline(&plan, &["user", "delete", "deleted"]);
    offline(&plan, &["user", "disable", "disabled"]);
    offline(&plan, &["revoke", "demoted", "press"]);
    let server = plan.start();
    assert_eq!(status(&server)["session_store"]["found_at_start"], 5);
    let (mut watcher, _) = come_back(&server, Version::V5, "watcher");
    assert_eq!(acknowledged(&mut watcher), b"stays");
    eventually("the session of nobody ends", || {
        status(&server)["sessions"] == 4
    });
    server
        .client(Version::V4, "p")
        .publish_surely("news", b"late");
    server.control(&["user", "enable", "disabled"]).success();
    add_users(&server, &["deleted"]);
    for (user, was_there, receives) in [
        ("stays", true, true),
        ("deleted", false, false),
        ("disabled", true, false),
        ("demoted", true, false),
    ] {
        let (mut client, present) = log_in(&server, user);
        assert_eq!(present, was_there, "{user}");
        if receives {
            assert_eq!(acknowledged(&mut client), b"late", "{user}");
        }
        client.ping();
    }
    // No will came but the one.
    watcher.ping();
}

/// Neither users nor zones are known then. Sessions wait for them, and wills do.
#[test]
fn sessions_go_on_while_the_user_database_is_away() {
    let mut database = Database::start(Kind::Postgres);
    let url = database.create("users");
    let config = format!(
        "[auth]\ndatabase = \"{url}\"\n[sessions]\nwill_grace = \"0s\"\n\
         [[user]]\nname = \"root\"\npassword_hash = \"{}\"\n",
        server::hash_password("root")
    );
    let server = Plan::new().tcp().config(&config).start();
    server.control(&["zone", "add", "game"]).success();
    add_users(&server, &["ann", "game/bob", "gone"]);
    let mut ann = server.dial();
    ann.speaks(Version::V5);
    ann.send(&connect_with_will("ann"));
    assert_eq!(ann.expect(2).body[1], 0);
    log_in(&server, "root").0.subscribe("wills", 1);
    let bob = connect_as(Version::V5, "b", false, Some(("game/bob", "bob")));
    let mut client = server.dial();
    client.send(&bob);
    assert_eq!(client.expect(2).body[..2], [0, 0]);
    log_in(&server, "gone");
    let plan = server.kill();
    drop(ann);
    database.sql(
        "users",
        "DELETE FROM stentor_user WHERE login = 'default/gone'",
    );
    database.kill();
    let server = plan.start();
    server.wait_log(0, "does not answer");
    assert_eq!(status(&server)["session_store"]["found_at_start"], 4);
    // Once more without anybody to ask.
    let server = server.kill().start();
    assert_eq!(status(&server)["session_store"]["found_at_start"], 4);
    let (mut root, _) = log_in(&server, "root");
    root.ping();
    database.restart();
    assert_eq!(acknowledged(&mut root), b"ann");
    eventually("the session of nobody ends", || {
        status(&server)["sessions"] == 3
    });
    let mut client = server.dial();
    client.send(&bob);
    assert_eq!(client.expect(2).body[..2], [1, 0]);
    assert!(log_in(&server, "ann").1);
}
