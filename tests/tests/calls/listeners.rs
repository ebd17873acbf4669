//! Both ways in, and who may come.

use std::fs;

use stentor_tests::{Plan, process, server};

use crate::{Calls, code, plan, word};

const BODY: &str = "--[[ procedure\nversion = \"3\"\nneeds = \"body\"\nanonymous = true\n]]
    return function(call)
        local raw = call:raw()
        if #raw ~= call.size then return tempfail('short') end
        return reject(call.args.why .. ' ' .. #raw .. ' ' .. string.sub(raw, -3), { code = 550 })
    end";

#[test]
fn what_is_built_in_answers_both_ways() {
    let calls = Calls::start(&[]);
    let file = calls.file("m", b"T: u\r\n\r\nbody");
    for run in [Calls::by_unix, Calls::by_tcp] {
        assert_eq!(code(&run(&calls, &["/noop"])), Some(0));
        let small = run(&calls, &["--file", word(&file), "/sizecheck", "-max", "12"]);
        assert_eq!(code(&small), Some(0), "{small}");
        let words = [
            "--profile",
            "postfix-pipe",
            "--file",
            word(&file),
            "/sizecheck",
        ];
        let large = run(&calls, &[&words[..], &["-max", "11"]].concat());
        assert_eq!(code(&large), Some(69), "{large}");
        assert!(
            large.stdout.starts_with("5.3.4 the message has 12 bytes"),
            "{large}"
        );
        let echo = run(&calls, &["/echo", "-a", "b"]);
        assert_eq!(echo.stdout, "a=b\nsize=0\n");
        let missing = run(&calls, &["--profile", "sysexits", "/nothing"]);
        assert_eq!(code(&missing), Some(75));
        assert!(
            missing.stderr.contains("there is no procedure /nothing"),
            "{missing}"
        );
    }
    // The figures are for those who are known: this user by Unix socket, nobody by TCP.
    let status = calls.by_unix(&["/status"]).success();
    assert!(
        status.starts_with("up for 00:0") && status.contains(", since 20"),
        "{status}"
    );
    assert!(status.contains("sizecheck"), "{status}");
    assert_eq!(code(&calls.by_tcp(&["/status"])), Some(2));
    // It says the same as `stentor status`.
    let words = ["/status", "-format", "json"];
    let said = calls.by_unix(&words).success();
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let known = calls.server.json(&["status"]);
    assert_eq!(said["since_secs"], known["started_at"], "{known}");
    assert!(
        said["uptime_secs"].as_u64() <= known["uptime_secs"].as_u64(),
        "{said} {known}"
    );
}

/// The whole message gets to a script, by descriptor and over the network, small and large.
#[test]
fn the_body_arrives_whole() {
    let calls = Calls::start(&[("body.luau", BODY)]);
    for size in [1_usize, 70_000, 3_000_000] {
        let mut message = b"T: u\r\n\r\n".to_vec();
        message.extend((0..size).map(|i| b'a' + (i % 26) as u8));
        message.extend_from_slice(b"end");
        let file = calls.file("m", &message);
        for run in [Calls::by_unix, Calls::by_tcp] {
            let finished = run(&calls, &["--file", word(&file), "/body", "-why", "no"]);
            assert_eq!(
                finished.stdout,
                format!("no {} end\n", message.len()),
                "{finished}"
            );
            assert_eq!(code(&finished), Some(1));
        }
    }
    // One line per verdict, with what the operator wants to know.
    let log = calls.server.wait_log(0, "procedure=\"body\"");
    let line = log
        .lines()
        .find(|line| line.contains("procedure=\"body\""))
        .expect(&log);
    for part in [
        "version=\"3\"",
        "verdict=\"reject\"",
        "status=\"done\"",
        "size=",
        "ms=",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[test]
fn tokens_say_who_calls_over_tcp() {
    let script = "return function(call) return accept('I am ' .. call.caller) end";
    let plan = plan(&[("closed.luau", script)]);
    // The SHA-256 of "secret".
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    fs::write(
        plan.folder().join("tokens"),
        format!("filter token:{hash}\n"),
    )
    .unwrap();
    let calls = Calls {
        server: plan.config("[procedures]\ntokens = \"tokens\"\n").start(),
    };
    let with = |token: &str| {
        let file = calls.file("token", token.as_bytes());
        calls.by_tcp(&["--token-file", word(&file), "/closed"])
    };
    let known = with("secret\n");
    assert_eq!(
        (code(&known), known.stdout.as_str()),
        (Some(0), "I am filter\n")
    );
    let wrong = with("guess\n");
    assert_eq!(code(&wrong), Some(2), "{wrong}");
    assert!(wrong.stderr.contains("nobody has this token"), "{wrong}");
    let nobody = calls.by_tcp(&["/closed"]);
    assert!(nobody.stderr.contains("may not call"), "{nobody}");
    // On the Unix socket, the system says who it is.
    assert_eq!(code(&calls.by_unix(&["/closed"])), Some(0));
    assert!(!calls.server.log().contains("secret"));
}

#[test]
fn mistakes_are_refused_at_the_start() {
    for (config, words) in [
        ("[procedures]\nfolder = \"missing\"\n", "missing"),
        (
            "[procedures]\ntokens = \"missing\"\n",
            "cannot read the tokens",
        ),
        (
            "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nallow_uid = \"0\"\n",
            "call+unix",
        ),
        (
            "[[listener]]\nurl = \"call://127.0.0.1:0\"\nanonymous = true\n",
            "MQTT",
        ),
        (
            "[[listener]]\nurl = \"call+unix:s\"\nallow_uid = \"no one\"\n",
            "no user no one",
        ),
    ] {
        let mut config = config.to_owned();
        if !config.contains("listener") {
            config.push_str("[[listener]]\nurl = \"call://127.0.0.1:0\"\n");
        }
        let refused = Plan::new().config(&config).refused();
        assert!(refused.stderr.contains(words), "{config}: {refused}");
    }
}

/// Connections that say nothing, nonsense, or too much end; the server goes on.
#[test]
fn strangers_are_turned_away() {
    use std::io::{Read, Write};
    let calls = Calls::start(&[]);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x01\xFF\xFF\xFF\xFF",
        b"\x02\0\0\0\0",
    ] {
        let mut stream = std::net::TcpStream::connect(calls.server.address("call")).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        // An answer that says what is wrong: bad call.
        assert_eq!(&answer[..1], [0x83], "{answer:02x?}");
        assert_eq!(answer[5], 6, "{answer:02x?}");
    }
    // Half a call, and then silence for good, by many.
    let half: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(calls.server.address("call")).unwrap();
            stream.write_all(b"\x01\0\0").unwrap();
            stream
        })
        .collect();
    assert_eq!(code(&calls.by_tcp(&["/noop"])), Some(0));
    drop(half);
}

/// An MQTT command that is sent to a listener for calls is told what speaks to it.
#[test]
fn a_command_of_mqtt_is_told_of_the_call_protocol() {
    for url in ["call+unix:/run/stentor/call.sock", "call://127.0.0.1:1889"] {
        let mut command = server::stentor();
        command.args(["call", "-L", url, "sizecheck"]);
        let refused = process::run(&mut command).refusal();
        assert!(refused.contains("`stentor-call` speaks it"), "{refused}");
    }
}

/// A client that comes with MQTT reads what the port is for, and so does the operator.
#[test]
fn a_client_of_mqtt_is_told_that_the_port_is_for_calls() {
    let calls = Calls::start(&[]);
    let port = calls.server.port("call");
    let words = ["pub", "-h", "127.0.0.1", "-p", &port, "-t", "t", "-m", "x"];
    let told = process::run(server::stentor().args(words)).stderr;
    let purpose = "this port is for calls (stentor-call), not for MQTT";
    assert!(told.contains(purpose), "{told}");
    let log = calls.server.wait_log(0, "this is an MQTT client");
    let listener = format!("listener=\"call://127.0.0.1:{port}\"");
    assert!(log.contains(&listener), "{log}");
}
