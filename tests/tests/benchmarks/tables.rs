//! The published tables: what stands beside the figures of 2005.

use serde_json::Value;

use crate::measure_each;

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
