//! What the log says when somebody is refused: the cause, and what helps.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use stentor_tests::raw::{connect, connect_as};
use stentor_tests::{Certificates, Plan, Raw, Server, Version, process, server, tools};

/// Waits for a line with the first of these, and looks for the others in it.
#[track_caller]
fn line(server: &Server, words: &[&str]) {
    let log = server.wait_log(0, words[0]);
    let line = log.lines().find(|line| line.contains(words[0]));
    let line = line.expect("it was just there");
    for word in words {
        assert!(line.contains(word), "{word:?} is missing: {line}");
    }
}

/// A publish over TLS that fails, with these options.
#[track_caller]
fn fails(server: &Server, authority: &Path, more: &[&Path]) {
    let mut command = server::stentor();
    command.args(["pub", "-h", "localhost", "-t", "t", "-m", "x", "-q", "1"]);
    command.args(["-p", &server.port("mqtts"), "--cafile"]);
    command.arg(authority);
    if let [certificate, key] = more {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    process::run(&mut command).refusal();
}

/// The commands that are proposed reach this server and no other.
#[test]
fn a_wrong_password_is_mended_by_commands_that_can_be_pasted() {
    let server = Plan::new().tcp().start();
    let login = Some(("it's ann", "wrong"));
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, "c", true, login));
    assert_eq!(client.expect(2).body[1], 0x86);
    let folder = server.data_dir().canonicalize().expect("it is there");
    let command = format!(
        r"`stentor user add 'it'\''s ann' --data-dir {}`",
        folder.display()
    );
    line(&server, &[&command, "user show", "user set-password"]);
}

/// A user who is disabled hears what somebody with a wrong password hears; the log says what it is.
#[test]
fn a_disabled_user_is_told_apart_in_the_log_alone() {
    let server = Plan::new().tcp().start();
    let password = server.folder().join("password");
    fs::write(&password, "right\n").expect("a file can be written");
    let password = password.to_str().expect("plain names");
    server
        .control(&["user", "add", "ann", "--password-file", password, "--scram"])
        .success();
    let answer = |name: &str, password: &str| {
        let mut client = server.dial();
        client.send(&connect_as(Version::V5, "c", true, Some((name, password))));
        client.expect(2).body
    };
    let wrong = answer("ann", "wrong");
    server.control(&["user", "disable", "ann"]).success();
    assert_eq!(answer("ann", "right"), wrong);
    assert_eq!(answer("ann", "wrong"), wrong);
    assert_eq!(answer("nobody", "right"), wrong);
    let disabled = [
        "the user is disabled",
        "`stentor user enable ann --data-dir",
    ];
    server.wait_lines(2, &disabled);
    let of_nobody = ["wrong user name or password", "user=\"nobody\""];
    server.wait_lines(1, &of_nobody);
}

#[test]
fn what_is_wrong_with_tls_and_certificates_is_said() {
    let plan = Plan::new();
    let certificates = Certificates::new(plan.folder());
    let config = format!(
        "[[listener]]\nurl = \"mqtts://127.0.0.1:0\"\ncertificate = \"{}\"\nkey = \"{}\"\n\
         client_certificates = \"required\"\nclient_ca = \"{}\"\ncertificate_user = \"cn\"\n",
        certificates.certificate().display(),
        certificates.key().display(),
        certificates.authority().display()
    );
    let server = plan.config(&config).start();
    let mut plain = Raw::tcp(&server.address("mqtts"));
    plain.send(&connect(Version::V5, "c", true));
    line(
        &server,
        &["does not speak TLS", "mqtt://", "reason=\"tls\""],
    );
    let authority = certificates.authority();
    fails(&server, &authority, &[]);
    line(&server, &["showed no certificate", "--cert"]);
    let (certificate, key) = certificates.client("nobody-there");
    fails(&server, &authority, &[&certificate, &key]);
    line(
        &server,
        &[
            "its certificate names the user \"nobody-there\"",
            "user=\"nobody-there\"",
            "stentor user add nobody-there --data-dir",
        ],
    );
    // Signed by somebody else, and somebody else's server.
    let others = tempfile::tempdir().expect("a folder can be made");
    let strangers = Certificates::new(others.path());
    let (certificate, key) = strangers.client("stranger");
    fails(&server, &authority, &[&certificate, &key]);
    line(&server, &["must be signed by an authority in `client_ca`"]);
    let mut distrustful = tools::mosquitto("mosquitto_pub");
    let port = server.port("mqtts");
    distrustful.args([
        "-h",
        "localhost",
        "-t",
        "t",
        "-m",
        "x",
        "-p",
        &port,
        "--cafile",
    ]);
    process::run(distrustful.arg(strangers.authority())).refusal();
    line(
        &server,
        &["does not accept this server's certificate", "--cafile"],
    );
}

