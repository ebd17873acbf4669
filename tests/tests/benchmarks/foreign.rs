//! Servers that others run: what they do wrong shows, and they are left as they were.

use std::process::{Command, Stdio};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use stentor_tests::Plan;
use stentor_tests::process::run_within;
use stentor_tests::raw::Version;
use stentor_tests::server::binary;

use crate::faulty::{Fault, Faulty};
use crate::{measure, measure_sound};

const SHORT: [&str; 6] = ["--seconds", "1", "--warmup", "0", "--no-floor", "--pairs"];

/// One that dies in the first pair has failed, though the second finds nobody.
#[test]
fn a_server_that_is_gone_in_the_next_pair_has_failed() {
    let server = Faulty::start(Fault::Dies { after: 50 });
    let url = server.url();
    let load = ["fanout", "ice-2", "--target", &url, "--publishers", "2"];
    let rate = ["--subscribers", "4", "--rate", "100"];
    let (code, result) = measure(&[&load[..], &rate, &SHORT, &["2"]].concat());
    assert_eq!(code, 1, "{result}");
    assert_eq!(result["verdict"]["result"], "failed", "{result}");
    assert!(result["loss"]["lost"].as_u64() > Some(0), "{result}");
}

#[test]
fn connections_that_end_while_they_are_idle_are_missed() {
    let server = Faulty::start(Fault::Leaves {
        from: 0,
        millis: 300,
    });
    let url = server.url();
    let load = ["idle", "--connections", "20", "--target", &url];
    let (code, result) = measure(&[&load[..], &["--no-floor", "--pairs", "1"]].concat());
    assert_eq!(code, 1, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("20 failed") && why.contains("closed"), "{why}");
}

/// What is not lost may still be wrong.
#[test]
fn a_ramp_finds_repeated_and_damaged_messages() {
    for (fault, what) in [
        (Fault::Repeats { every: 7 }, "duplicated"),
        (Fault::Damages { every: 7 }, "corrupt"),
    ] {
        let server = Faulty::start(fault);
        let url = server.url();
        let load = ["private", "appwarp-heavy", "--own-topic", "--target", &url];
        let size = ["--clients", "40", "--ramp", "20"];
        let (code, result) = measure(&[&load[..], &size, &SHORT, &["1"]].concat());
        assert_eq!(code, 1, "{result}");
        let why = result["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(what), "{why}");
    }
}

#[test]
fn a_server_that_grants_less_is_not_measured_as_if_it_did() {
    let server = Faulty::start(Fault::None);
    let url = server.url();
    let load = ["fanout", "ice-2", "--qos", "1", "--target", &url];
    let size = ["--publishers", "1", "--subscribers", "2"];
    let (code, result) = measure(&[&load[..], &size, &SHORT, &["1"]].concat());
    assert_eq!(code, 3, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("granted QoS 0 where 1"), "{why}");
}

/// Messages that no single read can hold.
#[test]
fn large_messages_are_read_whole() {
    let load = ["private", "--own-topic", "--clients", "5", "--every", "1"];
    let size = ["--payload", "300000"];
    measure_sound(&[&load[..], &size, &SHORT, &["1"]].concat());
    let load = ["recover", "--users", "2", "--subscriptions", "3"];
    let size = ["--payload", "200000", "--no-floor", "--pairs", "1"];
    measure_sound(&[&load[..], &size].concat());
}

/// A server may close clients that send no pings, as these do: that is not its failure.
#[test]
fn a_keep_alive_that_the_run_would_outlast_is_not_run() {
    let config = "[limits]\nkeep_alive_max = \"50s\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let run = |seconds: &str| {
        let load = ["fanout", "ice-2", "--publishers", "1", "--subscribers", "2"];
        let time = ["--warmup", "0", "--pairs", "1", "--seconds", seconds];
        let target = ["--no-floor", "--version", "5", "--target", &url];
        measure(&[&load[..], &time, &target].concat())
    };
    // One and a half of it is 75 s, of which a minute is for what is not measured.
    let (code, result) = run("16");
    assert_eq!(code, 3, "{result}");
    assert_eq!(result["verdict"]["result"], "not-run", "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    for part in ["keep alive of 50 s", "no pings", "raise", "--seconds"] {
        assert!(why.contains(part), "{why}");
    }
    let (_, result) = run("1");
    assert!(result["measured"].is_object(), "{result}");
}

/// No server is to blame for the descriptors of the generator.
#[test]
fn descriptors_of_the_generator_are_its_own_limit() {
    let server = Plan::new().tcp().anonymous().start();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let load = "bench idle --connections 1000 --no-floor --pairs 1 --target";
    let mut command = Command::new("sh");
    let text = format!("ulimit -n 256; exec {} {load} {url}", binary().display());
    command.args(["-c", &text]);
    let finished = run_within(&mut command, stentor_tests::DEADLINE);
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stderr.contains("ulimit -n"), "{finished}");
}

#[test]
fn a_server_goes_back_to_its_processors() {
    let server = Plan::new().tcp().anonymous().start();
    let pid = Pid::from_raw(server.pid());
    let places = || -> CpuSet { sched_getaffinity(pid).unwrap() };
    let (before, number) = (places(), server.pid().to_string());
    let url = format!("mqtt://{}", server.address("mqtt"));
    let load = ["fanout", "ice-2", "--publishers", "1", "--subscribers", "2"];
    let target = ["--target", &url, "--pid", &number, "--placement", "apart"];
    let result = measure_sound(&[&load[..], &target, &SHORT, &["1"]].concat());
    assert_eq!(places(), before, "{result}");
}

