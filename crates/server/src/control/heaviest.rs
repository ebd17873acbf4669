//! The verbs `topics.heaviest` and `clients.heaviest`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::Sender;

use stentor_control::Request as _;
use stentor_control::heaviest::{
    By, Clients, HeaviestClients, HeaviestTopics, HeavyClient, HeavyTopic, Publisher, Rates,
    Sample, Topics,
};
use stentor_hub::{Heaviest, Heavy, HeavyBy, HeavyPublisher, SAMPLED_ONE_IN};
use stentor_topic::Zone;

use super::protocol::Failure;
use super::zones;
use crate::context::ServerContext;
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_all;

/// The topics that most is published to, of all zones unless one is named.
pub(super) fn topics(context: &ServerContext, request: &Topics) -> Result<HeaviestTopics, Failure> {
    let zone = zones::named(context, request.zone.as_ref())?;
    let limit = Topics::VERB.wanted(request.limit)?;
    let by = hub_by(request.by);
    let (told, silent) = ask(context, |answer| Inquiry::HeaviestTopics(by, answer));
    let is_wanted = |it: &stentor_hub::HeavyTopic| zone.is_none_or(|zone| zone == it.zone);
    let mut all = Merged::of(told, silent, request.by, is_wanted);
    let rows = all.first(limit);
    let topic = |row: Row<stentor_hub::HeavyTopic, HeavyPublisher>| HeavyTopic {
        zone: context.zone_name(row.of.who.zone),
        topic: row.of.who.topic.to_string(),
        cut: row.of.who.is_cut,
        rates: row.rates,
        mostly_by: row.of.mostly.as_deref().map(publisher),
    };
    Ok(HeaviestTopics {
        topics: rows.into_iter().map(topic).collect(),
        sample: all.sample(zone),
    })
}

/// Those who publish most, of all zones unless one is named.
pub(super) fn clients(
    context: &ServerContext,
    request: &Clients,
) -> Result<HeaviestClients, Failure> {
    let zone = zones::named(context, request.zone.as_ref())?;
    let limit = Clients::VERB.wanted(request.limit)?;
    let by = hub_by(request.by);
    let (told, silent) = ask(context, |answer| Inquiry::HeaviestPublishers(by, answer));
    let is_wanted = |it: &HeavyPublisher| zone.is_none_or(|zone| zone == it.zone);
    let mut all = Merged::of(told, silent, request.by, is_wanted);
    let rows = all.first(limit);
    let client = |row: Row<HeavyPublisher, stentor_hub::HeavyTopic>| HeavyClient {
        zone: context.zone_name(row.of.who.zone),
        publisher: publisher(&row.of.who),
        rates: row.rates,
        mostly_to: row.of.mostly.as_ref().map(|it| it.topic.to_string()),
    };
    Ok(HeaviestClients {
        clients: rows.into_iter().map(client).collect(),
        sample: all.sample(zone),
    })
}

const fn hub_by(by: By) -> HeavyBy {
    match by {
        By::Messages => HeavyBy::Messages,
        By::Bytes => HeavyBy::Bytes,
    }
}

fn publisher(who: &HeavyPublisher) -> Publisher {
    Publisher {
        client_id: who.client_id.as_deref().map(str::to_owned),
        user: who.user.as_deref().map(str::to_owned),
        cut: who.is_cut,
    }
}

/// What the shards say, and how many of them say nothing.
fn ask<T>(context: &ServerContext, question: impl FnMut(Sender<T>) -> Inquiry) -> (Vec<T>, usize) {
    let told = ask_all(context, question);
    let silent = context.shards.len() - told.len();
    (told, silent)
}

/// A heavy hitter of all shards together.
struct Row<T, O> {
    /// As the shard has it where it is heaviest.
    of: Heavy<T, O>,
    /// The rate there.
    most: f64,
    rates: Rates,
}

/// The heavy hitters of all shards.
///
/// Each shard counts by itself, and its figures are sums over a time of its own. So rates are added
/// up. A publisher is on one shard, but a topic may be on several.
struct Merged<T, O> {
    rows: Vec<Row<T, O>>,
    sample: Sample,
}

