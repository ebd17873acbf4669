//! An event as the ring keeps it: ten thousand of them should not take much of the memory of a
//! server that has as many connections.

use std::sync::Arc;

use stentor_control::events::Kind;
use stentor_topic::Zone;

use super::{Noted, ZoneOf};
use crate::listener::Port;
use crate::peer::Peer;

/// What of an event differs from its neighbours. Its place in the ring is its number.
#[derive(Debug)]
pub(super) struct Kept {
    at_ms: u64,
    port: Option<Arc<Port>>,
    reason: &'static str,
    /// Client id, user, text and the name of a zone, one behind the other.
    texts: Box<str>,
    /// Where the first three of them end.
    ends: [u32; 3],
    held_back: u32,
    zone: KeptZone,
    peer: Option<Peer>,
    kind: Kind,
}

/// The zone, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptZone {
    Unknown,
    Number(Zone),
    /// The last of the texts.
    Name,
}

impl Kept {
    pub(super) fn new(noted: &Noted) -> Self {
        let (zone, name) = match &noted.zone {
            None => (KeptZone::Unknown, ""),
            Some(ZoneOf::Number(zone)) => (KeptZone::Number(*zone), ""),
            Some(ZoneOf::Name(name)) => (KeptZone::Name, &**name),
        };
        let parts = [&*noted.client_id, &*noted.user, &*noted.text];
        let mut end = 0;
        let ends = parts.map(|part| {
            end += part.len();
            // Each of them is shorter than a packet.
            u32::try_from(end).unwrap_or(u32::MAX)
        });
        Self {
            at_ms: noted.at_ms,
            port: noted.port.clone(),
            reason: noted.reason,
            texts: [&parts.concat(), name].concat().into(),
            ends,
            held_back: u32::try_from(noted.held_back).unwrap_or(u32::MAX),
            zone,
            peer: noted.peer,
            kind: noted.kind,
        }
    }

    /// The event, whose number is `seq`.
    pub(super) fn noted(&self, seq: u64) -> Noted {
        Noted {
            seq,
            at_ms: self.at_ms,
            kind: self.kind,
            zone: match self.zone {
                KeptZone::Unknown => None,
                KeptZone::Number(zone) => Some(ZoneOf::Number(zone)),
                KeptZone::Name => Some(ZoneOf::Name(self.part(3).into())),
            },
            client_id: self.client_id().into(),
            user: self.user().into(),
            peer: self.peer,
            port: self.port.clone(),
            reason: self.reason,
            text: self.part(2).into(),
            held_back: u64::from(self.held_back),
        }
    }

    pub(super) fn client_id(&self) -> &str {
        self.part(0)
    }

    pub(super) fn user(&self) -> &str {
        self.part(1)
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    pub(super) const fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Whether it is of a zone with this name, and this number if it has one.
    pub(super) fn is_of_zone(&self, name: &str, number: Option<Zone>) -> bool {
        match self.zone {
            KeptZone::Unknown => false,
            KeptZone::Number(zone) => number == Some(zone),
            KeptZone::Name => self.part(3) == name,
        }
    }

    /// What it takes of the memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.texts.len()
    }

    fn part(&self, index: usize) -> &str {
        let end = |index: usize| self.ends.get(index).map(|end| *end as usize);
        let start = index.checked_sub(1).and_then(end).unwrap_or(0);
        let end = end(index).unwrap_or(self.texts.len());
        self.texts.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_small() {
        assert!(size_of::<Kept>() <= 104, "{}", size_of::<Kept>());
    }

    #[test]
    fn an_event_comes_out_as_it_went_in() {
        let bare = Noted::new(Kind::Connected);
        let full = Noted {
            seq: 9,
            at_ms: 50,
            zone: Some(ZoneOf::Name("größe".into())),
            client_id: "ä\u{202e}".into(),
            user: "game/ann".into(),
            peer: Some(Peer::V6([7; 16], 5)),
            reason: "banned",
            text: "for a day".into(),
            held_back: 3,
            ..Noted::new(Kind::Refused)
        };
        let numbered = Noted {
            zone: Some(ZoneOf::Number(Zone(7))),
            user: Box::default(),
            ..full.clone()
        };
        for noted in [bare, full, numbered] {
            let kept = Kept::new(&noted);
            assert_eq!(format!("{:?}", kept.noted(noted.seq)), format!("{noted:?}"));
        }
    }
}
