//! What a benchmark says about servers that do not do their work.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stentor_tests::process::{finish, pid_of, start};
use stentor_tests::raw::eventually;
use stentor_tests::server::{descriptors, stentor};
use stentor_tests::{DEADLINE, Plan};

use crate::faulty::{Fault, Faulty};
use crate::{measure, measure_each, measure_sound};

/// Messages of two publishers in a second, each to two subscribers.
const MESSAGES: u64 = 200;

fn fanout(fault: Fault) -> (i32, Value) {
    let server = Faulty::start(fault);
    measure(&small_fanout(&server.url()))
}

fn small_fanout(url: &str) -> [&str; 17] {
    [
        "fanout",
        "ice-2",
        "--target",
        url,
        "--publishers",
        "2",
        "--subscribers",
        "4",
        "--rate",
        "100",
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--pairs",
        "1",
        "--no-floor",
    ]
}

fn loss(result: &Value, what: &str) -> u64 {
    result["loss"][what].as_u64().unwrap()
}

#[test]
fn a_server_that_does_its_work_is_sound() {
    let server = Faulty::start(Fault::None);
    let result = measure_sound(&small_fanout(&server.url()));
    assert_eq!(result["verdict"]["result"], "sound", "{result}");
}

#[test]
fn lost_messages_are_counted() {
    let (code, result) = fanout(Fault::Loses { every: 20 });
    let lost = loss(&result, "lost");
    assert_eq!(code, 1, "{result}");
    assert_eq!(lost, 2 * MESSAGES / 20, "{result}");
    assert_eq!(result["verdict"]["result"], "failed");
}

#[test]
fn repeated_messages_are_counted() {
    let (code, result) = fanout(Fault::Repeats { every: 20 });
    assert_eq!(code, 1, "{result}");
    assert_eq!(loss(&result, "duplicated"), 2 * MESSAGES / 20, "{result}");
    assert_eq!(loss(&result, "lost"), 0);
}

#[test]
fn swapped_messages_are_counted() {
    let (code, result) = fanout(Fault::Swaps { every: 19 });
    assert_eq!(code, 1, "{result}");
    assert!(loss(&result, "reordered") > 0, "{result}");
    assert_eq!((loss(&result, "lost"), loss(&result, "duplicated")), (0, 0));
}

/// Behind what tells the message: it has arrived, but is not what was sent.
#[test]
fn damaged_messages_are_counted() {
    let (code, result) = fanout(Fault::Damages { every: 20 });
    assert_eq!(code, 1, "{result}");
    assert_eq!(loss(&result, "corrupt"), 2 * MESSAGES / 20, "{result}");
    assert_eq!(loss(&result, "lost"), 0, "{result}");
    let why = result["verdict"]["why"].as_str();
    assert!(why.is_some_and(|why| why.contains("corrupt")), "{result}");
}

