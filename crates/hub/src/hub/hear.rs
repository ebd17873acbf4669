//! What the core notes, told to the services, and what these want of each other.

use stentor_session::Tick;

use super::Hub;
use crate::core::transitions::Transition;

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
            } else if self.services.has_requests() {
                self.serve_request(now);
            } else {
                return;
            }
        }
    }

    #[cold]
    fn hear_of(&mut self, now: Tick, transition: Transition) {
        let (core, services) = (&mut self.core, &mut self.services);
        match transition {
            Transition::Detached(detached) => services.detached(core, now, &detached),
            Transition::WillDue(due) => self.will_due(now, &due),
            of_rooms => services.hear_of_rooms(core, now, of_rooms),
        }
    }

    /// Does one thing that a service wants of another.
    #[cold]
    fn serve_request(&mut self, now: Tick) {
        let placed = self.services.serve_request(&mut self.core, now);
        #[cfg(feature = "hooks")]
        if let Some(placed) = placed {
            self.placed(now, &placed);
        }
    }
}
