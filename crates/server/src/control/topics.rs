//! The verbs `topics` and `topics.children`.

use std::collections::BTreeMap;

use stentor_control::page;
use stentor_control::topics::{Children, Filter, Held, Name, Names, Told, Topics};
use stentor_hub::{Cursor, Retained, Scope, Walk};
use stentor_retained::Child;
use stentor_topic::{Zone, has_wildcard};

use super::protocol::Failure;
use super::zones;
use crate::backplane::Backplane;
use crate::shard::Survey;
use crate::telemetry::collect::survey;

/// Topics visited in one step over the store, under whose locks nobody should wait long.
const VISITS: usize = 1_000;

/// Names of one level that are looked at.
const NAMES_MAX: usize = 10_000;

/// Subscribed filters with their subscribers, of all zones unless one is named, and topics that
/// hold a retained message, of that zone or the default one.
pub(super) fn topics(backplane: &Backplane, request: &Topics) -> Result<Told, Failure> {
    let zone = zones::named(backplane, request.zone.as_ref())?;
    let (from, to) = page(request.limit, request.offset);
    let mut filters: BTreeMap<(Zone, String), usize> = BTreeMap::new();
    let mut truncated = false;
    let question = |answer| Survey::Filters {
        zone,
        containing: request.containing.clone(),
        at_most: to,
        answer,
    };
    let is_complete = survey(backplane, question, |page| {
        truncated |= page.total > to;
        for (zone, filter, subscribers) in page.entries {
            *filters.entry((zone, filter)).or_default() += subscribers;
        }
        // More names only push one back that is too far back already.
        while filters.len() > to.saturating_add(1) {
            filters.pop_last();
        }
    });
    truncated |= filters.len() > to || !is_complete;
    // A filter among the first of all is among the first of each part that has it, so its
    // subscribers are complete.
    let listed = filters
        .iter()
        .take(to)
        .skip(from)
        .map(|((zone, filter), subscribers)| Filter {
            zone: backplane.zone_name(*zone),
            filter: filter.clone(),
            subscribers: *subscribers,
        })
        .collect();
    let containing = &*request.containing;
    let mut retained = retained(backplane, containing, zone.unwrap_or(Zone::DEFAULT), to);
    retained.drain(..from.min(retained.len()));
    Ok(Told {
        filters: listed,
        retained,
        truncated,
    })
}

/// The names of one level, of one zone.
pub(super) fn children(backplane: &Backplane, request: &Children) -> Result<Names, Failure> {
    let zone = zones::named(backplane, request.zone.as_ref())?.unwrap_or(Zone::DEFAULT);
    let below = request.below.as_deref();
    if let Some(below) = below.filter(|below| has_wildcard(below)) {
        let message = format!("{below:?} has a wildcard; name the levels above, such as plant/17");
        return Err(Failure::new("bad-request", message));
    }
    let limit = request.limit.unwrap_or(1_000).clamp(1, NAMES_MAX);
    let (all, are_all) = backplane.retained.children(zone, below, NAMES_MAX);
    let after = request.after.as_deref();
    let behind = |name: &&(String, Child)| after.is_none_or(|after| *name.0 > *after);
    let all: Vec<(String, Child)> = all.into_iter().collect();
    let mut rest = all.iter().filter(behind);
    let page = rest.by_ref().take(limit);
    let names = page.map(|(name, child)| Name {
        name: name.clone(),
        topic: child.is_topic,
        below: child.has_below,
    });
    Ok(Names {
        names: names.collect(),
        more: rest.next().is_some(),
        truncated: !are_all,
    })
}

/// Topics with a retained message, in one zone, without those of the server itself unless they
/// are asked for.
fn retained(backplane: &Backplane, containing: &str, zone: Zone, at_most: usize) -> Vec<Held> {
    let pattern = if containing.starts_with('$') {
        "$SYS/#"
    } else {
        "#"
    };
    let scope = Scope::until(backplane.retained.mark(), backplane.clock.now());
    let (mut cursor, mut found, mut topics) = (Cursor::default(), Vec::new(), Vec::new());
    loop {
        let walk = backplane
            .retained
            .walk(zone, pattern, scope, &mut cursor, VISITS, &mut found);
        let fits = found
            .drain(..)
            .filter(|message| message.topic().contains(containing));
        topics.extend(fits.map(|message| Held {
            topic: message.topic().to_owned(),
            bytes: message.payload().len(),
        }));
        if walk == Walk::Done || topics.len() >= at_most {
            topics.truncate(at_most);
            return topics;
        }
    }
}
