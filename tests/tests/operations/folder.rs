//! `--data-dir`: whoever names a folder is led to its server, or to none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use stentor_tests::process::{self, Finished};
use stentor_tests::raw::eventually;
use stentor_tests::{DEADLINE, Plan, Server, Version, server};

const PASSWORD: &str = "correct horse";

/// A server where alice has to log in.
fn with_alice(plan: Plan, listeners: &[&str]) -> Server {
    let mut config = String::new();
    for url in listeners {
        config.push_str(&format!("[[listener]]\nurl = \"{url}\"\n"));
    }
    let hash = server::hash_password(PASSWORD);
    config.push_str(&format!(
        "[[user]]\nname = \"alice\"\npassword_hash = \"{hash}\"\n"
    ));
    plan.config(&config).start()
}

fn command(args: &[&str]) -> Command {
    let mut command = server::stentor();
    command.args(args).env("STENTOR_PASSWORD", PASSWORD);
    command
}

/// Publishes as alice to the server of a folder.
#[track_caller]
fn publish(folder: &std::path::Path, more: &[&str]) -> Finished {
    let mut command = command(&["pub", "-d", "-t", "t", "-m", "x", "-u", "alice"]);
    process::run(command.args(more).arg("--data-dir").arg(folder))
}

/// Nothing is left out: a password, a client id, and the right server on a port of its own.
#[test]
fn a_user_logs_in_at_a_listener_of_the_named_server() {
    let (plan, certificates) = Plan::new().certificates();
    let socket = plan.folder().join("mqtt.sock").display().to_string();
    let unix = format!("unix:{socket}");
    let listeners = [
        "mqtts://127.0.0.1:0",
        "ws://127.0.0.1:0",
        unix.as_str(),
        "mqtt://0.0.0.0:0",
    ];
    let server = with_alice(plan, &listeners);
    let authority = certificates.authority().display().to_string();
    for (more, scheme) in [
        (&[][..], "mqtt"),
        (&["--ws"], "ws"),
        (&["--cafile", &authority], "mqtts"),
        (&["-A", "127.0.0.9"], "mqtt"),
    ] {
        let from = server.log().len();
        let finished = publish(&server.data_dir(), more);
        let url = server.url(scheme).replace("0.0.0.0", "127.0.0.1");
        assert!(finished.stderr.contains(&url), "{finished}");
        finished.success();
        server.wait_log(from, "user=\"alice\"");
    }
    let wrong = publish(&server.data_dir(), &["-P", "wrong"]);
    assert_eq!(wrong.status.code(), Some(0x86), "{wrong}");
    let none = publish(&server.data_dir(), &["--ws", "--cafile", &authority]);
    let text = none.refusal();
    assert!(text.contains("no listener for wss"), "{text}");
    assert!(text.contains(server.url("mqtts")), "{text}");
}

/// Where no folder is named, the one that servers take by themselves counts.
#[test]
fn the_server_of_the_usual_folder_is_asked_without_being_named() {
    let server = with_alice(Plan::new(), &["mqtt://127.0.0.1:0"]);
    assert!(server.data_dir().ends_with("data"));
    for (args, says) in [
        (&[][..], "using the server on data"),
        (&["-u", "alice"], server.url("mqtt")),
    ] {
        let mut command = command(&["pub", "-d", "-t", "t", "-m", "x"]);
        let finished = process::run(command.args(args).current_dir(server.folder()));
        assert!(finished.stderr.contains(says), "{finished}");
        finished.success();
    }
}

#[test]
fn a_variable_names_a_folder_as_well_and_an_address_goes_before_it() {
    let server = with_alice(Plan::new(), &["mqtt://127.0.0.1:0"]);
    let other = Server::open();
    let run = |args: &[&str]| {
        let mut command = command(&["pub", "-d", "-t", "t", "-m", "x", "-u", "alice"]);
        process::run(
            command
                .args(args)
                .env("STENTOR_DATA_DIR", server.data_dir()),
        )
    };
    let finished = run(&[]);
    assert!(finished.stderr.contains(server.url("mqtt")), "{finished}");
    finished.success();
    let finished = run(&["-h", "127.0.0.1", "-p", &other.port("mqtt")]);
    assert!(finished.stderr.contains(other.url("mqtt")), "{finished}");
    let both = publish(&server.data_dir(), &["-h", "127.0.0.1"]);
    assert_eq!(both.status.code(), Some(2), "{both}");
    assert!(both.refusal().contains("--data-dir"));
}

#[test]
fn a_configuration_in_a_variable_names_a_folder_too() {
    let server = Server::open();
    let elsewhere = tempfile::tempdir().expect("a folder can be made");
    let file = elsewhere.path().join("stentor.toml");
    let name = |folder: &std::path::Path| {
        fs::write(&file, format!("data_dir = {folder:?}\n")).expect("a file can be written");
    };
    let run = |words: &[&str], data_dir: Option<&str>| {
        let mut command = command(words);
        let command = command
            .current_dir(elsewhere.path())
            .env("STENTOR_CONFIG", &file);
        process::run(command.envs(data_dir.map(|folder| ("STENTOR_DATA_DIR", folder))))
    };
    name(&server.data_dir());
    for words in [&["pub", "-t", "t", "-m", "x"][..], &["room", "ls"]] {
        run(words, None).success();
        // The other variable goes before it.
        let refused = run(words, Some("missing")).refusal();
        assert!(refused.contains("missing"), "{refused}");
    }
    // No other server is asked where the one that is meant does not run.
    name(&elsewhere.path().join("stopped"));
    let refused = run(&["pub", "-t", "t", "-m", "x"], None).refusal();
    assert!(refused.contains("stopped"), "{refused}");
    fs::write(&file, "data_dir = 7\n").expect("a file can be written");
    let broken = run(&["pub", "-t", "t", "-m", "x"], None);
    assert_eq!(broken.status.code(), Some(78), "{broken}");
}

