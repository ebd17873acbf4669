//! Names that clients choose to do harm, through every list, stream and figure; and names that are
//! as long as names may be.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stentor_control::{Http, Need, Verb};
use stentor_tests::raw::{connect_with_will, eventually, packet, publish, string};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, token};
use crate::metrics;
use crate::streams::open;

/// Names of clients, and levels of topics.
const NAMES: [&str; 9] = [
    "<img src=x onerror=alert(1)>",
    "\u{202e}gnp.exe\u{2066}",
    "\"}],\"x\":\"\\",
    "=cmd|' C calc'!A0",
    "line\r\nSet-Cookie: a=b\r\n\r\ndata: x",
    "\u{1}\u{7f}\u{85}\u{2028}\u{feff}",
    "a{listener=\"x\"} 1\nstentor_fake 1",
    "\u{1f4a3}e\u{301}\u{ffff}",
    "${jndi:ldap:x}%s%n%00",
];

/// A payload that is not a text.
const BINARY: &[u8] = b"\x00\xff<b>\r\n\r\ndata: x\n\n";

fn place() -> Server {
    let config = "[limits]\ntopic_bytes = 65535\n";
    let plan = Plan::new().config(config).tcp().http();
    plan.anonymous().start()
}

/// Requests by which verbs that look show what has such a name.
fn query(verb: Verb, name: &str) -> Value {
    match verb {
        Verb::ClientsShow => json!({ "client_id": name }),
        Verb::SessionsQueue => json!({ "client_id": name, "payloads": true }),
        Verb::Why => json!({ "client_id": name, "topic": format!("t/{name}") }),
        Verb::RoomsShow => json!({ "room": "lobby" }),
        Verb::UsersShow | Verb::TokensLs => json!({ "name": "root" }),
        Verb::RolesShow => json!({ "name": "admin" }),
        Verb::RetainedPage => json!({ "filter": "t/#" }),
        Verb::RetainedHistory => json!({ "topic": format!("t/{name}") }),
        Verb::Subscriptions => json!({ "topic": format!("t/{name}") }),
        Verb::TopicsChildren => json!({ "below": "t" }),
        Verb::TracesRead => json!({ "id": 1 }),
        _ => json!({}),
    }
}

/// Whether a text is somewhere in a value, as it is.
fn has(value: &Value, text: &str) -> bool {
    match value {
        Value::String(one) => one == text,
        Value::Array(all) => all.iter().any(|one| has(one, text)),
        Value::Object(all) => all.values().any(|one| has(one, text)),
        _ => false,
    }
}

/// A client that publishes under its name, and whose will waits.
#[track_caller]
fn hostile(server: &Server, name: &str) -> Raw {
    let topic = format!("t/{name}");
    let mut client = server.dial();
    client.send(&connect_with_will(name, &topic));
    assert_eq!(client.expect(2).body[1], 0, "{name:?}");
    client.speaks(Version::V5);
    client.subscribe(&topic, 1);
    client.send(&publish(Version::V5, &topic, BINARY, 0, true));
    client.ping_among_messages();
    client
}

