//! Broadcasts: from a procedure's thread to the shards and back, by the rights of the caller. And
//! histories of topics, which it may read by the same rights.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use stentor_auth::rights::Unrestricted;
use stentor_hub::{
    Broadcast, Call, Fate, Identity, Origin, Quotas, Recipient as To, ServiceCommand,
};
use stentor_mqtt::QoS;
use stentor_procedure::{Outlet, Parcel, Question, Recipient, Sent, Unread, Unsent};
use stentor_session::Tick;
use stentor_topic::Zone;
use stentor_zone::{Reach, Response};

use crate::context::ServerContext;
use crate::retained::Asked;
use crate::shard::{Inquiry, ShardCommand};
use crate::telemetry::collect::ask_one;

/// Recipients that a shard sends to in one turn. The rest follows when these are done, so a long
/// broadcast delays nobody.
const AT_ONCE: usize = 16;

/// Bytes of messages that one answer about a history has.
const HISTORY_BYTES: usize = 256 << 10;

/// Callers whose last broadcast is not paid for.
const DEBTORS_MAX: usize = 10_000;

/// Seconds that the largest broadcast costs with the lowest quota: 4 MiB at a byte a second.
const OWED_SECS_MAX: f64 = 4_194_304.0;

/// The name under which the server's owner sends private messages. No user can have it.
const OWNER: &str = "server";

/// The broadcasts that are under way.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    waiting: Mutex<HashMap<u64, Sender<(usize, Fate)>>>,
    /// How many were sent: the number of the last one.
    count: AtomicU64,
    pace: Pace,
}

impl Broadcasts {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Sender<(usize, Fate)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> (u64, Receiver<(usize, Fate)>) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, told) = channel();
        self.lock().insert(number, sender);
        (number, told)
    }

    fn end(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Passes on what a shard says of one recipient.
    pub(super) fn told(&self, number: u64, place: usize, fate: Fate) {
        if let Some(waiting) = self.lock().get(&number) {
            // Nobody may wait any more.
            let _ = waiting.send((place, fate));
        }
    }
}

/// When the last broadcast of each caller is paid for, as its roles have it: a second's worth or a
/// whole broadcast may come at once, and then nothing until that is made up for.
#[derive(Debug, Default)]
struct Pace(Mutex<HashMap<(Zone, Arc<str>), Instant>>);

impl Pace {
    /// Lets a caller send these messages, of these bytes together, or says why not.
    fn admit(
        &self,
        origin: &Origin,
        quotas: Quotas,
        messages: usize,
        bytes: usize,
        now: Instant,
    ) -> Result<(), Unsent> {
        let Some(user) = origin.user() else {
            return Ok(());
        };
        let secs = |count: usize, rate: u64| count as f64 / rate.max(1) as f64;
        let by_messages = quotas
            .messages_per_sec
            .map(|rate| secs(messages, rate.into()));
        let by_bytes = quotas.bytes_per_sec.map(|rate| secs(bytes, rate));
        let owed = by_messages.unwrap_or(0.0).max(by_bytes.unwrap_or(0.0));
        if owed <= 0.0 {
            return Ok(());
        }
        // All of it, or a caller with a low quota could send far more than that. One broadcast is
        // bounded, so this is finite: 1,000 seconds by messages, and 49 days by bytes.
        let owed = Duration::from_secs_f64(owed.min(OWED_SECS_MAX));
        let mut debtors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let who = (origin.zone(), Arc::clone(user));
        if let Some(paid) = debtors.get(&who).filter(|paid| **paid > now) {
            return Err(Unsent::TooFast(*paid - now));
        }
        if debtors.len() >= DEBTORS_MAX {
            debtors.retain(|_, paid| *paid > now);
        }
        if debtors.len() >= DEBTORS_MAX {
            return Err(Unsent::Busy);
        }
        debtors.insert(who, now + owed);
        Ok(())
    }
}

/// Makes the outlets of callers.
#[derive(Clone)]
pub(super) struct Outlets(Weak<ServerContext>);

impl Outlets {
    pub(super) fn new(context: &Arc<ServerContext>) -> Self {
        Self(Arc::downgrade(context))
    }