/// The figures of any process would be believed.
#[test]
fn a_process_that_is_not_the_server_is_refused() {
    let server = Plan::new().tcp().anonymous().start();
    let mut stranger = Command::new("cat");
    stranger.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut stranger = stranger.spawn().unwrap();
    let number = stranger.id().to_string();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let load = ["idle", "--connections", "5", "--no-floor", "--pairs", "1"];
    let target = ["--target", &url, "--pid", &number, "--placement", "free"];
    let (code, result) = measure(&[&load[..], &target].concat());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(code, 3, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    let right = format!("give --pid {}", server.pid());
    for part in [&format!("--pid {number} (cat)"), &right] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

/// In the second pair it has the memory of the first.
#[test]
fn only_the_first_pair_tells_the_memory_of_a_target() {
    let server = Plan::new().tcp().anonymous().start();
    let number = server.pid().to_string();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let load = ["idle", "--connections", "500", "--no-floor", "--pairs", "2"];
    let target = ["--target", &url, "--pid", &number, "--placement", "free"];
    let (code, result) = measure(&[&load[..], &target].concat());
    assert_eq!(code, 0, "{result}");
    let each = &result["measured"]["rss_per_connection_bytes"];
    assert!(each["low"].as_f64() > Some(0.0), "{result}");
    assert_eq!(each["low"], each["high"], "{result}");
    let after = &result["measured"]["rss_after_bytes"];
    assert!(after["median"].is_number(), "{result}");
}

/// What only the benchmark wanted to be kept is not kept.
#[test]
fn no_retained_messages_are_left_behind() {
    let server = Plan::new().tcp().anonymous().start();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let target = ["--target", &url, "--placement", "free"];
    let recover = [
        "recover",
        "--users",
        "2",
        "--subscriptions",
        "3",
        "--no-floor",
    ];
    let size = ["--publishers", "2", "--subscribers", "2", "--retain"];
    let fanout = [&["fanout", "ice-2"][..], &size, &SHORT[..5]].concat();
    // The window is looked for before it is measured: large messages have few to try.
    let search = [&fanout[..], &["--rate", "max", "--payload", "40000"]].concat();
    for (load, may_be_limited) in [(&recover[..], false), (&fanout, false), (&search, true)] {
        let (code, result) = measure(&[load, &target, &["--pairs", "1"]].concat());
        assert!(code == 0 || may_be_limited && code == 2, "{code} {result}");
    }
    let counted = server.json(&["retained", "count"]);
    assert_eq!(counted["messages"], 0, "{counted}");
}

/// Messages that only the end of the connection could lose.
#[test]
fn the_last_messages_are_not_torn_off() {
    let load = ["fanout", "ice-2", "--publishers", "2", "--subscribers", "2"];
    let size = ["--rate", "3", "--payload", "900000"];
    let (_, result) = measure(&[&load[..], &size, &SHORT, &["3"]].concat());
    // On a busy machine the messages may leave late, which is not a loss.
    assert_eq!(result["loss"]["lost"], 0, "{result}");
    assert_eq!(result["histogram"]["count"], 18, "{result}");
}

/// A part of the subscriptions in a part of the time is no rate of all of them.
#[test]
fn a_storm_that_breaks_off_has_no_rate() {
    let server = Faulty::start(Fault::Stutters);
    let url = server.url();
    let load = ["subscribe", "--users", "2", "--subscriptions", "50"];
    let once = ["--pairs", "1", "--no-floor", "--target", &url];
    let (code, result) = measure(&[&load[..], &once].concat());
    assert_eq!(code, 1, "{result}");
    assert!(result["loss"]["failed"].as_u64() > Some(0), "{result}");
    for key in [
        "subscriptions_per_s",
        "duration_us",
        "cpu_per_subscription_us",
    ] {
        assert!(result["measured"][key].is_null(), "{key}: {result}");
    }
}

/// What is lost with a server is next to nothing of what was due, since most never left.
#[test]
fn a_server_that_is_killed_has_carried_a_part() {
    let server = Plan::new().tcp().anonymous().start();
    let (url, pid) = (server.url("mqtt").to_owned(), server.pid().to_string());
    let load = ["fanout", "ice-2", "--subscribers", "20", "--seconds", "3"];
    let once = ["--warmup", "0", "--no-floor", "--pairs", "1"];
    let target = ["--target", &url, "--pid", &pid, "--placement", "free"];
    let mut listener = server.client(Version::V4, "listener");
    listener.subscribe("bench/#", 0);
    let (code, result) = std::thread::scope(|scope| {
        let bench = scope.spawn(|| measure(&[&load[..], &once, &target].concat()));
        // It is under load then.
        let _ = listener.message();
        server.kill();
        bench.join().unwrap()
    });
    assert_eq!(code, 1, "{result}");
    let why = result["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("has ended"), "{why}");
    assert!(why.contains("% of what was due came out in time"), "{why}");
}

/// A slow client misses what is conflated, but gets nothing twice, and nothing old after the new.
#[test]
fn a_slow_client_tells_repeated_from_swapped() {
    for (fault, what, other) in [
        (Fault::Repeats { every: 7 }, "duplicated", "reordered"),
        (Fault::Swaps { every: 7 }, "reordered", "duplicated"),
    ] {
        let server = Faulty::start(fault);
        let url = server.url();
        let load = ["slow", "--topics", "2", "--rate", "100", "--target", &url];
        let (code, result) = measure(&[&load[..], &SHORT, &["1"]].concat());
        assert_eq!(code, 1, "{result}");
        assert!(result["loss"][what].as_u64() > Some(0), "{result}");
        assert_eq!(result["loss"][other], 0, "{result}");
    }
}
