//! The cases of `tests/python/room_cases.py`, and `stentor room`.

use stentor_tests::{Plan, process, tools};

use super::commands::command;

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("room_cases.py", case, version, &super::start());
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        hears_the_speakers_name,
        tells_who_comes_and_goes,
        refuses_with_a_reason,
        sends_what_was_said_before,
        keeps_zones_apart,
    }
    "5" in v5 {
        hears_the_speakers_name,
        tells_who_comes_and_goes,
        refuses_with_a_reason,
        sends_what_was_said_before,
        keeps_zones_apart,
    }
}

#[test]
fn the_commands_make_and_moderate_a_room() {
    let server = super::start();
    let run = |user: &str, args: &[&str]| {
        let mut room = command(&server, "room", user);
        // The word of the command comes before the flags of the connection.
        let flags: Vec<_> = room.get_args().skip(1).map(ToOwned::to_owned).collect();
        room = stentor_tests::server::stentor();
        room.env("STENTOR_PASSWORD", super::PASSWORD);
        process::run(room.arg("room").args(args).args(flags))
    };
    run(
        "alice",
        &["create", "tea", "--capacity", "3", "--history", "5"],
    )
    .success();
    let again = run("bob", &["create", "tea"]);
    assert!(again.stderr.contains("already"), "{again}");
    run("bob", &["say", "tea", "hello"]).success();
    let listed = run("alice", &["ls"]).success();
    assert!(listed.contains("lobby: 0 members\n"), "{listed}");
    let denied = run("bob", &["close", "tea"]);
    assert_eq!(denied.status.code(), Some(1), "{denied}");
    let bad = run("bob", &["close", "a/b"]);
    assert_eq!(bad.status.code(), Some(2), "{bad}");
    // The administrator of this machine owns every room.
    let made = server.control(&["room", "create", "hall", "--permanent", "--json"]);
    assert!(made.success().contains(r#""room":"hall""#));
    let shown = server.control(&["room", "show", "hall"]).success();
    assert!(shown.contains("owner: nobody"), "{shown}");
    server.control(&["room", "close", "hall"]).success();
}

/// Rooms are of the running server: nothing of them is found after a kill.
#[test]
fn a_killed_server_forgets_its_rooms() {
    let server = super::start();
    server
        .control(&["room", "create", "hall", "--permanent"])
        .success();
    let first = |server: &stentor_tests::Server| {
        let mut list = command(server, "sub", "alice");
        list.args(["-t", "$rooms/hall", "-C", "1", "-F", "%t"]);
        list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
        process::run(&mut list).success()
    };
    assert_eq!(first(&server), "$rooms/hall\n");
    let plan: Plan = server.kill();
    let server = plan.start();
    // The end of what is retained is marked by a message that is none; the lobby is made for
    // whoever looks at the list.
    let mut list = command(&server, "sub", "alice");
    list.args(["-t", "$rooms/+", "-C", "2", "-F", "%t"]);
    list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
    let seen = process::run(&mut list).success();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["$rooms/lobby", "$rooms/snapshot-end"]);
}
