//! A PUBLISH on its way to those who take it: the core, or the service that its topic names.

use alloc::sync::Arc;

use stentor_mqtt::{Publish, ReasonCode};
use stentor_session::{CloseReason, Message, Outcome, Tick, TopicName};
use stentor_zone::{Address, NotAddress};

use super::Hub;
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::with_topic;
use crate::core::retained::{Kept, NotKept};
use crate::core::routing::keep::keep_and_route_for;
use crate::services::calls::{Called, refuse_room_call};
use crate::services::interface::answer::Answer;
use crate::services::interface::hooks::Judgement;
use crate::services::private::Envelope;

/// What the server says to a publish where only itself may.
const SERVER_ONLY: Outcome = Outcome::new(ReasonCode::NotAuthorized, NotAddress::ServerOnly.text());

/// Publishes a message for somebody without a connection: what the store keeps of it, if it is one
/// to be kept. This has to be the shard that orders its topic, see [`crate::home_shard`].
///
/// # Errors
/// When it is to be kept and cannot be: then nobody gets the message.
pub fn publish_for(
    hub: &mut Hub,
    now: Tick,
    message: Arc<Message>,
) -> Result<Option<Kept>, NotKept> {
    let kept = keep_and_route_for(&mut hub.core, now, message);
    hub.finish(now);
    kept
}

/// So that [`with_topic`] hands it on.
impl AsMut<Core> for Hub {
    fn as_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Hub {
    /// A PUBLISH, which adaptors have judged if there is a judgement. It is taken, unless it is a
    /// repetition, and acknowledged.
    pub(crate) fn on_publish(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        judgement: Option<&Judgement>,
    ) -> Result<(), CloseReason> {
        if let Some(again) = self.core.begin_publish(key, publish)? {
            // The alias still counts: packets after it may use it.
            with_topic(self, key, publish, |_, _| ())?;
            return self.core.answer(key, publish, again);
        }
        let taken = with_topic(self, key, publish, |hub, topic| match judgement {
            None => hub.take(now, key, publish, topic),
            Some(judgement) => hub.take_judged(now, key, (publish, topic), judgement),
        });
        let answered = taken.and_then(|taken| self.core.answer(key, publish, taken));
        if answered.is_err() {
            self.core.forget_arrival(key, publish);
        }
        answered
    }

    /// Has a publish taken by whom its topic names.
    pub(crate) fn take(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        name: TopicName<'_>,
    ) -> Taken {
        if name.starts_with('$')
            && let Some(taken) = self.take_for_service(now, key, publish, &name)
        {
            return taken;
        }
        self.core.publish(now, key, publish, name)
    }

    /// `None` if the topic is nobody's, and may be published to like any other.
    fn take_for_service(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        topic: &str,
    ) -> Option<Taken> {
        if let Some(outcome) = self.core.refuse_topic(now, key, topic) {
            return Some(Taken::Done(outcome));
        }
        let address = Address::parse(topic);
        if address != Err(NotAddress::Elsewhere) {
            let turn = self.core.turn_mut();
            turn.spend_on_names(topic.len());
            turn.serve();
        }
        Some(match address {
            Ok(Address::Private { user, reply }) => {
                let user = &user;
                let envelope = Envelope { user, reply };
                let private = &mut self.services.private;
                private.take_private(&mut self.core, now, key, publish, &envelope)
            }
            Ok(Address::Call { procedure, reply }) => {
                self.take_call(now, key, publish, (procedure, reply))
            }
            Ok(Address::RoomCall { room, reply, .. }) => {
                let to = (room, reply);
                let refused = refuse_room_call(&mut self.core, now, key, publish, to);
                called(self, now, refused)
            }
            Ok(Address::Say { room }) => {
                let rooms = &mut self.services.rooms;
                rooms.take_say(&mut self.core, now, key, publish, room)
            }
            Ok(Address::Answer { number }) => {
                self.services.serving.take_answer(key, publish, number)
            }
            Err(NotAddress::Elsewhere) => return None,
            Err(NotAddress::ServerOnly) => {
                self.core.deny_publish(now, key, topic);
                Taken::Done(SERVER_ONLY)
            }
            Err(why) => Taken::Done(Outcome::new(ReasonCode::TopicNameInvalid, why.text())),
        })
    }

    /// A call of a procedure, or a command about rooms.
    fn take_call(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        (procedure, reply): (&str, Option<&str>),
    ) -> Taken {
        let (core, to) = (&mut self.core, (procedure, reply));
        match self.services.calls.take_call(core, now, key, publish, to) {
            Some(Called::Room(to)) => {
                let command = (procedure, publish.payload);
                self.services
                    .rooms
                    .command_room(core, now, key, command, to);
                Taken::SUCCESS
            }
            result => called(self, now, result),
        }
    }

    /// The control plane has answered a call, or the home of a zone a command.
    pub(super) fn answered(&mut self, now: Tick, answer: &Answer) {
        answer.deliver(&mut self.core, now);
        if let Some(listener) = answer.listener(&self.core)
            && self
                .services
                .hooks
                .consult_answer(&mut self.core, answer, listener)
        {
            return;
        }
        answer.publish(&mut self.core, now);
    }
}

/// What has come of a call that goes to no room.
pub(super) fn called(hub: &mut Hub, now: Tick, called: Option<Called>) -> Taken {
    match called {
        Some(Called::Taken | Called::Room(_)) => Taken::SUCCESS,
        Some(Called::Answered(outcome, answer)) => {
            hub.answered(now, &answer);
            Taken::Done(outcome)
        }
        None => Taken::done(ReasonCode::UnspecifiedError),
    }
}
