//! The reader of what a command prints may leave before its end, as `head` does.

use std::process::{Command, Stdio};

use stentor_tests::DEADLINE;
use stentor_tests::process::{Finished, finish, run};
use stentor_tests::server::{Server, stentor};

/// Runs a command whose standard output nobody reads.
fn unread(command: &mut Command) -> Finished {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("stentor starts");
    finish(child, DEADLINE)
}

#[track_caller]
fn check(command: &mut Command, code: i32) {
    let finished = unread(command);
    assert_eq!(finished.status.code(), Some(code), "{command:?} {finished}");
    assert_eq!(finished.stderr, "", "{command:?}");
}

#[test]
fn commands_without_a_server_end_quietly() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for arguments in [
        &["bench", "list"][..],
        &["bench", "fanout", "--explain"],
        &["bench", "suite", "--explain"],
        &["bench", "call", "--explain"],
        &["config", "reference"],
        &["completions", "bash"],
        &["man"],
        &["adaptor", "new", "greet"],
        &["adaptor", "check", "greet.luau"],
        &["adaptor", "test", "greet.luau"],
        &["--help"],
    ] {
        check(stentor().args(arguments).current_dir(folder.path()), 0);
    }
}

/// The exit code is an answer too.
#[test]
fn commands_about_a_server_keep_their_exit_code() {
    let server = Server::open();
    server
        .control(&["user", "add", "bob", "--no-password"])
        .success();
    for (arguments, code) in [
        (&["status"][..], 0),
        (&["clients", "ls"], 0),
        (&["retained", "ls"], 0),
        (&["retained", "export"], 0),
        (&["user", "export"], 0),
        (&["user", "test", "bob", "publish", "$SYS/x"], 1),
        (&["adaptor", "ls"], 0),
    ] {
        let mut command = stentor();
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(server.data_dir());
        let read = run(&mut command);
        assert_eq!(read.status.code(), Some(code), "{command:?} {read}");
        check(&mut command, code);
    }
}
