//! What adaptors do of their own accord, and the events that they receive.

use alloc::sync::Arc;

use stentor_topic::Zone;

use crate::core::transitions::Detached;
use crate::services::hooks::HookService;
use crate::services::interface::hooks::{HookEvent, Hooks};

impl HookService {
    /// Tells adaptors what the rooms of a zone have published about themselves.
    pub(crate) fn tell_of_room(&mut self, zone: Zone, event: HookEvent) {
        let wanted = Hooks::LEAVE.and(Hooks::CREATED).and(Hooks::CLOSED);
        if !self.hooks(zone).has(wanted) {
            return;
        }
        let Some(adaptors) = &self.adaptors else {
            return;
        };
        match &event {
            HookEvent::Closed { room } => {
                self.rooms.remove(&(zone, room.clone()));
            }
            // Adaptors hear of it once. It is published whenever it changes.
            HookEvent::Created { room } => {
                if !self.rooms.insert((zone, room.clone())) {
                    return;
                }
            }
            HookEvent::Left { .. } | HookEvent::Disconnected { .. } => {}
        }
        adaptors.tell(zone, event);
    }

    /// Tells adaptors that a connection has ended.
    pub(super) fn tell_of_end(&self, detached: &Detached) {
        let Some(adaptors) = &self.adaptors else {
            return;
        };
        let zone = detached.identity.zone;
        if self.hooks(zone).has(Hooks::DISCONNECT) {
            let event = HookEvent::Disconnected {
                identity: Arc::clone(&detached.identity),
                client_id: detached.client_id.clone(),
                reason: detached.reason.label(),
            };
            adaptors.tell(zone, event);
        }
    }
}
