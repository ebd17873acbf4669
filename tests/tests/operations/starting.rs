//! A start that cannot work is refused in one sentence, and nothing is left half-started.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use stentor_tests::{Finished, Plan, Version, process, server};

/// One line on standard error that says all of that, and the exit code that scripts rely on.
#[track_caller]
fn check(finished: Finished, code: i32, says: &[&str]) {
    assert_eq!(finished.status.code(), Some(code), "{finished}");
    let text = finished.refusal();
    assert_eq!(
        text.trim_end().lines().count(),
        1,
        "one sentence was expected: {text}"
    );
    for wanted in says {
        assert!(text.contains(wanted), "{wanted:?} is missing: {text}");
    }
}

#[test]
fn a_taken_port_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!(
        "mqtt://{}",
        taken.local_addr().expect("a listener has an address")
    );
    let plan = Plan::new().anonymous().tcp().listen(&url);
    check(plan.refused(), 69, &[&url, "taken", "--listen"]);
    assert!(!plan.data_dir().exists(), "a data folder stayed behind");
}

/// A command that comes while a server starts waits for it: here, for a silent database.
#[test]
fn a_command_waits_for_a_server_that_starts() {
    let database = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = database.local_addr().expect("a listener has an address");
    let config =
        format!("[auth]\ndatabase = \"postgres://stentor@{address}/users?sslmode=disable\"\n");
    let plan = Plan::new().tcp().config(&config);
    let socket = plan.data_dir().join("control.sock");
    let mut status = server::stentor();
    status.args(["status", "--data-dir"]).arg(plan.data_dir());
    let starting = thread::spawn(move || plan.start());
    let asked = database.accept().expect("the server asks the database");
    UnixStream::connect(socket).expect("the server can be asked");
    let status = thread::spawn(move || process::run(&mut status));
    drop((asked, database));
    let server = starting.join().expect("the server starts");
    let status = status.join().expect("the command ends");
    assert!(status.success().contains("LISTENER"), "it was answered");
    drop(server);
}

/// The listeners of procedures are opened with the others, before anybody is let in.
#[test]
fn a_taken_port_for_calls_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("a listener has an address");
    let url = format!("call://{address}");
    let plan = Plan::new().anonymous().tcp().listen(&url);
    check(plan.refused(), 69, &[&url, "taken"]);
    assert!(!plan.data_dir().exists(), "a data folder stayed behind");
    // In a folder that was there before nothing is made but the lock.
    fs::create_dir(plan.data_dir()).expect("a folder can be made");
    check(plan.refused(), 69, &[&url, "taken"]);
    let names = fs::read_dir(plan.data_dir()).expect("the folder stays");
    let names = names.map(|entry| entry.expect("an entry can be read").file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["lock"]);
}

#[test]
fn a_unix_socket_may_stand_in_a_new_data_folder() {
    let plan = Plan::new().anonymous();
    let path = plan.data_dir().join("open.sock");
    let server = plan.listen(&format!("unix:{}", path.display())).start();
    stentor_tests::Raw::unix(&path).login(Version::V5, "c", true);
    drop(server);
}

#[test]
fn a_unix_socket_without_a_place_is_refused() {
    let plan = Plan::new().anonymous();
    let missing = plan.folder().join("missing");
    let plan = plan.listen(&format!("unix:{}/s.sock", missing.display()));
    let folder = missing.display().to_string();
    check(plan.refused(), 78, &[&folder, "mkdir -p", "another path"]);
    let long = format!("unix:/tmp/{}", "x".repeat(200));
    let plan = Plan::new().anonymous().listen(&long);
    check(plan.refused(), 78, &["107", "shorter"]);
    assert!(!plan.data_dir().exists(), "a data folder stayed behind");
}

