//! Somebody cuts off the files of a running server.

use std::fs::{self, File};

use stentor_tests::raw::{eventually, publish};
use stentor_tests::{Plan, Server, Version};

use crate::{come_back, status};

/// Cuts all files of journals off behind the first page.
fn cut_off(server: &Server) {
    for entry in fs::read_dir(server.data_dir().join("sessions")).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|it| it == "log") {
            let file = File::options().write(true).open(path);
            let cut = file.and_then(|file| file.set_len(4_096));
            cut.expect("a file can be cut off");
        }
    }
}

#[test]
fn files_that_are_cut_off_end_no_server() {
    go_on("interval");
}

#[test]
fn files_that_are_cut_off_are_noticed_without_a_sync() {
    go_on("never");
}

#[test]
fn files_that_are_cut_off_cost_nothing_that_was_acknowledged() {
    go_on("always");
}

/// The server goes on and says what is wrong. It writes all sessions again, in other files.
#[track_caller]
fn go_on(sync: &str) {
    let config = format!("[sessions]\nsync = \"{sync}\"\n");
    let plan = Plan::new().tcp().anonymous().config(&config);
    let server = plan.variable("STENTOR_SHARDS", "1").start();
    let (mut client, _) = come_back(&server, Version::V5, "client");
    client.subscribe("topic", 1);
    client.send(&[0xE0, 0]);
    client.closed();
    let mut publisher = server.client(Version::V4, "publisher");
    publisher.publish_surely("topic", b"before");
    cut_off(&server);
    let trouble = || status(&server)["session_store"]["troubles"].to_string();
    // With `always`, a publisher is cut off whose message could not be written.
    eventually("the server says what is wrong", || {
        let mut other = server.client(Version::V4, "other");
        let _ = other.try_send(&publish(Version::V4, "topic", &[b'x'; 5_000], 1, false));
        let _ = other.try_receive();
        trouble().contains("cut it off") || server.log().contains("cut it off")
    });
    eventually("all is written again", || trouble() == "[]");
    publisher.publish_surely("topic", b"behind");
    let server = server.kill().start();
    let (mut client, is_there) = come_back(&server, Version::V5, "client");
    assert!(is_there, "{sync}");
    let rest = client.until(b"behind");
    assert!(rest.windows(6).any(|it| it == b"before"), "{sync}");
}
