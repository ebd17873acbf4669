//! Loads over TLS, WebSocket and Unix sockets.

use stentor_tests::Plan;
use stentor_tests::process::run;
use stentor_tests::server::{Server, stentor};

use crate::measure_each;

const TRANSPORTS: [&str; 5] = ["mqtt", "mqtts", "ws", "wss", "unix"];

fn over_all(arguments: &[&str]) {
    let mut words = arguments.to_vec();
    for transport in TRANSPORTS {
        words.extend(["--transport", transport]);
    }
    let (finished, results) = measure_each(&words);
    let carried = results
        .iter()
        .map(|r| r["parameters"]["transport"].as_str().unwrap());
    assert_eq!(carried.collect::<Vec<_>>(), TRANSPORTS, "{finished}");
    // Not whether it kept the pace: a machine that does other things as well may not.
    for result in &results {
        assert_eq!(result["loss"]["lost"], 0, "{result}");
        assert_eq!(result["loss"]["failed"], 0, "{result}");
    }
}

#[test]
fn a_fanout_has_a_row_for_each() {
    let load = [
        "fanout",
        "ice-1",
        "--publishers",
        "2",
        "--subscribers",
        "20",
        "--no-floor",
    ];
    let time = [
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--pairs",
        "1",
        "--qos",
        "1",
    ];
    over_all(&[&load[..], &time].concat());
}

#[test]
fn as_much_as_fits_goes_through_each() {
    let load = [
        "fanout",
        "ice-1",
        "--rate",
        "max",
        "--window",
        "64",
        "--no-floor",
    ];
    let more = [
        "--publishers",
        "1",
        "--subscribers",
        "8",
        "--seconds",
        "1",
        "--warmup",
        "0",
    ];
    over_all(&[&load[..], &more, &["--pairs", "1"]].concat());
}

#[test]
fn idle_connections_have_a_row_for_each() {
    over_all(&["idle", "--connections", "30", "--pairs", "1", "--no-floor"]);
}

/// A server that runs already, reached by its Unix socket; more at once than its backlog holds.
#[test]
fn a_unix_socket_is_a_target() {
    let plan = Plan::new().anonymous();
    let socket = plan.folder().join("mqtt.sock");
    let url = format!("unix:{}", socket.display());
    let _server = plan.listen(&url).start();
    for load in [
        &["fanout", "ice-1", "--publishers", "1", "--subscribers", "9"][..],
        &["connect", "--connections", "2000"],
    ] {
        let more: &[&str] = match load[0] {
            "fanout" => &["--seconds", "1", "--warmup", "0"],
            _ => &[],
        };
        let target = ["--no-floor", "--pairs", "1", "--target", &url];
        let (finished, results) = measure_each(&[load, more, &target].concat());
        assert_eq!(results.len(), 1, "{finished}");
        let result = &results[0];
        assert_eq!(result["loss"]["failed"], 0, "{result}");
        assert_eq!(result["loss"]["lost"], 0, "{result}");
        assert_eq!(result["server"], url, "{result}");
    }
}

/// mosquitto, which the other tests use too, over TLS and by a Unix socket; twice, tuned and as it
/// comes.
#[test]
fn a_rival_is_measured_in_both_of_its_configurations() {
    for transport in ["mqtts", "unix"] {
        let (finished, results) = measure_each(&[
            "idle",
            "--connections",
            "20",
            "--pairs",
            "1",
            "--no-floor",
            "--against",
            "mosquitto",
            "--transport",
            transport,
        ]);
        let rivals = results[0]["rivals"].as_array().unwrap();
        let names: Vec<&str> = rivals.iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["mosquitto-tuned", "mosquitto-defaults"],
            "{finished}"
        );
        for rival in rivals {
            assert_eq!(rival["loss"]["failed"], 0, "{transport}: {rival}");
            assert_eq!(rival["verdict"]["result"], "sound", "{transport}: {rival}");
            let system = &rival["system"];
            let version = system["version"].as_str().unwrap();
            assert!(version.contains("mosquitto version"), "{system}");
            let configuration = system["configuration"].as_str().unwrap();
            assert!(configuration.contains("allow_anonymous true"), "{system}");
        }
    }
}

/// Nothing but a handshake that never comes: the run ends, and says so.
#[test]
fn a_server_without_tls_is_no_target_over_tls() {
    let server = Server::open();
    let target = format!("mqtts://{}", server.address("mqtt"));
    let finished = run(stentor().args(["bench", "idle", "--target", &target]));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stdout.contains("NOT RUN"), "{finished}");
}

/// One that runs already is trusted by the authority that --cafile names, and not without.
#[test]
fn a_secure_server_is_a_target() {
    for scheme in ["mqtts", "wss"] {
        let (plan, certificates) = Plan::new().anonymous().certificates();
        let server = plan.listen(&format!("{scheme}://127.0.0.1:0")).start();
        let target = ["--target", server.url(scheme), "--placement", "free"];
        let load = ["fanout", "ice-1", "--publishers", "1", "--subscribers", "9"];
        let time = ["--seconds", "1", "--warmup", "0", "--pairs", "1"];
        let arguments = [&load[..], &time, &target, &["--no-floor"]].concat();
        let (finished, results) = measure_each(&arguments);
        assert_eq!(finished.status.code(), Some(3), "{finished}");
        let why = results[0]["verdict"]["why"].as_str().unwrap_or_default();
        assert!(why.contains("certificate"), "{finished}");
        let authority = certificates.authority().display().to_string();
        let trusting = ["--cafile", &authority];
        let (finished, results) = measure_each(&[&arguments[..], &trusting].concat());
        for what in ["lost", "failed", "corrupt"] {
            assert_eq!(results[0]["loss"][what], 0, "{finished}");
        }
        assert!(results[0]["measured"]["deliveries_per_s"].is_object());
    }
}