    /// That of a client which has made a call.
    pub(super) fn of_call(&self, call: &Call) -> Option<Arc<dyn Outlet>> {
        let shard = usize::from(call.return_to.shard.0);
        self.make(Origin::of_call(call), shard)
    }

    /// That of a caller whose user is known.
    pub(super) fn of_user(&self, identity: &Arc<Identity>) -> Option<Arc<dyn Outlet>> {
        let origin = Origin::without_session(Arc::clone(identity));
        let shards = self.0.upgrade()?.shard_count();
        // The home of the zone, as hubs have it.
        let home = origin.zone().get() % u32::from(shards);
        self.make(origin, home as usize)
    }

    /// That of the server's owner, in the default zone.
    pub(super) fn of_owner(&self) -> Option<Arc<dyn Outlet>> {
        self.of_user(&Arc::new(Identity {
            user: Some(OWNER.into()),
            zone: Zone::DEFAULT,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }

    fn make(&self, origin: Origin, shard: usize) -> Option<Arc<dyn Outlet>> {
        Some(Arc::new(OwnOutlet {
            context: Weak::clone(&self.0),
            origin,
            shard,
        }))
    }
}

/// What one caller may publish.
struct OwnOutlet {
    context: Weak<ServerContext>,
    origin: Origin,
    /// Where it is sent from.
    shard: usize,
}

impl fmt::Debug for OwnOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnOutlet").field(&self.origin).finish()
    }
}

impl Outlet for OwnOutlet {
    fn send(&self, parcel: Parcel, end: Instant) -> Result<Vec<Option<Sent>>, Unsent> {
        let context = self.context.upgrade().ok_or(Unsent::Stopping)?;
        let messages = parcel.recipients.len();
        let bytes = messages.saturating_mul(parcel.payload.len());
        let pace = &context.call_queue.broadcasts.pace;
        let quotas = self.origin.quotas();
        pace.admit(&self.origin, quotas, messages, bytes, Instant::now())?;
        let mut sent = Vec::with_capacity(messages);
        for recipients in parcel.recipients.chunks(AT_ONCE) {
            if Instant::now() >= end {
                return Ok(sent);
            }
            sent.extend(self.send_some(&context, recipients, &parcel, end));
        }
        // What the shard has written down by now is kept, even if the server is killed.
        let _ = ask_one(&context, self.shard, Inquiry::Pulse);
        Ok(sent)
    }

    fn history(&self, question: &Question) -> Result<Vec<u8>, Unread> {
        let context = self.context.upgrade().ok_or(Unread::Stopping)?;
        let Question { topic, ask, limit } = question;
        let asked = Asked::read(topic, ask.as_deref(), Some(*limit))
            .map_err(|refusal| Unread::Nonsense(refusal.message))?;
        if !self.origin.may_subscribe(topic) {
            return Err(Unread::Denied(topic.clone()));
        }
        let (store, now) = (&*context.retained, context.clock.now());
        let zone = self.origin.zone();
        let recalled = asked.answer(store, zone, now, &*context, HISTORY_BYTES);
        // Numbers and text always serialise.
        Ok(serde_json::to_vec(&recalled).unwrap_or_default())
    }
}

impl OwnOutlet {
    /// Sends to a few, and waits for what becomes of that.
    fn send_some(
        &self,
        context: &ServerContext,
        recipients: &[Recipient],
        parcel: &Parcel,
        end: Instant,
    ) -> Vec<Option<Sent>> {
        let broadcasts = &context.call_queue.broadcasts;
        let (number, told) = broadcasts.begin();
        let broadcast = Broadcast {
            number,
            origin: self.origin.clone(),
            recipients: recipients.iter().map(to).collect(),
            payload: Arc::clone(&parcel.payload),
            qos: match parcel.qos {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            },
        };
        let item = ServiceCommand::Broadcast(Arc::new(broadcast));
        context.post(self.shard, ShardCommand::Hub(item.into()));
        let mut sent = vec![None; recipients.len()];
        while sent.iter().any(Option::is_none) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((place, fate)) = told.recv_timeout(left) else {
                break;
            };
            if let Some(known) = sent.get_mut(place) {
                *known = Some(fate_of(fate));
            }
        }
        broadcasts.end(number);
        sent
    }
}

