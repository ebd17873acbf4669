//! `stentor figures`: what the figures were, and what may happen to their file.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use stentor_tests::disk::small_disk;
use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version};

/// Writes the file every second.
const OFTEN: &str = "[figures]\ncommit = \"1s\"\n";

fn plan() -> Plan {
    Plan::new().tcp().anonymous().config(OFTEN)
}

/// The highest value of a figure in the last hour, as the history has it.
fn highest(server: &Server, figure: &str) -> f64 {
    let told = server.json(&["figures", figure]);
    told["figures"][0]["whole"]["max"].as_f64().unwrap_or(0.0)
}

/// The highest value of a figure ever, and when that was.
fn peak(server: &Server, figure: &str) -> Option<(f64, u64)> {
    let told = server.json(&["figures", "--peaks", figure]);
    let peak = &told["all"][0];
    Some((peak["value"].as_f64()?, peak["at_secs"].as_u64()?))
}

fn trouble(server: &Server) -> Value {
    server.json(&["figures"])["trouble"].clone()
}

/// Clients publish and receive until the history has it.
fn traffic(server: &Server) {
    let mut client = server.client(Version::V5, "pump");
    client.subscribe("a/#", 0);
    eventually("messages and latencies are in the history", || {
        for _ in 0..64 {
            client.publish("a/b", b"x");
            let _ = client.message();
        }
        let told = server.json(&["figures", "messages_sent"]);
        let has_sent = told["figures"][0]["whole"]["max"].as_f64() > Some(0.0);
        has_sent && told["latency_whole"]["samples"].as_u64() > Some(0)
    });
}

#[test]
fn what_was_written_survives_a_kill_with_its_peaks() {
    let server = plan().start();
    traffic(&server);
    let before = peak(&server, "messages_sent").expect("messages were sent");
    let file = server.data_dir().join("figures.redb");
    let written = || file.metadata().and_then(|it| it.modified()).ok();
    let first = written();
    // What the answers above have is in one of the next two.
    eventually("the file is written", || written() != first);
    let second = written();
    eventually("the file is written again", || written() != second);
    let mode = file.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let server = server.kill().start();
    eventually("the file is open", || trouble(&server) == Value::Null);
    assert!(highest(&server, "messages_sent") > 0.0);
    let told = server.json(&["figures", "latency"]);
    assert!(
        told["latency_whole"]["p99_micros"].as_u64() > Some(0),
        "{told}"
    );
    let after = peak(&server, "messages_sent").expect("it is known");
    assert!(after.0 >= before.0, "{before:?}, {after:?}");
    let days = server.json(&["figures", "--peaks", "messages_sent", "--days", "2"]);
    assert_eq!(
        days["days"][0]["peaks"][0]["name"], "messages_sent",
        "{days}"
    );

    let table = server.control(&["figures"]).success();
    assert!(
        table.contains("messages_sent") && table.contains('█'),
        "{table}"
    );
    let lines = server
        .control(&["figures", "messages_sent", "latency"])
        .success();
    assert!(
        lines.contains("99.9 %") && lines.contains("MEAN"),
        "{lines}"
    );
}

#[test]
fn a_stop_loses_nothing() {
    let server = Server::open();
    traffic(&server);
    // Long before the first minute is over.
    let plan = server.stop_for_restart();
    let server = plan.start();
    eventually("the file is open", || trouble(&server) == Value::Null);
    assert!(highest(&server, "messages_sent") > 0.0);
}

#[test]
fn a_damaged_file_is_set_aside_and_told() {
    let plan = plan();
    fs::create_dir(plan.data_dir()).expect("the folder can be made");
    let file = plan.data_dir().join("figures.redb");
    fs::write(&file, vec![0xA5; 70_000]).expect("the file can be written");
    let server = plan.start();
    server.wait_log(0, "could not be read and begins again");
    let aside = server.data_dir().join("figures.redb.damaged");
    assert_eq!(aside.metadata().expect("it is kept").len(), 70_000);
    traffic(&server);
    assert_eq!(trouble(&server), Value::Null);
}

#[test]
fn a_deleted_file_is_made_again() {
    let server = plan().start();
    let file = server.data_dir().join("figures.redb");
    eventually("the file is there", || file.exists());
    traffic(&server);
    fs::remove_file(&file).expect("it can be removed");
    eventually("the file is there again", || file.exists());
    assert_eq!(trouble(&server), Value::Null);
    server.client(Version::V5, "other").ping();
}

#[test]
fn a_full_disk_is_told_once_and_the_history_goes_on() {
    let plan = plan();
    let folder = plan.data_dir();
    let Some(disk) = small_disk(&folder, "48m") else {
        return;
    };
    let server = plan.start();
    let file = folder.join("figures.redb");
    eventually("the file is there", || file.exists());
    // Everything that is left, and then the file has no place any more.
    let filler = folder.join("filler");
    let mut bytes = 1 << 20;
    let mut all = Vec::new();
    while bytes >= 4_096 {
        let more = vec![1; bytes];
        let before = all.len();
        all.extend(more);
        if fs::write(&filler, &all).is_err() {
            all.truncate(before);
            bytes /= 2;
        }
    }
    fs::remove_file(&file).expect("it can be removed");
    let _ = fs::write(&filler, vec![1; all.len() + (4 << 20)]);
    server.wait_log(0, "the history of the figures cannot be written");
    traffic(&server);
    assert!(trouble(&server).is_string());
    fs::remove_file(&filler).expect("it can be removed");
    server.wait_log(0, "the history of the figures is written again");
    assert!(highest(&server, "messages_sent") > 0.0);
    assert_eq!(server.log().matches("figures cannot be written").count(), 1);
    let server = server.kill();
    drop(server);
    drop(disk);
}

#[test]
fn without_a_file_the_history_is_in_memory() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.config("[figures]\ncommit = \"0s\"\n").start();
    traffic(&server);
    assert!(peak(&server, "messages_sent").is_some());
    assert!(!server.data_dir().join("figures.redb").exists());
}

#[test]
fn what_there_is_not_is_refused() {
    let server = Server::open();
    let refused = server.control(&["figures", "speed"]).refusal();
    assert!(
        refused.contains("there is no figure \"speed\""),
        "{refused}"
    );
    for wrong in [["--last", "0s"], ["--points", "0"], ["--points", "501"]] {
        let refused = server
            .control(&[&["figures"][..], &wrong].concat())
            .refusal();
        assert!(
            refused.contains(wrong[0].trim_start_matches('-')),
            "{refused}"
        );
    }
}
