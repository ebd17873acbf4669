//! What the operator and the server do to a hub, beside what clients do.

use alloc::string::String;
use alloc::sync::Arc;

use stentor_session::{CloseReason, Limit, Local, Message, Tick};
use stentor_topic::Zone;

use super::Hub;
use super::renew::revoke;
use crate::core::ids::LinkId;
use crate::core::memory::relief;
use crate::core::retained::{Kept, NotKept};
use crate::core::routing::batch;
use crate::core::sessions::{ending, lifecycle};
use crate::core::settings::Settings;
use crate::core::survey::{Part, sessions_of};
use crate::core::upkeep;
use crate::services::interface::hooks::Adaptors;
use crate::services::interface::rooms::{RoomsAsk, RoomsTold};

/// Sessions that end in one step when their zone does.
const ENDED_AT_ONCE: usize = 16;

/// Where the rooms of a zone that ends begin, behind all slots of sessions.
const ROOMS: u64 = 1 << 32;

impl Hub {
    /// What the operator and the server do to a hub.
    #[inline]
    pub const fn operate(&mut self) -> Operate<'_> {
        Operate { hub: self }
    }
}

/// Answers what an operator asks about the rooms of a zone, or does it. This has to be the zone's
/// home, see [`crate::home_of_zone`]. A list or a page of members costs O(`at_most`).
pub fn ask_rooms(hub: &mut Hub, now: Tick, zone: Zone, ask: &RoomsAsk) -> RoomsTold {
    batch::settle(&mut hub.core, now);
    let told = hub.services.ask_rooms(&mut hub.core, now, zone, ask);
    hub.finish(now);
    told
}

/// What the operator and the server do to a hub: see [`Hub::operate`].
pub struct Operate<'a> {
    hub: &'a mut Hub,
}

impl Operate<'_> {
    /// New limits and policies; what is connected keeps what its CONNACK said.
    pub fn reconfigure(self, settings: Arc<Settings>) {
        upkeep::reconfigure(&mut self.hub.core, settings);
        self.hub.services.reconfigure(self.hub.core.settings());
    }

    /// Has other adaptors judge what is done from now on, or none. What waits is judged by those
    /// who were asked.
    pub fn set_adaptors(self, adaptors: Option<Arc<dyn Adaptors>>) {
        self.hub.services.set_adaptors(adaptors);
    }

    /// Closes the connection of a client, and with `end_session` the sessions of all users under
    /// its id too, but for that of a queue. Returns whether there was one.
    pub fn kick(self, now: Tick, zone: Zone, client_id: &str, end_session: bool) -> bool {
        let mut keys = self.hub.core.sessions_of_client(zone, client_id);
        let is_queue =
            |key| (self.hub.core.session(key)).is_some_and(|it| it.state.queue().is_some());
        keys.retain(|key| !is_queue(*key));
        for &key in &keys {
            let reason = CloseReason::Local(Local::Kicked);
            lifecycle::close(&mut self.hub.core, now, key, reason);
            if end_session {
                ending::end(&mut self.hub.core, now, key);
            }
        }
        self.hub.finish(now);
        !keys.is_empty()
    }

    /// Closes the connection of a client for which more memory is held elsewhere than there may be.
    pub fn cut(self, now: Tick, zone: Zone, client_id: &str) {
        for key in self.hub.core.sessions_of_client(zone, client_id) {
            let reason = CloseReason::Limit(Limit::Memory);
            lifecycle::close(&mut self.hub.core, now, key, reason);
        }
        self.hub.finish(now);
    }

    /// A zone ends, in steps: closes its connections, ends its sessions, and its rooms if this is
    /// their home. Wills are not published. A step begins at a place, looks into 256 slots, and
    /// ends 16 sessions or rooms. It returns how many sessions that were, and where the next step
    /// begins; `None` after the last one.
    pub fn end_zone(self, now: Tick, zone: Zone, from: u64) -> Part<u64> {
        batch::settle(&mut self.hub.core, now);
        let part = match from < ROOMS {
            true => end_sessions(self.hub, now, zone, from),
            false => Part {
                found: 0,
                next: end_rooms(self.hub, now, zone),
            },
        };
        self.hub.finish(now);
        part
    }

    /// Closes all connections because the server stops. Wills stay unpublished: their readers
    /// are disconnected too. `elsewhere` names the server that the client of a connection may use
    /// instead. An MQTT 5 client receives it with 0x9C, if its maximum packet size allows that.
    pub fn shut_down(self, now: Tick, elsewhere: impl Fn(LinkId) -> Option<String>) {
        lifecycle::shut_down(&mut self.hub.core, now, elsewhere);
        self.hub.finish(now);
    }

    /// Memory is short: the server has to free this many bytes. This shard gives its part of them
    /// in this turn and the next ones, by sessions that wait for their clients. First those of
    /// whoever holds most in that way, the one that is closest to its end before others. They
    /// give what they hold of all that is held, of whatever kind, and no more: what clients hold
    /// that are there does not make others lose their sessions.
    pub fn relieve(self, now: Tick, bytes: u64) {
        relief::begin(&mut self.hub.core, now, bytes);
        self.hub.finish(now);
    }

    /// An eighth of what the sessions hold that wait for their clients goes with them, in the same
    /// order: their messages may keep far more memory than they count.
    pub fn unpin(self, now: Tick) {
        relief::unpin(&mut self.hub.core, now);
        self.hub.finish(now);
    }

    /// Has a message kept by `put`, and then routes it, after everything that came before it. Under
    /// `keep = "last"` this has to be the shard that orders its topic, see [`crate::home_shard`].
    ///
    /// # Errors
    /// When there is no memory for it, and what `put` says: then nobody gets the message.
    pub fn keep_by(
        self,
        now: Tick,
        message: Arc<Message>,
        put: impl FnOnce(&Message) -> Result<Kept, NotKept>,
    ) -> Result<Kept, NotKept> {
        let kept = upkeep::keep_by(&mut self.hub.core, now, message, put);
        self.hub.finish(now);
        kept
    }
}

/// A step of the end of a zone, as long as there are sessions to look at.
fn end_sessions(hub: &mut Hub, now: Tick, zone: Zone, from: u64) -> Part<u64> {
    let Part { found, next } = sessions_of(&hub.core, zone, from, ENDED_AT_ONCE);
    for &key in &found {
        revoke(hub, now, key, true);
    }
    hub.hear(now);
    Part {
        found: found.len() as u64,
        next: next.or(Some(ROOMS)),
    }
}

/// The same with rooms. Returns where to go on, if there are more.
fn end_rooms(hub: &mut Hub, now: Tick, zone: Zone) -> Option<u64> {
    if !hub.services.end_zone(&mut hub.core, now, zone) {
        return Some(ROOMS);
    }
    hub.core.forget_traffic(zone);
    None
}
