//! Changing a running server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::signal::Signal;
use stentor_tests::{Certificates, Plan, Raw, Server, Version, process, raw, tools};

const BASE: &str = "allow_anonymous = true\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";

fn server() -> Server {
    Plan::new().config(BASE).start()
}

#[test]
fn sighup_reloads_and_keeps_connections() {
    let server = server();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("t", 0);
    let from = server.log().len();
    server.reconfigure(&format!("{BASE}[limits]\nsubscriptions_per_client = 2\n"));
    server.signal(Signal::SIGHUP);
    server.wait_log(from, "limits.subscriptions_per_client");
    client.publish("t", b"still here");
    assert_eq!(client.message().1, b"still here");
}

/// A server that applies its file when that is saved.
fn server_that_watches() -> Server {
    Plan::new()
        .config(&format!("apply_on_save = true\n{BASE}"))
        .start()
}

#[test]
fn a_changed_file_is_applied_without_a_command_where_that_is_wanted() {
    let server = server_that_watches();
    let from = server.log().len();
    let text = format!("apply_on_save = true\n{BASE}[limits]\nqueue_messages = 77\n");
    server.reconfigure(&text);
    server.wait_log(from, "limits.queue_messages");
}

/// The key is live: the watch begins and ends with a reload.
#[test]
fn a_saved_file_waits_for_a_command() {
    let server = server();
    let config = |apply: bool, messages: u32| {
        format!("apply_on_save = {apply}\n{BASE}[limits]\nqueue_messages = {messages}\n")
    };
    // With a watch, one of so many changes would have been applied before the command.
    for messages in 70..90 {
        server.reconfigure(&config(false, messages));
        let asked = server.json(&["reload"]);
        let changed = asked["changed"].to_string();
        assert!(changed.contains("limits.queue_messages"), "{asked}");
    }
    assert!(
        !server.log().contains("the file changed"),
        "{}",
        server.log()
    );
    server.reconfigure(&config(true, 90));
    server.json(&["reload"]);
    let from = server.log().len();
    server.reconfigure(&config(true, 91));
    server.wait_log(from, "(the file changed): limits.queue_messages");
}

/// A full disk, a template or a slow copy leaves such a file.
#[test]
fn an_empty_file_changes_nothing() {
    for server in [server(), server_that_watches()] {
        let mut client = server.client(Version::V5, "c");
        let from = server.log().len();
        fs::write(server.folder().join("stentor.toml"), "").expect("it can be written");
        let text = server.control(&["reload"]).refusal();
        assert!(text.contains("there is no key in this file"), "{text}");
        let log = server.wait_log(from, "the old one stays");
        assert!(!log[from..].contains("closed mqtt"), "{log}");
        client.ping();
        server.client(Version::V5, "another").ping();
    }
}

/// The watch sees each line of a log that is written beside the configuration, and must not log it.
#[test]
fn trace_does_not_log_the_watch_on_the_file() {
    let text = format!("apply_on_save = true\n{BASE}[log]\nlevel = \"trace\"\n");
    let server = Plan::new().config(&text).start();
    let from = server.log().len();
    fs::write(server.folder().join("beside"), "x").expect("it can be written");
    server.reconfigure(&format!("{text}[limits]\nqueue_messages = 77\n"));
    let log = server.wait_log(from, "limits.queue_messages");
    assert!(!log.contains("inotify"), "{log}");
}

#[test]
fn a_broken_file_keeps_the_old_configuration_and_says_why() {
    let server = server();
    let mut client = server.client(Version::V5, "c");
    let from = server.log().len();
    server.reconfigure("[limits]\nconections = 1\n");
    server.signal(Signal::SIGHUP);
    let log = server.wait_log(from, "conections");
    assert!(log[from..].contains("the old one stays"), "{log}");
    client.ping();
    server.client(Version::V5, "another").ping();
    server.control(&["reload"]).refusal();
    let reload = &server.json(&["status"])["reload"];
    assert!(reload.to_string().contains("conections"), "{reload}");
}

#[test]
fn the_reload_command_reports_what_changed() {
    let server = server();
    server.reconfigure(&format!(
        "shards = 7\n{BASE}[limits]\nqueue_messages = 77\n"
    ));
    server.control(&["reload"]).success();
    let log = server.wait_log(0, "restart only: shards");
    assert!(log.contains("limits.queue_messages"), "{log}");
}

/// An operator who edits the file and asks for a reload reads of that, not of the watch behind it.
#[test]
fn the_watch_hides_no_reload_that_was_asked_for() {
    let server = server_that_watches();
    for messages in 70..90 {
        let from = server.log().len();
        server.reconfigure(&format!(
            "apply_on_save = true\n{BASE}[limits]\nqueue_messages = {messages}\n"
        ));
        let asked = server.json(&["reload"]);
        server.wait_log(from, "(the file changed)");
        if asked["changed"] == serde_json::json!(["limits.queue_messages"]) {
            let reload = server.json(&["status"])["reload"].to_string();
            assert!(reload.contains("stentor reload"), "{reload}");
            assert!(reload.contains("limits.queue_messages"), "{reload}");
            return;
        }
    }
    panic!("the watch was always quicker");
}

