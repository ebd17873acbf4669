//! Frames from bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use thiserror::Error;

use crate::CloseCode;
use crate::header::{Control, End, HEADER_BYTES_MAX, Header, Kind, Start};
use crate::mask::apply_mask;

/// Which end of the connection decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes a client's frames, which must be masked.
    Server,
    /// Takes a server's frames, which must not be masked.
    Client,
}

/// How the peer broke the protocol; the connection is to be closed with [`FrameError::close_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A reserved bit is set, but no extension was negotiated (RFC 6455, 5.2).
    #[error("a reserved bit of a frame is set")]
    ReservedBits,
    /// The opcode is not defined (5.2).
    #[error("the opcode of a frame is reserved")]
    ReservedOpcode,
    /// A client's frame without a mask (5.1).
    #[error("a frame of a client is not masked")]
    Unmasked,
    /// A server's frame with a mask (5.1).
    #[error("a frame of a server is masked")]
    Masked,
    /// A text frame; MQTT is binary [MQTT-6.0.0-1].
    #[error("a text frame on a connection for binary data")]
    Text,
    /// A control frame that is not whole (5.5).
    #[error("a control frame is fragmented")]
    ControlFragmented,
    /// A control frame with a payload of more than 125 bytes (5.5).
    #[error("a control frame is longer than 125 bytes")]
    ControlTooLong,
    /// A length that is not written in the shortest form, or has its highest bit set (5.2).
    #[error("the length of a frame is not in the shortest form")]
    LengthForm,
    /// A continuation where no message is unfinished (5.4).
    #[error("a continuation frame without a message to continue")]
    ContinuationUnexpected,
    /// A new message before the end of the one before (5.4).
    #[error("a new message inside of a fragmented one")]
    ContinuationExpected,
    /// A frame longer than the limit that the decoder was made with.
    #[error("a frame is longer than this side takes")]
    TooLong,
    /// A close frame with half a status code (5.5.1).
    #[error("a close frame of one byte")]
    CloseTruncated,
    /// A close frame with a code that must not be sent (7.4).
    #[error("a close frame with an invalid status code")]
    CloseCode,
    /// A close frame whose reason is not UTF-8 (5.5.1).
    #[error("a close frame whose reason is not UTF-8")]
    CloseReason,
}

impl FrameError {
    /// The status code to close with.
    #[must_use]
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::Text => CloseCode::UNSUPPORTED,
            Self::TooLong => CloseCode::TOO_BIG,
            Self::CloseReason => CloseCode::INVALID_DATA,
            Self::ReservedBits
            | Self::ReservedOpcode
            | Self::Unmasked
            | Self::Masked
            | Self::ControlFragmented
            | Self::ControlTooLong
            | Self::LengthForm
            | Self::ContinuationUnexpected
            | Self::ContinuationExpected
            | Self::CloseTruncated
            | Self::CloseCode => CloseCode::PROTOCOL_ERROR,
        }
    }
}

/// What [`Decoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Payload, unmasked: this part of the input, which is not empty.
    Data(Range<usize>),
    /// To be answered with a pong of the same payload ([`encode_pong`](crate::encode_pong)).
    Ping(&'a [u8]),
    /// An answer to a ping, or a sign of life.
    Pong(&'a [u8]),
    /// The end: to be answered with a close frame of the same code, unless one was sent. What the
    /// peer sends after it is consumed and ignored.
    Close(Option<CloseCode>, &'a str),
    /// The input is used up.
    NeedMore,
}

/// One event, and how far it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that are dealt with; the next call gets what follows them.
    pub consumed: usize,
    /// What they meant.
    pub event: Event<'a>,
}

/// Takes frames apart, in place.
///
/// Keeps the state between calls: where in a frame and in a message the stream is, up to 13 bytes
/// of a header, and up to 125 bytes of a control frame that was cut in two. Payload is never kept:
/// it is handed out as it arrives, in as many pieces as it takes.
///
/// Call [`Decoder::decode`] with what arrived, then with the rest, until it says
/// [`Event::NeedMore`]:
///
/// ```
/// use stentor_websocket::{Decoder, Event, Role, Step};
///
/// let mut decoder = Decoder::new(Role::Client, 1 << 20);
/// let mut input = *b"\x82\x02hi\x82\x03you";
/// let (mut at, mut stream) = (0, Vec::new());
/// loop {
///     let Step { consumed, event } = decoder.decode(&mut input[at..])?;
///     match event {
///         Event::Data(range) => stream.extend_from_slice(&input[at..][range]),
///         Event::NeedMore => break,
///         Event::Ping(_) | Event::Pong(_) | Event::Close(..) => {}
///     }
///     at += consumed;
/// }
/// assert_eq!(stream, b"hiyou");
/// # Ok::<(), stentor_websocket::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    state: State,
    message: Message,
    role: Role,
    frame_bytes_max: u64,
}

