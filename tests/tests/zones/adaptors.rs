//! The cases of `tests/python/adaptor_cases.py`, and `stentor adaptor`.

use std::fs;
use std::path::Path;

use stentor_tests::{Plan, Server, process, tools};

fn config(file: &Path) -> String {
    let hash = super::hash();
    let user = |name| {
        format!("[[user]]\nname = \"{name}\"\nzone = \"game\"\npassword_hash = \"{hash}\"\n")
    };
    let users: String = ["alice", "bob"].map(user).concat();
    format!(
        "{}{users}[[adaptor]]\nfile = \"{}\"\nzone = \"game\"\n",
        super::config(),
        file.display()
    )
}

fn judge() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("luau/judge.luau");
    fs::read_to_string(path).expect("the adaptor of the cases is there")
}

/// A server that asks this adaptor, which lies in the server's folder.
fn start(text: &str) -> Server {
    let plan = Plan::new();
    let file = plan.folder().join("judge.luau");
    fs::write(&file, text).expect("a file can be written");
    plan.config(&config(&file)).start()
}

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("adaptor_cases.py", case, version, &start(&judge()));
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        what_is_said_is_judged,
        order_is_kept,
        private_messages_are_judged,
        joins_and_subscriptions_are_judged,
        a_stuck_hook_is_stopped,
        who_goes_at_once_is_heard,
        adaptors_do_things_themselves,
    }
    "5" in v5 {
        what_is_said_is_judged,
        order_is_kept,
        private_messages_are_judged,
        joins_and_subscriptions_are_judged,
        logins_are_judged,
        a_stuck_hook_is_stopped,
        who_goes_at_once_is_heard,
        adaptors_do_things_themselves,
    }
}

#[test]
fn a_changed_file_is_taken_over_and_a_bad_one_is_not() {
    let server = start(&judge());
    let file = server.folder().join("judge.luau");
    let listed = server.control(&["adaptor", "ls", "--json"]).success();
    assert!(listed.contains(r#""zone":"game""#), "{listed}");
    assert!(listed.contains(r#""private""#), "{listed}");
    fs::write(&file, "return {\n  say = function( end }").expect("a file can be written");
    let refused = server.control(&["adaptor", "reload"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(refused.stdout.contains("judge.luau:2"), "{refused}");
    // The old one goes on.
    tools::python_case("adaptor_cases.py", "what_is_said_is_judged", "5", &server);
    let changed = judge().replace("mind your words", "mind your tongue");
    fs::write(&file, changed).expect("a file can be written");
    server.control(&["adaptor", "reload"]).success();
    let mut say = super::commands::command(&server, "pub", "game/alice");
    say.args(["-q", "1", "-t", "$private/to/bob", "-m", "no"]);
    let denied = process::run(&mut say);
    assert!(denied.stderr.contains("not that"), "{denied}");
}

/// A server does not start with an adaptor that it cannot use, and says why.
#[test]
fn a_bad_file_at_the_start_is_refused() {
    let plan = Plan::new();
    let file = plan.folder().join("judge.luau");
    fs::write(&file, "return 1").expect("a file can be written");
    let refused = plan.config(&config(&file)).refused();
    assert!(refused.stderr.contains("table of hooks"), "{refused}");
    assert_eq!(refused.status.code(), Some(78), "{refused}");
}

/// What `new` writes is good, and the operator's tests say what is not.
#[test]
fn adaptors_are_made_checked_and_tested() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = |args: &[&str]| {
        let mut command = stentor_tests::server::stentor();
        process::run(command.arg("adaptor").args(args).current_dir(&folder))
    };
    run(&["new", "greet"]).success();
    let again = run(&["new", "greet"]);
    assert!(again.stderr.contains("greet.luau"), "{again}");
    assert_eq!(run(&["new", "a/b"]).status.code(), Some(1));
    let checked = run(&["check", "greet.luau"]).success();
    assert!(checked.contains("say, private"), "{checked}");
    let tested = run(&["test", "greet.luau"]).success();
    assert!(tested.contains("ok      bad words are refused"), "{tested}");
    let path = folder.path().join("greet.luau");
    let text = fs::read_to_string(&path).expect("it was made");
    fs::write(&path, text.replace("\"damn\"", "\"darn\"")).expect("it can be changed");
    let failed = run(&["test", "greet.luau"]);
    assert_eq!(failed.status.code(), Some(1), "{failed}");
    assert!(failed.stdout.contains("FAILED"), "{failed}");
    let missing = run(&["check", "nothing.luau"]);
    assert!(missing.stderr.contains("nothing.luau"), "{missing}");
}

/// A script for all zones that never ends in one of them keeps nobody of another waiting.
#[test]
fn a_stuck_zone_is_its_own_trouble() {
    let plan = Plan::new();
    let file = plan.folder().join("stuck.luau");
    let text = r#"
        return { publish = function(event)
            if event.zone == "game" then while true do end end
        end }
    "#;
    fs::write(&file, text).expect("a file can be written");
    let config = config(&file);
    let (users, _) = config.split_once("[[adaptor]]").expect("there is one");
    let adaptor = format!(
        "{users}[[adaptor]]\nfile = \"{}\"\ntime = \"10s\"\n",
        file.display()
    );
    let server = plan.config(&adaptor).start();
    let publish = |user: &str| {
        let mut publish = super::commands::command(&server, "pub", user);
        publish.args(["-q", "1", "-t", "t", "-m", "x"]);
        publish
    };
    let mut stuck = process::start(&mut publish("game/alice"));
    process::run(&mut publish("alice")).success();
    let is_waiting = stuck.try_wait().expect("it can be asked").is_none();
    assert!(
        is_waiting,
        "the script computes for ten seconds in the zone game"
    );
    let denied = process::finish(stuck, stentor_tests::DEADLINE);
    assert!(denied.stderr.contains("failed"), "{denied}");
}
