//! What the core notes, told to the services, and what these want of each other.

use stentor_session::Tick;

use super::Hub;
use super::wills::will_due;
use crate::core::routing::batch;
use crate::core::sessions::lifecycle;
use crate::core::transitions::{self, Transition};

impl Hub {
    /// The end of every call: services hear of what has happened, and connections that policies
    /// have given up are closed, as far as the turn allows.
    #[inline]
    pub(crate) fn finish(&mut self, now: Tick) {
        if transitions::has_news(&self.core) || self.services.has_requests() {
            finish_news(self, now);
        }
    }

    /// [`Hub::finish`], but what waits for more messages of its kind goes on waiting.
    #[inline]
    pub(crate) fn finish_unsettled(&mut self, now: Tick) {
        self.hear(now);
        lifecycle::close_overrun(&mut self.core, now);
        self.hear(now);
    }

    /// Tells the services what has happened since the core was called, until nothing follows.
    #[inline]
    pub(crate) fn hear(&mut self, now: Tick) {
        loop {
            if let Some(transition) = transitions::next(&mut self.core) {
                hear_of(self, now, transition);
            } else if self.services.has_requests() {
                serve_request(self, now);
            } else {
                return;
            }
        }
    }
}

fn finish_news(hub: &mut Hub, now: Tick) {
    batch::settle(&mut hub.core, now);
    hub.finish_unsettled(now);
}

#[cold]
fn hear_of(hub: &mut Hub, now: Tick, transition: Transition) {
    let (core, services) = (&mut hub.core, &mut hub.services);
    match transition {
        Transition::Detached(detached) => services.detached(core, now, &detached),
        Transition::WillDue(due) => will_due(hub, now, &due),
        of_rooms => services.hear_of_rooms(core, now, of_rooms),
    }
}

/// Does one thing that a service wants of another.
#[cold]
fn serve_request(hub: &mut Hub, now: Tick) {
    let placed = hub.services.serve_request(&mut hub.core, now);
    #[cfg(feature = "hooks")]
    if let Some(placed) = placed {
        super::judged::placed(hub, now, &placed);
    }
}
