//! What a benchmark says about servers that do not do their work.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use stentor_tests::process::{finish, pid_of, start};
use stentor_tests::server::stentor;
use stentor_tests::{DEADLINE, Plan};

use crate::faulty::{Fault, Faulty};
use crate::measure;

/// Messages of two publishers in a second, each to two subscribers.
const MESSAGES: u64 = 200;

fn fanout(fault: Fault) -> (i32, Value) {
    let server = Faulty::start(fault);
    let url = server.url();
    measure(&[
        "fanout",
        "ice-2",
        "--target",
        &url,
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
    ])
}

fn loss(result: &Value, what: &str) -> u64 {
    result["loss"][what].as_u64().unwrap()
}

#[test]
fn a_server_that_does_its_work_is_sound() {
    let (code, result) = fanout(Fault::None);
    assert_eq!(result["verdict"]["result"], "sound", "{result}");
    assert_eq!(code, 0);
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
    assert!(why.contains("of the load"), "{result}");
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
