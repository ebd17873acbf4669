//! `stentor retained`, on a running server and on files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stentor_tests::raw::eventually;
use stentor_tests::{Finished, Plan, Raw, Server, Version, process, raw, server, tools};

use crate::support::{keep, number, snapshot};

/// A command on the data folder of a server that may be stopped.
#[track_caller]
fn retained(folder: &std::path::Path, args: &[&str]) -> Finished {
    let mut command = server::stentor();
    command
        .arg("retained")
        .args(args)
        .arg("--data-dir")
        .arg(folder);
    process::run(&mut command)
}

/// The store has an order of its own, which is nobody's.
#[test]
fn lists_and_exports_are_in_the_order_of_topics() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "p");
    let mut topics: Vec<String> = (0..60)
        .map(|number| format!("t/{:02}", number * 7 % 60))
        .collect();
    for topic in &topics {
        keep(&mut client, Version::V5, topic, b"x");
    }
    topics.sort();
    let folder = server.data_dir();
    let listed = retained(&folder, &["list", "t/#"]).success();
    let listed: Vec<&str> = listed
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!(listed, topics);
    let exported = retained(&folder, &["export", "t/#"]).success();
    let topic = |line: &str| -> Value {
        let message: Value = serde_json::from_str(line).expect("JSON");
        message["topic"].clone()
    };
    let exported: Vec<Value> = exported.lines().map(topic).collect();
    assert_eq!(exported, topics);
}

#[test]
fn messages_are_listed_read_set_and_cleared() {
    let server = Server::open();
    let folder = server.data_dir();
    let mut subscriber = server.client(Version::V4, "s");
    subscriber.subscribe("plant/#", 0);
    retained(&folder, &["set", "plant/a", "21.5"]).success();
    assert_eq!(subscriber.message(), ("plant/a".into(), b"21.5".to_vec()));
    retained(&folder, &["set", "plant/b", "@-"]).refusal();
    retained(&folder, &["set", "plant/b/c", "x", "--qos", "1"]).success();
    assert_eq!(subscriber.message().0, "plant/b/c");
    assert_eq!(retained(&folder, &["get", "plant/a"]).success(), "21.5");
    let listed = retained(&folder, &["ls", "plant/#"]).success();
    assert!(
        listed.contains("plant/a") && listed.contains("plant/b/c"),
        "{listed}"
    );
    let none = retained(&folder, &["get", "plant/none"]).refusal();
    assert!(none.contains("plant/none"), "{none}");
    retained(&folder, &["get", "plant/a/+/#/"]).refusal();
    let filter = retained(&folder, &["get", "plant/#"]).refusal();
    assert!(filter.contains("is a filter"), "{filter}");
    let own = retained(&folder, &["set", "$SYS/broker/uptime", "1"]).refusal();
    assert!(own.contains("server's own"), "{own}");
    retained(&folder, &["clear", "$SYS/#"]).refusal();
    retained(&folder, &["set", "plant/+", "x"]).refusal();
    retained(&folder, &["set", "plant/a", ""]).refusal();
    retained(&folder, &["set", "plant/a", "x", "--qos", "3"]).refusal();
    let bad = retained(&folder, &["ls", "plant/#/a"]);
    assert_eq!(bad.stdout, "", "no head of a table that does not come");
    bad.refusal();
    let shared = retained(&folder, &["set", "$share/g/plant", "x"]).refusal();
    assert!(shared.contains("shared subscriptions"), "{shared}");
    let deep = retained(&folder, &["set", &"a/".repeat(32), "x"]).refusal();
    assert!(
        deep.contains("33 levels") && deep.contains("topic_levels"),
        "{deep}"
    );
    let count = retained(&folder, &["count", "--json"]).success();
    assert!(count.contains("\"messages\":2"), "{count}");
    let cleared = retained(&folder, &["clear", "plant/+/#"]).success();
    assert!(cleared.starts_with('2'), "{cleared}");
    assert_eq!(subscriber.message().1, b"", "subscribers hear of it");
    assert!(snapshot(&server, "#").is_empty());
    retained(&folder, &["verify"]).success();
    retained(&folder, &["compact"]).success();
}

