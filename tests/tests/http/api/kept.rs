//! Publishes on connections that are kept, many at once.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{Answer, bearer, json_of, server, token};

/// A connection that is kept.
struct Kept {
    client: Raw,
    token: String,
}

/// Some connections. The server knows the token afterwards: it checks few new ones at once.
#[track_caller]
fn open(server: &Server, token: &str, count: usize) -> Vec<Kept> {
    let mut all: Vec<_> = (0..count).map(|_| Kept::open(server, token)).collect();
    all[0].send(&json!({ "topic": "known" }));
    assert_eq!(all[0].answer().0, 200);
    all
}

impl Kept {
    fn open(server: &Server, token: &str) -> Self {
        let client = Raw::tcp(&server.address("http"));
        let token = token.to_owned();
        Self { client, token }
    }

    fn request(&self, message: &Value) -> Vec<u8> {
        let (body, bearer) = (message.to_string(), bearer(&self.token));
        format!(
            "POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\n{bearer}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    #[track_caller]
    fn send(&mut self, message: &Value) {
        let request = self.request(message);
        self.client.send(&request);
    }

    /// The answer to the oldest request that has none.
    #[track_caller]
    fn answer(&mut self) -> (u16, Value) {
        let text = |bytes| String::from_utf8(bytes).expect("the answer is text");
        let head = text(self.client.until(b"\r\n\r\n"));
        let body = text(self.client.until(b"\n"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        json_of(Answer {
            status: status.unwrap_or_else(|| panic!("this is no answer: {head:?}")),
            head: head.to_lowercase(),
            body,
            set_cookie: None,
        })
    }
}

/// Small ones and retained ones go different ways through the server.
#[test]
fn messages_of_a_connection_keep_their_order() {
    const CONNECTIONS: usize = 20;
    const MESSAGES: usize = 20;
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut subscriber = server.client(Version::V5, "subscriber");
    subscriber.subscribe("a/#", 1);
    let mut all = open(&server, &ann, CONNECTIONS);
    for number in 0..MESSAGES {
        let is_retained = number % 5 == 4;
        for (place, one) in all.iter_mut().enumerate() {
            let (topic, payload) = (format!("a/{place}"), number.to_string());
            let message =
                json!({ "topic": topic, "payload": payload, "qos": 1, "retain": is_retained });
            one.send(&message);
        }
        for (place, one) in all.iter_mut().enumerate() {
            let expected = json!({ "topic": format!("a/{place}"), "kept": is_retained });
            assert_eq!(one.answer(), (200, expected));
        }
    }
    let mut next = [0; CONNECTIONS];
    for _ in 0..CONNECTIONS * MESSAGES {
        let (topic, payload) = subscriber.message();
        let place = topic.strip_prefix("a/").and_then(|it| it.parse().ok());
        let place: usize = place.expect("the topic names a connection");
        assert_eq!(payload, next[place].to_string().into_bytes(), "{topic}");
        next[place] += 1;
    }
    assert_eq!(next, [MESSAGES; CONNECTIONS]);
    subscriber.ping();
}

/// More than are begun at once, and than there are threads.
#[test]
fn eighty_at_once_are_answered() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut all = open(&server, &ann, 80);
    let message = json!({ "topic": "a/b", "payload": "x" });
    for _ in 0..5 {
        all.iter_mut().for_each(|one| one.send(&message));
        for one in &mut all {
            let (status, answer) = one.answer();
            assert_eq!(status, 200, "{answer}");
        }
    }
}

/// A turn of a shard publishes as many as it has time for. The next turns publish the others.
#[test]
fn messages_to_many_take_several_turns() {
    const SUBSCRIBERS: usize = 500;
    const MESSAGES: usize = 64;
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut subscribers: Vec<Raw> = (0..SUBSCRIBERS)
        .map(|number| {
            let mut client = server.client(Version::V5, &format!("subscriber-{number}"));
            client.subscribe("a/#", 0);
            client
        })
        .collect();
    let mut all = open(&server, &ann, MESSAGES);
    // All are there when the server looks.
    server.signal(Signal::SIGSTOP);
    for one in &mut all {
        one.send(&json!({ "topic": "a/b" }));
    }
    server.signal(Signal::SIGCONT);
    for one in &mut all {
        assert_eq!(one.answer().0, 200);
    }
    for client in &mut subscribers {
        for _ in 0..MESSAGES {
            assert_eq!(client.message().0, "a/b");
        }
    }
}

#[test]
fn requests_that_do_not_wait_are_answered_in_order() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut subscriber = server.client(Version::V5, "subscriber");
    subscriber.subscribe("a/#", 0);
    let mut one = Kept::open(&server, &ann);
    let topics = ["a/1", "a/2", "a/#", "a/3"];
    let requests = topics.map(|topic| one.request(&json!({ "topic": topic })));
    one.client.send(&requests.concat());
    for topic in topics {
        let (status, answer) = one.answer();
        match topic {
            "a/#" => assert_eq!(status, 400, "{answer}"),
            _ => assert_eq!((status, &answer["topic"]), (200, &json!(topic))),
        }
    }
    for topic in ["a/1", "a/2", "a/3"] {
        assert_eq!(subscriber.message().0, topic);
    }
}

/// The answer waits for the disk where the topic keeps its last message.
#[test]
fn a_topic_that_keeps_its_last_message_says_so() {
    for sync in ["always", "never"] {
        let config = format!(
            "[retained]\nsync = \"{sync}\"\n[[policy]]\nfilter = \"tick/#\"\nkeep = \"last\"\n"
        );
        let plan = Plan::new().tcp().anonymous().config(&config);
        let server = plan.http().start();
        let ann = token(&server, "ann", &["member"]);
        let mut all = open(&server, &ann, 30);
        for (place, one) in all.iter_mut().enumerate() {
            one.send(&json!({ "topic": format!("tick/{place}"), "payload": "x" }));
        }
        for (place, one) in all.iter_mut().enumerate() {
            let expected = json!({ "topic": format!("tick/{place}"), "kept": true });
            assert_eq!(one.answer(), (200, expected), "{sync}");
        }
        let server = server.kill().start();
        let mut late = server.client(Version::V5, "late");
        late.subscribe("tick/#", 0);
        let mut topics: Vec<String> = (0..30).map(|_| late.message().0).collect();
        topics.sort_unstable();
        topics.dedup();
        assert_eq!(topics.len(), 30, "{sync}: {topics:?}");
    }
}
