//! The adaptors of `deploy/adaptors` in a server, and the services that two of them ask.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use stentor_tests::{Plan, Server, Version, process, raw, tools};

/// An HTTP service for logins and webhooks; the bodies that it was sent, with their paths.
fn service() -> (u16, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, seen) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (path, body) = request(&mut stream);
            let answer = match () {
                () if path != "/login" => "200 OK",
                () if body.contains(r#""user":"ann""#) && body.contains("secret") => "200 OK",
                () if body.contains("welcome") => "200 OK",
                () if body.contains(r#""user":"bob""#) => "404 Not Found",
                () => "401 Unauthorized",
            };
            let said = match () {
                // What a proxy says that knows nothing of logins.
                () if body.contains("welcome") => "<html>welcome</html>",
                () => r#"{"roles":["member"]}"#,
            };
            let len = said.len();
            let text = format!("HTTP/1.1 {answer}\r\nContent-Length: {len}\r\n\r\n{said}");
            // The adaptor may have given up.
            let _ = stream.write_all(text.as_bytes());
            if sender.send((path, body)).is_err() {
                break;
            }
        }
    });
    (port, seen)
}

/// The path and the body of a request.
fn request(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    let mut byte = [0];
    while !text.ends_with("\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        text.push(char::from(byte[0]));
    }
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let len = text
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let len = len.and_then(|len| len.parse().ok()).unwrap_or(0);
    let mut body = vec![0; len];
    stream.read_exact(&mut body).expect("the body comes");
    (path, String::from_utf8(body).expect("JSON is text"))
}

fn start(port: u16) -> Server {
    let plan = Plan::new();
    let shipped = tools::project().join("deploy/adaptors");
    let mut text = super::config();
    let hash = super::hash();
    for (name, zone) in [
        ("alice", "game"),
        ("bob", "game"),
        ("eve", "game"),
        ("alice", "fast"),
        ("bob", "fast"),
        ("bob", "people"),
    ] {
        text.push_str(&format!(
            "[[user]]\nname = \"{name}\"\nzone = \"{zone}\"\npassword_hash = \"{hash}\"\n"
        ));
    }
    for (name, more) in [
        ("moderate", "zone = \"game\""),
        ("rate", "zone = \"fast\""),
        ("login", "zone = \"people\"\nhttp = [\"127.0.0.1\"]"),
        ("turns", "zone = \"game\"\nroom = \"chess\""),
        (
            "webhook",
            "zone = \"game\"\nroom = \"support\"\nhttp = [\"127.0.0.1\"]",
        ),
    ] {
        let script = fs::read_to_string(shipped.join(format!("{name}.luau")));
        let script = script.expect("it is shipped");
        let script = script
            .replace("127.0.0.1:8070", &format!("127.0.0.1:{port}"))
            .replace("127.0.0.1:8071", &format!("127.0.0.1:{port}"));
        let file = plan.folder().join(format!("{name}.luau"));
        fs::write(&file, script).expect("a file can be written");
        let file = file.display();
        text.push_str(&format!("[[adaptor]]\nfile = \"{file}\"\n{more}\n"));
    }
    text.push_str("[[adaptor]]\nbuiltin = \"turns\"\nzone = \"fast\"\n");
    plan.config(&text).start()
}

#[track_caller]
fn check(case: &str, version: &str) {
    let (port, _seen) = service();
    tools::python_case("example_cases.py", case, version, &start(port));
}

stentor_tests::cases! {
    "4" in v3_1_1 {
        chat_is_moderated,
        turns_go_round,
        turns_are_built_in,
    }
    "5" in v5 {
        chat_is_moderated,
        who_sends_too_fast_is_told,
        turns_go_round,
        turns_are_built_in,
    }
}

#[test]
fn a_room_is_bridged_to_a_webhook() {
    let (port, seen) = service();
    let server = start(port);
    tools::python_case("example_cases.py", "support_is_bridged", "5", &server);
    let (path, body) = seen.recv().expect("the service sees it");
    assert_eq!(path, "/hook");
    for part in [
        "it does not work",
        r#""user":"alice""#,
        r#""room":"support""#,
    ] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
}

/// Whom the service knows comes in, whom it refuses does not, and whom it does not know may be a
/// user of the server.
#[test]
fn a_service_decides_about_logins() {
    let (port, seen) = service();
    let server = start(port);
    let login = |name: &str| {
        let mut publish = super::commands::command(&server, "pub", name);
        process::run(publish.args(["-q", "1", "-t", "hello", "-m", "x"]))
    };
    login("people/ann").success();
    let (path, body) = seen.recv().expect("the service is asked");
    assert_eq!(path, "/login");
    assert!(body.contains(r#""zone":"people""#), "{body}");
    login("people/bob").success();
    login("people/welcome").refusal();
    let refused = login("people/eve");
    assert!(!refused.status.success(), "{refused}");
    assert!(refused.stderr.contains("not"), "{refused}");
}

#[test]
fn a_built_in_adaptor_is_shown_by_its_name() {
    let (port, _seen) = service();
    let server = start(port);
    let told = server
        .control(&["adaptor", "ls", "--zone", "fast"])
        .success();
    let is_shown = |line: &str| line.starts_with("builtin:turns ") && line.contains(" fast ");
    assert!(told.lines().any(is_shown), "{told}");
    let fresh = ["adaptor", "reload", "builtin:turns", "--fresh"];
    let told = server.control(&fresh).success();
    assert!(told.contains("new version"), "{told}");
    let told = server.control(&fresh[..3]).success();
    assert!(told.contains("unchanged"), "{told}");
}

#[test]
fn the_command_calls_the_code_of_a_room() {
    let (port, _seen) = service();
    let server = start(port);
    let call = |words: &[&str]| {
        let mut command = super::commands::command(&server, "call", "fast/alice");
        process::run(command.args(words))
    };
    let answer = call(&["--room", "lobby", "moves"]).success();
    assert_eq!(answer, "accept\n[]\n");
    let refused = call(&["--room", "lobby", "start"]).refusal();
    assert!(refused.contains("a game needs two players"), "{refused}");
    let unknown = call(&["--room", "lobby", "dance"]).refusal();
    assert!(unknown.contains("not-found"), "{unknown}");
    assert_eq!(call(&["--room", "a/b", "start"]).status.code(), Some(2));
    // The command of a user who is a member joins nothing, though its session is another one.
    let [mut alice, mut bob] = ["alice", "bob"].map(|user| {
        let mut client = server.dial();
        client.speaks(Version::V5);
        let name = format!("fast/{user}");
        let login = Some((&name[..], super::PASSWORD));
        client.send(&raw::connect_as(Version::V5, user, true, login));
        assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
        client.subscribe("$room/chess/event", 0);
        client
    });
    alice.publish("$room/chess/call/start", b"");
    raw::eventually("the game has begun", || {
        let turn = call(&["--room", "chess", "turn"]);
        turn.stdout.contains(r#""players":["alice","bob"]"#)
    });
    let played = call(&["--room", "chess", "move", "-m", "7"]).success();
    assert!(played.contains(r#""player":"bob""#), "{played}");
    let refused = call(&["--room", "chess", "move", "-m", "8"]).refusal();
    assert!(refused.contains("it is not your turn"), "{refused}");
    bob.publish("$room/chess/call/stop", b"");
}