/// A setting that waits is told against what the process runs with, not against what was read last.
#[test]
fn a_key_that_is_set_back_waits_for_nothing() {
    let server = server();
    let reload = |text: &str| {
        server.reconfigure(text);
        server.json(&["reload"])["waiting"].clone()
    };
    assert_eq!(
        reload(&format!("shards = 7\n{BASE}")),
        serde_json::json!(["shards"])
    );
    let again = server.json(&["reload"]);
    assert_eq!(
        again["waiting"],
        serde_json::json!(["shards"]),
        "it still waits"
    );
    assert_eq!(reload(BASE), serde_json::json!([]));
    let text = server.control(&["status"]).success();
    assert!(
        text.contains("last reload") && !text.contains("restart"),
        "{text}"
    );
}

/// Saving alone changes nothing, and `status` says so.
#[test]
fn a_file_that_is_not_applied_yet_is_seen() {
    let server = server();
    let is_newer = || {
        let text = server.control(&["status"]).success();
        text.contains("was saved after it was applied: `stentor reload` applies it")
    };
    assert!(!is_newer());
    server.reconfigure(&format!("{BASE}[log]\nlevel = \"debug\"\n"));
    assert!(is_newer());
    server.json(&["reload"]);
    assert!(!is_newer());
    // After one that failed, the file that mends it waits as well.
    server.reconfigure(&format!("{BASE}no = \"key\"\n"));
    server.control(&["reload"]).refusal();
    let is_mended = || {
        let text = server.control(&["status"]).success();
        text.contains("was saved after that: `stentor reload` applies it")
    };
    assert!(!is_mended());
    server.reconfigure(BASE);
    assert!(is_mended());
}

#[test]
fn listeners_open_and_close_and_the_others_stay() {
    let server = server();
    let mut client = server.client(Version::V5, "c");
    let second = || {
        let status = server.json(&["status"]);
        let listeners = status["listeners"]
            .as_array()
            .expect("listeners are listed");
        let urls = listeners
            .iter()
            .filter_map(|listener| listener["url"].as_str());
        let urls = urls.filter(|url| *url != server.url("mqtt"));
        urls.map(|url| url.trim_start_matches("mqtt://").to_owned())
            .next()
    };
    assert_eq!(second(), None);
    server.reconfigure(&format!(
        "{BASE}[[listener]]\nurl = \"mqtt://127.0.0.2:0\"\n"
    ));
    server.control(&["reload"]).success();
    let address = second().expect("a second listener is open");
    Raw::tcp(&address).login(Version::V5, "d", true);
    server.reconfigure(BASE);
    server.control(&["reload"]).success();
    assert_eq!(second(), None);
    raw::eventually("a closed port", || {
        std::net::TcpStream::connect(&address).is_err()
    });
    client.ping();
    server.client(Version::V5, "e").ping();
}

/// With port 0, two may have one URL: a reload mixes up neither their rules nor their sockets.
#[test]
fn listeners_of_one_url_stay_apart() {
    let one = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = false\n";
    let two = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let server = Plan::new().config(&[one, two].concat()).start();
    let addresses = || {
        let listeners = server.json(&["status"])["listeners"].clone();
        let listeners = listeners.as_array().expect("listeners are listed").clone();
        let urls = listeners.iter().filter_map(|one| one["url"].as_str());
        let urls = urls.filter_map(|url| url.strip_prefix("mqtt://"));
        urls.map(str::to_owned).collect::<Vec<_>>()
    };
    let lets_in = |address: &String| {
        let mut raw = Raw::tcp(address);
        raw.send(&raw::connect(Version::V5, "nameless", true));
        raw.expect(2).body[1] == 0
    };
    let before = addresses();
    assert_eq!(
        before.iter().map(lets_in).collect::<Vec<_>>(),
        [false, true]
    );
    server.reconfigure(&format!("{one}{two}[limits]\nqueue_messages = 77\n"));
    server.control(&["reload"]).success();
    assert_eq!(addresses(), before);
    assert_eq!(
        before.iter().map(lets_in).collect::<Vec<_>>(),
        [false, true]
    );
    server.reconfigure(one);
    server.control(&["reload"]).success();
    assert_eq!(addresses(), before[..1], "the other one is closed");
    assert!(!lets_in(&before[0]));
}

/// The permissions of a file, without its type.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

