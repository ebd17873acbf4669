//! The published tables: what stands beside the figures of 2002 and 2005, and a server of
//! procedures that runs already.

use std::fs;
use std::net::TcpListener;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stentor_tests::process::{finish, pid_of, run, start};
use stentor_tests::raw::eventually;
use stentor_tests::server::stentor;
use stentor_tests::{DEADLINE, Plan};

use crate::{measure, measure_each, measure_sound};

/// The median of a figure of the server.
fn figure(result: &Value, key: &str) -> f64 {
    let median = result["measured"][key]["median"].as_f64();
    median.unwrap_or_else(|| panic!("{key}: {result}"))
}

/// Memory before and during, and both shares of the processors, measured of the server's process.
#[test]
fn logins_have_memory_and_processor_time_as_published() {
    let load = ["login", "--connections", "50", "--proof", "token"];
    let (finished, results) = measure_each(&[&load[..], &["--pairs", "1"]].concat());
    let [result] = results.as_slice() else {
        panic!("one workload: {finished}");
    };
    assert_eq!(result["verdict"]["result"], "sound", "{finished}");
    let (before, during) = (
        figure(result, "memory_before_bytes"),
        figure(result, "memory_during_bytes"),
    );
    assert!(before > 1e6 && during > 1e6, "{result}");
    // Nothing else has a part in it: the accounts are in the server's own process.
    assert_eq!(figure(result, "both_memory_before_bytes"), before);
    assert_eq!(figure(result, "both_memory_during_bytes"), during);
    assert!(result["measured"]["auth_memory_before_bytes"].is_null());
    let (of_one, of_all) = (
        figure(result, "server_cpu_percent"),
        figure(result, "machine_cpu_percent"),
    );
    let processors = result["machine"]["processors"].as_f64().unwrap();
    assert!(
        (of_one / of_all / processors - 1.0).abs() < 0.01,
        "{result}"
    );
    for label in ["server before", "server during", "CPU of machine"] {
        assert!(finished.stdout.contains(label), "{label}: {finished}");
    }
    // Fifty are not what was published.
    assert!(result["published"].is_null(), "{result}");
}

/// What the command line of a benchmark of calls needs of a server.
fn calls() -> stentor_tests::Server {
    Plan::new().listen("call://127.0.0.1:0").start()
}

#[test]
fn calls_have_both_shares_of_the_processors_and_the_published_columns() {
    let (finished, results) = measure_each(&["call", "--calls", "100"]);
    finished.success();
    let result = &results[0];
    assert!(figure(result, "server_cpu_percent") >= 0.0, "{result}");
    assert!(figure(result, "machine_cpu_percent") >= 0.0, "{result}");
    let set_ups = result["set_ups"].as_array().unwrap();
    assert_eq!(set_ups.len(), 6, "{result}");
    assert_eq!(set_ups[1]["client_cpu_s"], 11.73);
    let programs = result["programs"].as_array().unwrap();
    let each = programs.iter().map(|program| &program["s_per_call"]);
    assert!(each.clone().all(|s| s.as_f64() > Some(0.0)), "{result}");
}

#[test]
fn calls_go_to_a_server_that_runs_already() {
    let server = calls();
    let target = server.address("call");
    let (code, result) = measure(&["call", "--target", &target, "--calls", "100"]);
    assert_eq!(code, 0, "{result}");
    assert_eq!(result["server"], "stentor-call, TCP", "{result}");
    assert_eq!(result["loss"]["failed"], 0, "{result}");
    assert!(figure(&result, "call_us") > 0.0);
    assert!(figure(&result, "client_cpu_per_call_us") > 0.0);
    // It is not known which process that is, nor where.
    assert!(
        result["measured"]["server_cpu_percent"].is_null(),
        "{result}"
    );
    assert_eq!(result["parameters"]["placement"], "free", "{result}");
    let told = format!("call://{target}");
    assert_eq!(result["parameters"]["target"], told, "{result}");
    // Beside set-up 6, by a network.
    let source = result["published"]["source"].as_str().unwrap();
    assert!(source.contains("K6-2 to Duron"), "{source}");
}

#[test]
fn calls_go_over_tls_with_the_authority_that_is_named() {
    let (plan, certificates) = Plan::new().listen("calls://127.0.0.1:0").certificates();
    let server = plan.start();
    let target = format!("calls://{}", server.address("calls"));
    let authority = certificates.authority();
    let authority = authority.to_str().unwrap();
    let load = ["call", "--target", &target, "--calls", "10"];
    let (code, result) = measure(&[&load[..], &["--ca-file", authority]].concat());
    assert_eq!(code, 0, "{result}");
    assert_eq!(result["server"], "stentor-call, TLS", "{result}");
    // A certificate that nobody here trusts.
    let finished = run(stentor().arg("bench").args(load));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stderr.contains("certificate"), "{finished}");
}

#[test]
fn a_server_that_does_not_answer_calls_is_refused() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    // One that speaks MQTT.
    let server = Plan::new().tcp().anonymous().start();
    let mqtt = server.address("mqtt");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let token = token.to_str().unwrap();
    for (arguments, told) in [
        (&["--target", &*gone][..], "does not accept"),
        (&["--target", &mqtt], "does not accept"),
        (&["--target", "mqtt://127.0.0.1:1883"], "not for calls"),
        // Nothing is sent to there.
        (
            &["--target", "192.0.2.7", "--token-file", token],
            "in the clear",
        ),
        (&["--target", &gone, "--ca-file", token], "are for TLS"),
        (&["--target", &gone, "--server", token], "cannot be used"),
        (&["--token-file", token], "--target"),
    ] {
        let finished = run(stentor()
            .args(["bench", "call", "--calls", "10"])
            .args(arguments));
        assert_eq!(finished.status.code(), Some(3), "{arguments:?} {finished}");
        assert!(finished.stderr.contains(told), "{told}: {finished}");
        assert!(!finished.to_string().contains("secret"), "{finished}");
    }
}