/// Where clients look for `localhost` first differs, so the server answers on both addresses.
#[test]
fn localhost_opens_both_loopback_addresses_on_one_port() {
    let both = TcpListener::bind("[::1]:0").is_ok();
    let plan = Plan::new().anonymous().listen("mqtt://localhost:0");
    let server = if both { plan.opens(1) } else { plan }.start();
    let port = server.port("mqtt");
    let mut wanted = vec![format!("mqtt://127.0.0.1:{port}")];
    if both {
        wanted.push(format!("mqtt://[::1]:{port}"));
    } else {
        // With one address there is nothing to tell apart.
        wanted[0] = format!("mqtt://localhost:{port}");
    }
    assert_eq!(server.urls(), wanted);
    for url in server.urls() {
        let address = url
            .strip_prefix("mqtt://")
            .expect("that is what was opened");
        stentor_tests::Raw::tcp(address).login(Version::V5, "c", true);
    }
}

#[test]
fn a_taken_unix_socket_is_refused_and_stays() {
    let plan = Plan::new().anonymous();
    let path = plan.folder().join("taken.sock");
    let _taken = UnixListener::bind(&path).expect("a socket can be made");
    let plan = plan.listen(&format!("unix:{}", path.display()));
    check(plan.refused(), 69, &["taken"]);
    assert!(path.exists(), "another program's socket was removed");
}

/// Root gives the socket away; everybody else can give it to himself.
#[test]
fn a_unix_socket_gets_its_owner_group_and_mode() {
    let plan = Plan::new();
    let path = plan.folder().join("owned.sock");
    let us = fs::metadata(plan.folder()).expect("the folder is there");
    let (owner, group) = if us.uid() == 0 {
        (12_345, 54_321)
    } else {
        (us.uid(), us.gid())
    };
    let config = format!(
        "allow_anonymous = true\n[[listener]]\nurl = \"unix:{}\"\n\
         owner = \"{owner}\"\ngroup = \"{group}\"\nmode = \"0604\"\n",
        path.display()
    );
    let server = plan.config(&config).start();
    let file = fs::metadata(&path).expect("the socket is there");
    assert_eq!((file.uid(), file.gid()), (owner, group));
    assert_eq!(file.mode() & 0o777, 0o604);
    stentor_tests::Raw::unix(&path).login(Version::V5, "c", true);
    drop(server);
}

#[test]
fn an_owner_whom_nobody_knows_is_refused_and_no_socket_stays() {
    let plan = Plan::new();
    let path = plan.folder().join("owned.sock");
    let config = format!(
        "[[listener]]\nurl = \"unix:{}\"\nowner = \"nobody-of-that-name\"\n",
        path.display()
    );
    let plan = plan.config(&config);
    check(plan.refused(), 78, &["nobody-of-that-name", "owner"]);
    assert!(!path.exists(), "the socket's file stayed behind");
}

#[test]
fn a_unix_socket_that_a_dead_server_left_is_replaced() {
    let plan = Plan::new().anonymous();
    let path = plan.folder().join("stale.sock");
    drop(UnixListener::bind(&path).expect("a socket can be made"));
    let mut server = plan.listen(&format!("unix:{}", path.display())).start();
    stentor_tests::Raw::unix(&path).login(Version::V5, "c", true);
    assert!(server.stop().success());
    assert!(!path.exists(), "the server left its socket behind");
}

#[test]
fn a_file_in_the_place_of_a_unix_socket_is_refused_and_stays() {
    let plan = Plan::new().anonymous();
    let path = plan.folder().join("precious");
    fs::write(&path, "data").expect("a file can be written");
    let plan = plan.listen(&format!("unix:{}", path.display()));
    check(plan.refused(), 78, &["precious", "no socket"]);
    assert_eq!(
        fs::read_to_string(&path).expect("the file is there"),
        "data"
    );
}

#[test]
fn a_missing_certificate_is_refused() {
    let plan = Plan::new().anonymous().listen("mqtts://127.0.0.1:0");
    check(plan.refused(), 78, &["certificate"]);
    let plan = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .arg("--tls-certificate")
        .arg("/nowhere/server.crt")
        .arg("--tls-key")
        .arg("/nowhere/server.key");
    check(plan.refused(), 78, &["/nowhere/server.crt"]);
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (plan, certificates) = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .certificates();
    let key = fs::read(certificates.key()).expect("the key can be read");
    certificates.renew();
    fs::write(certificates.key(), key).expect("the key can be written");
    check(plan.refused(), 78, &["key"]);
}

