//! Procedures that connected clients serve: from a procedure's thread to a shard and back.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use stentor_auth::center::Center;
use stentor_hub::{Ask, Served, ServiceCommand};
use stentor_procedure::{Clients, Request, Unserved};

use crate::context::ServerContext;
use crate::shard::ShardCommand;

/// What clients are asked and have not answered. No more wait than procedures have threads.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Mutex<HashMap<u64, Sender<Heard>>>,
    /// How many were asked: the number of the last one.
    count: AtomicU64,
}

/// What a shard has said.
type Heard = Result<Vec<u8>, Unserved>;

impl Requests {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Sender<Heard>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on what a shard says; whether somebody waits for it.
    pub(super) fn served(&self, number: u64, served: Served<'_>) -> bool {
        let waiting = self.lock();
        let Some(waiting) = waiting.get(&number) else {
            return false;
        };
        let heard = match served {
            Served::Said(json) => Ok(json.to_vec()),
            Served::Nobody => Err(Unserved::Nobody),
            Served::TooLarge => Err(Unserved::TooLarge),
            Served::Full => Err(Unserved::Busy),
            Served::Gone => Err(Unserved::Gone),
        };
        waiting.send(heard).is_ok()
    }
}

/// Asks the shards for clients that serve procedures.
pub(super) struct Switchboard {
    context: Weak<ServerContext>,
    center: Arc<Center>,
}

impl fmt::Debug for Switchboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switchboard").finish_non_exhaustive()
    }
}

impl Switchboard {
    pub(super) fn new(context: &Arc<ServerContext>, center: &Arc<Center>) -> Self {
        Self {
            context: Arc::downgrade(context),
            center: Arc::clone(center),
        }
    }
}

impl Clients for Switchboard {
    fn ask(&self, zone: &str, request: Request, end: Instant) -> Result<Vec<u8>, Unserved> {
        let context = self.context.upgrade().ok_or(Unserved::Broken)?;
        let zone = self.center.zone_number(zone);
        let zone = zone.map_err(|_| Unserved::Broken)?;
        let asked = &context.call_queue.requests;
        let number = asked.count.fetch_add(1, Ordering::Relaxed) + 1;
        let left = || end.saturating_duration_since(Instant::now());
        let ask = Arc::new(Ask {
            number,
            zone,
            procedure: request.procedure.into(),
            properties: request.properties,
            payload: request.message,
            until: context.clock.now().after(left()),
        });
        let (sender, heard) = channel();
        asked.lock().insert(number, sender);
        let shards = context.shards.len();
        // Another one begins each time, so that clients of all shards get their share.
        let first = usize::try_from(number).unwrap_or_default() % shards;
        let mut answer = Err(Unserved::Nobody);
        for shard in (first..shards).chain(0..first) {
            let item = ServiceCommand::Ask(Arc::clone(&ask));
            context.post(shard, ShardCommand::Hub(item.into()));
            answer = heard.recv_timeout(left()).unwrap_or(Err(Unserved::Late));
            if answer != Err(Unserved::Nobody) {
                break;
            }
        }
        asked.lock().remove(&number);
        answer
    }
}
