//! Servers that are dead, silent, slow, or liars.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use stentor_call_protocol::{Answer, Status, Verdict};

use crate::support::{Fake, Finished, answer, client, verdict, word};

/// Far more than the deadline of the calls here, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a call with a short deadline for each choice of `--on-error`, and checks the codes: those
/// of accept, tempfail and reject.
fn check(make: impl Fn() -> Fake, reason: &str) {
    for (on_error, code) in [("accept", 0), ("tempfail", 75), ("reject", 69)] {
        let fake = make();
        let file = fake.file("m", b"a: b\r\n\r\nbody");
        let start = Instant::now();
        let finished = fake.run(&[
            "--profile",
            "sysexits",
            "--on-error",
            on_error,
            "--deadline",
            "250ms",
            "--file",
            word(&file),
            "/p",
        ]);
        assert_eq!(finished.code, Some(code), "{on_error}: {}", finished.stderr);
        assert!(finished.stderr.contains(reason), "{}", finished.stderr);
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn a_server_that_is_not_there() {
    check(Fake::dead, "no server can be reached at unix:");
}

#[test]
fn a_server_that_never_answers() {
    check(|| Fake::unix(|mut peer| peer.until_closed()), "--deadline");
    check(|| Fake::tcp(|mut peer| peer.until_closed()), "--deadline");
}

#[test]
fn a_server_that_dies_during_the_call() {
    check(|| Fake::unix(drop), "closed the connection");
    check(|| Fake::tcp(drop), "closed the connection");
    let half = |mut peer: crate::support::Peer| {
        let bytes = verdict(Verdict::Reject, "no");
        peer.send(&bytes[..bytes.len() - 1]);
    };
    check(move || Fake::unix(half), "closed the connection");
}

/// One byte at a time keeps the connection busy, not the client.
#[test]
fn a_server_that_drips() {
    let drip = |mut peer: crate::support::Peer| {
        let (_keep, never) = mpsc::channel::<()>();
        let bytes = answer(&Answer {
            verdict: Some(Verdict::Accept),
            result: &[b'x'; 100_000],
            ..Answer::of(Status::Done, "")
        });
        for byte in bytes {
            let waited = never.recv_timeout(Duration::from_millis(5));
            assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
            if std::io::Write::write_all(&mut peer.stream, &[byte]).is_err() {
                return;
            }
        }
    };
    check(move || Fake::unix(drip), "--deadline");
    check(move || Fake::tcp(drip), "--deadline");
}

#[test]
fn servers_that_lie() {
    let mut edit = Vec::new();
    let beyond = stentor_call_protocol::Edit {
        offset: 1,
        deleted: 1000,
        inserted: b"",
    };
    beyond.encode(&mut edit).unwrap();
    let mut asks_twice = Vec::new();
    stentor_call_protocol::encode_need_body(&mut asks_twice);
    stentor_call_protocol::encode_need_body(&mut asks_twice);
    let lies: [&'static [u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x83\xFF\xFF\xFF\xFF",
        b"\x83\0\0\0\x12\0\xFF\0\0\0\0\x02no\0\0\0\0\0\0\0\0\0",
        b"\0",
    ];
    for lie in lies {
        check(
            move || Fake::unix(move |mut peer| peer.send(lie)),
            "is not valid",
        );
    }
    for lie in [edit, asks_twice] {
        let script = move || {
            let lie = lie.clone();
            Fake::unix(move |mut peer| peer.send(&lie))
        };
        check(script, "is not valid");
    }
}

/// A filter that lets everything pass without a server does so with one that is slow.
#[test]
fn a_filter_passes_the_message_on_whatever_the_server_does() {
    let half = |mut peer: crate::support::Peer| {
        peer.send(&verdict(Verdict::Reject, "no")[..9]);
        peer.until_closed();
    };
    let asking = |mut peer: crate::support::Peer| {
        let mut bytes = Vec::new();
        stentor_call_protocol::encode_need_body(&mut bytes);
        peer.send(&bytes);
        peer.until_closed();
    };
    for fake in [
        Fake::dead(),
        Fake::unix(|mut peer| peer.until_closed()),
        Fake::unix(half),
        Fake::tcp(|mut peer| peer.until_closed()),
        Fake::tcp(half),
        Fake::tcp(asking),
    ] {
        let message = "a: b\r\n\r\n".to_owned() + &"x".repeat(500_000);
        let file = fake.file("m", message.as_bytes());
        let words = ["--profile", "postfix-pipe", "--filter", "--deadline", "4s"];
        let on_error = ["--on-error", "accept", "--file", word(&file), "/p"];
        let finished = fake.run(&[&words[..], &on_error].concat());
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(finished.stdout == message, "all of it is printed");
    }
}

/// A queue that is full makes `connect` wait for ever by default.
#[test]
fn a_server_that_does_not_accept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let words = [
        "--profile",
        "xmail-2002",
        "--deadline",
        "200ms",
        "-s",
        word(&path),
        "/p",
    ];
    let finished = Finished::of(&client().args(words).output().unwrap());
    assert_eq!(finished.code, Some(96));
    assert!(
        finished.stderr.contains("--deadline"),
        "{}",
        finished.stderr
    );
}

/// The server's health is not a verdict: its advice for the procedure holds, but the option wins.
#[test]
fn answers_without_a_verdict_are_faults() {
    for status in [
        Status::NotFound,
        Status::NotAllowed,
        Status::Overloaded,
        Status::TimedOut,
    ] {
        let script = move || {
            Fake::unix(move |mut peer| {
                peer.send(&answer(&Answer::of(status, "that is how it is")));
            })
        };
        check(script, &format!("{}: that is how it is", status.name()));
    }
    let advice = Answer {
        verdict: Some(Verdict::Accept),
        ..Answer::of(Status::Failed, "broke")
    };
    let bytes = answer(&advice);
    let run = |words: &[&str]| {
        let bytes = bytes.clone();
        Fake::unix(move |mut peer| peer.send(&bytes))
            .run(words)
            .code
    };
    assert_eq!(run(&["--profile", "sysexits", "/p"]), Some(0));
    let words = ["--profile", "sysexits", "--on-error", "reject", "/p"];
    assert_eq!(run(&words), Some(69));
}

/// A link is not the copy that XMail makes, and its name may be somebody else's.
#[test]
fn only_a_regular_file_is_deleted() {
    for (name, told) in [
        ("m.eml", None),
        ("link", Some("it is a symbolic link")),
        ("pipe", Some("it is not a regular file")),
    ] {
        let fake = Fake::dead();
        let message = fake.file("m.eml", b"hi");
        fake.pipe("pipe");
        let file = fake.folder.path().join(name);
        if name == "link" {
            std::os::unix::fs::symlink(&message, &file).unwrap();
        }
        let words = ["--delete-file", "--file", word(&file), "/p"];
        let finished = Finished::of(&fake.command(&words).output().unwrap());
        assert_eq!(finished.code, Some(2), "{finished:?}");
        let says = finished.stderr.contains("cannot delete");
        assert_eq!(says, told.is_some(), "{finished:?}");
        assert!(
            finished.stderr.contains(told.unwrap_or_default()),
            "{finished:?}"
        );
        let is_there = fs::symlink_metadata(&file).is_ok();
        assert_eq!(is_there, told.is_some(), "{name}");
        assert_eq!(message.exists(), name != "m.eml", "{name}");
    }
}

/// Files that are no messages are faults too, and a FIFO does not hang the client.
#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let missing = folder.path().join("missing");
    for path in [fifo.as_path(), missing.as_path(), folder.path()] {
        let words = ["--profile", "postfix-pipe", "--file", word(path), "/p"];
        let finished = Finished::of(&client().args(words).output().unwrap());
        assert_eq!(finished.code, Some(75), "{}", path.display());
        assert_eq!(finished.stderr, "", "Postfix takes it for the status code");
        assert!(finished.stdout.starts_with("4.7.1 "), "{}", finished.stdout);
        let words = ["--profile", "sysexits", "--file", word(path), "/p"];
        let finished = Finished::of(&client().args(words).output().unwrap());
        assert!(finished.stderr.contains("cannot read"), "{finished:?}");
    }
}

