//! `stentor pub`, `sub` and `rr` as their users meet them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::{Signal, kill};
use stentor_tests::raw::eventually;
use stentor_tests::{Certificates, DEADLINE, Plan, Server, Version, process, server, tools};

/// A `stentor sub` that says what it does.
struct Sub {
    child: Child,
    says: BufReader<std::process::ChildStderr>,
}

impl Sub {
    #[track_caller]
    fn start(args: &[&str]) -> Self {
        let mut command = server::stentor();
        let mut child = process::start(command.args(["sub", "-d"]).args(args));
        let says = BufReader::new(child.stderr.take().expect("standard error is captured"));
        let mut sub = Self { child, says };
        sub.wait_for("subscribed");
        sub
    }

    /// Reads what it says until a line contains that text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut all = String::new();
        loop {
            let length = self.says.read_line(&mut all).expect("lines can be read");
            assert!(length > 0, "{text:?} was never said: {all}");
            if all.lines().last().is_some_and(|line| line.contains(text)) {
                return;
            }
        }
    }

    #[track_caller]
    fn ended(self) -> process::Finished {
        // A speaker that says more has to find a reader.
        let mut says = self.says;
        thread::spawn(move || std::io::copy(&mut says, &mut std::io::sink()));
        process::finish(self.child, DEADLINE)
    }
}

/// The will stays unpublished, and the server hears DISCONNECT.
#[test]
fn signals_end_a_subscriber_with_a_goodbye() {
    let (plan, certificates) = Plan::new()
        .anonymous()
        .tcp()
        .listen("mqtts://127.0.0.1:0")
        .listen("ws://127.0.0.1:0")
        .certificates();
    let server = plan.start();
    let mut watcher = server.client(Version::V5, "watcher");
    watcher.subscribe("will/#", 0);
    let authority = certificates.authority().display().to_string();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for scheme in ["mqtt", "mqtts", "ws"] {
            let url = server.url(scheme).replace("127.0.0.1", "localhost");
            let mut args = vec!["-L", &url, "-t", "t", "--will-topic", "will/sub", "-i", "s"];
            if scheme == "mqtts" {
                args.extend(["--cafile", &authority]);
            }
            let from = server.log().len();
            let sub = Sub::start(&args);
            kill(process::pid_of(&sub.child), signal).expect("a signal can be sent");
            sub.ended().success();
            let log = server.wait_log(from, "disconnected client=\"s\"");
            assert!(log[from..].contains("reason=\"disconnect\""), "{log}");
        }
    }
    watcher.ping();
}

