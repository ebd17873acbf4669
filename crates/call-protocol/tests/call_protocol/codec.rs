//! Every frame against its golden bytes, every bound, and that no bytes at all make the decoder
//! panic or read beyond a frame.

use proptest::prelude::*;
use stentor_call_protocol::limits::{
    ARGUMENTS_MAX, HEAD_BYTES_MAX, NAME_BYTES_MAX, PROCEDURE_BYTES_MAX, RESULT_BYTES_MAX,
    TEXT_BYTES_MAX, TOKEN_BYTES_MAX, VALUE_BYTES_MAX,
};
use stentor_call_protocol::{
    Answer, Argument, Arguments, Call, Edit, Format, HEADER_BYTES, Status, ToClient, ToServer,
    Transfer, Verdict, Violation, encode_data, encode_end, encode_need_body,
};

/// The vector of that name.
fn vector(name: &str) -> Vec<u8> {
    let line = include_str!("vectors.txt")
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))
        .expect("the vector is in the file");
    let digits: String = line.split_whitespace().skip(1).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn arguments<'a>(pairs: &'a [(&'a str, &'a str)], buffer: &'a mut Vec<u8>) -> Arguments<'a> {
    let arguments = pairs.iter().map(|(name, value)| Argument {
        name,
        value: value.as_bytes(),
    });
    Arguments::encode(arguments, buffer).expect("a valid frame")
}

fn call(procedure: &str) -> Call<'_> {
    Call {
        procedure,
        token: b"",
        deadline_ms: 5000,
        can_edit: false,
        transfer: Transfer::None,
        format: Format::Message,
        size: 0,
        arguments: Arguments::default(),
        head: b"",
    }
}

/// The frame has exactly these bytes, and these bytes are exactly the frame.
fn check_to_server(name: &str, frame: &ToServer<'_>) {
    let mut bytes = Vec::new();
    match frame {
        ToServer::Call(call) => call.encode(&mut bytes).expect("a valid frame"),
        ToServer::Data(piece) => encode_data(piece, &mut bytes).expect("a valid frame"),
        ToServer::End => encode_end(&mut bytes),
    }
    assert_eq!(bytes, vector(name), "{name}");
    let whole = Some((frame.clone(), bytes.len()));
    assert_eq!(ToServer::decode(&bytes), Ok(whole.clone()), "{name}");
    for short in 0..bytes.len() {
        assert_eq!(
            ToServer::decode(&bytes[..short]),
            Ok(None),
            "{name} at {short}"
        );
    }
    bytes.push(0x55);
    assert_eq!(ToServer::decode(&bytes), Ok(whole), "{name} and more");
}

fn check_to_client(name: &str, frame: &ToClient<'_>) {
    let mut bytes = Vec::new();
    match frame {
        ToClient::NeedBody => encode_need_body(&mut bytes),
        ToClient::Edit(edit) => edit.encode(&mut bytes).expect("a valid frame"),
        ToClient::Answer(answer) => answer.encode(&mut bytes).expect("a valid frame"),
    }
    assert_eq!(bytes, vector(name), "{name}");
    let whole = Some((frame.clone(), bytes.len()));
    assert_eq!(ToClient::decode(&bytes), Ok(whole), "{name}");
    for short in 0..bytes.len() {
        assert_eq!(
            ToClient::decode(&bytes[..short]),
            Ok(None),
            "{name} at {short}"
        );
    }
}

#[test]
fn frames_to_the_server_have_their_golden_bytes() {
    check_to_server("call-noop", &ToServer::Call(call("noop")));
    let mut buffer = Vec::new();
    let spool = Call {
        token: b"s3",
        deadline_ms: 1000,
        can_edit: true,
        transfer: Transfer::Descriptor,
        format: Format::XmailSpool,
        size: 86,
        arguments: arguments(
            &[("max", "10"), ("rcpt", "a@b"), ("rcpt", "c@d")],
            &mut buffer,
        ),
        ..call("sizecheck")
    };
    check_to_server("call-spool", &ToServer::Call(spool));
    let on_demand = Call {
        deadline_ms: 1,
        transfer: Transfer::OnDemand,
        size: 9,
        head: b"a: b",
        ..call("echo")
    };
    check_to_server("call-on-demand", &ToServer::Call(on_demand));
    check_to_server("data", &ToServer::Data(b"abc"));
    check_to_server("end", &ToServer::End);
}

#[test]
fn frames_to_the_client_have_their_golden_bytes() {
    check_to_client("need-body", &ToClient::NeedBody);
    let edit = Edit {
        offset: 7,
        deleted: 2,
        inserted: b"X: y\r\n",
    };
    check_to_client("edit", &ToClient::Edit(edit));
    let reject = Answer {
        verdict: Some(Verdict::Reject),
        reply_code: 550,
        enhanced: "5.7.1",
        version: "1.2",
        ..Answer::of(Status::Done, "no")
    };
    check_to_client("answer-reject", &ToClient::Answer(reject));
    let missing = Answer::of(Status::NotFound, "no");
    check_to_client("answer-missing", &ToClient::Answer(missing));
    let modified = Answer {
        verdict: Some(Verdict::Modified),
        edits: 1,
        result: b"r",
        ..Answer::of(Status::Done, "")
    };
    check_to_client("answer-modified", &ToClient::Answer(modified));
}

