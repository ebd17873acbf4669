//! Who has changed what, from where, and what came of it: `DATA_DIR/audit.log`.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
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
    last(&server, "adaptor.reload", &[("outcome", done.clone())]);
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
    stentor_tests::raw::eventually("it is noted", || {
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
