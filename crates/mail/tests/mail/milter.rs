//! The milter protocol, byte by byte: what is decoded, in which order, and what is sent.

use proptest::prelude::*;
use stentor_mail::milter::{
    COMMAND_BYTES_MAX, Command, Event, Reply, Session, actions, body_start, changes, steps,
};
use stentor_mail::{NAME_BYTES_MAX, RECIPIENTS_BYTES_MAX, Violation};

/// A command as it stands on the wire.
fn packet(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 1).expect("a length that fits");
    [&length.to_be_bytes()[..], &[kind], content].concat()
}

fn numbers(version: u32, actions: u32, steps: u32) -> Vec<u8> {
    [version, actions, steps].map(u32::to_be_bytes).concat()
}

fn decoded(bytes: &[u8]) -> Result<Command<'_>, Violation> {
    let (command, taken) = Command::decode(bytes)?.expect("a whole command");
    assert_eq!(taken, bytes.len());
    Ok(command)
}

#[test]
fn commands_are_read() {
    for (kind, content, shown) in [
        (b'C', &b"a.test\x004\x00\x19192.0.2.1\x00"[..], "192.0.2.1"),
        (
            b'C',
            b"a.test\x006\x00\x19IPv6:2001:db8::1\x00",
            "2001:db8::1",
        ),
        (b'C', b"localhost\x00L\x00\x00/tmp/s\x00", "/tmp/s"),
        (b'C', b"unknown\x00U", ""),
    ] {
        let bytes = packet(kind, content);
        let Command::Connect { address, .. } = decoded(&bytes).unwrap() else {
            panic!("{shown}: no connect");
        };
        assert_eq!(address, shown.as_bytes());
    }
    let bytes = packet(b'L', b"Subject\0 a\n b\0");
    let header = Command::Header {
        name: b"Subject",
        value: b" a\n b",
    };
    assert_eq!(decoded(&bytes), Ok(header));
    let bytes = packet(b'M', b"<a@b>\0SIZE=7\0");
    let Ok(Command::Mail(words)) = decoded(&bytes) else {
        panic!("no MAIL");
    };
    assert_eq!(words.collect::<Vec<_>>(), [&b"<a@b>"[..], b"SIZE=7"]);
    for (kind, command) in [
        (b'T', Command::Data),
        (b'N', Command::EndOfHeaders),
        (b'A', Command::Abort),
        (b'Q', Command::Quit),
        (b'K', Command::Next),
        (b'E', Command::End(b"")),
        (b'B', Command::Body(b"")),
    ] {
        let bytes = packet(kind, b"");
        assert_eq!(decoded(&bytes), Ok(command));
    }
}

#[test]
fn broken_commands_are_refused() {
    for (bytes, violation) in [
        (packet(b'?', b""), Violation::Unknown(b'?')),
        (packet(b'O', b"\0\0\0\x06"), Violation::Length),
        (packet(b'C', b"no end"), Violation::Length),
        (packet(b'C', b"host\x004\0"), Violation::Length),
        (packet(b'L', b"name\0no end"), Violation::Length),
        (packet(b'H', b"no end"), Violation::Length),
        (packet(b'D', b""), Violation::Length),
        (vec![0, 0, 0, 0], Violation::Length),
        (vec![0xFF; 4], Violation::TooLong("command")),
    ] {
        assert_eq!(decoded(&bytes), Err(violation), "{bytes:?}");
    }
    let limit = u32::try_from(COMMAND_BYTES_MAX).unwrap();
    assert_eq!(Command::decode(&limit.to_be_bytes()), Ok(None));
    let beyond = (limit + 1).to_be_bytes();
    assert_eq!(Command::decode(&beyond), Err(Violation::TooLong("command")));
    let whole = packet(b'H', b"name\0");
    for end in 0..whole.len() {
        assert_eq!(Command::decode(&whole[..end]), Ok(None), "{end}");
    }
}