/// Not to the usual address either, where somebody may wait for passwords.
#[test]
fn a_password_for_a_named_folder_goes_nowhere_else() {
    let plan = Plan::new();
    let missing = plan.folder().join("missing");
    let empty = plan.folder().join("empty");
    fs::create_dir(&empty).expect("a folder can be made");
    let stale = plan.folder().join("stale");
    fs::create_dir(&stale).expect("a folder can be made");
    let socket = stale.join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket can be made"));
    let file = plan.folder().join("file");
    fs::write(&file, "").expect("a file can be written");
    for folder in [&missing, &empty, &stale, &file] {
        for more in [&[][..], &["--ws"], &["-V", "311"]] {
            let finished = publish(folder, more);
            assert_eq!(finished.status.code(), Some(1), "{finished}");
            let text = finished.refusal();
            assert!(text.contains(&folder.display().to_string()), "{text}");
            assert!(!text.contains("connecting"), "{text}");
        }
        for verb in ["sub", "rr"] {
            let mut command = command(&[verb, "-d", "-t", "t", "-u", "alice"]);
            if verb == "rr" {
                command.args(["-e", "answer", "-m", "x"]);
            }
            let finished = process::run(command.arg("--data-dir").arg(folder));
            assert_eq!(finished.status.code(), Some(1), "{finished}");
            assert!(!finished.stderr.contains("connecting"), "{finished}");
        }
    }
}

/// What root may do nobody else can try, so this needs root to become somebody else.
#[test]
fn a_server_of_another_user_is_told_from_none() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let server = with_alice(Plan::new(), &["mqtt://127.0.0.1:0"]);
    let open = |path: &std::path::Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the mode is set");
    };
    // The way to the binary is not barred; the socket is.
    open(server.folder());
    open(&server.data_dir());
    let copy = server.folder().join("stentor");
    fs::copy(server::binary(), &copy).expect("the binary can be copied");
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&copy)
            .args(["pub", "-t", "t", "-m", "x", "--data-dir"])
            .arg(server.data_dir())
            .args(args)
            .env("STENTOR_PASSWORD", PASSWORD);
        process::run(&mut command)
    };
    for args in [&[][..], &["-u", "alice"]] {
        let finished = run(args);
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        let text = finished.refusal();
        assert!(text.contains("belongs to another user"), "{text}");
        assert!(text.contains("-h HOST"), "{text}");
    }
}

/// While its server is away a subscriber waits for it, and for no other.
#[test]
fn a_subscriber_comes_back_to_the_server_of_its_folder() {
    let server = Server::open();
    let mut command = command(&["sub", "-d", "-t", "t", "-C", "1", "--data-dir"]);
    let sub = process::start(command.arg(server.data_dir()));
    eventually("a subscriber", || {
        server.json(&["status"])["subscriptions"] == 1
    });
    let server = server.stop_for_restart().start();
    eventually("the subscriber", || {
        server.json(&["status"])["subscriptions"] == 1
    });
    server
        .control(&["pub", "-t", "t", "-m", "after", "-q", "1"])
        .success();
    let finished = process::finish(sub, DEADLINE);
    assert!(!finished.stderr.contains("localhost"), "{finished}");
    assert_eq!(finished.success(), "after\n");
}

/// A signal ends a request with DISCONNECT, so that its will stays unpublished.
#[test]
fn a_signal_ends_a_request_with_a_goodbye() {
    let server = Server::open();
    let mut watcher = server.client(Version::V5, "watcher");
    watcher.subscribe("will/#", 0);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut command = command(&["rr", "-i", "asker", "-t", "ask", "-e", "answer", "-m", "?"]);
        command.args(["-L", server.url("mqtt"), "--will-topic", "will/rr"]);
        let from = server.log().len();
        let rr = process::start(&mut command);
        eventually("a request that waits", || {
            let shown = server.control(&["clients", "show", "asker"]);
            shown.stdout.contains("answer")
        });
        kill(process::pid_of(&rr), signal).expect("a signal can be sent");
        let finished = process::finish(rr, DEADLINE);
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        assert!(
            finished.stderr.contains("before the response"),
            "{finished}"
        );
        let log = server.wait_log(from, "disconnected client=\"asker\"");
        assert!(log[from..].contains("reason=\"disconnect\""), "{log}");
    }
    watcher.ping();
}

/// One connection to the control socket too many is told why it is closed.
#[test]
fn the_control_socket_says_that_it_is_busy() {
    let server = Server::open();
    let path = server.data_dir().join("control.sock");
    let busy: Vec<UnixStream> = (0..32)
        .map(|_| UnixStream::connect(&path).expect("it listens"))
        .collect();
    // Those before it are taken in one after the other.
    eventually("the control socket says that it is busy", || {
        let finished = server.control(&["status"]);
        !finished.status.success() && finished.stderr.contains("32 connections")
    });
    drop(busy);
    eventually("the control socket is free again", || {
        server.control(&["status"]).status.success()
    });
}
