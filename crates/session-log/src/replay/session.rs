//! A session while its records are applied.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::restored::Presence;
use super::spool::Spool;
use crate::message::{Debt, Front, HeldBack, Queue, Terms};
use crate::name::Name;
use crate::session::{Filter, Session, Share, Subscription, Will};
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

/// What is known of a session so far.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    pub(super) session: Session<'a>,
    /// Where its client came from, of one without a name.
    pub(super) owner: Option<NonZeroU64>,
    pub(super) presence: Presence,
    pub(super) subscriptions: BTreeMap<Filter<'a>, Subscription<'a>>,
    pub(super) arrived: BTreeSet<PacketId>,
    pub(super) next: u64,
    pub(super) sent: u64,
    /// In the order of their numbers.
    pub(super) queue: VecDeque<Entry>,
    /// What lies elsewhere.
    pub(super) spool: Spool,
    pub(super) held: VecDeque<HeldBack<'a>>,
    pub(super) will: Option<Will<'a>>,
    /// How many places were damaged when all of it was known.
    pub(super) places_before: u32,
    /// Places in journals of earlier generations that may have told of it.
    pub(super) may_lack: Vec<Range<u32>>,
    /// Places that still name it.
    pub(super) named: Vec<u32>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(session: Session<'a>, places_before: u32) -> Self {
        Self {
            session,
            owner: None,
            presence: Presence::Here,
            subscriptions: BTreeMap::new(),
            arrived: BTreeSet::new(),
            next: 0,
            sent: 0,
            queue: VecDeque::new(),
            spool: Spool::default(),
            held: VecDeque::new(),
            will: None,
            places_before,
            may_lack: Vec::new(),
            named: Vec::new(),
        }
    }

    /// It is owed one more.
    pub(super) fn owe(&mut self, name: Name, terms: TermsId) {
        self.queue.push_back(Entry {
            delivery: self.next,
            packet_id: None,
            state: State::Owed(name, terms),
        });
        self.next += 1;
    }

    pub(super) fn entry(&mut self, delivery: u64) -> Option<&mut Entry> {
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

    pub(super) fn acked(&mut self, front: &Front) {
        self.sent = self.sent.max(front.sent);
        self.next = self.next.max(front.front);
        self.trim(front.front);
        self.spool.trim(front.front);
    }

    /// Deliveries lie elsewhere.
    pub(super) fn spooled(&mut self, spooled: &Spooled) {
        let from = self.queue.partition_point(|it| it.delivery < spooled.first);
        let to = self.queue.partition_point(|it| it.delivery < spooled.end());
        let here: Vec<Entry> = self.queue.drain(from..to).collect();
        self.spool.push(spooled);
        self.next = self.next.max(spooled.end());
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

    /// A message that was held back gets its number.
    pub(super) fn let_go(&mut self, (name, conflated): (Name, u32), terms: &mut AllTerms<'a>) {
        match self.take_held(name) {
            Some(held) => {
                let terms = terms.add(Terms {
                    held: false,
                    conflated,
                    ..held.terms
                });
                self.owe(name, terms);
            }
            // The number is taken all the same.
            None => self.next += 1,
        }
    }

    pub(super) fn take_held(&mut self, name: Name) -> Option<HeldBack<'a>> {
        let index = self.held.iter().position(|held| held.name == name)?;
        self.held.remove(index)
    }

    pub(super) fn restore_queue(&mut self, queue: &Queue<'a>, terms: &mut AllTerms<'a>) {
        self.next = queue.next;
        self.sent = queue.sent;
        let shares: Vec<Share<'a>> = queue.shares.iter().collect();
        let entries = queue.owed.iter().map(|owed| Entry {
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
        });
        self.queue = entries.collect();
        self.held = queue.held.iter().collect();
        self.spool = Spool::default();
        let last = self.queue.back().map_or(0, |entry| entry.delivery + 1);
        self.next = self.next.max(last);
    }
}
