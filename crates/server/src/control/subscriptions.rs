//! The verb `subscriptions`: who gets the messages of a topic.
//!
//! A shard finds the filters as for a publish, and lists their subscribers, in steps that are
//! bounded each. Nothing is kept between two pages: the next one finds the filters again.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use stentor_control::Request as _;
use stentor_control::subscriptions::{Cursor, Matching, Subscriptions, Told};
use stentor_hub::{AudiencePlace, Listener};
use stentor_topic::{Subscription, Zone, validate_name};

use super::clients::{silent, subscription};
use super::protocol::{Failure, fitting};
use super::why::rule_of_receiver;
use super::zones;
use crate::context::ServerContext;
use crate::shard::{Inquiry, Listeners};
use crate::telemetry::collect::ask_one;
use crate::telemetry::shown;

/// Entries that a shard lists at once: their names may be long.
const AT_ONCE: usize = 16;

/// Filters of a shard that are looked at.
const FILTERS_MAX: usize = 10_000;

/// Steps of a shard that look for filters.
const STEPS_MAX: usize = 500;

/// A topic that is asked about.
struct Asked<'b> {
    context: &'b ServerContext,
    zone: Zone,
    zone_name: String,
    topic: Arc<str>,
}

/// The subscriptions that match a topic.
pub(super) fn subscriptions(
    context: &ServerContext,
    request: &Subscriptions,
) -> Result<Told, Failure> {
    let topic = &*request.topic;
    validate_name(topic).map_err(|error| {
        let topic = shown(topic);
        let message = format!("{topic:?} cannot be published to: {error}");
        Failure::new("bad-request", message).about("topic")
    })?;
    let zone = zones::named(context, request.zone.as_ref())?.unwrap_or(Zone::DEFAULT);
    let asked = Asked {
        context,
        zone,
        zone_name: context.zone_name(zone),
        topic: topic.into(),
    };
    let limit = Subscriptions::VERB.wanted(request.limit)?;
    let mut told = Told::default();
    let mut cursor = request.cursor.clone().unwrap_or_default();
    while cursor.shard < context.shards.len() {
        let (filters, are_all) = asked.filters(cursor.shard)?;
        told.truncated |= !are_all;
        let first = cursor.filter.clone();
        for filter in filters.range::<str, _>((Bound::Included(&*first), Bound::Unbounded)) {
            if **filter != *cursor.filter {
                cursor = at(cursor.shard, filter, AudiencePlace::default());
            }
            while let Some(next) = asked.list(&cursor, limit, &mut told)? {
                cursor = at(cursor.shard, filter, next);
                if told.subscriptions.len() >= limit || is_long(&told) {
                    told.cursor = Some(cursor);
                    return Ok(told);
                }
            }
        }
        cursor = at(cursor.shard + 1, "", AudiencePlace::default());
    }
    Ok(told)
}

/// Whether the names of a page are long enough to end it.
fn is_long(told: &Told) -> bool {
    let names = told.subscriptions.iter();
    let names = names.map(|one| one.client_id.len() + one.filter.len());
    fitting(names) < told.subscriptions.len()
}

fn at(shard: usize, filter: &str, place: AudiencePlace) -> Cursor {
    Cursor {
        shard,
        filter: filter.to_owned(),
        subscriber: place.subscriber,
        member: place.member,
    }
}

impl Asked<'_> {
    /// The filters of a shard that match, in order, and whether these are all.
    fn filters(&self, shard: usize) -> Result<(BTreeSet<Box<str>>, bool), Failure> {
        let (mut filters, mut rest) = (BTreeSet::new(), None);
        for _ in 0..STEPS_MAX {
            let found = ask_one(self.context, shard, |answer| {
                Inquiry::FiltersMatching(self.topic(), rest.take(), answer)
            });
            let found = found.ok_or_else(silent)?;
            filters.extend(found.filters);
            rest = found.rest;
            if rest.is_none() || filters.len() >= FILTERS_MAX {
                break;
            }
        }
        Ok((filters, rest.is_none()))
    }

    /// Lists some who subscribe to a filter; where the next ones are, if there are more.
    fn list(
        &self,
        cursor: &Cursor,
        limit: usize,
        told: &mut Told,
    ) -> Result<Option<AudiencePlace>, Failure> {
        let wanted = Listeners {
            topic: self.topic(),
            filter: cursor.filter.as_str().into(),
            from: AudiencePlace {
                subscriber: cursor.subscriber,
                member: cursor.member,
            },
            at_most: limit.saturating_sub(told.subscriptions.len()).min(AT_ONCE),
        };
        let page = ask_one(self.context, cursor.shard, |answer| {
            Inquiry::Audience(wanted, answer)
        });
        let (listeners, next) = page.ok_or_else(silent)?;
        let shown = listeners.into_iter().map(|one| self.describe(one));
        told.subscriptions.extend(shown);
        Ok(next)
    }

    fn topic(&self) -> (Zone, Arc<str>) {
        (self.zone, Arc::clone(&self.topic))
    }

    fn describe(&self, listener: Listener) -> Matching {
        let shown = subscription(&listener.granted);
        let parsed = Subscription::parse(&shown.filter).ok();
        let group = parsed.and_then(|parsed| parsed.share);
        Matching {
            client_id: listener.client_id.into_string(),
            user: listener.user.as_deref().map(str::to_owned),
            zone: self.zone_name.clone(),
            connected: listener.is_connected,
            group: group.map(str::to_owned),
            qos: shown.qos,
            no_local: shown.no_local,
            max_rate: shown.max_rate,
            withheld: listener.is_withheld,
            rule: rule_of_receiver(&listener.rights, &self.topic),
            filter: shown.filter,
        }
    }
}
