//! `stentor ban`: who may not connect.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use stentor_tests::raw::{Packet, connect, connect_as, connect_with_will, eventually};
use stentor_tests::{Plan, Raw, Server, Version};

/// 0x8A, as CONNACK of MQTT 5 says it.
const BANNED: u8 = 0x8A;

/// Tries to connect, and returns the code of CONNACK.
#[track_caller]
fn knock(server: &Server, version: Version, client_id: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect(version, client_id, true));
    client.expect(2).body[1]
}

#[track_caller]
fn ban(server: &Server, options: &[&str]) -> String {
    server
        .control(&[&["ban", "add"], options].concat())
        .success()
}

/// The last line of the audit log about this.
fn noted(server: &Server, what: &str) -> Value {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let mut lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let last = lines.rfind(|line| line["what"] == what);
    last.unwrap_or_else(|| panic!("nothing of {what}"))
}

#[test]
fn a_banned_client_is_disconnected_without_its_will_and_stays_out_over_a_kill() {
    let server = Server::open();
    let mut watcher = server.client(Version::V5, "watcher");
    watcher.subscribe("gone", 0);
    let mut pump = server.dial();
    pump.send(&connect_with_will("pump", "gone"));
    assert_eq!(pump.expect(2).body[1], 0);
    let told = ban(
        &server,
        &["--client", "pump", "--for", "1h", "--reason", "it loops"],
    );
    assert!(
        told.contains("\"pump\" is banned until") && told.contains("1 connection"),
        "{told}"
    );
    pump.closed();
    // It would have come before the answer.
    watcher.ping();
    assert_eq!(knock(&server, Version::V5, "pump"), BANNED);
    assert_eq!(knock(&server, Version::V4, "pump"), 5);
    assert_eq!(knock(&server, Version::V5, "lamp"), 0);
    let line = noted(&server, "bans.add");
    let who = line["who"].as_str().unwrap_or_default();
    assert!(who.ends_with("by the control socket"), "{line}");
    assert_eq!(
        (&line["target"], &line["outcome"]),
        (&json!("pump"), &json!("done")),
        "{line}"
    );
    assert_eq!(
        (&line["closed"], &line["ban_reason"]),
        (&json!(1), &json!("it loops")),
        "{line}"
    );
    let refused = server.wait_log(0, "refused: the client id \"pump\" is banned until");
    assert!(refused.contains("it loops"), "{refused}");
    eventually("the events tell of it", || {
        let told = server.control(&["events", "--client", "pump"]).success();
        ["banned", "reason banned", "refused"]
            .iter()
            .all(|word| told.contains(word))
    });
    let file = server.data_dir().join("bans.json");
    let mode = fs::metadata(&file)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let server = server.kill().start();
    assert_eq!(knock(&server, Version::V5, "pump"), BANNED);
    let list = server.json(&["ban", "ls"]);
    assert_eq!(list["bans"][0]["client_id"], "pump", "{list}");
    assert_eq!(list["bans"][0]["reason"], "it loops", "{list}");
    server.control(&["ban", "rm", "--client", "pump"]).success();
    assert_eq!(knock(&server, Version::V5, "pump"), 0);
    assert_eq!(noted(&server, "bans.rm")["target"], "pump");
    let refused = server.control(&["ban", "rm", "--client", "pump"]).refusal();
    assert!(refused.contains("stentor ban ls"), "{refused}");
}

