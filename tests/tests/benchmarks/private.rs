//! `stentor bench private`.

use stentor_tests::process::run;
use stentor_tests::server::stentor;

use crate::{measure, measure_all};

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
    let (code, result) = measure(&arguments);
    assert_eq!(result["verdict"]["result"], "sound", "{result}");
    assert_eq!(code, 0);
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
    let (code, result) = measure(&arguments);
    assert_eq!((code, &result["loss"]["lost"]), (0, &0.into()), "{result}");
    assert_eq!(result["parameters"]["own_topic"], true);
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
        (["--payload", "5"], "--payload must be at least 24"),
        (["--connect-rate", "x"], "--connect-rate"),
    ] {
        let refusal = run(stentor().args(["bench", "private"]).args(arguments)).refusal();
        assert!(refusal.contains(why), "{arguments:?}: {refusal}");
    }
}