fn to(recipient: &Recipient) -> To {
    match recipient {
        Recipient::User(user) => To::User(user.as_str().into()),
        Recipient::Topic(topic) => To::Topic(topic.as_str().into()),
    }
}

/// What has become of a message, as procedures know it.
fn fate_of(fate: Fate) -> Sent {
    match fate {
        Fate::Published => Sent::Taken,
        Fate::Private(response) => match response {
            Response::Reached(Reach::Delivered | Reach::Stored) => Sent::Taken,
            Response::Reached(Reach::Nobody) => Sent::Unheard(response.text().to_owned()),
            Response::Reached(Reach::TooLarge | Reach::Full)
            | Response::Denied
            | Response::Nameless
            | Response::Expired
            | Response::Busy => Sent::Refused {
                status: response.status().to_owned(),
                text: response.text().to_owned(),
            },
        },
        Fate::Refused { status, text } => Sent::Refused {
            status: status.to_owned(),
            text: text.into_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(zone: u32, user: Option<&str>) -> Origin {
        Origin::without_session(Arc::new(Identity {
            user: user.map(Arc::from),
            zone: Zone(zone),
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        }))
    }

    #[test]
    fn a_broadcast_is_paid_for_before_the_next_one() {
        let pace = Pace::default();
        let quotas = Quotas {
            messages_per_sec: Some(10),
            bytes_per_sec: Some(1_000),
            ..Quotas::default()
        };
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let ann = origin(0, Some("ann"));
        let admit =
            |who: &Origin, (messages, bytes), now| pace.admit(who, quotas, messages, bytes, now);
        // A hundred messages are ten seconds' worth.
        assert_eq!(admit(&ann, (100, 100), at(0)), Ok(()));
        let wait = Unsent::TooFast(Duration::from_secs(9));
        assert_eq!(admit(&ann, (1, 1), at(1)), Err(wait));
        // Others do not pay for it, be their name the same in another zone.
        assert_eq!(admit(&origin(0, Some("bob")), (1, 1), at(1)), Ok(()));
        assert_eq!(admit(&origin(1, Some("ann")), (1, 1), at(1)), Ok(()));
        // Then the bytes count.
        assert_eq!(admit(&ann, (1, 5_000), at(10)), Ok(()));
        let wait = Unsent::TooFast(Duration::from_secs(1));
        assert_eq!(admit(&ann, (1, 1), at(14)), Err(wait));
        // However long that takes: nothing is forgotten.
        assert_eq!(admit(&ann, (1_000, 1), at(15)), Ok(()));
        assert!(admit(&ann, (1, 1), at(114)).is_err());
        assert_eq!(admit(&ann, (1, 1), at(115)), Ok(()));
        let slow = Quotas {
            bytes_per_sec: Some(1),
            ..Quotas::default()
        };
        let bob = origin(1, Some("bob"));
        let admit = |(messages, bytes), now| pace.admit(&bob, slow, messages, bytes, now);
        assert_eq!(admit((1, 4 << 20), at(0)), Ok(()));
        assert!(admit((1, 1), at((4 << 20) - 1)).is_err());
        assert_eq!(admit((1, 1), at(4 << 20)), Ok(()));
        // Where nothing is bounded, nothing is counted.
        let free = pace.admit(&ann, Quotas::default(), 1_000, 1, at(75));
        assert_eq!(free, Ok(()));
    }

    #[test]
    fn no_more_debtors_are_kept_than_may_be() {
        let pace = Pace::default();
        let quotas = Quotas {
            messages_per_sec: Some(1),
            ..Quotas::default()
        };
        let now = Instant::now();
        let who = |number: usize| origin(0, Some(&number.to_string()));
        for number in 0..DEBTORS_MAX {
            assert_eq!(pace.admit(&who(number), quotas, 2, 2, now), Ok(()));
        }
        let another = who(DEBTORS_MAX);
        let full = pace.admit(&another, quotas, 2, 2, now);
        assert_eq!(full, Err(Unsent::Busy));
        let later = now + Duration::from_secs(3);
        assert_eq!(pace.admit(&another, quotas, 2, 2, later), Ok(()));
        assert_eq!(pace.0.lock().unwrap().len(), 1);
    }
}
