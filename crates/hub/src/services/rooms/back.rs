//! Coming back: a session that outlives its connection goes to its rooms again by itself.
//!
//! The home is asked which of its places are kept. Where one is not, coming back is joining like
//! any other: adaptors are asked, then the home again. There is no SUBACK that could say why not,
//! so whatever the version, `$reply/join` does. A client that was removed from a room in the
//! meantime receives notice of that, and does not join.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use stentor_session::Tick;
use stentor_zone::{Entry, Expelled, Refusal, join_ended};

use super::join::{Cause, JoinRequest, Joins, RoomsWanted, rooms_to_ask};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Denial, Element, Verdicts, Wishes, expel, room_of};
use crate::core::inbound::{hold, subscribe};
use crate::core::routing::batch;
use crate::core::sessions::log::leave;
use crate::core::sessions::registry::Link;
use crate::services::interface::places::ROOMS_MAX;
use crate::services::rooms::talk::say_about_join;
use crate::services::rooms::{RoomRequest, RoomService};

impl RoomService {
    /// A session is connected again, which was subscribed to this in rooms.
    /// `hooks` tells whether adaptors want to hear of joins.
    pub(crate) fn return_to_rooms(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        elements: Vec<Element>,
        hooks: bool,
    ) {
        if !elements.is_empty() {
            self.ask_again(core, now, key, elements, Cause::Back { hooks });
        }
    }

    /// Asks for the rooms of what a session was subscribed to. The answer at the end
    /// names rooms that the client may no longer join, or that were denied.
    pub(crate) fn ask_again(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        elements: Vec<Element>,
        cause: Cause,
    ) {
        let elements = tell_expelled(core, now, key, elements);
        let allowed = elements.iter().filter(|element| element.denial.is_none());
        let filters = allowed.map(|element| &*element.filter);
        let mut rooms = rooms_to_ask(core, key, filters, &[], ROOMS_MAX);
        if matches!(cause, Cause::Back { hooks: true }) && sets_observers_aside(&mut rooms) {
            return self.came_back(core, now, key, elements, &rooms.verdicts);
        }
        let asked = if rooms.to_ask.is_empty() {
            Err(elements)
        } else {
            let request = JoinRequest {
                cause,
                elements,
                asked: Ok(Wishes::NOTHING),
            };
            self.ask_rooms(core, now, key, &rooms, request)
        };
        if let Err(elements) = asked {
            let wishes = Ok(Wishes::NOTHING);
            subscribe::go_on(core, now, key, &elements, wishes, &rooms.verdicts);
        }
    }

    /// The home has said which places are kept: the other rooms are joined again.
    pub(super) fn came_back(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        elements: Vec<Element>,
        verdicts: &Verdicts,
    ) {
        let elements = tell_expelled(core, now, key, elements);
        let is_gone = |element: &Element| {
            let verdict = room_of(&element.filter).and_then(|room| verdicts.get(room));
            verdict.is_some_and(Option::is_some)
        };
        let (gone, kept): (Vec<Element>, Vec<Element>) = elements.into_iter().partition(is_gone);
        let mut places = verdicts.clone();
        places.retain(|_, refusal| refusal.is_none());
        if !kept.is_empty() {
            subscribe::go_on(core, now, key, &kept, Ok(Wishes::NOTHING), &places);
        }
        if !gone.is_empty() {
            self.requests.push(RoomRequest::Return(key, gone));
        }
    }

    /// The adaptors have judged a session that comes back; what is missing is allowed.
    pub(crate) fn return_judged(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        epoch: u32,
        mut elements: Vec<Element>,
        denials: &[Option<Denial>],
    ) {
        // What a connection that has ended in the meantime asked for is with its session again.
        if !hold::is_still(core, key, epoch) {
            return;
        }
        for (element, denial) in elements.iter_mut().zip(denials) {
            element.denial.clone_from(denial);
        }
        batch::settle(core, now);
        self.ask_again(core, now, key, elements, Cause::Anew);
        hold::end(core, now, key);
    }

    /// A session is out of a room to which it will come back, or is about to: it learns it then.
    pub(super) fn expel_returning(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        room: &str,
        why: Expelled,
    ) {
        let expel = |elements: &mut [Element]| expel(elements, room, why);
        let Some(session) = core.session_mut(key) else {
            return;
        };
        match &mut session.link {
            Link::Away(away) => {
                if let Some(left) = &mut away.left {
                    expel(&mut left.rooms);
                }
            }
            Link::Live(live) if live.is_held() => {
                self.joins.each_coming_back(key, expel);
                let expelled = RoomRequest::Expel(key, room.into(), why);
                self.requests.push(expelled);
            }
            Link::Live(_) => {}
        }
    }
}

/// Tells a session which rooms it is out of; gives back what it may still come back to.
pub(super) fn tell_expelled(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    mut elements: Vec<Element>,
) -> Vec<Element> {
    if elements.iter().all(|element| element.expelled.is_none()) {
        return elements;
    }
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for element in &elements {
        if let (Some(why), Some(room)) = (element.expelled, room_of(&element.filter))
            && told.insert(room)
        {
            say_about_join(core, now, key, join_ended(room, why));
        }
        if element.expelled.is_some() {
            leave(core, key, &element.filter);
        }
    }
    drop(told);
    elements.retain(|element| element.expelled.is_none());
    elements
}

impl Joins {
    /// What a session asks for that comes back, and has no answer to yet.
    fn each_coming_back(&mut self, key: SessionKey, mut each: impl FnMut(&mut [Element])) {
        for ticket in self.tickets_of(key) {
            if let Some(joining) = self.waiting.get_mut(&ticket)
                && !matches!(joining.cause, Cause::Subscribe(_))
            {
                each(&mut joining.elements);
            }
        }
    }

    /// What a session asks for again next time, because its connection ends before it is back.
    pub(super) fn returning(&mut self, key: SessionKey) -> Vec<Element> {
        let mut all: Vec<Element> = Vec::new();
        self.each_coming_back(key, |elements| {
            all.extend(elements.iter().cloned().map(|element| Element {
                denial: None,
                ..element
            }));
        });
        all
    }
}

/// An observer has no place that could be kept: where adaptors want to hear of joins, it joins
/// again. Whether that leaves nothing to ask the home.
fn sets_observers_aside(rooms: &mut RoomsWanted) -> bool {
    let before = rooms.to_ask.len();
    let verdicts = &mut rooms.verdicts;
    rooms.to_ask.retain(|(room, entry)| {
        let stays = *entry != Entry::Observer;
        if !stays {
            verdicts.insert(room.clone(), Some(Refusal::NotMember));
        }
        stays
    });
    before > 0 && rooms.to_ask.is_empty()
}
