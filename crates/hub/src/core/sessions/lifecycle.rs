//! How connections and sessions end, and what happens then.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Disconnect, Packet, Property, PropertyBuf, ReasonCode};
use stentor_session::{
    CloseReason, Denied, Local, Message, MessageParts, Tick, Timer as TimerKind, WillRequest,
};
use stentor_topic::Zone;
use stentor_zone::{Address, inbox, topic as zone_topic};

use crate::core::delivery::conflate::Conflating;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inbound::acknowledge::explanation;
use crate::core::inbound::publish::may_publish;
use crate::core::sessions::connect::keep_alive_deadline;
use crate::core::sessions::limits;
use crate::core::sessions::registry::{Away, Left, Link, Session};
use crate::core::sessions::rights::Identity;
use crate::core::stats::{LossCause, ZoneTraffic};
use crate::core::work::{CLOSE_VISITS, DROP_VISITS, FILTER_VISITS, OWN_HANDED, TIMER_VISITS, Turn};
use crate::effects::{Closing, Event};
use crate::hub::{Hub, Timer};

/// Sessions of one client id: one for each user who has come with it. Looking for one walks over
/// them all, and guests get a new name each time.
const NAMESAKES_MAX: usize = 16;

/// A DISCONNECT beside its text: fixed header, reason code, and the property with its lengths.
const DISCONNECT_BYTES: usize = 13;

/// What is held back for a session whose connection is gone: messages at QoS 0 are dropped. Where
/// the session ends as well, everything is dropped with its queue, over many turns.
fn held_while_away(
    turn: &mut Turn,
    ends: bool,
    held: Option<Box<Conflating>>,
) -> Option<Box<Conflating>> {
    let held = held?;
    if ends {
        return Some(held);
    }
    turn.spend_each(held.pieces(), DROP_VISITS);
    held.disconnected()
}

impl Hub {
    /// The socket of a connection is gone. Does nothing if the hub has let that connection go
    /// already.
    pub fn disconnected(&mut self, now: Tick, key: SessionKey, link: LinkId, why: CloseReason) {
        let is_current = self
            .sessions
            .get(key)
            .and_then(|session| session.live())
            .is_some_and(|live| live.link == link);
        if is_current {
            self.detach(now, key, (why, None));
            self.close_overrun(now);
        }
    }

    /// Closes the connection of a client, and with `end_session` the sessions of all users under
    /// its id too. Returns whether there was one.
    pub fn kick(&mut self, now: Tick, zone: Zone, client_id: &str, end_session: bool) -> bool {
        let keys: Vec<_> = self
            .sessions
            .all(zone, client_id)
            .map(|(key, _)| key)
            .collect();
        for &key in &keys {
            self.close(now, key, CloseReason::Local(Local::Kicked));
            if end_session {
                self.end_session(now, key);
            }
        }
        self.close_overrun(now);
        !keys.is_empty()
    }

    /// A zone ends: closes its connections, ends its sessions, and its rooms if this is their
    /// home. Wills are not published. Returns how many sessions there were. O(sessions).
    pub fn end_zone(&mut self, now: Tick, zone: Zone) -> u64 {
        self.settle(now);
        let of_zone = self
            .sessions
            .iter()
            .filter(|(_, session)| session.zone() == zone);
        let keys: Vec<_> = of_zone.map(|(key, _)| key).collect();
        for &key in &keys {
            self.revoke(now, key, true);
        }
        self.end_rooms(now, zone);
        *self.traffic.of(zone) = ZoneTraffic::default();
        self.close_overrun(now);
        keys.len() as u64
    }