#[test]
fn replies_are_written() {
    for (reply, kind, content) in [
        (Reply::Continue, b'c', &b""[..]),
        (Reply::Accept, b'a', b""),
        (Reply::Reject, b'r', b""),
        (Reply::Tempfail, b't', b""),
        (Reply::Discard, b'd', b""),
        (
            Reply::Say("550 5.7.1 100% no"),
            b'y',
            b"550 5.7.1 100%% no\0",
        ),
        (Reply::Quarantine("why\0not"), b'q', b"why\0"),
        (
            Reply::Add {
                name: b"X",
                value: b" y",
            },
            b'h',
            b"X\0 y\0",
        ),
        (
            Reply::Insert {
                index: 1,
                name: b"X",
                value: b"y",
            },
            b'i',
            b"\0\0\0\x01X\0y\0",
        ),
        (
            Reply::Remove {
                index: 2,
                name: b"X",
            },
            b'm',
            b"\0\0\0\x02X\0\0",
        ),
        (Reply::Body(b"a\0b"), b'b', b"a\0b"),
    ] {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        assert_eq!(bytes, packet(kind, content), "{reply:?}");
    }
}

/// A session that has negotiated, with all that a newer mail server offers.
fn session(offered: u32) -> Session {
    let mut session = Session::new();
    let bytes = packet(b'O', &numbers(6, 0x1FF, offered));
    let command = decoded(&bytes).expect("a good command");
    session.receive(&command).expect("an agreement");
    session
}

#[test]
fn both_sides_agree() {
    let mut new = Session::new();
    let bytes = packet(b'O', &numbers(6, 0x1FF, 0x1F_FFFF));
    let Ok(Event::Answer(Reply::Negotiate {
        version,
        actions: a,
        steps: s,
    })) = new.receive(&decoded(&bytes).unwrap())
    else {
        panic!("no agreement");
    };
    assert_eq!((version, a), (6, actions::EDIT | actions::QUARANTINE));
    assert!(s & steps::SILENT_BODY != 0 && s & steps::NO_DATA == 0);
    assert!(new.can_edit() && new.can_quarantine() && new.has_space());
    // An old one, which offers less.
    let mut old = Session::new();
    let bytes = packet(b'O', &numbers(2, 0x3F, 0x7F));
    let agreed = old.receive(&decoded(&bytes).unwrap()).unwrap();
    let expected = Reply::Negotiate {
        version: 2,
        actions: actions::EDIT | actions::QUARANTINE,
        steps: 0,
    };
    assert_eq!(agreed, Event::Answer(expected));
    let ancient = packet(b'O', &numbers(1, 0, 0));
    let refused = Session::new().receive(&decoded(&ancient).unwrap());
    assert_eq!(refused, Err(Violation::Version(1)));
}

/// All commands of a message; what each comes to.
#[test]
fn a_message_goes_from_stage_to_stage() {
    let mut session = session(0x1F_FFFF);
    let begins = |bytes: Vec<u8>, session: &mut Session| {
        let event = session.receive(&decoded(&bytes).unwrap()).unwrap();
        assert_eq!(event, Event::Reset(false), "{bytes:?}");
    };
    let nothing = |bytes: Vec<u8>, session: &mut Session| {
        let event = session.receive(&decoded(&bytes).unwrap()).unwrap();
        assert_eq!(event, Event::Nothing, "{bytes:?}");
    };
    nothing(
        packet(b'C', b"a.test\x004\x00\x19192.0.2.1\0"),
        &mut session,
    );
    begins(packet(b'H', b"a.test\0"), &mut session);
    nothing(packet(b'D', b"M{auth_authen}\0bob\0i\0Q1\0"), &mut session);
    begins(
        packet(b'M', b"<a@ext.test>\0BODY=7BIT\0size=100\0"),
        &mut session,
    );
    nothing(packet(b'R', b"<b@here.test>\0"), &mut session);
    nothing(packet(b'R', b"<c@here.test>\0"), &mut session);
    assert_eq!(session.receive(&Command::Data), Ok(Event::Envelope));
    nothing(packet(b'L', b"Subject\0 a\n b\0"), &mut session);
    nothing(packet(b'L', b"To\0 b\r\n c\0"), &mut session);
    nothing(packet(b'N', b""), &mut session);
    let body = session.receive(&Command::Body(b"x")).unwrap();
    assert_eq!(body, Event::Body(b"x", false));
    assert_eq!(session.receive(&Command::End(b"y")), Ok(Event::End(b"y")));
    let message = session.transaction();
    assert_eq!(message.sender.as_deref(), Some("a@ext.test"));
    assert_eq!(message.recipients, ["b@here.test", "c@here.test"]);
    assert_eq!(message.announced, Some(100));
    assert_eq!(message.queue_id.as_deref(), Some("Q1"));
    assert_eq!(message.user.as_deref(), Some("bob"));
    assert_eq!(message.headers, b"Subject: a\r\n b\r\nTo: b\r\n c\r\n");
    assert_eq!(session.client(), Some("192.0.2.1"));
    assert_eq!(session.helo(), Some("a.test"));
    session.settle();
    assert_eq!(session.transaction().sender, None);
    // The client stays for its next message, and goes with the next client.
    assert_eq!(session.client(), Some("192.0.2.1"));
    assert_eq!(session.receive(&Command::Next), Ok(Event::Reset(false)));
    assert_eq!((session.client(), session.helo()), (None, None));
    assert_eq!(session.receive(&Command::Quit), Ok(Event::Over));
}

