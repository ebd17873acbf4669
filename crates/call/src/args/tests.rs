use super::*;

fn parsed(words: &[&str]) -> Result<Command, Problem> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    parse(&words)
}

fn options(words: &[&str]) -> Options {
    match parsed(words) {
        Ok(Command::Call(options)) => *options,
        other => panic!("{words:?} is no call: {other:?}"),
    }
}

#[test]
fn a_call_has_defaults() {
    let options = options(&["/sizecheck"]);
    assert_eq!(options.server, Server::Unix(DEFAULT_SOCKET.into()));
    assert_eq!(options.procedure, "sizecheck");
    assert_eq!(options.profile, Profile::Plain);
    assert_eq!(options.deadline, DEFAULT_DEADLINE);
    assert_eq!(options.source, Source::None);
    assert_eq!(options.changed, Changed::Refused);
}

/// The shape in which the first users of such a client wrote their calls.
#[test]
fn a_call_is_written_with_single_dashes() {
    let options = options(&[
        "-s",
        "192.0.2.7",
        "-p",
        "2000",
        "/sizecheck",
        "-max",
        "-5",
        "--file",
        "m",
        "--",
        "-s",
        "x",
    ]);
    let host = IpAddr::from([192, 0, 2, 7]);
    assert_eq!(options.server, Server::Tcp(host, 2000));
    let arguments = [
        ("max".to_owned(), b"-5".to_vec()),
        ("s".to_owned(), b"x".to_vec()),
    ];
    assert_eq!(options.arguments, arguments);
    assert_eq!(options.source, Source::File("m".into()));
}

/// As people write options of other programs.
#[test]
fn a_value_may_follow_an_equals_sign() {
    let options = options(&[
        "--file=a=b",
        "--server=192.0.2.7",
        "--port=2000",
        "/p",
        "--deadline=1s",
        "-max",
        "--file=x",
        "--profile=exim",
    ]);
    let host = IpAddr::from([192, 0, 2, 7]);
    assert_eq!(options.server, Server::Tcp(host, 2000));
    assert_eq!(options.source, Source::File("a=b".into()));
    assert_eq!(options.deadline, Duration::from_secs(1));
    assert_eq!(options.profile, Profile::Exim);
    // The value of an argument may come from a stranger.
    assert_eq!(
        options.arguments[0],
        ("max".to_owned(), b"--file=x".to_vec())
    );
}

/// Which of two was meant is not known, and a message that nobody looks at would pass.
#[test]
fn an_option_with_a_value_is_given_once() {
    for option in VALUED {
        let value = match option {
            "--port" => "1",
            "--profile" => "plain",
            "--on-error" => "accept",
            "--deadline" => "5s",
            "--format" => "message",
            _ => "x",
        };
        let joined = format!("{option}={value}");
        for line in [
            vec![option, value, option, value, "/p"],
            vec![option, value, "/p", option, value],
            vec!["/p", option, value, joined.as_str()],
        ] {
            let told = parsed(&line).expect_err("a mistake").fault.to_string();
            let expected = format!("{option} is given twice; leave one out");
            assert!(told.contains(&expected), "{line:?}: {told}");
        }
    }
    for line in [
        ["-s", "::1", "-server", "::1", "/p"],
        ["-p", "1", "--port", "2", "/p"],
        ["-file", "a", "--file", "b", "/p"],
    ] {
        let told = parsed(&line).expect_err("a mistake").fault.to_string();
        assert!(told.contains("is given twice"), "{line:?}: {told}");
    }
    // The first one says which exit codes to use.
    let line = ["--profile", "xmail-smtp", "--profile", "exim", "/p"];
    let known = parsed(&line).expect_err("a mistake").options;
    assert_eq!(known.profile, Profile::XmailSmtp);
    // What has no value may be repeated.
    assert_eq!(options(&["--stdin", "--stdin", "/p"]).source, Source::Stdin);
}