#[test]
fn arguments_keep_their_order_and_may_repeat() {
    let bytes = vector("call-spool");
    let Ok(Some((ToServer::Call(call), _))) = ToServer::decode(&bytes) else {
        panic!("the vector is a call");
    };
    let pairs: Vec<_> = call.arguments.iter().map(|a| (a.name, a.value)).collect();
    let expected: [(&str, &[u8]); 3] = [("max", b"10"), ("rcpt", b"a@b"), ("rcpt", b"c@d")];
    assert_eq!(pairs, expected);
    assert_eq!(
        (call.arguments.len(), call.arguments.is_empty()),
        (3, false)
    );
}

/// Changes one byte of a vector.
fn changed(name: &str, at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = vector(name);
    bytes[at] = byte;
    bytes
}

#[test]
fn impossible_calls_are_refused() {
    let at = |offset: usize| HEADER_BYTES + offset;
    for (bytes, violation) in [
        (changed("call-noop", 0, 0x47), Violation::UnknownFrame(0x47)),
        (changed("call-noop", 0, 0x81), Violation::UnknownFrame(0x81)),
        (changed("call-noop", 1, 1), Violation::TooLong("frame")),
        (changed("end", 4, 1), Violation::TooLong("frame")),
        (changed("call-noop", at(0), b'X'), Violation::Magic),
        (changed("call-noop", at(4), 2), Violation::Version(2)),
        (changed("call-noop", at(5), 2), Violation::Value("flags")),
        (changed("call-noop", at(6), 3), Violation::Value("transfer")),
        (changed("call-noop", at(7), 2), Violation::Value("format")),
        (
            changed("call-noop", at(9), 0x40),
            Violation::Value("deadline"),
        ),
        // A size without a file, and a beginning that is longer than the file.
        (changed("call-noop", at(19), 1), Violation::Size),
        (changed("call-on-demand", at(19), 3), Violation::Size),
        (changed("call-noop", at(21), b'/'), Violation::Value("name")),
        (
            changed("call-noop", at(20), 65),
            Violation::TooLong("procedure's name"),
        ),
        (changed("call-noop", at(20), 64), Violation::Length),
        (
            changed("call-noop", at(25), 0xFF),
            Violation::TooLong("token"),
        ),
        (
            changed("call-noop", at(27), 0xFF),
            Violation::TooLong("list of arguments"),
        ),
        // One argument is announced and none is there; the head's length is read as its name.
        (changed("call-noop", at(28), 1), Violation::Value("name")),
        (
            changed("call-noop", at(29), 1),
            Violation::TooLong("beginning of the file"),
        ),
        (changed("call-noop", at(32), 1), Violation::Length),
    ] {
        assert_eq!(ToServer::decode(&bytes), Err(violation), "{bytes:02x?}");
    }
    let mut zero = vector("call-noop");
    zero[at(8)..at(12)].fill(0);
    assert_eq!(ToServer::decode(&zero), Err(Violation::Value("deadline")));
    let mut longer = vector("call-noop");
    longer[4] += 1;
    longer.push(0);
    assert_eq!(ToServer::decode(&longer), Err(Violation::Length));
}

#[test]
fn impossible_answers_are_refused() {
    const BODY: usize = HEADER_BYTES;
    let value = Violation::Value;
    for (name, offset, byte, violation) in [
        ("need-body", 0, 1, Violation::UnknownFrame(1)),
        ("answer-reject", BODY, 8, value("status")),
        ("answer-reject", BODY + 1, 6, value("verdict")),
        // Done, and yet no verdict.
        ("answer-reject", BODY + 1, 0xFF, value("verdict")),
        // Modified without an edit, and edits of something that is not modified.
        ("answer-reject", BODY + 1, 1, value("number of edits")),
        ("answer-modified", BODY + 1, 0, value("number of edits")),
        ("answer-modified", BODY + 8, 1, value("number of edits")),
        ("answer-reject", BODY + 2, 0, value("reply code")),
        ("answer-reject", BODY + 5, b'x', value("status code")),
        // A line end in a text would begin a new line of an SMTP reply.
        ("answer-reject", BODY + 12, b'\n', value("text")),
        ("answer-reject", BODY + 12, 0xFF, value("text")),
        ("answer-reject", BODY + 15, 0x0D, value("version")),
    ] {
        let bytes = changed(name, offset, byte);
        assert_eq!(ToClient::decode(&bytes), Err(violation), "{bytes:02x?}");
    }
    // The end of an edit beyond all numbers.
    let mut edit = vector("edit");
    edit[BODY..BODY + 16].fill(0xFF);
    assert_eq!(ToClient::decode(&edit), Err(Violation::Value("edit")));
}

