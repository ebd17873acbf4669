//! What each profile promises, whatever the server does: an end by the deadline, the code of
//! `--on-error`, and the message as it was.

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use stentor_call_protocol::{Answer, Status, Verdict};

use crate::support::{Fake, Finished, Peer, answer, client, verdict, word};

/// Exit codes of a message without a verdict: for accept, tempfail and reject.
const CODES: [(&str, [i32; 3]); 8] = [
    ("xmail-queue", [0, 0, 6]),
    ("xmail-smtp", [0, 3, 3]),
    ("xmail-2002", [96, 96, 99]),
    ("sysexits", [0, 75, 69]),
    ("postfix-pipe", [0, 75, 69]),
    ("exim", [0, 75, 69]),
    ("procmail", [0, 75, 77]),
    ("plain", [0, 2, 1]),
];

const OPTIONS: [Option<&str>; 4] = [None, Some("accept"), Some("tempfail"), Some("reject")];

const SPOOL: &[u8] = b"x.test\r\nS2\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n<<MAIL-DATA>>\r\n\r\nhi";

/// Far more than the deadline of the calls here, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks a server of that kind under each profile with each option. Without the option the server's
/// advice holds, if there is some.
fn check(make: impl Fn() -> Fake + Sync, advice: Verdict) {
    thread::scope(|scope| {
        for (profile, codes) in CODES {
            let make = &make;
            scope.spawn(move || {
                for option in OPTIONS {
                    let decided = match option {
                        None => advice,
                        Some(name) => Verdict::from_name(name).expect("it is a verdict"),
                    };
                    check_one(make(), profile, option, decided, codes);
                }
            });
        }
    });
}

/// What such a caller's programs write on standard error goes to the sender of the message.
fn is_quiet(profile: &str) -> bool {
    matches!(profile, "postfix-pipe" | "exim")
}

