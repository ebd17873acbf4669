//! The cases of `tests/python/private_cases.py`, and mosquitto's tools.

use stentor_tests::{process, tools};

#[track_caller]
fn check(case: &str, version: &str) {
    tools::python_case("private_cases.py", case, version, &super::start());
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        brings_a_response_and_a_notification,
        keeps_what_is_stored_for_its_user,
        writes_to_itself,
        stays_in_its_zone,
        forges_nothing,
        answers_on_reply_topics,
        refuses_the_nameless,
    }
    "5" in v5 {
        brings_a_response_and_a_notification,
        keeps_what_is_stored_for_its_user,
        writes_to_itself,
        stays_in_its_zone,
        forges_nothing,
        answers_on_reply_topics,
        says_what_is_too_large,
        refuses_the_nameless,
    }
}

/// mosquitto's own tools, which print what the server says.
#[test]
fn mosquitto_is_told_who_is_not_there() {
    let server = super::start();
    let port = server.port("mqtt");
    let publish = |user: &str| {
        let mut command = tools::mosquitto("mosquitto_pub");
        command.args(["-h", "127.0.0.1", "-p", &port, "-V", "mqttv5"]);
        command.args(["-u", "alice", "-P", super::PASSWORD, "-d", "-q", "1"]);
        command.args(["-t", &format!("$private/to/{user}"), "-m", "hello"]);
        process::run(&mut command)
    };
    let text = publish("nobody").success();
    assert!(text.contains("RC:16"), "{text}");
    let mut subscriber = tools::mosquitto("mosquitto_sub");
    subscriber.args(["-h", "127.0.0.1", "-p", &port, "-V", "mqttv311"]);
    subscriber.args(["-u", "bob", "-P", super::PASSWORD, "-q", "1", "-v"]);
    subscriber.args(["-c", "-i", "bob", "-t", "$private/from/+"]);
    let mut once = tools::mosquitto("mosquitto_sub");
    once.args(subscriber.get_args()).arg("-E");
    process::run(&mut once).success();
    // His session is there, and waits for him.
    let text = publish("bob").success();
    assert!(text.contains("RC:0"), "{text}");
    subscriber.args(["-C", "1"]);
    let text = process::run(&mut subscriber).success();
    assert_eq!(text, "$private/from/alice hello\n");
}
