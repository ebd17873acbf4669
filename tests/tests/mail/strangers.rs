//! What is no mail server, and mail servers other than Postfix: Sendmail's side of the protocol as
//! miltertest plays it, nonsense, and many at once.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;

use nix::sys::signal::Signal;
use stentor_tests::raw::eventually;
use stentor_tests::{DEADLINE, Plan, Server, process, tools};

use crate::script;

/// A server with one procedure on a milter and a policy port.
fn server(manifest: &str, body: &str) -> Server {
    server_with("", manifest, body)
}

/// The same, with more lines about procedures.
fn server_with(lines: &str, manifest: &str, body: &str) -> Server {
    let plan = Plan::new();
    let folder = plan.folder().join("procedures");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(folder.join("p.luau"), script(manifest, body)).expect("it can be written");
    let listener = |scheme: &str| {
        format!("[[listener]]\nurl = \"{scheme}://127.0.0.1:0\"\nprocedure = \"/p -way soft\"\n")
    };
    let config = format!(
        "[procedures]\nfolder = \"procedures\"\n{lines}{}{}",
        listener("milter"),
        listener("policy")
    );
    plan.config(&config).start()
}

/// Plays a script of miltertest against a server.
#[track_caller]
pub(crate) fn miltertest(server: &Server, body: &str) {
    let text = format!(
        "conn = mt.connect('inet:{}@127.0.0.1')\n\
         if conn == nil then error 'no connection' end\n\
         local function is(what, wanted)\n\
             if mt.getreply(conn) ~= wanted then\n\
                 error(what .. ' was answered by ' .. mt.getreply(conn))\n\
             end\n\
         end\n{body}\nmt.disconnect(conn)\n",
        server.port("milter")
    );
    let path = server.folder().join("test.lua");
    fs::write(&path, text).expect("it can be written");
    let mut command = Command::new(tools::find("miltertest"));
    process::run(command.arg("-s").arg(path)).success();
}

#[test]
fn miltertest_agrees() {
    let server = server(
        "needs = \"body\"",
        "if call.args.way ~= 'soft' then return reject('no arguments') end
        if call:header('subject') == 'bad' then return reject('bad', { code = 550 }) end
        call:add_header('X-Seen', call.from .. ' ' .. call.rcpt[1] .. ' ' .. tostring(call.user))
        call:append('more')
        return accept()",
    );
    miltertest(
        &server,
        "mt.conninfo(conn, 'client.test', '192.0.2.1')
        mt.macro(conn, SMFIC_MAIL, '{auth_authen}', 'bob', 'i', 'Q1')
        mt.mailfrom(conn, '<a@ext.test>', 'SIZE=100')
        mt.rcptto(conn, '<b@here.test>')
        mt.data(conn)
        mt.header(conn, 'Subject', ' fine')
        mt.eoh(conn)
        mt.bodystring(conn, 'text\\r\\n')
        mt.eom(conn)
        is('a good message', SMFIR_ACCEPT)
        if not mt.eom_check(conn, MT_HDRINSERT, 'X-Seen', ' a@ext.test b@here.test bob', 0) and
            not mt.eom_check(conn, MT_HDRINSERT, 'X-Seen', 'a@ext.test b@here.test bob', 0) then
            error 'no header'
        end
        if not mt.eom_check(conn, MT_BODYCHANGE, 'text\\r\\nmore') then error 'no body' end
        -- The same connection, one more message, given up; and another one.
        mt.mailfrom(conn, '<a@ext.test>')
        mt.rcptto(conn, '<b@here.test>')
        mt.abort(conn)
        mt.mailfrom(conn, '<>')
        mt.rcptto(conn, '<b@here.test>')
        mt.header(conn, 'Subject', ' bad')
        mt.eoh(conn)
        mt.eom(conn)
        is('a bad message', SMFIR_REPLYCODE)
        if not mt.eom_check(conn, MT_SMTPREPLY, '550', '5.7.1', 'bad') then
            error 'no reply'
        end",
    );
    server.wait_log(0, "queue_id=\"Q1\"");
    server.wait_log(0, "from=\"\"");
}