fn check_one(
    mut fake: Fake,
    profile: &str,
    option: Option<&str>,
    decided: Verdict,
    [accept, tempfail, reject]: [i32; 3],
) {
    let file = fake.file("m.xtmp", SPOOL);
    let mut words = vec!["--profile", profile, "--deadline", "150ms"];
    words.extend(["--file", word(&file)]);
    if let Some(option) = option {
        words.extend(["--on-error", option]);
    }
    words.push("/p");
    let start = Instant::now();
    let output = fake.command(&words).output().expect("the client runs");
    assert!(start.elapsed() < PATIENCE, "{words:?}");
    fake.join();
    let (code, reply) = match decided {
        Verdict::Accept => (accept, None),
        Verdict::Tempfail => (tempfail, Some("451 4.")),
        _ => (reject, Some("554 5.")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    let says = if is_quiet(profile) {
        ""
    } else {
        "stentor-call: "
    };
    assert!(said.starts_with(says), "{words:?}: {said}");
    assert_eq!(said.is_empty(), is_quiet(profile), "{words:?}: {said}");
    assert_eq!(fs::read(&file).expect("it is there"), SPOOL, "{words:?}");
    let written = fs::read_to_string(fake.folder.path().join("m.xtmp.rej")).ok();
    let wanted = reply.filter(|_| profile == "xmail-smtp");
    match (&written, wanted) {
        (Some(written), Some(wanted)) => assert!(written.starts_with(wanted), "{written}"),
        (written, wanted) => assert_eq!((written, wanted), (&None, None), "{words:?}"),
    }
}

/// Over both kinds of connection, without advice.
fn check_both(script: impl Fn(Peer) + Clone + Send + Sync + 'static) {
    check(|| Fake::unix(script.clone()), Verdict::Tempfail);
    check(|| Fake::tcp(script.clone()), Verdict::Tempfail);
}

#[test]
fn a_server_that_is_down() {
    check(Fake::dead, Verdict::Tempfail);
    check(Fake::dead_tcp, Verdict::Tempfail);
}

#[test]
fn a_server_that_hangs() {
    check_both(|mut peer| peer.until_closed());
}

#[test]
fn a_server_that_is_slow() {
    check_both(|mut peer| {
        let (_keep, never) = mpsc::channel::<()>();
        let bytes = answer(&Answer {
            verdict: Some(Verdict::Accept),
            result: &[b'x'; 100_000],
            ..Answer::of(Status::Done, "")
        });
        for byte in bytes {
            let waited = never.recv_timeout(Duration::from_millis(5));
            assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
            if peer.stream.write_all(&[byte]).is_err() {
                return;
            }
        }
    });
}

#[test]
fn a_server_that_is_killed() {
    check_both(drop);
    check_both(|mut peer| {
        let bytes = verdict(Verdict::Accept, "almost");
        peer.send(&bytes[..bytes.len() - 1]);
    });
}

#[test]
fn a_server_that_lies() {
    check_both(|mut peer| peer.send(b"HTTP/1.1 200 OK\r\n\r\n"));
    check_both(|mut peer| peer.send(b"\x83\xFF\xFF\xFF\xFF"));
}

#[test]
fn a_server_that_refuses() {
    for advice in [Verdict::Accept, Verdict::Tempfail, Verdict::Reject] {
        let bytes = answer(&Answer {
            verdict: Some(advice),
            ..Answer::of(Status::Overloaded, "too many")
        });
        let script = move |mut peer: Peer| peer.send(&bytes);
        check(|| Fake::unix(script.clone()), advice);
    }
}

/// Mistakes of the command line, and files that are not there: words for the client, and what it
/// says about them.
fn mistakes(folder: &str) -> Vec<(Vec<String>, &'static str)> {
    let words = |text: &str| {
        text.split(' ')
            .map(|word| word.replace('@', folder))
            .collect()
    };
    vec![
        (
            words("--file @/m.xtmp --nonsense /p"),
            "--nonsense is not an option",
        ),
        (words("--file @/m.xtmp -x /p"), "-x is not an option"),
        (
            words("--file @/m.xtmp -from a /p"),
            "comes after /PROCEDURE, as in `/PROCEDURE -from VALUE`",
        ),
        (
            words("--file @/m.xtmp --token-file @/none /p"),
            "--token-file",
        ),
        (
            words("--file @/m.xtmp --token-file @/pipe /p"),
            "not a regular file",
        ),
        (words("--file @/m.xtmp"), "procedure is missing"),
        (words("--file @/m.xtmp -p 0 /p"), "1 to 65535"),
        (words("--file @/m.xtmp -s mail.example /p"), "not looked up"),
        (words("--file @/m.xtmp --deadline soon /p"), "10ms to 1h"),
        (words("--file @/m.xtmp /p -key"), "needs a value"),
        (words("--file @/m.xtmp /p -s x"), "write --server"),
        (words("--file @/m.xtmp --file @/n /p"), "given twice"),
        (words("--file @/none.xtmp /p"), "none.xtmp"),
        (words("--file @ /p"), "not a regular file"),
    ]
}

/// A caller that makes a mistake gets the code of `--on-error`, wherever these options stand.
#[test]
fn mistakes_of_the_caller() {
    for (profile, codes) in CODES {
        for option in OPTIONS {
            for is_first in [true, false] {
                check_mistakes(profile, option, codes, is_first);
            }
        }
    }
}

fn check_mistakes(profile: &str, option: Option<&str>, codes: [i32; 3], is_first: bool) {
    let mut wishes = vec!["--profile", profile];
    if let Some(option) = option {
        wishes.extend(["--on-error", option]);
    }
    let (code, reply) = match option {
        Some("accept") => (codes[0], None),
        Some("reject") => (codes[2], Some("554 5.")),
        _ => (codes[1], Some("451 4.")),
    };
    let fake = Fake::dead();
    let folder = word(fake.folder.path()).to_owned();
    for (words, says) in mistakes(&folder) {
        fake.file("m.xtmp", SPOOL);
        fake.pipe("pipe");
        let mut command = client();
        let wishes = || wishes.iter().copied();
        if is_first {
            command.args(wishes());
        }
        command.args(&words);
        if !is_first {
            command.args(wishes());
        }
        let finished = Finished::of(&command.output().expect("the client runs"));
        let about = format!("{profile} {option:?} {words:?}: {finished:?}");
        if words.last().is_some_and(|last| last == "-key") && !is_first {
            // The next word is the key's value, whatever it is.
            continue;
        }
        assert_eq!(finished.code, Some(code), "{about}");
        let says = if is_quiet(profile) { "" } else { says };
        assert!(finished.stderr.contains(says), "{about}");
        assert_eq!(finished.stderr.is_empty(), is_quiet(profile), "{about}");
        let place = words[1].clone() + ".rej";
        let written = fs::read_to_string(&place).ok();
        if let Some(wanted) = reply.filter(|_| profile == "xmail-smtp") {
            let written = written.expect("XMail finds a reply");
            assert!(written.starts_with(wanted), "{written}");
            fs::remove_file(place).expect("it can be removed");
        } else {
            assert_eq!(written, None, "{about}");
        }
    }
}

/// A link in the place of XMail's reply leads to what is somebody else's.
#[test]
fn a_reply_is_not_written_through_links() {
    for (is_hard, reason) in [(false, "symbolic link"), (true, "hard links")] {
        let fake = Fake::dead();
        let file = fake.file("m.xtmp", SPOOL);
        let other = fake.file("other", b"precious");
        let place = fake.folder.path().join("m.xtmp.rej");
        if is_hard {
            fs::hard_link(&other, place).unwrap();
        } else {
            std::os::unix::fs::symlink(&other, place).unwrap();
        }
        let words = ["--profile", "xmail-smtp", "--on-error", "reject", "--file"];
        let words = [&words[..], &[word(&file), "/p"]].concat();
        let finished = Finished::of(&fake.command(&words).output().unwrap());
        assert_eq!(finished.code, Some(3), "{finished:?}");
        assert!(finished.stderr.contains(reason), "{finished:?}");
        assert_eq!(fs::read(&other).unwrap(), b"precious");
    }
}

/// A pipe in the place of XMail's reply has nobody who reads it.
#[test]
fn a_reply_that_nobody_reads() {
    for (wish, code) in [("tempfail", 0), ("reject", 3)] {
        let fake = Fake::dead();
        let file = fake.file("m.xtmp", SPOOL);
        fake.pipe("m.xtmp.rej");
        let words = ["--profile", "xmail-smtp", "--on-error", wish, "--file"];
        let finished = fake.run(&[&words[..], &[word(&file), "/p"]].concat());
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(
            finished
                .stderr
                .contains("m.xtmp.rej: it is not a regular file"),
            "{finished:?}"
        );
    }
}
