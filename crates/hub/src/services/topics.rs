//! A publish to a topic of a service, on its way to that one.

use alloc::vec::Vec;

use stentor_mqtt::{Publish, ReasonCode};
use stentor_session::{Outcome, Tick};
use stentor_zone::{Address, NotAddress};

use super::Services;
#[cfg(feature = "calls")]
use super::calls::{Called, answer_call, refuse_room_call};
use super::interface::answer::Answer;
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish;
use crate::core::sessions::limits;

/// What the server says to a publish where only itself may.
const SERVER_ONLY: Outcome = Outcome::new(ReasonCode::NotAuthorized, NotAddress::ServerOnly.text());

/// What the server says to a publish to the topic of a service that is left out.
#[cfg(not(all(
    feature = "calls",
    feature = "private",
    feature = "rooms",
    feature = "serving"
)))]
const LEFT_OUT: Outcome = Outcome::new(
    ReasonCode::ImplementationSpecificError,
    "this server is built without the service that this topic belongs to",
);

impl Services {
    /// A publish to a topic that begins with `$`. `None` if the topic is nobody's, and may be
    /// published to like any other.
    pub(crate) fn take(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        topic: &str,
    ) -> Option<Taken> {
        if let Some(outcome) = limits::refuse_topic(core, now, key, topic) {
            return Some(Taken::Done(outcome));
        }
        let address = Address::parse(topic);
        if address != Err(NotAddress::Elsewhere) {
            let turn = core.turn_mut();
            turn.spend_on_names(topic.len());
            turn.serve();
        }
        Some(match address {
            #[cfg(feature = "private")]
            Ok(Address::Private { user, reply }) => {
                let user = &user;
                let envelope = super::private::Envelope { user, reply };
                self.private
                    .take_private(core, now, key, publish, &envelope)
            }
            #[cfg(feature = "calls")]
            Ok(Address::Call { procedure, reply }) => {
                self.take_call(core, now, key, publish, procedure, reply)
            }
            #[cfg(feature = "calls")]
            Ok(Address::RoomCall { room, reply, .. }) => {
                let refused = refuse_room_call(core, now, key, publish, room, reply);
                self.called(core, now, refused)
            }
            #[cfg(feature = "rooms")]
            Ok(Address::Say { room }) => self.rooms.take_say(core, now, key, publish, room),
            #[cfg(feature = "serving")]
            Ok(Address::Answer { number }) => self.serving.take_answer(key, publish, number),
            #[cfg(not(all(
                feature = "calls",
                feature = "private",
                feature = "rooms",
                feature = "serving"
            )))]
            Ok(_) => Taken::Done(LEFT_OUT),
            Err(NotAddress::Elsewhere) => return None,
            Err(NotAddress::ServerOnly) => {
                publish::deny(core, now, key, topic);
                Taken::Done(SERVER_ONLY)
            }
            Err(why) => Taken::Done(Outcome::new(ReasonCode::TopicNameInvalid, why.text())),
        })
    }

    /// A call of a procedure, or a command about rooms.
    #[cfg(feature = "calls")]
    fn take_call(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        procedure: &str,
        reply: Option<&str>,
    ) -> Taken {
        match self
            .calls
            .take_call(core, now, key, publish, procedure, reply)
        {
            #[cfg(feature = "rooms")]
            Some(Called::Room(to)) => {
                let payload = publish.payload;
                self.rooms
                    .command_room(core, now, key, procedure, payload, to);
                Taken::SUCCESS
            }
            #[cfg(not(feature = "rooms"))]
            Some(Called::Room(_)) => Taken::Done(LEFT_OUT),
            called => self.called(core, now, called),
        }
    }

    /// What has come of a call that goes to no room.
    #[cfg(feature = "calls")]
    fn called(&mut self, core: &mut Core, now: Tick, called: Option<Called>) -> Taken {
        match called {
            Some(Called::Taken | Called::Room(_)) => Taken::SUCCESS,
            Some(Called::Answered(outcome, answer)) => {
                self.answered(core, now, &answer);
                Taken::Done(outcome)
            }
            None => Taken::done(ReasonCode::UnspecifiedError),
        }
    }

    /// An adaptor has answered a call.
    pub(crate) fn answer_call(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        reply: Option<&str>,
        json: Vec<u8>,
    ) -> Taken {
        #[cfg(feature = "calls")]
        {
            let answered = answer_call(core, now, key, publish, reply, json);
            self.called(core, now, answered)
        }
        #[cfg(not(feature = "calls"))]
        Taken::Done(LEFT_OUT)
    }

    /// The control plane has answered a call, or the home of a zone a command.
    pub(crate) fn answered(&mut self, core: &mut Core, now: Tick, answer: &Answer) {
        answer.deliver(core, now);
        if let Some(listener) = answer.listener(core)
            && self.consult_answer(core, answer, listener)
        {
            return;
        }
        answer.publish(core, now);
    }
}
