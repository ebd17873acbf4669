//! Frames: the examples of RFC 6455, bad frames by table, and properties.

use crate::support::{Owned, feed};
use hex_literal::hex;
use proptest::prelude::*;
use stentor_websocket::{
    CONTROL_BYTES_MAX, CloseCode, Decoder, FrameError, Opcode, Role, apply_mask, encode_close,
    encode_ping, encode_pong, frame_header,
};

const LIMIT: u64 = 70_000;

fn server() -> Decoder {
    Decoder::new(Role::Server, LIMIT)
}

fn client() -> Decoder {
    Decoder::new(Role::Client, LIMIT)
}

/// Decodes a stream in these pieces.
fn decode<'p>(
    mut decoder: Decoder,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<Owned>, Result<(), FrameError>) {
    let mut events = Vec::new();
    let outcome = pieces
        .into_iter()
        .try_for_each(|piece| feed(&mut decoder, piece, &mut events));
    (events, outcome)
}

/// Decodes at once, byte by byte, and cut in two at every place; all must agree.
fn check(role: Role, stream: &[u8], events: &[Owned], outcome: Result<(), FrameError>) {
    let decoder = || Decoder::new(role, LIMIT);
    let expected = (events.to_vec(), outcome);
    assert_eq!(
        decode(decoder(), [stream]),
        expected,
        "at once: {stream:02x?}"
    );
    assert_eq!(
        decode(decoder(), stream.chunks(1)),
        expected,
        "by bytes: {stream:02x?}"
    );
    for at in 0..stream.len().min(300) {
        let (one, two) = stream.split_at(at);
        assert_eq!(
            decode(decoder(), [one, two]),
            expected,
            "cut at {at}: {stream:02x?}"
        );
    }
}

/// RFC 6455, 5.7, except that its messages are text where data is meant.
#[test]
fn examples_of_the_specification() {
    let hello = || Owned::Data(b"Hello".to_vec());
    check(Role::Client, &hex!("82 05 48656c6c6f"), &[hello()], Ok(()));
    check(
        Role::Server,
        &hex!("82 85 37fa213d 7f9f4d5158"),
        &[hello()],
        Ok(()),
    );
    check(
        Role::Client,
        &hex!("02 03 48656c 80 02 6c6f"),
        &[hello()],
        Ok(()),
    );
    check(
        Role::Client,
        &hex!("89 05 48656c6c6f"),
        &[Owned::Ping(b"Hello".to_vec())],
        Ok(()),
    );
    let pong = [Owned::Pong(b"Hello".to_vec())];
    check(
        Role::Server,
        &hex!("8a 85 37fa213d 7f9f4d5158"),
        &pong,
        Ok(()),
    );
    for (header, len) in [
        (&hex!("82 7e 0100")[..], 256),
        (&hex!("82 7f 0000000000010000"), 65_536),
    ] {
        let stream = [header, &vec![7; len]].concat();
        check(Role::Client, &stream, &[Owned::Data(vec![7; len])], Ok(()));
    }
}

/// Section 5.4: control frames may come between the parts of a message, and empty parts are parts.
#[test]
fn control_frames_interleave() {
    let stream = hex!("02 01 61 89 00 00 00 8a 01 70 80 01 62 88 02 03e8");
    let events = [
        Owned::Data(b"a".to_vec()),
        Owned::Ping(vec![]),
        Owned::Pong(b"p".to_vec()),
        Owned::Data(b"b".to_vec()),
        Owned::Close(Some(1000), String::new()),
    ];
    check(Role::Client, &stream, &events, Ok(()));
}

/// What follows a close frame is ignored, be it nonsense.
#[test]
fn nothing_follows_a_close() {
    let close = |code, reason: &str| [Owned::Close(code, reason.to_owned())];
    check(
        Role::Client,
        &hex!("88 00 ff ff ff"),
        &close(None, ""),
        Ok(()),
    );
    check(
        Role::Client,
        &hex!("88 04 03e9 6869 82 01 61"),
        &close(Some(1001), "hi"),
        Ok(()),
    );
    check(
        Role::Server,
        &hex!("88 82 01020304 02ea 00"),
        &close(Some(1000), ""),
        Ok(()),
    );
}