/// Carries connections to a server until it is told to cut them.
struct Cable {
    address: String,
    plugged: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let (to, plugged) = (server.address("mqtt"), Arc::new(Mutex::new(Vec::new())));
        let all: Arc<Mutex<Vec<TcpStream>>> = Arc::clone(&plugged);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&to).expect("the server answers");
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let clone = |socket: &TcpStream| socket.try_clone().expect("it is open");
                    let (mut from, mut into) = (clone(from), clone(into));
                    thread::spawn(move || std::io::copy(&mut from, &mut into));
                }
                let mut all = all.lock().expect("nobody panics with it");
                all.extend([near, far]);
            }
        });
        Self {
            address: address.to_string(),
            plugged,
        }
    }

    fn cut(&self) {
        let mut all = self.plugged.lock().expect("nobody panics with it");
        for socket in all.drain(..) {
            // An error says that it is closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_subscriber_comes_back_to_its_session() {
    let server = Server::open();
    let cable = Cable::to(&server);
    let url = format!("mqtt://{}", cable.address);
    let args = [
        "-L", &url, "-t", "news", "-q", "1", "-c", "-i", "keeper", "-C", "3",
    ];
    let mut sub = Sub::start(&args);
    let mut sender = server.client(Version::V5, "sender");
    sender.publish_surely("news", b"before");
    let mut line = String::new();
    let out = sub
        .child
        .stdout
        .take()
        .expect("standard output is captured");
    let mut out = BufReader::new(out);
    out.read_line(&mut line).expect("lines can be read");
    assert_eq!(line, "before\n");
    // Cut before its acknowledgement is through, it would rightly come again.
    eventually("an acknowledgement", || {
        let answer = server.json(&["clients", "show", "keeper"]);
        let shown = answer.get("client").unwrap_or(&answer);
        shown["in_flight"] == 0
    });
    let from = server.log().len();
    cable.cut();
    server.wait_log(from, "disconnected client=\"keeper\"");
    sender.publish_surely("news", b"meanwhile");
    sub.wait_for("connecting again");
    sub.wait_for("session found");
    sub.wait_for("subscribed");
    sender.publish_surely("news", b"after");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("lines can be read");
    assert_eq!(rest, "meanwhile\nafter\n");
    sub.ended().success();
}

#[test]
fn a_subscriber_whose_place_is_taken_does_not_fight_for_it() {
    let server = Server::open();
    let sub = Sub::start(&["-L", server.url("mqtt"), "-t", "t", "-i", "twin"]);
    let _twin = server.client(Version::V5, "twin");
    let finished = sub.ended();
    // 0x8E "session taken over".
    assert_eq!(finished.status.code(), Some(0x8E), "{finished}");
}

#[test]
fn a_subscriber_that_was_told_so_ends_with_the_connection() {
    let mut server = Server::open();
    let url = server.url("mqtt").to_owned();
    let sub = Sub::start(&["-L", &url, "-t", "t", "--no-reconnect"]);
    assert!(server.stop().success());
    // 0x8B "server shutting down".
    assert_eq!(sub.ended().status.code(), Some(0x8B));
}

#[test]
fn the_time_of_a_subscriber_runs_while_it_is_alone() {
    let mut server = Server::open();
    let url = server.url("mqtt").to_owned();
    let sub = Sub::start(&["-L", &url, "-t", "t", "-W", "3"]);
    assert!(server.stop().success());
    assert_eq!(sub.ended().status.code(), Some(27));
}

/// A terminal shows the question, and not the answer.
#[test]
fn a_password_is_asked_for_on_a_terminal() {
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
         [[user]]\nname = \"alice\"\npassword_hash = \"{}\"\n",
        server::hash_password("correct horse")
    );
    let server = Plan::new().config(&config).start();
    let pty = nix::pty::openpty(None, None).expect("a terminal can be made");
    let copy = |end: &OwnedFd| end.try_clone().expect("descriptors are left");
    let mut command = server::stentor();
    let address = server.address("mqtt");
    let (host, port) = address.rsplit_once(':').expect("an address has a port");
    command
        .args([
            "pub", "-h", host, "-p", port, "-u", "alice", "-t", "t", "-m", "x",
        ])
        .stdin(copy(&pty.slave))
        .stdout(Stdio::null())
        .stderr(copy(&pty.slave));
    let mut child = command.spawn().expect("stentor starts");
    // These hold the terminal's other end open.
    drop(command);
    drop(pty.slave);
    let mut terminal = File::from(pty.master);
    let mut seen = Vec::new();
    while !seen.ends_with(b"Password of alice: ") {
        let mut byte = [0];
        let read = terminal.read(&mut byte).expect("the terminal is there");
        assert_eq!(read, 1, "{}", seen.escape_ascii());
        seen.push(byte[0]);
    }
    terminal
        .write_all(b"correct horse\n")
        .expect("the terminal takes it");
    let (status, in_time) = process::wait(&mut child, DEADLINE);
    // The end of a terminal is an error.
    let _ = terminal.read_to_end(&mut seen);
    let seen = String::from_utf8_lossy(&seen);
    assert!(in_time && status.success(), "{status}: {seen}");
    assert!(!seen.contains("horse"), "{seen}");
}

