//! A login that was accepted becomes a connection.

use stentor_session::{CloseReason, ConnectRequest, Limit, Tick};

use super::Hub;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::memory::evict;
use crate::core::sessions::connect::{Admitted, Opening};
use crate::core::sessions::{connect, lifecycle};

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
            quota,
            room,
        } = admitted.into();
        if let Some(from) = room.from {
            evict::make_room(&mut self.core, now, from);
        }
        let assigned = connect::name_client(&self.core, &mut request, &identity);
        let (zone, client_id) = (identity.zone, &request.client_id);
        let predecessor = self.services.predecessor(&self.core, zone, client_id);
        let present = connect::settle_predecessor(&mut self.core, now, &request, &identity);
        // What the predecessor leaves comes before there is a connection that was not its own.
        self.finish(now);
        let opening = Opening {
            link,
            request,
            identity,
            quota,
            lease: room.lease,
            assigned,
            session_present: present.is_some(),
        };
        let key = connect::open_session(&mut self.core, now, &opening, present);
        // What changes for an absent session does so before it has its connection.
        self.hear(now);
        let rooms = connect::attach(&mut self.core, now, key, opening);
        let services = &mut self.services;
        services.attached(&mut self.core, now, key, predecessor);
        // After the services know of the new connection: so the presence of its user does not
        // change in between.
        connect::claim(&mut self.core, now, key);
        if let Some(rooms) = rooms {
            connect::resume(&mut self.core, now, key);
            let services = &mut self.services;
            services.return_to_rooms(&mut self.core, now, key, rooms);
        } else {
            // Its maximum packet size leaves no room for CONNACK.
            lifecycle::close_saying(
                &mut self.core,
                now,
                key,
                CloseReason::Limit(Limit::PacketBytes),
                None,
            );
        }
        self.finish(now);
        key
    }
}
