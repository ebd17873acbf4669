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
    // In the room `gate` no place is kept.
    let gate = "[[room]]\nzone = \"game\"\nname = \"gate\"\ngrace = \"0s\"\n";
    format!(
        "{}{users}{gate}[[adaptor]]\nfile = \"{}\"\nzone = \"game\"\n",
        super::config(),
        file.display()
    )
}

fn judge() -> String {
    let path = tools::folder().join("luau/judge.luau");
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
        calls_are_answered_by_adaptors,
        private_messages_are_judged,
        what_is_redirected_is_judged_there,
        joins_and_subscriptions_are_judged,
        coming_back_too_late_is_judged,
        coming_back_by_another_session_is_no_join,
        a_stuck_hook_is_stopped,
        who_goes_at_once_is_heard,
        adaptors_do_things_themselves,
        adaptors_are_told,
        what_is_too_much_is_denied,
    }
    "5" in v5 {
        what_is_said_is_judged,
        order_is_kept,
        calls_are_answered_by_adaptors,
        private_messages_are_judged,
        what_is_redirected_is_judged_there,
        joins_and_subscriptions_are_judged,
        coming_back_too_late_is_judged,
        coming_back_by_another_session_is_no_join,
        logins_are_judged,
        long_reasons_are_left_out,
        answers_to_calls_are_judged,
        broadcasts_are_judged,
        a_stuck_hook_is_stopped,
        who_goes_at_once_is_heard,
        adaptors_do_things_themselves,
        adaptors_are_told,
        what_is_too_much_is_denied,
    }
}

/// What a script did wrong stands in the log with file and line, and not without end.
#[test]
fn the_log_tells_what_a_script_did_wrong() {
    let server = start(&judge());
    let line = |text: &str| {
        let judge = judge();
        let at = judge.lines().position(|line| line.contains(text));
        format!("judge.luau:{}:", at.expect("the script has it") + 1)
    };
    // A failure is told once in a second, so each of them has a server that has told nothing.
    for (payload, part, told) in [
        ("big", "\"big\"", "allow: the payload has 5000000 bytes"),
        (
            "forge",
            "\"forge\"",
            "publish: \"$presence/bob\" begins with $",
        ),
        ("mistype", "\"mistype\"", "allow: there is no \"paylod\""),
        ("flood", "\"flood\"", "publish: one run of a hook publishes"),
    ] {
        let server = start(&judge());
        publish(&server, "t/judged", payload).refusal();
        let told = format!("{} {told}", line(part));
        server.wait_log(0, &told);
    }
    let mut hatted = super::commands::command(&server, "pub", "game/evil");
    let denied = process::run(hatted.args(["-t", "t", "-m", "x"]));
    assert!(denied.stderr.contains("no evil here"), "{denied}");
    server.wait_log(0, "an adaptor's `login` denied it: no evil here");
    let mut hatted = super::commands::command(&server, "pub", "game/hatter");
    process::run(hatted.args(["-t", "t", "-m", "x"]));
    let log = server.wait_log(0, "a role that the zone does not have");
    assert!(log.contains("role=\"mad\""), "{log}");
    for _ in 0..3 {
        publish(&server, "t/judged", "talk").refusal();
    }
    let log = server.wait_log(0, "lines of its log suppressed");
    let lines = log.matches("again and again").count();
    assert!((1..300).contains(&lines), "{lines}");
    let listed = server.json(&["adaptor", "ls"]);
    let one = &listed["adaptors"][0];
    assert_eq!(one["failures"], 3, "{one}");
    assert_eq!(one["refused"], 3, "{one}");
}

/// Publishes as a user of the zone that is judged.
fn publish(server: &Server, topic: &str, payload: &str) -> process::Finished {
    let mut publish = super::commands::command(server, "pub", "game/alice");
    process::run(publish.args(["-q", "1", "-t", topic, "-m", payload]))
}

/// Adaptors come, change and go with the configuration, and what is connected stays.
#[test]
fn the_configuration_changes_adaptors() {
    let plan = Plan::new();
    let file = plan.folder().join("judge.luau");
    fs::write(&file, judge()).expect("a file can be written");
    let with = config(&file);
    let (without, _) = with.split_once("[[adaptor]]").expect("there is one");
    let server = plan.config(without).start();
    let has = |count: usize| {
        let listed = server.json(&["adaptor", "ls"]);
        assert_eq!(listed["adaptors"].as_array().map(Vec::len), Some(count));
    };
    let reload = |text: &str| {
        server.reconfigure(text);
        // The change is noticed by itself as well.
        let reloaded = server.json(&["reload"]);
        assert_eq!(reloaded["waiting"], serde_json::json!([]), "{reloaded}");
    };
    has(0);
    publish(&server, "t/secret", "x").success();
    reload(&with);
    has(1);
    let denied = publish(&server, "t/secret", "x");
    assert!(denied.stderr.contains("not there"), "{denied}");
    // A failing hook is denied, and then not any more.
    publish(&server, "t/judged", "mistype").refusal();
    reload(&format!("{with}on_error = \"allow\"\n"));
    publish(&server, "t/judged", "mistype").success();
    publish(&server, "t/secret", "x").refusal();
    // A configuration with a file that is no good changes nothing.
    server.reconfigure(&with.replace("judge.luau", "nothing.luau"));
    let refused = server.control(&["reload"]);
    assert!(refused.stderr.contains("nothing.luau"), "{refused}");
    publish(&server, "t/secret", "x").refusal();
    reload(without);
    has(0);
    publish(&server, "t/secret", "x").success();
}

