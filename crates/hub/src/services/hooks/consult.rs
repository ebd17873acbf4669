//! Asking: what a packet is to adaptors, and where it waits for what they say.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Packet, Publish, QoS, ReasonCode, Subscribe};
use stentor_session::{CloseReason, Outcome, Tick, Ticket, WillRequest};
use stentor_topic::{Subscription, Zone};
use stentor_zone::{Address, Interest, NotAddress, Refusal};

use super::{Aside, Deed, Denial, Hooks, Judgement, Packed, Question, Refused, Scope};
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::may_publish;
use crate::core::sessions::registry::Session;
use crate::core::sessions::rights::Identity;
use crate::hub::Hub;
use crate::services::calls::{Answer, Listener};
use crate::services::rooms::{Element, JOINED_AT_ONCE_MAX, Place, ROOMS_MAX, RoomItem, room_of};

/// The answer to a client when adaptors have more to do than they can.
const BUSY: &str = "the zone's adaptor has too much to do; try again";

impl Hub {
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
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        let hooks = self.hooks(self.sessions.get(key)?.zone());
        let deed = self.deed_of_publish(key, publish, hooks)?;
        if let Deed::Say { room, .. } = &deed
            && !self.is_in_room(key, room)
        {
            // Another session of its user may be there, or it needs not be: the home knows.
            let rooms = alloc::vec![room.clone()];
            let is_asked = self.ask_home(now, key, (rooms, Place::Heard), packet);
            return is_asked.then_some(Ok(()));
        }
        self.consult_about_publish(key, publish, deed, packet)
    }

    fn consult_about_publish(
        &mut self,
        key: SessionKey,
        publish: &Publish<'_>,
        deed: Deed,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        if self.put_aside(key, (deed, Scope::default()), packet)? {
            return Some(Ok(()));
        }
        let busy = Outcome::new(ReasonCode::QuotaExceeded, BUSY);
        Some(self.answer(key, publish, Taken::Done(busy)))
    }

    /// Asks about a SUBSCRIBE, like [`Hub::consult_publish`].
    pub(crate) fn consult_subscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        packet: &[u8],
    ) -> Option<Result<(), CloseReason>> {
        let hooks = self.hooks(self.sessions.get(key)?.zone());
        if !hooks.has(Hooks::JOIN.and(Hooks::SUBSCRIBE)) {
            return None;
        }
        let deed = self.deed_of_subscribe(key, subscribe, (hooks, &[]))?;
        if hooks.has(Hooks::JOIN) && self.ask_places(now, key, &deed.0, packet) {
            return Some(Ok(()));
        }
        Some(self.consult_about(now, key, subscribe, (deed, packet)))
    }

    /// To come back to a place that is kept is not a join, whatever session does it, and the home
    /// of the zone knows where one is. Whether it was asked.
    fn ask_places(&mut self, now: Tick, key: SessionKey, deed: &Deed, packet: &[u8]) -> bool {
        let Some(session) = self.sessions.get(key) else {
            return false;
        };
        let Deed::Subscribe(filters) = deed else {
            return false;
        };
        let rooms = filters.iter().filter_map(|(_, room)| room.as_ref());
        let rooms = rooms.filter(|room| session.identity.may_speak(room));
        let mut rooms: Vec<Box<str>> = rooms.cloned().collect();
        rooms.sort_unstable();
        rooms.dedup();
        !rooms.is_empty() && self.ask_home(now, key, (rooms, Place::Kept), packet)
    }

    /// Asks the home in which of these rooms a session's user has such a place; the packet waits.
    fn ask_home(
        &mut self,
        now: Tick,
        key: SessionKey,
        (rooms, sought): (Vec<Box<str>>, Place),
        packet: &[u8],
    ) -> bool {
        let (Some(session), Some(who)) = (self.sessions.get(key), self.who(key)) else {
            return false;
        };
        let packed = Packed {
            session: key,
            epoch: session.epoch,
            packet: packet.into(),
            scope: Scope::default(),
        };
        let ticket = self.issue_ticket();
        self.questions.placing.insert(ticket, packed);
        self.hold(key);
        let home = self.home_of(who.identity.zone);
        let item = RoomItem::Places {
            rooms,
            sought,
            who,
            answer: (self.shard, ticket),
        };
        self.send_room(now, home, item);
        true
    }

    /// The home has said in which rooms the user of a packet has a place: of those that it comes
    /// back to no adaptor is asked, and of those that it speaks in they are.
    pub(crate) fn placed(&mut self, now: Tick, ticket: Ticket, found: &[Box<str>]) {
        let Some(packed) = self.questions.placing.remove(&ticket) else {
            return;
        };
        self.unpack(now, &packed, |hub, key, packet| {
            let zone = hub.sessions.get(key).map(Session::zone);
            let hooks = zone.map_or(Hooks::NONE, |zone| hub.hooks(zone));
            match packet {
                Packet::Subscribe(subscribe) => {
                    let deed = hub.deed_of_subscribe(key, subscribe, (hooks, found));
                    let about = deed.map(|deed| (deed, &packed.packet[..]));
                    about.map_or(Ok(()), |about| {
                        hub.consult_about(now, key, subscribe, about)
                    })
                }
                Packet::Publish(publish) => {
                    let deed = hub.deed_of_publish(key, publish, hooks);
                    if found.is_empty() && deed.is_some() {
                        // It may be heard by now, but nobody has judged it.
                        let judgement = Judgement::Denied(Denial {
                            reason: ReasonCode::NotAuthorized,
                            text: Refusal::NotMember.text().into(),
                        });
                        return hub.publish_judged(now, key, publish, &judgement);
                    }
                    let consulted = deed.and_then(|deed| {
                        hub.consult_about_publish(key, publish, deed, &packed.packet)
                    });
                    consulted.unwrap_or_else(|| hub.on_publish(now, key, publish))
                }
                _ => Ok(()),
            }
        });
    }

    /// Asks about what there is to ask about; where there is nothing, the SUBSCRIBE goes on.
    fn consult_about(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        ((deed, scope), packet): ((Deed, Scope), &[u8]),
    ) -> Result<(), CloseReason> {
        if scope.asked.is_empty() {
            return self.subscribe_judged(now, key, subscribe, (&[], &scope));
        }
        if self.put_aside(key, (deed, scope), packet) == Some(false) {
            self.refuse_subscribe(key, subscribe, ReasonCode::QuotaExceeded, BUSY);
        }
        Ok(())
    }

    /// Asks about a session that comes back to rooms where it has no place any more: that is
    /// joining them. Gives the elements back if nobody wants to hear of it, or, denied, if no more
    /// can wait.
    pub(crate) fn consult_return(
        &mut self,
        key: SessionKey,
        elements: Vec<Element>,
    ) -> Option<Vec<Element>> {
        let session = self.sessions.get(key)?;
        if !self.hooks(session.zone()).has(Hooks::JOIN) {
            return Some(elements);
        }
        let (identity, client_id) = (Arc::clone(&session.identity), session.client_id.clone());
        let filter = |element: &Element| {
            let room = room_of(&element.filter).map(Into::into);
            (element.filter.clone(), room)
        };
        let deed = Deed::Subscribe(elements.iter().map(filter).collect());
        let aside = Aside::Return {
            session: key,
            epoch: session.epoch,
            elements: elements.clone(),
        };
        if self.ask(identity, client_id, deed, aside) {
            self.hold(key);
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

    /// Asks, and keeps the packet until the judgement; `false` if no more can wait.
    fn put_aside(
        &mut self,
        key: SessionKey,
        (deed, scope): (Deed, Scope),
        packet: &[u8],
    ) -> Option<bool> {
        let session = self.sessions.get(key)?;
        let (identity, client_id) = (Arc::clone(&session.identity), session.client_id.clone());
        let aside = Aside::Packet(Packed {
            session: key,
            epoch: session.epoch,
            packet: packet.into(),
            scope,
        });
        let is_asked = self.ask(identity, client_id, deed, aside);
        if is_asked {
            self.hold(key);
        }
        Some(is_asked)
    }

    fn ask(
        &mut self,
        identity: Arc<Identity>,
        client_id: Box<str>,
        deed: Deed,
        aside: Aside,
    ) -> bool {
        let Some(adaptors) = &self.adaptors else {
            return false;
        };
        self.questions.asked += 1;
        let number = self.questions.asked;
        let question = Question {
            identity,
            client_id,
            deed,
            shard: self.shard,
            number,
        };
        let is_asked = adaptors.ask(question).is_ok();
        if is_asked {
            self.questions.waiting.insert(number, aside);
        }
        is_asked
    }

    /// Asks about a will that is due and permitted. Whether that is all to do for now: it waits
    /// for the judgement, or is dropped because no more can wait.
    pub(crate) fn consult_will(
        &mut self,
        identity: &Arc<Identity>,
        client_id: &str,
        will: &WillRequest,
    ) -> bool {
        let hooks = self.hooks(identity.zone);
        let deed = match Address::parse(&will.topic) {
            Ok(Address::Private { user, .. }) if hooks.has(Hooks::PRIVATE) => Deed::Private {
                to: user.as_ref().into(),
                payload: will.payload.as_slice().into(),
            },
            Err(NotAddress::Elsewhere) if hooks.has(Hooks::PUBLISH) => Deed::Publish {
                topic: will.topic.as_str().into(),
                payload: will.payload.as_slice().into(),
                qos: will.qos,
                retain: will.retain,
            },
            _ => return false,
        };
        let aside = Aside::Will(Arc::clone(identity), will.clone());
        if !self.ask(Arc::clone(identity), client_id.into(), deed, aside) {
            self.stats.denied += 1;
        }
        true
    }

    /// Asks about an answer that goes to where its caller might have published it. Whether that is
    /// all to do for now, as for a will.
    pub(crate) fn consult_answer(&mut self, answer: &Answer, listener: &Listener) -> bool {
        if !self.hooks(listener.identity.zone).has(Hooks::PUBLISH) {
            return false;
        }
        let deed = Deed::Publish {
            topic: listener.topic.clone(),
            payload: answer.json.as_slice().into(),
            qos: QoS::AtLeastOnce,
            retain: false,
        };
        let (identity, client_id) = (Arc::clone(&listener.identity), listener.client_id.clone());
        if !self.ask(identity, client_id, deed, Aside::Answer(answer.clone())) {
            self.stats.denied += 1;
        }
        true
    }

    /// What a publish is, where an adaptor wants to hear of that and its sender may do it.
    fn deed_of_publish(
        &mut self,
        key: SessionKey,
        publish: &Publish<'_>,
        hooks: Hooks,
    ) -> Option<Deed> {
        let wanted = Hooks::PUBLISH.and(Hooks::SAY).and(Hooks::PRIVATE);
        if !hooks.has(wanted) {
            return None;
        }
        let payload = || Box::<[u8]>::from(publish.payload);
        let deed = self.with_topic(key, publish, |hub, name| {
            let topic: &str = &name;
            let session = hub.sessions.get(key)?;
            match Address::parse(topic) {
                Err(NotAddress::Elsewhere) if hooks.has(Hooks::PUBLISH) => {
                    let may = session.identity.rights.may_publish(topic);
                    may.then(|| Deed::Publish {
                        topic: topic.into(),
                        payload: payload(),
                        qos: publish.qos,
                        retain: publish.retain,
                    })
                }
                Ok(Address::Private { user, .. }) if hooks.has(Hooks::PRIVATE) => {
                    may_publish(&session.identity, topic).then(|| Deed::Private {
                        to: user.as_ref().into(),
                        payload: payload(),
                    })
                }
                Ok(Address::Say { room }) if hooks.has(Hooks::SAY) => {
                    let may = session.identity.rights.may_publish(topic);
                    // What is too long for every room is refused without asking.
                    let bounds = &hub.settings.rooms_of(session.zone()).room.bounds;
                    let fits = publish.payload.len() <= bounds.say_bytes;
                    (may && fits && session.identity.user.is_some()).then(|| Deed::Say {
                        room: room.into(),
                        payload: payload(),
                    })
                }
                _ => None,
            }
        });
        // A topic that cannot be is refused without asking.
        deed.ok().flatten()
    }

    /// What a SUBSCRIBE is, where an adaptor wants to hear of that and the session may have it,
    /// which may be nothing, with what none is asked about.
    fn deed_of_subscribe(
        &self,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        (hooks, kept): (Hooks, &[Box<str>]),
    ) -> Option<(Deed, Scope)> {
        let is_kept = |room: &str| kept.binary_search_by(|known| (**known).cmp(room)).is_ok();
        let session = self.sessions.get(key)?;
        let mut left = Left {
            places: self.places_left(session),
            bytes: self.filter_bytes_left(session),
            rooms: JOINED_AT_ONCE_MAX.min(ROOMS_MAX.saturating_sub(session.room_count())),
            known: BTreeSet::new(),
            known_rooms: BTreeSet::new(),
        };
        let mut filters = Vec::new();
        let mut scope = Scope::default();
        let most = self.settings.subscriptions_max;
        scope.looked_at = subscribe.filters.iter().nth(most).map(|_| most);
        for (at, element) in subscribe.filters.iter().enumerate().take(most) {
            // What cannot be read is refused in any case.
            let Ok(parsed) = Subscription::parse(element.filter) else {
                continue;
            };
            let room = match Interest::parse(parsed.filter) {
                Interest::Room { room } if session.is_in_room(room) || is_kept(room) => {
                    scope.unasked.push(room.into());
                    continue;
                }
                Interest::Room { room } if hooks.has(Hooks::JOIN) => Some(room),
                Interest::Elsewhere if hooks.has(Hooks::SUBSCRIBE) => None,
                _ => continue,
            };
            let may = self.may_have(key, (element.filter, parsed), room, &mut left);
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
        Some((Deed::Subscribe(filters), scope))
    }

    /// Whether a session may have one more subscription, if adaptors and the room have nothing
    /// against it.
    fn may_have<'f>(
        &self,
        key: SessionKey,
        (text, parsed): (&'f str, Subscription<'f>),
        room: Option<&'f str>,
        left: &mut Left<'f>,
    ) -> Result<(), Refused> {
        let Some(session) = self.sessions.get(key) else {
            return Err((ReasonCode::UnspecifiedError, ""));
        };
        let Subscription { share, filter } = parsed;
        let is_known = left.known.contains(text) || {
            let zone = session.zone();
            self.find_subscription(key, zone, share, filter).is_some()
        };
        let bytes = self.subscription_cost(share, filter);
        if !is_known && (left.places == 0 || left.bytes < bytes) {
            return Err((ReasonCode::QuotaExceeded, ""));
        }
        self.check_filter((key, session), share, filter)?;
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

/// What a session has left for a SUBSCRIBE.
struct Left<'f> {
    places: usize,
    bytes: usize,
    rooms: usize,
    /// The filters that have taken some of it.
    known: BTreeSet<&'f str>,
    known_rooms: BTreeSet<&'f str>,
}
