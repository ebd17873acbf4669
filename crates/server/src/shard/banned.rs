//! Bans, as a shard sees them: as clients connect, and among those who are there.

use std::sync::Arc;

use stentor_hub::Identity;
use stentor_hub::connections::close_banned;
use stentor_mqtt::ReasonCode;
use stentor_session::{CloseReason, ConnectRequest, Denied};

use super::Shard;
use super::link::Phase;
use super::login::refused;
use super::tell::Applicant;
use crate::bans::{Entry, Party};
use crate::peer::Peer;
use crate::transport::Fault;

/// Connections that are looked at in one turn, and those that it closes at most.
const LOOKED_AT: usize = 256;
const CLOSED_MAX: u64 = 8;

impl Shard {
    /// Whether the address of a new connection is banned.
    pub(super) fn is_address_banned(&self, peer: Peer) -> bool {
        let bans = &self.context.bans;
        bans.of_address(self.now, peer.address()).is_some()
    }

    /// The ban of somebody who has logged in, if there is one.
    pub(super) fn ban_of(
        &self,
        index: u32,
        request: &ConnectRequest,
        identity: &Identity,
    ) -> Option<Arc<Entry>> {
        if identity.rights.is_operator() {
            return None;
        }
        let party = Party {
            zone: identity.zone,
            client_id: &request.client_id,
            user: identity.user.as_deref(),
        };
        let (bans, link) = (&self.context.bans, self.links.get(index)?);
        let by_name = bans.of_party(self.now, party);
        by_name.or_else(|| bans.of_address(self.now, link.peer.address()))
    }

    /// Refuses somebody whose address is banned.
    pub(super) fn refuse_address(&mut self, index: u32, request: &ConnectRequest) {
        let address = self.links[index].peer.address();
        match self.context.bans.of_address(self.now, address) {
            Some(ban) => self.refuse_banned(index, request, &ban),
            // The ban has ended since.
            None => self.refuse(index, request, CloseReason::Denied(Denied::Banned)),
        }
    }

    /// Answers CONNECT with 0x8A, and says in the log which ban it was.
    pub(super) fn refuse_banned(&mut self, index: u32, request: &ConnectRequest, ban: &Entry) {
        let reason = CloseReason::Denied(Denied::Banned);
        let who = Applicant::of(request);
        self.note_refusal_for(index, who, reason, Some(Fault::Said(ban.told().into())));
        self.part(index, Some(refused(request, ReasonCode::Banned, "")));
    }

    /// Closes the connections of those who are banned, from this one on: how many, and where to go
    /// on.
    pub(super) fn close_banned(&mut self, from: usize) -> (u64, Option<usize>) {
        let all = self.links.places();
        let end = from.saturating_add(LOOKED_AT).min(all);
        let (mut closed, mut next) = (0, from);
        while next < end && closed < CLOSED_MAX {
            let index = next;
            next += 1;
            let Some(link) = u32::try_from(index)
                .ok()
                .and_then(|index| self.links.get(index))
            else {
                continue;
            };
            let Phase::Live(session) = link.phase else {
                continue;
            };
            let (bans, now) = (&self.context.bans, self.now);
            let is_address = bans.of_address(now, link.peer.address()).is_some();
            let is_banned = |zone, client_id: &str, user: Option<&str>| {
                let party = Party {
                    zone,
                    client_id,
                    user,
                };
                is_address || bans.of_party(now, party).is_some()
            };
            closed += u64::from(close_banned(&mut self.hub, now, session, is_banned));
        }
        self.forward();
        (closed, (next < all).then_some(next))
    }
}
