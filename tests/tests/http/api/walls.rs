//! A user of another zone than the default one tries to see and to change what is not of that
//! zone: by every verb that the user may ask for, with names of the others in every key.

use serde_json::{Map, Value, json};
use stentor_control::Verb;
use stentor_control::schema::{Kind, Schemas};
use stentor_tests::raw::{connect_as, publish};
use stentor_tests::{Plan, Raw, Server, Version};

use super::{get, post, token};
use crate::streams::open;

/// What all names of others have, and no name of the zone itself.
const MARK: &str = "hidden";

/// Names of the others, with some that the zone has too.
const NAMES: [&str; 14] = [
    "",
    "hidden-client",
    "hidden-user",
    "hidden-role",
    "default/hidden-user",
    "other/hidden-user",
    "game/hidden-user",
    "default/root",
    "root",
    "admin",
    "member",
    "hero",
    "gus",
    "game/gus",
];

/// Topics and filters that match what others have published.
const TOPICS: [&str; 8] = [
    "",
    "#",
    "+/+",
    "hidden/topic",
    "hidden/#",
    "shared/kept",
    "$SYS/#",
    "own/kept",
];

/// A client, with a token or without.
#[track_caller]
fn client(server: &Server, client_id: &str, token: Option<&str>) -> Raw {
    let mut client = server.dial();
    let login = token.map(|token| ("", token));
    client.send(&connect_as(Version::V5, client_id, true, login));
    assert_eq!(client.expect(2).body[1], 0);
    client.speaks(Version::V5);
    client
}

/// Three zones with the same kinds of things.
struct Place {
    server: Server,
    root: String,
    hidden: Vec<Raw>,
    _hero: Raw,
}

impl Place {
    fn new() -> Self {
        let config = "[[zone]]\nname = \"game\"\n[[zone]]\nname = \"other\"\n\
                      [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
        let plan = Plan::new().config(config);
        let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
        let server = plan.opens(1).start();
        let root = token(&server, "root", &["admin"]);
        let other = token(&server, "other/hidden-user", &["admin"]);
        let own = token(&server, "game/hero", &["member"]);
        let _ = token(&server, "hidden-user", &["member"]);
        let role = ["role", "add", "hidden-role", "--zone", "other", "--rule"];
        server
            .control(&[&role[..], &["allow both hidden/#"]].concat())
            .success();
        let mut hidden = vec![
            client(&server, "hidden-client", None),
            client(&server, "hidden-client", Some(&other)),
        ];
        let mut hero = client(&server, "hero", Some(&own));
        for client in &mut hidden {
            client.subscribe("hidden/#", 1);
            client.subscribe("shared/#", 0);
            say(client);
        }
        hero.subscribe("own/#", 1);
        hero.subscribe("shared/#", 1);
        hero.send(&publish(Version::V5, "own/kept", b"own", 0, true));
        hero.ping_among_messages();
        Self {
            server,
            root,
            hidden,
            _hero: hero,
        }
    }

    /// What the default zone and `other` have.
    #[track_caller]
    fn others(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for zone in ["default", "other"] {
            for verb in ["users/ls", "roles/ls"] {
                let (status, answer) =
                    get(&self.server, &format!("{verb}?zone={zone}"), &self.root);
                assert_eq!(status, 200, "{answer}");
                all.push(answer);
            }
            let page = format!("retained/page?filter=%23&zone={zone}");
            let (status, answer) = get(&self.server, &page, &self.root);
            assert_eq!(status, 200, "{answer}");
            all.push(answer["messages"].clone());
        }
        all
    }
}

/// Keeps and sends messages that are not of the zone.
fn say(client: &mut Raw) {
    for topic in ["hidden/topic", "shared/kept"] {
        client.send(&publish(Version::V5, topic, b"hidden-payload", 0, true));
    }
    client.ping_among_messages();
}

/// Requests of a verb: each key with each name, beside what the verb needs.
fn requests(verb: Verb) -> Vec<Value> {
    let schemas = Schemas::of(verb);
    let required = schemas.request.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let choices = |name: &str, kind: Kind| -> Vec<Value> {
        match (name, kind) {
            ("topic" | "filter" | "below", _) => TOPICS.map(Value::from).into(),
            ("zone", _) => ["game", "default", "other", "0", "1"]
                .map(Value::from)
                .into(),
            ("roles", _) => vec![json!(["member"]), json!(["hidden-role"])],
            ("rules", _) => vec![json!(["allow both own/#"])],
            ("password" | "payload", _) => vec![json!("secret")],
            ("disabled" | "scram" | "fresh", _) => Vec::new(),
            (_, Kind::Text) => NAMES.map(Value::from).into(),
            _ => Vec::new(),
        }
    };
    let fields = schemas.fields();
    let mut base = Map::new();
    for field in fields
        .iter()
        .filter(|field| required.contains(&&*field.name))
    {
        let first = choices(&field.name, field.kind).into_iter().nth(1);
        let usual = if field.name == "zone" {
            json!("game")
        } else {
            json!("secret")
        };
        base.insert(field.name.clone(), first.unwrap_or(usual));
    }
    let mut all = vec![Value::Object(base.clone())];
    for field in &fields {
        for choice in choices(&field.name, field.kind) {
            let mut request = base.clone();
            request.insert(field.name.clone(), choice);
            all.push(Value::Object(request));
        }
    }
    all
}

