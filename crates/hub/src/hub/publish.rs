//! A PUBLISH on its way to those who take it: the core, or the service that its topic names.

use alloc::sync::Arc;

use stentor_mqtt::Publish;
use stentor_session::{CloseReason, Message, Tick, TopicName};

use super::Hub;
use crate::core::Core;
use crate::core::heavy_hitters::{By, count_publish, count_publish_of};
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::with_topic;
use crate::core::inbound::{acknowledge, publish};
use crate::core::retained::{Kept, NotKept};
use crate::core::routing::keep::keep_and_route_for;
use crate::services::interface::hooks::HookVerdict;

/// Publishes a message for a user without a connection: what the store keeps of it, if it is one
/// to be kept. Without the name of a user, it is one of the server's owner. This has to be the
/// shard that orders its topic, see [`crate::home_shard`].
///
/// # Errors
/// When it is to be kept and cannot be: then nobody gets the message.
pub fn publish_for(
    hub: &mut Hub,
    now: Tick,
    message: Arc<Message>,
    user: Option<&str>,
) -> Result<Option<Kept>, NotKept> {
    let by = user.map(|user| By {
        client_id: None,
        user: Some(user),
    });
    let (topic, payload) = (message.topic(), message.payload());
    count_publish_of(&mut hub.core, now, message.zone, topic, payload, by);
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
    /// A PUBLISH, which adaptors have judged if there is a verdict. It is taken, unless it is a
    /// repetition, and acknowledged.
    pub(crate) fn on_publish(
        &mut self,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        verdict: Option<&HookVerdict>,
    ) -> Result<(), CloseReason> {
        if let Some(again) = publish::begin(&mut self.core, key, publish)? {
            // The alias still counts: packets after it may use it.
            with_topic(self, key, publish, |_, _| ())?;
            return acknowledge::answer(&mut self.core, key, publish, again);
        }
        let taken = with_topic(self, key, publish, |hub, topic| {
            count_publish(&mut hub.core, now, key, &topic, publish.payload);
            match verdict {
                None => hub.take(now, key, publish, topic),
                #[cfg(not(feature = "hooks"))]
                Some(_) => hub.take(now, key, publish, topic),
                #[cfg(feature = "hooks")]
                Some(verdict) => super::judged::take_judged(hub, now, key, publish, topic, verdict),
            }
        });
        let answered =
            taken.and_then(|taken| acknowledge::answer(&mut self.core, key, publish, taken));
        if answered.is_err() {
            publish::forget_arrival(&mut self.core, key, publish);
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
            && let Some(taken) = self.services.take(&mut self.core, now, key, publish, &name)
        {
            return taken;
        }
        publish::accept(&mut self.core, now, key, publish, name)
    }
}
