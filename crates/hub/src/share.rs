//! Shared subscriptions: each message goes to one member of the group.
//!
//! Every shard knows, for each shared subscription, how many members each shard has. The shard
//! that took a message picks a shard by these numbers, that shard picks one of its members in
//! turn. The numbers travel through the control lanes, which are emptied before bytes that were
//! read later are applied; so a publish after a SUBACK is seen by the new member.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use slab::Slab;
use stentor_mqtt::QoS;
use stentor_session::{Delivery, Message, Tick};
use stentor_topic::{FilterId, Zone};

use crate::deliver::Terms;
use crate::effects::{ControlItem, MeshItem};
use crate::hub::Hub;
use crate::key::{SessionKey, ShardId};
use crate::options::{Options, share_subscriber};
use crate::route::Counter;
use crate::sessions::Sessions;
use crate::subscribe::SubscriptionRef;

/// How many shards may look for a member before a message is given up: members that leave while
/// it travels cost one each.
const HOPS_MAX: u8 = 8;

/// How the search for a member of a shared subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// How many shards may still pass the message on when its member has left.
    hops: u8,
    /// A bit for each shard where no member may receive the message.
    refused: u64,
}

impl Search {
    const NEW: Self = Self {
        hops: HOPS_MAX,
        refused: 0,
    };
}

/// Which shared subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShareName {
    /// The zone of its members.
    pub zone: Zone,
    /// The name after `$share/`.
    pub group: Box<str>,
    /// The filter.
    pub filter: Box<str>,
}

impl ShareName {
    /// The bytes of a subscription to it, as a client writes it.
    fn text_len(&self) -> usize {
        "$share//".len() + self.group.len() + self.filter.len()
    }
}

#[derive(Debug)]
struct Share {
    name: Arc<ShareName>,
    /// Unique, so that deliveries that outlive the slot name nothing.
    number: u64,
    filter: FilterId,
    /// The members on this shard.
    members: Vec<(u32, Options)>,
    /// Members per shard, this one included.
    counts: Vec<Count>,
    /// Whose turn it is, of shards and of members.
    turn: u32,
    member_turn: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    live: u32,
    away: u32,
}

/// All shared subscriptions that a shard knows of.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    slots: Slab<Share>,
    by_name: HashMap<Arc<ShareName>, u32, foldhash::fast::FixedState>,
    numbers: u64,
}

impl Shares {
    pub(crate) fn find(&self, zone: Zone, group: &str, filter: &str) -> Option<u32> {
        if self.by_name.is_empty() {
            return None;
        }
        let name = ShareName {
            zone,
            group: group.into(),
            filter: filter.into(),
        };
        self.by_name.get(&name).copied()
    }

    /// As it stands in a SUBSCRIBE.
    pub(crate) fn text(&self, slot: u32) -> String {
        self.slots
            .get(slot as usize)
            .map_or_else(String::new, |share| {
                format!("$share/{}/{}", share.name.group, share.name.filter)
            })
    }

    /// How many bytes that is.
    pub(crate) fn text_len(&self, slot: u32) -> usize {
        let name = self.slots.get(slot as usize).map(|share| &share.name);
        name.map_or(0, |name| name.text_len())
    }

    /// What its members subscribed to.
    pub(crate) fn filter(&self, slot: u32) -> &str {
        let share = self.slots.get(slot as usize);
        share.map_or("", |share| &share.name.filter)
    }

    /// All of them, with the number of members on this shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ShareName, usize)> {
        let shares = self.slots.iter();
        shares.map(|(_, share)| (&*share.name, share.members.len()))
    }

    fn by_number(&self, number: u64) -> Option<u32> {
        let slot = (number & 0xFFFF_FFFF) as u32;
        self.slots
            .get(slot as usize)
            .filter(|share| share.number == number)
            .map(|_| slot)
    }
}

impl Share {
    /// The shard whose turn it is, weighted by its members: those with a connection first, and
    /// those without only for messages that can wait. `refused` has a bit for each shard where no
    /// member may receive the message.
    fn next_shard(&mut self, qos: QoS, refused: u64) -> Option<ShardId> {
        let counts = || {
            let is_left = move |(shard, _): &(usize, &Count)| refused >> *shard & 1 == 0;
            self.counts.iter().enumerate().filter(is_left)
        };
        let live: u32 = counts().map(|(_, count)| count.live).sum();
        let away: u32 = counts().map(|(_, count)| count.away).sum();
        let (total, of): (u32, fn(&Count) -> u32) = match (live, away, qos) {
            (1.., _, _) => (live, |count| count.live),
            (0, 1.., QoS::AtLeastOnce | QoS::ExactlyOnce) => (away, |count| count.away),
            _ => return None,
        };
        let turn = self.turn.wrapping_add(1);
        let mut place = turn % total;
        let mut chosen = None;
        for (shard, count) in counts() {
            if place < of(count) {
                chosen = u8::try_from(shard).ok().map(ShardId);
                break;
            }
            place -= of(count);
        }
        self.turn = turn;
        chosen
    }

