//! The message, changed: in its place, or printed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use stentor_call_protocol::{Answer, Edit, Status, Verdict};

use crate::support::{Fake, Finished, answer, verdict, word};

/// Edits and the answer that goes with them.
fn modified(edits: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (offset, deleted, inserted) in edits {
        let edit = Edit {
            offset: *offset,
            deleted: *deleted,
            inserted,
        };
        edit.encode(&mut bytes).expect("a valid edit");
    }
    let last = Answer {
        verdict: Some(Verdict::Modified),
        edits: edits.len() as u32,
        ..Answer::of(Status::Done, "changed")
    };
    bytes.extend_from_slice(&answer(&last));
    bytes
}

/// The shape of an XMail spool file: what precedes the marker stays as it is, byte by byte.
#[test]
fn a_spool_file_is_changed_in_its_place() {
    let preamble = "[127.0.0.1]:1;[127.0.0.1]:2;Sat\r\nx.test\r\nS2\r\nmail FROM:<a@b> size=9\r\n\
                    RCPT TO:<c@d>\r\n<<MAIL-DATA>>\r\n";
    let start = preamble.len() as u64;
    for (profile, code) in [("xmail-queue", 7), ("xmail-smtp", 0), ("xmail-2002", 100)] {
        let bytes = modified(&[
            (start, 0, b"X-Seen: yes\r\n"),
            (start + 8, 3, b"new"),
            (start + 13, 0, b"bye"),
        ]);
        let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let content = format!("{preamble}T: u\r\n\r\nold\r\n!");
        let file = fake.file("spool", content.as_bytes());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let words = ["--profile", profile, "--file", word(&file), "/p"];
        assert_eq!(fake.command(&words).status().unwrap().code(), Some(code));
        fake.join();
        let changed = fs::read_to_string(&file).unwrap();
        assert_eq!(
            changed,
            format!("{preamble}X-Seen: yes\r\nT: u\r\n\r\nnew\r\nbye!")
        );
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        // Nothing but the socket and the message is left.
        assert_eq!(fs::read_dir(fake.folder.path()).unwrap().count(), 2);
    }
}

/// A file that is too large to be copied in time stays as it is, and the call has ended by then.
#[test]
fn a_large_file_is_not_changed_beyond_the_deadline() {
    let bytes = modified(&[(0, 1, b"X")]);
    let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
    let file = fake.file("m", b"old");
    let size = 64 << 30;
    let opened = fs::File::options().write(true).open(&file).unwrap();
    // It takes no room, and its copy would take a minute and more.
    opened.set_len(size).unwrap();
    drop(opened);
    let start = std::time::Instant::now();
    let words = ["--profile", "sysexits", "--deadline", "100ms", "--in-place"];
    let words = [&words[..], &["--file", word(&file), "/p"]].concat();
    let finished = Finished::of(&fake.command(&words).output().unwrap());
    assert!(start.elapsed() < std::time::Duration::from_secs(5));
    fake.join();
    assert_eq!(finished.code, Some(75), "{finished:?}");
    assert!(finished.stderr.contains("too large"), "{finished:?}");
    assert_eq!(fs::metadata(&file).unwrap().len(), size);
    assert_eq!(fs::read_dir(fake.folder.path()).unwrap().count(), 2);
}

#[test]
fn a_file_that_cannot_be_replaced_stays_and_the_call_has_failed() {
    let bytes = modified(&[(0, 1, b"X")]);
    let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
    let file = fake.file(&"m".repeat(254), b"old");
    let words = [
        "--profile",
        "sysexits",
        "--in-place",
        "--file",
        word(&file),
        "/p",
    ];
    assert_eq!(fake.command(&words).status().unwrap().code(), Some(75));
    fake.join();
    assert_eq!(fs::read(&file).unwrap(), b"old");
}

