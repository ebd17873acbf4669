//! What one session makes the server hold.

use stentor_session::{Outbound, WillRequest, backlog};

use super::laden::LADEN_BYTES;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::sessions::registry::{Extras, Link, Live, Session};
use crate::core::sessions::rights::Identity;

/// The place of a session in the tables of its shard.
const PLACE_BYTES: usize = 16;

/// What an allocation costs beside its bytes.
const BOX_BYTES: usize = 16;

/// Set in [`Account::own`] while the session is to be counted again.
const MARK: u32 = 1 << 31;

/// What a session made the server hold when it was last counted, in bytes; nobody holds more than
/// the two numbers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// The session itself, its subscriptions, aliases and will, and the packet ids of what its
    /// client has sent and not released; and [`MARK`].
    own: u32,
    /// Messages that wait for its client or are in flight to it, and a long will, which waits for
    /// its end.
    queued: u32,
}

impl Account {
    /// Counts a session. O(1).
    pub(crate) fn of(session: &Session) -> Self {
        let (in_link, snapshots) = link_bytes(&session.link);
        let will = session.state.will().map_or(0, WillRequest::bytes);
        let (short_will, long_will) = match will > LADEN_BYTES {
            false => (will, 0),
            true => (0, will),
        };
        let own = size_of::<Session>()
            + PLACE_BYTES
            + session.state.client_id().len()
            + size_of::<Identity>()
            + session.state.subscriptions.bytes()
            + session.state.arrivals.bytes()
            + short_will
            + in_link
            + session
                .tallied()
                .map_or(0, |tallies| tallies.bytes() + BOX_BYTES);
        let outbound = session.state.owed.get();
        let begun = session.live().map_or(0, Live::begun_bytes);
        let queued = session.charge().bytes
            + begun
            + long_will
            + outbound.map_or(0, |owed| {
                let under_way = owed.bytes() - owed.held_bytes();
                size_of::<Outbound>() + backlog::memory(owed) + under_way
            })
            + snapshots.map_or(0, Snapshots::bytes);
        Self {
            own: u32::try_from(own).unwrap_or(MARK - 1).min(MARK - 1),
            queued: u32::try_from(queued).unwrap_or(u32::MAX),
        }
    }

    /// The session has changed, perhaps. Returns whether it was marked before.
    #[inline]
    pub(crate) const fn mark(&mut self) -> bool {
        let was_marked = self.is_marked();
        self.own |= MARK;
        was_marked
    }

    #[inline]
    pub(crate) const fn is_marked(self) -> bool {
        self.own & MARK != 0
    }

    /// Whether something waited for its client when it was last counted.
    #[inline]
    pub(crate) const fn has_queue(self) -> bool {
        self.queued > 0
    }

    /// Whether much waited for its client then.
    #[inline]
    pub(crate) const fn is_laden(self) -> bool {
        self.queued as usize > LADEN_BYTES
    }

    /// The session itself, and what waits for its client, in bytes.
    pub(crate) const fn parts(self) -> (u64, u64) {
        ((self.own & !MARK) as u64, self.queued as u64)
    }

    /// About what is written down of it, if it lasts: of a session itself, far less than it takes.
    pub(crate) const fn about_written(self) -> u64 {
        let (own, queued) = self.parts();
        own / 4 + queued
    }

    /// Both together.
    pub(crate) const fn bytes(self) -> u64 {
        let (own, queued) = self.parts();
        own + queued
    }
}

/// What the connection of a session takes, and its snapshots.
fn link_bytes(link: &Link) -> (usize, Option<&Snapshots>) {
    match link {
        Link::Live(live) => {
            let extras = live.extras.as_deref();
            let snapshots = extras.and_then(|extras| extras.snapshots.as_deref());
            (extras.map_or(0, extras_bytes), snapshots)
        }
        Link::Away(away) => (0, away.snapshots.as_deref()),
    }
}

fn extras_bytes(extras: &Extras) -> usize {
    let received = extras.received_aliases.as_ref();
    let sent = extras.sent_aliases.as_ref();
    size_of::<Extras>()
        + BOX_BYTES
        + received.map_or(0, stentor_session::ReceivedAliases::bytes)
        + sent.map_or(0, stentor_session::SentAliases::bytes)
}
