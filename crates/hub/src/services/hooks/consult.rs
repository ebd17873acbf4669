//! Asking: what a packet is to adaptors, and where it waits for what they say.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Publish, QoS, ReasonCode, Subscribe};
use stentor_session::{CloseReason, Outcome, WillRequest};
use stentor_topic::{Subscription, Zone};
use stentor_zone::{Address, Interest, NotAddress, ROOM_COMMANDS, Refusal};

use super::{Aside, Packed};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::{may_publish, with_topic};
use crate::core::inbound::subscribe::{Decided, Denial, Element, Refused, index, permit, room_of};
use crate::core::inbound::{acknowledge, hold, subscribe};
use crate::core::sessions::registry::Live;
use crate::core::sessions::rights::Identity;
use crate::services::hooks::HookService;
use crate::services::interface::answer::{Answer, Listener, arguments, may_be_answered};
use crate::services::interface::broadcast::{Part, Recipient};
use crate::services::interface::hooks::{Consulted, HookRequest, Hooks, Question};
use crate::services::interface::places::{JOINED_AT_ONCE_MAX, PlacesAsked, ROOMS_MAX, Sought};
use crate::services::interface::who::Who;

/// The answer to a client when adaptors have more to do than they can.
const BUSY: &str = "the zone's adaptor has too much to do; try again";

impl HookService {
    /// What the adaptors of a zone want to hear of.
    #[inline]
    pub(crate) fn hooks(&self, zone: Zone) -> Hooks {
        match &self.adaptors {
            None => Hooks::NONE,
            Some(adaptors) => adaptors.hooks(zone),
        }
    }

    /// Asks about a publish if an adaptor wants to hear of it. `Some` if it is done with for now:
    /// it was put aside, or refused because no more can wait.
    pub(crate) fn consult_publish(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        publish: &Publish<'_>,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        let hooks = self.hooks(core.session(key)?.state.zone());
        let request = self.request_of_publish(core, key, publish, hooks)?;
        let room = match &request {
            HookRequest::Say { room, .. } => Some(room),
            HookRequest::Call { room, .. } => room.as_ref(),
            _ => None,
        };
        if let Some(room) = room
            && !core.is_in_room(key, room)
        {
            // Another session of its user may be there, or it needs not be: the home knows.
            let rooms = alloc::vec![room.clone()];
            let is_asked = self.ask_home(core, key, rooms, Sought::Heard, packet);
            return is_asked.then_some(Ok(()));
        }
        self.consult_about_publish(core, key, publish, request, packet)
    }

    /// Asks about a SUBSCRIBE, like [`HookService::consult_publish`].
    pub(crate) fn consult_subscribe(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        packet: &[u8],
    ) -> Option<Consulted> {
        let hooks = self.hooks(core.session(key)?.state.zone());
        if !hooks.has(Hooks::JOIN.and(Hooks::SUBSCRIBE)) {
            return None;
        }
        let (request, scope) = self.request_of_subscribe(core, key, subscribe, hooks, &[])?;
        if hooks.has(Hooks::JOIN) && self.ask_places(core, key, &request, packet) {
            return Some(Consulted::Waits);
        }
        Some(self.consult_about(core, key, subscribe, request, scope, packet))
    }

    /// To come back to a place that is kept is not a join, whatever session does it, and the home
    /// of the zone knows where one is. Whether it was asked.
    fn ask_places(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        request: &HookRequest,
        packet: &[u8],
    ) -> bool {
        let Some(session) = core.session(key) else {
            return false;
        };
        let HookRequest::Subscribe(filters) = request else {
            return false;
        };
        let rooms = filters.iter().filter_map(|(_, room)| room.as_ref());
        let rooms = rooms.filter(|room| session.state.identity().may_speak(room));
        let mut rooms: Vec<Box<str>> = rooms.cloned().collect();
        rooms.sort_unstable();
        rooms.dedup();
        !rooms.is_empty() && self.ask_home(core, key, rooms, Sought::Kept, packet)
    }

    /// Asks the home in which of these rooms a session's user has such a place; the packet waits.
    fn ask_home(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        rooms: Vec<Box<str>>,
        sought: Sought,
        packet: &[u8],
    ) -> bool {
        let (Some(session), Some(who)) = (core.session(key), Who::of(core, key)) else {
            return false;
        };
        let packed = Packed {
            session: key,
            epoch: session.epoch,
            packet: packet.into(),
            scope: Decided::default(),
        };
        let ticket = acknowledge::issue_ticket(core);
        self.placing.insert(ticket, packed);
        hold::begin(core, key);
        self.requests.push_back(PlacesAsked {
            rooms,
            sought,
            who,
            ticket,
        });
        true
    }

