//! The cases of `tests/python/zone_cases.py`: what the configuration says about single zones.

use std::io::{BufRead, BufReader};

use nix::sys::signal::{Signal, kill};
use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, process, tools};

/// Zones with rules of their own; the second listener belongs to one of them.
fn config() -> String {
    let hash = super::hash();
    let user = |(name, zone)| {
        format!("[[user]]\nname = \"{name}\"\nzone = \"{zone}\"\npassword_hash = \"{hash}\"\n")
    };
    let users = [
        ("alice", "one"),
        ("bob", "one"),
        ("alice", "newest"),
        ("bob", "newest"),
        ("alice", "full"),
        ("bob", "full"),
        ("alice", "open"),
        ("bob", "open"),
        ("eve", "open"),
    ];
    let users: String = users.map(user).concat();
    format!(
        r#"{}{users}
[[listener]]
url = "mqtt://127.0.0.1:0"
zone = "one"
[[zone]]
name = "one"
second_login = "refuse"
[[zone]]
name = "newest"
second_login = "replace"
rooms_per_user = 2
rooms = 4
[[zone]]
name = "full"
connections = 1
[[zone]]
name = "open"
guests = true
guest_rate = 1000
user_rooms = false
[[room]]
zone = "open"
name = "hall"
capacity = 2
grace = "0s"
history = 2
"#,
        super::config()
    )
}

fn start() -> Server {
    Plan::new().config(&config()).start()
}

fn run(server: &Server, case: &str, version: &str, listener: usize) {
    let port = server.urls()[listener].rsplit(':').next();
    let port = port.expect("a URL has a port");
    let mut command = tools::python("zone_cases.py");
    process::run(command.args([case, version, "127.0.0.1", port])).success();
}

#[track_caller]
fn check(case: &str, version: &str) {
    run(&start(), case, version, 0);
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        the_second_login_is_refused,
        the_newest_login_stays,
        of_racing_logins_one_stays,
        of_two_at_once_one_wins,
        of_two_at_once_one_stays,
        refusals_say_why,
        guests_get_a_name,
        guests_keep_their_place,
        rooms_of_the_configuration_are_there,
        the_list_of_rooms_has_the_lobby,
        users_own_so_many_rooms,
    }
    "5" in v5 {
        the_second_login_is_refused,
        the_newest_login_stays,
        of_racing_logins_one_stays,
        of_two_at_once_one_wins,
        of_two_at_once_one_stays,
        refusals_say_why,
        guests_get_a_name,
        guests_keep_their_place,
        rooms_of_the_configuration_are_there,
        the_list_of_rooms_has_the_lobby,
        users_own_so_many_rooms,
    }
}

#[test]
fn a_listener_belongs_to_a_zone() {
    let server = start();
    for version in ["4", "5"] {
        run(&server, "a_listener_belongs_to_a_zone", version, 1);
    }
}

/// A user may be called as guests come in: without a password it is a guest.
#[test]
fn who_adds_a_user_named_guest_is_told_who_wins() {
    let server = start();
    let add = |name| server.control(&["user", "add", name, "--no-password"]);
    for (name, is_told) in [("open/guest", true), ("guest", true), ("guest2", false)] {
        let added = add(name);
        let told = added.stderr.contains("without a password");
        assert!(added.status.success() && told == is_told, "{name}: {added}");
    }
}

/// Guests beyond the rate are told to come later.
#[test]
fn guests_come_in_at_their_rate() {
    let text = config().replace("guest_rate = 1000", "guest_rate = 1");
    let server = Plan::new().config(&text).start();
    let come = || {
        let mut login = stentor_tests::server::stentor();
        let address = server.address("mqtt");
        let (host, port) = address.rsplit_once(':').expect("an address has a port");
        login.args([
            "pub",
            "-u",
            "open/guest",
            "-h",
            host,
            "-p",
            port,
            "-t",
            "$call/noop",
            "-n",
        ]);
        process::run(&mut login)
    };
    // One of many in a row meets the limit, however slow the machine: else each took a second.
    let refused = (0..60)
        .map(|_| come())
        .find(|finished| !finished.status.success());
    let refused = refused.expect("a guest is refused");
    assert!(refused.stderr.contains("rate"), "{refused}");
    let log = server.wait_log(0, "guest_rate");
    assert!(!log.contains("have failed"), "{log}");
}

