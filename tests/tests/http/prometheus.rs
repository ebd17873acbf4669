//! A real Prometheus with the rules and the dashboard of `deploy/`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};

use serde_json::Value;
use stentor_tests::raw::eventually;
use stentor_tests::server::free_port;
use stentor_tests::{Plan, Raw, Version, process, tools};

#[test]
fn the_rules_and_their_own_tests_are_good() {
    let folder = tools::project().join("deploy/prometheus");
    for arguments in [
        ["check", "rules", "stentor-alerts.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "stentor-alerts.test.yml"],
    ] {
        let mut promtool = tools::prometheus("promtool");
        promtool.args(arguments).current_dir(&folder);
        process::run(&mut promtool).success();
    }
}

/// A Prometheus that reads one server every second.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let rules = tools::project().join("deploy/prometheus/stentor-alerts.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n- job_name: stentor\n  static_configs:\n  \
             - targets: [\"{target}\"]\n",
            rules.display()
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("a file can be written");
        let address = format!("127.0.0.1:{}", free_port());
        let child = tools::prometheus("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus starts");
        let prometheus = Self {
            child,
            address,
            _folder: folder,
        };
        eventually("prometheus answers", || {
            prometheus.get("/-/ready").is_some()
        });
        prometheus
    }

    /// The body of an answer that is good.
    fn get(&self, path: &str) -> Option<String> {
        std::net::TcpStream::connect(&self.address).ok()?;
        let mut client = Raw::tcp(&self.address);
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes());
        let text = String::from_utf8(client.rest()).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// How many series an expression has now; `None` if it is wrong.
    fn count(&self, expression: &str) -> Option<usize> {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let body = self.get(&format!("/api/v1/query?query={encoded}"))?;
        // Long answers come in chunks, whose lengths stand between the parts.
        let json = &body[body.find('{')?..];
        let value: Value = serde_json::from_str(json.lines().next()?).ok()?;
        Some(value["data"]["result"].as_array()?.len())
    }
}

/// Each expression of the dashboard, with values for its variables.
fn expressions() -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(expression) = object.get("expr").and_then(Value::as_str) {
                    found.insert(expression.to_owned());
                }
                object.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let file = tools::project().join("deploy/grafana/stentor.json");
    let text = fs::read_to_string(file).expect("the dashboard is there");
    let value = serde_json::from_str(&text).expect("the dashboard is JSON");
    let mut found = BTreeSet::new();
    collect(&value, &mut found);
    let filled = found.iter().map(|expression| {
        let expression = expression.replace("$__rate_interval", "10s");
        expression
            .replace("$job", "stentor")
            .replace("$instance", ".*")
    });
    filled
        .filter(|it| !it.contains("changes(process_start"))
        .collect()
}

#[test]
fn every_expression_of_the_dashboard_has_values_after_a_short_load() {
    let server = Plan::new().tcp().http().anonymous().start();
    let prometheus = Prometheus::start(&server.address("http"));
    let mut client = server.client(Version::V5, "a");
    client.subscribe("a/#", 0);
    let expressions = expressions();
    assert!(expressions.len() > 30, "{expressions:?}");
    for expression in &expressions {
        eventually(expression, || {
            client.publish("a/b", b"x");
            let _ = client.message();
            let count = prometheus.count(expression);
            assert!(count.is_some(), "Prometheus refuses {expression}");
            count > Some(0)
        });
    }
    let rules = prometheus.get("/api/v1/rules").expect("it has rules");
    assert_eq!(rules.matches("\"health\":\"ok\"").count(), 13, "{rules}");
    assert_eq!(rules.matches("\"state\":\"firing\"").count(), 0, "{rules}");
    assert_eq!(prometheus.count("up{job=\"stentor\"} == 1"), Some(1));
}
