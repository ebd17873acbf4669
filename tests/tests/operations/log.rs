//! `stentor log`: another log level for a while.

use std::fs;

use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{Server, Version};

#[test]
fn the_level_goes_back_by_itself() {
    let server = Server::open();
    let shown = server.json(&["log", "show"]);
    assert_eq!(
        (&shown["level"], &shown["left_secs"]),
        (&json!("info"), &Value::Null)
    );
    let said = server
        .control(&["log", "level", "error", "--for", "3s"])
        .success();
    assert!(
        said.starts_with("the log level is error for the next "),
        "{said}"
    );
    let mut quiet = server.client(Version::V5, "quiet");
    quiet.ping();
    let again = "the log level is that of the configuration again";
    server.wait_log(0, again);
    let log = server.log();
    assert!(!log.contains("client=\"quiet\""), "{log}");
    let mut loud = server.client(Version::V5, "loud");
    loud.ping();
    server.wait_log(0, "connected client=\"loud\"");
    let shown = server.json(&["log", "show"]);
    assert_eq!(
        (&shown["level"], &shown["left_secs"]),
        (&json!("info"), &Value::Null)
    );
    let audit = fs::read_to_string(server.data_dir().join("audit.log")).expect("it is there");
    let lines = audit.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line
    });
    let noted = lines.into_iter().find(|line| line["what"] == "log.level");
    let noted = noted.expect("the change is noted");
    assert_eq!(noted["target"], "the log", "{noted}");
    assert!(noted.to_string().contains("\"level\":\"error\""), "{noted}");
}

#[test]
fn a_part_of_the_program_may_have_a_level_of_its_own_and_ends_at_once() {
    let server = Server::open();
    let part = ["log", "level", "trace", "--target", "stentor_auth"];
    let said = server.control(&part).success();
    assert!(said.contains("info, and trace for stentor_auth"), "{said}");
    let shown = server.json(&["log", "show"]);
    assert_eq!(
        (&shown["level"], &shown["target_level"]),
        (&json!("info"), &json!("trace"))
    );
    server.control(&["reload"]).success();
    assert_eq!(
        server.json(&["log", "show"])["target"],
        "stentor_auth",
        "a reload leaves it"
    );
    server.control(&["log", "level", "configured"]).success();
    eventually("it has ended", || {
        server.json(&["log", "show"])["left_secs"] == Value::Null
    });
    for (options, says) in [
        (&["debug", "--for", "2h"][..], "for_secs = 7200"),
        (&["debug", "--for", "0s"], "for_secs = 0"),
        (&["debug", "--target", "a b"], "target = \"a b\""),
        (&["loud"], "invalid value 'loud'"),
    ] {
        let refused = server
            .control(&[&["log", "level"], options].concat())
            .refusal();
        assert!(refused.contains(says), "{options:?}: {refused}");
    }
}