/// The descriptors of the new socket travel to every shard.
#[test]
fn unix_sockets_open_change_and_close_like_the_others() {
    let plan = Plan::new().arg("--shards").arg("3");
    let path = plan.folder().join("more.sock");
    let server = plan.config(BASE).start();
    let mut client = server.client(Version::V5, "c");
    let with = |more: &str| {
        let url = format!("unix:{}", path.display());
        server.reconfigure(&format!("{BASE}[[listener]]\nurl = \"{url}\"\n{more}"));
        server.control(&["reload"])
    };
    with("").success();
    assert_eq!(mode(&path), 0o660);
    let mut through: Vec<Raw> = (0..30)
        .map(|number| {
            let mut raw = Raw::unix(&path);
            raw.login(Version::V5, &format!("unix-{number}"), true);
            raw
        })
        .collect();
    with("mode = \"0600\"\n").success();
    assert_eq!(mode(&path), 0o600);
    let text = with("owner = \"nobody-of-that-name\"\n").refusal();
    assert!(text.contains("nobody-of-that-name"), "{text}");
    server.reconfigure(BASE);
    server.control(&["reload"]).success();
    assert!(!path.exists(), "the socket's file stayed behind");
    through.iter_mut().for_each(Raw::ping);
    client.ping();
}

/// A reload is all or nothing: what it opened before it failed is closed again.
#[test]
fn a_reload_that_fails_leaves_no_socket_behind() {
    let plan = Plan::new();
    let path = plan.folder().join("more.sock");
    let server = plan.config(BASE).start();
    server.reconfigure(&format!(
        "{BASE}[[listener]]\nurl = \"unix:{}\"\n[[listener]]\nurl = \"{}\"\n",
        path.display(),
        server.url("mqtt")
    ));
    let text = server.control(&["reload"]).refusal();
    assert!(
        text.contains("taken") && !text.contains("--listen"),
        "{text}"
    );
    assert!(!path.exists(), "the socket's file stayed behind");
    server.client(Version::V5, "c").ping();
}

#[test]
fn bounds_of_retained_messages_hold_at_once() {
    let config = |messages: u32| format!("{BASE}[retained]\nmessages = {messages}\n");
    let server = Plan::new().config(&config(0)).start();
    let mut client = server.client(Version::V5, "c");
    let mut keep = |topic: &str| {
        client.send(&raw::publish(Version::V5, topic, b"x", 1, true));
        client.expect(4).body.get(2).copied().unwrap_or_default()
    };
    // 0x97 "quota exceeded".
    assert_eq!(keep("a"), 0x97);
    server.reconfigure(&config(1_000_000));
    server.control(&["reload"]).success();
    assert_eq!(keep("a"), 0);
    server.reconfigure(&config(0));
    server.control(&["reload"]).success();
    assert_eq!(keep("b"), 0x97);
}

#[test]
fn a_reload_reads_certificates_again() {
    let (plan, _) = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .certificates();
    let server = plan.start();
    let port = server.port("mqtts");
    // A new authority in the same place: a client that trusts it takes only the new certificate.
    let renewed = Certificates::new(server.folder());
    let attempt = || {
        let mut command = tools::mosquitto("mosquitto_pub");
        command.args([
            "-h",
            "localhost",
            "-p",
            &port,
            "-t",
            "x",
            "-m",
            "x",
            "--cafile",
        ]);
        process::run(command.arg(renewed.authority()))
    };
    attempt().refusal();
    let from = server.log().len();
    let text = server.control(&["reload"]).success();
    assert!(
        text.contains(server.url("mqtts")) || text.contains("mqtts://"),
        "{text}"
    );
    let log = server.wait_log(from, "new certificates or keys were read");
    assert!(!log[from..].contains("nothing has changed"), "{log}");
    attempt().success();
    for since in [
        "which found new certificates or keys: ",
        "ago (stentor reload)\n",
    ] {
        let text = server.control(&["reload"]).success();
        assert_eq!(text.matches("nothing has changed").count(), 1, "{text}");
        assert!(text.contains(since), "{text}");
    }
}

#[test]
fn a_broken_certificate_keeps_the_old_one() {
    let (plan, certificates) = Plan::new()
        .anonymous()
        .listen("mqtts://127.0.0.1:0")
        .certificates();
    let server = plan.start();
    fs::write(certificates.certificate(), "broken").expect("a file can be written");
    server.control(&["reload"]).refusal();
    let mut command = tools::mosquitto("mosquitto_pub");
    command.args([
        "-h",
        "localhost",
        "-p",
        &server.port("mqtts"),
        "-t",
        "x",
        "-m",
        "x",
    ]);
    process::run(command.arg("--cafile").arg(certificates.authority())).success();
}

/// What CONNACK announced holds for as long as the connection does.
#[test]
fn a_lower_packet_size_takes_nothing_from_those_who_are_connected() {
    let server = server();
    let mut old = server.client(Version::V5, "old");
    let from = server.log().len();
    server.reconfigure(&format!("{BASE}[limits]\npacket_bytes = 1024\n"));
    server.signal(Signal::SIGHUP);
    server.wait_log(from, "limits.packet_bytes");
    let mut new = server.client(Version::V5, "new");
    old.publish("t", &[b'x'; 4_000]);
    old.ping();
    new.publish("t", &[b'x'; 4_000]);
    // 0x95: packet too large.
    assert_eq!(new.expect(14).body.first(), Some(&0x95));
    old.ping();
}
