//! Benchmarks that come to an early end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use stentor_tests::process::{finish, pid_of, run, start};
use stentor_tests::raw::eventually;
use stentor_tests::server::{descriptors, stentor};
use stentor_tests::{DEADLINE, Plan};

use super::measure_all;

/// Whether a process was started with this folder among its arguments.
fn is_used(folder: &Path) -> bool {
    let folder = folder.to_str().expect("a name");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(folder))
}

#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = stentor();
        command.args(["bench", "fanout", "ice-1", "--subscribers", "5"]);
        command.args(["--seconds", "60", "--pairs", "1", "--no-floor"]);
        command.env("TMPDIR", folder.path());
        let results = tempfile::tempdir().unwrap();
        for option in ["--json", "--html"] {
            command.arg(option).arg(results.path().join(option));
        }
        let bench = start(&mut command);
        eventually("a server", || is_used(folder.path()));
        kill(pid_of(&bench), signal).unwrap();
        let finished = finish(bench, DEADLINE);
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        for folder in [&folder, &results] {
            assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
        }
        eventually("the end of the server", || !is_used(folder.path()));
    }
}

/// It cannot clean up after SIGKILL, but a server would disturb the next benchmark, and its folder
/// may hold a gigabyte.
#[test]
fn a_benchmark_that_is_killed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = stentor();
    command.args(["bench", "fanout", "ice-1", "--subscribers", "5"]);
    command.args(["--seconds", "60", "--pairs", "1", "--no-floor"]);
    command.env("TMPDIR", folder.path());
    let bench = start(&mut command);
    // From then on its reaper knows the server, which is there a moment earlier.
    eventually("a measurement", || {
        let threads = descriptors(pid_of(&bench).as_raw());
        threads.iter().any(|(name, _)| name == "sampler")
    });
    assert!(is_used(folder.path()));
    kill(pid_of(&bench), Signal::SIGKILL).unwrap();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), None, "{finished}");
    eventually("the end of the server", || !is_used(folder.path()));
    eventually("the end of its folder", || {
        fs::read_dir(folder.path()).is_ok_and(|mut left| left.next().is_none())
    });
}

/// A benchmark that is interrupted has no time to clear a server of somebody else's: what stays
/// there is told.
#[test]
fn an_interrupted_benchmark_tells_what_it_leaves_on_a_target() {
    let server = Plan::new().tcp().anonymous().start();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let mut command = stentor();
    command.args(["bench", "fanout", "ice-1", "--retain", "--seconds", "60"]);
    command.args(["--subscribers", "5", "--pairs", "1", "--no-floor"]);
    command.args(["--target", &url]);
    let bench = start(&mut command);
    eventually("a retained message", || {
        server.json(&["retained", "count"])["messages"].as_u64() > Some(0)
    });
    kill(pid_of(&bench), Signal::SIGINT).unwrap();
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(130), "{finished}");
    let told = finished.stderr.split_once("stentor retained clear '");
    let filter = told.and_then(|(_, rest)| rest.split_once('\''));
    let (filter, _) = filter.unwrap_or_else(|| panic!("{finished}"));
    // What was on its way may still come.
    eventually("that all are cleared", || {
        server.json(&["retained", "clear", filter]);
        server.json(&["retained", "count"])["messages"] == 0
    });
}

/// mosquitto saves what it keeps when it is told to end; it blocks no signal that it was started
/// with, and unblocks none.
#[test]
fn a_rival_ends_when_it_is_told_to_and_is_started_again() {
    let results = measure_all(&[
        "recover",
        "--users",
        "2",
        "--subscriptions",
        "20",
        "--pairs",
        "1",
        "--no-floor",
        "--against",
        "mosquitto-tuned",
    ]);
    let rival = &results[0]["rivals"][0];
    assert_eq!(rival["name"], "mosquitto-tuned", "{rival}");
    assert_eq!(rival["loss"]["lost"], 0, "{rival}");
    assert_eq!(rival["verdict"]["result"], "sound", "{rival}");
}

