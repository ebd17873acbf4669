//! What a good server says becomes the exit code, the output and the reply file.

use std::fs;
use std::process::Stdio;

use stentor_call_protocol::{Answer, Arrival, Format, Reception, Status, Transfer, Verdict};

use crate::support::{Fake, Finished, answer, client, verdict, word};

/// One verdict under one profile.
fn code_for(profile: &str, what: Verdict) -> Option<i32> {
    let fake = Fake::unix(move |mut peer| peer.send(&verdict(what, "because")));
    let file = fake.file("message", b"a: b\r\n\r\nbody");
    fake.run(&["--profile", profile, "--file", word(&file), "/p"])
        .code
}

#[test]
fn each_profile_has_its_codes() {
    for (profile, codes) in [
        ("xmail-queue", [0, 6, 0, 4, 5]),
        ("xmail-smtp", [0, 3, 3, 3, 3]),
        ("xmail-2002", [96, 99, 96, 97, 98]),
        ("xmail-external", [0, 16, 0, 16, 16]),
        ("sysexits", [0, 69, 75, 99, 98]),
        ("postfix-pipe", [0, 69, 75, 0, 75]),
        ("exim", [0, 69, 75, 0, 75]),
        ("procmail", [0, 77, 75, 99, 98]),
        ("plain", [0, 1, 2, 3, 4]),
    ] {
        let verdicts = [
            Verdict::Accept,
            Verdict::Reject,
            Verdict::Tempfail,
            Verdict::Discard,
            Verdict::Quarantine,
        ];
        for (what, code) in verdicts.into_iter().zip(codes) {
            assert_eq!(code_for(profile, what), Some(code), "{profile} {what:?}");
        }
    }
}

/// By Unix socket, the file itself is passed and nothing of it is sent.
#[test]
fn a_descriptor_is_passed_with_everything_that_was_given() {
    let fake = Fake::unix(|mut peer| {
        let call = peer.call();
        assert_eq!(
            (call.procedure, call.transfer),
            ("sizecheck", Transfer::Descriptor)
        );
        assert_eq!((call.format, call.size), (Format::XmailSpool, 13));
        assert!(call.can_edit && call.token.is_empty() && call.head.is_empty());
        assert!((1..=5000).contains(&call.deadline_ms));
        let pairs: Vec<_> = call.arguments.iter().map(|a| (a.name, a.value)).collect();
        let expected: [(&str, &[u8]); 3] = [("max", b"10"), ("rcpt", b"a@b"), ("rcpt", b"-x")];
        assert_eq!(pairs, expected);
        assert_eq!(peer.read_file(), b"S\r\n<<MAIL-DA\n");
        peer.send(&verdict(Verdict::Accept, ""));
    });
    let file = fake.file("a message", b"S\r\n<<MAIL-DA\n");
    let words = [
        "--profile",
        "xmail-queue",
        "--file",
        word(&file),
        "/sizecheck",
        "-max",
        "10",
        "-rcpt",
        "a@b",
        "-rcpt",
        "-x",
    ];
    assert_eq!(fake.run(&words).code, Some(0));
}

/// Over TCP the headers come with the call and the body when it is asked for.
#[test]
fn the_body_follows_when_it_is_asked_for() {
    let body: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let mut message = b"From: a@b\r\n\r\n".to_vec();
    message.extend_from_slice(&body);
    let fake = Fake::tcp(move |mut peer| {
        let call = peer.call();
        assert_eq!(
            (call.transfer, call.head),
            (Transfer::OnDemand, &b"From: a@b\r\n\r\n"[..])
        );
        assert_eq!((call.size, call.token), (1_000_013, &b"secret"[..]));
        let mut reception = Reception::new();
        reception.receive(&peer.call.clone()).unwrap();
        assert_eq!(reception.ask(), 1_000_000);
        let mut ask = Vec::new();
        stentor_call_protocol::encode_need_body(&mut ask);
        peer.send(&ask);
        let mut received = Vec::new();
        let mut input = std::mem::take(&mut peer.input);
        'whole: loop {
            while let Some((arrival, len)) = reception.receive(&input).unwrap() {
                match arrival {
                    Arrival::Data(piece) => received.extend_from_slice(piece),
                    Arrival::Complete => break 'whole,
                    Arrival::Call(_) => panic!("a second call"),
                }
                input.drain(..len);
            }
            let mut more = vec![0; 65_536];
            let read = peer.stream.read(&mut more).unwrap();
            assert!(read > 0, "the client closed early");
            input.extend_from_slice(&more[..read]);
        }
        assert!(received == body, "the body arrived changed");
        peer.send(&verdict(Verdict::Reject, "long"));
    });
    let file = fake.file("message", &message);
    let token = fake.file("token", b"  secret \nmore\n");
    let words = ["--token-file", word(&token), "--file", word(&file), "/p"];
    let finished = fake.run(&words);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(1), "long\n")
    );
}