    /// The member whose turn it is, those with a connection first, of those that may receive
    /// the topic.
    fn next_member(&mut self, sessions: &Sessions, topic: &str) -> Option<(u32, Options)> {
        let len = self.members.len();
        let start = self.member_turn;
        let may_receive = |at: &usize| {
            let session = sessions.at(self.members[*at].0);
            session.is_some_and(|session| session.may_receive(topic))
        };
        let turns = (0..len)
            .map(|step| (start + step) % len)
            .filter(may_receive);
        let is_live = |slot: u32| {
            sessions
                .at(slot)
                .is_some_and(|session| session.live().is_some())
        };
        let at = turns
            .clone()
            .find(|at| is_live(self.members[*at].0))
            // Who is away gets nothing at QoS 0.
            .or_else(|| {
                turns
                    .clone()
                    .find(|at| self.members[*at].1.qos() > QoS::AtMostOnce)
            })
            .or_else(|| turns.into_iter().next())?;
        self.member_turn = (at + 1) % len;
        Some(self.members[at])
    }
}

impl Hub {
    /// The slot of a shared subscription, made if it is new here.
    fn open_share(&mut self, name: &Arc<ShareName>) -> u32 {
        if let Some(slot) = self.shares.by_name.get(name) {
            return *slot;
        }
        let slot = u32::try_from(self.shares.slots.vacant_key()).unwrap_or(u32::MAX);
        let subscriber = share_subscriber(slot);
        let filter = self.index.insert(name.zone, &name.filter, subscriber).id;
        self.shares.numbers += 1;
        self.shares.slots.insert(Share {
            name: Arc::clone(name),
            number: self.shares.numbers << 32 | u64::from(slot),
            filter,
            members: Vec::new(),
            counts: alloc::vec![Count::default(); usize::from(self.shards)],
            turn: 0,
            member_turn: 0,
        });
        self.shares.by_name.insert(Arc::clone(name), slot);
        slot
    }

    /// Makes a session a member; returns whether it was none.
    pub(crate) fn join_share(
        &mut self,
        key: SessionKey,
        zone: Zone,
        group: &str,
        filter: &str,
        options: Options,
    ) -> bool {
        let name = ShareName {
            zone,
            group: group.into(),
            filter: filter.into(),
        };
        let slot = self.open_share(&Arc::new(name));
        let Some(share) = self.shares.slots.get_mut(slot as usize) else {
            return false;
        };
        let subscription = SubscriptionRef::Share(slot);
        let Some(session) = self.sessions.get_mut(key) else {
            self.close_share_if_empty(slot);
            return false;
        };
        // Whichever list is shorter tells whether it is a member already.
        let is_known = share.members.len() <= session.subscriptions.len()
            || session.subscriptions.contains(&subscription);
        let mut members = share.members.iter_mut();
        let is_member = |(member, _): &&mut (u32, Options)| *member == key.slot;
        if is_known && let Some((_, old)) = members.find(is_member) {
            *old = options;
            return false;
        }
        session.subscribed(subscription, share.name.text_len());
        share.members.push((key.slot, options));
        self.stats.subscriptions += 1;
        self.adjust_share(slot, |count| count.live += 1);
        true
    }

    /// A session that is gone, or goes, leaves; `was_live` says as what it was counted.
    pub(crate) fn leave_share(&mut self, slot: u32, session: u32, was_live: bool) {
        let Some(share) = self.shares.slots.get_mut(slot as usize) else {
            return;
        };
        if let Some(at) = share
            .members
            .iter()
            .position(|(member, _)| *member == session)
        {
            share.members.swap_remove(at);
            self.adjust_share(slot, |count| {
                let of = if was_live {
                    &mut count.live
                } else {
                    &mut count.away
                };
                *of = of.saturating_sub(1);
            });
        }
    }

    /// The connection of a member begins or ends.
    pub(crate) fn member_changed(&mut self, slot: u32, is_live: bool) {
        self.adjust_share(slot, |count| {
            let (up, down) = if is_live {
                (&mut count.live, &mut count.away)
            } else {
                (&mut count.away, &mut count.live)
            };
            *up += 1;
            *down = down.saturating_sub(1);
        });
    }

