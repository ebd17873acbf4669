//! What adaptors do of their own accord, and the events that they receive.

use alloc::sync::Arc;

use stentor_topic::Zone;

use crate::core::transitions::Detached;
use crate::services::hooks::HookService;
use crate::services::interface::hooks::{Happening, Hooks};

impl HookService {
    /// Tells adaptors what the rooms of a zone have published about themselves.
    pub(crate) fn tell_of_room(&mut self, zone: Zone, happening: Happening) {
        let wanted = Hooks::LEAVE.and(Hooks::CREATED).and(Hooks::CLOSED);
        if !self.hooks(zone).has(wanted) {
            return;
        }
        let Some(adaptors) = &self.adaptors else {
            return;
        };
        match &happening {
            Happening::Closed { room } => {
                self.rooms.remove(&(zone, room.clone()));
            }
            // Adaptors hear of it once. It is published whenever it changes.
            Happening::Created { room } => {
                if !self.rooms.insert((zone, room.clone())) {
                    return;
                }
            }
            Happening::Left { .. } | Happening::Disconnected { .. } => {}
        }
        adaptors.tell(zone, happening);
    }

    /// Tells adaptors that a connection has ended.
    pub(super) fn tell_of_end(&self, detached: &Detached) {
        let Some(adaptors) = &self.adaptors else {
            return;
        };
        let zone = detached.identity.zone;
        if self.hooks(zone).has(Hooks::DISCONNECT) {
            let happening = Happening::Disconnected {
                identity: Arc::clone(&detached.identity),
                client_id: detached.client_id.clone(),
                reason: detached.reason.label(),
            };
            adaptors.tell(zone, happening);
        }
    }
}