/// A server that grants less, or nothing, has done less work.
#[test]
fn subscriptions_that_are_not_granted_have_failed() {
    for (code, told) in [(0x80, "refused the subscription"), (0, "granted QoS 0")] {
        let server = Faulty::start(Fault::Grants { every: 10, code });
        let url = server.url();
        let load = ["subscribe", "--users", "2", "--subscriptions", "50"];
        let once = ["--qos", "1", "--pairs", "1", "--no-floor", "--target", &url];
        let (code, result) = measure(&[&load[..], &once].concat());
        assert_eq!(code, 1, "{result}");
        assert_eq!(loss(&result, "failed"), 10, "{result}");
        let why = result["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(told), "{why}");
    }
}

/// QoS 1 was granted, and QoS 0 is what comes.
#[test]
fn messages_of_another_quality_are_counted() {
    let server = Faulty::start(Fault::Grants {
        every: u64::MAX,
        code: 0,
    });
    let url = server.url();
    let load = ["fanout", "ice-2", "--publishers", "1", "--subscribers", "2"];
    let time = ["--rate", "50", "--seconds", "1", "--warmup", "0"];
    let once = ["--qos", "1", "--pairs", "1", "--no-floor", "--target", &url];
    let (code, result) = measure(&[&load[..], &time, &once].concat());
    assert_eq!(code, 1, "{result}");
    assert_eq!(loss(&result, "corrupt"), 100, "{result}");
    assert_eq!(loss(&result, "lost"), 0, "{result}");
}

#[test]
fn a_server_that_stops_delivering_has_lost_the_rest() {
    let (code, result) = fanout(Fault::Stalls { after: 50 });
    assert_eq!(code, 1, "{result}");
    assert_eq!(loss(&result, "lost"), 2 * (MESSAGES - 50), "{result}");
}

#[test]
fn a_server_that_dies_has_failed() {
    let (code, result) = fanout(Fault::Dies { after: 50 });
    assert_eq!(code, 1, "{result}");
    assert_eq!(result["verdict"]["result"], "failed");
    assert!(loss(&result, "lost") + loss(&result, "failed") > 0);
}

#[test]
fn a_server_that_is_late_shows_as_late() {
    let (code, result) = fanout(Fault::Late { millis: 300 });
    let p50 = result["measured"]["latency_p50_us"]["median"].as_f64();
    assert!(p50.unwrap() >= 300_000.0, "{result}");
    // Late is not lost, but what comes after the end was not carried in time.
    assert_eq!(loss(&result, "lost"), 0, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("came out in time"), "{result}");
    let after_end = result["measured"]["after_end_percent"]["median"].as_f64();
    assert!(after_end.unwrap() >= 25.0, "{result}");
    let note = result["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("came after the end"), "{result}");
    assert_eq!(code, 1);
}

/// The generator stands still for a moment: what it reports is its own limit, not the server's.
#[test]
fn a_generator_that_falls_behind_says_so() {
    let server = Faulty::start(Fault::Tells { after: 100 });
    let mut command = stentor();
    command.args(["bench", "fanout", "ice-2", "--target", &server.url()]);
    command.args(["--publishers", "2", "--subscribers", "4", "--rate", "100"]);
    command.args([
        "--seconds",
        "4",
        "--warmup",
        "0",
        "--pairs",
        "1",
        "--no-floor",
    ]);
    let bench = start(&mut command);
    server.wait();
    kill(pid_of(&bench), Signal::SIGSTOP).unwrap();
    let until = Instant::now() + Duration::from_millis(400);
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(rest);
    }
    kill(pid_of(&bench), Signal::SIGCONT).unwrap();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert!(
        finished.stdout.contains("the generator was the limit"),
        "{finished}"
    );
}

#[test]
fn the_process_of_a_target_is_measured() {
    let server = Plan::new().tcp().anonymous().start();
    let pid = server.pid().to_string();
    let address = format!("mqtt://{}", server.address("mqtt"));
    let arguments = ["idle", "--connections", "20", "--no-floor", "--pairs", "1"];
    let target = ["--target", &address, "--pid", &pid, "--placement", "free"];
    let (code, result) = measure(&[&arguments[..], &target].concat());
    assert_eq!(code, 0, "{result}");
    let memory = result["measured"]["rss_after_bytes"]["median"].as_f64();
    assert!(memory.is_some_and(|bytes| bytes > 1e6), "{result}");
    let course = result["course"]["server"]["rss_bytes"].as_array().unwrap();
    assert!(
        course
            .iter()
            .any(|bytes| bytes.as_f64().is_some_and(|b| b > 1e6)),
        "{result}"
    );
}

/// Floor, server and rivals start on processors that the generator does not use.
#[test]
fn server_and_generator_share_no_processor() {
    let load = ["fanout", "ice-2", "--publishers", "1", "--subscribers", "2"];
    let time = ["--seconds", "1", "--warmup", "0", "--pairs", "1"];
    let (_, result) = measure(&[&load[..], &time].concat());
    let list = |part: &str| -> Vec<u64> {
        let list = result["processors"][part].as_array();
        let list = list.unwrap_or_else(|| panic!("{part}: {result}"));
        list.iter().map(|cpu| cpu.as_u64().unwrap()).collect()
    };
    let (server, generator) = (list("server"), list("generator"));
    let placement = &result["parameters"]["placement"];
    if std::thread::available_parallelism().unwrap().get() == 1 {
        assert_eq!((placement, server), (&"together".into(), generator));
        return;
    }
    assert_eq!(placement, "apart", "{result}");
    assert!(!server.is_empty() && !generator.is_empty(), "{result}");
    assert!(
        server.iter().all(|cpu| !generator.contains(cpu)),
        "{result}"
    );
}

/// More than the descriptors that a server has anyway.
const SUBSCRIBERS: usize = 200;

/// The server that the bench has started is killed in the middle: the failed run says how it ended.
#[test]
fn a_server_that_is_killed_explains_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (file, noted) = (folder.path().join("r.json"), folder.path().join("pid"));
    let script = folder.path().join("server");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = serve ] && echo $$ > {}\nexec {} \"$@\"\n",
        noted.display(),
        stentor_tests::server::binary().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = stentor();
    command.args(["bench", "fanout", "ice-2", "--no-floor", "--subscribers"]);
    command.arg(SUBSCRIBERS.to_string());
    command.args(["--seconds", "10", "--warmup", "0", "--pairs", "1"]);
    command
        .arg("--server")
        .arg(&script)
        .arg("--json")
        .arg(&file);
    let bench = start(&mut command);
    let read = || fs::read_to_string(&noted).ok()?.trim().parse::<i32>().ok();
    // It is under load once the subscribers are there.
    eventually("a server with subscribers", || {
        let is_there = |pid: &i32| fs::read_dir(format!("/proc/{pid}/task")).is_ok();
        // Each thread has descriptors of its own.
        let seen = read().filter(is_there).map(descriptors);
        let seen = seen.unwrap_or_default();
        seen.iter().any(|(_, count)| *count > SUBSCRIBERS)
    });
    kill(Pid::from_raw(read().unwrap()), Signal::SIGKILL).unwrap();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let result = crate::read(&file).unwrap_or_else(|| panic!("no result: {finished}"));
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("ended with signal: 9"), "{why}");
    assert!(!why.contains("INFO"), "{why}");
    assert!(finished.stdout.contains("stentor ended"), "{finished}");
}