/// A procedure that needs the envelope answers before the message is sent.
#[test]
fn an_envelope_is_judged_before_the_message() {
    let server = server(
        "needs = \"envelope\"",
        "if call.size ~= 100 then return accept('no size') end
        return tempfail('not now', { code = 452 })",
    );
    miltertest(
        &server,
        "mt.conninfo(conn, 'client.test', '192.0.2.1')
        mt.mailfrom(conn, '<a@ext.test>', 'SIZE=100')
        mt.rcptto(conn, '<b@here.test>')
        mt.data(conn)
        is('the envelope', SMFIR_REPLYCODE)
        mt.abort(conn)
        mt.mailfrom(conn, '<a@ext.test>')
        mt.rcptto(conn, '<b@here.test>')
        mt.data(conn)
        is('another envelope', SMFIR_ACCEPT)",
    );
    server.wait_log(0, "not now");
}

/// Nonsense ends its own connection; the server goes on.
#[test]
fn strangers_are_turned_away() {
    let server = server("needs = \"envelope\"", "return reject('no ' .. call.from)");
    for (scheme, bytes) in [
        ("milter", &b"GET / HTTP/1.1\r\n\r\n"[..]),
        ("milter", b"\xFF\xFF\xFF\xFF"),
        ("milter", b"\0\0\0\0"),
        ("milter", b"\0\0\0\x01M"),
        ("milter", b"\0\0\0\x0dO\0\0\0\x01\0\0\0\0\0\0\0\0"),
        ("policy", b"GET / HTTP/1.1\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(server.address(scheme)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // It is closed; what was not read may make that a reset.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{scheme}: {bytes:?}");
    }
    // The operator sees why mail is deferred, or goes unfiltered.
    server.wait_log(
        0,
        "it breaks the protocol: the command 0x4d must not come now",
    );
    let ask = |stream: &mut TcpStream, sender: &str| {
        write!(stream, "request=smtpd_access_policy\nsender={sender}\n\n").unwrap();
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    };
    // Many at once, each with several requests.
    let mut all: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(server.address("policy")).unwrap())
        .collect();
    for round in 0..3 {
        for stream in &mut all {
            let sender = format!("s{round}");
            let answer = ask(stream, &sender);
            assert_eq!(answer, format!("action=554 5.7.1 no {sender}\n\n"));
        }
    }
}

/// Each policy request is answered, or ends its connection; one that does not end asks nobody.
#[test]
fn odd_requests_are_answered_or_end_their_connection() {
    let server = server(
        "needs = \"envelope\"",
        "local function shown(value) return '<' .. tostring(value) .. '>' end
        return reject(shown(call.from) .. shown(call.rcpt[1]) .. shown(call.user))",
    );
    let long = format!("sender={}\n\n", "x".repeat(70_000));
    let requests: [(&str, &[&str]); 11] = [
        // As Postfix asks about a client that has logged in, and about one that has not.
        (
            "request=smtpd_access_policy\nprotocol_state=RCPT\nsender=a@b\nrecipient=c@d\n\
             sasl_method=PLAIN\nsasl_username=bob@x\nsasl_sender=\nsize=0\n\n",
            &["<a@b><c@d><bob@x>"],
        ),
        (
            "request=smtpd_access_policy\nprotocol_state=RCPT\nsender=\nrecipient=c@d\n\
             sasl_method=\nsasl_username=\nsasl_sender=\nsize=0\n\n",
            &["<><c@d><nil>"],
        ),
        // Only the first equals sign parts name and value, as in the senders of mailing lists.
        (
            "sender=bounce-a=b.test@c\nrecipient==\n=x\n\n",
            &["<bounce-a=b.test@c><=><nil>"],
        ),
        // What is asked is known without the line that says so, and without any.
        ("sender=a@b\n\n", &["<a@b><nil><nil>"]),
        ("\n", &["<nil><nil><nil>"]),
        (
            "sender=1\n\nsender=2\n\nrecipient=3\n\n",
            &["<1><nil><nil>", "<2><nil><nil>", "<nil><3><nil>"],
        ),
        ("sender=1\n\nsender\n\n", &["<1><nil><nil>"]),
        ("sender=a@b\r\n\r\n", &[]),
        (long.as_str(), &[]),
        ("sender=a@b\nrecipient=c@d\nsize=", &[]),
        ("sender=last\n\n", &["<last><nil><nil>"]),
    ];
    for (request, texts) in requests {
        let mut stream = dial(&server, "policy");
        // The end of what is too long may find the connection closed.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        // What was not read makes the end a reset.
        let _ = stream.read_to_end(&mut answers);
        let reply = |text: &&str| format!("action=554 5.7.1 {text}\n\n");
        let expected: String = texts.iter().map(reply).collect();
        let answers = String::from_utf8_lossy(&answers);
        assert_eq!(answers, expected, "{}", &request[..request.len().min(99)]);
    }
    let log = server.wait_log(0, "from=\"last\"");
    let asked: usize = requests.iter().map(|(_, texts)| texts.len()).sum();
    assert_eq!(log.matches("procedure=\"p\"").count(), asked, "{log}");
    for reason in [
        "a line is not of the form name=value",
        "the request goes beyond its bound",
    ] {
        assert!(log.contains(reason), "{reason} is not in {log}");
    }
}