#[test]
fn what_is_wrong_with_a_websocket_is_said() {
    let config = "[[listener]]\nurl = \"ws://127.0.0.1:0\"\npath = \"/mqtt\"\nanonymous = true\n";
    let server = Plan::new().config(config).start();
    let request = |path: &str, more: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
        );
        head.into_bytes()
    };
    let text_frame = [&request("/mqtt", "")[..], &[0x81, 0x81, 0, 0, 0, 0, b'x']].concat();
    for (sent, words) in [
        (
            connect(Version::V4, "c", true),
            &["not HTTP/1.1", "this listener speaks WebSocket", "mqtt://"][..],
        ),
        (
            request("/other", ""),
            &["\"/other\"", "\"/mqtt\"", "`path`"],
        ),
        (
            request("/mqtt", "Sec-WebSocket-Protocol: chat\r\n"),
            &["no subprotocol that is spoken here", "\"mqtt\""],
        ),
        (text_frame, &["a text frame", "binary frames"]),
        (
            request("/mqtt", "Origin: null\r\n"),
            &["no origin of its own", "from a file"],
        ),
        (request("/mqtt", "Origin: \r\n"), &["empty Origin header"]),
    ] {
        let mut client = Raw::tcp(&server.address("ws"));
        client.send(&sent);
        line(&server, words);
    }
}

/// MQTT 3.1.1 has no server keep alive: a client that could not be noticed in time is refused, as
/// by mosquitto.
#[test]
fn a_keep_alive_above_the_maximum_is_refused_or_replaced() {
    let config = "[limits]\nkeep_alive_max = \"10s\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let with = |version: Version, secs: u8| {
        let mut login = connect(version, "c", true);
        // After the fixed header, the protocol's name and level, and the flags.
        login[11] = secs;
        let mut client = server.dial();
        client.send(&login);
        client.speaks(version);
        client.expect(2).body
    };
    for secs in [0, 11] {
        // 2 "identifier rejected".
        assert_eq!(with(Version::V4, secs), [0, 2]);
        let told = with(Version::V5, secs);
        assert_eq!(told[1], 0);
        assert!(
            told.windows(3).any(|bytes| bytes == [0x13, 0, 10]),
            "{told:?}"
        );
    }
    assert_eq!(with(Version::V4, 10), [0, 0]);
    line(
        &server,
        &["limits.keep_alive_max", "reason=\"keep-alive\"", "MQTT 5"],
    );
}

/// A server that cannot write down who changes rights serves all the same, and says so until it
/// can. A command that root ran leaves such a file, for example; a folder is none for root either.
#[test]
fn an_audit_log_that_cannot_be_written_is_told() {
    let plan = Plan::new().tcp();
    let path = plan.data_dir().join("audit.log");
    fs::create_dir_all(&path).expect("a folder can be made");
    let folder = Permissions::from_mode(0o700);
    fs::set_permissions(plan.data_dir(), folder).expect("it is ours");
    let server = plan.start();
    let shown = path.to_str().expect("plain names");
    let words = [
        "the audit log cannot be written",
        "WARN",
        shown,
        "all the same",
    ];
    line(&server, &words);
    let told = "the audit log cannot be written since ";
    assert!(server.control(&["status"]).success().contains(told));
    let text = server.json(&["status"])["audit_trouble"]["text"].to_string();
    assert!(text.contains("audit.log: "), "{text}");
    let add = |name: &str| {
        let add = ["user", "add", name, "--no-password"];
        server.control(&add).success();
    };
    add("ann");
    line(&server, &["user.add", "WARN", "ann", "audit log cannot"]);
    fs::remove_dir(&path).expect("it is empty");
    add("bob");
    assert!(server.json(&["status"])["audit_trouble"].is_null());
    assert!(!server.control(&["status"]).success().contains(told));
    let log = fs::read_to_string(&path).expect("it is written again");
    assert!(log.contains("bob") && !log.contains("ann"), "{log}");
}

/// As whoever forgets that 1883 is the port without TLS.
#[test]
fn tls_on_a_port_without_it_is_called_so() {
    let server = Plan::new().tcp().anonymous().start();
    let mut client = server.dial();
    client.send(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3]);
    client.closed();
    line(&server, &["for TLS, use a listener mqtts://", "refused"]);
}