#[test]
fn every_list_and_stream_has_names_as_they_are() {
    let server = place();
    let root = token(&server, "root", &["admin", "member"]);
    let trace = json!({ "topic": "t/#" });
    assert_eq!(post(&server, "traces/start", &root, &trace).1["id"], 1);
    let mut events = open(&server, "events/stream", &root);
    let mut messages = open(&server, "subscribe?topic=t/%23", &root);
    assert_eq!(messages.next().name.as_deref(), Some("subscribed"));
    let clients = NAMES.map(|name| hostile(&server, name));
    for name in NAMES {
        let topic = format!("t/{name}");
        for verb in Verb::ALL {
            if verb.http() == Http::Never || verb.need() != Need::Read {
                continue;
            }
            let (status, answer) = post(&server, &verb.path(), &root, &query(verb, name));
            assert_eq!(status, 200, "{verb:?} {name:?}: {answer}");
            let shown = match verb {
                Verb::ClientsLs | Verb::ClientsShow | Verb::SessionsQueue => name,
                Verb::Events | Verb::Why => name,
                Verb::Topics | Verb::Subscriptions | Verb::RetainedPage => &topic,
                Verb::TopicsChildren | Verb::TracesRead => name,
                _ => continue,
            };
            assert!(has(&answer, shown), "{verb:?} {name:?}: {answer}");
        }
    }
    let page = metrics(&server);
    for word in ["onerror", "fake", "jndi", "calc", "\u{202e}", "\u{1f4a3}"] {
        assert!(
            !page.contains(word),
            "a series has a name of a client: {word}"
        );
    }
    // Their connections break, and the wills are published.
    drop(clients);
    let (mut connected, mut disconnected) = (BTreeSet::new(), BTreeSet::new());
    while disconnected.len() < NAMES.len() {
        let event = events.next().data;
        let name = event["client_id"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("connected") => connected.insert(name),
            Some("disconnected") => disconnected.insert(name),
            _ => false,
        };
        // The session of the other stream is one more client.
        let is_one = |name: &String| NAMES.contains(&&**name);
        connected.retain(is_one);
        disconnected.retain(is_one);
    }
    assert_eq!(connected.len(), NAMES.len());
    let (mut wills, mut kept) = (BTreeSet::new(), BTreeSet::new());
    while wills.len() < NAMES.len() {
        let message = messages.next().data;
        let topic = message["topic"].as_str().expect("a topic").to_owned();
        match message["payload"].as_str() {
            Some("gone") => wills.insert(topic),
            _ => {
                assert_eq!(
                    message["payload_base64"], "AP88Yj4NCg0KZGF0YTogeAoK",
                    "{message}"
                );
                kept.insert(topic)
            }
        };
    }
    assert_eq!(kept, wills);
    eventually("all are gone", || {
        get(&server, "clients/ls", &root).1["total"] == 1
    });
}

/// As long as a name may be.
const LONGEST: usize = 65_535;

/// How many there are of each kind: 8 MiB of names.
const MANY: usize = 128;

/// What a list of a page may have: 4 MiB of names, those of the last step, and what stands around
/// them.
const LIST_BYTES: usize = 6 << 20;

fn long(at: usize) -> String {
    format!("{at:04}{}", "\u{e9}".repeat((LONGEST - 4 - 6) / 2))
}

/// Asks for page after page; `next` makes a request of the pages so far. All names, and the pages.
#[track_caller]
fn pages(
    server: &Server,
    (path, token): (&str, &str),
    next: impl Fn(&[Value]) -> Option<Value>,
) -> (String, usize) {
    let (mut all, mut answers) = (String::new(), Vec::new());
    while let Some(request) = next(&answers) {
        let (status, answer) = post(server, path, token, &request);
        assert_eq!(status, 200, "{path}");
        let text = answer.to_string();
        let (bytes, lists) = (text.len(), if path == "topics" { 2 } else { 1 });
        assert!(
            bytes < lists * LIST_BYTES,
            "{path}: a page of {bytes} bytes"
        );
        all.push_str(&text);
        answers.push(answer);
        assert!(answers.len() <= MANY + 1, "{path} does not end");
    }
    (all, answers.len())
}

fn rows(answers: &[Value], key: &str) -> usize {
    let lists = answers.iter().filter_map(|answer| answer[key].as_array());
    lists.map(Vec::len).sum()
}

