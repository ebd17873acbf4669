//! The control socket of a server that runs inside the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Control, Entrance};
use crate::condition::Condition;
use crate::data_dir::DataDir;
use crate::lifecycle::testing::Running;
use crate::lifecycle::{Command, Reloaded};

/// Bounds waits that do not end when something is broken.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server with a control socket, and no supervisor but the test.
struct Server {
    control: Control,
    commands: Receiver<Command>,
    running: Running,
    folder: tempfile::TempDir,
    _data_dir: DataDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(folder.path()).unwrap();
        let running = Running::start(&[("shards", "2"), ("allow_anonymous", "true")]);
        let (sender, commands) = channel();
        let condition = Condition::new(running.context(), running.directory());
        let condition = std::sync::Arc::new(condition);
        let control = Control::start(
            Entrance::open(&data_dir).unwrap(),
            running.context(),
            running.directory(),
            running.table(),
            &condition,
            &sender,
        )
        .unwrap();
        control.note_ports(running.ports());
        Self {
            control,
            commands,
            running,
            folder,
            _data_dir: data_dir,
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("control.sock")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// One request, and the whole answer.
    fn answer(&self, request: &Value) -> Value {
        let mut stream = self.connect();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["v"], 1);
        answer
    }

    /// What a request that succeeds is answered.
    fn ok(&self, request: Value) -> Value {
        let mut answer = self.answer(&request);
        assert!(answer.get("error").is_none(), "{request}: {answer}");
        answer["ok"].take()
    }

    /// An MQTT connection over the control socket, whose CONNECT was answered.
    fn mqtt(&self, client_id: &str) -> UnixStream {
        let mut stream = self.connect();
        let mut request = b"{\"v\":1,\"verb\":\"mqtt\"}\n".to_vec();
        let id_len = u8::try_from(client_id.len()).unwrap();
        // The CONNECT follows in the same write: none of it may be lost.
        request.extend([0x10, 12 + id_len, 0, 4]);
        request.extend(b"MQTT\x04\x02\x00\x00\x00");
        request.push(id_len);
        request.extend(client_id.as_bytes());
        stream.write_all(&request).unwrap();
        assert_eq!(read(&mut stream, 17), b"{\"v\":1,\"ok\":{}}\n\x20");
        assert_eq!(read(&mut stream, 3), [2, 0, 0]);
        stream
    }

    fn end(self) {
        self.running.stop();
        drop(self.control);
        assert!(!self.folder.path().join("control.sock").exists());
    }
}

