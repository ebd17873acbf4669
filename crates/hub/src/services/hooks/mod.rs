//! The operator's own code between a client's packet and what follows from it.
//!
//! A shard runs no adaptor. Where a zone has one for what a client asks, the packet is put aside,
//! the question handed over without waiting, and nothing more is read from that connection until
//! the verdict is there; other connections go on. So an adaptor never reorders what one client
//! sends. What a client may not do anyway is refused without asking.
//!
//! Notices (a client left, a room was made) go to the adaptor too, and nothing waits for them.

mod act;
mod consult;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_session::{Ticket, WillRequest};
use stentor_topic::Zone;
use stentor_zone::Expelled;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Decided, Element, expel};
use crate::core::sessions::lifecycle;
use crate::core::sessions::rights::Identity;
use crate::core::transitions::Detached;
use crate::services::interface::answer::Answer;
use crate::services::interface::broadcast::Part;
use crate::services::interface::hooks::{Adaptors, Hooks};
use crate::services::interface::places::PlacesAsked;

/// The packets that wait for a verdict, and what the adaptors of the home's zones know.
#[derive(Default)]
pub(crate) struct HookService {
    adaptors: Option<Arc<dyn Adaptors>>,
    /// What the homes of zones are asked.
    requests: VecDeque<PlacesAsked>,
    waiting: HashMap<u64, Aside, foldhash::fast::FixedState>,
    /// Each packet of which the home is asked first: whether a SUBSCRIBE joins anything, whether
    /// what is said is heard. At most one of a connection.
    placing: HashMap<Ticket, Packed, foldhash::fast::FixedState>,
    asked: u64,
    /// The rooms that adaptors know of.
    rooms: BTreeSet<(Zone, Box<str>)>,
}

impl HookService {
    /// Other adaptors judge what is done from now on, or none.
    pub(crate) fn set_adaptors(&mut self, adaptors: Option<Arc<dyn Adaptors>>) {
        self.adaptors = adaptors;
    }

    /// Whether there are any.
    #[inline]
    pub(crate) const fn has_adaptors(&self) -> bool {
        self.adaptors.is_some()
    }

    /// Whether adaptors want to hear of joins of a session.
    pub(crate) fn hears_of_joins(&self, core: &Core, key: SessionKey) -> bool {
        let session = core.session(key);
        session.is_some_and(|session| self.hooks(session.state.zone()).has(Hooks::JOIN))
    }

    /// Tells the adaptors the answer of a command that one of them has given.
    pub(crate) fn tell_answer(&self, number: u64, json: Vec<u8>) {
        if let Some(adaptors) = &self.adaptors {
            adaptors.answered(number, json);
        }
    }

    /// Whether something is wanted of rooms.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What is wanted of rooms, the oldest first.
    pub(crate) fn next_request(&mut self) -> Option<PlacesAsked> {
        self.requests.pop_front()
    }

    /// A connection has ended. What its session asked for on its way back to rooms, it asks for
    /// again next time.
    pub(crate) fn detached(&mut self, core: &mut Core, detached: &Detached) {
        self.tell_of_end(detached);
        if detached.was_held {
            let returning = self.take_returning(detached.session);
            lifecycle::keep_for_return(core, detached.session, returning);
        }
    }

    /// The request that waits for the verdict of that number.
    pub(crate) fn take_aside(&mut self, number: u64) -> Option<Aside> {
        self.waiting.remove(&number)
    }

    /// The packet that waits for what the home says about rooms.
    pub(crate) fn take_placing(&mut self, ticket: Ticket) -> Option<Packed> {
        self.placing.remove(&ticket)
    }

    /// A connection ends before its session is back in rooms: it tries again next time.
    fn take_returning(&mut self, key: SessionKey) -> Vec<Element> {
        let elements = self.coming_back(key).flat_map(|elements| elements.iter());
        let undenied = |element: &Element| Element {
            denial: None,
            ..element.clone()
        };
        elements.map(undenied).collect()
    }

    /// A session is out of a room to which it is about to come back: it learns it then.
    pub(crate) fn expel(&mut self, key: SessionKey, room: &str, why: Expelled) {
        for elements in self.coming_back(key) {
            expel(elements, room, why);
        }
    }

    /// What a session that comes back to its rooms has asked about.
    fn coming_back(&mut self, key: SessionKey) -> impl Iterator<Item = &mut [Element]> {
        self.waiting
            .values_mut()
            .filter_map(move |aside| match aside {
                Aside::Return {
                    session, elements, ..
                } if *session == key => Some(&mut elements[..]),
                _ => None,
            })
    }
}

/// A packet, whose connection is not read in the meantime.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) session: SessionKey,
    /// The session's, when the packet came.
    pub(crate) epoch: u32,
    pub(crate) packet: Vec<u8>,
    pub(crate) scope: Decided,
}

/// A request that waits for a verdict.
#[derive(Debug)]
pub(crate) enum Aside {
    Packet(Packed),
    /// What a session was subscribed to in rooms where it has no place any more, and comes back
    /// to. Its connection is not read in the meantime.
    Return {
        session: SessionKey,
        /// The session's, when it came back.
        epoch: u32,
        elements: Vec<Element>,
    },
    /// A will that is due; its client may be gone.
    Will(Arc<Identity>, WillRequest),
    /// An answer to a call, on its way to a topic to which its caller might publish.
    Answer(Answer),
    /// What one recipient of a broadcast receives.
    Broadcast(Part),
}