/// A client that wants a reply to everything gets one.
#[test]
fn older_servers_get_their_replies() {
    let mut session = session(0);
    assert!(!session.has_space());
    for bytes in [
        packet(b'C', b"unknown\x00U"),
        packet(b'H', b"a\0"),
        packet(b'M', b"<>\0"),
        packet(b'R', b"<b@c>\0"),
        packet(b'L', b"A\0b\0"),
        packet(b'N', b""),
    ] {
        let event = session.receive(&decoded(&bytes).unwrap()).unwrap();
        let begins = matches!(bytes[4], b'H' | b'M');
        let continued = if begins {
            Event::Reset(true)
        } else {
            Event::Answer(Reply::Continue)
        };
        assert_eq!(event, continued, "{bytes:?}");
    }
    assert_eq!(session.transaction().headers, b"A: b\r\n");
    let body = session.receive(&Command::Body(b"x")).unwrap();
    assert_eq!(body, Event::Body(b"x", true));
}

#[test]
fn what_must_not_come_now_is_refused() {
    let mail = packet(b'M', b"<a@b>\0");
    let mut new = Session::new();
    let early = new.receive(&decoded(&mail).unwrap());
    assert_eq!(early, Err(Violation::Unexpected(b'M')));
    for command in [
        Command::Header {
            name: b"A",
            value: b"b",
        },
        Command::EndOfHeaders,
        Command::Body(b""),
        Command::End(b""),
    ] {
        let refused = session(0).receive(&command);
        assert_eq!(refused, Err(Violation::Unexpected(command.byte())));
    }
    let rcpt = packet(b'R', b"<a@b>\0");
    let refused = session(0).receive(&decoded(&rcpt).unwrap());
    assert_eq!(refused, Err(Violation::Unexpected(b'R')));
    let mut twice = session(0);
    twice.receive(&decoded(&mail).unwrap()).unwrap();
    let again = packet(b'O', &numbers(6, 0, 0));
    let refused = twice.receive(&decoded(&again).unwrap());
    assert_eq!(refused, Err(Violation::Unexpected(b'O')));
    // A message that was settled is over.
    twice.settle();
    assert_eq!(
        twice.receive(&Command::End(b"")),
        Err(Violation::Unexpected(b'E'))
    );
}

