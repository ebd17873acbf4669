//! `stentor clients ls --by …`: who sends and receives most.

use stentor_tests::{Server, Version};

#[test]
fn connections_are_ranked_by_what_has_gone_over_them() {
    const MESSAGES: u64 = 10;
    let server = Server::open();
    let mut reader = server.client(Version::V5, "a-reader");
    let mut writer = server.client(Version::V5, "b-writer");
    let mut idle = server.client(Version::V5, "c-idle");
    reader.subscribe("t", 1);
    for _ in 0..MESSAGES / 2 {
        writer.publish("t", &[b'x'; 1_000]);
        writer.publish_surely("t", &[b'x'; 1_000]);
    }
    for _ in 0..MESSAGES {
        let _ = reader.message();
    }
    idle.ping();
    let first = |by: &str| {
        let told = server.json(&["clients", "ls", "--by", by]);
        told["clients"][0].clone()
    };
    let most = first("received");
    assert_eq!(most["client_id"], "b-writer", "{most}");
    let connection = &most["connection"];
    assert_eq!(connection["received"], MESSAGES, "{connection}");
    let bytes = |key: &str| connection[key].as_u64().expect("a number");
    assert!(bytes("received_bytes") > MESSAGES * 1_000, "{connection}");
    assert_eq!(connection["sent"], 0, "{connection}");
    assert!(bytes("sent_bytes") > 0, "it has had acknowledgements");
    assert_eq!(first("received-bytes")["client_id"], "b-writer");
    for by in ["sent", "sent-bytes"] {
        let most = first(by);
        assert_eq!(most["client_id"], "a-reader", "{by}");
        assert_eq!(most["connection"]["sent"], MESSAGES, "{most}");
        assert_eq!(most["connection"]["received"], 0, "{most}");
    }
    assert_eq!(
        first("lost")["client_id"],
        "a-reader",
        "nobody has lost anything"
    );
    assert_eq!(first("id")["client_id"], "a-reader");
    let text = server
        .control(&["clients", "ls", "--sort", "sent", "--limit", "1"])
        .success();
    assert!(text.starts_with("SENT  CLIENT    ZONE"), "{text}");
    assert!(text.contains("10    a-reader"), "{text}");
    let text = server.control(&["clients", "show", "a-reader"]).success();
    assert!(text.contains("10 messages, "), "{text}");
}
