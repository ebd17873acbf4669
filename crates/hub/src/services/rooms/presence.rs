//! The users who are there: what the home of a zone publishes on `$presence/<user>`.
//!
//! A session's shard tells the home when a user's connection begins and ends. The home counts the
//! connections of each user, so that a user with several is shown once.

use alloc::vec::Vec;

use stentor_session::{CloseReason, Local, Tick};

use super::{RoomItem, Who};
use crate::core::ids::SessionKey;
use crate::hub::Hub;

impl Hub {
    /// A session as the presence of its zone knows it; `None` for who has no name, whom nobody
    /// sees, and without a connection.
    fn present(&self, key: SessionKey) -> Option<Who> {
        let is_live = self.sessions.get(key)?.live().is_some();
        let who = self.who(key).filter(|_| is_live)?;
        who.identity.user.is_some().then_some(who)
    }

    /// The session whose connection a new one of the same client id takes over.
    pub(crate) fn predecessor(&self, zone: stentor_topic::Zone, client_id: &str) -> Option<Who> {
        self.present(self.sessions.connected(zone, client_id)?)
    }

    /// A connection has begun. A user who takes over its own connection is there throughout.
    pub(crate) fn arrived(&mut self, now: Tick, key: SessionKey, predecessor: Option<Who>) {
        let present = self.present(key);
        let new = present.as_ref().map(|who| who.seat);
        if let Some(who) = present {
            let home = self.home_of(who.identity.zone);
            self.send_room(now, home, RoomItem::Arrived { who });
        }
        if let Some(who) = predecessor.filter(|old| Some(old.seat) != new) {
            self.departed(now, who);
        }
    }

    /// A connection ends.
    pub(crate) fn disconnect_presence(&mut self, now: Tick, key: SessionKey, reason: CloseReason) {
        match reason {
            // Told by who comes in its place.
            CloseReason::Local(Local::TakenOver)
            // Nobody will be there to be told.
            | CloseReason::Local(Local::ShuttingDown) => {}
            _ => {
                if let Some(who) = self.present(key) {
                    self.departed(now, who);
                }
            }
        }
    }

    fn departed(&mut self, now: Tick, who: Who) {
        let home = self.home_of(who.identity.zone);
        self.send_room(now, home, RoomItem::Departed { who });
    }

    /// At the home: somebody is there.
    pub(super) fn home_arrived(&mut self, now: Tick, who: &Who) {
        let (zone, mut out) = (who.identity.zone, Vec::new());
        let present = self.zones.presence.entry(zone).or_default();
        // How many connections a user may have was decided at its login.
        present.arrive(who.user(), who.seat, 0, &mut out);
        self.perform(now, zone, "", out);
    }

    /// At the home: somebody has gone.
    pub(super) fn home_departed(&mut self, now: Tick, who: &Who) {
        let (zone, mut out) = (who.identity.zone, Vec::new());
        if let Some(present) = self.zones.presence.get_mut(&zone) {
            present.depart(who.user(), who.seat, &mut out);
            if present.is_empty() {
                self.zones.presence.remove(&zone);
            }
        }
        self.perform(now, zone, "", out);
    }
}