/// A real mosquitto that lets in only those with a certificate.
#[test]
fn a_certificate_opens_a_mosquitto_that_requires_one() {
    let folder = Plan::new();
    let certificates = Certificates::new(folder.folder());
    let port = server::free_port().to_string();
    let path = |path: std::path::PathBuf| path.display().to_string();
    let (authority, log) = (path(certificates.authority()), folder.folder().join("log"));
    let config = folder.folder().join("mosquitto.conf");
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nuser root\ncafile {authority}\n\
         certfile {}\nkeyfile {}\nrequire_certificate true\n",
        path(certificates.certificate()),
        path(certificates.key()),
    );
    fs::write(&config, text).expect("a configuration can be written");
    let mut command: Command = tools::mosquitto("mosquitto");
    let output = File::create(&log).expect("a log can be made");
    command.arg("-c").arg(&config).stderr(output);
    let mut mosquitto = Ended(command.spawn().expect("mosquitto starts"));
    eventually("a listening mosquitto", || {
        assert!(mosquitto.0.try_wait().is_ok_and(|end| end.is_none()));
        TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
    });
    let publish = |more: &[&str]| {
        let mut command = server::stentor();
        command.args([
            "pub",
            "-h",
            "localhost",
            "-p",
            &port,
            "--cafile",
            &authority,
        ]);
        process::run(command.args(["-t", "t", "-m", "x", "-q", "1"]).args(more))
    };
    let text = publish(&[]).refusal();
    assert!(text.contains("ertificate"), "{text}");
    let (certificate, key) = certificates.client("kitchen");
    let (certificate, key) = (path(certificate), path(key));
    publish(&["--cert", &certificate, "--key", &key]).success();
    for version in ["tlsv1.2", "tlsv1.3"] {
        let more = [
            "--cert",
            &certificate,
            "--key",
            &key,
            "--tls-version",
            version,
        ];
        publish(&more).success();
    }
    let text = publish(&["--cert", &certificate, "--key", &authority]).refusal();
    assert!(text.contains(&authority), "{text}");
    drop(mosquitto);
}

/// A program that is killed when its test is over.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pages_and_completions_come_from_the_command_line_itself() {
    let folder = Plan::new();
    let pages = folder.folder().join("man");
    let run = |args: &[&str]| process::run(server::stentor().args(args));
    run(&["man", "--dir", &pages.display().to_string()]).success();
    let page = fs::read_to_string(pages.join("stentor-sub.1")).expect("it was written");
    assert!(page.contains("retained"), "{page}");
    assert!(run(&["man", "rr"]).success().contains("request"));
    run(&["man", "nothing-of-that-name"]).refusal();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).success();
        assert!(script.contains("hash-password"), "{shell}: {script}");
    }
}

#[test]
fn letters_that_mean_nothing_here_are_explained() {
    for (flag, value, remedy) in [("--psk", "00ff", "--cert"), ("--proxy", "x", "tunnel")] {
        let mut command = server::stentor();
        command.args(["sub", "-h", "localhost", "-t", "t", flag, value]);
        let finished = process::run(&mut command);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.refusal().contains(remedy));
    }
}

/// A letter that is given again replaces the first, so that a shell's alias can be overruled; and a
/// negative number is a value, which is refused by the name of its letter.
#[test]
fn the_last_of_a_letter_counts() {
    let server = Server::open();
    let port = server.port("mqtt");
    let run = |args: &[&str]| process::run(server::stentor().args(args));
    let alias = [
        "pub",
        "-h",
        "nowhere.invalid",
        "-p",
        "1",
        "-q",
        "0",
        "-t",
        "t",
    ];
    let mine = ["-h", "127.0.0.1", "-p", &port, "-q", "1", "-m", "-5"];
    run(&[&alias[..], &mine].concat()).success();
    for (letter, value) in [("-q", "-1"), ("-k", "-1"), ("-p", "-1"), ("-M", "-2")] {
        let finished = run(&["pub", "-t", "t", "-m", "x", letter, value]);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        let named = format!("invalid value '{value}' for '--");
        assert!(finished.refusal().contains(&named), "{letter}");
    }
}

/// Two messages are not one: none of them is lost without a word.
#[test]
fn one_message_is_published_at_a_time() {
    let run = |args: &[&str]| process::run(server::stentor().args(args));
    for (option, second) in [("-m", "two"), ("-f", "/etc/hostname")] {
        let mut args = vec!["pub", "-h", "127.0.0.1", "-p", "1", "-t", "t"];
        args.extend([option, "/etc/hosts", option, second]);
        let finished = run(&args);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        let refusal = finished.refusal();
        assert!(
            refusal.contains(&format!("{option} is given 2 times")),
            "{refusal}"
        );
    }
}

/// The other end of the connection is the address that was asked for.
#[test]
fn a_client_connects_from_the_address_it_is_told() {
    let server = Server::open();
    let port = server.port("mqtt");
    let mut command = server::stentor();
    command.args(["pub", "-h", "127.0.0.1", "-p", &port, "-A", "127.0.0.9"]);
    process::run(command.args(["-t", "t", "-m", "x"])).success();
    server.wait_log(0, "127.0.0.9:");
}
