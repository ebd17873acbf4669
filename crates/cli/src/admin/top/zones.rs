//! `stentor top --zones`: what happens in each zone.

use std::collections::HashMap;
use std::time::Instant;

use stentor_control::zones::{Told, Zone};

use crate::admin::table::{Table, bytes};
use crate::output::shown;

/// Zones that are shown; the sum of the others is one line.
const MOST: usize = 20;

/// The sums of the look before, by zone, and when that was.
#[derive(Debug, Default)]
pub(super) struct Before(Option<(Instant, HashMap<String, Zone>)>);

/// A zone, and what has happened in it per second.
#[derive(Debug, Clone, Default)]
struct Busy {
    zone: Zone,
    messages_in: f64,
    messages_out: f64,
    bytes: f64,
    lost: f64,
}

impl Before {
    /// The page of a look at a time, which is the one before from now on.
    pub(super) fn page(&mut self, at: Instant, told: &Told) -> String {
        let before = self.0.take();
        let secs = before.as_ref().map(|(then, _)| at.duration_since(*then));
        let secs = secs
            .map(|time| time.as_secs_f64())
            .filter(|secs| *secs > 0.0);
        let none = Zone::default();
        let busy = told.zones.iter().map(|zone| {
            let old = before.as_ref().map(|(_, all)| all.get(&zone.name));
            let old = old.flatten().unwrap_or(&none);
            let rate = |now: u64, old: u64| {
                // Without a look before, there is no rate.
                secs.map_or(0.0, |secs| now.saturating_sub(old) as f64 / secs)
            };
            Busy {
                messages_in: rate(zone.messages_in, old.messages_in),
                messages_out: rate(zone.messages_out, old.messages_out),
                bytes: rate(
                    zone.messages_in_bytes + zone.messages_out_bytes,
                    old.messages_in_bytes + old.messages_out_bytes,
                ),
                lost: rate(zone.messages_dropped, old.messages_dropped),
                zone: zone.clone(),
            }
        });
        let text = table(busy.collect());
        let all = told.zones.iter();
        let all = all.map(|zone| (zone.name.clone(), zone.clone()));
        self.0 = Some((at, all.collect()));
        text
    }
}

/// The busiest zones first; of equals, those with most connections.
fn table(mut all: Vec<Busy>) -> String {
    let flow = |busy: &Busy| busy.messages_in + busy.messages_out;
    all.sort_by(|a, b| {
        let of_connections = || b.zone.connections.cmp(&a.zone.connections);
        let by_flow = flow(b).total_cmp(&flow(a)).then_with(of_connections);
        by_flow.then_with(|| a.zone.name.cmp(&b.zone.name))
    });
    let mut table = Table::new(&[
        "ZONE",
        "CONNECTIONS",
        "SESSIONS",
        "IN/S",
        "OUT/S",
        "SIZE/S",
        "LOST/S",
        "RETAINED",
        "RETAINED SIZE",
        "HELD",
    ]);
    let others = all.split_off(all.len().min(MOST));
    let rows = all
        .iter()
        .map(|busy| (shown(&busy.zone.name), busy.clone()));
    let rest = (!others.is_empty()).then(|| {
        let name = format!("{} others", others.len());
        (name, others.iter().fold(Busy::default(), sum))
    });
    for (name, busy) in rows.chain(rest) {
        let zone = &busy.zone;
        table.cells(vec![
            name,
            zone.connections.to_string(),
            zone.sessions.to_string(),
            format!("{:.0}", busy.messages_in),
            format!("{:.0}", busy.messages_out),
            bytes(busy.bytes as u64),
            format!("{:.0}", busy.lost),
            zone.retained_messages.to_string(),
            bytes(zone.retained_bytes),
            bytes(zone.held_bytes),
        ]);
    }
    table.render()
}

fn sum(mut all: Busy, one: &Busy) -> Busy {
    all.messages_in += one.messages_in;
    all.messages_out += one.messages_out;
    all.bytes += one.bytes;
    all.lost += one.lost;
    let (zone, more) = (&mut all.zone, &one.zone);
    zone.connections += more.connections;
    zone.sessions += more.sessions;
    zone.retained_messages += more.retained_messages;
    zone.retained_bytes += more.retained_bytes;
    zone.held_bytes += more.held_bytes;
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(zones: impl IntoIterator<Item = (String, u64, u64)>) -> Told {
        let zone = |(name, connections, messages_in)| Zone {
            name,
            connections,
            messages_in,
            ..Zone::default()
        };
        Told {
            zones: zones.into_iter().map(zone).collect(),
        }
    }

    #[test]
    fn the_busiest_zones_come_first_with_what_has_happened_since_the_look_before() {
        let (mut before, begun) = (Before::default(), Instant::now());
        let zone =
            |name: &str, connections, messages_in| (name.to_owned(), connections, messages_in);
        let first = told([zone("a", 1, 1_000), zone("b", 9, 5)]);
        let page = before.page(begun, &first);
        let words = |page: &str, row: usize| -> Vec<String> {
            let line = page.lines().nth(row).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect()
        };
        // Nothing is known of before: the connections decide.
        assert_eq!(words(&page, 1)[..4], ["b", "9", "0", "0"], "{page}");
        let second = told([zone("a", 1, 1_020), zone("b", 9, 5), zone("c", 0, 4)]);
        let page = before.page(begun + Duration::from_secs(2), &second);
        assert_eq!(words(&page, 1)[..4], ["a", "1", "0", "10"], "{page}");
        assert_eq!(words(&page, 2)[..4], ["c", "0", "0", "2"], "{page}");
        assert_eq!(words(&page, 3)[..4], ["b", "9", "0", "0"], "{page}");
    }

    #[test]
    fn the_others_are_one_line() {
        let many = (0..MOST as u64 + 7).map(|n| (format!("z{n}"), n, 0));
        let page = Before::default().page(Instant::now(), &told(many));
        assert_eq!(page.lines().count(), MOST + 2, "{page}");
        let last = page.lines().last().unwrap_or_default();
        // Those with the fewest connections: 0 to 6.
        assert!(
            last.starts_with("7 others") && last.contains(" 21 "),
            "{page}"
        );
    }
}