/// Pages end where their names are long enough, and go on behind that.
#[test]
fn pages_of_the_longest_names_are_bounded() {
    let server = place();
    let root = token(&server, "root", &["admin", "member"]);
    let mut clients = Vec::new();
    for at in 0..MANY {
        let mut client = server.client(Version::V5, &long(at));
        client.subscribe("s", 0);
        client.subscribe(&format!("t/{}", long(at)), 0);
        let topic = format!("t/{}", long(at));
        // The properties of a message count too.
        let property = [&[0x26][..], &string("k"), &string(&"v".repeat(60_000))].concat();
        let mut body = string(&topic);
        body.extend([0xe6, 0xd4, 3]);
        assert_eq!(
            property.len(),
            0x66 + (0x54 << 7) + (3 << 14),
            "its length in front"
        );
        body.extend(property);
        body.extend(b"x");
        client.send(&packet(0x31, &body));
        client.ping_among_messages();
        clients.push(client);
    }
    let asked = |path| (path, root.as_str());
    let by_offset = |key: &'static str| {
        move |answers: &[Value]| {
            let goes_on = answers.last().is_none_or(|last| last["truncated"] == true);
            goes_on.then(|| json!({ "limit": 1_000, "offset": rows(answers, key) }))
        }
    };
    let by_cursor = |request: Value| {
        move |answers: &[Value]| {
            let mut request = request.clone();
            if let Some(last) = answers.last() {
                last["cursor"].as_object()?;
                request["cursor"] = last["cursor"].clone();
            }
            Some(request)
        }
    };
    let kept = json!({ "filter": "t/#" });
    let of_all = json!({ "topic": "s", "limit": 10_000 });
    let lists = [
        pages(&server, asked("clients/ls"), by_offset("clients")),
        pages(&server, asked("topics"), by_offset("filters")),
        pages(&server, asked("retained/page"), by_cursor(kept)),
        pages(&server, asked("subscriptions"), by_cursor(of_all)),
    ];
    for (list, (all, count)) in lists.into_iter().enumerate() {
        assert!(count > 1, "list {list} came as one page");
        for at in 0..MANY {
            assert!(all.contains(&long(at)), "list {list} lacks number {at}");
        }
    }
    // Of one level, the server looks at 4 MiB of names, and says that some are missing.
    let level = json!({ "below": "t", "limit": 10_000 });
    let (status, names) = post(&server, "topics/children", &root, &level);
    assert_eq!((status, &names["truncated"]), (200, &json!(true)));
    assert!(names.to_string().len() < LIST_BYTES, "a level in one page");
    for client in &mut clients {
        client.ping_among_messages();
    }
}

/// A client may have more subscriptions than an answer shows, which says how many.
#[test]
fn subscriptions_of_the_longest_names_come_in_parts() {
    let config = "[limits]\ntopic_bytes = 65535\nsubscription_bytes_per_client = \"64MiB\"\n";
    let plan = Plan::new().config(config).tcp().http().anonymous();
    let server = plan.start();
    let root = token(&server, "root", &["admin"]);
    let mut client = server.client(Version::V5, "many");
    for at in 0..MANY {
        client.subscribe(&long(at), 0);
    }
    let (mut all, mut offset, mut parts) = (Vec::new(), 0, 0);
    loop {
        let request = json!({ "client_id": "many", "offset": offset });
        let (status, shown) = post(&server, "clients/show", &root, &request);
        assert_eq!((status, &shown["subscriptions"]), (200, &json!(MANY)));
        let bytes = shown.to_string().len();
        // About 2 MiB: one long name more than that, which an answer has twice.
        assert!(bytes < 2_300_000, "a part of {bytes} bytes");
        let filters = shown["filters"].as_array().expect("a list");
        assert_eq!(
            shown["granted"].as_array().map(Vec::len),
            Some(filters.len())
        );
        all.extend(
            filters
                .iter()
                .map(|it| it.as_str().expect("a text").to_owned()),
        );
        (offset, parts) = (all.len(), parts + 1);
        assert_eq!(shown["left_out"], json!(MANY - offset));
        if offset == MANY {
            break;
        }
    }
    assert!(parts > 1, "all came at once");
    all.sort();
    assert!(all.into_iter().eq((0..MANY).map(long)));
    let shown = server.control(&["clients", "show", "many"]).success();
    assert!(
        shown.contains("`stentor clients show many --offset "),
        "no hint"
    );
}
