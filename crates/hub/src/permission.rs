//! What a session may receive: counted per subscription, checked at delivery where it has to be.

use alloc::sync::Arc;

use stentor_session::Tick;

use crate::hub::Hub;
use crate::key::SessionKey;
use crate::rights::{Access, Identity};
use crate::sessions::Session;
use crate::settings::WideSubscription;

impl Session {
    /// Whether a message may be delivered. Costs nothing while all subscriptions are permitted in
    /// full.
    #[inline]
    pub(crate) fn may_receive(&self, topic: &str) -> bool {
        self.filtered == 0 || self.identity.rights.may_receive(topic)
    }

    /// A subscription goes: it is not among the filtered ones any more, if it was.
    pub(crate) fn forget_filtered(&mut self, filter: &str) {
        if self.filtered > 0 && self.identity.rights.may_subscribe(filter) != Access::All {
            self.filtered -= 1;
        }
    }
}

impl Hub {
    /// Whether a subscription is taken of which so much is permitted.
    pub(crate) fn is_accepted(&self, access: Access) -> bool {
        match (access, self.settings.wide_subscription) {
            (Access::All, _) | (Access::Part, WideSubscription::Filter) => true,
            (Access::Part, WideSubscription::Refuse) | (Access::Nothing, _) => false,
        }
    }

    /// A session has a new subscription, of which so much is permitted.
    pub(crate) fn count_filtered(&mut self, key: SessionKey, access: Access) {
        if access != Access::All
            && let Some(session) = self.sessions.get_mut(key)
        {
            session.filtered += 1;
        }
    }

    /// Gives a session another identity. Subscriptions that the new rights do not permit stay, and
    /// deliver what is permitted; what waits for the client and is not permitted any more is
    /// taken out, and of shared subscriptions given to another member. Rooms are left where nothing
    /// is permitted any more. O(subscriptions), but nothing if the rights are the same.
    pub(crate) fn adopt(&mut self, now: Tick, key: SessionKey, identity: Arc<Identity>) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let before = core::mem::replace(&mut session.identity, Arc::clone(&identity));
        let rights = &identity.rights;
        if Arc::ptr_eq(&before.rights, rights) {
            return;
        }
        let subscriptions = core::mem::take(&mut session.subscriptions);
        let is_filtered = |subscription: &&_| {
            rights.may_subscribe(&self.filter_of(**subscription)) != Access::All
        };
        // As many as there are subscriptions, which are counted in 32 bits.
        let filtered = subscriptions.iter().filter(is_filtered).count() as u32;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        session.subscriptions = subscriptions;
        session.filtered = filtered;
        session.apply_quotas();
        session.keep_seat();
        self.line_up(key);
        self.withdraw(now, key, &identity);
        self.review_rooms(now, key, &before);
    }

    /// Takes what waits for a client and is not permitted any more back.
    fn withdraw(&mut self, now: Tick, key: SessionKey, identity: &Identity) {
        let session = self.sessions.get_mut(key);
        let Some(outbound) = session.and_then(|session| session.outbound.as_mut()) else {
            return;
        };
        let withdrawn = outbound.withdraw(|message| identity.rights.may_receive(message.topic()));
        self.stats.publishes_withheld += withdrawn.len() as u64;
        self.deliver_again(now, withdrawn);
    }
}
