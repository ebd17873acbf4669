//! The wire form of the control socket: `{"v":1,"verb":…}` in, one line out.
//!
//! `verbs.golden` has each request with its answer. Figures, places and versions are masked, names,
//! their order and what kind of value they have are not. Programs of others read these lines, so a
//! change of the file is a change of the protocol: keys may come, what is there keeps its meaning.
//! `WRITE_GOLDEN=1 cargo test -p stentor-tests --test operations verbs` writes it again.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Raw, Server, Version, process, server};

/// Values below these names depend on the machine and the moment.
const ANY: [&str; 7] = [
    "epoch",
    "long_turns",
    "waited_micros",
    "descriptor_tables",
    "version",
    "holders",
    "troubles",
];

/// Flags and words of these are a part of the form; figures are not.
fn masked(value: &Value, key: &str, folder: &str) -> Value {
    if ANY.contains(&key) && !matches!(value, Value::Object(_)) {
        return json!("<any>");
    }
    match value {
        Value::Number(number) if key != "v" => match number.is_f64() {
            true => json!("<fraction>"),
            false => json!("<number>"),
        },
        Value::String(text) if text.starts_with("# HELP ") => json!("<page of metrics>"),
        Value::String(text) => json!(unplaced(text, folder)),
        Value::Array(all) => {
            let all = all.iter().map(|one| masked(one, key, folder));
            all.collect()
        }
        Value::Object(map) => {
            let is_any = ANY.contains(&key);
            let inner = |name: &String, one: &Value| match is_any {
                true => json!(format!("<{}>", kind(one))),
                false => masked(one, name, folder),
            };
            let all = map
                .iter()
                .map(|(name, one)| (name.clone(), inner(name, one)));
            Value::Object(all.collect())
        }
        other => other.clone(),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "list",
        _ => "any",
    }
}

/// A text without this machine's places, ports and times.
fn unplaced(text: &str, folder: &str) -> String {
    let text = text.replace(folder, "<folder>");
    let mut parts = text.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let _ = write!(out, "127.0.0.1:<port>{rest}");
    }
    // "for 3 s", "12 bytes"
    let masked = |word: &str| match word.parse::<u64>() {
        Ok(_) => "<n>".to_owned(),
        Err(_) => word.to_owned(),
    };
    out.split(' ').map(masked).collect::<Vec<_>>().join(" ")
}

/// Asks one question after the other, and notes what is said.
struct Talk {
    stream: BufReader<UnixStream>,
    folder: String,
    text: String,
}

impl Talk {
    fn with(server: &Server) -> Self {
        let path = server.data_dir().join("control.sock");
        let stream = UnixStream::connect(path).expect("the control socket is there");
        let folder = server.folder().to_str().expect("plain names").to_owned();
        Self {
            stream: BufReader::new(stream),
            folder,
            text: String::new(),
        }
    }

    fn line(&mut self, line: &str) -> Value {
        let out = self.stream.get_mut();
        writeln!(out, "{line}").expect("the server reads");
        let mut answer = String::new();
        self.stream.read_line(&mut answer).expect("it answers");
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        let shown = masked(&answer, "", &self.folder);
        let shown = serde_json::to_string_pretty(&shown).expect("it was JSON");
        let line = line.replace(&self.folder, "<folder>");
        let _ = write!(self.text, "> {line}\n{shown}\n\n");
        answer
    }

    fn ask(&mut self, mut request: Value) -> Value {
        let map = request.as_object_mut().expect("a request is an object");
        let mut whole = json!({ "v": 1 });
        whole.as_object_mut().expect("so is this").append(map);
        self.line(&whole.to_string())
    }

    /// What was said is what the file has.
    fn compare(&self, file: &str) {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operations");
        let place = place.join(file);
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            fs::write(&place, &self.text).expect("the project can be written");
        }
        let golden = fs::read_to_string(&place).expect("the file is in the project");
        let mut expected = golden.split("\n\n");
        for said in self.text.split("\n\n") {
            let expected = expected.next().unwrap_or("nothing more");
            assert_eq!(said, expected, "{file} has another answer");
        }
        assert_eq!(expected.next(), None, "{file} has more");
    }
}