/// Lines that were written for the client of 2002 do what they did.
#[test]
fn the_old_spelling_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let spool = "x.test\r\nS2\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n<<MAIL-DATA>>\r\nT: u\r\n";
    let with_line = format!("[192.0.2.1]:1;[192.0.2.2]:25;now\r\n{spool}");
    for (path, profile) in [
        (file("2002", spool), Profile::Xmail2002),
        (file("queue", &with_line), Profile::XmailQueue),
        (file("a.xtmp", &with_line), Profile::XmailSmtp),
        (file("plain", "T: u\r\n\r\nbody"), Profile::Plain),
        (folder.path().join("none"), Profile::Plain),
    ] {
        let name = path.to_str().unwrap();
        let line = ["/sizecheck", "-file", name, "-rrcpt", "c@d"];
        let options = options(&line);
        assert_eq!(options.profile, profile, "{name}");
        assert_eq!(options.source, Source::File(path.clone()));
        let arguments = [("rcpt".to_owned(), b"c@d".to_vec())];
        assert_eq!(options.arguments, arguments);
    }
    let host = IpAddr::from([192, 0, 2, 7]);
    for line in [
        ["-server", "192.0.2.7", "-port", "2000", "-file", "m", "/p"],
        ["/p", "-server", "192.0.2.7", "-port", "2000", "-file", "m"],
        ["-s", "192.0.2.7", "/p", "-port", "2000", "-file", "m"],
    ] {
        let options = options(&line);
        assert_eq!(options.server, Server::Tcp(host, 2000));
        assert_eq!(options.source, Source::File("m".into()));
        assert!(options.arguments.is_empty());
    }
}

/// An option that is taken for an argument would be missed by nobody.
#[test]
fn options_among_the_arguments_are_refused() {
    for (words, new) in [
        (&["-s", "192.0.2.7"][..], "--server"),
        (&["-p", "2000"], "--port"),
        (&["-f", "m"], "--file"),
        (&["-stdin"], "--stdin"),
        (&["-in-place"], "--in-place"),
        (&["-filter"], "--filter"),
        (&["-token-file", "t"], "--token-file"),
        (&["-format", "xmail"], "--format"),
        (&["-format", "message"], "--format"),
        (&["-profile", "exim"], "--profile"),
        (&["-on-error", "reject"], "--on-error"),
        (&["-deadline", "5s"], "--deadline"),
        (&["-version"], "--version"),
        (&["-help"], "--help"),
    ] {
        let line = [&["/p", "-rcpt", "c@d"], words, &["-max", "1"]].concat();
        let told = parsed(&line).expect_err("a mistake").fault.to_string();
        let (old, value) = (words[0], format!("`-- {} VALUE`", words[0]));
        for part in [old, &format!("write {new},"), &value] {
            assert!(told.contains(part), "{line:?}: {told}");
        }
        // With a value that is one of the words, as of any argument.
        let line = ["/p", "-rcpt", old, "-max", "1"];
        assert_eq!(options(&line).arguments[0].1, old.as_bytes());
        let line = ["/p", "-rcpt", "c@d", "--", old, "x", "-rrcpt", "--file"];
        let arguments = options(&line).arguments;
        let names: Vec<_> = arguments.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rcpt", &old[1..], "rrcpt"]);
        assert_eq!(arguments[2].1, b"--file");
    }
    let line = ["/status", "-format", "json"];
    assert_eq!(options(&line).arguments.len(), 1);
    let line = ["--", "/p", "-file", "x", "-rrcpt", "y"];
    let all = options(&line);
    assert_eq!((all.procedure.as_str(), all.source), ("p", Source::None));
    let line = ["/p", "-profile", "xmail-smtp", "-on-error", "reject"];
    let known = parsed(&line).expect_err("a mistake").options;
    let wishes = (known.profile, known.on_error);
    assert_eq!(wishes, (Profile::XmailSmtp, Some(Verdict::Reject)));
}

/// A procedure may have arguments of these names.
#[test]
fn the_new_spelling_goes_before_the_old_one() {
    let options = options(&[
        "--file", "m", "-p", "2000", "--server", "::1", "/p", "-file", "x", "-port", "y",
        "-server", "z", "-rcpt", "r", "-rrcpt", "rr",
    ]);
    assert_eq!(options.source, Source::File("m".into()));
    let names = options.arguments.iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["file", "port", "server", "rcpt", "rrcpt"]);
}

