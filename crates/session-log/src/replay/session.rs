//! A session while its records are applied.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::owed::{AllTerms, Entry, Owed, State, TermsId, Written, entries};
use super::restored::Presence;
use crate::message::{Front, Terms};
use crate::name::Name;
use crate::queue::{HeldBack, Parts, Queue};
use crate::session::{Filter, Session, Subscription, Will};
use crate::spooled::Spooled;

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
    pub(super) owed: Owed,
    pub(super) held: VecDeque<HeldBack<'a>>,
    pub(super) will: Option<Will<'a>>,
    /// Whether parts of its queue are missing, which were written down before its base.
    pub(super) lacks_parts: bool,
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
            owed: Owed::default(),
            lacks_parts: false,
            held: VecDeque::new(),
            will: None,
            places_before,
            may_lack: Vec::new(),
            named: Vec::new(),
        }
    }

    /// It is owed one more.
    pub(super) fn owe(&mut self, name: Name, terms: TermsId) {
        self.owed.queue.push_back(Entry {
            delivery: self.next,
            packet_id: None,
            state: State::Owed(name, terms),
        });
        self.next += 1;
    }

    /// Deliveries are done, up to a number.
    pub(super) fn acked(&mut self, front: &Front) {
        self.sent = self.sent.max(front.sent);
        self.next = self.next.max(front.front);
        self.owed.acked(front.front);
    }

    /// Deliveries lie elsewhere.
    pub(super) fn spooled(&mut self, spooled: &Spooled) {
        self.owed.spooled(spooled);
        self.next = self.next.max(spooled.end());
    }

    /// A message that was held back gets its number.
    pub(super) fn let_go(&mut self, name: Name, conflated: u32, terms: &mut AllTerms<'a>) {
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
        self.owed = Owed::default();
        self.owed.queue = entries(queue.shares, queue.owed, terms).collect();
        self.held = queue.held.iter().collect();
        let last = self.owed.queue.back().map_or(0, |entry| entry.delivery + 1);
        self.next = self.next.max(last);
    }

    /// What the parts say is owed as well. `None` where they are missing.
    pub(super) fn join(&mut self, written: Option<Written<'a>>, parts: &Parts) {
        let written = written.filter(|it| it.count == Some(parts.count));
        let Some(written) = written else {
            self.lacks_parts = true;
            return;
        };
        self.owed.join(written.owed, parts.from..parts.to);
        for (filter, subscription) in written.subscriptions {
            self.subscriptions.entry(filter).or_insert(subscription);
        }
        self.held.extend(written.held.into_values());
        self.places_before = self.places_before.min(written.places_before);
        let last = self.owed.queue.back().map_or(0, |entry| entry.delivery + 1);
        self.next = self.next.max(last);
    }
}
