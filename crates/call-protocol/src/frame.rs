//! Frames: a kind, a length and a content.

use alloc::vec::Vec;

use crate::answer::{Answer, Edit};
use crate::call::Call;
use crate::limits::{ANSWER_BYTES_MAX, CALL_BYTES_MAX, DATA_BYTES_MAX, EDIT_BYTES_MAX};
use crate::wire::Violation;

/// The length of a frame's header: one byte for the kind, four for the length of the content.
pub const HEADER_BYTES: usize = 5;

/// A call; from the caller, first and once.
pub(crate) const CALL: u8 = 0x01;
/// A piece of the file; from the caller, after it was asked.
pub(crate) const DATA: u8 = 0x02;
/// The end of the file; from the caller, after the last piece.
pub(crate) const END: u8 = 0x03;
/// Asks for the rest of the file; from the server, at most once.
pub(crate) const NEED_BODY: u8 = 0x81;
/// A change of the file; from the server, before the answer.
pub(crate) const EDIT: u8 = 0x82;
/// The answer; from the server, last and once.
pub(crate) const ANSWER: u8 = 0x83;

/// A frame from a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer<'a> {
    /// What is asked.
    Call(Call<'a>),
    /// The next piece of the file.
    Data(&'a [u8]),
    /// The file is complete.
    End,
}

impl<'a> ToServer<'a> {
    /// Takes the first frame off `input`: the frame and how many bytes it took, or `None` while it
    /// is not complete. Looks at no more than the header to find that a frame is too long.
    ///
    /// # Errors
    /// What the peer did wrong.
    pub fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, Violation> {
        let bound = |kind| match kind {
            CALL => Ok(CALL_BYTES_MAX),
            DATA => Ok(DATA_BYTES_MAX),
            END => Ok(0),
            kind => Err(Violation::UnknownFrame(kind)),
        };
        let Some((kind, content, taken)) = split(input, bound)? else {
            return Ok(None);
        };
        let frame = match kind {
            CALL => Self::Call(Call::decode(content)?),
            DATA => Self::Data(content),
            _ => Self::End,
        };
        Ok(Some((frame, taken)))
    }

    /// The number of this kind of frame.
    pub(crate) const fn kind(&self) -> u8 {
        match self {
            Self::Call(_) => CALL,
            Self::Data(_) => DATA,
            Self::End => END,
        }
    }
}

/// A frame from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient<'a> {
    /// The rest of the file is needed.
    NeedBody,
    /// A change of the file.
    Edit(Edit<'a>),
    /// The answer.
    Answer(Answer<'a>),
}

impl<'a> ToClient<'a> {
    /// Takes the first frame off `input`, as [`ToServer::decode`] does.
    ///
    /// # Errors
    /// What the peer did wrong.
    pub fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, Violation> {
        let bound = |kind| match kind {
            NEED_BODY => Ok(0),
            EDIT => Ok(EDIT_BYTES_MAX),
            ANSWER => Ok(ANSWER_BYTES_MAX),
            kind => Err(Violation::UnknownFrame(kind)),
        };
        let Some((kind, content, taken)) = split(input, bound)? else {
            return Ok(None);
        };
        let frame = match kind {
            EDIT => Self::Edit(Edit::decode(content)?),
            ANSWER => Self::Answer(Answer::decode(content)?),
            _ => Self::NeedBody,
        };
        Ok(Some((frame, taken)))
    }
}

/// Appends a DATA frame.
///
/// # Errors
/// When the piece is longer than [`limits::DATA_BYTES_MAX`](crate::limits::DATA_BYTES_MAX).
pub fn encode_data(piece: &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
    if piece.len() > DATA_BYTES_MAX {
        return Err(Violation::TooLong("piece of the file"));
    }
    put_frame(DATA, out, |out| {
        out.extend_from_slice(piece);
        Ok(())
    })
}

/// Appends an END frame.
pub fn encode_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&[END, 0, 0, 0, 0]);
}

/// Appends a NEED_BODY frame.
pub fn encode_need_body(out: &mut Vec<u8>) {
    out.extend_from_slice(&[NEED_BODY, 0, 0, 0, 0]);
}

/// Appends a frame whose content `content` writes; leaves `out` as it was if that fails.
pub(crate) fn put_frame(
    kind: u8,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), Violation>,
) -> Result<(), Violation> {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    let written = content(out).and_then(|()| {
        let len = out.len() - start - HEADER_BYTES;
        u32::try_from(len).map_err(|_| Violation::TooLong("frame"))
    });
    match written {
        Ok(len) => {
            out[start + 1..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
            Ok(())
        }
        Err(violation) => {
            out.truncate(start);
            Err(violation)
        }
    }
}

/// A frame's kind, its content and how many bytes it takes with its header.
type Split<'a> = (u8, &'a [u8], usize);

fn split(
    input: &[u8],
    bound: impl FnOnce(u8) -> Result<usize, Violation>,
) -> Result<Option<Split<'_>>, Violation> {
    let Some(&kind) = input.first() else {
        return Ok(None);
    };
    // Before the length has come: the kind alone tells a stranger.
    let bound = bound(kind)?;
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if len > bound {
        return Err(Violation::TooLong("frame"));
    }
    Ok(rest
        .get(..len)
        .map(|content| (kind, content, HEADER_BYTES + len)))
}