/// A zone, an adaptor, a procedure, and a client with a subscription.
fn place() -> (Server, Raw) {
    let plan = Plan::new();
    let dir = plan.folder().to_str().expect("plain names").to_owned();
    let procedures = plan.folder().join("procedures");
    fs::create_dir(&procedures).expect("a folder can be made");
    let procedures = procedures.to_str().expect("plain names").to_owned();
    for new in [
        ["adaptor", "new", "greet", "--dir", &dir],
        ["procedure", "new", "sort", "--dir", &procedures],
    ] {
        process::run(server::stentor().args(new)).success();
    }
    let config = format!(
        "shards = 2\n[procedures]\nfolder = \"{procedures}\"\n\
         [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n\
         [[zone]]\nname = \"game\"\n[[adaptor]]\nfile = \"{dir}/greet.luau\"\nzone = \"game\"\n"
    );
    let server = plan.config(&config).start();
    let mut client = server.client(Version::V5, "pump");
    client.subscribe("a/#", 1);
    (server, client)
}

/// Each verb that is no order of the Auth Center, and how what it cannot do is refused.
#[test]
fn requests_and_answers_are_those_of_the_golden_file() {
    let (mut server, mut client) = place();
    let mut talk = Talk::with(&server);
    heaviest(&mut talk, &mut client);
    for verb in ["health", "status", "clients.ls", "zones", "topics"] {
        talk.ask(json!({ "verb": verb }));
    }
    talk.ask(json!({ "verb": "status", "sample_ms": 1 }));
    talk.ask(json!({ "verb": "clients.ls", "containing": "u", "zone": "default", "limit": 1 }));
    talk.ask(json!({ "verb": "clients.ls", "zone": "none" }));
    talk.ask(json!({ "verb": "clients.show", "client_id": "pump", "zone": null }));
    talk.ask(json!({ "verb": "clients.show", "client_id": "pumb" }));
    talk.ask(json!({ "verb": "clients.show" }));
    talk.ask(json!({ "verb": "sessions.queue", "client_id": "pump", "limit": 1, "zone": 0 }));
    talk.ask(json!({ "verb": "sessions.queue", "client_id": "pump", "cursor": "x" }));
    talk.ask(json!({ "verb": "why", "client_id": "pump", "topic": "a/b" }));
    talk.ask(json!({ "verb": "why", "client_id": "x", "topic": "b", "to": "pump", "zone": 0 }));
    talk.ask(json!({ "verb": "why", "client_id": "pump", "topic": "#" }));
    talk.ask(json!({ "verb": "publish", "topic": "a/b", "payload": "x", "qos": 1 }));
    talk.ask(json!({ "verb": "publish", "topic": "a/#" }));
    talk.ask(json!({ "verb": "subscriptions", "topic": "a/b", "limit": 1 }));
    talk.ask(json!({ "verb": "subscriptions", "topic": "a/#" }));
    retained(&mut talk);
    talk.ask(json!({ "verb": "topics", "containing": "a", "limit": 1, "offset": 0 }));
    running(&mut talk);
    rooms(&mut talk);
    talk.ask(json!({ "verb": "certificates.ls" }));
    talk.ask(json!({ "verb": "adaptors.ls", "zone": "game" }));
    talk.ask(json!({ "verb": "adaptors.reload", "fresh": true, "file": null, "zone": null }));
    talk.ask(json!({ "verb": "adaptors.reload", "file": "none.luau" }));
    fs::write(server.folder().join("greet.luau"), "no end").expect("a file can be written");
    talk.ask(json!({ "verb": "adaptors.reload" }));
    talk.ask(json!({ "verb": "adaptors.ls" }));
    talk.ask(json!({ "verb": "procedures.ls" }));
    talk.ask(json!({ "verb": "procedures.reload" }));
    talk.ask(json!({ "verb": "clients.kick", "client_id": "pump", "end_session": true }));
    let show = json!({ "verb": "clients.show", "client_id": "pump" });
    eventually("it is gone", || {
        Talk::with(&server).ask(show.clone())["code"] == "not-found"
    });
    talk.ask(json!({ "verb": "clients.kick", "client_id": "pump", "zone": "default" }));
    talk.ask(json!({ "verb": "reload" }));
    server.reconfigure("nonsense = 1\n");
    talk.ask(json!({ "verb": "reload" }));
    talk.ask(json!({ "verb": "fly" }));
    talk.line("{\"v\":2,\"verb\":\"status\"}");
    talk.line("status");
    talk.ask(json!({ "verb": "clients.ls", "limit": "x" }));
    talk.ask(json!({ "verb": "clients.ls", "limit": 1_000_001 }));
    talk.ask(json!({ "verb": "users.ls", "limit": 10_001 }));
    talk.ask(json!({ "verb": "user.list", "limit": 10_001 }));
    talk.ask(json!({ "verb": "stop" }));
    assert!(server.ended().success());
    talk.compare("verbs.golden");
}

