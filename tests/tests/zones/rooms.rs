//! The cases of `tests/python/room_cases.py`, and `stentor room`.

use std::io::{BufRead, BufReader};
use std::process::Child;

use stentor_tests::raw::eventually;
use stentor_tests::{DEADLINE, Plan, Server, process, tools};

use super::commands::command;

/// The user dan has no right to rooms that begin with `den`, nor to topics below `notice/`.
fn start() -> Server {
    let server = super::start();
    let mut rules: Vec<String> = Vec::new();
    for room in ["den", "den2", "den-that-is-not-there"] {
        rules.push(format!("deny both $room/{room}/#"));
        rules.push(format!("deny both $rooms/{room}"));
    }
    rules.push("deny both notice/#".into());
    let mut add = vec!["role", "add", "outsider"];
    add.extend(rules.iter().flat_map(|rule| ["--rule", rule.as_str()]));
    server.control(&add).success();
    let file = server.folder().join("password");
    std::fs::write(&file, super::PASSWORD).expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let roles = ["--role", "member", "--role", "outsider"];
    let dan = ["user", "add", "dan", "--password-file", file];
    server.control(&[&dan[..], &roles[..]].concat()).success();
    server
}

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("room_cases.py", case, version, &start());
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        hears_the_speakers_name,
        tells_who_comes_and_goes,
        comes_back_and_is_told,
        refuses_with_a_reason,
        properties_are_compared_and_locked,
        finds_a_room_that_suits,
        finds_a_room_by_ranges,
        holds_the_place_that_it_finds,
        hides_rooms_from_who_has_no_right,
        sends_what_was_said_before,
        keeps_zones_apart,
    }
    "5" in v5 {
        hears_the_speakers_name,
        tells_who_comes_and_goes,
        comes_back_and_is_told,
        refuses_with_a_reason,
        properties_are_compared_and_locked,
        finds_a_room_that_suits,
        finds_a_room_by_ranges,
        holds_the_place_that_it_finds,
        hides_rooms_from_who_has_no_right,
        sends_what_was_said_before,
        keeps_zones_apart,
        answers_go_where_the_caller_may_publish,
    }
}

#[test]
fn the_commands_make_and_moderate_a_room() {
    let server = super::start();
    let run = |user: &str, args: &[&str]| process::run(&mut room(&server, user, args));
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
    let nobody = server.control(&["room", "kick", "hall", "bob"]).refusal();
    assert!(
        nobody.contains("nobody of this name") && nobody.contains("`stentor room show hall`"),
        "{nobody}"
    );
    server.control(&["room", "close", "hall"]).success();
    let unknown = server.control(&["room", "show", "hal"]).refusal();
    assert!(
        unknown.contains("room is \"hal\": there is no such room"),
        "{unknown}"
    );
    assert!(unknown.contains("`stentor room ls`"), "{unknown}");
    let unknown = server.control(&["room", "close", "hall"]).refusal();
    assert!(
        unknown.contains("room is \"hall\": there is no such room")
            && unknown.contains("`stentor room ls`"),
        "{unknown}"
    );
    let zone = |name| {
        server
            .control(&["room", "show", "hal", "--zone", name])
            .refusal()
    };
    let unknown = zone("default");
    assert!(
        unknown.contains("`stentor room ls --zone default`"),
        "{unknown}"
    );
    let mistyped = zone("defualt");
    assert!(mistyped.contains("did you mean \"default\"?"), "{mistyped}");
}

/// A permanent room is there as long as the server runs, whoever goes and whatever is reloaded.
#[test]
fn a_permanent_room_stays_when_it_is_empty() {
    let server = super::start();
    let create = ["create", "hall", "--permanent"];
    let refused = process::run(&mut room(&server, "alice", &create));
    assert!(refused.stderr.contains("administrators"), "{refused}");
    server.control(&[&["room"], &create[..]].concat()).success();
    for name in ["hall", "tea"] {
        process::run(&mut room(&server, "bob", &["say", name, "hello"])).success();
    }
    server.reconfigure(&format!("{}[limits]\nconnections = 77\n", super::config()));
    server.control(&["reload"]).success();
    // A user who has gone is gone a moment later.
    eventually("only permanent rooms are left", || {
        let listed = process::run(&mut room(&server, "alice", &["ls"])).success();
        assert!(listed.contains("hall: "), "{listed}");
        listed == "hall: 0 members\nlobby: 0 members\n"
    });
}

