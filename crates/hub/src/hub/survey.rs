//! Looking at everything of a shard, for people, in steps that take no longer than a message to
//! some hundred subscribers.

use alloc::vec::Vec;

use stentor_session::Tick;
use stentor_topic::Zone;

use super::Hub;
use crate::core::heavy_hitters::{self, Heaviest, HeavyBy, HeavyPublisher, HeavyTopic};
use crate::core::inspect::{SeenClient, ZoneFigures};
use crate::core::memory::Holder;
use crate::core::survey::{self, Part, Subscribed};

/// Shows the sessions of this shard, from a place on, to a caller who copies what is needed.
/// Returns where the next step begins; `None` after the last one. A step looks into 256 slots, or
/// fewer if clients have long names.
pub fn each_client_from(hub: &Hub, from: u64, look: impl FnMut(SeenClient<'_>)) -> Option<u64> {
    survey::each_client(&hub.core, from, look)
}

/// Of the sessions from a place on those that hold most, at most this many, in order. A step looks
/// into 256 slots.
#[must_use]
pub fn holders_from(hub: &Hub, from: u64, at_most: usize) -> Part<Vec<Holder>> {
    survey::holders(&hub.core, from, at_most)
}

/// Figures of zones: those of all steps make the sum. A step looks into 256 slots of sessions, or
/// at 256 zones.
#[must_use]
pub fn zone_figures_from(hub: &Hub, from: u64) -> Part<Vec<(Zone, ZoneFigures)>> {
    survey::zone_figures(&hub.core, from, |zone, figures| {
        hub.services.add_figures(zone, figures);
    })
}

/// Filters with subscribers on this shard, from a place on: first those that are not shared, each
/// with the number of its sessions, then those of shared subscriptions. A step looks at 256
/// filters, or fewer if they have thousands of subscribers or are long.
#[must_use]
pub fn filters_from(hub: &Hub, from: u64) -> Part<Vec<Subscribed<'_>>> {
    survey::filters(&hub.core, from)
}

/// The topics that most has been published to of late, as far as samples tell. A look at 256
/// places.
#[must_use]
pub fn heaviest_topics(hub: &Hub, now: Tick, by: HeavyBy) -> Heaviest<HeavyTopic, HeavyPublisher> {
    heavy_hitters::topics(&hub.core, now, by)
}

/// Those who have published most of late, as far as samples tell: clients, and users without a
/// connection. A look at 256 places.
#[must_use]
pub fn heaviest_publishers(
    hub: &Hub,
    now: Tick,
    by: HeavyBy,
) -> Heaviest<HeavyPublisher, HeavyTopic> {
    heavy_hitters::publishers(&hub.core, now, by)
}