#[test]
fn servers_are_addresses_or_sockets() {
    for (host, server) in [
        ("unix:/a b", Server::Unix("/a b".into())),
        ("/a", Server::Unix("/a".into())),
        (
            "localhost",
            Server::Tcp(IpAddr::from([127, 0, 0, 1]), DEFAULT_PORT),
        ),
        (
            "::1",
            Server::Tcp(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), DEFAULT_PORT),
        ),
        (
            "[::1]",
            Server::Tcp(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), DEFAULT_PORT),
        ),
    ] {
        assert_eq!(options(&["-s", host, "/p"]).server, server);
    }
}

#[test]
fn xmail_profiles_take_spool_files_and_change_them() {
    for profile in ["xmail-queue", "xmail-smtp", "xmail-2002"] {
        let options = options(&["--profile", profile, "--file", "f", "/p"]);
        assert_eq!(options.format, Format::XmailSpool);
        assert_eq!(options.changed, Changed::InPlace);
    }
}

#[test]
fn mistakes_are_explained() {
    for (words, reason) in [
        (&["/p", "word", "x"] as &[&str], "-KEY"),
        (&["/p", "-key"], "needs a value"),
        (&["-x", "/p"], "is not an option"),
        (&["--nonsense", "1", "/p"], "not an option"),
        (&["--nonsense=1", "/p"], "--nonsense is not an option"),
        (&["--stdin=yes", "/p"], "--stdin has no value"),
        (&["--file=", "/p"], "--file is empty"),
        (&["-file=m", "/p"], "write --file=VALUE, or `-file VALUE`"),
        (&["-server", "-port", "1", "/p"], "-server needs a value"),
        (&["-server", "--port", "1", "/p"], "-server needs a value"),
        (&["--port", "--file=x", "/p"], "--port needs a value"),
        (&["--file", "m", "--stdin", "/p"], "exclude each other"),
        (&["--stdin", "--file", "m", "/p"], "exclude each other"),
        (&["-s", "mail.example", "/p"], "not looked up"),
        (&["-s", "/a", "-p", "1", "/p"], "no port"),
        (&["-p", "0", "/p"], "1 to 65535"),
        (&["-p", "65536", "/p"], "1 to 65535"),
        (&["/p", "-port", "x"], "1 to 65535"),
        (&["/p", "-file", ""], "--file is empty"),
        (&["/p", "-file", "a", "-file", "b"], "-file is given twice"),
        (&["/p", "--", "-key"], "needs a value"),
        (&["/p", "--", "word", "x"], "-KEY"),
        (&["--", "--file", "f", "/p"], "not a /PROCEDURE"),
        (&["--profile", "sendmail", "/p"], "xmail-queue"),
        (
            &["--profile", "xmail-queu", "/p"],
            "did you mean xmail-queue?",
        ),
        (
            &["--on-error", "discard", "/p"],
            "accept, tempfail or reject",
        ),
        (&["--deadline", "0", "/p"], "10ms to 1h"),
        (&["--deadline", "2h", "/p"], "10ms to 1h"),
        (&["--deadline", "5 s", "/p"], "10ms to 1h"),
        (&["--deadline", "99999999999999999999s", "/p"], "10ms to 1h"),
        (&["--format", "mbox", "/p"], "message or xmail"),
        (&["--in-place", "/p"], "--in-place needs"),
        (&["--in-place", "--stdin", "/p"], "--in-place needs"),
        (&["--filter", "/p"], "--filter needs"),
        (&["--filter", "--in-place", "--file", "f", "/p"], "exclude"),
        (&["--file", "", "/p"], "--file is empty"),
        (&["--delete-file", "/p"], "--delete-file needs a --file"),
        (
            &["--delete-file", "--stdin", "/p"],
            "--delete-file needs a --file",
        ),
        (
            &["--delete-file", "--in-place", "--file", "f", "/p"],
            "exclude",
        ),
        (&[], "usage: stentor-call [OPTIONS] /PROCEDURE"),
        (&["--stdin"], "procedure is missing"),
        (
            &["--token-file", "/nonexistent/token", "/p"],
            "/nonexistent/token",
        ),
    ] {
        let problem = parsed(words).expect_err("a mistake");
        let text = problem.fault.to_string();
        assert!(text.contains(reason), "{words:?}: {text}");
    }
}