/// Takes everybody in, and refuses each subscription.
fn refuse(mut socket: TcpStream) {
    let (mut input, mut chunk) = (Vec::new(), [0; 4_096]);
    while let Ok(read @ 1..) = socket.read(&mut chunk) {
        input.extend_from_slice(&chunk[..read]);
        while input.len() > 1 && input.len() >= 2 + usize::from(input[1]) {
            let packet: Vec<u8> = input.drain(..2 + usize::from(input[1])).collect();
            let answer = match packet[0] >> 4 {
                1 => vec![0x20, 2, 0, 0],
                8 => vec![0x90, 3, packet[2], packet[3], 0x80],
                _ => continue,
            };
            // A client that has left needs no answer.
            let _ = socket.write_all(&answer);
        }
    }
}

#[test]
fn a_refused_subscription_ends_the_benchmark() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || refuse(socket));
        }
    });
    let mut command = stentor();
    command.args([
        "bench",
        "fanout",
        "ice-1",
        "--subscribers",
        "5",
        "--target",
        &url,
    ]);
    command.args(["--seconds", "1", "--pairs", "1", "--no-floor"]);
    let finished = finish(start(&mut command), DEADLINE);
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    let text = format!("{finished}");
    assert!(
        text.contains("the server refused the subscription"),
        "{text}"
    );
}

