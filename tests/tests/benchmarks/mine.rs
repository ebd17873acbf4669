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
    let folder = tempfile::tempdir().expect("a folder can be made");
    let page = folder.path().join("page.html");
    let mut command = stentor();
    command
        .arg("bench")
        .args(SMALL)
        .args(["0.2", "--seconds", "1", "--html"])
        .arg(&page);
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
    // Only the machine is told of before.
    let sentence = shown.lines().filter(|line| !line.is_empty()).nth(1);
    let sentence = sentence.filter(|line| line.starts_with(parts[0]));
    let sentence = sentence.unwrap_or_else(|| panic!("no verdict: {shown}"));
    for part in parts {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(
        shown.contains("on 20 topics to each of 3 subscribers"),
        "{shown}"
    );
    assert!(!shown.contains("0.0 processors"), "{shown}");
    let is_on_its_line =
        |figure: &str| (shown.lines()).any(|line| line.trim_start().starts_with(figure));
    assert!(
        ["p50 ", "p99 ", "lost "].into_iter().all(is_on_its_line),
        "{shown}"
    );
    let page = std::fs::read_to_string(page).expect("the page can be read");
    let (header, _) = page.split_once("<main>").expect("a header and more");
    assert!(header.contains(sentence), "{sentence} is not in {header}");
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

/// Several publishers of one topic are an ordinary load, and so are topics that do not come out
/// even.
#[test]
fn topics_and_publishers_are_as_many_as_they_are() {
    for (topics, publishers) in [("2", "5"), ("7", "2"), ("1", "3")] {
        let load = ["mine", "--topics", topics, "--publishers", publishers];
        let more = ["--subscribers", "2", "--rate", "300", "--retain"];
        let time = ["--warmup", "0.2", "--seconds", "1"];
        let (code, result) = measure(&[&load[..], &more, &time].concat());
        assert!(code == 0 || code == 2, "{result}");
        assert_eq!(result["loss"]["lost"], 0, "{result}");
        assert_eq!(result["loss"]["corrupt"], 0, "{result}");
        let rate = result["measured"]["deliveries_per_s"]["median"].as_f64();
        let rate = rate.expect("a rate");
        assert!((500.0..700.0).contains(&rate), "2 × 300 a second: {rate}");
    }
}

#[test]
fn a_load_that_makes_no_sense_is_refused_with_a_reason() {
    for (options, reason) in [
        (
            &["--topics", "100000", "--payload", "10000"][..],
            "256 MiB: give at most 26843 topics",
        ),
        (
            &["--rate", "0.1", "--seconds", "1"],
            "less than one message of each publisher in the 1 s that are measured: give --rate 5",
        ),
        (
            &["--payload", "1"],
            "'--payload <PAYLOAD>': a number of bytes from 24 to 1000000",
        ),
        (
            &["--rate", "-1"],
            "'--rate <RATE>': a number of messages per second from 0.1 to 10000000",
        ),
        (&["--topics", "-2"], "a number from 1 to 1000000"),
    ] {
        let refusal = run(stentor().args(["bench", "mine"]).args(options)).refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
}
