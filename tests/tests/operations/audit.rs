//! The log of changes, with the user, the address and the outcome of each: `DATA_DIR/audit.log`.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version, process, server};

/// What the log has of this kind now.
#[track_caller]
fn noted(server: &Server, what: &str) -> Vec<Value> {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let lines = log.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line
    });
    lines.filter(|line| line["what"] == what).collect()
}

/// The last line of a kind has these keys, and says who it was at the control socket.
#[track_caller]
fn last(server: &Server, what: &str, keys: &[(&str, Value)]) {
    let lines = noted(server, what);
    let line = lines.last().unwrap_or_else(|| panic!("nothing of {what}"));
    let who = line["who"].as_str().unwrap_or_default();
    assert!(
        who.starts_with("uid ") && who.ends_with("by the control socket"),
        "{line}"
    );
    for (key, value) in keys {
        assert_eq!(&line[*key], value, "{key}: {line}");
    }
}

const BASE: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";

#[test]
fn whatever_a_command_changes_is_noted_with_its_outcome() {
    let plan = Plan::new();
    let dir = plan.folder().to_str().expect("plain names").to_owned();
    let new = ["adaptor", "new", "greet", "--dir", &dir];
    process::run(server::stentor().args(new)).success();
    let config = format!("{BASE}[[adaptor]]\nfile = \"{dir}/greet.luau\"\n");
    let server = plan.config(&config).start();
    let (done, refused) = (json!("done"), json!("refused"));
    let _client = server.client(Version::V5, "c");
    server.control(&["clients", "kick", "c"]).success();
    let kicked = [
        ("target", json!("c")),
        ("outcome", done.clone()),
        ("was_connected", json!(true)),
    ];
    last(&server, "clients.kick", &kicked);
    server.control(&["clients", "kick", "nobody"]).refusal();
    last(&server, "clients.kick", &[("outcome", refused.clone())]);
    server
        .control(&["pub", "-r", "-t", "a/b", "-m", "x"])
        .success();
    // Shards wait for no file: their lines come a moment later.
    eventually("a retained message by the control socket is noted", || {
        !noted(&server, "publish.retained").is_empty()
    });
    let kept = [("target", json!("a/b")), ("outcome", done.clone())];
    last(&server, "publish.retained", &kept);
    let file = server.folder().join("kept.jsonl");
    let kept = server.control(&["retained", "export"]).success();
    fs::write(&file, kept.replace("a/b", "a/c")).expect("a file can be written");
    let file = file.to_str().expect("plain names");
    server
        .control(&["retained", "import", file, "--dry-run"])
        .success();
    assert_eq!(noted(&server, "retained.put"), [] as [Value; 0]);
    server.control(&["retained", "import", file]).success();
    last(
        &server,
        "retained.put",
        &[("new", json!(1)), ("outcome", done.clone())],
    );
    server.control(&["retained", "clear", "a/#"]).success();
    last(
        &server,
        "retained.clear",
        &[("target", json!("a/#")), ("cleared", json!(2))],
    );
    server.control(&["retained", "compact"]).success();
    last(&server, "retained.compact", &[("outcome", done.clone())]);
    server.control(&["adaptor", "reload"]).success();
    last(&server, "adaptors.reload", &[("outcome", done.clone())]);
    let add = ["user", "add", "ann", "--no-password"];
    server.control(&add).success();
    last(
        &server,
        "user.add",
        &[("target", json!("ann")), ("outcome", done)],
    );
    server.control(&add).refusal();
    last(
        &server,
        "user.add",
        &[("target", json!("ann")), ("outcome", refused)],
    );
    // Nothing is said of who only asks.
    server.control(&["user", "show", "nobody"]).refusal();
    assert_eq!(noted(&server, "user.show"), [] as [Value; 0]);
}

#[test]
fn reloads_and_the_end_are_noted_with_who_asked() {
    let mut server = Plan::new().config(BASE).start();
    server.reconfigure(&format!("{BASE}[log]\nlevel = \"debug\"\n"));
    server.control(&["reload"]).success();
    last(
        &server,
        "config.reload",
        &[("changed", json!(["log.level"]))],
    );
    server.reconfigure("nonsense = 1\n");
    server.control(&["reload"]).refusal();
    last(&server, "config.reload", &[("outcome", json!("refused"))]);
    // A file that is mended is told of, though it changes nothing.
    server.reconfigure(&format!("{BASE}[log]\nlevel = \"debug\"\n"));
    let told = server.control(&["reload"]).success();
    assert!(
        told.contains("the server runs with what the file says"),
        "{told}"
    );
    last(&server, "config.reload", &[("changed", json!([]))]);
    server.reconfigure(BASE);
    server.signal(Signal::SIGHUP);
    server.wait_log(0, "(SIGHUP)");
    eventually("it is noted", || {
        noted(&server, "config.reload")
            .last()
            .expect("there are some")["who"]
            == "SIGHUP"
    });
    server.control(&["stop"]).success();
    assert!(server.ended().success());
    last(
        &server,
        "stop",
        &[("target", json!("server")), ("outcome", json!("done"))],
    );
}

