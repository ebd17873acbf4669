//! `stentor bench mine`: a load of one's own.

use stentor_tests::process::run;
use stentor_tests::server::stentor;

use super::measure;

const SMALL: [&str; 10] = [
    "mine",
    "--topics",
    "20",
    "--publishers",
    "2",
    "--subscribers",
    "3",
    "--rate",
    "200",
    "--warmup",
];

#[test]
fn a_small_load_is_carried_and_that_is_said_in_a_sentence() {
    let mut command = stentor();
    command
        .arg("bench")
        .args(SMALL)
        .args(["0.2", "--seconds", "1"]);
    let finished = run(&mut command);
    let shown = &finished.stdout;
    // A machine that has much else to do may not make even this load in time.
    let parts = match finished.status.code() {
        Some(0) => [
            "Yes: stentor",
            "200 messages a second came in",
            "nothing was lost",
        ],
        Some(2) => ["Nobody knows", "the load generator was the limit", "--rate"],
        _ => panic!("{finished}"),
    };
    let sentence = shown.lines().find(|line| line.starts_with(parts[0]));
    let sentence = sentence.unwrap_or_else(|| panic!("no verdict: {shown}"));
    for part in parts {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(
        shown.contains("on 20 topics to 3 subscribers each"),
        "{shown}"
    );
}

#[test]
fn each_subscriber_gets_every_message_of_every_quality() {
    for qos in ["0", "1", "2"] {
        let more = ["0.2", "--seconds", "1", "--qos", qos, "--retain"];
        let (code, result) = measure(&[&SMALL[..], &more].concat());
        assert!(code == 0 || code == 2, "{result}");
        assert_eq!(result["workload"], "mine");
        assert_eq!(result["loss"]["lost"], 0, "{result}");
        let rate = result["measured"]["deliveries_per_s"]["median"].as_f64();
        let rate = rate.expect("a rate");
        assert!(
            (500.0..700.0).contains(&rate),
            "3 × 200 messages a second: {rate}"
        );
    }
}

#[test]
fn a_load_that_makes_no_sense_is_refused_with_a_reason() {
    for (options, reason) in [
        (
            &["--topics", "7", "--publishers", "2"][..],
            "multiple of --publishers",
        ),
        (&["--topics", "100000", "--payload", "10000"], "256 MiB"),
        (
            &["--rate", "0.1", "--seconds", "1"],
            "less than one message",
        ),
        (&["--payload", "4"], "--payload must be at least"),
    ] {
        let refusal = run(stentor().args(["bench", "mine"]).args(options)).refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
}