/// Zones of the configuration are listed, and a reload makes and ends their rooms.
#[test]
fn a_reload_changes_zones_and_rooms() {
    // Listeners on any port are not told apart by a reload.
    let config = || {
        let second = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nzone = \"one\"\n";
        config().replace(second, "")
    };
    let server = Plan::new().config(&config()).start();
    let listed = server.control(&["zone", "list", "--json"]).success();
    assert!(listed.contains(r#""name":"newest""#), "{listed}");
    let refused = server.control(&["zone", "remove", "newest"]);
    assert!(refused.stderr.contains("[[zone]]"), "{refused}");
    // It is a zone like one of the books.
    let add = ["user", "add", "newest/cleo", "--no-password"];
    server.control(&add).success();
    let rooms = |wanted: &str| {
        let mut list = super::commands::command(&server, "sub", "open/alice");
        list.args(["-t", &format!("$rooms/{wanted}"), "-C", "1", "-F", "%t %p"]);
        list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
        process::run(&mut list).success()
    };
    assert!(rooms("hall").contains(r#""capacity":2"#));
    let text = config()
        .replace("name = \"hall\"", "name = \"yard\"")
        .replace("capacity = 2", "capacity = 7");
    server.reconfigure(&text);
    server.control(&["reload"]).success();
    while !rooms("yard").contains(r#""capacity":7"#) {}
    while rooms("hall").contains("capacity") {}
}

/// A connected client is counted by the rules of a reload, and stays.
#[test]
fn a_reload_counts_who_is_connected() {
    let config = |rule: &str| {
        let second = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nzone = \"one\"\n";
        let text = config().replace(second, "");
        text.replace("second_login = \"refuse\"", rule)
    };
    let server = Plan::new().config(&config("")).start();
    let stay = || {
        let mut listen = super::commands::command(&server, "sub", "one/alice");
        let mut listener = process::start(listen.args(["-d", "-t", "news"]));
        let says = listener.stderr.take().expect("standard error is captured");
        let mut says = BufReader::new(says).lines();
        let is_there = |line: std::io::Result<String>| line.expect("a line").contains("subscribed");
        assert!(says.any(is_there), "alice did not subscribe");
        (listener, says)
    };
    let come = || {
        let mut publish = super::commands::command(&server, "pub", "one/alice");
        process::run(publish.args(["-t", "t", "-m", "x"]))
    };
    let reload = |rule: &str| {
        server.reconfigure(&config(rule));
        server.control(&["reload"]).success();
    };
    let there = || server.json(&["zone", "show", "one"])["zones"][0]["connections"].clone();
    let (first, second) = (stay(), stay());
    come().success();
    for (rule, told) in [
        ("user_connections = 2", "raise `user_connections`"),
        ("second_login = \"refuse\"", "`second_login = "),
    ] {
        let from = server.log().len();
        reload(rule);
        // The news takes a moment to the shards.
        eventually("a third is refused", || !come().status.success());
        server.wait_log(from, told);
        assert_eq!(there(), 2, "they stay");
        reload("");
        eventually("a third comes", || come().status.success());
    }
    reload("second_login = \"replace\"");
    eventually("both are replaced", || {
        come().success();
        there() == 0
    });
    for (listener, _) in [first, second] {
        let ended = process::finish(listener, stentor_tests::DEADLINE);
        assert!(!ended.status.success(), "{ended}");
    }
}

/// What there is of each zone is shown, by names that people would try.
#[test]
fn figures_of_zones_are_shown() {
    let server = start();
    let mut listen = super::commands::command(&server, "sub", "open/alice");
    listen.args(["-d", "-t", "$room/hall/#", "-t", "news"]);
    let mut listener = process::start(&mut listen);
    let says = listener.stderr.take().expect("standard error is captured");
    let mut says = BufReader::new(says).lines();
    let is_there = |line: std::io::Result<String>| line.expect("a line").contains("subscribed");
    assert!(says.any(is_there), "alice did not subscribe");
    let mut keep = super::commands::command(&server, "pub", "open/bob");
    process::run(keep.args(["-t", "news", "-m", "old", "-r", "-q", "1"])).success();
    let shown = server.json(&["zone", "show", "open"]);
    let open = &shown["zones"][0];
    for (name, value) in [
        ("connections", 1),
        ("users", 1),
        ("sessions", 1),
        ("subscriptions", 2),
        ("rooms", 2),
        ("members", 1),
        ("messages_in", 1),
        ("messages_in_bytes", 3),
        ("messages_dropped", 0),
        ("retained_messages", 1),
    ] {
        assert_eq!(open[name], value, "{name}: {shown}");
    }
    // The message, and what the room and the list of rooms have told.
    let out = open["messages_out"].as_u64().expect("a number");
    assert!(out >= 2, "{shown}");
    let clients = server.json(&["clients", "ls"]);
    assert_eq!(clients["clients"][0]["zone_name"], "open", "{clients}");
    let clients = server.control(&["clients", "ls"]).success();
    assert!(
        clients.contains("ZONE") && clients.contains("open"),
        "{clients}"
    );
    let other = &server.json(&["zone", "show", "one"])["zones"][0];
    assert_eq!(other["messages_out"], 0, "{other}");
    let all = server.control(&["zone", "show"]).success();
    assert!(all.contains("newest"), "zones without anything too: {all}");
    let unknown = server.control(&["zone", "show", "nowhere"]);
    assert!(unknown.stderr.contains("zone list"), "{unknown}");
    let listed = server.control(&["zone", "ls"]).success();
    assert!(listed.contains("open"), "{listed}");
    kill(process::pid_of(&listener), Signal::SIGTERM).expect("it runs");
    process::finish(listener, stentor_tests::DEADLINE);
}