#[test]
fn bounds_hold_for_what_is_encoded() {
    let mut out = vec![1, 2, 3];
    let long_name = "n".repeat(PROCEDURE_BYTES_MAX + 1);
    assert!(call(&long_name).encode(&mut out).is_err());
    assert!(call("").encode(&mut out).is_err());
    let token = vec![b't'; TOKEN_BYTES_MAX + 1];
    let wrong = Call {
        token: &token,
        ..call("noop")
    };
    assert_eq!(wrong.encode(&mut out), Err(Violation::TooLong("token")));
    let head = vec![b'h'; HEAD_BYTES_MAX + 1];
    let wrong = Call {
        transfer: Transfer::OnDemand,
        size: head.len() as u64,
        head: &head,
        ..call("noop")
    };
    assert!(wrong.encode(&mut out).is_err());
    let text = "t".repeat(TEXT_BYTES_MAX + 1);
    assert!(Answer::of(Status::Failed, &text).encode(&mut out).is_err());
    assert!(
        Answer::of(Status::Failed, "a\r\nb")
            .encode(&mut out)
            .is_err()
    );
    let result = vec![0; RESULT_BYTES_MAX + 1];
    let wrong = Answer {
        result: &result,
        ..Answer::of(Status::Failed, "")
    };
    assert!(wrong.encode(&mut out).is_err());
    assert!(encode_data(&[0; 65_537], &mut out).is_err());
    // What cannot be encoded leaves nothing behind.
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn arguments_are_bounded() {
    let mut buffer = Vec::new();
    let name = "n".repeat(NAME_BYTES_MAX + 1);
    let value = vec![b'v'; VALUE_BYTES_MAX];
    let one = |name, value| [Argument { name, value }];
    assert!(Arguments::encode(one(&name, b""), &mut buffer).is_err());
    assert!(Arguments::encode(one("", b""), &mut buffer).is_err());
    assert!(Arguments::encode(one("a=b", b""), &mut buffer).is_err());
    assert!(Arguments::encode(one("a", &[0; VALUE_BYTES_MAX + 1]), &mut buffer).is_err());
    let many = |count| core::iter::repeat_n(one("a", b""), count).flatten();
    assert!(Arguments::encode(many(ARGUMENTS_MAX), &mut buffer).is_ok());
    assert!(Arguments::encode(many(ARGUMENTS_MAX + 1), &mut buffer).is_err());
    let large = core::iter::repeat_n(one("a", &value), 13).flatten();
    assert!(Arguments::encode(large, &mut buffer).is_err());
}

/// The largest call that is allowed is one frame.
#[test]
fn the_largest_call_fits() {
    let (procedure, head) = ("p".repeat(PROCEDURE_BYTES_MAX), vec![b'h'; HEAD_BYTES_MAX]);
    let (token, value) = (vec![b't'; TOKEN_BYTES_MAX], vec![b'v'; VALUE_BYTES_MAX]);
    let argument = Argument {
        name: "a",
        value: &value,
    };
    let mut buffer = Vec::new();
    let largest = Call {
        token: &token,
        transfer: Transfer::OnDemand,
        size: u64::MAX,
        arguments: Arguments::encode([argument; 11], &mut buffer).unwrap(),
        head: &head,
        ..call(&procedure)
    };
    let mut bytes = Vec::new();
    largest.encode(&mut bytes).unwrap();
    let decoded = ToServer::decode(&bytes).unwrap().unwrap();
    assert_eq!(decoded, (ToServer::Call(largest), bytes.len()));
}

#[test]
fn names_are_those_of_the_numbers() {
    for (number, status) in Status::ALL.iter().enumerate() {
        assert_eq!(usize::from(status.number()), number);
        assert_eq!(Status::from_name(status.name()), Some(*status));
    }
    for (number, verdict) in Verdict::ALL.iter().enumerate() {
        assert_eq!(usize::from(verdict.number()), number);
        assert_eq!(Verdict::from_name(verdict.name()), Some(*verdict));
    }
    assert_eq!(Verdict::from_name("Accept"), None);
}

proptest! {
    /// Whatever comes, decoding ends without a panic and takes what it says.
    #[test]
    fn noise_is_refused_or_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(Some((_, taken))) = ToServer::decode(&bytes) {
            prop_assert!(taken <= bytes.len());
        }
        if let Ok(Some((_, taken))) = ToClient::decode(&bytes) {
            prop_assert!(taken <= bytes.len());
        }
    }

    /// One wrong byte anywhere in a call gives another valid call or a refusal, and a valid one
    /// encodes to the same bytes again.
    #[test]
    fn what_is_decoded_encodes_to_the_same(at in 5_usize..80, byte in any::<u8>()) {
        let mut bytes = vector("call-spool");
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        if let Ok(Some((ToServer::Call(call), taken))) = ToServer::decode(&bytes) {
            let mut again = Vec::new();
            call.encode(&mut again).unwrap();
            prop_assert_eq!(&again, &bytes[..taken]);
        }
    }
}
