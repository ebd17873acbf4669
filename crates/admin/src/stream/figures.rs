//! `status/stream`: the figures, at an interval.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stentor_control::Verb;
use stentor_control::schema::{Field, Kind};
use stentor_control::status::Rates;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::body::{End, Outlet};
use super::watcher::Watcher;
use super::{Told, Wanted, event};
use crate::bounds::{FIGURES_AGE_MAX, INTERVAL_MAX_MS, INTERVAL_MIN_MS, INTERVAL_MS};
use crate::problem::{Problem, problem};

/// The key of the query.
const INTERVAL: &str = "interval_ms";

/// The one key that the query may have.
pub(super) fn interval() -> Field {
    Field {
        name: INTERVAL.to_owned(),
        kind: Kind::Whole,
    }
}

/// The newest figures, for all streams: each look asks every shard.
#[derive(Debug, Default)]
pub(crate) struct Newest(Mutex<Option<Look>>);

/// The figures, and when they were looked at.
#[derive(Debug, Clone)]
struct Look {
    at: Instant,
    status: Arc<Value>,
}

/// Sends the figures until the client is gone, or may not have them any more.
pub(super) async fn follow(mut watcher: Watcher, mut outlet: Outlet, wanted: Wanted, told: Told) {
    let begun = match every(&wanted) {
        Ok(every) => newest(&watcher).await.map(|look| (every, look)),
        Err(problem) => Err(problem),
    };
    let (every, first) = match begun {
        Ok(begun) => begun,
        Err(problem) => return drop(told.send(Err(problem))),
    };
    if told.send(Ok(())).is_err() {
        return;
    }
    if let Err(end) = go_on(&mut watcher, &mut outlet, every, first).await {
        outlet.close(&end);
    }
}

async fn go_on(
    watcher: &mut Watcher,
    outlet: &mut Outlet,
    every: Duration,
    first: Look,
) -> Result<(), End> {
    let (mut before, mut look): (Option<Look>, Look) = (None, first);
    loop {
        let next = Instant::now() + every;
        let rates = before.as_ref().map(|before| rates(before, &look));
        let text = {
            let mut status = (*look.status).clone();
            status["rates"] = json!(rates);
            event(None, None, &status)
        };
        outlet.put(text).await?;
        before = Some(look);
        // For a client that takes its time, the next one is late too.
        outlet
            .pause(next.saturating_duration_since(Instant::now()))
            .await?;
        watcher.renew(&[Verb::Status]).await?;
        look = newest(watcher).await?;
    }
}

/// How often the figures are wanted.
fn every(wanted: &Wanted) -> Result<Duration, Problem> {
    let millis = wanted.get(INTERVAL).and_then(Value::as_u64);
    let millis = millis.unwrap_or(INTERVAL_MS);
    if (INTERVAL_MIN_MS..=INTERVAL_MAX_MS).contains(&millis) {
        return Ok(Duration::from_millis(millis));
    }
    let detail = format!("{INTERVAL} is {INTERVAL_MIN_MS} to {INTERVAL_MAX_MS}, not {millis}");
    Err(problem("bad-request", detail).with("field", Some(INTERVAL.to_owned())))
}

/// Figures that are new enough. Only one stream looks at a time, and the others take what it sees.
async fn newest(watcher: &Watcher) -> Result<Look, Problem> {
    let context = watcher.context();
    let mut newest = context.streams.figures.0.lock().await;
    if let Some(look) = &*newest
        && look.at.elapsed() < FIGURES_AGE_MAX
    {
        return Ok(look.clone());
    }
    let status = watcher.ask(&context.slots.figures, Verb::Status, Wanted::new());
    let look = Look {
        status: Arc::new(status.await?),
        at: Instant::now(),
    };
    *newest = Some(look.clone());
    Ok(look)
}

/// What was counted between two looks, per second.
fn rates(before: &Look, now: &Look) -> Rates {
    let secs = now.at.duration_since(before.at).as_secs_f64();
    let rate = |key: &str| {
        let count = |look: &Look| look.status[key].as_u64().unwrap_or_default();
        // Two looks at the same figures have no time between them.
        match secs > 0.0 {
            true => count(now).saturating_sub(count(before)) as f64 / secs,
            false => 0.0,
        }
    };
    Rates {
        secs,
        messages_in: rate("messages_in"),
        messages_out: rate("messages_out"),
        messages_dropped: rate("messages_dropped"),
        bytes_in: rate("bytes_in"),
        bytes_out: rate("bytes_out"),
        connects: rate("connects"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_bounded() {
        let of = |millis: Value| every(&Wanted::from_iter([(INTERVAL.to_owned(), millis)]));
        assert_eq!(every(&Wanted::new()), Ok(Duration::from_secs(2)));
        assert_eq!(of(json!(1_000)), Ok(Duration::from_secs(1)));
        assert_eq!(of(json!(60_000)), Ok(Duration::from_secs(60)));
        for wrong in [0, 999, 60_001] {
            assert!(of(json!(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let at = Instant::now();
        let look = |secs, messages: u64| Look {
            at: at + Duration::from_secs(secs),
            status: Arc::new(json!({ "messages_in": messages })),
        };
        let seen = rates(&look(0, 10), &look(4, 18));
        assert_eq!(
            (seen.secs, seen.messages_in, seen.connects),
            (4.0, 2.0, 0.0)
        );
        assert_eq!(rates(&look(0, 10), &look(0, 18)).messages_in, 0.0);
    }
}