#[test]
fn an_export_is_imported_elsewhere_and_again_without_a_difference() {
    let server = Server::open();
    let mut client = server.client(Version::V4, "p");
    for i in 0..300_u32 {
        keep(
            &mut client,
            Version::V4,
            &format!("t/{i}"),
            &i.to_be_bytes(),
        );
    }
    let expected = snapshot(&server, "#");
    let exported = retained(&server.data_dir(), &["export"]).success();
    assert_eq!(exported.lines().count(), 300);
    drop(client);
    let plan = server.stop_for_restart();
    // Offline, from the files.
    let offline = retained(&plan.data_dir(), &["export"]).success();
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&offline), sorted(&exported));

    let other = Server::open();
    let file = other.folder().join("kept.jsonl");
    fs::write(&file, &exported).expect("a file can be written");
    let path = file.to_str().expect("a temporary path is text");
    let dry = retained(&other.data_dir(), &["import", path, "--dry-run"]).success();
    assert!(dry.starts_with("300 would be new"), "{dry}");
    assert!(
        snapshot(&other, "#").is_empty(),
        "a dry run changes nothing"
    );
    let first = retained(&other.data_dir(), &["import", path]).success();
    assert!(
        first.starts_with("300 new, 0 changed, 0 the same"),
        "{first}"
    );
    assert_eq!(snapshot(&other, "#"), expected);
    let again = retained(&other.data_dir(), &["import", path]).success();
    assert!(
        again.starts_with("0 new, 0 changed, 300 the same"),
        "{again}"
    );
}

/// A backup is brought to a machine where no server has run yet; but no folder of somebody else's
/// becomes a data folder because its name was mistyped.
#[test]
fn an_import_makes_the_store_that_is_not_there() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("kept.jsonl");
    fs::write(
        &file,
        "{\"topic\":\"a\",\"payload\":\"x\",\"zone\":\"plant\"}\n",
    )
    .expect("a file can be written");
    let path = file.to_str().expect("a temporary path is text");
    let other = folder.path();
    for args in [&["import", path, "--dry-run"][..], &["import", path]] {
        let refused = retained(other, args).refusal();
        assert!(
            refused.contains("nothing of a server") && refused.contains("--data-dir"),
            "{refused}"
        );
        assert!(!other.join("retained").exists());
    }
    for exists in [false, true] {
        let plan = Plan::new().tcp().anonymous();
        let new = plan.data_dir();
        if exists {
            fs::create_dir_all(new.join("lost+found")).expect("a folder can be made");
        }
        let refused = retained(&new, &["import", "no-such-file"]).refusal();
        assert!(refused.contains("cannot read no-such-file"), "{refused}");
        let dry = retained(&new, &["import", path, "--dry-run", "--new-zones"]);
        assert!(dry.stdout.starts_with("1 would be new"), "{dry}");
        assert!(dry.stderr.contains("a new one would be in"), "{dry}");
        dry.success();
        assert_eq!(new.exists(), exists, "nothing is made for nothing");
        assert!(!new.join("retained").exists() && !new.join("zones").exists());
        let imported = retained(&new, &["import", path, "--new-zones"]);
        assert!(imported.stdout.starts_with("1 new"), "{imported}");
        assert!(imported.stderr.contains("a new one is in"), "{imported}");
        imported.success();
        let again = retained(&new, &["import", path]);
        assert!(again.stdout.contains("1 the same"), "{again}");
        assert_eq!(again.stderr, "");
        // A server that starts on it takes it for its own.
        let server = plan.start();
        let got = retained(&new, &["get", "a", "--zone", "plant"]);
        assert_eq!(got.success(), "x");
        assert!(!server.log().contains("damage"), "{}", server.log());
    }
}