    /// Asks about what there is to ask about; where there is nothing, the SUBSCRIBE goes on.
    pub(crate) fn consult_about(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        request: HookRequest,
        scope: Decided,
        packet: &[u8],
    ) -> Consulted {
        if scope.asked.is_empty() {
            return Consulted::Not(scope);
        }
        if self.put_aside(core, key, request, scope, packet) == Some(false) {
            subscribe::refuse(core, key, subscribe, ReasonCode::QuotaExceeded, BUSY);
        }
        Consulted::Waits
    }

    /// Asks about a publish.
    pub(crate) fn consult_about_publish(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        publish: &Publish<'_>,
        request: HookRequest,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        if self.put_aside(core, key, request, Decided::default(), packet)? {
            return Some(Ok(()));
        }
        let busy = Outcome::new(ReasonCode::QuotaExceeded, BUSY);
        Some(acknowledge::answer(core, key, publish, Taken::Done(busy)))
    }

    /// Asks about a session that comes back to rooms where it has no place any more: that is
    /// joining them. Gives the elements back if nobody wants to hear of it, or, denied, if no more
    /// can wait.
    pub(crate) fn consult_return(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        elements: Vec<Element>,
    ) -> Option<Vec<Element>> {
        let session = core.session(key)?;
        if !self.hooks(session.state.zone()).has(Hooks::JOIN) {
            return Some(elements);
        }
        let (identity, client_id) = (
            Arc::clone(session.state.identity()),
            session.state.client_id().into(),
        );
        let filter = |element: &Element| {
            let room = room_of(&element.filter).map(Into::into);
            (element.filter.clone(), room)
        };
        let request = HookRequest::Subscribe(elements.iter().map(filter).collect());
        let aside = Aside::Return {
            session: key,
            epoch: session.epoch,
            elements: elements.clone(),
        };
        if self.ask(core, identity, client_id, request, aside) {
            hold::begin(core, key);
            return None;
        }
        let denied = |element: Element| Element {
            denial: Some(Denial {
                reason: ReasonCode::QuotaExceeded,
                text: BUSY.into(),
            }),
            ..element
        };
        Some(elements.into_iter().map(denied).collect())
    }

    /// Asks, and keeps the packet until the verdict; `false` if no more can wait.
    fn put_aside(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        request: HookRequest,
        scope: Decided,
        packet: &[u8],
    ) -> Option<bool> {
        let session = core.session(key)?;
        let (identity, client_id) = (
            Arc::clone(session.state.identity()),
            session.state.client_id().into(),
        );
        let aside = Aside::Packet(Packed {
            session: key,
            epoch: session.epoch,
            packet: packet.into(),
            scope,
        });
        let is_asked = self.ask(core, identity, client_id, request, aside);
        if is_asked {
            hold::begin(core, key);
        }
        Some(is_asked)
    }

    fn ask(
        &mut self,
        core: &mut Core,
        identity: Arc<Identity>,
        client_id: Box<str>,
        request: HookRequest,
        aside: Aside,
    ) -> bool {
        let Some(adaptors) = &self.adaptors else {
            return false;
        };
        self.asked += 1;
        let number = self.asked;
        let question = Question {
            identity,
            client_id,
            request,
            shard: core.shard(),
            number,
        };
        let is_asked = adaptors.ask(question).is_ok();
        if is_asked {
            self.waiting.insert(number, aside);
        }
        is_asked
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
        let hooks = self.hooks(identity.zone);
        let request = match Address::parse(&will.topic) {
            Ok(Address::Private { user, .. }) if hooks.has(Hooks::PRIVATE) => {
                HookRequest::Private {
                    to: user.as_ref().into(),
                    payload: will.payload.as_slice().into(),
                }
            }
            Err(NotAddress::Elsewhere) if hooks.has(Hooks::PUBLISH) => HookRequest::Publish {
                topic: will.topic.as_str().into(),
                payload: will.payload.as_slice().into(),
                qos: will.qos,
                retain: will.retain,
            },
            _ => return false,
        };
        let aside = Aside::Will(Arc::clone(identity), will.clone());
        if !self.ask(core, Arc::clone(identity), client_id.into(), request, aside) {
            core.count_denied();
        }
        true
    }

