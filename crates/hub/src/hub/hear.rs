//! What the core notes, told to the services, and what these want of each other.

use stentor_session::Tick;

use super::Hub;
use crate::core::transitions::{Detached, Transition};
use crate::services::interface::broadcast::Fate;
use crate::services::rooms::{Cause, RoomRequest};

impl Hub {
    /// The end of every call: services hear of what has happened, and connections that policies
    /// have given up are closed, as far as the turn allows.
    #[inline]
    pub(crate) fn finish(&mut self, now: Tick) {
        if self.core.has_news() || self.services.has_requests() {
            self.finish_news(now);
        }
    }

    fn finish_news(&mut self, now: Tick) {
        self.core.settle(now);
        self.finish_unsettled(now);
    }

    /// [`Hub::finish`], but what waits for more messages of its kind goes on waiting.
    #[inline]
    pub(crate) fn finish_unsettled(&mut self, now: Tick) {
        self.hear(now);
        self.core.close_overrun(now);
        self.hear(now);
    }

    /// Tells the services what has happened since the core was called, until nothing follows.
    #[inline]
    pub(crate) fn hear(&mut self, now: Tick) {
        loop {
            if let Some(transition) = self.core.next_transition() {
                self.hear_of(now, transition);
            } else if let Some(request) = self.services.rooms.requests.pop_front() {
                self.serve_rooms(now, request);
            } else if let Some((home, item)) = self.services.hooks.requests.pop_front() {
                self.services
                    .rooms
                    .send_room(&mut self.core, now, home, item);
            } else if let Some((part, response)) = self.services.private.told.pop_front() {
                self.services.calls.tell(&part, Fate::Private(response));
            } else {
                return;
            }
        }
    }

    #[cold]
    fn hear_of(&mut self, now: Tick, transition: Transition) {
        let (core, rooms) = (&mut self.core, &mut self.services.rooms);
        match transition {
            Transition::Detached(detached) => self.detached(now, &detached),
            Transition::RightsChanged { session, before } => {
                rooms.review_rooms(core, now, session, &before);
            }
            Transition::WillDue(due) => self.will_due(now, &due),
            Transition::LeftRooms(session, filters) => {
                let filters = filters.iter().map(|filter| &**filter);
                rooms.unsubscribed_rooms(core, now, session, filters);
            }
            Transition::WantsRooms(zone) => rooms.list_rooms(core, now, zone),
            Transition::Unexplained(session, unexplained) => {
                crate::services::rooms::explain(core, now, session, &unexplained);
            }
            Transition::Entered(session, ticket, is_same) => {
                rooms.entered(core, now, ticket, (session, is_same));
            }
        }
    }

    fn detached(&mut self, now: Tick, detached: &Detached) {
        let (core, services) = (&mut self.core, &mut self.services);
        services.hooks.tell_of_end(detached);
        services.serving.lose_server(detached.session);
        if detached.was_held {
            let returning = services.hooks.take_returning(detached.session);
            core.keep_for_return(detached.session, returning);
        }
        services.rooms.disconnect_rooms(core, now, detached);
        services.presence.detached(core, now, detached);
    }

    /// What rooms want of other services.
    #[cold]
    fn serve_rooms(&mut self, now: Tick, request: RoomRequest) {
        match request {
            RoomRequest::Answer(answer) => self.answered(now, &answer),
            RoomRequest::Placed(ticket, found) => self.placed(now, ticket, &found),
            RoomRequest::Return(key, elements) => {
                let hooks = &mut self.services.hooks;
                if let Some(elements) = hooks.consult_return(&mut self.core, key, elements) {
                    let rooms = &mut self.services.rooms;
                    rooms.ask_again(&mut self.core, now, key, elements, Cause::Anew);
                }
            }
            RoomRequest::Expel(key, room, why) => self.services.hooks.expel(key, &room, why),
            RoomRequest::Tell(zone, happening) => {
                self.services.hooks.tell_of_room(zone, happening);
            }
        }
    }
}
