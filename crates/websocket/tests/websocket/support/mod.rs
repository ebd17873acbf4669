//! Events that own what they say, and are the same however the stream was cut.

use stentor_websocket::{CloseCode, Decoder, Event, FrameError, Step};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Data(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

/// Decodes one piece of the stream; data that follows data is joined, since cuts are arbitrary.
pub(crate) fn feed(
    decoder: &mut Decoder,
    piece: &[u8],
    events: &mut Vec<Owned>,
) -> Result<(), FrameError> {
    let mut input = piece.to_vec();
    let mut at = 0;
    loop {
        let rest_bytes = input.len() - at;
        let Step { consumed, event } = decoder.decode(&mut input[at..])?;
        assert!(consumed <= rest_bytes);
        match event {
            Event::Data(range) => {
                assert!(!range.is_empty() && range.end <= consumed);
                let data = &input[at..][range];
                match events.last_mut() {
                    Some(Owned::Data(before)) => before.extend_from_slice(data),
                    _ => events.push(Owned::Data(data.to_vec())),
                }
            }
            Event::Ping(payload) => events.push(Owned::Ping(payload.to_vec())),
            Event::Pong(payload) => events.push(Owned::Pong(payload.to_vec())),
            Event::Close(code, reason) => {
                events.push(Owned::Close(code.map(CloseCode::get), reason.to_owned()));
            }
            Event::NeedMore => {
                assert_eq!(consumed, rest_bytes, "the whole input is taken");
                return Ok(());
            }
        }
        at += consumed;
    }
}
