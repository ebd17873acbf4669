//! What an operator asks about rooms, and does to them.

use alloc::boxed::Box;

use stentor_session::Tick;
use stentor_topic::Zone;
use stentor_zone::{room_shown, rooms_after};

use crate::core::Core;
use crate::services::interface::rooms::{RoomsAsk, RoomsTold};
use crate::services::rooms::RoomService;

impl RoomService {
    /// Answers, or does it.
    pub(crate) fn asked(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        ask: &RoomsAsk,
    ) -> RoomsTold {
        match ask {
            RoomsAsk::List {
                prefix,
                after,
                at_most,
            } => {
                // The lobby is among them, as for a client that looks at the list.
                self.home_listed(core, now, zone);
                let rooms = self.zones.by_zone.get(&zone);
                let found = rooms.map(|it| rooms_after(it, prefix, after.as_deref(), *at_most));
                RoomsTold::List(found.unwrap_or_default())
            }
            RoomsAsk::Show {
                room,
                after,
                at_most,
            } => {
                self.home_listed(core, now, zone);
                let rooms = self.zones.by_zone.get(&zone);
                let room = rooms.and_then(|rooms| rooms.get(room));
                let shown = room.map(|it| room_shown(it, after.as_deref(), *at_most));
                RoomsTold::Shown(shown.map(Box::new))
            }
            RoomsAsk::Run { command, words } => {
                RoomsTold::Ran(self.run_as_administrator(core, now, zone, command, words))
            }
        }
    }
}