/// Rules of sections 5.1, 5.2, 5.4, 5.5 and 7.4 that frames of a server can break.
#[test]
fn bad_frames_for_a_client() {
    let cases: &[(&[u8], FrameError, u16)] = &[
        (&hex!("c2 01 61"), FrameError::ReservedBits, 1002),
        (&hex!("a2 01 61"), FrameError::ReservedBits, 1002),
        (&hex!("92 01 61"), FrameError::ReservedBits, 1002),
        (&hex!("83 00"), FrameError::ReservedOpcode, 1002),
        (&hex!("87 00"), FrameError::ReservedOpcode, 1002),
        (&hex!("8b 00"), FrameError::ReservedOpcode, 1002),
        (&hex!("8f 00"), FrameError::ReservedOpcode, 1002),
        (&hex!("82 81 00000000 61"), FrameError::Masked, 1002),
        // [MQTT-6.0.0-1]
        (&hex!("81 01 61"), FrameError::Text, 1003),
        (&hex!("01 01 61"), FrameError::Text, 1003),
        (&hex!("09 00"), FrameError::ControlFragmented, 1002),
        (&hex!("08 00"), FrameError::ControlFragmented, 1002),
        (&hex!("0a 00"), FrameError::ControlFragmented, 1002),
        (&hex!("89 7e 0001"), FrameError::ControlTooLong, 1002),
        (
            &hex!("8a 7f 0000000000000001"),
            FrameError::ControlTooLong,
            1002,
        ),
        (&hex!("88 7e 007e"), FrameError::ControlTooLong, 1002),
        (&hex!("82 7e 007d"), FrameError::LengthForm, 1002),
        (
            &hex!("82 7f 000000000000ffff"),
            FrameError::LengthForm,
            1002,
        ),
        (
            &hex!("82 7f 8000000000000000"),
            FrameError::LengthForm,
            1002,
        ),
        (
            &hex!("82 7f ffffffffffffffff"),
            FrameError::LengthForm,
            1002,
        ),
        (&hex!("80 01 61"), FrameError::ContinuationUnexpected, 1002),
        (&hex!("00 00"), FrameError::ContinuationUnexpected, 1002),
        (&hex!("82 7f 0000000000011171"), FrameError::TooLong, 1009),
        (&hex!("82 7f 7fffffffffffffff"), FrameError::TooLong, 1009),
        (&hex!("88 01 03"), FrameError::CloseTruncated, 1002),
        (&hex!("88 02 0000"), FrameError::CloseCode, 1002),
        (&hex!("88 02 03e7"), FrameError::CloseCode, 1002),
        (&hex!("88 02 03ec"), FrameError::CloseCode, 1002),
        (&hex!("88 02 03ed"), FrameError::CloseCode, 1002),
        (&hex!("88 02 03ee"), FrameError::CloseCode, 1002),
        (&hex!("88 02 03f7"), FrameError::CloseCode, 1002),
        (&hex!("88 02 0bb7"), FrameError::CloseCode, 1002),
        (&hex!("88 02 1388"), FrameError::CloseCode, 1002),
        (&hex!("88 04 03e8 c328"), FrameError::CloseReason, 1007),
    ];
    for &(stream, error, code) in cases {
        check(Role::Client, stream, &[], Err(error));
        assert_eq!(error.close_code().get(), code);
    }
}

