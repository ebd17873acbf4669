//! `stentor events`: what has happened to connections lately.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, subscribe};
use stentor_tests::{Plan, Server, Version, server};

/// The events that these options find, the oldest first.
#[track_caller]
fn events(server: &Server, options: &[&str]) -> Vec<Value> {
    let told = server.control(&[&["events", "--json"], options].concat());
    let text = told.success();
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|event| event.expect("a line is JSON")).collect()
}

/// The words of their kinds.
fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["event"].as_str());
    kinds.map(Option::unwrap_or_default).collect()
}

#[test]
fn each_thing_that_happens_to_a_connection_is_found_with_its_reason() {
    let zone = "[[zone]]\nname = \"game\"\n";
    let listener = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let server = Plan::new().config(&format!("{listener}{zone}")).start();
    let password = server.folder().join("password");
    std::fs::write(&password, "correct horse\n").expect("a file can be written");
    let password = password.to_str().expect("plain names");
    server
        .control(&["role", "add", "reader", "--rule", "allow both a/#"])
        .success();
    for (user, role) in [("ann", "reader"), ("game/bob", "member")] {
        let add = [
            "user",
            "add",
            user,
            "--role",
            role,
            "--password-file",
            password,
        ];
        server.control(&add).success();
    }
    let login = |client_id: &str, user: &str, password: &str| {
        let mut client = server.dial();
        client.send(&connect_as(
            Version::V5,
            client_id,
            true,
            Some((user, password)),
        ));
        let answer = client.expect(2);
        (client, answer.body[1])
    };
    let (mut pump, code) = login("pump", "ann", "correct horse");
    assert_eq!(code, 0);
    pump.send(&subscribe(Version::V5, 1, "b/#", 0));
    let _ = pump.expect(9);
    let (lamp, _) = login("lamp", "game/bob", "correct horse");
    let (_, code) = login("thief", "ann", "wrong");
    assert_ne!(code, 0);
    drop(lamp);
    eventually("all of it is there", || {
        let all = events(&server, &[]);
        kinds(&all)
            == [
                "connected",
                "denied",
                "connected",
                "refused",
                "disconnected",
            ]
    });
    let thief = &events(&server, &["--client", "thief"])[0];
    assert_eq!(thief["reason"], "bad-credentials", "{thief}");
    assert_eq!(thief["user"], "ann", "{thief}");
    let text = thief["text"].as_str().unwrap_or_default();
    assert!(text.contains("stentor user set-password ann"), "{thief}");
    let denied = &events(&server, &["--event", "denied"])[0];
    assert_eq!(denied["client_id"], "pump", "{denied}");
    let bob = events(&server, &["--user", "game/bob"]);
    assert_eq!(kinds(&bob), ["connected", "disconnected"]);
    assert_eq!(bob[1]["reason"], "closed", "{bob:?}");
    assert_eq!(kinds(&events(&server, &["--zone", "game"])).len(), 2);
    assert_eq!(events(&server, &["--address", "127.0.0.0/8"]).len(), 4);
    assert_eq!(events(&server, &["--address", "10.0.0.0/8"]).len(), 0);
    assert_eq!(events(&server, &["--since", "1h", "--limit", "1"]).len(), 1);
    let told = server.control(&["events", "--client", "pump"]).success();
    assert!(
        told.contains("  connected     client pump  user ann  zone default  from 127"),
        "{told}"
    );
    let refused = server.control(&["events", "--address", "pump"]).refusal();
    assert!(refused.contains("\"pump\" names no address"), "{refused}");
    // Counted by reason, with those that have not happened.
    let status = server.json(&["status"]);
    assert_eq!(status["refused_by"]["bad-credentials"], 1, "{status}");
    assert_eq!(status["ended_by"]["closed"], 1, "{status}");
    assert_eq!(status["ended_by"]["kicked"], json!(0), "{status}");
}

#[test]
fn new_events_follow_as_they_happen() {
    let server = Server::open();
    let mut command = server::stentor();
    command.args(["events", "--follow", "--client", "late", "--json"]);
    command.arg("--data-dir").arg(server.data_dir());
    let mut follower = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let out = follower.stdout.take().expect("it is piped");
    let client = server.client(Version::V4, "late");
    let mut lines = BufReader::new(out).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("one more").expect("it can be read");
        serde_json::from_str(&line).expect("it is JSON")
    };
    assert_eq!(next()["event"], "connected");
    drop(client);
    assert_eq!(next()["event"], "disconnected");
    follower.kill().expect("it runs");
    follower.wait().expect("it has ended");
}