/// Where one of the adaptors cannot go on with its new options, none does.
#[test]
fn a_refused_configuration_changes_no_adaptor() {
    let plan = Plan::new();
    let (file, second) = (
        plan.folder().join("judge.luau"),
        plan.folder().join("b.luau"),
    );
    fs::write(&file, judge()).expect("a file can be written");
    fs::write(&second, "return {}").expect("a file can be written");
    let both = |first: &str, other: &str| {
        let path = second.display();
        let other = format!("[[adaptor]]\nfile = \"{path}\"\nzone = \"game\"\n{other}");
        format!("{}{first}{other}", config(&file))
    };
    let server = plan.config(&both("", "")).start();
    publish(&server, "t/judged", "mistype").refusal();
    fs::write(&second, "return {").expect("a file can be written");
    server.reconfigure(&both("on_error = \"allow\"\n", "memory = \"8MiB\"\n"));
    let refused = server.control(&["reload"]);
    assert!(refused.stderr.contains("b.luau"), "{refused}");
    publish(&server, "t/judged", "mistype").refusal();
    // When it is mended the same configuration is taken.
    fs::write(&second, "return {}").expect("a file can be written");
    server.json(&["reload"]);
    publish(&server, "t/judged", "mistype").success();
}

/// A version that cannot hand over its state is replaced without it, if somebody says so.
#[test]
fn a_failing_save_is_passed_over_on_demand() {
    let failing = judge().replace(
        "return judge\n",
        "function judge.save() error('lost it') end\nreturn judge\n",
    );
    let server = start(&failing);
    let file = server.folder().join("judge.luau");
    let good = judge().replace("not there", "not here");
    fs::write(&file, good).expect("a file can be written");
    let refused = server.control(&["adaptor", "reload"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(refused.stdout.contains("lost it"), "{refused}");
    assert!(refused.stdout.contains("save: judge.luau:"), "{refused}");
    assert!(
        refused.stdout.contains("adaptor reload judge.luau --fresh"),
        "{refused}"
    );
    let denied = publish(&server, "t/secret", "x");
    assert!(denied.stderr.contains("not there"), "{denied}");
    let other = server.control(&["adaptor", "reload", "other.luau", "--fresh"]);
    assert!(other.stderr.contains("adaptor ls"), "{other}");
    let fresh = ["adaptor", "reload", "judge.luau", "--fresh"];
    server.control(&fresh).success();
    let denied = publish(&server, "t/secret", "x");
    assert!(denied.stderr.contains("not here"), "{denied}");
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
    let listed = server.json(&["adaptor", "ls"]);
    let told = &listed["adaptors"][0]["file_refused"];
    let reason = told["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("judge.luau:2"), "{listed}");
    assert!(told["since"].as_u64().is_some_and(|at| at > 0), "{listed}");
    let listed = server.control(&["adaptor", "ls"]).success();
    assert!(listed.contains("the file on disk was refused"), "{listed}");
    // The old one goes on.
    tools::python_case("adaptor_cases.py", "what_is_said_is_judged", "5", &server);
    let changed = judge().replace("mind your words", "mind your tongue");
    fs::write(&file, changed).expect("a file can be written");
    server.control(&["adaptor", "reload"]).success();
    let listed = server.json(&["adaptor", "ls"]);
    let told = &listed["adaptors"][0]["file_refused"];
    assert!(told.is_null(), "{listed}");
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
    let plan = plan.config(&config(&file));
    let refused = plan.refused();
    assert!(refused.stderr.contains("table of hooks"), "{refused}");
    assert_eq!(refused.status.code(), Some(78), "{refused}");
    fs::write(&file, "local x = 0\nwhile true do x += 1 end").expect("a file can be written");
    let refused = plan.refused();
    let told = "judge.luau:2: the script ran out of time";
    assert!(refused.stderr.contains(told), "{refused}");
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
        local function stuck(event)
            if event.zone == "game" and event.user == "alice" then while true do end end
        end
        return { publish = stuck, private = stuck, say = stuck, subscribe = stuck, join = stuck }
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
    let mut send = super::commands::command(&server, "send", "alice");
    let sent = process::run(send.args(["bob", "hello"]));
    assert_eq!(sent.status.code(), Some(16), "nobody listens: {sent}");
    let is_waiting = stuck.try_wait().expect("it can be asked").is_none();
    assert!(
        is_waiting,
        "the script computes for ten seconds in the zone game"
    );
    let denied = process::finish(stuck, stentor_tests::DEADLINE);
    assert!(denied.stderr.contains("failed"), "{denied}");
}