/// Others on the network could read it and call as this caller.
#[test]
fn a_token_leaves_the_machine_encrypted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\n").unwrap();
    let token = ["--token-file", file.path().to_str().unwrap()];
    for away in ["192.0.2.7", "[2001:db8::7]:1889", "::ffff:192.0.2.7"] {
        let words = [&token[..], &["--server", away, "/p"]].concat();
        let text = parsed(&words)
            .expect_err("it is in the clear")
            .fault
            .to_string();
        assert!(
            text.contains("calls://") && text.contains("--clear-token"),
            "{text}"
        );
        let trusting = [&["--clear-token"], &words[..]].concat();
        assert_eq!(options(&trusting).token, b"secret");
    }
    for here in [
        "127.0.0.1",
        "[::1]:1889",
        "calls://192.0.2.7",
        "unix:/run/call.sock",
    ] {
        let words = [&token[..], &["--server", here, "/p"]].concat();
        assert_eq!(options(&words).token, b"secret", "{here}");
    }
    // Without a token there is nothing to hide.
    assert_eq!(options(&["--server", "192.0.2.7", "/p"]).token, b"");
}

/// Filters get their file to change it, external commands to read it, and a copy is nobody's.
#[test]
fn who_may_change_the_file_depends_on_the_caller() {
    for (words, changed) in [
        (&["--profile", "xmail-queue"] as &[&str], Changed::InPlace),
        (&["--profile", "xmail-external"], Changed::Refused),
        (
            &["--profile", "xmail-queue", "--delete-file"],
            Changed::Refused,
        ),
        (&["--delete-file"], Changed::Refused),
    ] {
        let options = options(&[words, &["--file", "f", "/p"]].concat());
        assert_eq!(options.changed, changed, "{words:?}");
        assert_eq!(options.deletes, words.contains(&"--delete-file"));
        let is_xmail = words.contains(&"--profile");
        assert_eq!(options.format == Format::XmailSpool, is_xmail, "{words:?}");
    }
    // If the message could not be printed, the file would be the only copy.
    for other in ["--filter", "--in-place"] {
        let words = [other, "--delete-file", "--file", "f", "/p"];
        let problem = parsed(&words).expect_err("they exclude each other");
        assert!(!problem.options.deletes, "{other}");
    }
    // A token that cannot be read is not a mistake in what is to become of the file.
    let token = ["--token-file", "/nonexistent/token"];
    for (file, deletes) in [
        (&["--delete-file", "--file", "f", "/p"][..], true),
        (&["/p"], false),
    ] {
        let problem = parsed(&[&token, file].concat()).expect_err("there is no token");
        assert_eq!(problem.options.deletes, deletes, "{file:?}");
        let source = &problem.options.source;
        assert_eq!(*source == Source::File("f".into()), deletes, "{source:?}");
    }
    // After a mistake nothing is deleted.
    let problem =
        parsed(&["--delete-file", "--file", "f", "--nonsense", "/p"]).expect_err("a mistake");
    assert!(!problem.options.deletes);
}

/// Whatever else is wrong, it is known whose exit codes to use, and what a stranger wrote into the
/// envelope does not change them.
#[test]
fn the_callers_wishes_are_read_beside_mistakes() {
    let (smtp, reject) = (Profile::XmailSmtp, Some(Verdict::Reject));
    for (words, profile, on_error) in [
        (
            &["--nonsense", "--profile", "xmail-smtp"] as &[&str],
            smtp,
            None,
        ),
        (&["--nonsense", "1", "--profile", "xmail-smtp"], smtp, None),
        (&["-x", "--on-error", "reject"], Profile::Plain, reject),
        (
            &["--port", "--profile=xmail-smtp", "--on-error=reject"],
            smtp,
            reject,
        ),
        (
            &[
                "--port",
                "--profile",
                "xmail-smtp",
                "--on-error",
                "reject",
                "/p",
            ],
            smtp,
            reject,
        ),
        (
            &[
                "-p",
                "0",
                "/p",
                "-k",
                "v",
                "--profile",
                "xmail-smtp",
                "--on-error",
                "reject",
            ],
            smtp,
            reject,
        ),
        (
            &[
                "-x",
                "/p",
                "-from",
                "--on-error",
                "-rcpt",
                "--profile",
                "--profile",
                "xmail-smtp",
            ],
            smtp,
            None,
        ),
        (
            &[
                "--profile",
                "xmail-smtp",
                "/p",
                "word",
                "x",
                "--on-error",
                "reject",
            ],
            smtp,
            reject,
        ),
        (&["--profile", "sendmail", "/p"], Profile::Sysexits, None),
        (&["--profile"], Profile::Sysexits, None),
        (&["--on-error", "discard", "/p"], Profile::Plain, None),
    ] {
        let options = parsed(words).expect_err("a mistake").options;
        assert_eq!(
            (options.profile, options.on_error),
            (profile, on_error),
            "{words:?}"
        );
    }
}

