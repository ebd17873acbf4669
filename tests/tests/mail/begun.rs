//! A message ends as it began: with the version of the procedure that was there then, and as a
//! whole or not at all.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use stentor_tests::{DEADLINE, Plan, Server};

use crate::script;

/// A server with one procedure on a milter port of this machine.
fn server(text: &str, lines: &str) -> Server {
    server_at("127.0.0.1", text, lines)
}

fn server_at(host: &str, text: &str, lines: &str) -> Server {
    let plan = Plan::new();
    let folder = plan.folder().join("procedures");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(folder.join("p.luau"), text).expect("it can be written");
    plan.config(&format!(
        "[procedures]\nfolder = \"procedures\"\n{lines}\
         [[listener]]\nurl = \"milter://{host}:0\"\nprocedure = \"/p\"\n"
    ))
    .start()
}

/// A connection that has said all up to the headers, each command of which is answered.
struct Milter(TcpStream);

impl Milter {
    fn new(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address("milter")).expect("it listens");
        stream
            .set_read_timeout(Some(DEADLINE))
            .expect("a time limit");
        Self::with(stream)
    }

    fn with(stream: TcpStream) -> Self {
        let mut milter = Self(stream);
        // Everything is to be answered.
        assert_eq!(milter.ask(b"O\0\0\0\x06\0\0\0\xff\0\0\0\0")[0], b'O');
        for command in [&b"M<a@b>\0"[..], b"R<c@d>\0"] {
            assert_eq!(milter.ask(command), b"c");
        }
        milter
    }

    /// Says something and reads one reply.
    fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        let len = u32::try_from(command.len()).expect("it is short");
        let frame = [&len.to_be_bytes()[..], command].concat();
        self.0.write_all(&frame).expect("it is taken");
        let mut len = [0; 4];
        self.0.read_exact(&mut len).expect("it is answered");
        let mut reply = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut reply).expect("all of it comes");
        reply
    }

    /// The reply to the end of the message, as text.
    fn end(&mut self) -> String {
        String::from_utf8_lossy(&self.ask(b"E")).into_owned()
    }

    fn headers_and(&mut self, piece: &[u8]) {
        for command in [&b"T"[..], b"LA\0b\0", b"N", &[b"B", piece].concat()[..]] {
            assert_eq!(self.ask(command), b"c", "{}", command.escape_ascii());
        }
    }
}

const OPEN: &str = "anonymous = true\n";

#[test]
fn a_version_that_comes_meanwhile_gets_the_next_message() {
    let body = "return reject('old ' .. #call:raw())";
    let manifest = format!("{OPEN}needs = \"body\"");
    let server = server(&script(&manifest, body), "");
    let mut milter = Milter::new(&server);
    milter.headers_and(b"first");
    let path = server.folder().join("procedures/p.luau");
    let newer = script("anonymous = true\nneeds = \"size\"", "return reject('new')");
    let from = server.log().len();
    fs::write(&path, newer).unwrap();
    server.wait_log(from, "/p loaded");
    assert_eq!(milter.ask(b"Bsecond"), b"c");
    // "A: b", the empty line, both pieces.
    assert_eq!(milter.end(), "y554 5.7.1 old 19\0");
    // And the other way round: the headers alone were kept.
    let mut milter = Milter::new(&server);
    milter.headers_and(b"first");
    let from = server.log().len();
    fs::write(&path, script(&manifest, body)).unwrap();
    server.wait_log(from, "/p loaded");
    assert_eq!(milter.ask(b"Bsecond"), b"c");
    assert_eq!(milter.end(), "y554 5.7.1 new\0");
}

/// As `rm` and `cp` do it.
#[test]
fn a_procedure_that_was_not_there_judges_no_half_message() {
    let text = script(&format!("{OPEN}needs = \"body\""), "return accept()");
    let server = server(&text, "");
    let path = server.folder().join("procedures/p.luau");
    let from = server.log().len();
    fs::remove_file(&path).unwrap();
    server.wait_log(from, "/p removed");
    let mut milter = Milter::new(&server);
    milter.headers_and(b"first");
    let from = server.log().len();
    fs::write(&path, text).unwrap();
    server.wait_log(from, "/p loaded");
    assert_eq!(milter.ask(b"Bsecond"), b"c");
    let reply = milter.end();
    assert!(reply.starts_with("y451 4.7.1"), "{reply}");
    server.wait_log(0, "the message is not whole");
}

/// A caller that may not ask any more is told before the message is sent.
#[test]
fn who_may_not_ask_sends_no_message() {
    // A program that reaches a listener of this machine alone may ask; here it could be anybody.
    let closed = script("needs = \"body\"", "return accept()");
    let open = script("anonymous = true\nneeds = \"body\"", "return accept()");
    let server = server_at("0.0.0.0", &open, "");
    let mut milter = Milter::new(&server);
    let from = server.log().len();
    fs::write(server.folder().join("procedures/p.luau"), closed).unwrap();
    server.wait_log(from, "/p loaded");
    let reply = milter.ask(b"T");
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with("y451 4.7.1"), "{reply}");
    server.wait_log(0, "status=\"not-allowed\"");
}

/// Strangers of the network take no place from the mail server, whatever they begin.
#[test]
fn who_may_not_ask_takes_no_place() {
    let open_to = |address: &str| {
        let manifest = format!("needs = \"headers\"\nallow_addresses = [\"{address}\"]");
        script(&manifest, "return accept()")
    };
    let server = server_at("0.0.0.0", &open_to("192.0.2.1"), "connections = 2\n");
    let dial = || {
        let stream = TcpStream::connect(server.address("milter")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    };
    let mut strangers: Vec<_> = (0..4).map(|_| dial()).collect();
    for stranger in &mut strangers {
        // The first byte of a command; by then it may be closed.
        let _ = stranger.write_all(b"\0");
        let mut answer = Vec::new();
        if let Err(error) = stranger.read_to_end(&mut answer) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"", "it is closed without a word");
    }
    let log = server.wait_log(0, "not in `allow_addresses` of /p");
    assert!(log.contains("a connection from 127.0.0.1"), "{log}");
    let path = server.folder().join("procedures/p.luau");
    fs::write(path, open_to("127.0.0.1")).unwrap();
    server.wait_log(log.len(), "/p loaded");
    let mut milter = Milter::with(dial());
    for command in [&b"T"[..], b"LA\0b\0", b"N"] {
        assert_eq!(milter.ask(command), b"c");
    }
    assert_eq!(milter.end(), "a");
}

/// Without room for it a message is deferred.
#[test]
fn a_message_without_room_is_deferred() {
    let manifest = format!("{OPEN}needs = \"body\"");
    let server = server(&script(&manifest, "return accept()"), "bodies = \"1MiB\"\n");
    let mut milter = Milter::new(&server);
    milter.headers_and(&[b'x'; 60_000]);
    for _ in 0..19 {
        let piece = [&b"B"[..], &[b'x'; 60_000]].concat();
        assert_eq!(milter.ask(&piece), b"c");
    }
    let reply = milter.end();
    assert!(reply.starts_with("y451 4.7.1"), "{reply}");
    let log = server.wait_log(0, "status=\"overloaded\"");
    assert!(log.contains("procedures.bodies"), "{log}");
    // The next one has all of it again.
    let mut milter = Milter::new(&server);
    milter.headers_and(b"short");
    assert_eq!(milter.end(), "a");
}