    /// Changes the numbers of this shard and tells the other shards.
    fn adjust_share(&mut self, slot: u32, change: impl FnOnce(&mut Count)) {
        let Some(share) = self.shares.slots.get_mut(slot as usize) else {
            return;
        };
        let count = &mut share.counts[usize::from(self.shard.0)];
        change(count);
        for shard in (0..self.shards).filter(|shard| *shard != self.shard.0) {
            let item = ControlItem::ShareCount {
                name: Arc::clone(&share.name),
                shard: self.shard,
                live: count.live,
                away: count.away,
            };
            self.effects.lanes.push((ShardId(shard), item));
        }
        self.close_share_if_empty(slot);
    }

    /// Another shard's numbers.
    pub(crate) fn count_share(
        &mut self,
        name: &Arc<ShareName>,
        shard: ShardId,
        live: u32,
        away: u32,
    ) {
        let slot = self.open_share(name);
        if let Some(share) = self.shares.slots.get_mut(slot as usize)
            && let Some(count) = share.counts.get_mut(usize::from(shard.0))
        {
            *count = Count { live, away };
        }
        self.close_share_if_empty(slot);
    }

    fn close_share_if_empty(&mut self, slot: u32) {
        let Some(share) = self.shares.slots.get(slot as usize) else {
            return;
        };
        if share.members.is_empty() && share.counts.iter().all(|count| *count == Count::default()) {
            self.index
                .remove(share.filter, share_subscriber(slot).session);
            self.shares.by_name.remove(&share.name);
            self.shares.slots.remove(slot as usize);
        }
    }

    /// A message that this shard took, for one member anywhere.
    pub(crate) fn deliver_shared(&mut self, now: Tick, slot: u32, message: &Arc<Message>) {
        let Some(share) = self.shares.slots.get_mut(slot as usize) else {
            return;
        };
        let name = Arc::clone(&share.name);
        self.pass_on(now, &name, message, Search::NEW);
    }

    fn pass_on(
        &mut self,
        now: Tick,
        name: &Arc<ShareName>,
        message: &Arc<Message>,
        mut search: Search,
    ) {
        let Some(slot) = self.shares.by_name.get(name) else {
            return;
        };
        let Some(share) = self.shares.slots.get_mut(*slot as usize) else {
            return;
        };
        let shard = share.next_shard(message.qos, search.refused);
        let (Some(shard), Some(hops)) = (shard, search.hops.checked_sub(1)) else {
            if search.refused != 0 {
                self.stats.publishes_withheld += 1;
            }
            return;
        };
        search.hops = hops;
        if shard == self.shard {
            self.deliver_shared_here(now, name, message, search);
        } else {
            let item = MeshItem::Share {
                name: Arc::clone(name),
                message: Arc::clone(message),
                search,
            };
            self.effects.mesh.push((shard, item));
        }
    }

    /// A message for one member here; picked again elsewhere if the last one has left meanwhile,
    /// or none may receive it.
    pub(crate) fn deliver_shared_here(
        &mut self,
        now: Tick,
        name: &Arc<ShareName>,
        message: &Arc<Message>,
        mut search: Search,
    ) {
        let share = self.shares.by_name.get(name).copied();
        let Some(share) = share.and_then(|slot| self.shares.slots.get_mut(slot as usize)) else {
            return self.pass_on(now, name, message, search);
        };
        let Some((member, options)) = share.next_member(&self.sessions, message.topic()) else {
            if !share.members.is_empty() {
                // Shards are counted once each, so this search ends as well.
                search.refused |= 1 << self.shard.0;
                search.hops = search.hops.saturating_add(1);
            }
            return self.pass_on(now, name, message, search);
        };
        let ids = [options.id()];
        let ids = if ids == [0] { &[][..] } else { &ids[..] };
        let terms = Terms::new(message, options, ids, share.number);
        let mut parcel = self.parcel(message);
        self.counter(now).hand_over(&mut parcel, member, &terms);
    }

    pub(crate) fn counter(&mut self, now: Tick) -> Counter<'_> {
        Counter {
            now,
            sessions: &mut self.sessions,
            outbox: &mut self.outbox,
            settings: &self.settings,
            stats: &mut self.stats,
            losses: &mut self.losses,
            traffic: &mut self.traffic,
            overrun: &mut self.overrun,
            events: &mut self.effects.events,
            reach: stentor_zone::Reach::Nobody,
        }
    }

    /// A member's session has ended: what it did not acknowledge goes to another one.
    pub(crate) fn deliver_again(&mut self, now: Tick, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            if let Some(slot) = self.shares.by_number(delivery.share) {
                self.deliver_shared(now, slot, &delivery.message);
            }
        }
    }
}