/// The server's log and `stentor status` name listeners by URLs.
#[test]
fn servers_are_known_as_the_log_spells_them() {
    let tcp = |host: &str, port| Server::Tcp(host.parse().unwrap(), port);
    let tls = |host: &str, port, name: &str| Server::Tls {
        host: host.parse().unwrap(),
        port,
        name: name.to_owned(),
    };
    for (host, server) in [
        ("127.0.0.1:47326", tcp("127.0.0.1", 47_326)),
        ("call://127.0.0.1:47326", tcp("127.0.0.1", 47_326)),
        ("call://[::1]:7", tcp("::1", 7)),
        ("localhost:7", tcp("127.0.0.1", 7)),
        ("::1:7", tcp("::1:7", 1889)),
        ("call+unix:/a/b", Server::Unix("/a/b".into())),
        ("calls://192.0.2.7", tls("192.0.2.7", 1892, "192.0.2.7")),
        ("calls://[::1]:7/", tls("::1", 7, "::1")),
        ("calls://localhost:7", tls("127.0.0.1", 7, "localhost")),
    ] {
        assert_eq!(options(&["-s", host, "/p"]).server, server, "{host}");
    }
    // A caller that names an authority means TLS, with or without the scheme.
    for host in ["192.0.2.7", "calls://192.0.2.7:1892"] {
        let words = [
            "-s",
            host,
            "--ca-file",
            "ca",
            "--server-name",
            "m.example",
            "/p",
        ];
        let options = options(&words);
        assert_eq!(
            options.server,
            tls("192.0.2.7", 1892, "m.example"),
            "{host}"
        );
        assert_eq!(options.ca_file, Some("ca".into()));
    }
    assert_eq!(
        options(&["-s", "calls://[::1]:7", "/p"]).server.to_string(),
        "calls://[::1]:7"
    );
    for (words, told) in [
        (&["-s", "call.sock", "/p"][..], "unix:call.sock"),
        (&["-s", "/a/b", "--ca-file", "c", "/p"], "calls://ADDRESS"),
        (&["--server-name", "n", "/p"], "calls://ADDRESS"),
        (
            &["-s", "call://127.0.0.1", "--ca-file", "c", "/p"],
            "calls://ADDRESS",
        ),
        (&["-s", "calls://mail.example", "/p"], "not looked up"),
        (&["-s", "run/call", "/p"], "unix:run/call"),
        (&["-s", "mail.example", "/p"], "ADDRESS:PORT"),
        (&["-s", "127.0.0.1:7", "-p", "8", "/p"], "two ports"),
    ] {
        let problem = parsed(words).expect_err("a mistake");
        let text = problem.fault.to_string();
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn durations_have_units() {
    for (text, milliseconds) in [("10ms", 10), ("5", 5000), ("5s", 5000), ("1h", 3_600_000)] {
        assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)));
    }
}

#[test]
fn exim_says_the_envelope_by_its_variables() {
    let variable = |name: &str| match name {
        "SENDER" => Some(OsString::new()),
        "RECIPIENT" => Some(OsString::from("c@d")),
        _ => None,
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
    let given = vec![pair("max", "1")];
    let expected = [pair("max", "1"), pair("from", ""), pair("rcpt", "c@d")];
    assert_eq!(with_envelope(given, variable), expected);
    let given = vec![pair("rcpt", "e@f"), pair("from", "a@b")];
    assert_eq!(with_envelope(given.clone(), variable), given);
}