fn rooms(talk: &mut Talk) {
    talk.ask(json!({ "verb": "rooms.ls", "prefix": "lob", "limit": 1 }));
    talk.ask(json!({ "verb": "rooms.ls", "limit": 1_001 }));
    talk.ask(json!({ "verb": "rooms.show", "room": "lobby", "zone": "game" }));
    talk.ask(json!({ "verb": "rooms.show", "room": "none" }));
    talk.ask(json!({ "verb": "rooms.kick", "room": "lobby", "user": "ann" }));
    talk.ask(json!({ "verb": "rooms.close", "room": "lobby" }));
    talk.ask(json!({ "verb": "rooms.close", "room": "a/b" }));
}

fn running(talk: &mut Talk) {
    talk.ask(json!({ "verb": "config.effective", "containing": "anonymous" }));
    talk.ask(json!({ "verb": "config.diff" }));
    talk.ask(json!({ "verb": "log.level", "level": "debug", "target": "tower", "for_secs": 1000 }));
    talk.ask(json!({ "verb": "log.level", "for_secs": 100_000 }));
    talk.ask(json!({ "verb": "log.show" }));
    talk.ask(json!({ "verb": "log.level" }));
    talk.ask(json!({ "verb": "log.tail", "lines": 0 }));
    talk.ask(json!({ "verb": "login.link" }));
    talk.ask(json!({ "verb": "metrics" }));
    let (from, to) = (0, 1_000);
    talk.ask(
        json!({ "verb": "figures.history", "figure": "bugs", "from_secs": from, "to_secs": to }),
    );
    talk.ask(json!({ "verb": "figures.history", "figure": "bugs,speed" }));
    talk.ask(json!({ "verb": "figures.history", "from_secs": 10, "to_secs": 10 }));
    talk.ask(json!({ "verb": "figures.peaks", "figure": "speed" }));
}

/// Before anything else is published: which publishes a server looks at is a matter of chance, but
/// there is one among 127.
fn heaviest(talk: &mut Talk, client: &mut Raw) {
    for _ in 0..127 {
        client.publish("load", b"12345678");
    }
    client.ping();
    talk.ask(json!({ "verb": "topics.heaviest", "limit": 1 }));
    talk.ask(json!({ "verb": "topics.heaviest", "by": "bytes", "zone": "default" }));
    talk.ask(json!({ "verb": "topics.heaviest", "by": "weight" }));
    talk.ask(json!({ "verb": "clients.heaviest" }));
    talk.ask(json!({ "verb": "clients.heaviest", "zone": "none" }));
}

fn retained(talk: &mut Talk) {
    let messages = json!([{ "topic": "a/b", "payload": "x" }, { "topic": "#", "payload": "x" }]);
    let put =
        |dry_run: bool| json!({ "verb": "retained.put", "messages": messages, "dry_run": dry_run });
    talk.ask(put(true));
    talk.ask(put(false));
    talk.ask(json!({ "verb": "retained.page", "filter": "a/#", "cursor": null }));
    talk.ask(json!({ "verb": "retained.page", "filter": "a/#/b" }));
    talk.ask(json!({ "verb": "topics.children", "below": "a", "limit": 1 }));
    talk.ask(json!({ "verb": "topics.children", "below": "a/#" }));
    talk.ask(json!({ "verb": "retained.history", "topic": "a/b", "ask": "last:1" }));
    talk.ask(json!({ "verb": "retained.history", "topic": "a/#" }));
    talk.ask(json!({ "verb": "retained.history", "topic": "a", "limit": 1001 }));
    talk.ask(json!({ "verb": "retained.filters", "zone": "default" }));
    talk.ask(json!({ "verb": "retained.status" }));
    talk.ask(json!({ "verb": "retained.verify", "stripe": 0 }));
    talk.ask(json!({ "verb": "retained.clear", "filter": "a/#" }));
    talk.ask(json!({ "verb": "retained.clear", "filter": "$SYS/#" }));
    talk.ask(json!({ "verb": "retained.compact" }));
    talk.ask(json!({ "verb": "retained.none" }));
}
