//! Traces by HTTP.

use serde_json::{Value, json};
use stentor_tests::Version;
use stentor_tests::raw::eventually;

use super::{get, post, server, token};

/// Somebody who only looks takes nothing away from whoever has begun a trace.
#[test]
fn several_read_one_trace() {
    let server = server();
    let olga = token(&server, "olga", &["operator"]);
    let vic = token(&server, "vic", &["viewer"]);
    let mut pump = server.client(Version::V5, "pump");
    let (status, begun) = post(
        &server,
        "traces/start",
        &olga,
        &json!({ "client_id": "pump" }),
    );
    assert_eq!(status, 200, "{begun}");
    let id = begun["id"].as_u64().expect("a number");
    let read = |token: &str, after: u64| {
        let (status, lines) = get(
            &server,
            &format!("traces/read?id={id}&after={after}"),
            token,
        );
        assert_eq!(status, 200, "{lines}");
        lines
    };
    let packets = |lines: &Value| -> Vec<String> {
        let lines = lines["lines"].as_array().expect("a list");
        let packets = lines.iter().map(|line| line["packet"].to_string());
        packets.collect()
    };
    eventually("a packet is traced", || {
        pump.ping();
        packets(&read(&vic, 0)).contains(&"\"PINGRESP\"".to_owned())
    });
    let seen = read(&vic, 0);
    assert_eq!(packets(&read(&olga, 0)), packets(&seen));
    let cursor = seen["cursor"].as_u64().expect("a cursor");
    assert_eq!(packets(&read(&olga, cursor)), [""; 0]);
    pump.ping();
    eventually("the next packets are traced", || {
        packets(&read(&olga, cursor)) == ["\"PINGREQ\"", "\"PINGRESP\""]
    });
    let (status, _) = post(&server, "traces/stop", &olga, &json!({ "id": id }));
    assert_eq!(status, 200);
    let rest = read(&vic, cursor);
    assert_eq!(
        (rest["ended"].clone(), packets(&rest).len()),
        (json!(true), 2)
    );
}
