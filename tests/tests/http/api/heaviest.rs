//! The heaviest topics and clients, of a server that looks at one publish in 64.

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, publish};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, server, token};

/// Publishes in one write, and waits until all of it has been read.
fn flood(client: &mut Raw, topic: &str, payload: &[u8], times: usize) {
    client.send(&publish(Version::V5, topic, payload, 0, false).repeat(times));
    client.ping();
}

/// What is first in a list, with how many there are.
#[track_caller]
fn first(server: &Server, path: &str, token: &str) -> Value {
    let (status, told) = get(server, path, token);
    assert_eq!(status, 200, "{told}");
    let list = if path.starts_with("topics") {
        "topics"
    } else {
        "clients"
    };
    let first = told[list][0].clone();
    assert!(first.is_object(), "{told}");
    first
}

#[test]
fn a_flood_among_two_hundred_is_named_first_with_its_topic() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let quiet: Vec<Raw> = (0..200)
        .map(|n| {
            let mut client = server.client(Version::V5, &format!("quiet-{n}"));
            client.publish(&format!("quiet/{n}"), b"21.5");
            client.ping();
            client
        })
        .collect();
    let mut flooder = server.client(Version::V5, "flooder");
    flood(&mut flooder, "much/ado", b"123", 64 * 200);
    // One publish among 127 is looked at, so some of these are.
    let mut bulky = server.client(Version::V5, "bulky");
    flood(&mut bulky, "large/thing", &[0; 20_000], 300);

    let topic = first(&server, "topics/heaviest", &root);
    assert_eq!(topic["topic"], "much/ado", "{topic}");
    assert_eq!(topic["zone"], "default", "{topic}");
    assert_eq!(topic["mostly_by"]["client_id"], "flooder", "{topic}");
    let rates = ["messages_per_sec", "bytes_per_sec"].map(|key| topic[key].as_f64().unwrap());
    assert!((rates[1] / rates[0] - 3.0).abs() < 0.01, "{topic}");
    let client = first(&server, "clients/heaviest?limit=1", &root);
    assert_eq!(client["client_id"], "flooder", "{client}");
    assert_eq!(client["mostly_to"], "much/ado", "{client}");

    let topic = first(&server, "topics/heaviest?by=bytes", &root);
    assert_eq!(topic["topic"], "large/thing", "{topic}");
    let client = first(&server, "clients/heaviest?by=bytes", &root);
    assert_eq!(client["client_id"], "bulky", "{client}");
    drop(quiet);
}

#[test]
fn the_answer_says_what_its_figures_are_worth() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut client = server.client(Version::V5, "c");
    // More than there are places on a shard.
    for n in 0..64 {
        for m in 0..300 {
            client.publish(&format!("t/{}", m + n % 2), b"x");
        }
    }
    client.ping();
    let (_, told) = get(&server, "topics/heaviest?limit=3", &root);
    assert_eq!(told["topics"].as_array().map(Vec::len), Some(3), "{told}");
    assert_eq!(
        (&told["one_in"], &told["by"]),
        (&json!(64), &json!("messages"))
    );
    assert_eq!(
        (&told["truncated"], &told["silent_shards"]),
        (&json!(true), &json!(0))
    );
    let figure = |of: &Value, key: &str| of[key].as_f64().unwrap_or(-1.0);
    let window = figure(&told, "window_secs");
    assert!(window > 0.0 && window <= 120.0, "{told}");
    let all = figure(&told, "messages_per_sec") * window.max(1.0);
    assert!((10_000.0..30_000.0).contains(&all), "{all}: {told}");
    for row in told["topics"].as_array().into_iter().flatten() {
        assert!(figure(row, "error") >= 0.0, "{row}");
        assert!(
            figure(row, "error") < figure(row, "messages_per_sec"),
            "{row}"
        );
    }
    let (status, problem) = get(&server, "topics/heaviest?by=weight", &root);
    assert_eq!(
        (status, &problem["code"]),
        (400, &json!("bad-request")),
        "{problem}"
    );
    let (status, problem) = get(&server, "clients/heaviest?zone=none", &root);
    assert_eq!(
        (status, &problem["code"]),
        (404, &json!("not-found")),
        "{problem}"
    );
}

#[test]
fn what_is_published_by_http_counts_for_its_user() {
    let server = server();
    let root = token(&server, "root", &["admin", "member"]);
    let message = json!({ "topic": "by/http", "payload": "x" });
    for _ in 0..2 * 127 {
        let (status, told) = post(&server, "publish", &root, &message);
        assert_eq!(status, 200, "{told}");
    }
    let client = first(&server, "clients/heaviest", &root);
    assert_eq!(
        (&client["client_id"], &client["user"]),
        (&Value::Null, &json!("root"))
    );
    assert_eq!(client["mostly_to"], "by/http", "{client}");
}

#[test]
fn a_zone_administrator_sees_the_own_zone_alone() {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  anonymous = true\n";
    let plan = Plan::new().config(config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let gus = token(&server, "game/gus", &["admin"]);
    let root = token(&server, "root", &["admin"]);
    let mut other = server.client(Version::V5, "pump");
    flood(&mut other, "secret/plan", b"x", 64 * 50);
    let mut own = server.dial();
    own.send(&connect_as(Version::V5, "hero", true, Some(("", &gus))));
    assert_eq!(own.expect(2).body[1], 0);
    own.speaks(Version::V5);
    flood(&mut own, "score", b"x", 64 * 10);

    for path in ["topics/heaviest", "clients/heaviest"] {
        let (status, told) = get(&server, path, &gus);
        assert_eq!(status, 200, "{told}");
        let text = told.to_string();
        assert!(text.contains("score") && text.contains("hero"), "{text}");
        for word in ["secret", "pump", "default"] {
            assert!(!text.contains(word), "{text}");
        }
        // All zones together publish more.
        assert_eq!(told["messages_per_sec"], Value::Null, "{told}");
        let elsewhere = get(&server, &format!("{path}?zone=default"), &gus);
        assert_eq!(
            (elsewhere.0, &elsewhere.1["code"]),
            (403, &json!("other-zone"))
        );
        let all = get(&server, path, &root).1.to_string();
        assert!(all.contains("secret") && all.contains("score"), "{all}");
        let (_, game) = get(&server, &format!("{path}?zone=game"), &root);
        assert!(!game.to_string().contains("secret"), "{game}");
    }
}
