//! What a client is charged with: all that waits for it or is on its way to it, against one bound.
//!
//! That are the packets in its socket's queue, the messages above QoS 0 until they are
//! acknowledged, and what is held back of topics of which it gets the newest only. Each session is
//! charged in full for what several share.

use stentor_session::{Outbound, Window};

use crate::core::sessions::registry::{Live, Session};
use crate::core::sessions::state::Owed;

/// The messages that wait for one client or are on their way to it, or a part of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// What it costs.
    pub(crate) bytes: usize,
    /// Messages that wait: those in flight do not.
    pub(crate) messages: usize,
}

impl Charge {
    #[inline]
    const fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes + more.bytes,
            messages: self.messages + more.messages,
        }
    }
}

impl Live {
    /// The output that waits for the socket.
    #[inline]
    pub(crate) fn queued(&self) -> Charge {
        self.output
            .as_ref()
            .map_or_else(Charge::default, |output| Charge {
                bytes: output.bytes(),
                messages: output.messages(),
            })
    }

    /// What the session is charged with beside what waits for the socket.
    #[inline]
    pub(crate) fn owed(&self, messages: &Owed) -> Charge {
        let extras = self.extras.as_ref();
        let held = extras.and_then(|extras| extras.conflating.as_ref());
        let held = held.map_or_else(Charge::default, |held| held.charge());
        owed(messages).plus(held)
    }

    /// Whether more messages, of QoS 0, do not fit below a bound. One fits where nothing waits,
    /// whatever is in flight: it goes to the socket.
    #[inline]
    pub(crate) fn is_full(&self, bound: Charge, owed: &Owed, more: Charge) -> bool {
        if self.output.is_none() {
            return more.bytes > bound.bytes;
        }
        let charge = self.queued().plus(self.owed(owed)).plus(more);
        charge.bytes > bound.bytes || charge.messages > bound.messages
    }

    /// How much may be in flight, if the session is charged with `queue_bytes_max` at most: what
    /// waits for the socket already closes the window earlier.
    #[inline]
    pub(crate) fn window(&self, queue_bytes_max: usize) -> Window {
        Window {
            messages: self.window,
            bytes: queue_bytes_max.saturating_sub(self.queued().bytes),
        }
    }
}

impl Session {
    /// What it is charged with beside the messages above QoS 0.
    pub(crate) fn charge_unowed(&self) -> Charge {
        let queued = self.live().map_or_else(Charge::default, Live::queued);
        queued.plus(self.held_charge())
    }

    /// What it is charged with in all.
    pub(crate) fn charge(&self) -> Charge {
        self.charge_unowed().plus(owed(&self.state.owed))
    }

    /// Whether nothing waits for the socket or for an acknowledgement.
    pub(crate) fn is_served(&self) -> bool {
        self.live().is_some_and(|live| live.queued().bytes == 0)
            && self.state.owed.get().is_none_or(Outbound::is_empty)
    }
}

/// The messages above QoS 0.
#[inline]
fn owed(owed: &Owed) -> Charge {
    owed.get().map_or_else(Charge::default, |owed| Charge {
        bytes: owed.held_bytes(),
        messages: owed.held_len(),
    })
}