/// Rooms that are not permanent are of the running server: after a kill there are those that the
/// configuration has, as it has them, and nothing else of any.
#[test]
fn a_killed_server_forgets_its_rooms() {
    let garden = "[[room]]\nname = \"garden\"\ncapacity = 7\n";
    let plan = Plan::new().config(&format!("{}{garden}", super::config()));
    let server = plan.start();
    server.control(&["room", "create", "hall"]).success();
    let first = |server: &Server| {
        let mut list = command(server, "sub", "alice");
        list.args(["-t", "$rooms/hall", "-C", "1", "-F", "%t"]);
        list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
        process::run(&mut list).success()
    };
    assert_eq!(first(&server), "$rooms/hall\n");
    let plan: Plan = server.kill();
    let server = plan.start();
    // The end of what is retained is marked by a message that is none; the lobby is made for
    // whoever looks at the list, the garden at the start.
    let mut list = command(&server, "sub", "alice");
    list.args(["-t", "$rooms/+", "-C", "3", "-F", "%t"]);
    list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
    let seen = process::run(&mut list).success();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        ["$rooms/garden", "$rooms/lobby", "$rooms/snapshot-end"]
    );
    let shown = server.control(&["room", "show", "garden"]).success();
    assert!(shown.starts_with("garden: 0 of 7 members\n"), "{shown}");
}

/// `stentor room WORDS`, by this user.
pub(super) fn room(server: &Server, user: &str, words: &[&str]) -> std::process::Command {
    let logged_in = command(server, "room", user);
    let flags: Vec<_> = logged_in
        .get_args()
        .skip(1)
        .map(ToOwned::to_owned)
        .collect();
    let mut room = stentor_tests::server::stentor();
    room.env("STENTOR_PASSWORD", super::PASSWORD);
    room.arg("room").args(words).args(flags);
    room
}

/// Somebody who is in a room until it is sent out.
fn member(server: &Server, user: &str, name: &str, version: &str) -> (Child, impl Sized) {
    let mut join = room(server, user, &["join", name]);
    let mut child = process::start(join.args(["-d", "-V", version]));
    let says = child.stderr.take().expect("standard error is captured");
    let mut says = BufReader::new(says).lines();
    let is_in = |line: std::io::Result<String>| {
        line.expect("a line")
            .contains(&format!("subscribed \"$room/{name}/#\""))
    };
    assert!(says.any(is_in), "{user} is not in {name}");
    (child, says)
}

/// The command line says why somebody is not let in, and ends when it is sent out.
#[test]
fn the_command_line_says_why() {
    let server = super::start();
    let create = &["create", "tea", "--capacity", "1"];
    process::run(&mut room(&server, "alice", create)).success();
    for version in ["5", "311"] {
        let (bob, _says) = member(&server, "bob", "tea", version);
        let mut eve = room(&server, "eve", &["join", "tea"]);
        let full = process::run(eve.args(["-V", version]));
        assert_eq!(full.status.code(), Some(151), "{full}");
        assert!(full.stderr.contains("the room is full"), "{full}");
        server.control(&["room", "kick", "tea", "bob"]).success();
        let out = process::finish(bob, DEADLINE);
        assert_eq!(out.status.code(), Some(152), "{out}");
        assert!(out.stdout.contains(r#""reason":"kicked""#), "{out}");
        // The room waits for alice, whoever visits it.
    }
    let mut sub = command(&server, "sub", "alice");
    let refused = process::run(sub.args(["-t", "$room/+/#"]));
    assert_eq!(refused.status.code(), Some(143), "{refused}");
    assert!(refused.stderr.contains("without a wildcard"), "{refused}");
}

/// Closing a room that the zone always has empties it.
#[test]
fn the_lobby_stays_when_it_is_closed() {
    let server = super::start();
    let (bob, _says) = member(&server, "bob", "lobby", "5");
    let closed = server.control(&["room", "close", "lobby"]);
    assert!(closed.stdout.contains("it stays"), "{closed}");
    let out = process::finish(bob, DEADLINE);
    assert_eq!(out.status.code(), Some(152), "{out}");
    assert!(out.stdout.contains(r#""event":"closed""#), "{out}");
    let listed = process::run(&mut room(&server, "alice", &["list"])).success();
    assert_eq!(listed, "lobby: 0 members\n");
    process::run(&mut room(&server, "bob", &["say", "lobby", "hello"])).success();
}
