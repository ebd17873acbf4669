//! Where HTTP is spoken, and what happens when it cannot be.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use stentor_tests::{Plan, Raw, process};

use super::{ask, probe, read};

/// An address that the configuration names has to be free.
#[test]
fn a_named_address_that_is_taken_refuses_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", taken.local_addr().expect("it has an address"));
    let refused = Plan::new().tcp().arg("--http").arg(&url).refused();
    assert_eq!(refused.status.code(), Some(69), "{refused}");
    assert!(refused.stderr.contains(&url), "{refused}");
    assert!(refused.stderr.contains("--http"), "{refused}");
}

/// The usual address may be taken, by this test or by whoever has it: then the server runs without
/// it, and the log says what to do.
#[test]
fn a_usual_address_that_is_taken_is_left_out() {
    let taken = TcpListener::bind("127.0.0.1:18083");
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let plan = Plan::new().config(config).anonymous();
    let mut server = plan.usual_http().start();
    let log = server.wait_log(0, "http://127.0.0.1:18083");
    let line = log.lines().find(|it| it.contains("cannot be opened"));
    let line = line.unwrap_or_else(|| panic!("nothing was said: {log}"));
    for words in ["WARN", "another program listens there", "--http off"] {
        assert!(line.contains(words), "{line}");
    }
    server.client(stentor_tests::Version::V5, "a").ping();
    assert!(server.stop().success());
    drop(taken);
}

/// A Unix socket answers as an address of this machine does. Its file goes with the server, and
/// takes the place of one that a killed server has left.
#[test]
fn a_unix_socket_speaks_http() {
    let plan = Plan::new().tcp().anonymous();
    let path = plan.folder().join("http.sock");
    let url = format!("http+unix:{}", path.display());
    let mut server = plan.arg("--http").arg(&url).start();
    for is_killed in [true, false] {
        for (target, body) in [("/metrics", "stentor_clients"), ("/readyz", "\"ready\"")] {
            let mut client = Raw::unix(&path);
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            client.send(request.as_bytes());
            let answer = read(&mut client);
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert!(answer.body.contains(body), "{}", answer.body);
        }
        let mode = fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o660);
        if is_killed {
            let plan = server.kill();
            assert!(path.exists());
            server = plan.start();
        }
    }
    assert!(server.stop().success());
    assert!(!path.exists());
}

#[test]
fn a_path_that_is_no_socket_refuses_the_start() {
    let plan = Plan::new().tcp();
    let path = plan.folder().join("file");
    fs::write(&path, "precious").expect("it can be written");
    let url = format!("http+unix:{}", path.display());
    let plan = plan.arg("--http").arg(&url);
    let refused = plan.refused();
    assert_ne!(refused.status.code(), Some(0), "{refused}");
    assert!(refused.stderr.contains("file"), "{refused}");
    assert_eq!(fs::read(&path).expect("it is there"), b"precious");
}

/// Servers with listeners of the command line open no HTTP by themselves.
#[test]
fn listeners_of_the_command_line_stand_alone() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.usual_http().start();
    server.client(stentor_tests::Version::V5, "a").ping();
    assert!(!server.log().contains("http://"), "{}", server.log());
}

#[test]
fn addresses_beyond_this_machine_have_to_be_encrypted_or_wanted() {
    let refused = Plan::new()
        .tcp()
        .arg("--http")
        .arg("http://0.0.0.0:0")
        .refused();
    assert_eq!(refused.status.code(), Some(78), "{refused}");
    assert!(refused.stderr.contains("insecure"), "{refused}");
    let refused = Plan::new()
        .tcp()
        .arg("--http")
        .arg("https://127.0.0.1:0")
        .refused();
    assert_eq!(refused.status.code(), Some(78), "{refused}");
    assert!(refused.stderr.contains("needs a certificate"), "{refused}");
}

/// A reload reads the certificate again.
#[test]
fn https_follows_a_new_certificate() {
    let (plan, certificates) = Plan::new().certificates();
    let plan = plan.config("[log]\nlevel = \"info\"\n").tcp();
    let server = plan
        .arg("--http")
        .arg("https://localhost:0")
        .opens(1)
        .start();
    let url = server.url("https").replace("127.0.0.1", "localhost");
    let fetch = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--cacert"]);
        curl.arg(certificates.authority())
            .arg(format!("{url}/healthz"));
        process::run(&mut curl)
    };
    assert!(fetch().success().contains("\"healthy\":true"));
    let old = fs::read(certificates.certificate()).expect("it is there");
    certificates.renew();
    assert_ne!(
        old,
        fs::read(certificates.certificate()).expect("it is there")
    );
    let answer = server.json(&["reload"]);
    let renewed = answer["renewed"].to_string();
    assert!(renewed.contains("http.listen"), "{answer}");
    assert!(fetch().success().contains("\"healthy\":true"));
}

#[test]
fn both_loopback_addresses_are_opened_for_localhost() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan
        .arg("--http")
        .arg("http://localhost:0")
        .opens(1)
        .start();
    assert_eq!(probe(&server, "/healthz").0, 200);
    assert_eq!(ask(&server, "/readyz", "").status, 200);
}
