//! `stentor send` and `stentor inbox`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use serde_json::Value;
use stentor_tests::{DEADLINE, Server, process, server};

/// A command that logs in as this user.
pub(crate) fn command(server: &Server, word: &str, user: &str) -> Command {
    let mut command = server::stentor();
    command.args([word, "-L", server.url("mqtt"), "-u", user]);
    command.env("STENTOR_PASSWORD", super::PASSWORD);
    command
}

/// An inbox that is open.
fn inbox(server: &Server, user: &str, args: &[&str]) -> Child {
    let mut command = command(server, "inbox", user);
    let mut child = process::start(command.args(["-d"]).args(args));
    let says = child.stderr.take().expect("standard error is captured");
    let mut says = BufReader::new(says).lines();
    let is_open = |line: std::io::Result<String>| line.expect("a line").contains("subscribed");
    assert!(says.any(is_open), "the inbox of {user} was not opened");
    child
}

#[test]
fn a_message_is_sent_and_received() {
    let server = super::start();
    for version in ["5", "311"] {
        let bob = inbox(&server, "bob", &["-C", "2", "-V", version]);
        let mut send = command(&server, "send", "alice");
        let said = process::run(send.args(["-V", version, "bob", "dinner at eight?"])).success();
        assert_eq!(said, "bob: delivered\n");
        let mut send = command(&server, "send", "alice");
        let file = server.folder().join("message");
        std::fs::write(&file, "-from a file").expect("a file can be written");
        send.args(["--json", "bob", "-f"]).arg(file);
        let said = process::run(&mut send).success();
        let said: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!((&said["code"], &said["to"]), (&0.into(), &"bob".into()));
        let heard = process::finish(bob, DEADLINE).success();
        assert_eq!(heard, "alice: dinner at eight?\nalice: -from a file\n");
    }
}

#[test]
fn an_inbox_can_be_for_one_sender() {
    let server = super::start();
    let bob = inbox(&server, "bob", &["--from", "eve", "-C", "1", "--json"]);
    for (user, code) in [("alice", 16), ("eve", 0)] {
        let mut send = command(&server, "send", user);
        let sent = process::run(send.args(["bob", "hello"]));
        assert_eq!(sent.status.code(), Some(code), "{sent:?}");
    }
    let heard = process::finish(bob, DEADLINE).success();
    let heard: Value = serde_json::from_str(&heard).expect("JSON");
    assert_eq!(heard["topic"], "$private/from/eve");
}

#[test]
fn exit_codes_tell_what_became_of_it() {
    let server = super::start();
    let mut send = command(&server, "send", "alice");
    let sent = process::run(send.args(["nobody", "hello"]));
    assert_eq!(sent.status.code(), Some(16), "{sent:?}");
    assert!(sent.stderr.contains("nobody is listening"), "{sent:?}");
    let mut send = command(&server, "send", "alice");
    let sent = process::run(send.args(["", "hello"]));
    assert_eq!(sent.status.code(), Some(2), "{sent:?}");
}

/// Without a name, over the control socket, the administrator speaks.
#[test]
fn the_administrator_writes_without_a_password() {
    let server = super::start();
    let bob = inbox(&server, "bob", &["-C", "1"]);
    let said = server.control(&["send", "bob", "maintenance at six"]);
    assert_eq!(said.success(), "bob: delivered\n");
    let heard = process::finish(bob, DEADLINE).success();
    assert_eq!(heard, "admin: maintenance at six\n");
}

#[test]
fn commands_without_a_user_are_told_to_log_in() {
    let server = super::start();
    let mut list = server::stentor();
    list.args(["room", "ls", "-L", server.url("mqtt")]);
    let refused = process::run(&mut list).refusal();
    assert!(refused.contains("log in with -u NAME"), "{refused}");
}