/// A second of a fan-out to a few.
const SMALL: [&str; 11] = [
    "fanout",
    "ice-2",
    "--publishers",
    "2",
    "--subscribers",
    "12",
    "--warmup",
    "0",
    "--pairs",
    "1",
    "--seconds",
];

/// The subscribers are divided as the published ones, and each group has its own figures.
#[test]
fn subscribers_are_in_two_groups_as_published() {
    let result = measure_sound(&[&SMALL[..], &["1"]].concat());
    assert_eq!(result["parameters"]["groups"].to_string(), "[2,10]");
    for group in ["b", "c"] {
        let key = |what: &str| format!("generator_{group}_{what}");
        assert!(figure(&result, &key("rss_bytes")) > 1e6, "{result}");
        for what in ["cpu_percent", "machine_cpu_percent"] {
            assert!(figure(&result, &key(what)) >= 0.0, "{what}: {result}");
        }
        let floor = &result["floor"][key("rss_bytes")]["median"];
        assert!(floor.as_f64() > Some(1e6), "{result}");
    }
    let payload = |group| figure(&result, &format!("generator_{group}_payload_bytes_per_s"));
    assert!(payload("b") < payload("c"), "{result}");
    let all = figure(&result, "payload_bytes_per_s");
    let both = payload("b") + payload("c");
    assert!((both / all - 1.0).abs() < 0.1, "{result}");
    // Threads of one process have none.
    let result = measure_sound(&[&SMALL[..], &["1", "--workers", "2"]].concat());
    assert!(result["parameters"]["groups"].is_null(), "{result}");
    assert!(result["measured"]["generator_b_cpu_percent"].is_null());
}

/// The processes of groups that a benchmark has started.
fn groups(bench: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_group = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| {
            let parent = rest.split_whitespace().nth(1)?;
            parent.parse::<i32>().ok()
        });
        line.ends_with(b"bench\0group\0") && parent == Some(bench.as_raw())
    };
    pids.filter(is_group).map(Pid::from_raw).collect()
}

/// What a group that is gone has got, nobody knows: that is no verdict about the server.
#[test]
fn a_group_that_ends_early_is_no_measurement() {
    let mut command = stentor();
    command.arg("bench").args(SMALL).args(["2", "--no-floor"]);
    let bench = start(&mut command);
    let mut found = Vec::new();
    eventually("two groups", || {
        found = groups(pid_of(&bench));
        found.len() == 2
    });
    kill(found[0], Signal::SIGKILL).unwrap();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    let told = "of subscribers ended early";
    assert!(finished.stdout.contains(told), "{finished}");
    // The other one ends with the benchmark.
    eventually("the end of the other group", || {
        fs::read(format!("/proc/{}/cmdline", found[1])).is_ok_and(|line| line.is_empty())
            || !fs::exists(format!("/proc/{}", found[1])).unwrap_or(true)
    });
}

/// A database server of the benchmark's own, with the memory that it takes, and its end.
#[test]
fn logins_have_a_mariadb_of_their_own() {
    let load = ["login", "--store", "mariadb", "--connections", "20"];
    let once = ["--proof", "token", "--pairs", "1"];
    let (finished, results) = measure_each(&[&load[..], &once].concat());
    let [result] = results.as_slice() else {
        panic!("one workload: {finished}");
    };
    assert_eq!(result["verdict"]["result"], "sound", "{finished}");
    assert_eq!(result["parameters"]["store"], "mariadb", "{result}");
    let parts = ["memory_before_bytes", "auth_memory_before_bytes"];
    let [server, database] = parts.map(|key| figure(result, key));
    assert!(server > 1e6 && database > 1e6, "{result}");
    let both = figure(result, "both_memory_before_bytes");
    assert_eq!(both, server + database, "{result}");
    assert!(figure(result, "database_cpu_per_login_us") > 0.0);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let stays = lines.find(|line| line.contains("/stentor-bench-") && line.contains("first.sql"));
    assert_eq!(stays, None);
}

/// The suite runs the logins against MariaDB where it is installed, as it is for these tests.
#[test]
fn a_suite_has_logins_against_mariadb() {
    let only = ["bench", "suite", "--explain", "--only", "login"];
    let told = run(stentor().args(only)).success();
    assert!(told.contains("accounts in mariadb"), "{told}");
    assert!(
        told.contains("start MariaDB in a temporary folder"),
        "{told}"
    );
}

/// Debian has the server where users' PATHs do not look, and what makes its tables where they do.
#[test]
fn without_mariadb_its_row_is_left_out_and_the_reason_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut suite = stentor();
    suite.args(["bench", "suite", "--explain", "--only", "login"]);
    let told = run(suite.env("PATH", folder.path())).success();
    assert!(
        told.contains("left out: login ice-login --store mariadb: "),
        "{told}"
    );
    assert!(told.contains("accounts in sqlite"), "{told}");
    assert!(!told.contains("accounts in mariadb"), "{told}");
    let mut login = stentor();
    login.args(["bench", "login", "--store", "mariadb"]);
    let finished = run(login.env("PATH", folder.path()));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    for part in ["--store mariadb: ", "mariadb-server"] {
        assert!(finished.stderr.contains(part), "{part}: {finished}");
    }
}
