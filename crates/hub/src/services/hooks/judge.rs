//! What becomes of what was asked, when adaptors have judged.

use alloc::string::String;
use alloc::sync::Arc;

use stentor_mqtt::{Packet, Publish, ReasonCode, Sender, decode, frame};
use stentor_session::{CloseReason, Outcome, Tick, TopicName, WillRequest};
use stentor_zone::{Address, adaptor_refused, topic as zone_topic};

use super::{Aside, Denial, Judgement, Packed, Rewrite};
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::NO_RIGHT;
use crate::core::sessions::rights::Identity;
use crate::core::work::Share;
use crate::hub::Hub;
use crate::services::calls::Answer;

/// What the server says to a publish that an adaptor has where its sender may not publish. Its
/// sender knows another topic.
const NO_RIGHT_THERE: Outcome = Outcome::new(
    ReasonCode::NotAuthorized,
    "an adaptor has this go to another topic, where the right to publish is missing",
);

/// Where a deed goes, if that is not where its sender had it go.
fn redirect(topic: &str, rewrite: &Rewrite) -> Option<String> {
    let to = rewrite.to.as_deref();
    match Address::parse(topic) {
        Ok(Address::Private { user, reply }) => {
            let mut topic = zone_topic::private_to(to.unwrap_or(&user));
            if let Some(id) = reply.filter(|_| !rewrite.hides_response) {
                topic.push('/');
                topic.push_str(id);
            }
            Some(topic)
        }
        Ok(_) => None,
        Err(_) => to.map(Into::into),
    }
}

/// What is said against each filter.
fn denials_of(judgement: &Judgement) -> &[Option<Denial>] {
    match judgement {
        Judgement::Filters(denials) => denials,
        Judgement::Done(_) | Judgement::Denied(_) => &[],
    }
}

impl Hub {
    /// Nothing more is read from a session's connection until [`Hub::let_go`].
    pub(crate) fn hold(&mut self, key: SessionKey) {
        if let Some(live) = self
            .sessions
            .get_mut(key)
            .and_then(|session| session.live_mut())
        {
            live.extras().held += 1;
        }
    }

    /// Undoes one [`Hub::hold`].
    pub(crate) fn let_go(&mut self, now: Tick, key: SessionKey) {
        let Some(live) = self
            .sessions
            .get_mut(key)
            .and_then(|session| session.live_mut())
        else {
            return;
        };
        // It could not show that it is alive.
        live.last_seen = now;
        let link = live.link;
        let extras = live.extras();
        extras.held = extras.held.saturating_sub(1);
        if extras.held == 0 {
            self.effects.resumed.push(link);
        }
    }

    /// The adaptors have judged.
    pub(crate) fn judged(&mut self, now: Tick, number: u64, judgement: &Judgement) {
        match self.questions.waiting.remove(&number) {
            Some(Aside::Packet(packed)) => self.packet_judged(now, &packed, judgement),
            Some(Aside::Return {
                session,
                epoch,
                elements,
            }) => {
                let denials = denials_of(judgement);
                self.return_judged(now, (session, epoch), elements, denials);
            }
            Some(Aside::Will(identity, will)) => {
                self.will_judged(now, &identity, will, judgement);
            }
            Some(Aside::Answer(answer)) => self.answer_judged(now, answer, judgement),
            None => {}
        }
    }

    fn packet_judged(&mut self, now: Tick, packed: &Packed, judgement: &Judgement) {
        self.unpack(now, packed, |hub, key, packet| match packet {
            Packet::Publish(publish) => hub.publish_judged(now, key, publish, judgement),
            Packet::Subscribe(subscribe) => {
                let denials = packed.scope.denials(denials_of(judgement));
                hub.subscribe_judged(now, key, subscribe, (&denials, &packed.scope))
            }
            _ => Ok(()),
        });
    }