/// Where in a frame the stream is.
#[derive(Debug)]
enum State {
    /// Before the end of a header, of which this much is there.
    Header(PartialHeader),
    /// In the payload of a data frame, with at least one byte to come.
    Data { left: u64, mask: [u8; 4] },
    /// In the payload of a control frame that comes in several reads.
    Control(Box<PartialControl>),
    /// After such a frame; the event that announced it borrows its payload.
    ControlDone(Box<[u8]>),
    /// After a close frame, whose payload is here unless it came in one read.
    Closed(Box<[u8]>),
    /// After a violation.
    Failed(FrameError),
}

/// Where in a message the stream is; control frames may come at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// The next data frame begins a message.
    Between,
    /// The next data frame continues one.
    Within,
}

/// An event before it borrows anything.
enum Found {
    NeedMore,
    Data(Range<usize>),
    /// A control frame whose payload is this part of the input.
    Whole(Control, Range<usize>),
    /// A control frame whose payload is in the state.
    Collected(Control),
}

impl Decoder {
    /// A decoder for what arrives after the upgrade.
    ///
    /// `frame_bytes_max` bounds the payload of a single frame. Since payload is not kept, this is a
    /// matter of policy rather than of memory.
    #[must_use]
    pub const fn new(role: Role, frame_bytes_max: u64) -> Self {
        let state = State::Header(PartialHeader::EMPTY);
        Self {
            state,
            message: Message::Between,
            role,
            frame_bytes_max,
        }
    }

    /// Finds the next event in `input`, and unmasks its bytes.
    ///
    /// Bytes that were consumed must not be handed in again. Cost: the bytes consumed, once.
    ///
    /// # Errors
    /// What the peer did wrong, and the same again from then on.
    pub fn decode<'a>(&'a mut self, input: &'a mut [u8]) -> Result<Step<'a>, FrameError> {
        let (consumed, found) = match self.advance(input) {
            Ok(found) => found,
            Err(error) => {
                self.state = State::Failed(error);
                return Err(error);
            }
        };
        let event = match found {
            Found::NeedMore => Event::NeedMore,
            Found::Data(range) => Event::Data(range),
            Found::Whole(control, range) => {
                control_event(control, input.get(range).unwrap_or_default())
            }
            Found::Collected(control) => match &self.state {
                State::ControlDone(payload) | State::Closed(payload) => {
                    control_event(control, payload)
                }
                _ => control_event(control, &[]),
            },
        };
        Ok(Step { consumed, event })
    }

    /// Goes on to the next event; returns how much of `input` that took.
    fn advance(&mut self, input: &mut [u8]) -> Result<(usize, Found), FrameError> {
        let mut at = 0;
        loop {
            let rest = &mut input[at..];
            match &mut self.state {
                State::Header(kept) => {
                    let Some((header, header_bytes)) = kept.complete(rest, self.role)? else {
                        return Ok((input.len(), Found::NeedMore));
                    };
                    at += header_bytes;
                    if let Some(control) = self.enter(header, &mut input[at..])? {
                        let (control, payload_bytes) = control;
                        let end = at + payload_bytes;
                        return Ok((end, Found::Whole(control, at..end)));
                    }
                }
                State::Data { left, mask } => {
                    // A length that does not fit `usize` is longer than the input for certain.
                    let wanted = usize::try_from(*left).unwrap_or(usize::MAX);
                    let taken = rest.len().min(wanted);
                    if taken == 0 {
                        return Ok((at, Found::NeedMore));
                    }
                    *mask = apply_mask(&mut rest[..taken], *mask);
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = State::Header(PartialHeader::EMPTY);
                    }
                    let end = at + taken;
                    return Ok((end, Found::Data(at..end)));
                }
                State::Control(partial) => {
                    at += partial.collect(rest);
                    if !partial.is_complete() {
                        return Ok((at, Found::NeedMore));
                    }
                    let (control, payload) = partial.take()?;
                    self.state = match control {
                        Control::Close => State::Closed(payload),
                        Control::Ping | Control::Pong => State::ControlDone(payload),
                    };
                    return Ok((at, Found::Collected(control)));
                }
                State::ControlDone(_) => self.state = State::Header(PartialHeader::EMPTY),
                State::Closed(_) => return Ok((input.len(), Found::NeedMore)),
                State::Failed(error) => return Err(*error),
            }
        }
    }

    /// Goes into the frame behind a header. For a control frame that is whole in `rest`, unmasks
    /// its payload, goes behind it and returns it with its length.
    fn enter(
        &mut self,
        header: Header,
        rest: &mut [u8],
    ) -> Result<Option<(Control, usize)>, FrameError> {
        let (control, payload_bytes) = match header.kind {
            Kind::Data {
                start,
                end,
                payload_bytes,
            } => {
                self.enter_data(start, end, payload_bytes)?;
                self.state = match payload_bytes {
                    0 => State::Header(PartialHeader::EMPTY),
                    left => State::Data {
                        left,
                        mask: header.mask,
                    },
                };
                return Ok(None);
            }
            Kind::Control {
                control,
                payload_bytes,
            } => (control, usize::from(payload_bytes)),
        };
        let Some(payload) = rest.get_mut(..payload_bytes) else {
            let payload = Vec::with_capacity(payload_bytes);
            let partial = PartialControl {
                control,
                mask: header.mask,
                payload_bytes,
                payload,
            };
            self.state = State::Control(Box::new(partial));
            return Ok(None);
        };
        apply_mask(payload, header.mask);
        self.state = match control {
            Control::Close => {
                parse_close(payload)?;
                State::Closed(Box::default())
            }
            Control::Ping | Control::Pong => State::Header(PartialHeader::EMPTY),
        };
        Ok(Some((control, payload_bytes)))
    }

    /// Checks that a data frame may stand here.
    fn enter_data(&mut self, start: Start, end: End, payload_bytes: u64) -> Result<(), FrameError> {
        match (self.message, start) {
            (Message::Between, Start::Message) | (Message::Within, Start::Continuation) => {}
            (Message::Between, Start::Continuation) => {
                return Err(FrameError::ContinuationUnexpected);
            }
            (Message::Within, Start::Message) => return Err(FrameError::ContinuationExpected),
        }
        if payload_bytes > self.frame_bytes_max {
            return Err(FrameError::TooLong);
        }
        self.message = match end {
            End::Message => Message::Between,
            End::Fragment => Message::Within,
        };
        Ok(())
    }
}

