//! Lists of clients: pages, orders, filters, how old they are, and what each client has lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, packet, string};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, server, token};

/// For how long a list is kept.
const KEPT: Duration = Duration::from_secs(2);

fn ids(listed: &Value) -> Vec<String> {
    let clients = listed["clients"].as_array().expect("a list");
    let id = |client: &Value| client["client_id"].as_str().expect("a text").to_owned();
    clients.iter().map(id).collect()
}

#[track_caller]
fn list(server: &Server, query: &str, token: &str) -> Value {
    let (status, listed) = get(server, &format!("clients/ls{query}"), token);
    assert_eq!(status, 200, "{listed}");
    listed
}

#[track_caller]
fn refused(server: &Server, query: &str, token: &str, expected: (u16, &str)) -> String {
    let (status, problem) = get(server, &format!("clients/ls{query}"), token);
    let code = problem["code"].as_str().unwrap_or_default();
    assert_eq!((status, code), expected, "{problem}");
    problem["detail"].as_str().expect("a sentence").to_owned()
}

fn connect(server: &Server, names: impl Iterator<Item = usize>) -> Vec<Raw> {
    names
        .map(|number| server.client(Version::V5, &format!("c{number:02}")))
        .collect()
}

/// What comes and goes while somebody reads one page after the other is not in the way.
#[test]
fn pages_by_cursor_neither_skip_nor_repeat() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut clients = connect(&server, 10..30);
    let first = list(&server, "?limit=8&by=connected", &root);
    assert_eq!(
        (&first["total"], &first["truncated"]),
        (&json!(20), &json!(true))
    );
    let mut seen = ids(&first);
    // Two that were told, and two that were not.
    for gone in [
        clients.remove(19),
        clients.remove(18),
        clients.remove(1),
        clients.remove(0),
    ] {
        drop(gone);
    }
    let _more = connect(&server, 0..10);
    eventually("the list of now is another one", || {
        list(&server, "?fresh=true", &root)["total"] == 26
    });
    let mut page = first;
    while let Some(cursor) = page["cursor"].as_str() {
        page = list(
            &server,
            &format!("?limit=8&by=connected&cursor={cursor}"),
            &root,
        );
        assert_eq!(page["total"], 20, "{page}");
        seen.extend(ids(&page));
    }
    assert_eq!(page["truncated"], false, "{page}");
    let expected: Vec<String> = (10..30).map(|number| format!("c{number}")).collect();
    assert_eq!(
        seen, expected,
        "those of the first page, in the order in which they came"
    );
}

#[test]
fn a_cursor_that_leads_nowhere_is_refused_with_a_remedy() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let _clients = connect(&server, 0..4);
    let cursor = |query: &str| {
        let listed = list(&server, query, &root);
        listed["cursor"]
            .as_str()
            .expect("there are more")
            .to_owned()
    };
    let own = cursor("?limit=2");
    let bad = (400, "bad-request");
    let detail = refused(
        &server,
        &format!("?limit=2&by=lost&cursor={own}"),
        &root,
        bad,
    );
    assert!(
        detail.contains("repeat the filters and the order"),
        "{detail}"
    );
    let detail = refused(&server, &format!("?offset=2&cursor={own}"), &root, bad);
    assert!(detail.contains("leave one of them out"), "{detail}");
    let detail = refused(&server, "?cursor=next", &root, bad);
    assert!(detail.contains("\"next\" is not a cursor"), "{detail}");
    let detail = refused(&server, "?address=here", &root, bad);
    assert!(detail.contains("\"here\" names no address"), "{detail}");
    // A list that nobody pages in gives way: a newer one, and four older ones are kept.
    for _ in 0..5 {
        let newer = cursor("?limit=2&fresh=true");
        list(&server, &format!("?cursor={newer}"), &root);
    }
    let detail = refused(&server, &format!("?cursor={own}"), &root, (410, "expired"));
    assert!(detail.contains("ask again without the cursor"), "{detail}");
    // Those who only look at first pages take nothing from somebody who goes on.
    let own = cursor("?limit=2&fresh=true");
    list(&server, &format!("?limit=1&cursor={own}"), &root);
    for _ in 0..8 {
        cursor("?limit=2&fresh=true");
    }
    assert_eq!(
        ids(&list(&server, &format!("?cursor={own}"), &root)).len(),
        2
    );
}

