//! Messages that are waited for: whose, for how long, and how many bytes of them.

use std::io::{Read, Write};
use std::net::TcpStream;

use stentor_tests::DEADLINE;

use crate::{Calls, code, plan, word};

/// As long as a caller may wait: an hour.
const LONG_MS: u32 = 3_600_000;
const END: u8 = 3;
const NEED_BODY: u8 = 0x81;
const ACCEPTED: u8 = 0;
const BAD_CALL: u8 = 6;
const NOT_ALLOWED: u8 = 2;
const OVERLOADED: u8 = 3;
const TIMED_OUT: u8 = 4;

/// A script that needs the body, with more lines in its manifest.
fn script(manifest: &str) -> String {
    format!(
        "--[[ procedure\nneeds = \"body\"\n{manifest}\n]]\n\
         return function(call) return accept(#call:raw() .. ' bytes') end"
    )
}

/// A caller without a token who says that a message has so many bytes, and sends its headers.
fn begin(calls: &Calls, procedure: &str, size: u64) -> TcpStream {
    begin_with(calls, procedure, size, &[])
}

/// The same who sends more along.
fn begin_with(calls: &Calls, procedure: &str, size: u64, more: &[u8]) -> TcpStream {
    let head = b"T: u\r\n\r\n";
    let mut body = b"STCL\x01\x00\x02\x00".to_vec();
    body.extend(LONG_MS.to_be_bytes());
    body.extend(size.to_be_bytes());
    body.push(u8::try_from(procedure.len()).expect("it is short"));
    body.extend(procedure.as_bytes());
    body.extend([0; 4]);
    body.extend((head.len() as u32).to_be_bytes());
    body.extend(head);
    let mut stream = TcpStream::connect(calls.server.address("call")).expect("it listens");
    stream
        .set_read_timeout(Some(DEADLINE))
        .expect("a time limit");
    let frame = [&[1][..], &(body.len() as u32).to_be_bytes(), &body, more].concat();
    stream.write_all(&frame).expect("the server takes a call");
    stream
}

/// The kind of the next frame, and the first byte of its content, which is an answer's status.
fn next(stream: &mut TcpStream) -> (u8, u8) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a frame comes");
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; len];
    stream.read_exact(&mut body).expect("all of it comes");
    (header[0], body.first().copied().unwrap_or(0))
}

/// A caller that sends more than the call before it was asked for is told so at once.
#[test]
fn what_was_not_asked_for_is_refused() {
    let calls = Calls::start(&[("open.luau", &script("anonymous = true"))]);
    let data = [&[2, 0, 0, 0, 4][..], b"body"].concat();
    for more in [&data[..], &[2]] {
        let mut caller = begin_with(&calls, "open", 12, more);
        assert_eq!(next(&mut caller), (0x83, BAD_CALL), "{more:?}");
    }
}

/// A client that may not call is not asked for a message.
#[test]
fn who_may_not_call_is_refused_at_once() {
    let calls = Calls::start(&[("closed.luau", &script(""))]);
    let mut stranger = begin(&calls, "closed", 1_000_000);
    assert_eq!(next(&mut stranger), (0x83, NOT_ALLOWED));
    calls.server.wait_log(0, "status=\"not-allowed\"");
}

/// A message is waited for as long as the procedure may take, whatever the caller's patience.
#[test]
fn a_message_that_does_not_come_is_not_waited_for() {
    let manifest = "anonymous = true\ndeadline = \"200ms\"\nconcurrency = 1";
    let calls = Calls::start(&[("open.luau", &script(manifest))]);
    let mut silent = begin(&calls, "open", 1_000_000);
    assert_eq!(next(&mut silent), (NEED_BODY, 0));
    assert_eq!(next(&mut silent), (0x83, TIMED_OUT));
    let log = calls.server.wait_log(0, "status=\"timed-out\"");
    assert!(log.contains("the message did not come"), "{log}");
}

/// All messages together have a bound, and strangers half of it.
#[test]
fn waiting_messages_have_a_bound() {
    let manifest = "anonymous = true\ndeadline = \"300s\"";
    let plan = plan(&[("open.luau", &script(manifest))]);
    // The SHA-256 of "secret".
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let tokens = format!("filter token:{hash}\n");
    std::fs::write(plan.folder().join("tokens"), tokens).unwrap();
    let config = "[procedures]\ntokens = \"tokens\"\nbodies = \"1MiB\"\n";
    let calls = Calls {
        server: plan.config(config).start(),
    };
    let mut first = begin(&calls, "open", 500_000);
    assert_eq!(next(&mut first), (NEED_BODY, 0));
    assert_eq!(
        next(&mut begin(&calls, "open", 100_000)),
        (0x83, OVERLOADED)
    );
    let log = calls.server.wait_log(0, "status=\"overloaded\"");
    assert!(log.contains("procedures.bodies"), "{log}");
    let token = calls.file("token", b"secret");
    let file = calls.file("m", &[&b"T: u\r\n\r\n"[..], &[b'x'; 400_000]].concat());
    let words = ["--token-file", word(&token), "--file", word(&file), "/open"];
    let known = calls.by_tcp(&words);
    assert_eq!((code(&known), &*known.stdout), (Some(0), "400008 bytes\n"));
    // What is over makes room.
    drop(first);
    stentor_tests::raw::eventually("there is room", || {
        next(&mut begin(&calls, "open", 500_000)) == (NEED_BODY, 0)
    });
}

/// Those in memory have an eighth of what the server may hold. The others lie in files, and are
/// judged all the same.
#[test]
fn waiting_messages_have_a_share_of_the_memory() {
    const CALLERS: usize = 20;
    const SIZE: usize = 1_000_000;
    const MIB: u64 = 1 << 20;
    let manifest = "anonymous = true\ndeadline = \"300s\"";
    let plan = plan(&[("open.luau", &script(manifest))]);
    let calls = Calls {
        server: plan.config("[limits]\nmemory = \"64MiB\"\n").start(),
    };
    let held = || {
        let status = calls.server.json(&["status"]);
        let held = status["memory"]["by_kind"]["procedures"].as_u64();
        held.expect("a number")
    };
    let mut callers: Vec<_> = (0..CALLERS)
        .map(|_| begin(&calls, "open", SIZE as u64))
        .collect();
    // All but the last bytes, in pieces, behind the eight of the header.
    let last = [b'x'; 100];
    for caller in &mut callers {
        assert_eq!(next(caller), (NEED_BODY, 0));
        let mut left = SIZE - 8 - last.len();
        while left > 0 {
            let piece = vec![b'x'; left.min(32 * 1024)];
            left -= piece.len();
            caller.write_all(&data(&piece)).expect("the server reads");
        }
    }
    stentor_tests::raw::eventually("messages fill their share", || held() > 7 * MIB);
    assert!(held() <= 8 * MIB, "{}", held());
    for caller in &mut callers {
        let end = [&data(&last)[..], &[END, 0, 0, 0, 0]].concat();
        caller.write_all(&end).expect("the server reads");
        assert_eq!(next(caller), (0x83, ACCEPTED));
        assert!(held() <= 8 * MIB, "{}", held());
    }
    stentor_tests::raw::eventually("nothing is held", || held() == 0);
}

/// A frame with a piece of a message.
fn data(piece: &[u8]) -> Vec<u8> {
    [&[2][..], &(piece.len() as u32).to_be_bytes(), piece].concat()
}