#[test]
fn an_unwritable_data_folder_is_refused() {
    let plan = Plan::new().anonymous().tcp();
    // Root may write everywhere, but not make a folder below a file.
    fs::write(plan.data_dir(), "in the way").expect("a file can be written");
    check(plan.refused(), 73, &["data folder", "--data-dir"]);
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let server = Plan::new().anonymous().tcp().start();
    let mut client = server.client(Version::V5, "c");
    let mut second = server::stentor();
    second.args([
        "serve",
        "--allow-anonymous",
        "--listen",
        "mqtt://127.0.0.1:0",
        "--data-dir",
    ]);
    let finished = process::run(second.arg(server.data_dir()));
    assert_eq!(finished.stdout, "");
    check(finished, 75, &["running", "--data-dir"]);
    client.ping();
    server.json(&["status"]);
}

#[test]
fn a_folder_that_a_killed_server_left_is_taken_over() {
    let plan = Plan::new().anonymous().tcp();
    let folder = plan.data_dir();
    let keep = Plan::new();
    let moved = keep.folder().join("data");
    let mut server = plan.start();
    server.signal(nix::sys::signal::Signal::SIGKILL);
    assert!(!server.ended().success());
    fs::rename(folder, &moved).expect("the data folder can be moved");
    let second = keep.anonymous().tcp().start();
    second.client(Version::V5, "c").ping();
    second.json(&["status"]);
}

#[test]
fn anonymous_access_from_the_network_needs_permission() {
    let plan = Plan::new().anonymous().listen("mqtt://0.0.0.0:0");
    check(plan.refused(), 78, &["anonymous = true"]);
    let config = "[[listener]]\nurl = \"mqtt://0.0.0.0:0\"\nanonymous = true\n";
    let server = Plan::new().config(config).start();
    assert_eq!(server.urls().len(), 1);
}

#[test]
fn an_unknown_key_is_refused_with_a_suggestion() {
    let plan = Plan::new()
        .config("[limits]\nconections = 3\n")
        .tcp()
        .anonymous();
    check(plan.refused(), 78, &["conections", "connections"]);
}

#[test]
fn check_config_says_what_is_wrong_and_where() {
    let plan = Plan::new();
    let path = plan.folder().join("c.toml");
    let run = |text: &str| {
        fs::write(&path, text).expect("a file can be written");
        process::run(
            server::stentor()
                .arg("check-config")
                .arg("--config")
                .arg(&path),
        )
    };
    run("shards = 2\n[limits]\nconnections = 3\n").success();
    let finished = run("shards = 2\n[limits]\npacket_bytes = \"much\"\n");
    assert_eq!(finished.status.code(), Some(78), "{finished}");
    let text = finished.refusal();
    assert!(
        text.contains("limits.packet_bytes") || text.contains("packet_bytes"),
        "{text}"
    );
    assert!(text.contains('3'), "the line is missing: {text}");
    // The unit's folder below /run is there only while it runs.
    let socket = "[[listener]]\nurl = \"unix:/run/stentor-is-not-there/s.sock\"\n";
    let hinted = run(socket).success();
    assert!(
        hinted.contains("hint: there is no folder /run/stentor-is-not-there now"),
        "{hinted}"
    );
    fs::remove_file(&path).expect("it was there");
    let mut named = server::stentor();
    let finished = process::run(named.arg("check-config").arg(&path));
    assert_eq!(finished.status.code(), Some(78), "{finished}");
    let text = finished.refusal();
    let named = format!("{}: the configuration file", path.display());
    assert!(
        text.contains(&named) && !text.contains("--config"),
        "{text}"
    );
}