/// Sendmail says nothing of RSET, or of EHLO in the middle of a message: the next message begins
/// where the last one stopped, and nothing is left of that.
#[test]
fn a_message_that_begins_ends_the_one_before() {
    let old = packet(b'M', b"<old@a.test>\0SIZE=7\0");
    let (name, rcpt) = (packet(b'D', b"Mi\0OLD\0"), packet(b'R', b"<old@b.test>\0"));
    let (header, body) = (packet(b'L', b"Old\0 1\0"), packet(b'B', b"x"));
    let (headers_end, helo) = (packet(b'N', b""), packet(b'H', b"c.test\0"));
    for between in [
        vec![],
        vec![&rcpt],
        vec![&helo],
        vec![&rcpt, &helo],
        vec![&rcpt, &header],
        vec![&rcpt, &header, &headers_end, &body],
    ] {
        for new_name in [None, Some(packet(b'D', b"Mi\0NEW\0"))] {
            let mut session = session(0x1F_FFFF);
            let mut take = |bytes: &[u8]| {
                let command = decoded(bytes).unwrap();
                session.receive(&command).unwrap() == Event::Reset(false)
            };
            take(&name);
            for bytes in [&old].into_iter().chain(between.iter().copied()) {
                take(bytes);
            }
            let said = new_name.as_ref().map(|bytes| take(bytes));
            let is_on_its_way = !between.contains(&&helo);
            assert!(said.is_none_or(|said| said == is_on_its_way));
            assert!(take(&packet(b'M', b"<new@a.test>\0")));
            take(&packet(b'R', b"<new@b.test>\0"));
            let message = session.transaction();
            assert_eq!(message.sender.as_deref(), Some("new@a.test"), "{between:?}");
            assert_eq!(message.recipients, ["new@b.test"]);
            assert_eq!((message.announced, &message.headers[..]), (None, &b""[..]));
            let name = new_name.as_ref().map(|_| "NEW");
            assert_eq!(message.queue_id.as_deref(), name);
            assert_eq!(session.receive(&Command::Data), Ok(Event::Envelope));
        }
    }
}

#[test]
fn nothing_grows_without_bound() {
    let mut many = session(0);
    let mail = packet(b'M', b"<a@b>\0");
    many.receive(&decoded(&mail).unwrap()).unwrap();
    let rcpt = packet(b'R', b"<a@b>\0");
    let rcpt = decoded(&rcpt).unwrap();
    for _ in 0..stentor_mail::RECIPIENTS_MAX {
        many.receive(&rcpt).unwrap();
    }
    assert_eq!(
        many.receive(&rcpt),
        Err(Violation::TooLong("list of recipients"))
    );
    // Few and long ones.
    let name = vec![b'x'; NAME_BYTES_MAX];
    let rcpt = packet(b'R', &[b"<", &name[..], b">\0"].concat());
    let rcpt = decoded(&rcpt).unwrap();
    let mut long = session(0);
    long.receive(&decoded(&mail).unwrap()).unwrap();
    let refused = (0..stentor_mail::RECIPIENTS_MAX).find_map(|_| long.receive(&rcpt).err());
    assert_eq!(refused, Some(Violation::TooLong("list of recipients")));
    let total: usize = long.transaction().recipients.iter().map(String::len).sum();
    assert_eq!(total, RECIPIENTS_BYTES_MAX);
    // The next message has all of it again.
    long.receive(&decoded(&mail).unwrap()).unwrap();
    assert_eq!(long.receive(&rcpt), Ok(Event::Answer(Reply::Continue)));
    for (kind, start, what) in [
        (b'M', &b"<"[..], "address"),
        (b'R', b"<", "address"),
        (b'H', b"", "client's name"),
        (b'C', b"h\x004\0\x19", "client's address"),
        (b'D', b"Mi\0", "macro"),
        (b'D', b"M{auth_authen}\0", "macro"),
        (b'D', b"C{client_addr}\0", "macro"),
    ] {
        let mut session = session(0);
        if kind == b'R' {
            session.receive(&decoded(&mail).unwrap()).unwrap();
        }
        let bytes = packet(kind, &[start, &name[..], b"x\0"].concat());
        let refused = session.receive(&decoded(&bytes).unwrap());
        assert_eq!(refused, Err(Violation::TooLong(what)), "{start:?}");
    }
    let value = vec![b'x'; 100_000];
    let header = Command::Header {
        name: b"A",
        value: &value,
    };
    let refused = (0..11).find_map(|_| many.receive(&header).err());
    assert_eq!(refused, Some(Violation::TooLong("list of headers")));
}

