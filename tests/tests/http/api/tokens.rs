//! Tokens that are shown for the first time, or again.

use serde_json::json;
use stentor_tests::Raw;

use super::{bearer, get, post, role, server, token};

/// Wrong tokens are answered late. More of them than may wait keep no right one out.
#[test]
fn wrong_tokens_keep_right_ones_of_others_out_for_no_time() {
    const WRONG: usize = 40;
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let olga = token(&server, "olga", &["viewer"]);
    // The secret of one, and the name of the other.
    let secret = root.split_once('.').expect("it has a name").0;
    let name = olga.split_once('.').expect("it has a name").1;
    let headers = bearer(&format!("{secret}.{name}"));
    let request = format!("GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let wrong: Vec<Raw> = (0..WRONG)
        .map(|_| {
            let mut client = Raw::tcp(&server.address("http"));
            client.send(request.as_bytes());
            client
        })
        .collect();
    let (status, answer) = get(&server, "health", &root);
    assert_eq!(status, 200, "{answer}");
    drop(wrong);
}

/// A change of somebody else asks nobody about a token again: its quota counts on.
#[test]
fn a_token_stays_known_while_others_change() {
    let server = server();
    role(&server, "slow", &["allow publish a"]);
    let change = ["role", "change", "slow", "--messages-per-sec", "1"];
    server.control(&change).success();
    let sam = token(&server, "sam", &["slow"]);
    let publish = || post(&server, "publish", &sam, &json!({ "topic": "a" })).0;
    let used_up = (0..200).any(|_| publish() == 429);
    assert!(used_up, "a token publishes faster than its quota allows");
    for name in ["tom", "tim"] {
        server
            .control(&["user", "add", name, "--no-password"])
            .success();
        // A second lasts longer than this.
        assert_eq!(publish(), 429, "{name} was added");
    }
    let (_, problem) = post(&server, "publish", &sam, &json!({ "topic": "a" }));
    assert_eq!(problem["code"], "quota", "{problem}");
    for (key, part) in [
        ("detail", "messages_per_sec = 1 of its roles (slow)"),
        ("detail", "stentor role change ROLE --messages-per-sec N"),
        ("remedy", "raise the quota"),
    ] {
        let text = problem[key].as_str().unwrap_or_default();
        assert!(text.contains(part), "{part}: {problem}");
    }
}