/// A list is shared by all who ask within two seconds, unless somebody wants a new one, or has
/// changed something.
#[test]
fn a_list_is_kept_for_two_seconds() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut clients = connect(&server, 0..1);
    let total = |query: &str| list(&server, query, &root)["total"].as_u64();
    // On a busy machine, the second look may come too late to see the same list.
    loop {
        let before = Instant::now();
        let first = total("?fresh=true");
        let number = clients.len();
        clients.extend(connect(&server, number..number + 1));
        let second = list(&server, "", &root);
        if before.elapsed() < KEPT {
            assert_eq!(second["total"].as_u64(), first, "{second}");
            let age = Duration::from_millis(second["age_ms"].as_u64().expect("a number"));
            assert!(age <= before.elapsed(), "{second}");
            break;
        }
    }
    let there = Some(clients.len() as u64);
    assert_eq!(total("?fresh=true"), there);
    assert_eq!(server.json(&["clients", "ls"])["total"].as_u64(), there);
    let kick = json!({ "client_id": "c00" });
    assert_eq!(post(&server, "clients/kick", &root, &kick).0, 200);
    assert_eq!(
        total("").map(|total| total + 1),
        there,
        "whoever kicks sees it"
    );
    drop(clients);
    eventually("the list is made anew by itself", || total("") == Some(0));
}

#[test]
fn clients_are_filtered_and_put_into_any_order() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let ann = token(&server, "ann", &["member"]);
    let mut named = server.dial();
    named.send(&connect_as(Version::V5, "b-named", true, Some(("", &ann))));
    assert_eq!(named.expect(2).body[1], 0);
    named.speaks(Version::V5);
    let mut old = server.client(Version::V4, "c-old");
    old.subscribe("a", 0);
    old.subscribe("b", 0);
    let mut away = server.dial();
    away.login(Version::V5, "a-away", false);
    drop(away);
    eventually("a client is away", || {
        ids(&list(&server, "?state=away&fresh=true", &root)) == ["a-away"]
    });
    let told = |query: &str| ids(&list(&server, query, &root)).concat();
    for (query, expected) in [
        ("", "a-awayb-namedc-old"),
        ("?reverse=true", "c-oldb-nameda-away"),
        ("?state=connected", "b-namedc-old"),
        ("?user=ann", "b-named"),
        ("?user=an", ""),
        ("?address=127.0.0.1", "b-namedc-old"),
        ("?address=127.0.0.0/8&containing=old", "c-old"),
        ("?address=192.0.2.0/24", ""),
        ("?by=user", "b-nameda-awayc-old"),
        ("?by=version", "c-oldb-nameda-away"),
        ("?by=connected", "b-namedc-olda-away"),
        ("?by=connected&reverse=true", "a-awayc-oldb-named"),
        ("?by=subscriptions", "c-olda-awayb-named"),
        ("?by=address", "b-namedc-olda-away"),
        ("?by=state", "b-namedc-olda-away"),
        ("?by=away", "a-awayb-namedc-old"),
        ("?by=zone", "a-awayb-namedc-old"),
        ("?by=silent&state=away", "a-away"),
        ("?by=waiting&limit=1&offset=1", "b-named"),
    ] {
        assert_eq!(told(query), expected, "{query}");
    }
    let text = server.control(&["clients", "ls", "--by", "silent", "--state", "connected"]);
    let text = text.success();
    assert!(text.starts_with("SILENT  CLIENT"), "{text}");
    assert!(
        text.contains("b-named") && !text.contains("a-away"),
        "{text}"
    );
}