/// The replies that turn one message into another.
#[test]
fn changes_are_the_difference() {
    const OLD: &[u8] = b"A: 1\r\nB: 2\r\nA: 3\r\n 4\r\n\r\nbody\r\n";
    let encoded = |replies: &[Reply<'_>]| {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| reply.encode(&mut bytes));
        bytes
    };
    let insert =
        |index, name: &'static [u8], value: &'static [u8]| Reply::Insert { index, name, value };
    let remove = |index, name: &'static [u8]| Reply::Remove { index, name };
    for (new, replies) in [
        (&b"A: 1\r\nB: 2\r\nA: 3\r\n 4\r\n\r\nbody\r\n"[..], vec![]),
        (
            b"X: y\r\nA: 1\r\nB: 2\r\nA: 3\r\n 4\r\n\r\nbody\r\n",
            vec![insert(0, b"X", b" y")],
        ),
        (
            b"A: 1\r\nA: 3\r\n 4\r\nX: y\r\n z\r\nY: z\r\n\r\nbody\r\n",
            vec![
                remove(1, b"B"),
                Reply::Add {
                    name: b"X",
                    value: b" y\n z",
                },
                Reply::Add {
                    name: b"Y",
                    value: b" z",
                },
            ],
        ),
        (
            b"B: 2\r\n\r\nbody\r\nmore\r\n",
            vec![
                remove(2, b"A"),
                remove(1, b"A"),
                Reply::Body(b"body\r\nmore\r\n"),
            ],
        ),
        (
            b"A: 1\r\nB: 5\r\nA: 3\r\n 4\r\n\r\n",
            vec![remove(1, b"B"), insert(1, b"B", b" 5"), Reply::Body(b"")],
        ),
        (
            b"X: y",
            vec![
                remove(2, b"A"),
                remove(1, b"B"),
                remove(1, b"A"),
                insert(0, b"X", b" y"),
                Reply::Body(b""),
            ],
        ),
    ] {
        let shown = String::from_utf8_lossy(new);
        assert_eq!(changes(OLD, new, true), encoded(&replies), "{shown}");
    }
    // A server that adds the space itself.
    let bytes = changes(b"\r\n", b"X: y\r\n\r\n", false);
    assert_eq!(bytes, encoded(&[insert(0, b"X", b"y")]));
    let large = [b"\r\n".as_slice(), &[b'x'; 100_000]].concat();
    let bytes = changes(b"\r\n", &large, true);
    let pieces = [
        Reply::Body(&large[2..65_537]),
        Reply::Body(&large[65_537..]),
    ];
    assert_eq!(bytes, encoded(&pieces));
    assert_eq!(body_start(b"A: b\n\nbody"), 6);
    assert_eq!(body_start(b"A: b\r\n"), 6);
}

/// Each of these took minutes.
#[test]
fn time_grows_with_the_size_alone() {
    let many = 100_000;
    let spam = "X-Spam-A: 1\r\n".repeat(many);
    let kept: String = (0..many).map(|n| format!("K{}: {n}\r\n", n % 7)).collect();
    let start = std::time::Instant::now();
    let removed = changes(
        format!("{spam}{kept}\r\n").as_bytes(),
        format!("{kept}\r\n").as_bytes(),
        true,
    );
    let mut expected = Vec::new();
    for index in (1..=100_000).rev() {
        let name = b"X-Spam-A";
        Reply::Remove { index, name }.encode(&mut expected);
    }
    assert_eq!(removed, expected);
    let turned = changes(
        format!("{kept}{spam}\r\n").as_bytes(),
        format!("{spam}{kept}\r\n").as_bytes(),
        true,
    );
    assert!(!turned.is_empty());
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

proptest! {
    /// Whatever comes, in pieces of any size: no panic, and no command longer than the input.
    #[test]
    fn any_bytes_are_survived(mut input: Vec<u8>) {
        input.splice(0..0, packet(b'O', &numbers(6, 0x1FF, 0x1F_FFFF)));
        let mut session = Session::new();
        let mut rest = &input[..];
        while let Ok(Some((command, taken))) = Command::decode(rest) {
            prop_assert!(taken <= rest.len());
            if session.receive(&command).is_err() {
                break;
            }
            rest = &rest[taken..];
        }
    }

    /// Any two messages have a difference.
    #[test]
    fn any_messages_are_compared(old: Vec<u8>, new: Vec<u8>) {
        let bytes = changes(&old, &new, true);
        if old == new {
            prop_assert_eq!(bytes, vec![]);
        }
    }
}
