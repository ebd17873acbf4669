//! Procedures called over MQTT.

use serde_json::Value;
use stentor_tests::{process, tools};

use super::commands::command;

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("call_cases.py", case, version, &super::start());
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        answers_the_caller_alone,
        says_at_once_what_it_does_not_know,
        refuses_the_nameless,
    }
    "5" in v5 {
        answers_the_caller_alone,
        says_at_once_what_it_does_not_know,
        refuses_the_nameless,
        takes_arguments_and_response_topics,
        refuses_foreign_response_topics,
        answers_many_calls,
    }
}

#[test]
fn the_command_calls() {
    let server = super::start();
    let run = |args: &[&str]| {
        let mut call = command(&server, "call", "alice");
        process::run(call.args(args))
    };
    assert_eq!(run(&["noop"]).success(), "accept\n");
    let said = run(&["/echo", "-a", "x=1", "-a", "y=a b", "-m", "12345"]).success();
    assert_eq!(said, "accept\nx=1\ny=a b\nsize=5\n");
    let said = run(&["sizecheck", "-a", "max=3", "-m", "12345", "--json"]).success();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["verdict"], "reject");
    assert_eq!(said["reply_code"], 552);
    let missing = run(&["nothing"]);
    assert_eq!(missing.status.code(), Some(1), "{missing}");
    assert!(missing.stderr.contains("not-found"), "{missing}");
    assert_eq!(run(&["a/b"]).status.code(), Some(2));
    // Over the control socket, as administrator.
    let said = server.control(&["call", "status"]).success();
    assert!(said.contains("sizecheck"), "{said}");
}