/// Each connection of a client id counts, also those that take over from each other.
#[test]
fn a_client_that_connects_again_and_again_is_banned_for_a_time() {
    let listener = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let limits = "[limits]\nflapping_connects = 3\nflapping_window = \"1h\"\n";
    let server = Plan::new().config(&format!("{listener}{limits}")).start();
    for _ in 0..2 {
        assert_eq!(knock(&server, Version::V5, "pump"), 0);
        assert_eq!(knock(&server, Version::V4, "lamp"), 0);
    }
    let mut third = server.client(Version::V5, "pump");
    third.ping();
    assert_eq!(server.json(&["ban", "ls"])["bans"], json!([]));
    let mut fourth = server.client(Version::V5, "pump");
    third.closed();
    fourth.closed();
    assert_eq!(knock(&server, Version::V5, "pump"), BANNED);
    assert_eq!(knock(&server, Version::V5, "lamp"), 0);
    let ban = &server.json(&["ban", "ls"])["bans"][0];
    assert_eq!(
        (&ban["client_id"], &ban["zone"]),
        (&json!("pump"), &json!("default"))
    );
    let secs = |key: &str| ban[key].as_u64().unwrap_or_default();
    assert_eq!(secs("until") - secs("since"), 300, "{ban}");
    assert_eq!(
        ban["reason"],
        "it connected more than 3 times within 3600 s"
    );
    eventually("it is in the audit log", || {
        let log = fs::read_to_string(server.data_dir().join("audit.log")).unwrap_or_default();
        log.contains("\"who\":\"the server (limits.flapping_connects)\",\"what\":\"bans.add\"")
    });
    server
        .control(&["ban", "rm", "--client", "pump", "--zone", "default"])
        .success();
    server.reconfigure(listener);
    server.control(&["reload"]).success();
    assert!((0..8).all(|_| knock(&server, Version::V5, "pump") == 0));
    assert_eq!(server.json(&["ban", "ls"])["bans"], json!([]));
}

#[test]
fn a_damaged_list_is_told_kept_and_stops_no_server() {
    let server = Server::open();
    ban(&server, &["--client", "pump"]);
    let plan = server.stop_for_restart();
    let file = plan.data_dir().join("bans.json");
    fs::write(&file, "{\"v\":1,\"bans\":[").expect("a file can be written");
    let server = plan.start();
    let told = server.wait_log(0, "bans.json cannot be read");
    assert!(told.contains("stentor ban add"), "{told}");
    assert_eq!(knock(&server, Version::V5, "pump"), 0);
    let aside = fs::read_to_string(server.data_dir().join("bans.json.damaged"));
    assert_eq!(aside.expect("it is kept"), "{\"v\":1,\"bans\":[");
}

/// A user, a zone and an address, each in its own way; and nobody locks himself out by accident.
#[test]
fn users_zones_and_addresses_are_kept_out_and_nobody_himself() {
    let listener = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let zone = "[[zone]]\nname = \"game\"\n";
    let server = Plan::new().config(&format!("{listener}{zone}")).start();
    let password = server.folder().join("password");
    fs::write(&password, "correct horse\n").expect("a file can be written");
    let password = password.to_str().expect("plain names");
    for user in ["ann", "game/ann", "game/bob"] {
        let add = [
            "user",
            "add",
            user,
            "--role",
            "member",
            "--password-file",
            password,
        ];
        server.control(&add).success();
    }
    let login = |user: &str| -> (Raw, Packet) {
        let mut client = server.dial();
        let login = Some((user, "correct horse"));
        client.send(&connect_as(Version::V5, "", true, login));
        let answer = client.expect(2);
        (client, answer)
    };
    let code = |user: &str| login(user).1.body[1];
    let (mut ann, _) = login("game/ann");
    let (mut bob, _) = login("game/bob");
    ban(&server, &["--user", "game/ann"]);
    ann.closed();
    bob.ping();
    assert_eq!(
        (code("game/ann"), code("ann"), code("game/bob")),
        (BANNED, 0, 0)
    );
    ban(&server, &["--zone", "game"]);
    bob.closed();
    assert_eq!((code("game/bob"), code("ann")), (BANNED, 0));
    for (options, says) in [
        (&["--address", "127.0.0.1"][..], "--force"),
        (&["--address", "0.0.0.0/0"], "--force"),
        (&["--address", "::1"], "--force"),
        (&["--zone", "default"], "--force"),
        (&["--address", "pump"], "\"pump\" cannot be banned"),
        (&["--zone", "nowhere"], "there is no zone"),
        (&[], "--client ID"),
    ] {
        let refused = server
            .control(&[&["ban", "add"], options].concat())
            .refusal();
        assert!(refused.contains(says), "{options:?}: {refused}");
    }
    let mut nobody = server.client(Version::V5, "nobody");
    ban(&server, &["--address", "127.0.0.1", "--force"]);
    nobody.closed();
    assert_eq!(knock(&server, Version::V5, "other"), BANNED);
    // The control socket has no address, and its owner is never banned.
    ban(&server, &["--user", "admin"]);
    server.control(&["pub", "-t", "a", "-m", "b"]).success();
    server
        .control(&["ban", "rm", "--address", "127.0.0.1"])
        .success();
    assert_eq!(knock(&server, Version::V5, "other"), 0);
}