fn read(stream: &mut UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn status_has_what_an_operator_asks_for() {
    let server = Server::start();
    let path = server.folder.path().join("control.sock");
    assert_eq!(
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let _client = server.mqtt("a");
    let status = server.ok(json!({ "v": 1, "verb": "status", "sample_ms": 1 }));
    assert_eq!(status["clients_connected"], 1);
    assert_eq!(status["shards"].as_array().unwrap().len(), 2);
    assert_eq!(status["listeners"][0]["anonymous"], true);
    assert!(
        status["listeners"][0]["url"]
            .as_str()
            .unwrap()
            .starts_with("mqtt://127.0.0.1:")
    );
    assert!(status["rates"]["messages_in"].is_number() && status["latency"].is_object());
    assert_eq!(status["reload"], Value::Null);
    let done = Reloaded {
        changed: vec!["log.level".into()],
        renewed: Vec::new(),
        waiting: Vec::new(),
    };
    server.control.note_reload("a test", &Ok(done));
    let status = server.ok(json!({ "v": 1, "verb": "status" }));
    assert_eq!(status["reload"]["changed"], json!(["log.level"]));
    assert_eq!(status["rates"], Value::Null);
    server
        .control
        .note_reload("a test", &Err("the file is gone".into()));
    let status = server.ok(json!({ "v": 1, "verb": "status" }));
    assert_eq!(status["reload"]["ok"], false);
    server.end();
}

#[test]
fn clients_are_listed_shown_and_kicked_wherever_they_live() {
    let server = Server::start();
    let mut clients: Vec<_> = (0..8)
        .map(|n| server.mqtt(&format!("client-{n}")))
        .collect();
    let page = server.ok(json!({ "v": 1, "verb": "clients.ls", "limit": 3, "offset": 4 }));
    let ids = page["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|client| &client["client_id"]);
    assert_eq!(
        ids.collect::<Vec<_>>(),
        ["client-4", "client-5", "client-6"]
    );
    assert_eq!(
        (&page["total"], &page["truncated"]),
        (&json!(8), &json!(true))
    );
    // SUBSCRIBE 1, room/#, QoS 0; SUBACK.
    clients[3]
        .write_all(b"\x82\x0b\0\x01\0\x06room/#\0")
        .unwrap();
    assert_eq!(read(&mut clients[3], 5), [0x90, 3, 0, 1, 0]);
    let shown = server.ok(json!({ "v": 1, "verb": "clients.show", "client_id": "client-3" }));
    assert_eq!(shown["filters"], json!(["room/#"]));
    let granted = json!({ "filter": "room/#", "qos": 0, "no_local": false, "max_rate": null });
    assert_eq!(shown["granted"], json!([granted]));
    assert_eq!(shown["connection"]["version"], "3.1.1");
    let topics =
        server.ok(json!({ "v": 1, "verb": "topics", "fresh": true, "containing": "room" }));
    assert_eq!(
        topics["filters"],
        json!([{ "zone": "default", "filter": "room/#", "subscribers": 1 }])
    );
    // Two members, on any shard, of one group.
    for client in &mut clients[5..7] {
        let subscribe = b"\x82\x12\0\x01\0\x0d$share/g/room\0";
        client.write_all(subscribe).unwrap();
        assert_eq!(read(client, 5), [0x90, 3, 0, 1, 0]);
    }
    let topics = server
        .ok(json!({ "v": 1, "verb": "topics", "fresh": true, "containing": "room", "limit": 1 }));
    let shared = json!({ "zone": "default", "filter": "$share/g/room", "subscribers": 2 });
    assert_eq!(
        (&topics["filters"], &topics["truncated"]),
        (&json!([shared]), &json!(true))
    );
    let kicked = server.ok(json!({ "v": 1, "verb": "clients.kick", "client_id": "client-3" }));
    assert_eq!(kicked["was_connected"], true);
    assert_eq!(clients[3].read(&mut [0]).unwrap(), 0);
    for zone in [json!("default"), json!(0)] {
        let request =
            json!({ "v": 1, "verb": "clients.show", "client_id": "client-4", "zone": zone });
        assert_eq!(server.ok(request)["zone_name"], "default");
    }
    let request = json!({ "v": 1, "verb": "clients.show", "client_id": "client-4", "zone": "no" });
    let refused = server.answer(&request);
    assert!(
        refused["error"].as_str().unwrap().contains("no zone"),
        "{refused}"
    );
    let again = server.answer(&json!({ "v": 1, "verb": "clients.show", "client_id": "client-3" }));
    assert_eq!(again["code"], "not-found");
    server.end();
}

#[test]
fn commands_reach_the_supervisor_and_its_answer_comes_back() {
    let server = Server::start();
    let mut asking = server.connect();
    asking
        .write_all(b"{\"v\":1,\"verb\":\"reload\"}\n")
        .unwrap();
    match server.commands.recv_timeout(DEADLINE).unwrap() {
        Command::Reload(_, Some(asker)) => asker.answer.send(Err("line 3: what?".into())).unwrap(),
        _ => panic!("not a reload"),
    }
    let mut line = String::new();
    BufReader::new(asking).read_line(&mut line).unwrap();
    let expected = r#"{"v":1,"error":"line 3: what?","code":"reload-failed"}"#;
    assert_eq!(line.trim_end(), expected);
    server.ok(json!({ "v": 1, "verb": "stop" }));
    assert!(matches!(
        server.commands.recv_timeout(DEADLINE),
        Ok(Command::Stop(_, Some(_)))
    ));
    server.end();
}

#[test]
fn what_is_no_request_is_answered_and_what_has_no_end_is_closed() {
    let server = Server::start();
    assert_eq!(
        server.answer(&json!({ "v": 1, "verb": "fly" }))["code"],
        "unknown-verb"
    );
    assert_eq!(
        server.answer(&json!({ "v": 9, "verb": "status" }))["code"],
        "version"
    );
    assert_eq!(server.answer(&json!([]))["code"], "bad-request");
    let mut endless = server.connect();
    // The server closes without reading all, which this end may see as a broken pipe.
    let _ = endless.write_all(&vec![b'x'; 200_000]);
    assert!(matches!(endless.read(&mut [0]), Ok(0) | Err(_)));
    server.end();
}