#[test]
fn a_filter_prints_the_message_changed_or_not() {
    let bytes = modified(&[(0, 1, b"X: y\r\n\r\n"), (4, 0, b"!")]);
    let fake = Fake::unix(move |mut peer| peer.send(&bytes));
    let file = fake.file("m", b"\nold");
    let finished = fake.run(&[
        "--profile",
        "procmail",
        "--filter",
        "--file",
        word(&file),
        "/p",
    ]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), "X: y\r\n\r\nold!")
    );
    let fake = Fake::unix(|mut peer| peer.send(&verdict(Verdict::Accept, "fine")));
    let file = fake.file("m", b"\nold");
    let finished = fake.run(&["--filter", "--file", word(&file), "/p"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), "\nold")
    );
    // One that does not pass is not printed: the caller keeps its own.
    let fake = Fake::unix(|mut peer| peer.send(&verdict(Verdict::Reject, "no")));
    let file = fake.file("m", b"\nold");
    let finished = fake.run(&["--filter", "--file", word(&file), "/p"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
}

/// Nobody was asked about what somebody writes into the file during the call.
#[test]
fn a_filter_does_not_pass_on_what_was_changed_during_the_call() {
    type Change = fn(&Path);
    let append: Change = |file| {
        let mut file = fs::File::options().append(true).open(file).unwrap();
        file.write_all(b"more").unwrap();
    };
    let overwrite: Change = |file| {
        let mut file = fs::File::options().write(true).open(file).unwrap();
        file.write_all(b"\nnew").unwrap();
    };
    // Its content stays.
    let rename: Change = |file| fs::rename(file, file.with_file_name("renamed")).unwrap();
    let remove: Change = |file| fs::remove_file(file).unwrap();
    for (change, code) in [(append, 75), (overwrite, 75), (rename, 0), (remove, 0)] {
        for is_named in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("m");
            fs::write(&file, b"\nold").unwrap();
            let opened = fs::File::options()
                .read(true)
                .write(true)
                .open(&file)
                .unwrap();
            // The system's clock for files may stand still for some milliseconds.
            let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
            opened.set_modified(before).unwrap();
            let path = file.clone();
            let mut fake = Fake::unix(move |mut peer| {
                change(&path);
                peer.send(&verdict(Verdict::Accept, ""));
            });
            let name = if is_named { word(&file) } else { "-" };
            let words = ["--profile", "procmail", "--filter", "--file", name, "/p"];
            let mut command = fake.command(&words);
            let finished = Finished::of(&command.stdin(opened).output().unwrap());
            fake.join();
            assert_eq!(finished.code, Some(code), "{name}: {finished:?}");
            let is_told = finished.stderr.contains("changed during the call");
            assert_eq!(is_told, code != 0, "{name}: {finished:?}");
        }
    }
}

/// A filter that accepts without a server must still print what it got.
#[test]
fn a_filter_without_a_server_loses_nothing() {
    let fake = Fake::dead();
    let file = fake.file("m", b"\nold");
    let words = [
        "--filter",
        "--on-error",
        "accept",
        "--file",
        word(&file),
        "/p",
    ];
    let finished = fake.run(&words);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), "\nold")
    );
    // What cannot be printed is not accepted; other wishes stand.
    for (wish, code) in [("accept", 2), ("tempfail", 2), ("reject", 1)] {
        let fake = Fake::dead();
        let gone = fake.folder.path().join("gone");
        let words = ["--filter", "--on-error", wish, "--file", word(&gone), "/p"];
        let finished = fake.run(&words);
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(code), ""),
            "{wish}"
        );
    }
}

#[test]
fn who_did_not_ask_for_changes_gets_none() {
    let bytes = modified(&[(0, 1, b"X")]);
    let mut fake = Fake::unix(move |mut peer| {
        assert!(!peer.call().can_edit);
        peer.send(&bytes);
    });
    let file = fake.file("m", b"old");
    let output = fake
        .command(&["--file", word(&file), "/p"])
        .output()
        .unwrap();
    fake.join();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(&file).unwrap(), b"old");
}

