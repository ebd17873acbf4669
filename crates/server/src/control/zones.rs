//! The verb `zones`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stentor_hub::ZoneFigures;

use crate::backplane::Backplane;
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_all;

/// What there is of each zone now: connections, sessions, rooms, retained messages. `named` are
/// the zones of which there may be nothing.
pub(super) fn zones(backplane: &Backplane, named: impl Iterator<Item = String>) -> Value {
    let nothing = |name| (name, (ZoneFigures::default(), 0, 0));
    let mut zones: BTreeMap<String, (ZoneFigures, u64, u64)> = named.map(nothing).collect();
    for (zone, part) in ask_all(backplane, Inquiry::Zones).into_iter().flatten() {
        let (sum, ..) = zones.entry(backplane.zone_name(zone)).or_default();
        sum.sessions += part.sessions;
        sum.connections += part.connections;
        sum.subscriptions += part.subscriptions;
        sum.rooms += part.rooms;
        sum.members += part.members;
        sum.users += part.users;
    }
    for (zone, messages, bytes) in backplane.retained.status().zones {
        let of_zone = zones.entry(backplane.zone_name(zone)).or_default();
        (of_zone.1, of_zone.2) = (messages, bytes);
    }
    let shown = zones.into_iter().map(|(name, (sum, messages, bytes))| {
        json!({
            "name": name,
            "connections": sum.connections,
            "users": sum.users,
            "sessions": sum.sessions,
            "subscriptions": sum.subscriptions,
            "rooms": sum.rooms,
            "members": sum.members,
            "retained_messages": messages,
            "retained_bytes": bytes,
        })
    });
    json!({ "zones": shown.collect::<Vec<_>>() })
}
