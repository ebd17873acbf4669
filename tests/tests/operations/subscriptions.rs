//! `stentor subscriptions`: who gets the messages of a topic; and the names of topics by level.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use stentor_tests::{Plan, Raw, Server, Version};

fn ask(server: &Server, request: &Value) -> Value {
    let path = server.data_dir().join("control.sock");
    let mut stream = UnixStream::connect(path).expect("the control socket is there");
    let mut whole = json!({ "v": 1 });
    let map = whole.as_object_mut().expect("an object");
    map.append(&mut request.as_object().expect("an object").clone());
    writeln!(stream, "{whole}").expect("the server reads");
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("it answers");
    serde_json::from_str(&line).expect("an answer is JSON")
}

/// `client filter`, in order.
fn pairs(answer: &Value) -> Vec<String> {
    let all = answer["subscriptions"].as_array().expect("a list");
    let pair = |one: &Value| {
        let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", word("client_id"), word("filter"))
    };
    let mut pairs: Vec<String> = all.iter().map(pair).collect();
    pairs.sort();
    pairs
}

#[test]
fn those_who_get_a_topic_are_listed_with_their_rules() {
    let config = "shards = 2\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let server = Plan::new().config(config).start();
    let deny = [
        "role",
        "change",
        "anonymous",
        "--add",
        "deny subscribe a/secret",
    ];
    server.control(&deny).success();
    let mut clients: Vec<Raw> = Vec::new();
    for (id, filters) in [
        ("all", &["#"][..]),
        ("both", &["a/+", "a/b"]),
        ("member1", &["$share/g/a/b"]),
        ("member2", &["$share/g/a/b"]),
        ("other", &["b/#", "a/b/c", "$SYS/#"]),
    ] {
        let mut client = server.client(Version::V5, id);
        for filter in filters {
            client.subscribe(filter, 1);
        }
        clients.push(client);
    }
    let told = server.json(&["subscriptions", "a/b"]);
    let expected = [
        "all #",
        "both a/+",
        "both a/b",
        "member1 $share/g/a/b",
        "member2 $share/g/a/b",
    ];
    assert_eq!(pairs(&told), expected, "{told}");
    let all = told["subscriptions"].as_array().expect("a list");
    let of = |id: &str| {
        all.iter()
            .find(|one| one["client_id"] == id)
            .expect("it is there")
    };
    assert_eq!(
        (&of("member1")["group"], &of("all")["group"]),
        (&json!("g"), &Value::Null)
    );
    assert_eq!(
        (&of("all")["qos"], &of("all")["connected"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(of("all")["withheld"], false);
    let rule = of("all")["rule"].as_str().unwrap_or_default();
    assert!(rule.starts_with("role anonymous: allow"), "{rule}");
    let secret = server.json(&["subscriptions", "a/secret"]);
    let first = &secret["subscriptions"][0];
    assert_eq!(first["withheld"], true, "{secret}");
    assert_eq!(first["rule"], "role anonymous: deny subscribe a/secret");
    let text = server
        .control(&["subscriptions", "a/b", "--limit", "2"])
        .success();
    assert!(
        text.contains("perhaps more") && text.contains("FILTER"),
        "{text}"
    );
    assert_eq!(
        pairs(&server.json(&["subscriptions", "$SYS/x"])),
        ["other $SYS/#"]
    );
    for (options, says) in [
        (&["a/+"][..], "cannot be published to"),
        (&["a", "--zone", "nowhere"], "there is no zone"),
    ] {
        let refused = server
            .control(&[&["subscriptions"], options].concat())
            .refusal();
        assert!(refused.contains(says), "{options:?}: {refused}");
    }
}

/// Page after page shows everybody once, also where a shared subscription has many members.
#[test]
fn pages_show_everybody_once() {
    const CLIENTS: usize = 300;
    let config = "shards = 2\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let server = Plan::new().config(config).start();
    let clients: Vec<Raw> = (0..CLIENTS)
        .map(|number| {
            let mut client = server.client(Version::V5, &format!("c{number}"));
            let filters = if number % 2 == 0 {
                ["t/+", "t/a"]
            } else {
                ["$share/g/t/a", "x"]
            };
            for filter in filters {
                client.subscribe(filter, 0);
            }
            client
        })
        .collect();
    let whole = ask(&server, &json!({ "verb": "subscriptions", "topic": "t/a" }));
    let whole = pairs(&whole["ok"]);
    assert_eq!(whole.len(), CLIENTS / 2 * 3);
    for limit in [7, 256, 449, 450] {
        let (mut cursor, mut found) = (Value::Null, Vec::new());
        loop {
            let page = json!({
                "verb": "subscriptions", "topic": "t/a", "limit": limit, "cursor": cursor,
            });
            let page = ask(&server, &page)["ok"].take();
            let some = pairs(&page);
            assert!(some.len() <= limit, "{limit}");
            found.extend(some);
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        found.sort();
        assert_eq!(found, whole, "{limit}");
    }
    drop(clients);
}

#[test]
fn names_of_topics_are_listed_by_level() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "c");
    for topic in ["plant/17/temp", "plant/17", "plant/18/temp", "yard", "a-b"] {
        client.send(&stentor_tests::raw::publish(
            Version::V5,
            topic,
            b"x",
            0,
            true,
        ));
    }
    client.ping();
    let names = |arguments: &[&str]| server.control(&[&["topics"], arguments].concat()).success();
    assert_eq!(names(&["--children"]), "a-b\nplant/\nyard\n");
    assert_eq!(names(&["--children", "plant"]), "17\n17/\n18/\n");
    assert_eq!(names(&["--children", "plant/17"]), "temp\n");
    assert_eq!(names(&["--children", "nothing"]), "");
    let one = names(&["--children", "--limit", "1"]);
    assert!(
        one.starts_with("a-b\n") && one.contains("and more"),
        "{one}"
    );
    let next = ask(
        &server,
        &json!({ "verb": "topics.children", "after": "a-b", "limit": 1 }),
    );
    let plant = json!({ "name": "plant", "topic": false, "below": true });
    assert_eq!(next["ok"]["names"], json!([plant]), "{next}");
    assert_eq!(
        (&next["ok"]["more"], &next["ok"]["truncated"]),
        (&json!(true), &json!(false))
    );
    for (limit, is_cut) in [(1, true), (4, true), (5, false)] {
        let topics = ask(&server, &json!({ "verb": "topics", "limit": limit }));
        let told = (&topics["ok"]["retained"], &topics["ok"]["truncated"]);
        let retained = told.0.as_array().map(Vec::len);
        assert_eq!(
            (retained, told.1),
            (Some(limit), &json!(is_cut)),
            "{topics}"
        );
    }
    let refused = server
        .control(&["topics", "--children", "plant/+"])
        .refusal();
    assert!(refused.contains("wildcard"), "{refused}");
}

/// The filters of other zones take no place in a list of one.
#[test]
fn filters_of_one_zone_are_listed_beside_many_of_others() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n\
                  [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\nzone = \"shop\"\n\
                  [[zone]]\nname = \"shop\"\n";
    let server = Plan::new().config(config).start();
    let place = |url: &str| url.trim_start_matches("mqtt://").to_owned();
    let [first, second] = [0, 1].map(|index| place(&server.urls()[index]));
    let mut here = Raw::tcp(&first);
    here.login(Version::V5, "here", true);
    for number in 0..300 {
        here.subscribe(&format!("a/{number}"), 0);
    }
    let mut there = Raw::tcp(&second);
    there.login(Version::V5, "there", true);
    there.subscribe("z", 0);
    let verb = json!({ "verb": "topics", "zone": "shop", "limit": 1, "offset": 0 });
    let told = ask(&server, &verb);
    assert_eq!(told["ok"]["filters"][0]["filter"], "z", "{told}");
    assert_eq!(told["ok"]["truncated"], false, "{told}");
    let verb = json!({ "verb": "topics", "zone": "default", "limit": 2, "offset": 299 });
    let told = ask(&server, &verb);
    let listed = told["ok"]["filters"].as_array().expect("a list");
    assert_eq!(listed.len(), 1, "{told}");
    // Behind the end there is nothing, however far that is.
    for (verb, list) in [("topics", "filters"), ("clients.ls", "clients")] {
        let told = ask(
            &server,
            &json!({ "verb": verb, "limit": 9, "offset": u64::MAX }),
        );
        assert_eq!(told["ok"][list], json!([]), "{told}");
    }
}
