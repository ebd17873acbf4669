//! What the hub and the services want of services. One that is left out takes nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Publish, Subscribe};
use stentor_session::{CloseReason, Message, Tick, WillRequest};
use stentor_session_log::RestoredRoom;
use stentor_topic::Zone;
use stentor_zone::{Effect, Response};

use super::interface::answer::{Answer, Listener};
use super::interface::broadcast::{Fate, Part, Recipient};
use super::interface::calls::Ask;
use super::interface::hooks::Consulted;
use super::interface::places::Placed;
use super::interface::rooms::{RoomsAsk, RoomsTold};
use super::interface::who::Who;
#[cfg(feature = "rooms")]
use super::rooms::{Cause, RoomRequest};
use super::{Item, Services};
use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::{self, Decided, Denial, Element, Verdicts};
use crate::core::inspect::ZoneFigures;
use crate::core::sessions::renewal::Renewal;
use crate::core::sessions::rights::Identity;
use crate::core::settings::Settings;
use crate::core::transitions::{Detached, Transition};

/// What time and settings do to services.
impl Services {
    /// New limits and policies.
    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        #[cfg(feature = "rooms")]
        self.rooms.zones_mut().reconfigure(settings);
    }

    /// When to call [`Services::advance`] next; [`Tick::NEVER`] if nothing is due.
    #[inline]
    pub(crate) fn deadline(&self) -> Tick {
        #[cfg(feature = "rooms")]
        return super::rooms::deadline(&self.rooms);
        #[cfg(not(feature = "rooms"))]
        Tick::NEVER
    }

    /// Does what is due.
    pub(crate) fn advance(&mut self, core: &mut Core, now: Tick) {
        #[cfg(feature = "rooms")]
        self.rooms.advance(core, now);
    }

    /// Bytes of memory that the rooms take whose home is this shard, and what waits for them. O(1).
    #[inline]
    pub(crate) const fn room_bytes(&self) -> u64 {
        #[cfg(feature = "rooms")]
        return super::rooms::bytes(&self.rooms);
        #[cfg(not(feature = "rooms"))]
        0
    }

    /// Whether a service wants something of another.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        #[cfg(feature = "rooms")]
        if !self.rooms.requests().is_empty() {
            return true;
        }
        #[cfg(feature = "hooks")]
        if self.hooks.has_requests() {
            return true;
        }
        #[cfg(feature = "private")]
        if self.private.has_responses() {
            return true;
        }
        false
    }

    /// Does one thing that a service wants of another. `Some` if the home of a zone has said in
    /// which rooms the user of a packet has a place, which adaptors are to hear of.
    pub(crate) fn serve_request(&mut self, core: &mut Core, now: Tick) -> Option<Placed> {
        #[cfg(feature = "rooms")]
        if let Some(request) = self.rooms.requests_mut().next() {
            return self.serve_rooms(core, now, request);
        }
        #[cfg(feature = "hooks")]
        if let Some(places) = self.hooks.next_request() {
            #[cfg(feature = "rooms")]
            self.rooms.seek_places(core, now, places);
            return None;
        }
        #[cfg(feature = "private")]
        if let Some((part, response)) = self.private.next_response() {
            self.tell(&part, Fate::Private(response));
        }
        None
    }

    /// What rooms want of other services.
    #[cfg(feature = "rooms")]
    fn serve_rooms(&mut self, core: &mut Core, now: Tick, request: RoomRequest) -> Option<Placed> {
        match request {
            RoomRequest::Answer(answer) => self.answered(core, now, &answer),
            RoomRequest::Placed(placed) => return Some(placed),
            RoomRequest::Return(key, elements) => {
                #[cfg(feature = "hooks")]
                let elements = self.hooks.consult_return(core, key, elements)?;
                self.rooms.ask_again(core, now, key, elements, Cause::Anew);
            }
            RoomRequest::Expel(key, room, why) => {
                #[cfg(feature = "hooks")]
                self.hooks.expel(key, &room, why);
            }
            RoomRequest::Tell(zone, event) => {
                #[cfg(feature = "hooks")]
                self.hooks.tell_of_room(zone, event);
            }
        }
        None
    }
}

/// What services hear of sessions.
impl Services {
    /// The session whose connection a new one of the same client id takes over, as far as its user
    /// is seen.
    pub(crate) fn predecessor(&self, core: &Core, zone: Zone, client_id: &str) -> Option<Who> {
        #[cfg(feature = "presence")]
        return super::presence::predecessor(core, zone, client_id);
        #[cfg(not(feature = "presence"))]
        None
    }

    /// A connection has begun.
    pub(crate) fn attached(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        predecessor: Option<Who>,
    ) {
        #[cfg(feature = "presence")]
        self.presence.attached(core, now, key, predecessor);
    }