/// A procedure that needs the message has no verdict here, and what its manifest says holds.
#[test]
fn a_request_without_enough_gets_what_the_manifest_says() {
    for (on_error, says) in [
        ("accept", "DUNNO"),
        ("reject", "554 5.7.1 the message cannot be checked now"),
    ] {
        let manifest = format!("needs = \"body\"\non_error = \"{on_error}\"");
        let server = server(&manifest, "return reject('never asked')");
        let mut stream = dial(&server, "policy");
        stream.write_all(b"sender=a@b\nqueue_id=Q5\n\n").unwrap();
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert_eq!(answer, format!("action={says}\n\n"));
        let log = server.wait_log(0, "queue_id=\"Q5\"");
        assert!(log.contains("needs more of the message"), "{log}");
    }
}

#[test]
fn mistakes_are_refused_at_the_start() {
    for (listener, words) in [
        ("url = \"milter://127.0.0.1:0\"", "give `procedure`"),
        (
            "url = \"policy+unix:s\"\nprocedure = \"sizecheck\"",
            "/NAME -key value",
        ),
        (
            "url = \"policy+unix:s\"\nprocedure = \"/sizecheck -max\"",
            "-max has no value",
        ),
        (
            "url = \"mqtt://127.0.0.1:0\"\nprocedure = \"/noop\"",
            "`procedure` is for milter and policy listeners",
        ),
        (
            "url = \"milter+unix:s\"\nprocedure = \"/noop\"\nallow_uid = \"0\"",
            "call+unix",
        ),
    ] {
        let config = format!("[[listener]]\n{listener}\n");
        let refused = Plan::new().config(&config).refused();
        assert!(refused.stderr.contains(words), "{config}: {refused}");
    }
    // A procedure that is not there yet is a warning.
    let config = "[[listener]]\nurl = \"milter://127.0.0.1:0\"\nprocedure = \"/later\"\n";
    let server = Plan::new().config(config).start();
    server.wait_log(0, "there is no such procedure");
}

/// A frame of the milter protocol.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).expect("it is short");
    [&len.to_be_bytes()[..], bytes].concat()
}

fn dial(server: &Server, scheme: &str) -> TcpStream {
    let stream = TcpStream::connect(server.address(scheme)).expect("it is taken");
    stream
        .set_read_timeout(Some(DEADLINE))
        .expect("a time limit");
    stream
}

/// A connection on which a request was answered, and another one has begun with `rest`.
fn policy(server: &Server, rest: &str) -> TcpStream {
    let mut stream = dial(server, "policy");
    let request = format!("sender=x\n\n{rest}");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = [0; 256];
    let read = stream.read(&mut answer).expect("it is answered");
    assert!(answer[..read].ends_with(b" no x\n\n"));
    stream
}