    /// Closes all connections because the server stops. Wills stay unpublished: their readers
    /// are disconnected too. `elsewhere` names the server that the client of a connection may use
    /// instead. An MQTT 5 client receives it with 0x9C, if its maximum packet size allows that.
    pub fn shut_down(&mut self, now: Tick, elsewhere: impl Fn(LinkId) -> Option<String>) {
        let reason = CloseReason::Local(Local::ShuttingDown);
        let keys: Vec<_> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(session) = self.sessions.get_mut(key) else {
                continue;
            };
            session.will = None;
            let reference = session.live().and_then(|live| {
                let fits =
                    |text: &String| text.len() + DISCONNECT_BYTES <= live.packet_bytes_max as usize;
                elsewhere(live.link).filter(fits)
            });
            let mut properties = PropertyBuf::new();
            let code = match &reference {
                Some(reference) => {
                    properties.push(Property::ServerReference(reference));
                    Some(ReasonCode::UseAnotherServer)
                }
                None => reason.reason_code(),
            };
            self.close_with(now, key, (reason, None), (code, properties));
        }
    }

    /// Lets a connection go: its queue, closed by a DISCONNECT where the version has one, goes
    /// to the shard, and the session is left without it.
    pub(crate) fn close(&mut self, now: Tick, key: SessionKey, reason: CloseReason) {
        let limit = self.limit_met(key, reason);
        self.close_naming(now, key, reason, limit);
    }

    /// The limit for which a connection is closed, in words.
    fn limit_met(&self, key: SessionKey, reason: CloseReason) -> Option<String> {
        let session = self.sessions.get(key)?;
        limits::closing(session, session.live()?, &self.settings, reason)
    }

    /// [`Hub::close`] with the limit that the client has met.
    fn close_naming(
        &mut self,
        now: Tick,
        key: SessionKey,
        reason: CloseReason,
        limit: Option<String>,
    ) {
        let live = self.sessions.get(key).and_then(Session::live);
        let (Some(limit), Some(live)) = (limit, live) else {
            return self.close_saying(now, key, reason, reason.reason_code());
        };
        // Without the text if that makes the packet too large [MQTT-3.14.2-3].
        let fits = limit.len() + DISCONNECT_BYTES <= live.packet_bytes_max as usize;
        let properties = explanation(if fits { &limit } else { "" });
        let limit = Some(limit.as_str());
        self.close_with(
            now,
            key,
            (reason, limit),
            (reason.reason_code(), properties),
        );
    }

    /// [`Hub::close`] with another code in its DISCONNECT, or none: before CONNACK nothing is
    /// said [MQTT-3.14.0-1].
    pub(crate) fn close_saying(
        &mut self,
        now: Tick,
        key: SessionKey,
        reason: CloseReason,
        code: Option<ReasonCode>,
    ) {
        self.close_with(now, key, (reason, None), (code, PropertyBuf::new()));
    }

    fn close_with(
        &mut self,
        now: Tick,
        key: SessionKey,
        (reason, limit): (CloseReason, Option<&str>),
        (code, properties): (Option<ReasonCode>, PropertyBuf),
    ) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Link::Live(live) = &mut session.link else {
            return;
        };
        if matches!(reason, CloseReason::Bug(_)) {
            self.stats.bugs += 1;
        }
        let code = code.filter(|_| live.version.is_v5());
        let packet = code.map(|reason| {
            Packet::Disconnect(Disconnect {
                reason,
                properties: properties.as_properties(),
            })
        });
        let output = live.output.take();
        let farewell = self.outbox.farewell(output, live.version, packet.as_ref());
        self.effects.closing.push(Closing {
            link: live.link,
            reason,
            farewell,
        });
        self.detach(now, key, (reason, limit));
    }

    /// Has a connection closed that a policy gives up. Until then it gets nothing more, and nothing
    /// is taken from it.
    pub(crate) fn give_up(&mut self, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        if let Some(live) = session.and_then(|session| session.live_mut())
            && live.give_up()
        {
            self.overrun.push_back(key);
        }
    }

    /// Closes the connections that a policy has given up, as far as the turn allows. In the midst
    /// of the end of a connection it does nothing: what others hear of that end may be too much for
    /// them, or for itself. Then they are closed by the next call, of the same turn or a later one.
    #[inline]
    pub(crate) fn close_overrun(&mut self, now: Tick) {
        if !self.overrun.is_empty() {
            self.close_some_overrun(now, self.turn.left());
        }
    }

    /// Closes some of them in any case.
    pub(crate) fn continue_overrun(&mut self, now: Tick) {
        self.close_some_overrun(now, self.turn.slice());
    }

    fn close_some_overrun(&mut self, now: Tick, visits: u32) {
        if self.detaching {
            return;
        }
        let before = self.turn.spent();
        while self.turn.spent() - before < visits
            && let Some(key) = self.overrun.pop_front()
        {
            let session = self.sessions.get(key);
            // It may have gone by itself, and come back.
            if session.is_some_and(Session::is_given_up) {
                let reason = CloseReason::Limit(stentor_session::Limit::QueueBytes);
                // The limit first: what waits is dropped with what is counted.
                let limit = self.limit_met(key, reason);
                self.count_abandoned(now, key);
                self.close_naming(now, key, reason, limit);
            }
        }
    }

    /// What waits in the socket's queue at QoS 0 is lost with its connection, and what is owed with
    /// its session, if that ends too.
    fn count_abandoned(&mut self, now: Tick, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let (zone, ends) = (session.zone(), !session.is_persistent());
        let Link::Live(live) = &mut session.link else {
            return;
        };
        let (losses, cause) = (&mut self.losses, LossCause::Disconnect);
        let mut lost = 0;
        if let Some(output) = &mut live.output {
            let client_id = &*session.client_id;
            self.turn.spend_each(output.pieces(), DROP_VISITS);
            output.abandon(|topic, messages| {
                lost += messages;
                match topic {
                    Some(topic) => {
                        losses.record_several(cause, client_id, topic, messages);
                    }
                    None => losses.record_many(cause, messages),
                }
            });
        }
        if let Some(outbound) = session.outbound.as_ref().filter(|_| ends) {
            let owed = (outbound.in_flight_len() + outbound.waiting_len()) as u64;
            losses.record_many(cause, owed);
            lost += owed;
        }
        if lost > 0 {
            session.tally().lose(now, cause, lost);
        }
        self.stats.publishes_dropped += lost;
        self.traffic.of(zone).dropped += lost;
    }

    /// A session is without a connection from now on, or at its end.
    fn detach(&mut self, now: Tick, key: SessionKey, (reason, limit): (CloseReason, Option<&str>)) {
        self.turn.spend(CLOSE_VISITS);
        self.detaching = true;
        self.tell_of_end(key, reason);
        self.remember_end(now, key, reason);
        self.lose_server(key);
        let rooms = self.disconnect_rooms(now, key, reason);
        self.disconnect_presence(now, key, reason);
        self.detaching = false;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let expiry_secs = session.expiry_secs();
        let Link::Live(live) = &mut session.link else {
            return;
        };
        let output = live.output.take();
        self.stats.connected = self.stats.connected.saturating_sub(1);
        let event = Event::Disconnected {
            link: live.link,
            zone: session.identity.zone,
            client_id: session.client_id.clone(),
            user: session.identity.user.clone(),
            connected_secs: now.since(live.since).as_secs(),
            reason,
            limit: limit.map(Box::from),
        };
        self.effects.events.push(event);
        if reason.drops_will() {
            session.will = None;
        }
        if let Some(outbound) = &mut session.outbound {
            outbound.disconnected();
        }
        if let Some(inbound) = &mut session.inbound {
            inbound.disconnected();
            if inbound.is_empty() {
                session.inbound = None;
            }
        }
        let until = match expiry_secs {
            u32::MAX => Tick::NEVER,
            secs => now.after_secs(secs),
        };
        let delay = session.will.as_ref().map(|will| will.delay_secs);
        let will_at = delay.map_or(Tick::NEVER, |secs| now.after_secs(secs).min(until));
        session.epoch = session.epoch.wrapping_add(1);
        let extras = *live.extras.take().unwrap_or_default();
        let (mut snapshots, conflating, debt) = (extras.snapshots, extras.conflating, extras.debt);
        if let Some(snapshots) = &mut snapshots {
            snapshots.disconnected();
        }
        let conflating = held_while_away(&mut self.turn, until <= now, conflating);
        session.link = Link::Away(Away {
            until,
            will_at,
            snapshots,
            conflating,
            left: Left::of(rooms, extras.tally),
        });
        if let Some(output) = output {
            self.discard(output);
        }
        self.tell_shares(key);
        self.sessions.went_away(key);
        self.remember_debt(now, key, debt);
        self.settle_absence(now, key);
    }

    /// Members of a session's shared subscriptions are counted: one of them is away from now on.
    fn tell_shares(&mut self, key: SessionKey) {
        for slot in self.shares.of_member(key.slot) {
            self.turn.spend(FILTER_VISITS);
            self.member_changed(slot, key.slot, false);
        }
    }

    /// Does what is due of an absent session, and sets the timer for what is not.
    fn settle_absence(&mut self, now: Tick, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Link::Away(away) = &mut session.link else {
            return;
        };
        if away.until <= now {
            let client_id = session.client_id.clone();
            if session.is_persistent() {
                self.stats.expired += 1;
                self.effects
                    .events
                    .push(Event::SessionExpired { client_id });
            }
            return self.end_session(now, key);
        }
        let mut due_will = None;
        if away.will_at <= now {
            away.will_at = Tick::NEVER;
            due_will = session.will.take();
        }
        let next = away.until.min(away.will_at);
        let timer = Timer {
            session: key,
            epoch: session.epoch,
        };
        let (client_id, user) = (session.client_id.clone(), Arc::clone(&session.identity));
        if next != Tick::NEVER {
            self.arm(now, next, timer);
        }
        if let Some(will) = due_will {
            self.publish_will(now, &user, &client_id, &will);
        }
    }

    /// A session is new: of those that other users have left under the same client id only the
    /// newest stay. O([`NAMESAKES_MAX`]).
    pub(crate) fn end_oldest_namesake(&mut self, now: Tick, key: SessionKey) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let all = self.sessions.all(session.zone(), &session.client_id);
        let absent =
            |(own, session): &(SessionKey, &Session)| *own != key && session.live().is_none();
        if all.count() <= NAMESAKES_MAX {
            return;
        }
        let all = self.sessions.all(session.zone(), &session.client_id);
        let oldest = all.filter(absent).min_by_key(|(key, _)| key.generation);
        if let Some((oldest, _)) = oldest {
            self.end_session(now, oldest);
        }
    }

    pub(crate) fn publish_will(
        &mut self,
        now: Tick,
        identity: &Arc<Identity>,
        client_id: &str,
        will: &WillRequest,
    ) {
        if self.may_leave(identity, will) && !self.consult_will(identity, client_id, will) {
            self.at_cost_of(identity.zone, client_id, |hub| {
                hub.publish_will_as(now, identity, will);
            });
        }
    }

    /// Whether a will is permitted still; one that is not is counted.
    pub(crate) fn may_leave(&mut self, identity: &Identity, will: &WillRequest) -> bool {
        let is_taken = self.settings.takes_topic(&will.topic);
        let may = is_taken && may_publish(identity, &will.topic);
        self.stats.denied += u64::from(!may);
        self.stats.topics_refused += u64::from(!is_taken);
        self.stats.publishes_denied += u64::from(is_taken && !may);
        may
    }

    /// Publishes a will that is permitted.
    pub(crate) fn publish_will_as(&mut self, now: Tick, identity: &Identity, will: &WillRequest) {
        let zone = identity.zone;
        let private = match (Address::parse(&will.topic), identity.user.as_deref()) {
            (Ok(Address::Private { user, .. }), Some(sender)) => Some((
                zone_topic::private_from(sender),
                inbox::route(&user, sender),
            )),
            _ => None,
        };
        let parts = MessageParts {
            topic: private.as_ref().map_or(&will.topic, |(topic, _)| topic),
            properties: &will.properties,
            payload: &will.payload,
            qos: will.qos,
            retain: will.retain && private.is_none(),
            expiry_secs: will.expiry_secs,
        };
        let publisher = stentor_session::Publisher::SERVER;
        let message = Arc::new(Message::new(zone, publisher, now, &parts));
        match private {
            Some((_, route)) => self.will_private(now, message, &route),
            None => self.keep_and_route_now(now, message),
        }
    }

    /// Sets a timer. It fires early when the deadline is far away, and is set again then: a timer
    /// of an earlier connection cannot be taken out, so none may stay for hours.
    pub(crate) fn arm(&mut self, now: Tick, deadline: Tick, timer: Timer) {
        const AHEAD_SECS_MAX: u32 = 600;
        let at = deadline.min(now.after_secs(AHEAD_SECS_MAX));
        self.timers.insert(at, timer);
    }

    /// Does what timers have fired for, as far as the turn allows, and a little in any case.
    pub(crate) fn fire_due(&mut self, now: Tick) {
        let due = &mut self.due;
        self.timers.advance(now, |timer| due.push_back(timer));
        let (before, visits) = (self.turn.spent(), self.turn.slice());
        // The wills of clients that fall silent together may go to many.
        let handed = self.turn.handed();
        while self.turn.spent() - before < visits
            && self.turn.handed() - handed < OWN_HANDED
            && let Some(timer) = self.due.pop_front()
        {
            self.turn.spend(TIMER_VISITS);
            self.on_timer(now, timer);
        }
    }

    fn on_timer(&mut self, now: Tick, timer: Timer) {
        let Some(session) = self.sessions.get(timer.session) else {
            return;
        };
        if session.epoch != timer.epoch {
            return;
        }
        match &session.link {
            Link::Away(_) => self.settle_absence(now, timer.session),
            Link::Live(live) => {
                // While something that it asked for is decided nothing is read from it, and it
                // cannot show that it is alive.
                let seen = if live.is_held() { now } else { live.last_seen };
                let silence = keep_alive_deadline(seen, live.keep_alive_secs);
                let expiry = session.identity.expires_at;
                if expiry <= now {
                    let reason = CloseReason::Denied(Denied::Expired);
                    self.close(now, timer.session, reason);
                } else if silence <= now {
                    let reason = CloseReason::Timeout(TimerKind::KeepAlive);
                    self.close(now, timer.session, reason);
                } else {
                    self.arm(now, silence.min(expiry), timer);
                }
            }
        }
    }
}