/// What `serve` refuses, `check-config` does, where reading tells.
#[test]
fn check_config_refuses_what_a_start_would() {
    let folder = "[procedures]\nfolder = \"/nowhere/procedures\"\n";
    let tokens = "[procedures]\ntokens = \"/nowhere/call.tokens\"\n";
    let keys = "[[jwt]]\nkey_file = \"/nowhere/issuer.pem\"\n";
    let listener = |url: &str, more: &str| format!("[[listener]]\nurl = \"{url}\"\n{more}\n");
    let pair = "certificate = \"/nowhere/a.crt\"\nkey = \"/nowhere/a.key\"";
    for (config, says) in [
        (listener("mqtts://127.0.0.1:0", pair), "/nowhere/a.crt"),
        (
            listener("unix:s.sock", "owner = \"nobody-there\""),
            "nobody-there",
        ),
        (
            listener("unix:s.sock", "group = \"nobody-there\""),
            "nobody-there",
        ),
        (
            listener("call+unix:s.sock", "allow_uid = \"nobody-there\""),
            "nobody-there",
        ),
        (listener("unix:/nowhere/s.sock", ""), "/nowhere"),
        (folder.to_owned(), "/nowhere/procedures"),
        (tokens.to_owned(), "/nowhere/call.tokens"),
        (keys.to_owned(), "/nowhere/issuer.pem"),
    ] {
        let plan = Plan::new().config(&config);
        let mut check = server::stentor();
        check.args(["check-config", "--config"]);
        let checked = process::run(check.arg(plan.folder().join("stentor.toml")));
        assert_eq!(checked.status.code(), Some(78), "{config}: {checked}");
        let checked = checked.refusal();
        assert!(checked.contains(says), "{config}: {checked}");
        // With another folder for its data it says the same.
        let plan = if config.contains("[[listener]]") {
            plan
        } else {
            plan.tcp()
        };
        let refused = process::run(plan.command().current_dir(plan.folder())).refusal();
        assert_eq!(checked, refused, "{config}");
        assert!(!plan.data_dir().exists(), "a data folder stayed behind");
    }
}

#[test]
fn flags_beat_the_environment_and_that_beats_the_file() {
    let plan = || Plan::new().config("shards = 3\n").tcp().anonymous();
    let with_variable = || plan().variable("STENTOR_SHARDS", "2");
    let shards = |plan: Plan| plan.start().json(&["status"])["shards_total"].as_u64();
    assert_eq!(shards(plan()), Some(3));
    assert_eq!(shards(with_variable()), Some(2));
    assert_eq!(shards(with_variable().arg("--shards").arg("1")), Some(1));
}

/// A key in a section, and a list entry, by their variables alone.
#[test]
fn the_environment_alone_configures_a_server() {
    let mut plan = Plan::new().variable("STENTOR_LISTENER__0__URL", "mqtt://127.0.0.1:0");
    plan = plan.variable("STENTOR_LISTENER__0__ANONYMOUS", "true");
    plan = plan.variable("STENTOR_LIMITS__TOPIC_BYTES", "20");
    let server = plan.opens(1).start();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("twenty-bytes-long-ok", 0);
    let subscribe = stentor_tests::raw::subscribe(Version::V5, 2, "twenty-one-bytes-long", 0);
    client.send(&subscribe);
    // 0x8F "topic filter invalid".
    assert_eq!(client.expect(9).body.last(), Some(&0x8F));
    let topic = "twenty-one-bytes-long";
    client.send(&stentor_tests::raw::publish(
        Version::V5,
        topic,
        b"",
        1,
        false,
    ));
    // 0x90 "topic name invalid".
    assert_eq!(client.expect(4).body.get(2), Some(&0x90));
    client.ping();
}

/// Whatever its underscores; the variables of other commands and of Kubernetes are none of these.
#[test]
fn a_misspelt_variable_is_refused_with_a_suggestion() {
    for (name, meant) in [
        ("STENTOR_SHARD", "STENTOR_SHARDS"),
        ("STENTOR_LOG_LEVEL", "STENTOR_LOG__LEVEL"),
        (
            "STENTOR_LIMITS_PACKET_BYTES",
            "STENTOR_LIMITS__PACKET_BYTES",
        ),
        ("STENTOR_LIMIT__INFLIGHT", "STENTOR_LIMITS__INFLIGHT"),
    ] {
        let plan = Plan::new().variable(name, "2").tcp().anonymous();
        check(
            plan.refused(),
            78,
            &[name, &format!("did you mean {meant}?")],
        );
    }
    let mut plan = Plan::new().variable("STENTOR_PORT", "tcp://10.0.0.1:1883");
    for name in ["STENTOR_PASSWORD", "STENTOR_TOKEN", "STENTOR_SOAK"] {
        plan = plan.variable(name, "1");
    }
    plan.tcp()
        .anonymous()
        .start()
        .client(Version::V5, "c")
        .ping();
}