/// A window that is never wide enough for what the other end wants to send is one of timers: it
/// read 85,000 B/s at most.
#[test]
fn a_slow_client_reads_as_quickly_as_it_is_told_to() {
    let load = ["slow", "--read", "200000", "--pairs", "1"];
    let time = ["--seconds", "3", "--warmup", "1"];
    let (_, result) = measure(&[&load[..], &time].concat());
    // Of what is read, topics and headers are a fifth.
    let payload = result["measured"]["payload_bytes_per_s"]["median"].as_f64();
    assert!(
        payload > Some(100_000.0) && payload < Some(200_000.0),
        "{result}"
    );
}

/// Broken connections in the second pair: that one has failed, and the first one stands.
#[test]
fn a_connection_that_breaks_keeps_the_pairs_before_it() {
    let server = Faulty::start(Fault::Leaves {
        from: 2,
        millis: 300,
    });
    let url = server.url();
    let load = ["slow", "--topics", "5", "--rate", "100", "--target", &url];
    let time = ["--seconds", "1", "--warmup", "0", "--pairs", "2"];
    let (code, result) = measure(&[&load[..], &time].concat());
    assert_eq!(code, 1, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("the slow client was disconnected"), "{why}");
    let published = &result["measured"]["messages_published"]["median"];
    assert!(published.is_number(), "{result}");
}

