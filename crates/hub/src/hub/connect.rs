//! A login that was accepted becomes a connection.

use stentor_session::{CloseReason, ConnectRequest, Limit, Tick};

use super::Hub;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::sessions::connect::{Admitted, Opening};

impl Hub {
    /// Connects a client whose login was accepted: takes its session over from an older
    /// connection or an absence, or starts a new one, and queues CONNACK and what the session
    /// owes. The client id's home must be this shard, or the client id empty.
    pub fn connect(
        &mut self,
        now: Tick,
        link: LinkId,
        mut request: ConnectRequest,
        admitted: impl Into<Admitted>,
    ) -> SessionKey {
        let Admitted {
            identity,
            seat,
            room,
        } = admitted.into();
        if let Some(from) = room.from {
            self.core.make_room(now, from);
        }
        let assigned = self.core.name_client(&mut request, &identity);
        let (zone, client_id) = (identity.zone, &request.client_id);
        let predecessor = self.services.predecessor(&self.core, zone, client_id);
        let present = self.core.settle_predecessor(now, &request, &identity);
        // What the predecessor leaves comes before there is a connection that was not its own.
        self.finish(now);
        let opening = Opening {
            link,
            request,
            identity,
            seat,
            lease: room.lease,
            assigned,
            session_present: present.is_some(),
        };
        let key = self.core.open_session(now, &opening, present);
        // What changes for an absent session does so before it has its connection.
        self.hear(now);
        let rooms = self.core.attach(now, key, opening);
        let services = &mut self.services;
        services.attached(&mut self.core, now, key, predecessor);
        // Now that it is seen to be there: its user does not blink.
        self.core.claim(now, key);
        if let Some(rooms) = rooms {
            self.core.resume(now, key);
            let services = &mut self.services;
            services.return_to_rooms(&mut self.core, now, key, rooms);
        } else {
            // Its maximum packet size leaves no room for CONNACK.
            self.core
                .close_saying(now, key, CloseReason::Limit(Limit::PacketBytes), None);
        }
        self.finish(now);
        key
    }
}