/// A file that somebody else has changed, or knows by another name, is not replaced.
#[test]
fn a_file_that_is_not_ours_alone_stays_as_it_is() {
    type Prepare = fn(&Path);
    let nothing: Prepare = |_| {};
    let append: Prepare = |file| {
        let mut file = fs::File::options().append(true).open(file).unwrap();
        file.write_all(b"more").unwrap();
    };
    let link: Prepare = |file| {
        let real = file.with_file_name("real");
        fs::rename(file, &real).unwrap();
        std::os::unix::fs::symlink(real, file).unwrap();
    };
    let second: Prepare = |file| fs::hard_link(file, file.with_file_name("second")).unwrap();
    let other: Prepare = |file| {
        fs::remove_file(file).unwrap();
        fs::write(file, b"old").unwrap();
    };
    let gone: Prepare = |file| fs::remove_file(file).unwrap();
    for (before, during, reason) in [
        (nothing, append, "changed during the call"),
        (nothing, other, "changed during the call"),
        (nothing, gone, "No such file"),
        (nothing, second, "2 names"),
        (second, nothing, "2 names"),
        (link, nothing, "symbolic link"),
        (nothing, link, "symbolic link"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m");
        fs::write(&file, b"old").unwrap();
        before(&file);
        let path = file.clone();
        let mut fake = Fake::unix(move |mut peer| {
            during(&path);
            peer.send(&modified(&[(0, 1, b"X")]));
        });
        let words = [
            "--profile",
            "sysexits",
            "--in-place",
            "--file",
            word(&file),
            "/p",
        ];
        let finished = Finished::of(&fake.command(&words).output().unwrap());
        fake.join();
        assert_eq!(finished.code, Some(75), "{finished:?}");
        assert!(finished.stderr.contains(reason), "{reason}: {finished:?}");
        assert!(
            finished.stdout.contains("cannot be passed on"),
            "{finished:?}"
        );
        let left = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for path in left {
            let content = fs::read(&path).unwrap();
            assert!(
                content == b"old" || content == b"oldmore",
                "{}",
                path.display()
            );
            assert!(
                !path.to_string_lossy().contains(".stentor-"),
                "{}",
                path.display()
            );
        }
    }
}

/// A client whose caller bounds the size of the files that it may write (RLIMIT_FSIZE).
fn bounded(inner: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]);
    shell.arg(inner.get_program()).args(inner.get_args());
    shell.stdin(Stdio::null());
    shell
}

/// Beyond the bound a write fails; the signal that comes with it kills nobody.
#[test]
fn a_file_that_may_grow_no_more_is_a_fault() {
    let message = vec![b'x'; 1 << 20];
    let result = answer(&Answer {
        verdict: Some(Verdict::Accept),
        result: &message,
        ..Answer::of(Status::Done, "")
    });
    for (words, bytes, code, reason) in [
        (
            &["--profile", "sysexits", "--in-place"] as &[&str],
            modified(&[(0, 1, b"X")]),
            75,
            "File too large",
        ),
        (
            &["--profile", "procmail", "--filter"],
            verdict(Verdict::Accept, ""),
            75,
            "File too large",
        ),
        // What cannot be printed is said by the code of the profile alone.
        (&["--profile", "plain"], result, 2, ""),
    ] {
        let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let file = fake.file("m", &message);
        let words = [words, &["--file", word(&file), "/p"]].concat();
        let printed = fs::File::create(fake.folder.path().join("printed")).unwrap();
        let mut command = bounded(&fake.command(&words));
        let finished = Finished::of(&command.stdout(printed).output().unwrap());
        fake.join();
        assert_eq!(finished.code, Some(code), "{words:?}: {finished:?}");
        assert!(finished.stderr.contains(reason), "{words:?}: {finished:?}");
        assert!(fs::read(&file).unwrap() == message, "{words:?}");
        // The socket, the message, what was printed.
        assert_eq!(fs::read_dir(fake.folder.path()).unwrap().count(), 3);
    }
}
