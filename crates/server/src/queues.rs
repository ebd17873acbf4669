//! The queues of a configuration: shared subscriptions that keep messages while no member takes
//! them.
//!
//! A queue is a session that lasts and belongs to the server. It is written down like the others,
//! and its shard goes on with it at the next start. A queue that is new begins here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use stentor_auth::center::Center;
use stentor_hub::{
    Access, Identity, PriorDeliveries, PriorSession, PriorSubscription, QueueBounds, Rights,
    SlowPolicy, WrittenSession,
};
use stentor_mqtt::{QoS, RetainHandling, SubscribeOptions};
use stentor_session::Tick;
use stentor_topic::Zone;
use tracing::warn;

use crate::config::{Config, Queue, QueueFull};

/// The user of these sessions. The server gives this name to no user.
pub(crate) const USER: &str = "$queue";

/// The queues that the configuration declares, and those that were written down.
#[derive(Debug)]
pub(crate) struct Queues {
    /// By their zones and client ids: those that the journals have not told of.
    declared: HashMap<(u32, String), Declared>,
    user: Arc<str>,
    /// Queues of earlier starts that nobody declares any more, and what they have kept.
    gone: (usize, usize),
}

#[derive(Debug)]
struct Declared {
    zone: Zone,
    name: String,
    filter: String,
    bounds: QueueBounds,
}

/// The client id of a queue, as commands show it.
fn client_id(queue: &Queue) -> String {
    format!("$queue/{}/{}", queue.name, queue.filter)
}

impl Queues {
    /// Those of a configuration.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    pub(crate) fn of(config: &Config, center: &Center) -> io::Result<Self> {
        let mut declared = HashMap::new();
        for queue in &config.queues {
            let zone = center.zone_number(&queue.zone)?;
            let one = Declared {
                zone,
                name: queue.name.clone(),
                filter: queue.filter.clone(),
                bounds: QueueBounds {
                    messages: queue.messages,
                    bytes: queue.bytes,
                    full: match queue.full {
                        QueueFull::DropNewest => SlowPolicy::DropNewest,
                        QueueFull::DropOldest => SlowPolicy::DropOldest,
                    },
                },
            };
            declared.insert((zone.0, client_id(queue)), one);
        }
        Ok(Self {
            declared,
            user: USER.into(),
            gone: (0, 0),
        })
    }

    /// Whether a session that was written down is one of a queue.
    pub(crate) fn is_one(session: &WrittenSession) -> bool {
        is_queue(session.user.as_deref(), &session.client_id)
    }

    /// The owner of such a session; `None` if the configuration does not declare the queue any
    /// more. It ends then.
    pub(crate) fn owner(&mut self, session: &WrittenSession) -> Option<Arc<Identity>> {
        let key = (session.zone, session.client_id.to_string());
        let Some(queue) = self.declared.remove(&key) else {
            self.gone.0 += 1;
            self.gone.1 += session.owed.len();
            return None;
        };
        Some(self.identity(&queue))
    }

    fn identity(&self, queue: &Declared) -> Arc<Identity> {
        Arc::new(Identity {
            user: Some(Arc::clone(&self.user)),
            zone: queue.zone,
            rights: Arc::new(QueueRights(queue.bounds)),
            expires_at: Tick::NEVER,
            guest: None,
        })
    }

    /// Those that are new, to go on with like those that were there. Reports those that are gone.
    pub(crate) fn begin(self, now_ms: u64) -> Vec<PriorSession> {
        let (queues, messages) = self.gone;
        if queues > 0 {
            warn!(
                queues,
                messages, "queues end with what they have kept: the configuration has them no more"
            );
        }
        let all = self.declared.iter().map(|((_, client_id), queue)| {
            let options = SubscribeOptions {
                qos: QoS::ExactlyOnce,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::DoNotSend,
            };
            PriorSession {
                identity: self.identity(queue),
                tenants: None,
                client_id: client_id.as_str().into(),
                origin: None,
                expiry_secs: u32::MAX,
                since_ms: now_ms,
                until: Tick::NEVER,
                will: None,
                will_at: Tick::NEVER,
                subscriptions: vec![PriorSubscription {
                    share: Some(queue.name.as_str().into()),
                    filter: queue.filter.as_str().into(),
                    options,
                    id: None,
                    interval: None,
                    snapshot: false,
                    room: false,
                }],
                deliveries: PriorDeliveries::default(),
                arrived: Vec::new(),
                unheard: Vec::new(),
                held: Vec::new(),
            }
        });
        all.collect()
    }
}

/// Whether a session of this user and client id is one of a queue.
pub(crate) fn is_queue(user: Option<&str>, client_id: &str) -> bool {
    user == Some(USER) && client_id.starts_with("$queue/")
}

/// What a queue may: keep every message of its filter.
#[derive(Debug)]
struct QueueRights(QueueBounds);

impl Rights for QueueRights {
    fn may_publish(&self, _topic: &str) -> bool {
        false
    }

    fn may_subscribe(&self, _filter: &str) -> Access {
        Access::All
    }

    fn may_receive(&self, _topic: &str) -> bool {
        true
    }

    fn queue(&self) -> Option<QueueBounds> {
        Some(self.0)
    }
}