#[test]
fn bad_frames_for_a_server() {
    check(
        Role::Server,
        &hex!("82 01 61"),
        &[],
        Err(FrameError::Unmasked),
    );
    check(Role::Server, &hex!("89 00"), &[], Err(FrameError::Unmasked));
    check(
        Role::Server,
        &hex!("81 81 00000000 61"),
        &[],
        Err(FrameError::Text),
    );
    let stream = hex!("88 82 01020304 0000");
    check(Role::Server, &stream, &[], Err(FrameError::CloseCode));
}

/// The events before a violation are delivered, and the violation stays.
#[test]
fn violations_stay() {
    let data = |text: &[u8]| Owned::Data(text.to_vec());
    check(
        Role::Client,
        &hex!("02 01 61 82 01 62"),
        &[data(b"a")],
        Err(FrameError::ContinuationExpected),
    );
    let mut decoder = client();
    let mut events = Vec::new();
    assert!(feed(&mut decoder, &hex!("83 00"), &mut events).is_err());
    let again = feed(&mut decoder, &hex!("82 01 61"), &mut events);
    assert_eq!((again, events), (Err(FrameError::ReservedOpcode), vec![]));
}

/// The limit is on a frame's payload, and is allowed itself.
#[test]
fn frames_up_to_the_limit_pass() {
    let payload = vec![1; LIMIT as usize];
    let stream = [&*frame_header(LIMIT, Opcode::Binary, None), &payload].concat();
    assert_eq!(
        decode(client(), [&*stream]),
        (vec![Owned::Data(payload)], Ok(()))
    );
}

#[test]
fn close_codes_that_may_be_sent() {
    for number in 0..=u16::MAX {
        let is_valid = matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999);
        assert_eq!(
            CloseCode::new(number).map(CloseCode::get),
            is_valid.then_some(number)
        );
    }
}

/// Section 5.2: the shortest form that fits.
#[test]
fn headers_are_minimal() {
    let cases: &[(u64, &[u8])] = &[
        (0, &hex!("82 00")),
        (125, &hex!("82 7d")),
        (126, &hex!("82 7e 007e")),
        (65_535, &hex!("82 7e ffff")),
        (65_536, &hex!("82 7f 0000000000010000")),
    ];
    for &(len, expected) in cases {
        assert_eq!(&*frame_header(len, Opcode::Binary, None), expected);
        let mask = [1, 2, 3, 4];
        let mut masked = expected.to_vec();
        masked[1] |= 0x80;
        masked.extend(mask);
        assert_eq!(&*frame_header(len, Opcode::Binary, Some(mask)), masked);
    }
}

#[test]
fn control_frames_are_encoded() {
    let mut out = Vec::new();
    encode_close(Some(CloseCode::TOO_BIG), "no", None, &mut out);
    encode_close(None, "dropped", None, &mut out);
    encode_pong(b"x", Some([0, 0, 0, 1]), &mut out);
    assert_eq!(out, hex!("88 04 03f1 6e6f  88 00  8a 81 00000001 78"));
    // Too long a reason is cut between characters: 1 + 61 * 2 bytes of it fit.
    out.clear();
    let reason = format!("x{}", "ä".repeat(100));
    encode_close(Some(CloseCode::NORMAL), &reason, None, &mut out);
    let kept = format!("x{}", "ä".repeat(61));
    assert_eq!(
        decode(client(), [&*out]).0,
        [Owned::Close(Some(1000), kept)]
    );
    out.clear();
    encode_ping(&[7; 200], None, &mut out);
    assert_eq!(
        decode(client(), [&*out]).0,
        [Owned::Ping(vec![7; CONTROL_BYTES_MAX])]
    );
}

/// First bytes of binary frames, of their continuations, and of control frames.
const USUAL_FIRST_BYTES: &[u8] = &[0x82, 0x02, 0x00, 0x80, 0x88, 0x89, 0x8a];