/// What the server does not take was due all the same.
#[test]
fn a_slow_load_that_is_not_taken_has_failed() {
    const TAKEN: u64 = 5;
    let server = Faulty::start(Fault::Chokes { after: TAKEN });
    let url = server.url();
    // Far more than the buffers of both sides hold; the reader is not what they wait for.
    let load = ["slow", "--topics", "2", "--rate", "500", "--payload"];
    let size = ["100000", "--read", "100000000", "--target", &url];
    let time = ["--seconds", "1", "--warmup", "0", "--pairs", "1"];
    let (code, result) = measure(&[&load[..], &size, &time].concat());
    assert_eq!(code, 1, "{result}");
    assert_eq!(result["verdict"]["result"], "failed", "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("of what was due came out in time"), "{why}");
    let held = "never left since the server took no more";
    assert!(why.contains(held), "{why}");
    // Each topic has a newer message than the one that came.
    assert_eq!(loss(&result, "lost"), 2, "{result}");
    let read = result["measured"]["messages_read"]["median"].as_f64();
    assert_eq!(read, Some(TAKEN as f64), "{result}");
}

/// The other workloads of a command run, and the objects say which did not, and why.
#[test]
fn what_could_not_be_run_stands_in_the_results() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("mqtt://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let (finished, results) = measure_each(&[
        "subscribe",
        "--topics",
        "both",
        "--no-floor",
        "--target",
        &target,
    ]);
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert_eq!(results.len(), 2, "{finished}");
    for result in &results {
        assert_eq!(result["verdict"]["result"], "not-run", "{result}");
        let why = result["verdict"]["why"].as_str().unwrap();
        assert!(why.contains("no server listens there"), "{why}");
        assert!(result["measured"].is_null(), "{result}");
    }
    assert_eq!(finished.stdout.matches("NOT RUN").count(), 2, "{finished}");
}

/// Two who wait for each other's messages notice at the first that is wrong or does not come.
#[test]
fn a_match_that_goes_wrong_has_failed() {
    for (fault, expected) in [
        (Fault::Damages { every: 10 }, "corrupt"),
        (Fault::Loses { every: 10 }, "1 lost"),
        (Fault::Dies { after: 10 }, "closed a connection"),
    ] {
        let server = Faulty::start(fault);
        let url = server.url();
        let load = ["pingpong", "--target", &url, "--placement", "free"];
        let time = ["--seconds", "1", "--warmup", "0", "--pairs", "1"];
        let (code, result) = measure(&[&load[..], &time, &["--no-floor"]].concat());
        assert_eq!(code, 1, "{result}");
        let why = result["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(expected), "{why}");
    }
}

/// A rival that is not installed is no reason to measure nothing.
#[test]
fn a_rival_that_is_not_there_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.json");
    let mut command = stentor();
    command.args([
        "bench",
        "fanout",
        "ice-2",
        "--subscribers",
        "5",
        "--no-floor",
    ]);
    command.args(["--seconds", "1", "--warmup", "0", "--pairs", "2"]);
    command.args(["--against", "rumqttd", "--json"]).arg(&file);
    // Nothing is installed here.
    command
        .env("PATH", folder.path())
        .env("HOME", folder.path());
    let finished = finish(start(&mut command), DEADLINE);
    let result = crate::read(&file).unwrap_or_else(|| panic!("no result: {finished}"));
    let rival = &result["rivals"][0];
    assert_eq!(rival["verdict"]["result"], "not-run", "{result}");
    let why = rival["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("rumqttd is not installed"), "{why}");
    assert!(why.contains("cargo install rumqttd"), "{why}");
    assert!(
        result["measured"]["deliveries_per_s"]["median"].is_number(),
        "{result}"
    );
}

/// Clients compare what they are granted with what they have asked for, floors or not.
#[test]
fn a_floor_grants_what_is_asked_for() {
    let fanout = [
        "fanout",
        "ice-1",
        "--publishers",
        "1",
        "--subscribers",
        "5",
        "--seconds",
        "1",
        "--warmup",
        "0",
    ];
    for load in [&fanout[..], &["idle", "--connections", "10"]] {
        let (finished, results) = measure_each(&[load, &["--qos", "1", "--pairs", "1"]].concat());
        let told = finished.to_string();
        assert!(told.contains("floor (send)"), "{told}");
        assert!(!told.contains("was asked for"), "{told}");
        assert_eq!(results[0]["loss"]["failed"], 0, "{told}");
    }
}
