//! Signals that come early, and more of them than one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use stentor_tests::{DEADLINE, Plan, Version, process};

/// `timeout` sends two, and a supervisor may send any number.
#[test]
fn signals_while_the_server_stops_change_nothing() {
    let plan = Plan::new().config("shutdown_timeout = \"1s\"\n");
    let path = plan.folder().join("open.sock");
    let plan = plan.tcp().listen(&format!("unix:{}", path.display()));
    let mut server = plan.anonymous().start();
    // Somebody who does not read keeps the server for the whole second.
    let mut lazy = server.client(Version::V4, "lazy");
    lazy.subscribe("flood", 0);
    let mut sender = server.client(Version::V4, "sender");
    for _ in 0..40 {
        sender.publish_surely("flood", &[b'x'; 500_000]);
    }
    server.signal(Signal::SIGTERM);
    server.signal(Signal::SIGTERM);
    server.wait_log(0, "stopping: SIGTERM");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        server.signal(signal);
    }
    assert!(server.ended().success());
    server.wait_log(0, "stopped");
    assert!(!path.exists(), "the Unix socket stayed behind");
    assert!(!server.data_dir().join("control.sock").exists());
}

/// A server that is reading its configuration: the file is a pipe, whose other end is returned.
fn starting(plan: &Plan) -> (Child, File) {
    let pipe = plan.folder().join("early.toml");
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe can be made");
    let child = process::start(plan.command().arg("--config").arg(&pipe));
    let (opened, open) = mpsc::channel();
    thread::spawn(move || {
        // Opens as soon as the other end is open.
        let file = fs::OpenOptions::new().write(true).open(&pipe);
        // A file without any key is refused.
        let file = file.and_then(|mut file| file.write_all(b"shards = 2\n").map(|()| file));
        let after = pipe.with_extension("later");
        fs::write(&after, "[limits]\nqueue_messages = 77\n").expect("a file can be written");
        // A server that reads the configuration again finds a file.
        fs::rename(after, &pipe).expect("a file can be replaced");
        let _ = opened.send(file);
    });
    let file = open
        .recv_timeout(DEADLINE)
        .expect("the server reads its configuration");
    (child, file.expect("a pipe can be opened"))
}

#[test]
fn a_hangup_before_the_server_is_ready_is_a_reload_afterwards() {
    let plan = Plan::new().tcp().anonymous();
    let (mut child, mut config) = starting(&plan);
    kill(process::pid_of(&child), Signal::SIGHUP).expect("it runs");
    config.write_all(b"# nothing\n").expect("it reads");
    drop(config);
    let out = lines(child.stdout.take());
    let line = out.recv_timeout(DEADLINE).expect("a line");
    assert!(line.starts_with("listening mqtt://"), "{line}");
    let log = lines(child.stderr.take());
    loop {
        let line = log.recv_timeout(DEADLINE);
        let line = line.expect("the configuration is read again");
        if line.contains("(SIGHUP)") && line.contains("limits.queue_messages") {
            break;
        }
    }
    kill(process::pid_of(&child), Signal::SIGTERM).expect("it runs");
    let (status, in_time) = process::wait(&mut child, DEADLINE);
    assert!(in_time && status.success(), "{status}");
}

/// What a program writes, line by line, as long as it writes.
fn lines<R: Read + Send + 'static>(source: Option<R>) -> mpsc::Receiver<String> {
    let source = BufReader::new(source.expect("it is captured"));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in source.lines().map_while(Result::ok) {
            // The rest is read all the same: whoever writes must not wait.
            let _ = sender.send(line);
        }
    });
    receiver
}

#[test]
fn a_server_that_is_told_to_stop_before_it_is_ready_ends_well() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let plan = Plan::new().tcp().anonymous();
        let (child, mut config) = starting(&plan);
        kill(process::pid_of(&child), signal).expect("it runs");
        config.write_all(b"# nothing\n").expect("it reads");
        drop(config);
        let finished = process::finish(child, DEADLINE);
        assert!(finished.status.success(), "{finished}");
        assert!(finished.stderr.contains("stopped"), "{finished}");
    }
}