/// A frame to encode.
#[derive(Clone, Debug)]
enum Frame {
    /// A message in these fragments.
    Message(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn frame() -> impl Strategy<Value = Frame> {
    let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
    let fragment = prop_oneof![8 => bytes(40), 1 => bytes(700), 1 => bytes(66_000)];
    prop_oneof![
        3 => proptest::collection::vec(fragment, 1..4).prop_map(Frame::Message),
        1 => bytes(126).prop_map(Frame::Ping),
        1 => bytes(126).prop_map(Frame::Pong),
    ]
}

fn encode(frame: &Frame, mask: Option<[u8; 4]>, out: &mut Vec<u8>, events: &mut Vec<Owned>) {
    match frame {
        Frame::Ping(payload) => {
            encode_ping(payload, mask, out);
            events.push(Owned::Ping(payload.clone()));
        }
        Frame::Pong(payload) => {
            encode_pong(payload, mask, out);
            events.push(Owned::Pong(payload.clone()));
        }
        Frame::Message(fragments) => {
            for (number, fragment) in fragments.iter().enumerate() {
                let opcode = if number == 0 {
                    Opcode::Binary
                } else {
                    Opcode::Continuation
                };
                let mut header = frame_header(fragment.len() as u64, opcode, mask).to_vec();
                if number + 1 < fragments.len() {
                    header[0] &= 0x7F;
                }
                out.extend(header);
                let start = out.len();
                out.extend(fragment);
                apply_mask(&mut out[start..], mask.unwrap_or_default());
                match events.last_mut() {
                    Some(Owned::Data(before)) => before.extend(fragment),
                    _ if fragment.is_empty() => {}
                    _ => events.push(Owned::Data(fragment.clone())),
                }
            }
        }
    }
}

/// The pieces between these cuts, which are taken modulo what remains.
fn pieces<'s>(stream: &'s [u8], cuts: &[usize]) -> Vec<&'s [u8]> {
    let (mut rest, mut pieces) = (stream, Vec::new());
    for cut in cuts {
        let (piece, others) = rest.split_at(cut % (rest.len() + 1));
        pieces.push(piece);
        rest = others;
    }
    pieces.push(rest);
    pieces
}

proptest! {
    /// What was encoded is decoded, in either direction, wherever the stream is cut.
    #[test]
    fn round_trip(
        frames in proptest::collection::vec(frame(), 0..12),
        mask in proptest::option::of(any::<[u8; 4]>()),
        cuts in proptest::collection::vec(0usize..200, 0..40),
    ) {
        let (mut stream, mut events) = (Vec::new(), Vec::new());
        for frame in &frames {
            encode(frame, mask, &mut stream, &mut events);
        }
        let decoder = if mask.is_some() { server() } else { client() };
        prop_assert_eq!(decode(decoder, pieces(&stream, &cuts)), (events, Ok(())));
    }

    /// Bytes that look like frames, with mistakes: no panic, and no cut changes the outcome.
    #[test]
    fn cuts_change_nothing(
        parts in proptest::collection::vec(
            (
                prop_oneof![
                    6 => proptest::sample::select(USUAL_FIRST_BYTES),
                    1 => any::<u8>(),
                ],
                prop_oneof![
                    6 => 0x80u8..0x88,
                    2 => proptest::sample::select(&[0xfdu8, 0xfe, 0xff, 0x03][..]),
                    1 => any::<u8>(),
                ],
                proptest::collection::vec(any::<u8>(), 0..12),
            ),
            0..12,
        ),
        cuts in proptest::collection::vec(0usize..12, 0..40),
        role in proptest::sample::select(&[Role::Server, Role::Client][..]),
    ) {
        let stream: Vec<u8> = parts
            .into_iter()
            .flat_map(|(first, second, rest)| [first, second].into_iter().chain(rest))
            .collect();
        let decoder = || Decoder::new(role, 1000);
        let whole = decode(decoder(), [&*stream]);
        prop_assert_eq!(decode(decoder(), pieces(&stream, &cuts)), whole.clone());
        prop_assert_eq!(decode(decoder(), stream.chunks(1)), whole);
    }
}