/// A pipe that nobody closes ends at the deadline as well.
#[test]
fn a_standard_input_that_does_not_end() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = client();
    command.args([
        "--profile",
        "sysexits",
        "--deadline",
        "100ms",
        "--stdin",
        "/p",
    ]);
    let output = command.stdin(reader).output().unwrap();
    drop(writer);
    assert_eq!(output.status.code(), Some(75));
}

/// A reader that does not read what is printed does not keep the client.
#[test]
fn a_standard_output_that_nobody_reads() {
    let result = vec![b'x'; 1 << 20];
    let bytes = answer(&Answer {
        verdict: Some(Verdict::Accept),
        result: &result,
        ..Answer::of(Status::Done, "")
    });
    for words in [&["/p"] as &[&str], &["--filter", "--stdin", "/p"]] {
        let bytes = bytes.clone();
        let fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let file = fake.file("m", &vec![b'x'; 1 << 20]);
        let words = [&["--profile", "sysexits", "--deadline", "300ms"], words].concat();
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = fake.command(&words);
        command.stdin(fs::File::open(file).unwrap());
        let status = command.stdout(writer).status().unwrap();
        drop(reader);
        assert_eq!(status.code(), Some(75), "{words:?}");
    }
}

/// Nor does whoever reads neither of the two, however much there is to complain about.
#[test]
fn standard_streams_that_nobody_reads() {
    use std::io::Write;
    let bytes = answer(&Answer {
        verdict: Some(Verdict::Accept),
        result: &vec![b'x'; 1 << 20],
        ..Answer::of(Status::Done, "")
    });
    let fake = Fake::unix(move |mut peer| peer.send(&bytes));
    let file = fake.file("m", &vec![b'x'; 1 << 20]);
    let words = ["--profile", "sysexits", "--deadline", "20ms", "--filter"];
    let (reader, writer) = std::io::pipe().unwrap();
    let mut full = writer.try_clone().unwrap();
    // A pipe holds 64 KiB, and now it does.
    full.write_all(&[b'x'; 64 * 1024]).unwrap();
    let mut command = fake.command(&[&words[..], &["--stdin", "/p"]].concat());
    command.stdin(fs::File::open(file).unwrap());
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let start = Instant::now();
    let status = command.status().unwrap();
    let taken = start.elapsed();
    drop(reader);
    assert_eq!(status.code(), Some(75));
    assert!(taken < Duration::from_millis(100), "{taken:?}");
}