#[test]
fn the_token_comes_from_the_environment_too_and_stays_off_unix_sockets() {
    let fake = Fake::tcp(|mut peer| {
        assert_eq!(peer.call().token, b"from-env");
        peer.send(&verdict(Verdict::Accept, ""));
    });
    let mut command = fake.command(&["/p"]);
    let output = command.env("STENTOR_TOKEN", "from-env").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let fake = Fake::unix(|mut peer| {
        assert_eq!(peer.call().token, b"");
        peer.send(&verdict(Verdict::Accept, ""));
    });
    let mut command = fake.command(&["/p"]);
    let output = command.env("STENTOR_TOKEN", "from-env").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// Standard input is passed like a file, whether it is one or a pipe.
#[test]
fn standard_input_is_a_message() {
    let script = |mut peer: crate::support::Peer| {
        assert_eq!(peer.call().size, 13);
        assert_eq!(peer.read_file(), b"a: b\r\n\r\nbody\n");
        peer.send(&verdict(Verdict::Accept, ""));
    };
    let mut fake = Fake::unix(script);
    let file = fake.file("message", b"a: b\r\n\r\nbody\n");
    let mut command = fake.command(&["--stdin", "/p"]);
    command.stdin(fs::File::open(file).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0));
    fake.join();
    let mut fake = Fake::unix(script);
    let mut command = fake.command(&["--file", "-", "/p"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"a: b\r\n\r\nbody\n").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    fake.join();
}

#[test]
fn results_are_printed_and_texts_get_a_status_code_where_it_is_read() {
    let run = |profile: &str, bytes: Vec<u8>| {
        let finished =
            Fake::unix(move |mut peer| peer.send(&bytes)).run(&["--profile", profile, "/p"]);
        finished.stdout
    };
    let refused = Answer {
        verdict: Some(Verdict::Reject),
        enhanced: "5.7.9",
        ..Answer::of(Status::Done, "no")
    };
    let result = Answer {
        verdict: Some(Verdict::Accept),
        result: b"{\"calls\":1}\n",
        ..Answer::of(Status::Done, "fine")
    };
    for (profile, bytes, printed) in [
        ("plain", answer(&refused), "no\n"),
        ("sysexits", answer(&refused), "5.7.9 no\n"),
        ("postfix-pipe", answer(&refused), "5.7.9 no\n"),
        (
            "postfix-pipe",
            verdict(Verdict::Tempfail, ""),
            "4.7.1 message refused\n",
        ),
        ("exim", answer(&refused), "no\n"),
        ("procmail", answer(&refused), ""),
        ("xmail-queue", answer(&refused), ""),
        ("plain", answer(&result), "{\"calls\":1}\n"),
    ] {
        assert_eq!(run(profile, bytes), printed, "{profile}");
    }
}

/// A refusal would go to whoever is named as the sender, so a pipe throws away what it says it has
/// delivered, and what it cannot put aside is for later. What a filter prints would be delivered.
#[test]
fn pipes_bounce_nothing_that_was_to_be_discarded_or_put_aside() {
    let (discard, quarantine) = (Verdict::Discard, Verdict::Quarantine);
    for (profile, what, is_filter, code, told) in [
        ("postfix-pipe", discard, false, 0, ""),
        ("exim", discard, false, 0, ""),
        ("postfix-pipe", quarantine, false, 75, "4.7.1 virus\n"),
        ("exim", quarantine, false, 75, "virus\n"),
        ("postfix-pipe", discard, true, 75, "4.7.1 virus\n"),
        ("exim", discard, true, 75, "virus\n"),
        ("postfix-pipe", quarantine, true, 75, "4.7.1 virus\n"),
        ("sysexits", discard, true, 99, "5.7.1 virus\n"),
    ] {
        let mut fake = Fake::unix(move |mut peer| peer.send(&verdict(what, "virus")));
        let file = fake.file("message", b"a: b\r\n\r\nbody");
        let mut words = vec!["--profile", profile, "--file", word(&file)];
        words.extend(is_filter.then_some("--filter"));
        words.push("/p");
        let finished = Finished::of(&fake.command(&words).output().unwrap());
        fake.join();
        let (there, elsewhere) = if is_filter {
            (&finished.stderr, &finished.stdout)
        } else {
            (&finished.stdout, &finished.stderr)
        };
        let seen = (finished.code, there.as_str(), elsewhere.as_str());
        assert_eq!(
            seen,
            (Some(code), told, ""),
            "{profile} {what:?} {is_filter}"
        );
    }
}

/// XMail takes the SMTP reply from a file beside the message.
#[test]
fn xmail_gets_its_reply_file() {
    let cases = [
        (Verdict::Reject, 550, "550 5.7.1 no\r\n"),
        (Verdict::Reject, 451, "554 5.7.1 no\r\n"),
        (Verdict::Tempfail, 0, "451 4.7.1 no\r\n"),
    ];
    for (what, reply_code, line) in cases {
        let bytes = answer(&Answer {
            verdict: Some(what),
            reply_code,
            ..Answer::of(Status::Done, "no")
        });
        let mut fake = Fake::unix(move |mut peer| peer.send(&bytes));
        let file = fake.file("m.xtmp", b"<<MAIL-DATA>>\r\n");
        let words = ["--profile", "xmail-smtp", "--file", word(&file), "/p"];
        let output = fake.command(&words).output().unwrap();
        fake.join();
        assert_eq!(output.status.code(), Some(3));
        let reply = fs::read_to_string(fake.folder.path().join("m.xtmp.rej")).unwrap();
        assert_eq!(reply, line);
    }
    // An accepted message has none.
    let mut fake = Fake::unix(|mut peer| peer.send(&verdict(Verdict::Accept, "yes")));
    let file = fake.file("m.xtmp", b"<<MAIL-DATA>>\r\n");
    let words = ["--profile", "xmail-smtp", "--file", word(&file), "/p"];
    assert_eq!(fake.command(&words).status().unwrap().code(), Some(0));
    fake.join();
    assert!(!fake.folder.path().join("m.xtmp.rej").exists());
}

/// Without its file, XMail would take exit code 3 for a permanent refusal.
#[test]
fn a_reply_file_that_cannot_be_written_turns_later_into_accept_and_never_into_refusal() {
    for (what, code) in [(Verdict::Tempfail, 0), (Verdict::Reject, 3)] {
        let mut fake = Fake::unix(move |mut peer| peer.send(&verdict(what, "no")));
        // The reply's name is too long for any file system.
        let file = fake.file(&"m".repeat(254), b"<<MAIL-DATA>>\r\n");
        let words = ["--profile", "xmail-smtp", "--file", word(&file), "/p"];
        assert_eq!(fake.command(&words).status().unwrap().code(), Some(code));
        fake.join();
    }
}

/// XMail starts its filters with these signals blocked and SIGPIPE ignored.
#[test]
fn blocked_signals_change_nothing() {
    let fake = Fake::unix(|mut peer| peer.until_closed());
    let mut inner = fake.command(&["--profile", "sysexits", "--deadline", "200ms", "/p"]);
    let mut command = std::process::Command::new("env");
    command
        .arg("--block-signal=ALRM,TERM,INT,HUP")
        .arg("--ignore-signal=PIPE");
    command.arg(inner.get_program()).args(inner.get_args());
    inner.stdin(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(75));
}

/// Nobody has to read what is printed.
#[test]
fn a_closed_standard_output_does_not_kill() {
    let fake = Fake::unix(|mut peer| peer.send(&verdict(Verdict::Reject, "no")));
    let mut command = fake.command(&["--profile", "sysexits", "/p"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(command.stdout(writer).status().unwrap().code(), Some(69));
}

#[test]
fn help_and_version_are_printed_and_mistakes_explained() {
    let run = |words: &[&str]| Finished::of(&client().args(words).output().unwrap());
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("xmail-2002") && help.stdout.contains("--on-error"));
    // A caller that lost its words has not been answered "accept".
    let nothing = run(&[]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    let usage = "stentor-call: usage: stentor-call [OPTIONS] /PROCEDURE";
    assert!(nothing.stderr.starts_with(usage), "{nothing:?}");
    assert!(run(&["-V"]).stdout.starts_with("stentor-call "));
    let mistake = run(&["--profil", "plain", "/p"]);
    assert_eq!(mistake.code, Some(2));
    assert!(
        mistake.stderr.contains("--profil is not an option"),
        "{}",
        mistake.stderr
    );
}
