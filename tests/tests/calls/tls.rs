//! Calls over TLS: the token never travels in the clear.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use stentor_tests::{Certificates, Finished, Plan, process};

use crate::{Calls, client, code, plan, word};

const WHO: &str = "return function(call) return accept('I am ' .. call.caller) end";
const BODY: &str = "--[[ procedure\nneeds = \"body\"\nanonymous = true\n]]
    return function(call)
        local raw = call:raw()
        return reject(#raw .. ' ' .. string.sub(raw, -3))
    end";
/// It changes a message of any length in two places.
const EDIT: &str = "--[[ procedure\nneeds = \"headers\"\nanonymous = true\n]]
    return function(call)
        call:add_header('X-Long', string.rep('x', 900))
        return accept()
    end";

/// A server with a listener `calls://` and one `call://`.
fn start() -> (Calls, Certificates) {
    let files = [("who.luau", WHO), ("body.luau", BODY), ("edit.luau", EDIT)];
    let (plan, certificates) = plan(&files).listen("calls://127.0.0.1:0").certificates();
    let server = plan.start();
    (Calls { server }, certificates)
}

/// A call over TLS to that address, by a client that trusts the authority.
fn call(address: &str, certificates: &Certificates, words: &[&str]) -> Finished {
    let url = format!("calls://{address}");
    let mut command = client();
    command.args(["-s", &url, "--ca-file"]);
    process::run(command.arg(certificates.authority()).args(words))
}

#[test]
fn calls_go_over_tls_as_over_tcp() {
    let (calls, certificates) = start();
    let address = calls.server.address("calls");
    let tls = |words: &[&str]| call(&address, &certificates, words);
    assert_eq!(tls(&["/echo", "-a", "b"]).success(), "a=b\nsize=0\n");
    for size in [1_usize, 70_000, 3_000_000] {
        let mut message = b"T: u\r\n\r\n".to_vec();
        message.resize(message.len() + size, b'x');
        message.extend_from_slice(b"end");
        let file = calls.file("m", &message);
        let finished = tls(&["--file", word(&file), "/body"]);
        let told = format!("{} end\n", message.len());
        assert_eq!(finished.stdout, told, "{finished}");
        let changed = tls(&["--file", word(&file), "--filter", "/edit"]).success();
        let header = format!("X-Long: {}\r\n", "x".repeat(900));
        assert!(changed.contains(&header), "{size}: {}", changed.len());
        assert_eq!(changed.len(), message.len() + header.len());
    }
    // An authority, or a name, says TLS without the scheme.
    let port = calls.server.port("calls");
    let mut command = client();
    command.args(["-s", "127.0.0.1", "-p", &port, "--server-name", "localhost"]);
    command.arg("--ca-file").arg(certificates.authority());
    process::run(command.arg("/noop")).success();
}

/// What lies between both sees neither the token nor the message.
#[test]
fn no_token_travels_in_the_clear() {
    let (calls, certificates) = start();
    let control = |args: &[&str]| calls.server.control(args).success();
    control(&["user", "add", "relay", "--no-password"]);
    let token = control(&["token", "create", "relay"]);
    let token = format!("relay:{}", token.trim());
    let file = calls.file("token", token.as_bytes());
    for (scheme, is_seen) in [("call", true), ("calls", false)] {
        let between = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = between.local_addr().expect("its address").to_string();
        let server = calls.server.address(scheme);
        let listening = std::thread::spawn(move || overhear(&between, &server));
        let words = ["--token-file", word(&file), "/who"];
        let said = match is_seen {
            true => process::run(client().args(["-s", &own]).args(words)),
            false => call(&own, &certificates, &words),
        };
        assert_eq!(said.success(), "I am relay\n");
        let seen = listening.join().expect("it has seen one call");
        let is_there = |text: &str| seen.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(!seen.is_empty());
        assert_eq!(is_there(&token), is_seen, "{scheme}");
    }
}

/// Passes one connection on to the server; returns what the client has sent.
fn overhear(between: &TcpListener, server: &str) -> Vec<u8> {
    let (mut client, _) = between.accept().expect("the client comes");
    let mut server = TcpStream::connect(server).expect("the server listens");
    let mut back = (
        server.try_clone().expect("a descriptor"),
        client.try_clone().expect("a descriptor"),
    );
    let answers = std::thread::spawn(move || {
        let _ = std::io::copy(&mut back.0, &mut back.1);
        let _ = back.1.shutdown(Shutdown::Both);
    });
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = client.read(&mut piece) {
        seen.extend_from_slice(&piece[..read]);
        if server.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    answers.join().expect("it ends with the connection");
    seen
}

/// A server that is not the one that is meant gets no token, and the reason is told on both sides.
#[test]
fn strangers_of_tls_are_told_apart() {
    let (calls, certificates) = start();
    let address = calls.server.address("calls");
    let plain = calls.server.address("call");
    let ca = certificates.authority();
    let other = calls.server.folder().join("other");
    std::fs::create_dir(&other).expect("a folder can be made");
    let other = Certificates::new(&other).authority();
    let url = format!("calls://{address}");
    for (words, told) in [
        (
            vec!["-s", address.as_str()],
            "this listener speaks TLS; give stentor-call --server calls://",
        ),
        (
            vec!["-s", url.as_str(), "--ca-file", word(&other)],
            "by --ca-file",
        ),
        (
            vec![
                "-s",
                url.as_str(),
                "--ca-file",
                word(&ca),
                "--server-name",
                "m.x",
            ],
            "by --server-name",
        ),
        (
            vec!["-s", plain.as_str(), "--ca-file", word(&ca)],
            "does not speak TLS there",
        ),
        (
            vec!["-s", url.as_str(), "--ca-file", "missing.pem"],
            "missing.pem",
        ),
    ] {
        let finished = process::run(client().args(&words).args(["--file", word(&ca), "/noop"]));
        assert_eq!(code(&finished), Some(2), "{finished}");
        assert!(finished.stderr.contains(told), "{finished}");
    }
    for told in [
        "this listener speaks TLS",
        "does not accept this server's certificate",
    ] {
        calls.server.wait_log(0, told);
    }
    call(&address, &certificates, &["/noop"]).success();
}

/// Each side that waits for TLS, or for none, says what the other one speaks.
#[test]
fn who_speaks_tls_and_who_does_not_is_told() {
    let (plan, certificates) = plan(&[]).listen("mqtts://127.0.0.1:0").certificates();
    let calls = Calls {
        server: plan.start(),
    };
    let plain = calls.server.address("call");
    assert_eq!(code(&call(&plain, &certificates, &["/noop"])), Some(2));
    let told = "the client speaks TLS, and this listener does not; call it by call://";
    calls.server.wait_log(0, told);
    let encrypted = calls.server.address("mqtts");
    let finished = process::run(client().args(["-s", &encrypted, "/noop"]));
    assert_eq!(code(&finished), Some(2), "{finished}");
    let told = "the server speaks TLS there; if it is a listener calls://, give --server calls://";
    assert!(finished.stderr.contains(told), "{finished}");
}

/// The option is named as a remedy, not as the cause, if the user has not given it.
#[test]
fn a_file_of_the_system_is_not_said_to_come_from_the_user() {
    let (calls, _) = start();
    let empty = calls.file("empty.pem", b"");
    let url = format!("calls://{}", calls.server.address("calls"));
    let run = |words: &[&str]| {
        let mut command = client();
        command.env("SSL_CERT_FILE", &empty).args(["-s", &url]);
        process::run(command.args(words).arg("/noop"))
    };
    let reason = format!("{} holds no certificate of an authority", empty.display());
    let system = run(&[]);
    assert_eq!(code(&system), Some(2), "{system}");
    let told = format!("stentor-call: {reason}; name a file of authorities by --ca-file");
    assert!(system.stderr.starts_with(&told), "{system}");
    let given = run(&["--ca-file", word(&empty)]);
    assert_eq!(code(&given), Some(2), "{given}");
    let told = format!("stentor-call: --ca-file: {reason} (--help");
    assert!(given.stderr.starts_with(&told), "{given}");
}

/// The library of TLS makes a program large and slow to start. What every message starts has none.
#[test]
fn only_the_program_for_tls_has_tls_in_it() {
    let library = b"aws_lc";
    for (name, has_it) in [("stentor-call", false), ("stentor-call-tls", true)] {
        let path = std::path::Path::new(client().get_program()).with_file_name(name);
        let program = std::fs::read(path).expect("both are built");
        let is_there = program.windows(library.len()).any(|it| it == library);
        assert_eq!(is_there, has_it, "{name}");
    }
}

/// Certificates end: a reload reads new ones, and callers after it get them.
#[test]
fn a_reload_reads_the_certificate_of_calls_again() {
    let (calls, old) = start();
    let address = calls.server.address("calls");
    call(&address, &old, &["/noop"]).success();
    let renewed = Certificates::new(calls.server.folder());
    assert_eq!(code(&call(&address, &renewed, &["/noop"])), Some(2));
    let text = calls.server.control(&["reload"]).success();
    assert!(text.contains("calls://127.0.0.1:0"), "{text}");
    call(&address, &renewed, &["/noop"]).success();
    let text = calls.server.control(&["reload"]).success();
    assert!(text.contains("nothing has changed"), "{text}");
}

#[test]
fn a_listener_for_encrypted_calls_needs_a_certificate() {
    for (config, told) in [
        ("", "needs a certificate"),
        (
            "certificate = \"a\"\nkey = \"b\"\nclient_certificates = \"required\"\n",
            "for encrypted MQTT listeners",
        ),
    ] {
        let config = format!("[[listener]]\nurl = \"calls://127.0.0.1:0\"\n{config}");
        let refused = Plan::new().config(&config).refused();
        assert!(refused.stderr.contains(told), "{refused}");
    }
}
