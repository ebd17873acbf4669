//! Where a packet ends: the fixed header.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::types::Version;
use crate::wire::{read_varint, varint_len};

/// The extent of one packet in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Packet type and flags, for [`crate::decode`].
    pub first: u8,
    /// Bytes of the fixed header: 2 to 5. The body begins here.
    pub header_len: usize,
    /// Bytes of the whole packet, the fixed header included.
    pub total_len: usize,
}

impl Frame {
    /// Refuses what only some versions forbid in a fixed header: 5.0 wants the Remaining Length in
    /// its shortest form [MQTT-1.5.5-1], 3.x does not say so.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::VarIntNotMinimal`].
    #[inline]
    pub const fn check(self, version: Version) -> Result<(), DecodeError> {
        let body_len = self.total_len - self.header_len;
        if version.is_v5() && self.header_len != 1 + varint_len(body_len as u32) {
            return Err(DecodeError {
                kind: DecodeErrorKind::VarIntNotMinimal,
            });
        }
        Ok(())
    }
}

/// The first packet in `input`, once all of it is there; `Ok(None)` asks for more bytes.
///
/// Needs no more than the first byte to refuse a forbidden one, and no more than the length to
/// refuse a packet of more than `packet_bytes_max` bytes, fixed header included.
///
/// # Errors
///
/// A reserved type or reserved flags [MQTT-2.1.3-1], QoS 3 [MQTT-3.3.1-4], DUP without QoS
/// [MQTT-3.3.1-2], a length of more than four bytes, or a packet over the limit.
#[inline]
pub fn frame(input: &[u8], packet_bytes_max: u32) -> Result<Option<Frame>, DecodeError> {
    let found = frame_header(input, packet_bytes_max)?;
    Ok(found.filter(|frame| frame.total_len <= input.len()))
}

/// As [`frame`], but as soon as the length is known: the body may still be missing. For those who
/// want to reserve a buffer of the right size.
///
/// # Errors
///
/// As [`frame`].
#[inline]
pub fn frame_header(input: &[u8], packet_bytes_max: u32) -> Result<Option<Frame>, DecodeError> {
    let Some((&first, rest)) = input.split_first() else {
        return Ok(None);
    };
    check_first(first)?;
    let Some((body_len, len_bytes)) = read_varint(rest)? else {
        return Ok(None);
    };
    let header_len = 1 + len_bytes;
    let total_len = header_len + body_len as usize;
    if total_len > packet_bytes_max as usize {
        return Err(DecodeErrorKind::PacketTooLarge.into());
    }
    Ok(Some(Frame {
        first,
        header_len,
        total_len,
    }))
}

/// Refuses first bytes that no version allows [MQTT-2.1.3-1]. MQTT 3.1 sets DUP when it repeats
/// PUBREL, SUBSCRIBE or UNSUBSCRIBE; `decode`, which knows the version, refuses that for others.
#[inline]
fn check_first(first: u8) -> Result<(), DecodeError> {
    let flags = first & 0x0F;
    match first >> 4 {
        0 => Err(DecodeErrorKind::TypeReserved.into()),
        3 if flags & 0b0110 == 0b0110 => Err(DecodeErrorKind::QoSReserved.into()),
        3 if flags & 0b1110 == 0b1000 => Err(DecodeErrorKind::DupWithoutQoS.into()),
        3 => Ok(()),
        6 | 8 | 10 if flags & 0b0111 == 0b0010 => Ok(()),
        6 | 8 | 10 => Err(DecodeErrorKind::FlagsReserved.into()),
        _ if flags == 0 => Ok(()),
        _ => Err(DecodeErrorKind::FlagsReserved.into()),
    }
}