/// A person who watches a storm that stands still sees how far it is, and for how long already.
#[test]
fn a_wait_is_told_on_a_terminal() {
    const CLIENTS: usize = 5;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("mqtt://{}", listener.local_addr().expect("the port"));
    let (hold, held) = mpsc::channel::<()>();
    thread::spawn(move || {
        let mut sockets = listener.incoming().flatten();
        // The first only tries whether anybody answers.
        if let Some(socket) = sockets.next() {
            thread::spawn(move || refuse(socket));
        }
        let mut waiting: Vec<TcpStream> = sockets.by_ref().take(CLIENTS).collect();
        let _ = held.recv();
        for socket in &mut waiting {
            socket.write_all(&[0x20, 2, 0, 0]).expect("answer");
        }
        // They stay open until the benchmark has ended.
        sockets.for_each(drop);
    });
    let terminal = openpty(None, None).expect("a terminal");
    let mut command = stentor();
    command.args(["bench", "connect", "--target", &url, "--no-floor"]);
    command.args(["--pairs", "1", "--connections", &CLIENTS.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let bench = command.stderr(terminal.slave).spawn().expect("it starts");
    drop(command);
    let mut screen = File::from(terminal.master);
    let (mut shown, mut chunk) = (String::new(), [0; 1_024]);
    // The terminal ends with the benchmark, which has no endless patience.
    while let Ok(read @ 1..) = screen.read(&mut chunk) {
        shown.push_str(&String::from_utf8_lossy(&chunk[..read]));
        if shown.contains("connecting: 0 of 5, 1 s") {
            break;
        }
    }
    assert!(shown.contains("connecting: 0 of 5, 1 s"), "{shown:?}");
    drop(hold);
    let finished = finish(bench, DEADLINE);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
}

#[test]
fn a_load_that_is_none_is_refused() {
    for (arguments, reason) in [
        (&["pingpong", "--seconds", "0"][..], "from 0.1 to 1800"),
        (&["fanout", "ice-1", "--seconds", "0.0001"], "from 0.1 to"),
        (
            &["fanout", "ice-1", "--warmup", "1801"],
            "keep alive is over",
        ),
        (&["fanout", "ice-1", "--workers", "0"], "from 1 to 1024"),
        (
            &["fanout", "ice-1", "--workers", "100000"],
            "from 1 to 1024",
        ),
        (
            &["fanout", "ice-1", "--subscribers", "4000000000"],
            "to 1000000",
        ),
        (&["fanout", "ice-1", "--payload", "300000000"], "to 1000000"),
        (&["idle", "--connections", "0"], "from 1 to 1000000"),
        (&["subscribe", "--users", "0"], "from 1 to 19000"),
        (&["subscribe", "--users", "20000"], "from 1 to 19000"),
        (
            &["subscribe", "--users", "19000", "--subscriptions", "65535"],
            "at most 10000000",
        ),
        (&["fanout", "ice-1", "--rate", "0"], "from 0.001"),
        (&["fanout", "ice-1", "--rate", "1e-300"], "from 0.001"),
        (&["fanout", "ice-1", "--rate", "NaN"], "from 0.001"),
        (&["fanout", "ice-1", "--rate", "inf"], "from 0.001"),
        (
            &["fanout", "ice-1", "--rate", "0.05"],
            "less than one message",
        ),
        (&["fanout", "ice-1", "--window", "5"], "--rate max"),
        (
            &["fanout", "ice-1", "--rate", "max", "--window", "99999"],
            "is more than",
        ),
        (
            &["fanout", "ice-1", "--rate", "max", "--ramp", "5"],
            "does not go with --rate max",
        ),
        (
            &["fanout", "ice-1", "--rate", "0.5", "--ramp", "5"],
            "--ramp begins at",
        ),
        (&["fanout", "ice-1", "--ramp", "0"], "--ramp"),
        (&["fanout", "ice-1", "--bound", "5"], "--ramp"),
        (&["idle", "--shards", "0"], "--shards"),
        (
            &["idle", "--shards", "2", "--target", "mqtt://h"],
            "--shards",
        ),
    ] {
        let finished = run(stentor().arg("bench").args(arguments));
        assert_eq!(finished.status.code(), Some(3), "{arguments:?} {finished}");
        assert!(finished.stderr.contains(reason), "{arguments:?} {finished}");
    }
}

/// Before anything is sent, whoever asks what would be is told whose accounts it costs.
#[test]
fn the_users_of_a_database_are_known_to_be_replaced() {
    let explain = |more: &[&str]| {
        let command = ["bench", "login", "--proof", "token", "--explain"];
        run(stentor().args(command).args(more)).success()
    };
    for url in ["postgres://me@127.0.0.1:1/d", "mysql://me@127.0.0.1:1/d"] {
        let told = explain(&["--database", url]);
        assert!(told.contains("crowd are replaced"), "{told}");
    }
    let told = explain(&[]);
    assert!(!told.contains("replaced"), "{told}");
}

/// The accounts are written by who starts the server; a file of accounts is nobody's to replace.
#[test]
fn a_login_that_nobody_could_make_is_refused() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let books = folder.path().join("users.txt");
    fs::write(&books, "").expect("a file can be written");
    let file = format!("file:{}", books.display());
    for (arguments, reason) in [
        (&["--target", "mqtt://127.0.0.1:1"][..], "bench connect"),
        (&["--against", "mosquitto-tuned"], "bench connect"),
        (&["--database", &file], "--store"),
        (&["--database", "sqlite:auth.db"], "--store"),
        (&["--database", "nowhere"], "postgres://"),
        (&["--database", "mysql://me:s3cret@h/d"], "who needs none"),
        (
            &["--database", "postgres://me:s3cret@h/d", "--delay", "5"],
            "password",
        ),
        (&["--delay", "5"], "--database"),
        (&["--database", "mysql://h/d", "--delay", "0"], "--delay"),
        (
            &["--database", "mysql://h/d", "--database-pid", "4000000000"],
            "no such process",
        ),
    ] {
        let finished = run(stentor().args(["bench", "login"]).args(arguments));
        assert_eq!(finished.status.code(), Some(3), "{arguments:?} {finished}");
        assert!(finished.stderr.contains(reason), "{arguments:?} {finished}");
        assert!(!finished.stderr.contains("s3cret"), "{finished}");
    }
    assert_eq!(fs::read(&books).ok(), Some(Vec::new()));
}

#[test]
fn a_process_that_is_not_there_is_no_verdict_about_the_server() {
    let finished = run(stentor().args([
        "bench",
        "idle",
        "--target",
        "mqtt://127.0.0.1:1",
        "--pid",
        "4000000000",
    ]));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stdout.contains("no such process"), "{finished}");
}

#[test]
fn workloads_in_one_file_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let mut command = stentor();
    command.args([
        "bench",
        "idle",
        "--connections",
        "5",
        "--pairs",
        "1",
        "--no-floor",
    ]);
    run(command.arg("--json").arg(&one)).success();
    let line = fs::read_to_string(&one).unwrap();
    fs::write(&two, line.repeat(2)).unwrap();
    let finished = run(stentor().args(["bench", "compare"]).arg(&one).arg(&two));
    assert!(
        finished.stdout.contains("; 0 workloads in one file only"),
        "{finished}"
    );
}

#[test]
fn a_result_file_without_an_end_is_refused() {
    let finished = run(stentor().args(["bench", "compare", "/dev/zero", "/dev/zero"]));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
}