/// What an administrator does to others in a room, by the control socket and by MQTT. What the
/// owner of a room does there needs no authority but that.
#[test]
fn what_administrators_do_in_rooms_is_noted() {
    let zone = "[[zone]]\nname = \"game\"\n";
    let server = Plan::new().config(&format!("{BASE}{zone}")).start();
    let secret = server.folder().join("secret");
    fs::write(&secret, "correct horse\n").expect("a file can be written");
    let path = secret.to_str().expect("plain names");
    for (user, role) in [("boss", "admin"), ("ann", "member")] {
        let add = ["user", "add", user, "--zone", "game", "--role", role];
        server
            .control(&[&add[..], &["--password-file", path]].concat())
            .success();
    }
    let room = |user: &str, words: &[&str]| {
        let mut command = server::stentor();
        command.env("STENTOR_PASSWORD", "correct horse");
        command.arg("room").args(words).args(["-u", user]);
        process::run(command.args(["-h", "127.0.0.1", "-p", &server.port("mqtt")]))
    };
    room("game/ann", &["create", "tea"]).success();
    // She owns it, and is no administrator.
    room("game/ann", &["kick", "tea", "bob"]).refusal();
    room("game/boss", &["kick", "tea", "bob"]).refusal();
    server
        .control(&["room", "kick", "tea", "bob", "--zone", "game"])
        .refusal();
    room("game/boss", &["close", "tea"]).success();
    eventually("all three are noted", || {
        noted(&server, "room.close").len() + noted(&server, "room.kick").len() == 3
    });
    let kicks = noted(&server, "room.kick");
    assert_eq!(kicks[0]["who"], "game/boss by MQTT", "{kicks:?}");
    for kick in &kicks {
        assert_eq!(kick["target"], "tea", "{kick}");
        assert_eq!(
            (&kick["user"], &kick["zone"]),
            (&json!("bob"), &json!("game")),
            "{kick}"
        );
        assert_eq!(kick["outcome"], "refused", "{kick}");
        assert!(
            !kick["reason"].as_str().unwrap_or_default().is_empty(),
            "{kick}"
        );
    }
    last(&server, "room.kick", &[]);
    let closed = noted(&server, "room.close");
    assert_eq!(
        (&closed[0]["target"], &closed[0]["outcome"]),
        (&json!("tea"), &json!("done"))
    );
}

/// Commands on the files of a stopped server leave the same lines as those to a running one.
#[test]
fn changes_of_a_stopped_servers_messages_are_noted() {
    let mut server = Plan::new().config(BASE).start();
    server.control(&["stop"]).success();
    assert!(server.ended().success());
    server.control(&["retained", "set", "a/b", "x"]).success();
    server.control(&["retained", "ls"]).success();
    server.control(&["retained", "clear", "a/#"]).success();
    server.control(&["retained", "clear", "a/#/b"]).refusal();
    let who = |line: &Value| {
        let who = line["who"].as_str().unwrap_or_default().to_owned();
        who.starts_with("uid ") && who.ends_with(" by a command")
    };
    let put = noted(&server, "retained.put");
    assert!(
        put.len() == 1 && who(&put[0]) && put[0]["new"] == 1,
        "{put:?}"
    );
    let cleared = noted(&server, "retained.clear");
    let outcomes: Vec<&Value> = cleared.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["done", "refused"], "{cleared:?}");
    assert!(cleared.iter().all(who), "{cleared:?}");
    // What cannot be written down is done all the same, and whoever asked is told.
    let log = server.data_dir().join("audit.log");
    fs::rename(&log, server.folder().join("kept.log")).expect("it is there");
    fs::create_dir(&log).expect("a folder can be made");
    let done = server.control(&["retained", "set", "a/b", "x"]);
    let told = "the audit log cannot be written";
    assert!(
        done.stderr.contains(told) && done.status.success(),
        "{done}"
    );
    assert_eq!(
        (&cleared[0]["target"], &cleared[0]["cleared"]),
        (&json!("a/#"), &json!(1))
    );
}
