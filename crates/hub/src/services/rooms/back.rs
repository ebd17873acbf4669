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

use super::below;
use super::join::{Cause, Element, ROOMS_MAX, RoomsWanted, Verdicts, room_of};
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::Wishes;
use crate::core::sessions::registry::{Link, Live, Session};
use crate::hub::Hub;
use crate::services::hooks::{Denial, Hooks};

impl Hub {
    /// A session is connected again, which was subscribed to this in rooms.
    pub(crate) fn return_to_rooms(&mut self, now: Tick, key: SessionKey, elements: Vec<Element>) {
        if !elements.is_empty() {
            self.ask_again(now, key, elements, Cause::Back);
        }
    }

    /// Asks for the rooms of what a session was subscribed to. The answer at the end
    /// names rooms that the client may no longer join, or that were denied.
    fn ask_again(&mut self, now: Tick, key: SessionKey, elements: Vec<Element>, cause: Cause) {
        let elements = self.tell_expelled(now, key, elements);
        let allowed = elements.iter().filter(|element| element.denial.is_none());
        let filters = allowed.map(|element| &*element.filter);
        let mut rooms = self.rooms_to_ask(key, filters, (&[], ROOMS_MAX));
        if cause == Cause::Back && self.sets_observers_aside(key, &mut rooms) {
            return self.came_back(now, key, elements, &rooms.verdicts);
        }
        let asked = if rooms.to_ask.is_empty() {
            Err(elements)
        } else {
            let wishes = Ok(Wishes::NOTHING);
            self.ask_rooms(now, key, &rooms, cause, (elements, wishes))
        };
        if let Err(elements) = asked {
            let answered = (&elements[..], Ok(Wishes::NOTHING), &rooms.verdicts);
            self.go_on_subscribing(now, key, answered);
        }
    }

    /// An observer has no place that could be kept: where adaptors want to hear of joins, it
    /// joins again. Whether that leaves nothing to ask the home.
    fn sets_observers_aside(&self, key: SessionKey, rooms: &mut RoomsWanted) -> bool {
        let zone = self.sessions.get(key).map(Session::zone);
        if !zone.is_some_and(|zone| self.hooks(zone).has(Hooks::JOIN)) {
            return false;
        }
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

    /// The home has said which places are kept: the other rooms are joined again.
    pub(super) fn came_back(
        &mut self,
        now: Tick,
        key: SessionKey,
        elements: Vec<Element>,
        verdicts: &Verdicts,
    ) {
        let elements = self.tell_expelled(now, key, elements);
        let is_gone = |element: &Element| {
            let verdict = room_of(&element.filter).and_then(|room| verdicts.get(room));
            verdict.is_some_and(Option::is_some)
        };
        let (gone, kept): (Vec<Element>, Vec<Element>) = elements.into_iter().partition(is_gone);
        let mut places = verdicts.clone();
        places.retain(|_, refusal| refusal.is_none());
        if !kept.is_empty() {
            let answered = (&kept[..], Ok(Wishes::NOTHING), &places);
            self.go_on_subscribing(now, key, answered);
        }
        if !gone.is_empty()
            && let Some(gone) = self.consult_return(key, gone)
        {
            self.ask_again(now, key, gone, Cause::Anew);
        }
    }

    /// The adaptors have judged a session that comes back; what is missing is allowed.
    pub(crate) fn return_judged(
        &mut self,
        now: Tick,
        (key, epoch): (SessionKey, u32),
        mut elements: Vec<Element>,
        denials: &[Option<Denial>],
    ) {
        // What a connection that has ended in the meantime asked for is with its session again.
        if !self.is_still(key, epoch) {
            return;
        }
        for (element, denial) in elements.iter_mut().zip(denials) {
            element.denial.clone_from(denial);
        }
        self.settle(now);
        self.ask_again(now, key, elements, Cause::Anew);
        self.let_go(now, key);
        self.close_overrun(now);
    }

    /// Tells a session which rooms it is out of; gives back what it may still come back to.
    pub(super) fn tell_expelled(
        &mut self,
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
                self.say_about_join(now, key, join_ended(room, why));
            }
        }
        drop(told);
        elements.retain(|element| element.expelled.is_none());
        elements
    }

    /// A session is out of a room to which it will come back, or is about to: it learns it then.
    pub(super) fn expel_returning(&mut self, key: SessionKey, room: &str, why: Expelled) {
        let below = below(room);
        let expel = |elements: &mut [Element]| {
            for element in elements {
                if element.filter.starts_with(below.as_str()) {
                    element.expelled = Some(why);
                }
            }
        };
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        match &mut session.link {
            Link::Away(away) => {
                if let Some(left) = &mut away.left {
                    expel(&mut left.rooms);
                }
            }
            Link::Live(live) if live.is_held() => self.coming_back(key).for_each(expel),
            Link::Live(_) => {}
        }
    }

    /// What a session asks for that comes back, and has no answer to yet.
    fn coming_back(&mut self, key: SessionKey) -> impl Iterator<Item = &mut [Element]> {
        let joining = self.joins.waiting.values_mut();
        let own = joining.filter(move |joining| {
            joining.session == key && !matches!(joining.cause, Cause::Subscribe(_))
        });
        let asked = self.questions.coming_back(key);
        own.map(|joining| &mut joining.elements[..]).chain(asked)
    }

    /// A connection ends before its session is back: it tries again next time.
    pub(super) fn take_returning(&mut self, key: SessionKey) -> Vec<Element> {
        let mut all: Vec<Element> = Vec::new();
        for elements in self.coming_back(key) {
            all.extend(elements.iter().cloned().map(|element| Element {
                denial: None,
                ..element
            }));
        }
        all
    }

    /// Whether something that a session asked for has to be decided first.
    pub(super) fn is_held(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session
            .and_then(|session| session.live())
            .is_some_and(Live::is_held)
    }
}