    /// Asks about an answer that goes to where its caller might have published it. Whether that is
    /// all to do for now, as for a will.
    pub(crate) fn consult_answer(
        &mut self,
        core: &mut Core,
        answer: &Answer,
        listener: &Listener,
    ) -> bool {
        if !self.hooks(listener.identity.zone).has(Hooks::PUBLISH) {
            return false;
        }
        let request = HookRequest::Publish {
            topic: listener.topic.clone(),
            payload: answer.json.as_slice().into(),
            qos: QoS::AtLeastOnce,
            retain: false,
        };
        let (identity, client_id) = (Arc::clone(&listener.identity), listener.client_id.clone());
        if !self.ask(
            core,
            identity,
            client_id,
            request,
            Aside::Answer(answer.clone()),
        ) {
            core.count_denied();
        }
        true
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
        let hooks = self.hooks(identity.zone);
        let request = match recipient {
            Recipient::User(user) if hooks.has(Hooks::PRIVATE) => HookRequest::Private {
                to: user.clone(),
                payload: payload.into(),
            },
            Recipient::Topic(topic) if hooks.has(Hooks::PUBLISH) => HookRequest::Publish {
                topic: topic.clone(),
                payload: payload.into(),
                qos: part.broadcast.qos,
                retain: false,
            },
            Recipient::User(_) | Recipient::Topic(_) => return None,
        };
        let client_id = part.broadcast.origin.client_id.clone();
        let (identity, aside) = (Arc::clone(identity), Aside::Broadcast(part.clone()));
        Some(self.ask(core, identity, client_id, request, aside))
    }

    /// What a publish is, where an adaptor wants to hear of that and its sender may do it.
    pub(crate) fn request_of_publish(
        &mut self,
        core: &mut Core,
        key: SessionKey,
        publish: &Publish<'_>,
        hooks: Hooks,
    ) -> Option<HookRequest> {
        let wanted = Hooks::PUBLISH.and(Hooks::SAY).and(Hooks::PRIVATE);
        if !hooks.has(wanted.and(Hooks::CALL)) {
            return None;
        }
        let payload = || Box::<[u8]>::from(publish.payload);
        let request = with_topic(core, key, publish, |core, name| {
            let topic: &str = &name;
            let session = core.session(key)?;
            match Address::parse(topic) {
                Err(NotAddress::Elsewhere) if hooks.has(Hooks::PUBLISH) => {
                    let may = session.state.identity().rights.may_publish(topic);
                    may.then(|| HookRequest::Publish {
                        topic: topic.into(),
                        payload: payload(),
                        qos: publish.qos,
                        retain: publish.retain,
                    })
                }
                Ok(Address::Private { user, .. }) if hooks.has(Hooks::PRIVATE) => {
                    may_publish(session.state.identity(), topic).then(|| HookRequest::Private {
                        to: user.as_ref().into(),
                        payload: payload(),
                    })
                }
                Ok(Address::Say { room }) if hooks.has(Hooks::SAY) => {
                    let may = session.state.identity().rights.may_publish(topic);
                    // What is too long for every room is refused without asking.
                    let bounds = &core.settings().rooms_of(session.state.zone()).room.bounds;
                    let fits = publish.payload.len() <= bounds.say_bytes;
                    (may && fits && session.state.identity().user.is_some()).then(|| {
                        HookRequest::Say {
                            room: room.into(),
                            payload: payload(),
                        }
                    })
                }
                Ok(Address::Call { .. } | Address::RoomCall { .. }) if hooks.has(Hooks::CALL) => {
                    request_of_call(core, key, publish, topic)
                }
                _ => None,
            }
        });
        // A topic that cannot be is refused without asking.
        request.ok().flatten()
    }