/// What is wrong is told by its line; the other lines are kept.
#[test]
fn a_line_that_is_refused_is_told_by_its_number() {
    let server = Server::open();
    let file = server.folder().join("kept.jsonl");
    let path = file.to_str().expect("a temporary path is text");
    let mut lines: Vec<String> = (1..=450)
        .map(|number| format!("{{\"topic\":\"t/{number}\",\"payload\":\"x\"}}"))
        .collect();
    for (number, line) in [
        (3, "not json"),
        (5, "[1]"),
        (6, r#"{"topic":"a","payload":"x","#),
        (7, ""),
        (8, r#"{"topic":"a","payload":"x","payload_base64":"eA=="}"#),
        (9, r#"{"topic":"a","payload":"x","qos":7}"#),
        (10, r#"{"topic":"$SYS/a","payload":"x"}"#),
        (333, r#"{"topic":"t/+","payload":"x"}"#),
        (400, r#"{"topic":"a","payload":"x","colour":1}"#),
        (410, r#"{"topic":"$room/r/prop/x","payload":"x"}"#),
        (420, r#"{"topic":"a","payload":"x","zone":3}"#),
        (430, r#"{"topic":"a","payload":"x","topic":"b"}"#),
    ] {
        lines[number - 1] = line.to_owned();
    }
    fs::write(&file, lines.join("\n")).expect("a file can be written");
    for args in [&["import", path, "--dry-run"][..], &["import", path]] {
        let refused = retained(&server.data_dir(), args);
        assert!(
            refused.stdout.starts_with("438 ") && refused.stdout.contains(" 11 refused"),
            "{refused}"
        );
        let told = refused.refusal();
        for expected in [
            "kept.jsonl, line 3: it is not a JSON object: expected ident, at column 2\n",
            "kept.jsonl, line 5: it is not a JSON object\n",
            "kept.jsonl, line 6: it is not a JSON object: ",
            "kept.jsonl, line 8: \"a\": it has both payload and payload_base64",
            "kept.jsonl, line 9: \"a\": qos cannot be 7",
            "kept.jsonl, line 10: \"$SYS/a\": topics below $SYS/ are the server's own",
            "kept.jsonl, line 333: \"t/+\"",
            "kept.jsonl, line 400: \"a\": nothing is called \"colour\"",
            "kept.jsonl, line 410: \"$room/r/prop/x\": topics below $room/ are the server's own",
            "kept.jsonl, line 420: \"a\": zone cannot be 3",
            "kept.jsonl, line 430: topic is given twice\n",
        ] {
            assert!(told.contains(expected), "{expected} in {told}");
        }
    }
    assert_eq!(snapshot(&server, "#").len(), 438);
}

/// An export names the zone, whose number is another one elsewhere.
#[test]
fn an_export_of_a_zone_is_imported_into_the_zone_of_that_name() {
    let server = Server::open();
    let folder = server.data_dir();
    let unknown = retained(&folder, &["ls", "--zone", "game"]).refusal();
    assert!(unknown.contains("game"), "{unknown}");
    server.control(&["zone", "add", "chat"]).success();
    for (zone, topic) in [("chat", "a"), ("default", "c")] {
        retained(&folder, &["set", topic, zone, "--zone", zone]).success();
    }
    let set = ["set", "b", "game", "--zone", "game"];
    let unknown = retained(&folder, &set).refusal();
    assert!(unknown.contains("--new-zones"), "{unknown}");
    retained(&folder, &[&set[..], &["--new-zones"]].concat()).success();
    // It is none that is new any more.
    retained(&folder, &set).success();
    let exported = retained(&folder, &["export", "--zone", "game"]).success();
    assert!(exported.contains("\"zone\":\"game\""), "{exported}");
    assert_eq!(exported.lines().count(), 1);
    let other = Server::open();
    let file = other.folder().join("kept.jsonl");
    fs::write(&file, &exported).expect("a file can be written");
    let path = file.to_str().expect("a temporary path is text");
    let folder = other.data_dir();
    for import in [&["import", path][..], &["import", path, "--dry-run"]] {
        let refused = retained(&folder, import);
        assert!(refused.stdout.ends_with("1 refused\n"), "{refused}");
        let told = refused.refusal();
        assert!(
            told.contains("line 1: ") && told.contains("--new-zones"),
            "{told}"
        );
    }
    let dry = retained(&folder, &["import", path, "--dry-run", "--new-zones"]).success();
    assert!(dry.starts_with("1 would be new"), "{dry}");
    retained(&folder, &["ls", "--zone", "game"]).refusal();
    retained(&folder, &["import", path, "--new-zones"]).success();
    let there = retained(&folder, &["get", "b", "--zone", "game"]).success();
    assert_eq!(there, "game");
    assert_eq!(retained(&folder, &["export"]).success(), "");
    retained(&folder, &["set", "d", "x", "--zone", "a/b", "--new-zones"]).refusal();
    // The same while no server runs.
    let plan = other.stop_for_restart();
    let offline = retained(&folder, &["export", "--zone", "game"]).success();
    assert_eq!(
        offline.split("\"received_ms\"").next(),
        exported.split("\"received_ms\"").next()
    );
    retained(&folder, &["set", "e", "x", "--zone", "new"]).refusal();
    retained(&folder, &["set", "e", "x", "--zone", "game"]).success();
    retained(&folder, &["set", "e", "x", "--zone", "new", "--new-zones"]).success();
    let there = retained(&folder, &["get", "e", "--zone", "new"]).success();
    assert_eq!(there, "x");
    drop(plan);
}

#[test]
fn another_broker_is_copied_paced_and_again() {
    let old = Server::open();
    let mut client = old.client(Version::V4, "p");
    for i in 0..50 {
        keep(&mut client, Version::V4, &format!("t/{i}"), b"old");
    }
    let new = Server::open();
    let mut client = new.client(Version::V4, "p");
    keep(&mut client, Version::V4, "t/7", b"other");
    keep(&mut client, Version::V4, "mine", b"stays");
    let url = old.url("mqtt").to_owned();
    let args = ["import", "--from", &url, "--idle", "1", "--rate", "5000"];
    let first = retained(&new.data_dir(), &args).success();
    assert!(
        first.starts_with("49 new, 1 changed, 0 the same"),
        "{first}"
    );
    let again = retained(&new.data_dir(), &args).success();
    assert!(
        again.starts_with("0 new, 0 changed, 50 the same"),
        "{again}"
    );
    let mut expected = snapshot(&old, "#");
    expected.insert("mine".into(), b"stays".to_vec());
    assert_eq!(snapshot(&new, "#"), expected);
}

/// The numbers that a Stentor tells its subscribers are not the publisher's.
#[test]
fn a_copy_of_a_stentor_has_none_of_its_numbers() {
    let policy = "[[policy]]\nfilter = \"#\"\nsequence = true\n";
    let old = Plan::new().tcp().anonymous().config(policy).start();
    retained(&old.data_dir(), &["set", "t/a", "x", "--qos", "2"]).success();
    let new = Server::open();
    let url = old.url("mqtt").to_owned();
    let args = ["import", "--from", &url, "--idle", "1"];
    retained(&new.data_dir(), &args).success();
    let line = retained(&new.data_dir(), &["export"]).success();
    assert!(!line.contains("properties"), "{line}");
    assert!(line.contains("\"qos\":2"), "{line}");
    let again = retained(&new.data_dir(), &args).success();
    assert!(again.starts_with("0 new, 0 changed, 1 the same"), "{again}");
}

/// What a Stentor says of itself now and then is not waited for: it leaves nothing out.
#[test]
fn a_copy_of_a_stentor_waits_for_no_figures() {
    let seldom = "[sys]\ninterval = \"3600s\"\n";
    let old = Plan::new().tcp().anonymous().config(seldom).start();
    let mut reader = old.client(Version::V4, "r");
    reader.subscribe("$SYS/broker/uptime", 0);
    reader.expect(3);
    retained(&old.data_dir(), &["set", "t/a", "x"]).success();
    let new = Server::open();
    let begun = Instant::now();
    let args = ["import", "--from", old.url("mqtt"), "--idle", "1"];
    let copied = retained(&new.data_dir(), &args).success();
    assert!(copied.starts_with("1 new"), "{copied}");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Files are as large as what is in them asks for, not as what once was: on a running server, and
/// on the files of a stopped one.
#[test]
fn a_store_that_is_emptied_shrinks() {
    let mut server = Server::open();
    let folder = server.data_dir();
    let file = server.folder().join("kept.jsonl");
    let lines = (0..20_000).map(|i| format!("{{\"topic\":\"t/{i}\",\"payload\":\"{i:0500}\"}}\n"));
    fs::write(&file, lines.collect::<String>()).expect("a file can be written");
    let path = file.to_str().expect("a temporary path is text");
    let bytes = || {
        let count = retained(&folder, &["count", "--json"]).success();
        let count: Value = serde_json::from_str(&count).expect("an answer is JSON");
        count["file_bytes"].as_u64().expect("files have a length")
    };
    for is_running in [true, false] {
        retained(&folder, &["import", path]).success();
        assert!(bytes() > 20 << 20, "{} bytes", bytes());
        if !is_running {
            assert!(server.stop().success(), "it ends in order");
        }
        retained(&folder, &["clear", "t/#"]).success();
        retained(&folder, &["compact"]).success();
        assert!(bytes() <= 9 << 20, "{} bytes, {is_running}", bytes());
        retained(&folder, &["verify"]).success();
    }
}

/// mosquitto drops what its queue for one client has no room for, and tells nobody: what comes
/// over a Unix socket, which takes little, is not all, and that is said.
#[test]
fn all_messages_of_a_mosquitto_are_copied_or_it_is_said() {
    const COUNT: usize = 5_000;
    let server = Server::open();
    let socket = server.folder().join("mosquitto.sock");
    let config = server.folder().join("mosquitto.conf");
    let port = server::free_port();
    let text = format!(
        "listener {port} 127.0.0.1\nlistener 0 {}\nallow_anonymous true\nuser root\n\
         sys_interval 1\n",
        socket.display()
    );
    fs::write(&config, text).expect("a configuration can be written");
    let mut command = tools::mosquitto("mosquitto");
    command.arg("-c").arg(&config).stderr(Stdio::null());
    let mut mosquitto = command.spawn().expect("mosquitto starts");
    eventually("a listening mosquitto", || {
        UnixStream::connect(&socket).is_ok()
    });
    let mut client = Raw::unix(&socket);
    client.login(Version::V4, "p", true);
    for i in 0..COUNT {
        keep(&mut client, Version::V4, &format!("t/{i}"), &[b'x'; 300]);
    }
    let copy = |url: &str| {
        let args = ["import", "--from", url, "--idle", "1"];
        retained(&server.data_dir(), &args)
    };
    let all = copy(&format!("mqtt://127.0.0.1:{port}")).success();
    assert!(
        all.starts_with(&format!("{COUNT} new, 0 changed, 0 the same, 0 refused")),
        "{all}"
    );
    let line = retained(&server.data_dir(), &["export", "t/7"]).success();
    assert!(line.contains("\"qos\":1"), "{line}");
    let part = copy(&format!("unix:{}", socket.display()));
    if !part.stdout.contains(&format!("{COUNT} the same")) {
        let told = part.refusal();
        assert!(told.contains("max_queued_messages"), "{told}");
    }
    // An error means that it has ended already.
    let _ = mosquitto.kill();
    let _ = mosquitto.wait();
}

#[test]
fn files_of_a_stopped_server_can_be_changed() {
    let server = Server::open();
    let mut client = server.client(Version::V4, "p");
    keep(&mut client, Version::V4, "a", b"1");
    drop(client);
    let plan = server.kill();
    let folder = plan.data_dir();
    retained(&folder, &["set", "b", "2"]).success();
    retained(&folder, &["clear", "a"]).success();
    retained(&folder, &["verify"]).success();
    let server = plan.start();
    let found = snapshot(&server, "#");
    assert_eq!(found, [("b".to_owned(), b"2".to_vec())].into());
    let nowhere = server.folder().join("nowhere");
    let text = retained(&nowhere, &["ls"]).refusal();
    assert!(text.contains("--data-dir"), "{text}");
}

/// A bound on the size of files is to a command what a full disk is: it is no reason to die in the
/// middle of a change.
#[test]
fn files_that_may_not_grow_are_an_error() {
    let server = Server::open();
    let mut client = server.client(Version::V4, "p");
    keep(&mut client, Version::V4, "a", b"1");
    drop(client);
    let plan = server.kill();
    let (folder, file) = (plan.data_dir(), plan.data_dir().join("large"));
    fs::write(&file, vec![b'x'; 3 << 20]).expect("a file can be written");
    let payload = format!("@{}", file.display());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]);
    command.arg(server::stentor().get_program());
    command.args(["retained", "set", "large", &payload, "--data-dir"]);
    let text = process::run(command.arg(&folder)).refusal();
    assert!(text.contains("there is no room"), "{text}");
    let found = snapshot(&plan.start(), "#");
    assert_eq!(found, [("a".to_owned(), b"1".to_vec())].into());
}

/// All commands agree on what is there, also before a server has taken away what has expired.
#[test]
fn what_has_expired_is_not_counted() {
    let plan = Server::open().stop_for_restart();
    let folder = plan.data_dir();
    retained(&folder, &["set", "stays", "1"]).success();
    retained(&folder, &["set", "goes", "2", "--expiry", "1"]).success();
    eventually("a message that expires", || {
        !retained(&folder, &["ls"]).success().contains("goes")
    });
    let check = || {
        let verified = retained(&folder, &["verify"]).success();
        assert!(verified.starts_with("1 whole, 0 damaged"), "{verified}");
        let count = retained(&folder, &["count", "--json"]).success();
        assert!(count.contains("\"messages\":1,"), "{count}");
    };
    check();
    let _server = plan.start();
    check();
}

/// A server that stops closes the connection and has the files a moment longer.
#[test]
fn a_command_waits_for_a_server_that_starts_or_stops() {
    let plan = Server::open().stop_for_restart();
    let folder = plan.data_dir();
    retained(&folder, &["set", "a", "1"]).success();
    let mut command = server::stentor();
    command.args(["retained", "import", "--data-dir"]);
    // What it refuses is told when it has the files, which it keeps until its input ends.
    command.arg(&folder).stdin(Stdio::piped());
    let mut holder = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut input = holder.stdin.take().expect("there is an input");
    input.write_all(b"-\n").expect("it reads");
    let mut told = [0; 8];
    let mut errors = holder.stderr.take().expect("there is an output");
    errors.read_exact(&mut told).expect("it tells");
    let socket = folder.join("control.sock");
    let listener = UnixListener::bind(&socket).expect("a socket can be made");
    let stopping = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the command comes");
        fs::remove_file(&socket).expect("a socket can be removed");
        drop((stream, listener));
        drop(input);
        holder.wait()
    });
    let got = retained(&folder, &["get", "a"]).success();
    assert_eq!(got, "1");
    // It has ended with 1, for what it refused.
    let _ = stopping.join();
    drop(plan);
}

#[test]
fn a_folder_of_the_configuration_is_found_offline() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let messages = folder.path().join("messages");
    let config = format!(
        "[retained]\ndir = \"{}\"\nmessages = 2\n",
        messages.display()
    );
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let mut client = server.client(Version::V4, "p");
    keep(&mut client, Version::V4, "a", b"1");
    drop(client);
    let plan = server.kill();
    let file = folder.path().join("stentor.toml");
    let data_dir = plan.data_dir();
    let whole = format!("data_dir = \"{}\"\n{config}", data_dir.display());
    fs::write(&file, whole).expect("a file can be written");
    let with_config = |args: &[&str]| {
        let mut command = server::stentor();
        command
            .arg("retained")
            .args(args)
            .arg("--config")
            .arg(&file);
        process::run(&mut command)
    };
    assert_eq!(with_config(&["get", "a"]).success(), "1");
    with_config(&["set", "b", "2"]).success();
    let full = with_config(&["set", "c", "3"]).refusal();
    assert!(
        full.contains("a bound of retained messages is reached"),
        "the quotas of the configuration hold: {full}"
    );
    let elsewhere = retained(&data_dir, &["ls"]).refusal();
    assert!(elsewhere.contains("--config"), "{elsewhere}");
    let server = plan.start();
    let found = snapshot(&server, "#");
    let expected = [("a", "1"), ("b", "2")].map(|(topic, text)| (topic.into(), text.into()));
    assert_eq!(found, expected.into());
}

/// What administrators set takes its place in the order of the topic, and is counted once.
#[test]
fn a_message_that_is_set_has_the_next_number() {
    let policy = "[[policy]]\nfilter = \"#\"\nkeep = \"last\"\nsequence = true\n";
    let server = Plan::new().tcp().anonymous().config(policy).start();
    let mut subscriber = server.client(Version::V5, "s");
    subscriber.subscribe("tick/#", 0);
    let mut client = server.client(Version::V5, "p");
    let mut last = 0;
    for round in 0..6 {
        client.send(&raw::publish(Version::V5, "tick/a", b"live", 1, false));
        client.expect(4);
        retained(&server.data_dir(), &["set", "tick/a", &round.to_string()]).success();
        for expected in [b"live".to_vec(), round.to_string().into_bytes()] {
            let message = subscriber.expect(3);
            let (_, payload) = message.message(Version::V5);
            assert_eq!(payload, expected);
            let seq = number(&message.body, "seq");
            assert!(last == 0 || seq == last + 1, "{seq} follows {last}");
            last = seq;
        }
    }
}