    /// A session is connected again, which was subscribed to this in rooms.
    pub(crate) fn return_to_rooms(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        elements: Vec<Element>,
    ) {
        #[cfg(feature = "rooms")]
        {
            let asks_hooks = self.hears_of_joins(core, key);
            self.rooms
                .return_to_rooms(core, now, key, elements, asks_hooks);
        }
    }

    /// Whether adaptors want to hear of joins of a session.
    #[cfg(feature = "rooms")]
    fn hears_of_joins(&self, core: &Core, key: SessionKey) -> bool {
        #[cfg(feature = "hooks")]
        return self.hooks.hears_of_joins(core, key);
        #[cfg(not(feature = "hooks"))]
        false
    }

    /// A connection has ended.
    pub(crate) fn detached(&mut self, core: &mut Core, now: Tick, detached: &Detached) {
        #[cfg(feature = "hooks")]
        self.hooks.detached(core, detached);
        #[cfg(feature = "serving")]
        self.serving.lose_server(detached.session);
        #[cfg(feature = "rooms")]
        self.rooms.disconnect_rooms(core, now, detached);
        #[cfg(feature = "presence")]
        self.presence.detached(core, now, detached);
    }

    /// Something that concerns rooms has happened to a session.
    pub(crate) fn hear_of_rooms(&mut self, core: &mut Core, now: Tick, transition: Transition) {
        #[cfg(feature = "rooms")]
        self.rooms.hear(core, now, transition);
    }

    /// Rights have changed, also of those who are away.
    pub(crate) fn review_absent(&mut self, core: &mut Core, now: Tick, renewal: &dyn Renewal) {
        #[cfg(feature = "rooms")]
        self.rooms.review_absent(core, now, renewal);
    }

    /// A zone ends: some of its rooms do, and in the end who is there. Returns whether nothing is
    /// left.
    pub(crate) fn end_zone(&mut self, core: &mut Core, now: Tick, zone: Zone) -> bool {
        #[cfg(feature = "rooms")]
        if !self.rooms.end_zone(core, now, zone) {
            return false;
        }
        #[cfg(feature = "presence")]
        self.presence.end_zone(core, now, zone);
        true
    }
}

/// What services do with packets and messages.
impl Services {
    /// Asks about a publish if an adaptor wants to hear of it. `Some` if it is done with for now:
    /// it was put aside, or refused because no more can wait.
    #[inline]
    pub(crate) fn consult_publish(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        publish: &Publish<'_>,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        #[cfg(feature = "hooks")]
        if self.hooks.has_adaptors() {
            return self.hooks.consult_publish(core, key, publish, packet);
        }
        None
    }

    /// Asks about a SUBSCRIBE, like [`Services::consult_publish`].
    pub(crate) fn consult_subscribe(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        packet: &[u8],
    ) -> Option<Consulted> {
        #[cfg(feature = "hooks")]
        if self.hooks.has_adaptors() {
            return self.hooks.consult_subscribe(core, key, subscribe, packet);
        }
        None
    }

    /// Asks about a will that is due and permitted. Whether that is all to do for now: it waits
    /// for the verdict, or is dropped because no more can wait.
    pub(crate) fn consult_will(
        &mut self,
        core: &mut Core,
        identity: &Arc<Identity>,
        client_id: &str,
        will: &WillRequest,
    ) -> bool {
        #[cfg(feature = "hooks")]
        return self.hooks.consult_will(core, identity, client_id, will);
        #[cfg(not(feature = "hooks"))]
        false
    }

    /// Asks about an answer that goes to where its caller might have published it. Whether that is
    /// all to do for now, as for a will.
    pub(super) fn consult_answer(
        &mut self,
        core: &mut Core,
        answer: &Answer,
        listener: &Listener,
    ) -> bool {
        #[cfg(feature = "hooks")]
        return self.hooks.consult_answer(core, answer, listener);
        #[cfg(not(feature = "hooks"))]
        false
    }

    /// A SUBSCRIBE, what adaptors have against its elements, and of what they were not asked; what
    /// is missing is allowed. The homes of rooms that it names are asked before.
    pub(crate) fn subscribe(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        denials: &[Option<Denial>],
        decided: &Decided,
    ) -> Result<(), CloseReason> {
        // Made once, since it would have to be dropped for each packet.
        static NO_ROOMS: Verdicts = Verdicts::new();
        #[cfg(feature = "rooms")]
        if subscribe::may_name_rooms(subscribe) {
            return self
                .rooms
                .subscribe(core, now, key, subscribe, denials, decided);
        }
        subscribe::begin(core, now, key, subscribe, denials, decided, &NO_ROOMS)
    }

