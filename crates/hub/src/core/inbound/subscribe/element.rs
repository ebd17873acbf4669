//! One subscription of a SUBSCRIBE, and what was decided about it before.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use stentor_mqtt::{ReasonCode, RetainHandling, SubscribeOptions};
use stentor_topic::Subscription;
use stentor_zone::{Expelled, Interest, Refusal};

use crate::core::routing::options::Options;

/// How the filters of rooms begin.
pub(crate) const ROOMS: &str = "$room/";
/// The filter of rooms that names none.
pub(crate) const ROOM: &str = "$room";

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason code of MQTT 5.
    pub reason: ReasonCode,
    /// The reason, for people.
    pub text: Box<str>,
}

/// Why a session may not have something, whatever adaptors say.
pub(crate) type Refused = (ReasonCode, &'static str);

/// One subscription of a SUBSCRIBE that outlives the packet's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) filter: Box<str>,
    pub(crate) options: SubscribeOptions,
    /// The subscription identifier.
    pub(crate) id: Option<u32>,
    /// What an adaptor has against it.
    pub(crate) denial: Option<Denial>,
    /// Why it was refused before adaptors were asked.
    pub(crate) refused: Option<Refused>,
    /// Of a session that comes back: why it is out of the room in the meantime.
    pub(crate) expelled: Option<Expelled>,
}

impl Element {
    /// One that a session had before its connection ended.
    pub(crate) fn stored(filter: &str, options: Options) -> Self {
        Self {
            filter: filter.into(),
            options: SubscribeOptions {
                qos: options.qos(),
                no_local: options.no_local(),
                retain_as_published: options.retain_as_published(),
                retain_handling: RetainHandling::Send,
            },
            id: Some(options.id()).filter(|id| *id != 0),
            denial: None,
            refused: None,
            expelled: None,
        }
    }
}

/// What was said about the rooms of a SUBSCRIBE: of each why not, if it is refused.
pub(crate) type Verdicts = BTreeMap<Box<str>, Option<Refusal>>;

/// What of a SUBSCRIBE adaptors are asked about, and what not.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// Rooms of which they are not, in order: the session was in them, or had a place there. If it
    /// is out by the time they have judged the rest, it does not come in.
    pub(crate) unasked: Vec<Box<str>>,
    /// The elements of which they are, by their places in the packet.
    pub(crate) asked: Vec<usize>,
    /// The elements that the session might not have anyway, with why not. It has none of them by
    /// this packet, even if it may by the time they have judged the rest. In order.
    pub(crate) refused: Vec<(usize, Refused)>,
    /// How many elements were looked at, if not all: the session has none of the others.
    pub(crate) looked_at: Option<usize>,
}

impl Decided {
    /// Nothing: no adaptor was asked.
    pub(crate) const NOTHING: &Self = {
        static NOTHING: Decided = Decided {
            unasked: Vec::new(),
            asked: Vec::new(),
            refused: Vec::new(),
            looked_at: None,
        };
        &NOTHING
    };

    /// What adaptors have against each element of the packet; what is missing is allowed.
    pub(crate) fn denials(&self, judged: &[Option<Denial>]) -> Vec<Option<Denial>> {
        let mut denials = Vec::new();
        for (at, denial) in self.asked.iter().zip(judged) {
            if denials.len() <= *at {
                denials.resize(at + 1, None);
            }
            if let Some(place) = denials.get_mut(*at) {
                place.clone_from(denial);
            }
        }
        denials
    }

    /// Why an element was refused when it was looked at, or was not.
    pub(crate) fn refused(&self, at: usize) -> Option<Refused> {
        if self.looked_at.is_some_and(|most| at >= most) {
            return Some((ReasonCode::QuotaExceeded, ""));
        }
        let found = self.refused.binary_search_by_key(&at, |(at, _)| *at);
        let (_, refused) = self.refused.get(found.ok()?)?;
        Some(*refused)
    }
}

/// The room that a filter is about.
pub(crate) fn room_of(filter: &str) -> Option<&str> {
    if !filter.starts_with(ROOMS) {
        return None;
    }
    match Subscription::parse(filter) {
        Ok(Subscription {
            share: None,
            filter,
        }) => match Interest::parse(filter) {
            Interest::Room { room } => Some(room),
            _ => None,
        },
        _ => None,
    }
}

/// A session is out of a room that it may come back to by some of these.
pub(crate) fn expel(elements: &mut [Element], room: &str, why: Expelled) {
    let below = format!("{ROOMS}{room}/");
    for element in elements {
        if element.filter.starts_with(below.as_str()) {
            element.expelled = Some(why);
        }
    }
}
