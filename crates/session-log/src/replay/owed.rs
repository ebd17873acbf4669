//! What a session is owed, while its records are applied.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::spool::Spool;
use crate::list::List;
use crate::message::Terms;
use crate::name::Name;
use crate::queue::{Debt, HeldBack, Owed as OwedItem, Part};
use crate::session::{Filter, Share, Subscription};
use crate::spooled::Spooled;

/// The terms of all deliveries: those that follow one another mostly have the same.
#[derive(Debug, Default)]
pub(super) struct AllTerms<'a>(Vec<Terms<'a>>);

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermsId(u32);

impl<'a> AllTerms<'a> {
    pub(super) fn add(&mut self, terms: Terms<'a>) -> TermsId {
        if self.0.last() != Some(&terms) {
            self.0.push(terms);
        }
        TermsId(self.0.len() as u32 - 1)
    }

    pub(super) fn get(&self, id: TermsId) -> Option<&Terms<'a>> {
        self.0.get(id.0 as usize)
    }
}

/// A delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) delivery: u64,
    pub(super) packet_id: Option<PacketId>,
    pub(super) state: State,
}

/// What has become of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Owed(Name, TermsId),
    /// The client has it, and its packet id is to be released.
    Received,
    Done,
}

/// What a session is owed.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// In the order of their numbers.
    pub(super) queue: VecDeque<Entry>,
    /// What lies elsewhere.
    pub(super) spool: Spool,
}

/// Deliveries as they were written down.
pub(super) fn entries<'r, 'a: 'r>(
    shares: List<'a, Share<'a>>,
    owed: List<'a, OwedItem<'a>>,
    terms: &'r mut AllTerms<'a>,
) -> impl Iterator<Item = Entry> + 'r {
    let shares: Vec<Share<'a>> = shares.iter().collect();
    owed.iter().map(move |owed| Entry {
        delivery: owed.delivery,
        packet_id: owed.packet_id,
        state: match owed.debt {
            Debt::Message(name, its, place) => {
                let share = place.and_then(|place| shares.get(place as usize));
                let share = share.copied();
                State::Owed(name, terms.add(Terms { share, ..its }))
            }
            Debt::Release => State::Received,
        },
    })
}

impl Owed {
    fn entry(&mut self, delivery: u64) -> Option<&mut Entry> {
        let index = self
            .queue
            .binary_search_by_key(&delivery, |entry| entry.delivery)
            .ok()?;
        self.queue.get_mut(index)
    }

    /// A delivery is done.
    pub(super) fn gone(&mut self, delivery: u64) {
        match self.entry(delivery) {
            Some(entry) => entry.state = State::Done,
            None => self.spool.gone(delivery),
        }
        self.trim(0);
    }

    /// The client has received a delivery at QoS 2.
    pub(super) fn received(&mut self, delivery: u64) {
        if let Some(entry) = self.entry(delivery) {
            entry.state = State::Received;
        } else if self.spool.has(delivery) {
            self.spool.gone(delivery);
            let packet_id = self.spool.odd(delivery);
            let at = self.queue.partition_point(|it| it.delivery < delivery);
            self.queue.insert(
                at,
                Entry {
                    delivery,
                    packet_id,
                    state: State::Received,
                },
            );
        }
    }

    /// A delivery has a packet id that does not follow from its number.
    pub(super) fn sent_as(&mut self, delivery: u64, packet_id: PacketId) {
        match self.entry(delivery) {
            Some(entry) => entry.packet_id = Some(packet_id),
            None => self.spool.sent_as(delivery, packet_id),
        }
    }

    /// Everything before a number is done.
    pub(super) fn acked(&mut self, front: u64) {
        self.trim(front);
        self.spool.trim(front);
    }

    /// Deliveries lie elsewhere.
    pub(super) fn spooled(&mut self, spooled: &Spooled) {
        let from = self.queue.partition_point(|it| it.delivery < spooled.first);
        let to = self.queue.partition_point(|it| it.delivery < spooled.end());
        let here: Vec<Entry> = self.queue.drain(from..to).collect();
        self.spool.push(spooled);
        let mut received = from;
        for entry in here {
            if let (State::Owed(..), Some(packet_id)) = (entry.state, entry.packet_id) {
                self.spool.sent_as(entry.delivery, packet_id);
            }
            match entry.state {
                State::Owed(..) => {}
                State::Done => self.spool.gone(entry.delivery),
                State::Received => {
                    self.spool.gone(entry.delivery);
                    self.queue.insert(received, entry);
                    received += 1;
                }
            }
        }
    }

    /// The first delivery that is not done.
    pub(super) fn first(&self) -> Option<u64> {
        let queued = self.queue.front().map(|entry| entry.delivery);
        queued.into_iter().chain(self.spool.first()).min()
    }

    /// Forgets what is done at the front, and everything before a number.
    fn trim(&mut self, front: u64) {
        let is_over = |entry: &Entry| entry.delivery < front || matches!(entry.state, State::Done);
        while self.queue.pop_front_if(|entry| is_over(entry)).is_some() {}
    }

    /// Adds what was written in parts and has these numbers. What is there already counts: of a
    /// delivery in a chunk, that the client has received it.
    pub(super) fn join(&mut self, parts: Self, numbers: Range<u64>) {
        let is_of_them = |number: u64| numbers.contains(&number);
        let waiting = parts.queue.into_iter();
        let waiting = waiting.filter(|it| is_of_them(it.delivery));
        self.queue.extend(waiting);
        // The sort is stable: what was there first stays first.
        self.queue.make_contiguous().sort_by_key(|it| it.delivery);
        let mut last = None;
        self.queue
            .retain(|it| last.replace(it.delivery) != Some(it.delivery));
        for chunk in parts.spool.chunks().filter(|it| is_of_them(it.first)) {
            self.spooled(&chunk);
        }
        for (delivery, packet_id) in parts.spool.all_odd() {
            self.spool.sent_as(delivery, packet_id);
        }
        for delivery in parts.spool.all_gone() {
            self.spool.gone(delivery);
        }
    }
}

/// The parts of a session that were written down before its base.
#[derive(Debug)]
pub(super) struct Written<'a> {
    pub(super) owed: Owed,
    pub(super) subscriptions: BTreeMap<Filter<'a>, Subscription<'a>>,
    /// By the names of the messages, which is their order.
    pub(super) held: BTreeMap<Name, HeldBack<'a>>,
    /// How many there are; `None` if one is missing.
    pub(super) count: Option<u32>,
    /// How many places were damaged when the first one was written.
    pub(super) places_before: u32,
}

impl<'a> Written<'a> {
    pub(super) fn new(places_before: u32) -> Self {
        Self {
            owed: Owed::default(),
            subscriptions: BTreeMap::new(),
            held: BTreeMap::new(),
            count: Some(0),
            places_before,
        }
    }

    /// Another part.
    pub(super) fn add(&mut self, part: &Part<'a>, terms: &mut AllTerms<'a>) {
        let follows = self.count == Some(part.place);
        self.count = follows.then(|| part.place.saturating_add(1));
        let last = self.owed.queue.back().map_or(0, |it| it.delivery + 1);
        let all = entries(part.shares, part.owed, terms);
        self.owed.queue.extend(all.filter(|it| it.delivery >= last));
        let held = part.held.iter().map(|held| (held.name, held));
        self.held.extend(held);
    }
}
