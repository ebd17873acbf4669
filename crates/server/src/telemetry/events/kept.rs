//! An event as the ring keeps it, in some forty bytes: ten thousand of them should not take much of
//! the memory of a server that has as many connections.

use stentor_control::events::Kind;
use stentor_topic::Zone;

use super::ZoneOf;
use crate::peer::Peer;

/// An event in the ring. What many events have in common is a number of a [`super::shelf::Shelf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept<'a> {
    pub(super) at_ms: u64,
    pub(super) kind: Kind,
    pub(super) zone: KeptZone<'a>,
    pub(super) peer: Option<Peer>,
    pub(super) port: Option<usize>,
    pub(super) reason: usize,
    pub(super) held_back: u64,
    pub(super) client_id: &'a str,
    pub(super) user: &'a str,
    pub(super) text: &'a str,
}

/// The zone, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptZone<'a> {
    Unknown,
    Number(Zone),
    Name(&'a str),
}

impl KeptZone<'_> {
    pub(super) fn to_owned(self) -> Option<ZoneOf> {
        match self {
            Self::Unknown => None,
            Self::Number(zone) => Some(ZoneOf::Number(zone)),
            Self::Name(name) => Some(ZoneOf::Name(name.into())),
        }
    }
}

impl<'a> From<Option<&'a ZoneOf>> for KeptZone<'a> {
    fn from(zone: Option<&'a ZoneOf>) -> Self {
        match zone {
            None => Self::Unknown,
            Some(ZoneOf::Number(zone)) => Self::Number(*zone),
            Some(ZoneOf::Name(name)) => Self::Name(name),
        }
    }
}

impl<'a> Kept<'a> {
    /// Appends it to bytes. [`Self::decode`] reads it again.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind);
        put(out, kind.unwrap_or_default() as u64);
        put(out, self.at_ms);
        match self.zone {
            KeptZone::Unknown => put(out, 0),
            KeptZone::Number(zone) => {
                put(out, 1);
                put(out, zone.get().into());
            }
            KeptZone::Name(name) => {
                put(out, 2);
                put_text(out, name);
            }
        }
        match self.peer {
            None => put(out, 0),
            Some(Peer::V4(octets, port)) => {
                put(out, 1);
                out.extend(octets);
                put(out, port.into());
            }
            Some(Peer::V6(octets, port)) => {
                put(out, 2);
                out.extend(octets);
                put(out, port.into());
            }
            Some(Peer::Unix { uid, pid }) => {
                put(out, 3);
                put(out, uid.into());
                put(out, pid.into());
            }
        }
        put(out, self.port.map_or(0, |port| port as u64 + 1));
        put(out, self.reason as u64);
        put(out, self.held_back);
        for text in [self.client_id, self.user, self.text] {
            put_text(out, text);
        }
    }

    /// Reads what [`Self::encode`] has written, from the front of some bytes; `None` if they are
    /// something else.
    pub(super) fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let kind = *Kind::ALL.get(number::<usize>(bytes)?)?;
        let at_ms = take(bytes)?;
        let zone = match take(bytes)? {
            0 => KeptZone::Unknown,
            1 => KeptZone::Number(Zone(number(bytes)?)),
            _ => KeptZone::Name(text(bytes)?),
        };
        let peer = match take(bytes)? {
            0 => None,
            1 => Some(Peer::V4(array(bytes)?, number(bytes)?)),
            2 => Some(Peer::V6(array(bytes)?, number(bytes)?)),
            _ => Some(Peer::Unix {
                uid: number(bytes)?,
                pid: number(bytes)?,
            }),
        };
        Some(Self {
            at_ms,
            kind,
            zone,
            peer,
            port: number::<usize>(bytes)?.checked_sub(1),
            reason: number(bytes)?,
            held_back: take(bytes)?,
            client_id: text(bytes)?,
            user: text(bytes)?,
            text: text(bytes)?,
        })
    }

    /// Whether it is of a zone with this name, and this number if it has one.
    pub(super) fn is_of_zone(&self, name: &str, number: Option<Zone>) -> bool {
        match self.zone {
            KeptZone::Unknown => false,
            KeptZone::Number(zone) => number == Some(zone),
            KeptZone::Name(zone) => zone == name,
        }
    }
}

/// A number in groups of seven bits, the lowest first.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn number<T: TryFrom<u64>>(bytes: &mut &[u8]) -> Option<T> {
    T::try_from(take(bytes)?).ok()
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = number(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Kept<'static> {
        Kept {
            at_ms: 1_800_000_000_000,
            kind: Kind::Banned,
            zone: KeptZone::Name("größe"),
            peer: Some(Peer::V6([7; 16], 65_535)),
            port: Some(300),
            reason: 129,
            held_back: u64::MAX,
            client_id: "ä\u{202e}",
            user: "game/ann",
            text: "for a day",
        }
    }

    #[test]
    fn an_event_comes_out_as_it_went_in() {
        let bare = Kept {
            zone: KeptZone::Unknown,
            peer: None,
            port: None,
            client_id: "",
            user: "",
            text: "",
            ..full()
        };
        let of = |zone, peer, kind| Kept {
            zone,
            peer: Some(peer),
            kind,
            ..full()
        };
        let number = KeptZone::Number(Zone(70_000));
        let all = [
            bare,
            full(),
            of(number, Peer::V4([192, 0, 2, 1], 0), Kind::Connected),
            of(number, Peer::Unix { uid: 1, pid: 0 }, Kind::Losing),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|kept| kept.encode(&mut bytes));
        let mut left = &bytes[..];
        for kept in all {
            assert_eq!(Kept::decode(&mut left), Some(kept));
        }
        assert!(left.is_empty());
    }

    #[test]
    fn a_part_of_an_event_is_none() {
        let mut bytes = Vec::new();
        full().encode(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(Kept::decode(&mut &bytes[..end]), None, "{end}");
        }
    }
}
