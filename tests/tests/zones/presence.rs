//! The cases of `tests/python/presence_cases.py`, and what a restart leaves.

use stentor_tests::{Plan, process, tools};

use super::commands::command;

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("presence_cases.py", case, version, &super::start());
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        shows_who_comes_and_goes,
        shows_a_user_once,
        keeps_zones_apart,
        is_not_forged,
    }
    "5" in v5 {
        shows_who_comes_and_goes,
        shows_a_user_once,
        keeps_zones_apart,
        is_not_forged,
    }
}

/// A user who was there when the server was killed is not there afterwards.
#[test]
fn nobody_survives_a_kill() {
    let server = super::start();
    let present = |server: &stentor_tests::Server, filter: &str, count: &str| {
        let mut list = command(server, "sub", "alice");
        list.args(["-t", filter, "-F", "%t", "-C", count]);
        list.args(["-D", "subscribe", "user-property", "snapshot-end", "yes"]);
        process::run(&mut list).success()
    };
    let mut waits = process::start(&mut command(&server, "inbox", "bob"));
    // It may not have logged in yet: then the mark comes first.
    while !present(&server, "$presence/+", "2").contains("$presence/bob\n") {}
    let plan: Plan = server.kill();
    waits.kill().expect("the inbox can be ended");
    waits.wait().expect("the inbox ends");
    let server = plan.start();
    // The end of what is retained is marked by a message that is none; who looks may be shown a
    // moment later, since another shard keeps the zone.
    let there = present(&server, "$presence/+", "2");
    let mut there: Vec<&str> = there.lines().collect();
    there.sort_unstable();
    assert_eq!(there, ["$presence/alice", "$presence/snapshot-end"]);
}