/// Where a listener is full, who is idle makes room for others, and who is not stays.
#[test]
fn the_idle_make_room() {
    let server = server_with(
        "connections = 2\n",
        "needs = \"envelope\"",
        "return reject('no ' .. call.from)",
    );
    let [mut first, mut second] = [(); 2].map(|()| policy(&server, "sender=a@b\n"));
    let is_served = || {
        let mut stream = dial(&server, "policy");
        let mut answer = [0; 256];
        // It may be closed before it has said anything.
        let sent = stream.write_all(b"sender=new\n\n");
        let read = sent.and_then(|()| stream.read(&mut answer)).unwrap_or(0);
        answer[..read].ends_with(b" no new\n\n")
    };
    assert!(!is_served(), "both are in the middle of a request");
    let finish = |stream: &mut TcpStream| {
        stream.write_all(b"\n").unwrap();
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).unwrap();
        assert!(answer[..read].ends_with(b" no a@b\n\n"));
    };
    finish(&mut first);
    eventually("the first one makes room", is_served);
    assert_eq!(first.read(&mut [0; 16]).unwrap(), 0, "it is closed");
    finish(&mut second);
}

/// Sendmail says nothing of RSET, or of EHLO in the middle of a message: the next message begins
/// without a word about the one that was given up, of which nothing is left.
#[test]
fn the_next_message_ends_one_that_was_given_up() {
    let server = server(
        "needs = \"body\"",
        "return reject(call.from .. ' ' .. table.concat(call.rcpt, ' ') .. ' ' .. call:raw())",
    );
    let mut stream = TcpStream::connect(server.address("milter")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // Everything is to be answered.
    let greeting = frame(b"O\0\0\0\x06\0\0\0\xff\0\0\0\0");
    stream.write_all(&greeting).unwrap();
    stream.read_exact(&mut [0; 17]).unwrap();
    let (mail, rcpt) = (&b"M<a@b>\0"[..], &b"R<c@d>\0"[..]);
    for given_up in [
        &[mail][..],
        &[mail, rcpt],
        &[mail, b"Hagain.test\0"],
        &[mail, rcpt, b"LA\0b\0", b"N", b"Bold"],
    ] {
        let last = [&b"M<y@z>\0"[..], b"R<v@w>\0", b"LX\0y\0", b"N", b"Bnew"];
        for command in given_up.iter().chain(&last) {
            stream.write_all(&frame(command)).unwrap();
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *b"\0\0\0\x01c", "{}", command.escape_ascii());
        }
        stream.write_all(&frame(b"E")).unwrap();
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[5..read]);
        assert_eq!(answer, "554 5.7.1 y@z v@w X: y    new\0", "{given_up:?}");
    }
}

/// A stopping server ends a connection when the message on it is decided, and others at once.
#[test]
fn a_message_on_its_way_is_decided_at_the_end() {
    let mut server = server("needs = \"envelope\"", "return reject('no ' .. call.from)");
    let milter = || {
        let mut stream = dial(&server, "milter");
        // Everything is to be answered.
        let greeting = frame(b"O\0\0\0\x06\0\0\0\xff\0\0\0\0");
        stream.write_all(&greeting).unwrap();
        stream.read_exact(&mut [0; 17]).unwrap();
        stream
    };
    let idle = [milter(), policy(&server, "")];
    let (mut envelope, request) = (milter(), policy(&server, "sender=a@b\n"));
    for command in [&b"M<a@b>\0"[..], b"R<c@d>\0"] {
        envelope.write_all(&frame(command)).unwrap();
        envelope.read_exact(&mut [0; 5]).unwrap();
    }
    server.signal(Signal::SIGTERM);
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "it is closed");
    }
    for (mut stream, rest, says) in [
        (request, b"\n".to_vec(), "action=554 5.7.1 no a@b"),
        (envelope, frame(b"T"), "554 5.7.1 no a@b"),
    ] {
        stream.write_all(&rest).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(says), "{answer}");
    }
    assert!(server.ended().success());
}
