//! The verbs `retained.…`: on the shards that order the topics, so that no subscriber gets an older
//! message after a newer one.

use std::sync::mpsc::channel;
use std::time::Instant;

use stentor_hub::{Kept, NotKept, home_shard};
use stentor_topic::Zone;

use super::protocol::{Answer, Failure};
use crate::context::ServerContext;
use crate::retained::{Entry, RetainedAdmin, ZoneNames, not_noted};
use crate::shard::{Inquiry, ShardCommand};
use crate::telemetry::collect::ANSWER_TIME;

/// Answers a request whose verb begins with `retained.`.
pub(super) fn answer(context: &ServerContext, line: &[u8]) -> Answer {
    with_admin(context, |admin| admin.answer(line))
}

fn with_admin<T>(context: &ServerContext, use_it: impl FnOnce(&RetainedAdmin<'_>) -> T) -> T {
    use_it(&RetainedAdmin {
        store: &context.retained,
        now: context.clock.now(),
        zones: context,
        bounds: &context.topic_bounds,
        keep: &|entries| keep(context, entries),
        commit: &|| context.retained.commit_soon(),
    })
}

impl ZoneNames for ServerContext {
    fn name(&self, zone: Zone) -> String {
        self.zone_name(zone)
    }

    fn exists(&self, name: &str) -> bool {
        let holds_any = |zone: Zone| {
            let zones = self.retained.status().zones;
            zones.iter().any(|(number, ..)| *number == zone)
        };
        // A zone that has been removed keeps its number.
        self.authenticator.has_zone(name) || self.known(name).is_some_and(holds_any)
    }

    fn known(&self, name: &str) -> Option<Zone> {
        self.authenticator.known_zone(name)
    }

    fn number(&self, name: &str) -> Result<Zone, String> {
        let number = self.authenticator.zone_number(name);
        number.map_err(|error| not_noted(name, &error))
    }
}

/// Clears all messages of a zone; returns how many there were.
///
/// # Errors
/// When some cannot be cleared: the others are.
pub(super) fn clear_zone(context: &ServerContext, zone: Zone) -> Result<u64, Failure> {
    let cleared = with_admin(context, |admin| crate::retained::clear_zone(admin, zone))?;
    let all = cleared.all();
    all.map_err(|reason| Failure::new("unavailable", reason))
}

/// Messages that a shard keeps in one step, and their bytes with the last one aside.
const KEPT_AT_ONCE: usize = 8;
const KEPT_BYTES: usize = 32 * 1024;

/// The messages of the next step.
fn few(messages: &mut impl Iterator<Item = (usize, Entry)>) -> Vec<(usize, Entry)> {
    let (mut few, mut bytes) = (Vec::new(), 0);
    while few.len() < KEPT_AT_ONCE && bytes < KEPT_BYTES {
        let Some(next) = messages.next() else {
            break;
        };
        bytes += next.1.0.cost();
        few.push(next);
    }
    few
}

/// Keeps messages and waits until the store's promise holds for them.
fn keep(context: &ServerContext, entries: Vec<Entry>) -> Vec<Result<(), NotKept>> {
    let mut outcomes = vec![Err(NotKept::Failed); entries.len()];
    // By shard: where in `outcomes`, and what.
    let mut shares: Vec<(Vec<usize>, Vec<Entry>)> = Vec::new();
    shares.resize_with(context.shards.len(), Default::default);
    for (at, entry) in entries.into_iter().enumerate() {
        let message = &entry.0;
        let (hasher, shards) = (&context.hasher, context.shard_count());
        let home = home_shard(hasher, message.zone, message.topic(), shards);
        let (places, messages) = &mut shares[usize::from(home.0)];
        places.push(at);
        messages.push(entry);
    }
    let mut waiting = Vec::new();
    for (shard, (places, messages)) in shares.into_iter().enumerate() {
        let mut of_shard = places.into_iter().zip(messages).peekable();
        while of_shard.peek().is_some() {
            let (places, messages) = few(&mut of_shard)
                .into_iter()
                .unzip::<_, _, Vec<_>, Vec<_>>();
            let (answer, answers) = channel();
            context.post(
                shard,
                ShardCommand::Inquiry(Inquiry::Keep { messages, answer }),
            );
            waiting.push((places, answers));
        }
    }
    let deadline = Instant::now() + ANSWER_TIME;
    for (places, answers) in waiting {
        let left = deadline.saturating_duration_since(Instant::now());
        let answered: Vec<Result<Kept, NotKept>> = answers.recv_timeout(left).unwrap_or_default();
        for (place, kept) in places.into_iter().zip(answered) {
            outcomes[place] = kept.and_then(|kept| context.retained.wait_for(kept));
        }
    }
    outcomes
}
