//! `stentor bench private`.

use stentor_tests::process::{finish, run, start};
use stentor_tests::raw::eventually;
use stentor_tests::server::stentor;
use stentor_tests::{DEADLINE, Plan};

use crate::faulty::{Fault, Faulty};
use crate::{measure, measure_all, measure_sound};

const SHORT: [&str; 8] = [
    "--clients",
    "50",
    "--seconds",
    "2",
    "--warmup",
    "0",
    "--pairs",
    "1",
];

#[test]
fn each_message_in_makes_two_out() {
    let mut arguments = vec!["private", "appwarp-heavy"];
    arguments.extend(SHORT);
    let result = measure_sound(&arguments);
    assert_eq!(result["verdict"]["result"], "sound", "{result}");
    let median = |key: &str| result["measured"][key]["median"].as_f64().unwrap();
    // 50 clients, one message a second each: the schedule is exact.
    assert!((median("in_per_s") - 50.0).abs() < 0.6, "{result}");
    // What arrives at the very end may be counted on the other side of it.
    assert!((95.0..=101.0).contains(&median("out_per_s")), "{result}");
    assert!(median("latency_p50_us") > 0.0 && median("cpu_per_message_us") > 0.0);
    assert!(result["ratio"]["cpu_per_message_us"]["median"].is_number());
}

#[test]
fn servers_without_private_messages_do_the_same_by_topics() {
    let mut arguments = vec!["private", "appwarp-heavy", "--own-topic"];
    arguments.extend(["--no-floor", "--version", "5"]);
    arguments.extend(SHORT);
    let result = measure_sound(&arguments);
    assert_eq!(result["loss"]["lost"], 0, "{result}");
    assert_eq!(result["parameters"]["own_topic"], true);
}

/// Nothing is lost, but three in four messages come when the measurement is over.
#[test]
fn a_server_that_does_not_keep_up_has_failed() {
    let server = Faulty::start(Fault::Late { millis: 1_500 });
    let url = server.url();
    let arguments = ["private", "appwarp-heavy", "--own-topic", "--no-floor"];
    let arguments = [&arguments[..], &["--target", &url], &SHORT[..]].concat();
    let (code, result) = measure(&arguments);
    let verdict = &result["verdict"];
    // A machine that is busy with other things may write late itself.
    if verdict["result"] == "generator-limited" {
        return;
    }
    assert_eq!(
        (code, &verdict["result"]),
        (1, &"failed".into()),
        "{result}"
    );
    assert_eq!(result["loss"]["lost"], 0, "{result}");
    let why = verdict["why"].as_str().unwrap();
    assert!(why.contains("of what was due came out in time"), "{why}");
}

/// A room, and an ordinary topic that everybody hears: one message in is heard by all.
#[test]
fn a_room_is_measured_beside_a_topic() {
    let arguments = ["private", "--room", "--clients", "40", "--every", "4"];
    let arguments = [&arguments[..], &SHORT[2..]].concat();
    let results = measure_all(&arguments);
    assert_eq!(results.len(), 2, "{results:?}");
    for (result, scene) in results.iter().zip(["room", "topic"]) {
        assert_eq!(result["parameters"]["scene"], scene);
        assert_eq!(result["verdict"]["result"], "sound", "{result}");
        let median = |key: &str| result["measured"][key]["median"].as_f64().unwrap();
        // Ten a second, each with its response and 40 copies.
        assert!((median("in_per_s") - 10.0).abs() < 0.6, "{result}");
        assert!((380.0..=430.0).contains(&median("out_per_s")), "{result}");
        assert!(median("cpu_per_out_us") > 0.0 && median("cpu_per_join_us") > 0.0);
    }
}

/// Each row once without and once with an adaptor that is asked.
#[test]
fn an_adaptor_is_measured_beside_none() {
    let arguments = ["private", "appwarp-heavy", "--adaptor", "--no-floor"];
    let arguments = [&arguments[..], &SHORT[..]].concat();
    let results = measure_all(&arguments);
    assert_eq!(results.len(), 2, "{results:?}");
    for (result, scene) in results.iter().zip(["private", "adaptor"]) {
        assert_eq!(result["parameters"]["scene"], scene);
        assert_eq!(result["verdict"]["result"], "sound", "{result}");
    }
}

