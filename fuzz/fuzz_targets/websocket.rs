//! Frames and request heads: no panic, and no cut of the stream changes what it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_websocket::{
    Decoder, Event, FrameError, Kind, Limits, Role, Step, origin_allowed, parse_request,
};

/// Data of all frames, and everything else that happened with its place in that data.
type Outcome = (Vec<u8>, Vec<String>, Result<(), FrameError>);

fuzz_target!(|input: &[u8]| {
    let [first, piece_bytes, stream @ ..] = input else {
        return;
    };
    let role = if first & 1 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let whole = decode(role, stream, stream.len().max(1));
    assert_eq!(decode(role, stream, 1), whole);
    assert_eq!(
        decode(role, stream, usize::from(*piece_bytes).max(1)),
        whole
    );
    request(stream);
});

fn decode(role: Role, stream: &[u8], piece_bytes: usize) -> Outcome {
    let mut decoder = Decoder::new(role, 1 << 16);
    let (mut data, mut others) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        let mut input = piece.to_vec();
        let mut at = 0;
        loop {
            let Step { consumed, event } = match decoder.decode(&mut input[at..]) {
                Ok(step) => step,
                Err(error) => return (data, others, Err(error)),
            };
            match event {
                Event::Data(range) => data.extend_from_slice(&input[at..][range]),
                Event::NeedMore => break,
                event => others.push(format!("{} {event:?}", data.len())),
            }
            at += consumed;
        }
    }
    (data, others, Ok(()))
}

/// More bytes never change what a prefix already decided.
fn request(stream: &[u8]) {
    let whole = parse_request(stream, Limits::default());
    let half = parse_request(&stream[..stream.len() / 2], Limits::default());
    assert!(half == Ok(None) || half == whole);
    let Ok(Some((request, head_bytes))) = whole else {
        return;
    };
    assert!(head_bytes <= stream.len() && request.path.starts_with('/'));
    if let Kind::Upgrade { key, .. } = request.kind {
        assert_eq!(key.len(), 24);
    }
    // Only for its panics.
    let _ = origin_allowed(request.origin, request.host, &[], true);
}
