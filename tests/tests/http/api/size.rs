//! Lists of a server with very much in it. `STENTOR_SOAK=1` takes 80,000 clients and 1,000,000
//! topics, as `docs/figures.md` has them; otherwise there are fewer of both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stentor_tests::raw::connect;
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, token};

/// How long a list may take beside everything that the machine does otherwise.
const LIST_TIME: Duration = Duration::from_secs(30);

/// How long a bystander may wait for an answer, 99 times of 100.
const PING_TIME: Duration = Duration::from_secs(1);

/// What a page may have, in bytes of JSON.
const PAGE_BYTES: usize = 12 << 20;

/// Sessions and topics.
fn size() -> (usize, usize) {
    match std::env::var_os("STENTOR_SOAK") {
        Some(_) => (80_000, 1_000_000),
        None => (2_000, 20_000),
    }
}

/// Sessions whose clients are away: a process has descriptors for fewer connections.
#[track_caller]
fn fill_sessions(server: &Server, count: usize) {
    for at in 0..count {
        let mut client = server.dial();
        client.send(&connect(Version::V5, &format!("client-{at:06}"), false));
        assert_eq!(client.expect(2).body[1], 0, "client {at}");
        client.send(&stentor_tests::raw::subscribe(
            Version::V5,
            1,
            &format!("s/{}/{at}", at % 100),
            0,
        ));
        let _ = client.expect(9);
        client.send(&[0xe0, 0]);
    }
}

#[track_caller]
fn fill_topics(server: &Server, root: &str, count: usize) {
    let all: Vec<usize> = (0..count).collect();
    for part in all.chunks(1_000) {
        let messages = part.iter().map(|at| {
            let topic = format!("s/{}/{at}", at % 100);
            json!({ "topic": topic, "payload": "x" })
        });
        let put = json!({ "messages": messages.collect::<Vec<Value>>() });
        let (status, answer) = post(server, "retained/put", root, &put);
        assert_eq!(
            (status, &answer["new"]),
            (200, &json!(part.len())),
            "{answer}"
        );
    }
}

/// What is asked, and the key of the answer's list.
const LISTS: [(&str, Option<&str>); 20] = [
    ("clients/ls?limit=100", Some("clients")),
    ("clients/ls?limit=100&by=bytes", Some("clients")),
    ("clients/ls?limit=100&by=away&offset=1900", Some("clients")),
    ("clients/ls?limit=100&lasting=true&by=lost", Some("clients")),
    ("clients/ls?limit=10000", Some("clients")),
    ("clients/ls?limit=100&containing=nowhere", Some("clients")),
    ("clients/show?client_id=client-001999", Some("filters")),
    ("topics?limit=100", Some("filters")),
    ("topics?limit=10000&containing=99/", Some("filters")),
    ("topics/children?limit=100&below=s", Some("names")),
    ("topics/children?limit=10000&below=s/7", Some("names")),
    ("subscriptions?topic=s/7/7&limit=100", Some("subscriptions")),
    ("retained/page?filter=%23", Some("messages")),
    ("retained/page?filter=s/7/%23", Some("messages")),
    ("retained/page?filter=nowhere/%23", Some("messages")),
    ("events?limit=10000", Some("events")),
    ("zones", Some("zones")),
    ("status", None),
    ("retained/status", None),
    ("metrics", None),
];

/// How many rows an answer may have; a page of kept messages, 1,000 and those of one more step.
fn limit(path: &str) -> usize {
    let limit = path
        .split(['?', '&'])
        .find_map(|part| part.strip_prefix("limit="));
    limit.map_or(2_000, |text| text.parse().expect("a number"))
}

#[test]
fn lists_of_a_full_server_are_bounded_and_hold_up_nobody() {
    let (sessions, topics) = size();
    let config = format!(
        "[limits]\nsessions_per_address = 0\n[retained]\nmessages = {}\n",
        topics + 1_000
    );
    let plan = Plan::new().config(&config).tcp().http().anonymous();
    let server = plan.arg("--shards=2").start();
    let root = token(&server, "root", &["admin"]);
    fill_sessions(&server, sessions);
    fill_topics(&server, &root, topics);
    let (_, listed) = get(&server, "clients/ls?limit=1", &root);
    assert_eq!(listed["total"], json!(sessions));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let names = ["bystander-1", "bystander-2", "bystander-3", "bystander-4"];
        let bystanders = names.map(|name| scope.spawn(|| pings(&server, name, &is_over)));
        for (path, key) in LISTS {
            let begun = Instant::now();
            let (status, answer) = get(&server, path, &root);
            let took = begun.elapsed();
            let bytes = answer.to_string().len();
            eprintln!("{path}: {took:?}, {bytes} B");
            assert_eq!(status, 200, "{path}: {answer}");
            assert!(
                bytes <= PAGE_BYTES && took <= LIST_TIME,
                "{path}: {took:?}, {bytes} B"
            );
            let rows = key.map_or(0, |key| answer[key].as_array().map_or(0, Vec::len));
            assert!(rows <= limit(path), "{path}: {rows} rows");
            let is_empty = path.contains("nowhere") || key.is_none();
            assert_eq!(rows == 0, is_empty, "{path}: {rows} rows");
        }
        drop(over);
        for bystander in bystanders {
            let slow = bystander.join().expect("the bystander was served");
            assert!(slow < PING_TIME, "a ping took {slow:?}");
        }
    });
}

/// Says that it is over, also when the test fails.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pings until it is over; the 99th percentile.
fn pings(server: &Server, name: &str, is_over: &AtomicBool) -> Duration {
    let mut client: Raw = server.client(Version::V5, name);
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.ping();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