/// What the log says of adding a user.
const ADD: &str = "to let somebody in, add a user";

/// The first start knows nobody but the administrator whom it makes; later ones know better.
#[test]
fn adding_a_user_is_proposed_as_long_as_there_is_none() {
    let server = Plan::new().tcp().start();
    let log = server.log();
    assert!(log.contains("(login required)"), "{log}");
    server.wait_log(0, ADD);
    let secret = server.folder().join("secret");
    fs::write(&secret, "correct horse\n").expect("it can be written");
    let path = secret.to_string_lossy().into_owned();
    let add = ["user", "add", "kim", "--password-file", &path];
    server.control(&add).success();
    let server = server.stop_for_restart().start();
    // What comes behind it.
    let log = server.wait_log(0, "only this machine can connect");
    assert!(!log.contains(ADD), "{log}");
}

/// Where nobody logs in, there is nobody to add.
#[test]
fn adding_a_user_is_not_proposed_where_procedures_are_called_only() {
    let plan = Plan::new();
    let url = format!("call+unix:{}", plan.folder().join("call.sock").display());
    let server = plan.listen(&url).start();
    let log = server.log();
    assert!(
        !log.contains(ADD) && !log.contains("only this machine"),
        "{log}"
    );
    let said = server.wait_log(0, "no listener speaks MQTT");
    assert!(said.contains("--listen mqtt://127.0.0.1:1883"), "{said}");
    let usual = Plan::new().tcp().start();
    let log = usual.wait_log(0, "only this machine");
    assert!(!log.contains("no listener speaks MQTT"), "{log}");
}

/// What `journalctl -p warning` shows: sd-daemon(3) has the numbers.
#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    for (format, level) in [("auto", "DEBUG"), ("json", "\"level\":\"DEBUG\"")] {
        let plan = Plan::new()
            .into_journal()
            .arg("--log-format")
            .arg(format)
            .arg("--log-level")
            .arg("debug");
        let mut server = plan.tcp().anonymous().start();
        let mut refused = server.dial();
        refused.send(b"GET / HTTP/1.1\r\n\r\n");
        refused.closed();
        assert!(server.stop().success());
        let log = server.wait_log(0, "stopped");
        let of =
            |priority: &'static str| log.lines().filter(move |line| line.starts_with(priority));
        assert!(of("<6>").count() > 2 && of("<4>").count() > 0, "{log}");
        assert!(of("<7>").all(|line| line.contains(level)), "{log}");
        assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
    }
    // A program below a unit inherits the variable, though it writes elsewhere.
    let elsewhere = Plan::new().variable("JOURNAL_STREAM", "8:12345");
    for plan in [Plan::new(), elsewhere] {
        let server = plan.tcp().anonymous().start();
        assert!(!server.log().starts_with('<'), "{}", server.log());
    }
}

/// What `journalctl -p err` shows of a unit that does not start.
#[test]
fn a_reason_not_to_start_has_the_priority_of_an_error() {
    let plan = || Plan::new().config("there = \"is\"\nno = \"key\"\n");
    let told = plan().into_journal().refused().stderr;
    let is_marked = told.lines().all(|line| line.starts_with("<3>"));
    assert!(is_marked && told.starts_with("<3>stentor: "), "{told}");
    let told = plan().refused().stderr;
    assert!(told.starts_with("stentor: "), "{told}");
}

#[test]
fn json_logs_are_json() {
    let mut server = Plan::new()
        .tcp()
        .anonymous()
        .arg("--log-format")
        .arg("json")
        .start();
    server.client(Version::V5, "c").ping();
    assert!(server.stop().success());
    let log = server.wait_log(0, "stopped");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
    }
}
