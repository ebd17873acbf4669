//! A session while its records are applied.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use stentor_mqtt::PacketId;

use super::restored::Presence;
use crate::message::{Debt, Front, HeldBack, Queue, Terms};
use crate::name::Name;
use crate::session::{Filter, Session, Share, Subscription, Will};

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
    pub(super) presence: Presence,
    pub(super) subscriptions: BTreeMap<Filter<'a>, Subscription<'a>>,
    pub(super) arrived: BTreeSet<PacketId>,
    pub(super) next: u64,
    pub(super) sent: u64,
    /// In the order of their numbers.
    pub(super) queue: VecDeque<Entry>,
    pub(super) held: VecDeque<HeldBack<'a>>,
    pub(super) will: Option<Will<'a>>,
    /// How many gaps its journal had when all of it was known.
    pub(super) gaps_before: u64,
    /// A gap in a journal of an earlier generation may have told of it.
    pub(super) may_lack: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(session: Session<'a>, gaps_before: u64) -> Self {
        Self {
            session,
            presence: Presence::Here,
            subscriptions: BTreeMap::new(),
            arrived: BTreeSet::new(),
            next: 0,
            sent: 0,
            queue: VecDeque::new(),
            held: VecDeque::new(),
            will: None,
            gaps_before,
            may_lack: false,
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

    pub(super) fn gone(&mut self, delivery: u64) {
        if let Some(entry) = self.entry(delivery) {
            entry.state = State::Done;
        }
        self.trim(0);
    }

    pub(super) fn acked(&mut self, front: &Front) {
        self.sent = self.sent.max(front.sent);
        self.next = self.next.max(front.front);
        self.trim(front.front);
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
        let last = self.queue.back().map_or(0, |entry| entry.delivery + 1);
        self.next = self.next.max(last);
    }
}