/// A descriptor that the client opens is not taken for a stream that its caller has closed.
#[test]
fn standard_streams_that_are_closed() {
    let run = |close: &str, script: &str| {
        let mut shell = std::process::Command::new("sh");
        let program = client().get_program().to_owned();
        let line = format!("\"$0\" --profile sysexits {script} {close}");
        Finished::of(&shell.arg("-c").arg(line).arg(program).output().unwrap())
    };
    let finished = run("<&-", "--deadline 60s -s /nonexistent --stdin /p");
    assert_eq!(finished.code, Some(75), "{}", finished.stderr);
    let reason = "cannot read standard input";
    assert!(finished.stderr.contains(reason), "{}", finished.stderr);
    // Nothing but the call gets to the server, whatever number its connection could have had.
    let fake = Fake::unix(|mut peer| {
        peer.send(&verdict(Verdict::Reject, "no"));
        let mut rest = Vec::new();
        let _ = peer.stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    });
    let socket = fake.folder.path().join("call.sock");
    let finished = run(">&-", &format!("-s {} /p", word(&socket)));
    assert_eq!(finished.code, Some(69), "{}", finished.stderr);
    let mut fake = fake;
    fake.join();
}

/// A verdict that no advice can be, and changes of what the mail server needs.
#[test]
fn lies_of_servers_cost_no_mail() {
    for advice in [Verdict::Discard, Verdict::Quarantine] {
        let bytes = answer(&Answer {
            verdict: Some(advice),
            ..Answer::of(Status::Failed, "broke")
        });
        let fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let finished = fake.run(&["--profile", "xmail-queue", "/p"]);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    }
    let mut bytes = Vec::new();
    let edit = stentor_call_protocol::Edit {
        offset: 0,
        deleted: 5,
        inserted: b"",
    };
    edit.encode(&mut bytes).unwrap();
    bytes.extend(answer(&Answer {
        verdict: Some(Verdict::Modified),
        edits: 1,
        ..Answer::of(Status::Done, "")
    }));
    let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
    let spool = b"x.test\r\nS2\r\nMAIL FROM:<a@b>\r\n<<MAIL-DATA>>\r\n\r\nhi";
    let file = fake.file("m", spool);
    let words = ["--profile", "xmail-queue", "--file", word(&file), "/p"];
    let output = fake.command(&words).output().unwrap();
    fake.join();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read(&file).unwrap(), spool);
}

/// Why a procedure failed is told to the operator, not to whoever sent the message; some mail
/// servers send on what is on standard error.
#[test]
fn reasons_stay_here() {
    let bytes = answer(&Answer {
        verdict: Some(Verdict::Reject),
        ..Answer::of(Status::Failed, "p.luau:4: /etc/secret")
    });
    for (profile, is_told) in [
        ("postfix-pipe", false),
        ("exim", false),
        ("sysexits", true),
        ("plain", true),
    ] {
        let bytes = bytes.clone();
        let fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let finished = fake.run(&["--profile", profile, "/p"]);
        assert!(!finished.stdout.contains("secret"), "{}", finished.stdout);
        let text = "the message cannot be checked now";
        assert!(finished.stdout.contains(text), "{}", finished.stdout);
        let told = match is_told {
            true => "stentor-call: failed: p.luau:4: /etc/secret\n",
            false => "",
        };
        assert_eq!(finished.stderr, told, "{profile}");
    }
}
