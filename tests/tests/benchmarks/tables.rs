//! The published tables: what stands beside the figures of 2002 and 2005, and a server of
//! procedures that runs already.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;
use stentor_tests::Plan;
use stentor_tests::process::run;
use stentor_tests::server::stentor;

use crate::{measure, measure_each};

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