    /// Goes on with a packet that was put aside, and then with its connection.
    pub(super) fn unpack(
        &mut self,
        now: Tick,
        packed: &Packed,
        f: impl FnOnce(&mut Self, SessionKey, &Packet<'_>) -> Result<(), CloseReason>,
    ) {
        let (key, epoch, bytes) = (packed.session, packed.epoch, &packed.packet[..]);
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        // Whoever is gone is not answered, and has asked for nothing any more.
        let Some(live) = session.live().filter(|_| session.epoch == epoch) else {
            return;
        };
        let (version, max) = (live.version, live.announced.packet_bytes_max);
        self.settle(now);
        let packet = match frame(bytes, max) {
            Ok(Some(frame)) => {
                let body = bytes.get(frame.header_len..frame.total_len);
                decode(
                    version,
                    Sender::Client,
                    frame.first,
                    body.unwrap_or_default(),
                )
            }
            // It was whole when it was put aside.
            Ok(None) | Err(_) => return self.let_go(now, key),
        };
        self.routes.reading = Some(key);
        let (before, mut share) = (self.turn.spent(), Share::of(&mut self.turn));
        let is_publish = matches!(packet, Ok(Packet::Publish(_)));
        let result = match packet {
            Ok(packet) => f(self, key, &packet),
            Err(_) => Ok(()),
        };
        self.settle(now);
        self.routes.reading = None;
        share.count(is_publish, self.turn.spent() - before);
        self.charge_share(now, key, &share);
        if let Err(reason) = result {
            self.close(now, key, reason);
        }
        self.let_go(now, key);
        self.close_overrun(now);
    }

    /// What becomes of something that nobody waits for; `None` if nothing does.
    fn rewrite_of<'j>(&mut self, judgement: &'j Judgement) -> Option<&'j Rewrite> {
        match judgement {
            Judgement::Done(rewrite) => Some(rewrite).filter(|rewrite| !rewrite.hides_notification),
            Judgement::Denied(_) | Judgement::Filters(_) => {
                self.stats.denied += 1;
                None
            }
        }
    }

    /// An answer goes to its topic, or to another one to which its caller might publish.
    fn answer_judged(&mut self, now: Tick, mut answer: Answer, judgement: &Judgement) {
        let Some(rewrite) = self.rewrite_of(judgement) else {
            return;
        };
        if let Some(payload) = &rewrite.payload {
            answer.json = payload.to_vec();
        }
        if answer.to.redirect(rewrite.to.as_deref(), &self.settings) {
            self.publish_answer(now, &answer);
        } else {
            self.stats.denied += 1;
        }
    }

    fn will_judged(
        &mut self,
        now: Tick,
        identity: &Arc<Identity>,
        mut will: WillRequest,
        judgement: &Judgement,
    ) {
        let Some(rewrite) = self.rewrite_of(judgement) else {
            return;
        };
        if let Some(topic) = redirect(&will.topic, rewrite) {
            will.topic = topic;
        }
        if let Some(payload) = &rewrite.payload {
            will.payload = payload.to_vec();
        }
        self.settle(now);
        // It may go elsewhere now, where its owner may not publish.
        let is_topic = stentor_topic::validate_name(&will.topic).is_ok();
        if is_topic && self.may_leave(identity, &will) {
            self.publish_will_as(now, identity, &will);
        }
        self.close_overrun(now);
    }

    /// What becomes of a publish, as adaptors have it.
    pub(crate) fn take_judged(
        &mut self,
        now: Tick,
        key: SessionKey,
        (publish, name): (&Publish<'_>, TopicName<'_>),
        judgement: &Judgement,
    ) -> Taken {
        let topic: &str = &name;
        let rewrite = match judgement {
            Judgement::Done(rewrite) => rewrite,
            Judgement::Denied(denial) => return self.deny_deed(now, key, (publish, topic), denial),
            Judgement::Filters(_) => return self.take(now, key, publish, name),
        };
        let changed = redirect(topic, rewrite);
        let is_elsewhere = changed.as_deref().is_some_and(|changed| changed != topic);
        let topic = changed.as_deref().unwrap_or(topic);
        if stentor_topic::validate_name(topic).is_err() {
            return Taken::done(ReasonCode::TopicNameInvalid);
        }
        if rewrite.hides_notification {
            if let Ok(Address::Private {
                user,
                reply: Some(id),
            }) = Address::parse(topic)
                && let Some(zone) = self.sessions.get(key).map(|session| session.zone())
            {
                let to = self.reply_address(key, zone, publish, id);
                let delivered = stentor_zone::Reach::Delivered;
                let json = stentor_zone::Response::Reached(delivered).json(&user);
                self.answered(now, &Answer { to, json });
            }
            return Taken::SUCCESS;
        }
        let payload = rewrite.payload.as_deref().unwrap_or(publish.payload);
        let publish = Publish {
            payload,
            ..publish.clone()
        };
        let name = match &changed {
            Some(changed) => TopicName::Written(changed),
            None => name,
        };
        match self.take(now, key, &publish, name) {
            Taken::Done(refused) if is_elsewhere && refused == NO_RIGHT => {
                Taken::Done(NO_RIGHT_THERE)
            }
            taken => taken,
        }
    }

    fn deny_deed(
        &mut self,
        now: Tick,
        key: SessionKey,
        (publish, topic): (&Publish<'_>, &str),
        denial: &Denial,
    ) -> Taken {
        self.stats.denied += 1;
        let Some(session) = self.sessions.get(key) else {
            return Taken::done(denial.reason);
        };
        let (zone, is_v5) = (session.zone(), session.speaks_v5());
        if let Ok(Address::Private {
            user,
            reply: Some(id),
        }) = Address::parse(topic)
        {
            let to = self.reply_address(key, zone, publish, id);
            let json = adaptor_refused(denial.reason as u8, "to", &user, &denial.text);
            self.answered(now, &Answer { to, json });
        }
        // 3.x has no reason codes.
        if !is_v5 {
            return Taken::SUCCESS;
        }
        Taken::Done(Outcome {
            reason: denial.reason,
            text: String::from(&*denial.text).into(),
        })
    }
}