/// The beginning of a header.
#[derive(Clone, Copy, Debug)]
struct PartialHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl PartialHeader {
    const EMPTY: Self = Self {
        bytes: [0; HEADER_BYTES_MAX],
        len: 0,
    };

    /// Reads the header that goes on in `input`, and how many bytes of it that took. Where it is
    /// incomplete, keeps all of them.
    #[inline]
    fn complete(
        &mut self,
        input: &[u8],
        role: Role,
    ) -> Result<Option<(Header, usize)>, FrameError> {
        if self.len == 0
            && let Some(found) = Header::parse(input, role)?
        {
            return Ok(Some(found));
        }
        for (byte, taken) in input.iter().zip(1..) {
            let Some(place) = self.bytes.get_mut(usize::from(self.len)) else {
                break;
            };
            *place = *byte;
            self.len += 1;
            if let Some((header, _)) = Header::parse(&self.bytes[..usize::from(self.len)], role)? {
                return Ok(Some((header, taken)));
            }
        }
        Ok(None)
    }
}

/// The beginning of a control frame.
#[derive(Debug)]
struct PartialControl {
    control: Control,
    mask: [u8; 4],
    /// At most [`CONTROL_BYTES_MAX`](crate::CONTROL_BYTES_MAX).
    payload_bytes: usize,
    /// What is there of the payload, still masked.
    payload: Vec<u8>,
}

impl PartialControl {
    /// Keeps what belongs to the frame; returns how much that was.
    fn collect(&mut self, input: &[u8]) -> usize {
        let taken = input.len().min(self.payload_bytes - self.payload.len());
        self.payload.extend_from_slice(&input[..taken]);
        taken
    }

    fn is_complete(&self) -> bool {
        self.payload.len() == self.payload_bytes
    }

    /// The payload, unmasked and checked.
    fn take(&mut self) -> Result<(Control, Box<[u8]>), FrameError> {
        let mut payload = core::mem::take(&mut self.payload).into_boxed_slice();
        apply_mask(&mut payload, self.mask);
        if self.control == Control::Close {
            parse_close(&payload)?;
        }
        Ok((self.control, payload))
    }
}

/// The event of a control frame whose payload was checked.
fn control_event(control: Control, payload: &[u8]) -> Event<'_> {
    match control {
        Control::Ping => Event::Ping(payload),
        Control::Pong => Event::Pong(payload),
        Control::Close => {
            let (code, reason) = parse_close(payload).unwrap_or((None, ""));
            Event::Close(code, reason)
        }
    }
}

/// The payload of a close frame: nothing, or a status code and a reason (RFC 6455, 5.5.1).
fn parse_close(payload: &[u8]) -> Result<(Option<CloseCode>, &str), FrameError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() {
            Ok((None, ""))
        } else {
            Err(FrameError::CloseTruncated)
        };
    };
    let code = CloseCode::new(u16::from_be_bytes(*code)).ok_or(FrameError::CloseCode)?;
    let reason = core::str::from_utf8(reason).map_err(|_| FrameError::CloseReason)?;
    Ok((Some(code), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every WebSocket connection has one.
    #[test]
    fn decoders_are_small() {
        assert!(size_of::<Decoder>() <= 40, "{}", size_of::<Decoder>());
    }
}
