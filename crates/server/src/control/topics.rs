//! The verbs `topics` and `topics.children`.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use stentor_control::topics::{Children, Filter, Held, Name, Names, Told, Topics};
use stentor_control::{Request as _, page};
use stentor_hub::{Cursor, Retained, Scope, Walk};
use stentor_retained::Child;
use stentor_topic::{Zone, has_wildcard};

use super::protocol::{Failure, fitting};
use super::zones;
use crate::context::ServerContext;
use crate::survey::{Age, each_part};
use crate::telemetry::shown;

/// Topics visited in one step over the store, under whose locks nobody should wait long.
const VISITS: usize = 1_000;

/// Bytes of filters that are gathered before those behind the page are given up.
const SPARE_BYTES: usize = 8 << 20;

/// Names of one level that are looked at.
const NAMES_MAX: usize = 10_000;

/// Subscribed filters with their subscribers, of all zones unless one is named, and topics that
/// hold a retained message, of that zone or the default one.
pub(super) fn topics(context: &ServerContext, request: &Topics) -> Result<Told, Failure> {
    let zone = zones::named(context, request.zone.as_ref())?;
    let (from, to) = page(Topics::VERB, request.limit, request.offset)?;
    let kept = context.surveys.filters(context, Age::of(request.fresh));
    let wanted = |(of, filter, _): &(Zone, &str, usize)| {
        zone.is_none_or(|zone| zone == *of) && filter.contains(&*request.containing)
    };
    let (filters, truncated) = match &*kept.found {
        Ok(rows) => {
            let mut wanted = rows.iter().filter(wanted);
            let page = wanted.by_ref().take(to).skip(from);
            let page: Vec<Filter> = page
                .map(|(zone, text, count)| filter(context, zone, text, count))
                .collect();
            (page, wanted.next().is_some() || !rows.is_complete)
        }
        Err(_) => first_filters(context, wanted, from..to),
    };
    let containing = &*request.containing;
    let zone = zone.unwrap_or(Zone::DEFAULT);
    let (mut retained, has_more) = retained(context, containing, zone, to);
    retained.drain(..from.min(retained.len()));
    let mut told = Told {
        filters,
        retained,
        truncated: truncated || has_more,
    };
    shorten(&mut told);
    Ok(told)
}

/// Ends a page where its names are long enough. Both lists go on at the same place, so what one of
/// them has too much is too much for the other one.
fn shorten(told: &mut Told) {
    let filters = fitting(told.filters.iter().map(|one| one.filter.len()));
    let retained = fitting(told.retained.iter().map(|one| one.topic.len()));
    let mut rows = usize::MAX;
    for (fitting, all) in [
        (filters, told.filters.len()),
        (retained, told.retained.len()),
    ] {
        if fitting < all {
            rows = rows.min(fitting);
            told.truncated = true;
        }
    }
    told.filters.truncate(rows);
    told.retained.truncate(rows);
}

fn filter(context: &ServerContext, zone: Zone, filter: &str, subscribers: usize) -> Filter {
    Filter {
        zone: context.zone_name(zone),
        filter: filter.to_owned(),
        subscribers,
    }
}

/// Some filters in order, where there are too many to keep them all; and whether there are more.
fn first_filters(
    context: &ServerContext,
    wanted: impl Fn(&(Zone, &str, usize)) -> bool,
    page: Range<usize>,
) -> (Vec<Filter>, bool) {
    let mut first: BTreeMap<(Zone, String), usize> = BTreeMap::new();
    let (mut has_more, mut bytes) = (false, 0);
    let is_complete = each_part(context, |part| {
        let mut most = page.end;
        for (zone, filter, subscribers) in part.iter().filter(&wanted) {
            bytes += filter.len();
            *first.entry((zone, filter.to_owned())).or_default() += subscribers;
            if bytes > SPARE_BYTES {
                bytes = 0;
                let names = first.keys().skip(page.start).map(|(_, name)| name.len());
                most = page.end.min(page.start.saturating_add(fitting(names)));
            }
            // More names only push one back that is too far back already.
            while first.len() > most {
                has_more = true;
                first.pop_last();
            }
        }
        ControlFlow::Continue(())
    });
    // A filter among the first of all is among the first of each part that has it, so its
    // subscribers are complete.
    let rows = first.iter().skip(page.start);
    let rows = rows.map(|((zone, name), count)| filter(context, *zone, name, *count));
    (rows.collect(), has_more || !is_complete)
}

/// The names of one level, of one zone.
pub(super) fn children(context: &ServerContext, request: &Children) -> Result<Names, Failure> {
    let zone = zones::named(context, request.zone.as_ref())?.unwrap_or(Zone::DEFAULT);
    let below = request.below.as_deref();
    if let Some(below) = below.filter(|below| has_wildcard(below)) {
        let below = shown(below);
        let message = format!("{below:?} has a wildcard; name the levels above, such as plant/17");
        return Err(Failure::new("bad-request", message).about("below"));
    }
    let limit = Children::VERB.wanted(request.limit)?;
    let (all, are_all) = context.retained.children(zone, below, NAMES_MAX);
    let after = request.after.as_deref();
    let behind = |name: &&(String, Child)| after.is_none_or(|after| *name.0 > *after);
    let all: Vec<(String, Child)> = all.into_iter().collect();
    let behind = all.iter().filter(behind);
    let rest = behind.clone().count();
    let limit = limit.min(fitting(behind.clone().map(|(name, _)| name.len())));
    let names = behind.take(limit).map(|(name, child)| Name {
        name: name.clone(),
        topic: child.is_topic,
        below: child.has_below,
    });
    Ok(Names {
        names: names.collect(),
        more: rest > limit,
        truncated: !are_all,
    })
}

/// Topics with a retained message, in one zone, without those of the server itself unless they
/// are asked for; and whether there are more.
fn retained(
    context: &ServerContext,
    containing: &str,
    zone: Zone,
    at_most: usize,
) -> (Vec<Held>, bool) {
    let pattern = if containing.starts_with('$') {
        "$SYS/#"
    } else {
        "#"
    };
    let scope = Scope::until(context.retained.mark(), context.clock.now());
    let (mut cursor, mut found, mut topics) = (Cursor::default(), Vec::new(), Vec::new());
    loop {
        let walk = context
            .retained
            .walk(zone, pattern, scope, &mut cursor, VISITS, &mut found);
        let fits = found
            .drain(..)
            .filter(|message| message.topic().contains(containing));
        topics.extend(fits.map(|message| Held {
            topic: message.topic().to_owned(),
            bytes: message.payload().len(),
        }));
        // One more than wanted tells that there are more.
        if walk == Walk::Done || topics.len() > at_most {
            let has_more = topics.len() > at_most;
            topics.truncate(at_most);
            return (topics, has_more);
        }
    }
}