impl<T: Ord, O> Merged<T, O> {
    fn of(
        told: Vec<Heaviest<T, O>>,
        silent_shards: usize,
        by: By,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Self {
        let mut sample = Sample {
            by,
            one_in: SAMPLED_ONE_IN,
            silent_shards,
            ..Sample::default()
        };
        let (mut messages, mut bytes) = (0.0, 0.0);
        let mut rows: HashMap<u64, Row<T, O>> = HashMap::new();
        for shard in told {
            // Of a server that has just started, a sample more or less would be thousands a second.
            let secs = (shard.window_micros as f64 / 1e6).max(1.0);
            sample.window_secs = sample.window_secs.max(secs);
            sample.missing_below += shard.floor as f64 / secs;
            messages += shard.messages as f64 / secs;
            bytes += shard.bytes as f64 / secs;
            for of in shard.found.into_iter().filter(|it| is_wanted(&it.who)) {
                let rates = Rates {
                    messages_per_sec: of.messages as f64 / secs,
                    bytes_per_sec: of.bytes as f64 / secs,
                    error: of.error as f64 / secs,
                };
                let most = rate(&rates, by);
                match rows.entry(of.key) {
                    Entry::Vacant(place) => {
                        place.insert(Row { of, most, rates });
                    }
                    Entry::Occupied(mut place) => place.get_mut().add(of, most, rates),
                }
            }
        }
        sample.messages_per_sec = Some(messages);
        sample.bytes_per_sec = Some(bytes);
        let mut rows: Vec<Row<T, O>> = rows.into_values().collect();
        let rank = |row: &Row<T, O>| rate(&row.rates, by);
        rows.sort_by(|a, b| {
            rank(b)
                .total_cmp(&rank(a))
                .then_with(|| a.of.who.cmp(&b.of.who))
        });
        Self { rows, sample }
    }

    /// The heaviest, as many as asked for.
    fn first(&mut self, limit: usize) -> Vec<Row<T, O>> {
        self.sample.truncated = self.rows.len() > limit;
        self.rows.truncate(limit);
        std::mem::take(&mut self.rows)
    }

    /// What the rates are worth. What all zones together publish concerns nobody who asks for one.
    fn sample(self, zone: Option<Zone>) -> Sample {
        let mut sample = self.sample;
        if zone.is_some() {
            (sample.messages_per_sec, sample.bytes_per_sec) = (None, None);
        }
        sample
    }
}

impl<T, O> Row<T, O> {
    /// Another shard has it too.
    fn add(&mut self, other: Heavy<T, O>, most: f64, rates: Rates) {
        self.rates.messages_per_sec += rates.messages_per_sec;
        self.rates.bytes_per_sec += rates.bytes_per_sec;
        self.rates.error += rates.error;
        if most > self.most {
            (self.of, self.most) = (other, most);
        }
    }
}

const fn rate(rates: &Rates, by: By) -> f64 {
    match by {
        By::Messages => rates.messages_per_sec,
        By::Bytes => rates.bytes_per_sec,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn heavy(key: u64, (messages, bytes): (u64, u64), error: u64) -> Heavy<u64, u64> {
        Heavy {
            key,
            who: Arc::new(key),
            messages,
            bytes,
            error,
            mostly: Some(Arc::new(messages)),
        }
    }

    fn shard(secs: u64, found: Vec<Heavy<u64, u64>>) -> Heaviest<u64, u64> {
        Heaviest {
            found,
            floor: 30,
            messages: 6_000,
            bytes: 60_000,
            window_micros: secs * 1_000_000,
        }
    }

    /// One shard has halved its counts already, and the other has not.
    #[test]
    fn rates_of_shards_are_added_up() {
        let first = shard(60, vec![heavy(1, (600, 60), 60), heavy(2, (660, 0), 0)]);
        let second = shard(
            120,
            vec![heavy(1, (2_400, 120), 0), heavy(3, (1, 1_200_000), 1)],
        );
        let told = || vec![first.clone(), second.clone()];
        let mut all = Merged::of(told(), 1, By::Messages, |_| true);
        let rows = all.first(2);
        let keys = rows.iter().map(|row| row.of.key).collect::<Vec<_>>();
        assert_eq!(keys, [1, 2]);
        let rates = rows[0].rates;
        assert_eq!(
            (rates.messages_per_sec, rates.bytes_per_sec, rates.error),
            (30.0, 2.0, 1.0)
        );
        assert_eq!(
            rows[0].of.mostly.as_deref(),
            Some(&2_400),
            "as where it is heaviest"
        );
        let sample = all.sample(None);
        assert_eq!(
            (sample.messages_per_sec, sample.bytes_per_sec),
            (Some(150.0), Some(1_500.0))
        );
        assert_eq!((sample.missing_below, sample.window_secs), (0.75, 120.0));
        assert_eq!(
            (sample.truncated, sample.silent_shards, sample.one_in),
            (true, 1, 64)
        );

        let mut all = Merged::of(told(), 1, By::Bytes, |_| true);
        let rows = all.first(20);
        let keys = rows.iter().map(|row| row.of.key).collect::<Vec<_>>();
        assert_eq!(keys, [3, 1, 2]);
        let sample = all.sample(Some(Zone(7)));
        assert_eq!(
            (sample.messages_per_sec, sample.bytes_per_sec),
            (None, None)
        );
        assert!(!sample.truncated);
    }

    #[test]
    fn what_is_not_wanted_takes_no_row_and_what_is_left_out_is_told() {
        let many = (0..2_000).map(|key| heavy(key, (key, 0), 0)).collect();
        let mut all = Merged::of(vec![shard(60, many)], 0, By::Messages, |key| key % 2 == 0);
        assert_eq!(all.rows.len(), 1_000);
        assert_eq!(all.first(1).len(), 1);
        assert!(all.sample.truncated);
    }

    #[test]
    fn a_server_that_has_just_started_tells_no_huge_rates() {
        let told = vec![shard(0, vec![heavy(1, (64, 64), 0)])];
        let rows = Merged::of(told, 0, By::Messages, |_| true).first(20);
        assert_eq!(rows[0].rates.messages_per_sec, 64.0);
    }
}
