//! A real mosquitto that bridges everything in both directions.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use stentor_tests::raw::eventually;
use stentor_tests::{Raw, Server, Version, tools};

/// A mosquitto on a Unix socket with a bridge to the server under test.
struct Mosquitto {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Mosquitto {
    #[track_caller]
    fn bridged_to(server: &Server, protocol: &str) -> Self {
        let folder = server.folder();
        let socket = folder.join("mosquitto.sock");
        let config = folder.join("mosquitto.conf");
        let log = folder.join("mosquitto.log");
        // Started by root it would serve as another user, who may not write into this folder.
        let text = format!(
            "listener 0 {socket}\n\
             allow_anonymous true\n\
             user root\n\
             connection bridge\n\
             address {address}\n\
             remote_clientid the-bridge\n\
             bridge_protocol_version {protocol}\n\
             topic # both 1\n\
             restart_timeout 1\n",
            socket = socket.display(),
            address = server.address("mqtt"),
        );
        fs::write(&config, text).expect("a configuration can be written");
        let output = fs::File::create(&log).expect("a log can be made");
        let mut command: Command = tools::mosquitto("mosquitto");
        let child = command
            .arg("-v")
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("mosquitto starts");
        let mosquitto = Self { child, socket, log };
        eventually("a listening mosquitto", || {
            UnixStream::connect(&mosquitto.socket).is_ok()
        });
        mosquitto
    }

    #[track_caller]
    fn client(&self, client_id: &str) -> Raw {
        let mut client = Raw::unix(&self.socket);
        client.login(Version::V4, client_id, true);
        client
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "--- log of mosquitto\n{}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

#[track_caller]
fn check(protocol: &str) {
    let server = Server::open();
    let mut here = server.client(Version::V4, "here");
    here.subscribe("$SYS/broker/connection/the-bridge/state", 0);
    here.subscribe("data/#", 0);
    let mosquitto = Mosquitto::bridged_to(&server, protocol);
    let state = (
        "$SYS/broker/connection/the-bridge/state".to_owned(),
        b"1".to_vec(),
    );
    assert_eq!(here.message(), state);
    here.ping();

    let mut there = mosquitto.client("there");
    there.subscribe("data/#", 0);
    // The bridge's own subscription here may still be on its way: retained messages wait for it.
    let probe = stentor_tests::raw::publish(Version::V4, "data/probe", b"ready", 1, true);
    let mut sender = server.client(Version::V4, "sender");
    sender.send(&probe);
    sender.expect(4);
    assert_eq!(
        there.message(),
        ("data/probe".to_owned(), b"ready".to_vec())
    );
    assert_eq!(here.message(), ("data/probe".to_owned(), b"ready".to_vec()));

    // A loop would bring a message back before the last one, which is checked at both ends.
    let mut foreign = mosquitto.client("foreign");
    for round in 0..20 {
        let payload = format!("{round}").into_bytes();
        sender.publish_surely("data/out", &payload);
        assert_eq!(
            here.message(),
            ("data/out".to_owned(), payload.clone()),
            "{protocol}"
        );
        assert_eq!(
            there.message(),
            ("data/out".to_owned(), payload.clone()),
            "{protocol}"
        );
        foreign.publish_surely("data/in", &payload);
        assert_eq!(
            there.message(),
            ("data/in".to_owned(), payload.clone()),
            "{protocol}"
        );
        assert_eq!(
            here.message(),
            ("data/in".to_owned(), payload),
            "{protocol}"
        );
    }

    // The bridge's will on its own state arrives when the other broker is killed.
    drop(mosquitto);
    let (topic, payload) = here.message();
    assert_eq!(
        (topic.as_str(), payload.as_slice()),
        (state.0.as_str(), b"0".as_slice())
    );
}

/// Protocol version 0x84: the bridge asks for no-local and retain-as-published in its CONNECT.
#[test]
fn bridge_v3_1_1_in_both_directions() {
    check("mqttv311");
}

#[test]
fn bridge_v5_in_both_directions() {
    check("mqttv50");
}

/// Protocol version 0x83.
#[test]
fn bridge_v3_1_in_both_directions() {
    check("mqttv31");
}
