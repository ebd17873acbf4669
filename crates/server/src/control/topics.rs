//! The verb `topics`.

use std::collections::BTreeMap;

use stentor_control::page;
use stentor_control::topics::{Filter, Held, Told, Topics};
use stentor_hub::{Cursor, Retained, Scope, Walk};
use stentor_topic::Zone;

use super::protocol::Failure;
use super::zones;
use crate::backplane::Backplane;
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_all;

/// Topics visited in one step over the store, under whose locks nobody should wait long.
const VISITS: usize = 1_000;

/// Subscribed filters with their subscribers, of all zones unless one is named, and topics that
/// hold a retained message, of that zone or the default one.
pub(super) fn topics(backplane: &Backplane, request: &Topics) -> Result<Told, Failure> {
    let zone = zones::named(backplane, request.zone.as_ref())?;
    let (from, to) = page(request.limit, request.offset);
    let mut filters: BTreeMap<(Zone, String), usize> = BTreeMap::new();
    let mut truncated = false;
    let pages = ask_all(backplane, |answer| Inquiry::Filters {
        containing: request.containing.clone(),
        at_most: to,
        answer,
    });
    for page in pages {
        truncated |= page.total > to;
        for (zone, filter, subscribers) in page.entries {
            *filters.entry((zone, filter)).or_default() += subscribers;
        }
    }
    truncated |= filters.len() > to;
    filters.retain(|(of, _), _| zone.is_none_or(|zone| zone == *of));
    // A filter among the first of all is among the first of each shard that has it, so its
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
