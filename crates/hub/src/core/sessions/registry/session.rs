//! A session.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_session::Outbound;
use stentor_topic::FilterId;

use super::{Flushing, Link, Live};
use crate::core::delivery::conflate::Conflating;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::inbound::subscribe::Element;
use crate::core::memory::Account;
use crate::core::sessions::log::SessionLog;
use crate::core::sessions::quota::{ConnectionQuota, Meter};
use crate::core::sessions::state::{Legacy, SessionState};
use crate::core::sessions::tally::Tallies;
use crate::core::settings::Settings;
use crate::effects::Full;

/// The generation of sessions that have ended. No other has it.
pub(super) const RETIRED: u32 = 0;

/// One session: what outlives a connection, and the connection while there is one. Kept small:
/// what most sessions do not have is boxed.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) generation: u32,
    /// Tells timers of the present connection or absence from those of earlier ones.
    pub(crate) epoch: u32,
    pub(crate) state: SessionState,
    /// Kept by [`Sessions`] only.
    pub(super) account: Account,
    pub(crate) link: Link,
}

impl Session {
    /// One that is new, and whose client is not there yet.
    pub(crate) fn new(state: SessionState) -> Self {
        Self {
            generation: RETIRED,
            epoch: 0,
            state,
            account: Account::default(),
            link: Link::nobody(),
        }
    }

    /// Whether it has ended: see [`super::Sessions::retire`].
    #[inline]
    pub(crate) const fn is_retired(&self) -> bool {
        self.generation == RETIRED
    }

    /// Leaves nothing of it but its subscriptions. Returns what it leaves to others.
    pub(super) fn retire(&mut self, log: &mut SessionLog) -> (Legacy, Option<Box<Conflating>>) {
        self.generation = RETIRED;
        let held_back = match core::mem::replace(&mut self.link, Link::nobody()) {
            Link::Away(away) => away.conflating,
            Link::Live(_) => None,
        };
        (self.state.end(log), held_back)
    }

    /// Gives the memory back when nothing is owed.
    pub(crate) fn shrink_owed(&mut self) {
        if let Some(next_id) = self.state.owed.shrink()
            && let Some(live) = self.live_mut()
        {
            live.next_packet_id = next_id;
        }
    }

    /// Where packet ids go on, while nothing is owed.
    pub(crate) fn next_packet_id(&self) -> u16 {
        self.live().map_or(1, |live| live.next_packet_id)
    }

    /// Whether something waited for its client when it was last counted.
    #[inline]
    pub(crate) const fn had_queue(&self) -> bool {
        self.account.has_queue()
    }

    /// Whether a message for it changes nothing but its output, which is counted when it has been
    /// written.
    #[inline]
    pub(super) fn is_counted_by_flush(&self) -> bool {
        let Link::Live(live) = &self.link else {
            return false;
        };
        live.flushing != Flushing::Blocked && live.extras.is_none()
    }

    /// The bound that its queue has met. One more message is above that of messages only when as
    /// many wait; a long one may be above that of bytes though little waits.
    pub(crate) fn full(&self, settings: &Settings) -> Full {
        if let Some(queue) = self.state.queue() {
            return match settings.is_tightened() {
                true => Full::Memory,
                false => Full::Queue(queue.messages, queue.bytes),
            };
        }
        let (charge, messages_max) = (self.charge(), settings.queue_messages_max);
        let bytes_max = self.state.queue_bytes_max(settings);
        if charge.messages >= messages_max {
            Full::Messages(messages_max)
        } else if settings.is_tightened() {
            Full::Memory
        } else if bytes_max < settings.queue_bytes_max {
            Full::Quota(bytes_max)
        } else {
            Full::Bytes(bytes_max)
        }
    }

    /// Applies the quotas of its identity, to the connection too if it has one.
    pub(crate) fn apply_quotas(&mut self) {
        let quotas = self.state.apply_quotas();
        let Link::Live(live) = &mut self.link else {
            return;
        };
        match (Meter::new(quotas), &mut live.extras) {
            (None, None) => {}
            (meter, _) => live.extras().meter = meter,
        }
    }

