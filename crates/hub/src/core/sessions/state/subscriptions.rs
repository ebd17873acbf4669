//! The subscriptions of a session.

use core::time::Duration;

use smallvec::SmallVec;

use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::routing::options::Options;
use crate::core::sessions::log::Terms;
use crate::core::sessions::rights::Access;

/// Set in [`Subscriptions::filtered`] while they are weighed. What is counted in the meantime may
/// be more than there is, which costs a check for each delivery and nothing else.
const UNDER_REVIEW: u32 = 1 << 31;

/// What one session has subscribed to. The topic index has the options.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    list: SmallVec<[SubscriptionRef; 2]>,
    /// Bytes of memory that they are charged with.
    bytes: u32,
    /// Those of which the rights permit a part or nothing: while there are any, each delivery is
    /// checked.
    filtered: u32,
}

/// A subscription that a session is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) options: Options,
    /// How much of it the rights permit.
    pub(crate) access: Access,
    /// What it is charged with.
    pub(crate) bytes: usize,
    /// The least time between two messages of a topic that it asks for.
    pub(crate) interval: Option<Duration>,
}

impl Grant {
    /// What is written down of it.
    pub(super) const fn terms(&self, stored: StoredMessages) -> Terms {
        Terms {
            options: self.options,
            interval: self.interval,
            snapshot: matches!(stored, StoredMessages::Due),
        }
    }
}

/// How far a session has the stored messages that a subscription asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredMessages {
    /// All were sent, or none were asked for.
    Settled,
    /// Some are still to be sent.
    Due,
}

/// What a SUBSCRIBE has made of one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscribed {
    /// The session did not have it.
    New,
    /// It had it with other options.
    Changed,
    /// It had it so.
    Same,
}

impl Subscriptions {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[SubscriptionRef] {
        &self.list
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of memory that they are charged with.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// One is granted. It is added, unless the session has it already, with the options `before`.
    pub(super) fn subscribe(
        &mut self,
        subscription: SubscriptionRef,
        grant: &Grant,
        before: Option<Options>,
    ) -> Subscribed {
        match before {
            None => {
                self.list.push(subscription);
                // A subscription costs some megabytes at most, and the limit keeps the sum far
                // from 4 GiB.
                self.bytes = self.bytes.saturating_add(grant.bytes as u32);
                self.filtered += u32::from(grant.access != Access::All);
                Subscribed::New
            }
            Some(before) if before == grant.options => Subscribed::Same,
            Some(_) => Subscribed::Changed,
        }
    }

    /// One that cost this many bytes has ended. The list has it until [`Subscriptions::retain`].
    pub(super) const fn unsubscribe(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u32);
    }

    /// Takes those out of the list that are not to stay.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(SubscriptionRef) -> bool) {
        self.list.retain(|subscription| stays(*subscription));
    }

    /// Takes the last one out of the list.
    pub(crate) fn pop(&mut self) -> Option<SubscriptionRef> {
        self.list.pop()
    }

    /// Whether the rights do not permit all of them in full, or may not.
    #[inline]
    pub(crate) const fn are_filtered(&self) -> bool {
        self.filtered != 0
    }

    /// One goes that is filtered, if `is_filtered` says so.
    pub(super) fn forget_filtered(&mut self, is_filtered: impl FnOnce() -> bool) {
        // Under review it may not have been counted yet.
        if self.are_filtered() && !self.are_under_review() && is_filtered() {
            self.filtered -= 1;
        }
    }

    /// Nothing is checked any more.
    pub(super) const fn permit_all(&mut self) {
        self.filtered = 0;
    }

    const fn are_under_review(&self) -> bool {
        self.filtered & UNDER_REVIEW != 0
    }

    /// They are weighed from now on, if there are any. Returns whether they were already.
    pub(crate) fn begin_review(&mut self) -> bool {
        let were = self.are_under_review();
        self.filtered = match self.list.is_empty() {
            true => 0,
            false => UNDER_REVIEW,
        };
        were
    }

    /// Some more are weighed, of which this many are filtered; all of them, if it `is_over`.
    pub(crate) const fn reviewed(&mut self, filtered: u32, is_over: bool) {
        self.filtered += filtered;
        if is_over {
            self.filtered &= !UNDER_REVIEW;
        }
    }
}