/// What an answer says of others that the request has not said.
fn leak(request: &str, answer: &str) -> Option<String> {
    let words = answer.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
    let is_theirs = |word: &&str| word.contains(MARK) || *word == "other" || *word == "root";
    let mut told = words
        .filter(is_theirs)
        .filter(|word| !request.contains(*word));
    told.next().map(str::to_owned)
}

/// Asks for everything as a user of the zone `game` with a role.
#[track_caller]
fn attack(role: &str) {
    let mut place = Place::new();
    let gus = token(&place.server, "game/gus", &[role]);
    let server = &place.server;
    let before = place.others();
    let (_, me) = get(server, "me", &gus);
    let may = me["may"].as_array().expect("a list").clone();
    assert!(may.len() > 5, "{me}");
    let mut asked = 0;
    for name in may.iter().filter_map(Value::as_str) {
        let verb = Verb::named(name).expect("it is a verb");
        for request in requests(verb) {
            let (status, answer) = post(server, &verb.path(), &gus, &request);
            assert!(status < 500, "{name} {request}: {answer}");
            let answer = without_own(answer);
            let told = leak(&request.to_string(), &answer.to_string());
            assert_eq!(told, None, "{name} {request}: {answer}");
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked}");
    // Places of others, in what goes on from page to page.
    let cursors = [
        (
            "retained/page",
            json!({ "filter": "#", "cursor": { "stripe": 0, "after": "hidden" } }),
        ),
        (
            "topics/children",
            json!({ "after": "a", "below": "hidden" }),
        ),
        (
            "subscriptions",
            json!({ "topic": "hidden/topic", "cursor": { "filter": "hidden/#" } }),
        ),
        ("events", json!({ "after": 0, "limit": 10_000 })),
        ("users/ls", json!({ "after": "default/a" })),
    ];
    for (path, request) in cursors {
        let (status, answer) = post(server, path, &gus, &request);
        assert!(matches!(status, 200 | 400 | 403), "{path}: {answer}");
        let told = leak(
            &request.to_string(),
            &without_own(answer.clone()).to_string(),
        );
        assert_eq!(told, None, "{path} {request}: {answer}");
    }
    for path in ["status/stream", "traces/stream?client_id=hidden-client"] {
        let (status, problem) = get(server, path, &gus);
        assert_eq!(status, 403, "{path}: {problem}");
    }
    assert_eq!(place.others(), before, "something of others has changed");
    for client in &mut place.hidden {
        client.ping_among_messages();
    }
}

/// An answer without the events that tell the attacker what he has asked for himself.
fn without_own(mut answer: Value) -> Value {
    if let Some(events) = answer["events"].as_array_mut() {
        events.retain(|event| event["event"] != "denied" || event["user"] != "game/gus");
    }
    answer
}

#[test]
fn an_administrator_of_a_zone_sees_that_zone_alone() {
    attack("admin");
}

#[test]
fn an_operator_of_a_zone_sees_that_zone_alone() {
    attack("operator");
}

#[test]
fn a_viewer_of_a_zone_sees_that_zone_alone() {
    attack("viewer");
}

/// Event streams of the zone, while others come, publish and go.
#[test]
fn streams_of_a_zone_tell_of_that_zone_alone() {
    let mut place = Place::new();
    let gus = token(&place.server, "game/gus", &["admin"]);
    let server = &place.server;
    let mut events = open(server, "events/stream?limit=1000", &gus);
    let mut messages = open(server, "subscribe?topic=%23&topic=shared/%2B", &gus);
    assert_eq!(messages.next().name.as_deref(), Some("subscribed"));
    for client in &mut place.hidden {
        say(client);
    }
    drop(client(server, "hidden-guest", None));
    // What comes last is of the zone.
    let last = json!({ "topic": "own/last", "payload": "end" });
    assert_eq!(post(server, "publish", &gus, &last).0, 200);
    drop(client(server, "own-last", Some(&gus)));
    loop {
        let event = messages.next();
        let text = event.data.to_string();
        assert!(!text.contains(MARK), "{text}");
        if event.data["topic"] == "own/last" {
            break;
        }
    }
    loop {
        let event = events.next();
        let text = event.data.to_string();
        assert!(
            !text.contains(MARK) && event.data["zone"] == "game",
            "{text}"
        );
        if event.data["client_id"] == "own-last" {
            break;
        }
    }
}