    /// Counts the connection where the session's identity says from now on.
    pub(crate) fn keep_quota(&mut self) {
        let needs = self.state.identity().rights.needs();
        let Link::Live(live) = &mut self.link else {
            return;
        };
        // The old place first: it may be the same one.
        let claim = live
            .extras
            .as_mut()
            .and_then(|extras| extras.quota.give_up_claim());
        let quota = ConnectionQuota::keep(&needs, claim);
        if !quota.is_empty() {
            live.extras().quota = quota;
        }
    }

    /// Its client is there, and gets what it did not get before. Returns what it subscribed to
    /// in rooms.
    pub(crate) fn attach(&mut self, mut live: Live) -> Vec<Element> {
        let mut rooms = Vec::new();
        if let Link::Away(away) = &mut self.link {
            if let Some(snapshots) = away.snapshots.take() {
                live.extras().snapshots = Some(snapshots);
            }
            if let Some(conflating) = away.conflating.take() {
                live.extras().conflating = Some(conflating);
            }
            if let Some(left) = away.left.take() {
                if left.tally.is_some() {
                    live.extras().tally = left.tally;
                }
                rooms = left.rooms.into_vec();
            }
        }
        self.link = Link::Live(live);
        self.epoch = self.epoch.wrapping_add(1);
        rooms
    }

    /// What has happened to it that happens to few, to be counted there.
    pub(crate) fn tally(&mut self) -> &mut Tallies {
        match &mut self.link {
            Link::Live(live) => live.tally(),
            Link::Away(away) => {
                let left = away.left.get_or_insert_default();
                left.tally.get_or_insert_default()
            }
        }
    }

    /// What has happened to it that happens to few, if anything has.
    pub(crate) fn tallied(&self) -> Option<&Tallies> {
        match &self.link {
            Link::Live(live) => live.extras.as_ref()?.tally.as_deref(),
            Link::Away(away) => away.left.as_ref()?.tally.as_deref(),
        }
    }

    /// How many messages nobody gets if it ends while its client is away: those that wait for it,
    /// without those that other members of its shared subscriptions get. O(messages).
    pub(crate) fn lost_by_end(&self) -> u64 {
        let owed = self.state.owed.get();
        let owed = owed.map_or(0, Outbound::own_len);
        let held_back = match &self.link {
            Link::Away(away) => away.conflating.as_ref(),
            Link::Live(_) => None,
        };
        (owed + held_back.map_or(0, |held| held.charge().messages)) as u64
    }

    /// Its client's retained messages that are still to be sent, while it is there.
    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        self.live()?.extras.as_ref()?.snapshots.as_deref()
    }

    /// What is left of a subscription's snapshot is not wanted any more.
    pub(crate) fn forget_snapshot(&mut self, id: FilterId) {
        if let Some(snapshots) = self.live_mut().and_then(Live::snapshots) {
            snapshots.cancel(id);
        }
    }

    /// Whether it has something that most sessions do not have.
    #[inline]
    pub(crate) const fn is_special(&self) -> bool {
        match &self.link {
            Link::Live(live) => live.extras.is_some(),
            Link::Away(away) => away.conflating.is_some(),
        }
    }

    /// Whether its connection is about to be closed, because too much waits for its client.
    #[inline]
    pub(crate) fn is_given_up(&self) -> bool {
        self.live().is_some_and(Live::is_given_up)
    }

    /// Whether it is connected by MQTT 5.
    pub(crate) fn speaks_v5(&self) -> bool {
        self.live().is_some_and(|live| live.version.is_v5())
    }

    pub(crate) const fn live(&self) -> Option<&Live> {
        match &self.link {
            Link::Live(live) => Some(live),
            Link::Away(_) => None,
        }
    }

    pub(crate) const fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.link {
            Link::Live(live) => Some(live),
            Link::Away(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the memory that an idle connection costs.
    #[test]
    fn a_session_is_small() {
        assert!(size_of::<Session>() <= 200, "{}", size_of::<Session>());
    }
}
