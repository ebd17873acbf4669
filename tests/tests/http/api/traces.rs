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

/// A message that is published by HTTP has no client, but a user, an address and a topic.
#[test]
fn what_is_published_by_http_is_in_traces_by_topic_and_user() {
    let server = server();
    let olga = token(&server, "olga", &["operator"]);
    let shop = token(&server, "shop", &["member"]);
    let start = |rule: Value| -> u64 {
        let (status, begun) = post(&server, "traces/start", &olga, &rule);
        assert_eq!(status, 200, "{begun}");
        begun["id"].as_u64().expect("a number")
    };
    let by_topic = start(json!({ "topic": "orders/#" }));
    let by_user = start(json!({ "user": "shop", "address": "127.0.0.1" }));
    let by_others = [
        json!({ "topic": "bills/#" }),
        json!({ "user": "olga" }),
        json!({ "client_id": "shop" }),
        json!({ "address": "192.0.2.1" }),
    ];
    let by_others = by_others.map(start);
    let small = json!({ "topic": "orders/17", "payload": "tea", "qos": 1 });
    // One that takes another way through the server.
    let stored = json!({ "topic": "orders/18", "payload": "milk", "retain": true });
    for message in [&small, &stored] {
        assert_eq!(post(&server, "publish", &shop, message).0, 200);
    }
    let lines = |id: u64| -> Vec<Value> {
        let (_, read) = get(&server, &format!("traces/read?id={id}"), &olga);
        read["lines"].as_array().expect("a list").clone()
    };
    for id in [by_topic, by_user] {
        let lines = lines(id);
        let topics: Vec<&str> = lines.iter().filter_map(|it| it["topic"].as_str()).collect();
        assert_eq!(topics, ["orders/17", "orders/18"], "{lines:?}");
        assert_eq!(lines[0]["packet"], "PUBLISH", "{lines:?}");
        assert_eq!(lines[0]["way"], "received", "{lines:?}");
        let text = lines[0]["text"].as_str().unwrap_or_default();
        let says = "qos=1 payload=3 bytes user=\"shop\" by HTTP from 127.0.0.1";
        assert_eq!(text, says, "{lines:?}");
        let text = lines[1]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("qos=0 retain payload=4 bytes"), "{text}");
        assert_eq!(lines[0]["payload"], Value::Null, "{lines:?}");
    }
    for id in by_others {
        assert_eq!(lines(id), [] as [Value; 0]);
    }
}
