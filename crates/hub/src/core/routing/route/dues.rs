//! What messages of other shards' clients have cost this one.
//!
//! A message that is cheap where its publisher is may be expensive where its subscribers are. What
//! is beyond the free visits of a message is charged to its publisher there as well. It is added up
//! until all that came through the mesh is taken, for there may be many messages of a few clients.

use alloc::vec::Vec;

use stentor_session::Tick;

use crate::core::ids::{SessionKey, ShardId};
use crate::core::work::PUBLISH_VISITS_FREE;
use crate::core::{Core, work};
use crate::items::{Sender, ShardItem};

/// This many clients are kept apart before all of them are reported.
const CLIENTS_MAX: usize = 16;

/// Visits that clients of other shards have caused here, and do not know of yet.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    clients: Vec<(ShardId, SessionKey, u32)>,
}

impl Dues {
    fn add(&mut self, sender: Sender, visits: u32) {
        let mut newest_first = self.clients.iter_mut().rev();
        let own = newest_first
            .find(|(shard, session, _)| (*shard, *session) == (sender.shard, sender.session));
        match own {
            Some((_, _, due)) => *due = due.saturating_add(visits),
            None => self.clients.push((sender.shard, sender.session, visits)),
        }
    }
}

/// Messages have cost this many visits: whoever sent them owes for what is not free, unless it
/// is charged by `Hub::receive`.
#[inline]
pub(crate) fn charge_sender(core: &mut Core, now: Tick, sender: Option<Sender>, visits: u32) {
    if visits > PUBLISH_VISITS_FREE
        && let Some(sender) = sender
    {
        charge_elsewhere(core, now, sender, visits - PUBLISH_VISITS_FREE);
    }
}

#[cold]
fn charge_elsewhere(core: &mut Core, now: Tick, sender: Sender, visits: u32) {
    if sender.shard == core.place.shard {
        if core.routing.routes.reading != Some(sender.session) {
            work::charge_visits(core, now, sender.session, visits);
        }
        return;
    }
    core.routing.routes.dues.add(sender, visits);
    if core.routing.routes.dues.clients.len() > CLIENTS_MAX {
        charge_senders(core);
    }
}

/// Tells other shards what messages of their clients have cost here.
pub(in crate::core) fn charge_senders(core: &mut Core) {
    let dues = core.routing.routes.dues.clients.drain(..);
    let items = dues
        .map(|(shard, session, visits)| (shard, ShardItem::ChargePublisher { session, visits }));
    core.effects.control_items.extend(items);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_added_up_for_each_client() {
        let mut dues = Dues::default();
        let sender = |shard, slot, epoch| Sender {
            shard: ShardId(shard),
            session: SessionKey {
                slot,
                generation: 1,
            },
            epoch,
        };
        for (sender, visits) in [
            (sender(1, 1, 1), 10),
            (sender(2, 1, 1), 20),
            (sender(1, 2, 1), u32::MAX),
            (sender(1, 1, 2), 1),
            (sender(1, 2, 1), 5),
        ] {
            dues.add(sender, visits);
        }
        let visits: Vec<_> = dues.clients.iter().map(|(_, _, visits)| *visits).collect();
        assert_eq!(visits, [11, 20, u32::MAX]);
    }
}