/// Where the rows of all sessions would take too much memory, there is no order: pages go from
/// place to place.
#[test]
fn too_many_sessions_are_listed_in_no_order() {
    const CLIENTS: usize = 60;
    // An eighth of it is for lists.
    let plan = Plan::new().tcp().http().anonymous();
    let server = plan.variable("STENTOR_LIMITS__MEMORY", "16MiB").start();
    let root = token(&server, "root", &["admin"]);
    let name = |number: usize| format!("{number:02}{}", "x".repeat(40_000));
    let _clients: Vec<Raw> = (0..CLIENTS)
        .map(|number| server.client(Version::V5, &name(number)))
        .collect();
    let (mut seen, mut query) = (Vec::new(), "?by=lost&limit=7".to_owned());
    loop {
        let page = list(&server, &query, &root);
        let why = page["unsorted"].as_str().unwrap_or_default();
        assert!(why.contains("the page is in no order"), "{why}");
        assert_eq!(page["total"], CLIENTS);
        seen.extend(ids(&page));
        let Some(cursor) = page["cursor"].as_str() else {
            break;
        };
        query = format!("?by=lost&limit=7&cursor={cursor}");
    }
    assert_eq!(seen.len(), CLIENTS, "each of them once");
    let seen: BTreeSet<String> = seen.into_iter().collect();
    assert_eq!(seen, (0..CLIENTS).map(name).collect());
    let detail = refused(&server, "?offset=7", &root, (400, "bad-request"));
    assert!(
        detail.contains("give the `cursor` of each answer"),
        "{detail}"
    );
    let text = server.control(&["clients", "ls", "--limit", "3"]).success();
    assert!(
        text.contains("… a list of all sessions would take more than 2 MiB"),
        "{text}"
    );
    assert!(text.contains("--cursor p-"), "{text}");
}

/// A CONNECT of a session that lasts, with a maximum packet size.
fn small(client_id: &str, bytes: u8) -> Vec<u8> {
    let head = [&string("MQTT")[..], &[5, 0, 0, 0]].concat();
    let properties = [10, 0x11, 0, 0, 0x0E, 0x10, 0x27, 0, 0, 0, bytes];
    packet(0x10, &[&head[..], &properties, &string(client_id)].concat())
}

#[test]
fn losses_of_a_client_are_told_by_cause() {
    let plan = Plan::new().tcp().http().anonymous();
    let server = plan.variable("STENTOR_LIMITS__QUEUE_MESSAGES", "2").start();
    let root = token(&server, "root", &["admin"]);
    let mut publisher = server.client(Version::V5, "publisher");
    let mut pump = server.dial();
    pump.login(Version::V5, "pump", false);
    pump.subscribe("q", 1);
    drop(pump);
    let shown = |name: &str| {
        let (status, shown) = get(&server, &format!("clients/show?client_id={name}"), &root);
        assert_eq!(status, 200, "{shown}");
        shown
    };
    eventually("the client is away", || {
        shown("pump")["connection"].is_null()
    });
    assert_eq!(shown("pump")["lost_causes"], json!([]));
    for _ in 0..5 {
        publisher.publish_surely("q", b"x");
    }
    let full = json!({ "cause": "drop-newest", "messages": 3, "while_memory_short": 0 });
    assert_eq!(shown("pump")["lost_causes"], json!([full]));
    // It comes back, and takes small packets alone.
    let mut pump = server.dial();
    pump.send(&small("pump", 100));
    assert_eq!(pump.expect(2).body[1], 0);
    publisher.publish_surely("q", &[b'x'; 200]);
    let large = json!({ "cause": "packet-too-large", "messages": 1, "while_memory_short": 0 });
    let told = shown("pump");
    assert_eq!(told["lost_causes"], json!([full, large]), "{told}");
    assert_eq!(told["lost"]["total"], 4, "{told}");
    assert_eq!(shown("publisher")["lost_causes"], json!([]));
    let text = server.control(&["clients", "show", "pump"]).success();
    assert!(text.contains("lost by drop-newest       3\n"), "{text}");
    assert!(text.contains("lost by packet-too-large  1\n"), "{text}");
}