    /// What a SUBSCRIBE is, where an adaptor wants to hear of that and the session may have it,
    /// which may be nothing, with what none is asked about.
    pub(crate) fn request_of_subscribe(
        &self,
        core: &Core,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        hooks: Hooks,
        kept: &[Box<str>],
    ) -> Option<(HookRequest, Decided)> {
        let is_kept = |room: &str| kept.binary_search_by(|known| (**known).cmp(room)).is_ok();
        let session = core.session(key)?;
        let live = session.live();
        let mut left = Left {
            places: core.rules().places_left(session),
            bytes: core.rules().filter_bytes_left(session),
            rooms: JOINED_AT_ONCE_MAX
                .min(ROOMS_MAX.saturating_sub(live.map_or(0, Live::room_count))),
            known: BTreeSet::new(),
            known_rooms: BTreeSet::new(),
        };
        let is_inside = |room: &str| live.is_some_and(|live| live.is_in_room(room));
        let mut filters = Vec::new();
        let mut scope = Decided::default();
        let most = core.settings().subscriptions_max;
        scope.looked_at = subscribe.filters.iter().nth(most).map(|_| most);
        for (at, element) in subscribe.filters.iter().enumerate().take(most) {
            // What cannot be read is refused in any case.
            let Ok(parsed) = Subscription::parse(element.filter) else {
                continue;
            };
            let room = match Interest::parse(parsed.filter) {
                Interest::Room { room } if is_inside(room) || is_kept(room) => {
                    scope.unasked.push(room.into());
                    continue;
                }
                Interest::Room { room } if hooks.has(Hooks::JOIN) => Some(room),
                Interest::Elsewhere if hooks.has(Hooks::SUBSCRIBE) => None,
                _ => continue,
            };
            let may = self.may_have(core, key, element.filter, parsed, room, &mut left);
            match may {
                Ok(()) => {
                    scope.asked.push(at);
                    filters.push((element.filter.into(), room.map(Into::into)));
                }
                Err(refused) => scope.refused.push((at, refused)),
            }
        }
        if hooks.has(Hooks::JOIN) {
            scope.unasked.sort_unstable();
            scope.unasked.dedup();
        } else {
            scope.unasked.clear();
        }
        Some((HookRequest::Subscribe(filters), scope))
    }

    /// Whether a session may have one more subscription, if adaptors and the room have nothing
    /// against it.
    fn may_have<'f>(
        &self,
        core: &Core,
        key: SessionKey,
        text: &'f str,
        parsed: Subscription<'f>,
        room: Option<&'f str>,
        left: &mut Left<'f>,
    ) -> Result<(), Refused> {
        let Some(session) = core.session(key) else {
            return Err((ReasonCode::UnspecifiedError, ""));
        };
        let Subscription { share, filter } = parsed;
        let is_known = left.known.contains(text) || {
            let zone = session.state.zone();
            index::find(core, key, zone, share, filter).is_some()
        };
        let bytes = permit::subscription_cost(core, share, filter);
        if !is_known && (left.places == 0 || left.bytes < bytes) {
            return Err((ReasonCode::QuotaExceeded, ""));
        }
        permit::check_filter(core, key, session, share, filter)?;
        if let Some(room) = room.filter(|room| !left.known_rooms.contains(room)) {
            if left.rooms == 0 {
                return Err((ReasonCode::QuotaExceeded, Refusal::TooMany.text()));
            }
            left.rooms -= 1;
            left.known_rooms.insert(room);
        }
        if !is_known {
            left.places -= 1;
            left.bytes -= bytes;
            left.known.insert(text);
        }
        Ok(())
    }
}

/// What a call is, if its caller may make it. Commands about rooms are the server's own.
fn request_of_call(
    core: &Core,
    key: SessionKey,
    publish: &Publish<'_>,
    topic: &str,
) -> Option<HookRequest> {
    let address = Address::parse(topic).ok()?;
    let identity = core.session(key)?.state.identity();
    let (room, procedure, reply) = match address {
        Address::RoomCall {
            room,
            procedure,
            reply,
        } if identity.user.is_some() => (Some(room), procedure, reply),
        Address::Call { procedure, reply } if !procedure.starts_with(ROOM_COMMANDS) => {
            (None, procedure, reply)
        }
        _ => return None,
    };
    let may = identity.rights.may_publish(&address.right(topic));
    if !may || !may_be_answered(core, key, publish, reply) {
        return None;
    }
    Some(HookRequest::Call {
        room: room.map(Into::into),
        procedure: procedure.into(),
        payload: publish.payload.into(),
        arguments: arguments(publish),
    })
}

/// What a session has left for a SUBSCRIBE.
struct Left<'f> {
    places: usize,
    bytes: usize,
    rooms: usize,
    /// The filters that have taken some of it.
    known: BTreeSet<&'f str>,
    known_rooms: BTreeSet<&'f str>,
}