    /// Asks about what one recipient of a broadcast receives, which is permitted: `Some` if an
    /// adaptor wants to hear of it, and whether it was asked.
    pub(crate) fn consult_broadcast(
        &mut self,
        core: &mut Core,
        identity: &Arc<Identity>,
        recipient: &Recipient,
        payload: &[u8],
        part: &Part,
    ) -> Option<bool> {
        #[cfg(feature = "hooks")]
        return self
            .hooks
            .consult_broadcast(core, identity, recipient, payload, part);
        #[cfg(not(feature = "hooks"))]
        None
    }

    /// Sends a message to one recipient of a broadcast. `None` if other shards have to say what
    /// became of it.
    pub(crate) fn send_part(
        &mut self,
        core: &mut Core,
        now: Tick,
        message: Arc<Message>,
        route: &str,
        user: &str,
        part: &Part,
    ) -> Option<Response> {
        #[cfg(feature = "private")]
        return self
            .private
            .send_part(core, now, message, route, user, part);
        #[cfg(not(feature = "private"))]
        Some(Response::Reached(stentor_zone::Reach::Nobody))
    }

    /// Sends a private message of the server's own, or a will. Nobody waits for a response.
    pub(crate) fn send_private(
        &mut self,
        core: &mut Core,
        now: Tick,
        message: Arc<Message>,
        route: &str,
    ) {
        #[cfg(feature = "private")]
        self.private.send(core, now, message, route);
    }

    /// The control plane asks for a client that serves a call. Without that service, it learns
    /// nothing.
    pub(crate) fn ask_client(&mut self, core: &mut Core, now: Tick, ask: &Ask) {
        #[cfg(feature = "serving")]
        self.serving.ask_client(core, now, ask);
    }

    /// Says what has become of a part of a broadcast.
    pub(crate) fn tell(&self, part: &Part, fate: Fate) {
        #[cfg(feature = "calls")]
        self.calls.tell(part, fate);
    }

    /// Publishes what an adaptor has to say. Rooms that it is about tell adaptors of it.
    pub(crate) fn perform(&mut self, core: &mut Core, now: Tick, zone: Zone, effects: Vec<Effect>) {
        #[cfg(feature = "rooms")]
        self.rooms.perform(core, now, zone, "", effects);
        #[cfg(not(feature = "rooms"))]
        super::interface::message::publish(core, now, zone, effects);
    }

    /// What an operator asks about the rooms of a zone. The shard is its home.
    pub(crate) fn ask_rooms(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        ask: &RoomsAsk,
    ) -> RoomsTold {
        #[cfg(feature = "rooms")]
        return self.rooms.asked(core, now, zone, ask);
        #[cfg(not(feature = "rooms"))]
        RoomsTold::none(ask)
    }

    /// The adaptors have judged a session that comes back to rooms; what is missing is allowed.
    pub(crate) fn return_judged(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        epoch: u32,
        elements: Vec<Element>,
        denials: &[Option<Denial>],
    ) {
        #[cfg(feature = "rooms")]
        self.rooms
            .return_judged(core, now, key, epoch, elements, denials);
    }

    /// What another shard's service sends.
    pub(crate) fn receive(&mut self, core: &mut Core, now: Tick, from: ShardId, item: Item) {
        match item {
            #[cfg(feature = "rooms")]
            Item::Room(item) => self.rooms.room_item(core, now, *item),
            #[cfg(feature = "presence")]
            Item::Presence(item) => self.presence.receive(core, now, &item),
            #[cfg(feature = "private")]
            Item::Private(item) => self.private.receive(core, now, from, item),
        }
    }
}

/// What people and the disk want to know of services.
impl Services {
    /// Adds what there is of rooms and of users who are there. O(1).
    pub(crate) fn add_figures(&self, zone: Zone, figures: &mut ZoneFigures) {
        #[cfg(feature = "rooms")]
        if let Some((rooms, members, bytes)) = self.rooms.zones().figures(zone) {
            (figures.rooms, figures.members, figures.room_bytes) = (rooms, members, bytes);
        }
        #[cfg(feature = "presence")]
        {
            figures.users = self.presence.users(zone);
        }
    }

    /// Writes rooms down again, from a number on, until enough is written at once. Returns the
    /// number to go on with.
    pub(crate) fn rewrite_rooms(&self, core: &mut Core, from: u32) -> Option<u32> {
        #[cfg(feature = "rooms")]
        return self.rooms.zones().rewrite(core, from);
        #[cfg(not(feature = "rooms"))]
        None
    }

    /// About how many bytes [`Services::rewrite_rooms`] writes. O(such rooms).
    pub(crate) fn bytes_of_rooms(&self) -> u64 {
        #[cfg(feature = "rooms")]
        return self.rooms.zones().bytes_to_write();
        #[cfg(not(feature = "rooms"))]
        0
    }

    /// Has a room go on that was there before the start. The shard is the home of its zone.
    pub(crate) fn restore_room(&mut self, core: &mut Core, now: Tick, room: RestoredRoom) {
        #[cfg(feature = "rooms")]
        self.rooms.zones_mut().restore(core, now, room);
    }
}
