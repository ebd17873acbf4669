//! The end of a server: calls in flight come to their verdict.

use std::io::Read;
use std::net::TcpStream;
use std::process::Stdio;

use nix::sys::signal::Signal;
use stentor_tests::Version;
use stentor_tests::raw::eventually;

use crate::held::Held;
use crate::many::login;
use crate::{Calls, client, code, plan, word};

/// A stopping server lets nobody in, and ends when the calls in flight are answered.
#[test]
fn calls_in_flight_are_answered() {
    let plan = plan(&[]).tcp().config("shutdown_timeout = \"300s\"\n");
    let held = Held::new(plan.folder(), 3);
    let mut calls = Calls {
        server: plan.start(),
    };
    let password = calls.file("password", b"secret\n");
    let user = ["user", "add", "alice", "--password-file", word(&password)];
    calls.server.control(&user).success();
    let mut alice = login(&calls, Version::V4, "alice");
    alice.subscribe("$reply/+", 0);
    alice.publish("$call/held/7", b"");
    held.wait();
    let socket = calls.server.folder().join("call.sock");
    let port = calls.server.port("call");
    let unix = ["-s".to_owned(), socket.display().to_string()];
    let tcp = ["-s", "127.0.0.1", "-p", &port].map(str::to_owned);
    let begun: Vec<_> = [&unix[..], &tcp]
        .into_iter()
        .map(|server| {
            let mut command = client();
            let words = ["--profile", "sysexits", "--deadline", "300s", "/held"];
            command.args(server).args(words).stdout(Stdio::null());
            let child = command.spawn().expect("the client runs");
            held.wait();
            child
        })
        .collect();
    let mut silent = TcpStream::connect(calls.server.address("call")).expect("it is taken");
    calls.server.signal(Signal::SIGTERM);
    eventually("nobody is let in", || {
        let words = ["--profile", "sysexits", "/noop"];
        let finished = calls.by_unix(&words);
        code(&finished) == Some(75) && finished.stderr.contains("no server can be reached")
    });
    // A client that had made no call is told so.
    let mut answer = Vec::new();
    silent
        .read_to_end(&mut answer)
        .expect("the connection ends");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("the server is stopping"), "{text}");
    // Over MQTT no more calls are taken either.
    alice.publish("$call/noop/8", b"");
    let (topic, refused) = alice.message();
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert_eq!(topic, "$reply/8");
    assert!(refused.contains("overloaded"), "{refused}");
    (0..3).for_each(|_| held.release());
    let (topic, answer) = alice.message();
    assert_eq!(topic, "$reply/7");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("\"verdict\":\"reject\""), "{answer}");
    for mut child in begun {
        let status = child.wait().expect("the client ends");
        assert_eq!(status.code(), Some(69));
    }
    assert!(calls.server.ended().success());
}

/// It does not wait for longer than `shutdown_timeout`.
#[test]
fn calls_that_take_too_long_are_cut_off() {
    let plan = plan(&[]).config("shutdown_timeout = \"1s\"\n");
    let held = Held::new(plan.folder(), 1);
    let mut calls = Calls {
        server: plan.start(),
    };
    let socket = calls.server.folder().join("call.sock");
    let words = ["--profile", "sysexits", "--deadline", "300s", "/held"];
    let mut command = client();
    command.arg("-s").arg(socket).args(words);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the client runs");
    held.wait();
    assert!(calls.server.stop().success());
    let output = child.wait_with_output().expect("the client ends");
    assert_eq!(output.status.code(), Some(75));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("failed: the server is stopping"), "{said}");
    // It stands in the log like others.
    let log = calls.server.wait_log(0, "procedure=\"held\"");
    let line = log.lines().find(|line| line.contains("procedure=\"held\""));
    assert!(line.expect(&log).contains("status=\"failed\""), "{log}");
    held.release();
}