/// As docs/benchmarks-method.md has it, but smaller.
const RAMP: [&str; 10] = [
    "private",
    "appwarp-light",
    "--ramp",
    "20",
    "--every",
    "1",
    "--seconds",
    "5",
    "--warmup",
    "0",
];

#[test]
fn a_ramp_that_does_not_break_says_so() {
    // The last step is as long as there are clients.
    let (_, result) = measure(&[&RAMP[..], &["--clients", "50"]].concat());
    let ramp = &result["ramp"];
    let steps = ramp["steps"].as_array().unwrap();
    // A machine that is busy with other things may carry less.
    if ramp["broke_at"].is_null() {
        assert_eq!((steps.len(), &ramp["sound_up_to"]), (3, &50.into()));
        assert_eq!(result["verdict"]["result"], "sound", "{result}");
    }
    assert_eq!(steps[0]["size"], 20, "{ramp}");
    let sizes = steps.iter().map(|step| step["size"].as_u64());
    assert!(sizes.max() <= Some(Some(50)), "{ramp}");
    assert!(ramp["harm"].as_array().unwrap().is_empty(), "{ramp}");
}

/// The server has room for 50: of the third step's 20 clients ten get in, ten are told no, and
/// those who are there do not notice.
#[test]
fn a_ramp_finds_where_connections_are_refused() {
    let server = Plan::new()
        .tcp()
        .anonymous()
        .config("[limits]\nconnections = 50\n")
        .start();
    let target = format!("mqtt://{}", server.address("mqtt"));
    let more = ["--own-topic", "--target", &target, "--bound", "60000"];
    let (_, result) = measure(&[&RAMP[..], &more].concat());
    let ramp = &result["ramp"];
    assert_eq!(ramp["broke_at"], 60, "{ramp}");
    let last = ramp["steps"].as_array().unwrap().last().unwrap();
    let why = last["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("10 of 20 new connections failed"), "{why}");
    let aftermath = ramp["aftermath"].to_string();
    assert!(aftermath.contains("10 of 10"), "{ramp}");
    assert!(ramp["harm"].as_array().unwrap().is_empty(), "{ramp}");
}

/// A server that dies under the load has harmed those who were there.
#[test]
fn a_ramp_on_a_server_that_dies_has_failed() {
    let server = Plan::new().tcp().anonymous().start();
    let target = format!("mqtt://{}", server.address("mqtt"));
    let pid = server.pid().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let mut command = stentor();
    command
        .arg("bench")
        .args(RAMP)
        .args(["--own-topic", "--json"]);
    command
        .arg(&file)
        .args(["--target", &target, "--pid", &pid]);
    let bench = start(&mut command);
    // A machine that is busy with other things may carry no second step.
    eventually("the first step", || {
        server.json(&["status"])["connections"]
            .as_u64()
            .is_some_and(|connections| connections >= 20)
    });
    let _plan = server.kill();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let result = crate::read(&file).unwrap_or_else(|| panic!("no result: {finished}"));
    assert_eq!(result["verdict"]["result"], "failed", "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains(&format!("process {pid}, has ended")), "{why}");
}

#[test]
fn the_published_rows_are_explained_and_nothing_is_sent() {
    let told = run(stentor().args(["bench", "private", "appwarp-light", "--explain"])).success();
    for clients in ["10,000 clients", "80,000 clients", "every 10 s"] {
        assert!(told.contains(clients), "{clients}: {told}");
    }
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    for (arguments, why) in [
        (["--clients", "0"], "--clients"),
        (["--every", "0"], "--every"),
        (["--payload", "5"], "a number of bytes from 24"),
        (["--connect-rate", "x"], "--connect-rate"),
        (["--ramp", "0"], "--ramp"),
        (["--bound", "5"], "--ramp"),
    ] {
        let refusal = run(stentor().args(["bench", "private"]).args(arguments)).refusal();
        assert!(refusal.contains(why), "{arguments:?}: {refusal}");
    }
    // Nobody's turn would come.
    let idle = [
        "private",
        "appwarp-light",
        "--clients",
        "5",
        "--seconds",
        "1",
    ];
    let refusal = run(stentor().arg("bench").args(idle)).refusal();
    assert!(refusal.contains("write nothing"), "{refusal}");
}
