//! What a shard leaves for the log.

use std::sync::Arc;

use stentor_auth::model::login_name;
use stentor_session::{CloseReason, ConnectRequest};
use stentor_topic::Zone;

use super::Shard;
use crate::telemetry::Entry;
use crate::transport::Fault;

/// The client that was refused, as far as it has said who it is; by default, it has said nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Applicant<'n> {
    /// The name of the user.
    pub(super) user: Option<&'n str>,
    pub(super) client_id: &'n str,
}

impl<'n> Applicant<'n> {
    /// The one that CONNECT names.
    pub(super) fn of(request: &'n ConnectRequest) -> Self {
        Self {
            user: request.username.as_deref(),
            client_id: &request.client_id,
        }
    }
}

impl Shard {
    /// Leaves the events of this turn for the log.
    pub(super) fn tell(&mut self) {
        let events = &mut self.hub.effects().events;
        if events.is_empty() {
            return;
        }
        for mut event in events.drain(..) {
            if let stentor_hub::Event::Administered { identity, .. } = &event {
                let zone = self.context.zone_name(identity.zone);
                self.context.journal.note(Entry::Administered(event, zone));
                continue;
            }
            let origin = match &mut event {
                stentor_hub::Event::Connected {
                    link, zone, user, ..
                }
                | stentor_hub::Event::Disconnected {
                    link, zone, user, ..
                } => {
                    // As the login name says it.
                    if let (Some(user), false) = (user, *zone == Zone::DEFAULT) {
                        let zone = self.context.zone_name(*zone);
                        *user = login_name(&zone, user).into();
                    }
                    let link = self.links.get(link.0);
                    link.map(|link| (link.peer, Arc::clone(&link.port)))
                }
                _ => None,
            };
            self.context.journal.note(Entry::Session(event, origin));
        }
        self.context.journal.wake();
    }

    /// Notes that a connection was not let in.
    pub(super) fn note_refusal(&mut self, index: u32, who: Applicant<'_>, reason: CloseReason) {
        let link = self.links.get(index);
        let fault = link.and_then(|link| link.transport.fault().cloned());
        self.note_refusal_for(index, who, reason, fault);
    }

    /// The same, with what there is to say about it.
    pub(super) fn note_refusal_for(
        &mut self,
        index: u32,
        who: Applicant<'_>,
        reason: CloseReason,
        fault: Option<Fault>,
    ) {
        self.figures.refused += 1;
        self.tell_refusal(index, who, reason, fault);
    }

    /// Says in the log that somebody was refused something.
    pub(super) fn tell_refusal(
        &self,
        index: u32,
        who: Applicant<'_>,
        reason: CloseReason,
        fault: Option<Fault>,
    ) {
        if let Some(link) = self.links.get(index) {
            self.context.journal.note(Entry::Refused {
                peer: link.peer,
                port: Arc::clone(&link.port),
                user: link.claim(who.user),
                client_id: who.client_id.into(),
                fault,
                reason,
            });
            self.context.journal.wake();
        }
    }
}
