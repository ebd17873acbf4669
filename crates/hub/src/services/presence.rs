//! The users who are there: what the home of a zone publishes on `$presence/<user>`.
//!
//! A session's shard tells the home when a user's connection begins and ends. The home counts the
//! connections of each user, so that a user with several is shown once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_session::{CloseReason, Local, Tick};
use stentor_topic::Zone;
use stentor_zone::Presence;

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::routing::batch;
use crate::core::transitions::Detached;
use crate::services::Item;
use crate::services::interface::message::publish;
use crate::services::interface::who::Who;

/// What a shard tells the home of a zone.
#[derive(Clone, Debug)]
pub(crate) enum PresenceItem {
    /// A connection of a user has begun.
    Arrived(Who),
    /// A connection of a user has ended.
    Departed(Who),
}

/// The users of the zones whose home is this shard.
#[derive(Debug, Default)]
pub(crate) struct PresenceService {
    by_zone: HashMap<Zone, Presence, foldhash::fast::FixedState>,
}

impl PresenceService {
    /// A connection has begun. A user who takes over its own connection is there throughout.
    pub(crate) fn attached(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        predecessor: Option<Who>,
    ) {
        let present = present(core, key);
        let new = present.as_ref().map(|who| who.session);
        if let Some(who) = present {
            self.send(core, now, PresenceItem::Arrived(who));
        }
        if let Some(who) = predecessor.filter(|old| Some(old.session) != new) {
            self.send(core, now, PresenceItem::Departed(who));
        }
    }

    /// A connection has ended.
    pub(crate) fn detached(&mut self, core: &mut Core, now: Tick, detached: &Detached) {
        match detached.reason {
            // Told by who comes in its place.
            CloseReason::Local(Local::TakenOver)
            // Nobody will be there to be told.
            | CloseReason::Local(Local::ShuttingDown) => {}
            _ => {
                let who = Who::new(core, detached.session, &detached.identity);
                if let Some(who) = who.filter(|who| who.identity.user.is_some()) {
                    self.send(core, now, PresenceItem::Departed(who));
                }
            }
        }
    }

    /// Tells the home of a user's zone, which may be this shard.
    fn send(&mut self, core: &mut Core, now: Tick, item: PresenceItem) {
        let (PresenceItem::Arrived(who) | PresenceItem::Departed(who)) = &item;
        let home: ShardId = core.home_of(who.identity.zone);
        if home == core.shard() {
            self.receive(core, now, &item);
        } else {
            core.send_to_shard(home, Item::Presence(Box::new(item)));
        }
    }

    /// At the home: what a shard tells.
    pub(crate) fn receive(&mut self, core: &mut Core, now: Tick, item: &PresenceItem) {
        batch::settle(core, now);
        let mut out = Vec::new();
        let zone = match item {
            PresenceItem::Arrived(who) => {
                core.note_zone(who.identity.zone);
                let present = self.by_zone.entry(who.identity.zone).or_default();
                // How many connections a user may have was decided at its login.
                present.arrive(who.user(), who.session, 0, &mut out);
                who.identity.zone
            }
            PresenceItem::Departed(who) => {
                let zone = who.identity.zone;
                if let Some(present) = self.by_zone.get_mut(&zone) {
                    present.depart(who.user(), who.session, &mut out);
                    if present.is_empty() {
                        self.by_zone.remove(&zone);
                    }
                }
                zone
            }
        };
        publish(core, now, zone, out);
    }

    /// A zone ends: nobody is there any more.
    pub(crate) fn end_zone(&mut self, core: &mut Core, now: Tick, zone: Zone) {
        let mut out = Vec::new();
        if let Some(mut present) = self.by_zone.remove(&zone) {
            present.clear(&mut out);
        }
        publish(core, now, zone, out);
    }

    /// Users of a zone who are there. O(1).
    pub(crate) fn users(&self, zone: Zone) -> u64 {
        let present = self.by_zone.get(&zone);
        present.map_or(0, |users| users.len() as u64)
    }
}

/// A session as the presence of its zone knows it; `None` for who has no name, whom nobody
/// sees, and without a connection.
fn present(core: &Core, key: SessionKey) -> Option<Who> {
    let is_live = core.session(key)?.live().is_some();
    let who = Who::of(core, key).filter(|_| is_live)?;
    who.identity.user.is_some().then_some(who)
}

/// The session whose connection a new one of the same client id takes over.
pub(crate) fn predecessor(core: &Core, zone: Zone, client_id: &str) -> Option<Who> {
    present(core, core.connected(zone, client_id)?)
}
