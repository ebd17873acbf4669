//! Quotas, and what counts against them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stentor_topic::Zone;

/// What may be held: by one zone, or by all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Topics with a message.
    pub messages_max: u64,
    /// Bytes of their topics, properties and payloads.
    pub bytes_max: u64,
}

impl Quota {
    /// No bound at all.
    pub const UNLIMITED: Self = Self {
        messages_max: u64::MAX,
        bytes_max: u64::MAX,
    };
}

impl Default for Quota {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// A quota that can change, and what is used of it.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Usage {
    const fn new() -> Self {
        Self {
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes what a change adds, if that stays within a quota; whether it did. What holds more than
    /// its quota, since that was lowered, may still shrink.
    fn reserve(&self, quota: &Limits, change: Change) -> bool {
        let take = |used: &AtomicU64, more: i64, max: &AtomicU64| {
            let Some(more) = u64::try_from(more).ok().filter(|more| *more > 0) else {
                return true;
            };
            let max = max.load(Ordering::Relaxed);
            let within = |used: u64| used.checked_add(more).filter(|after| *after <= max);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
                .is_ok()
        };
        if !take(&self.messages, change.messages, &quota.messages_max) {
            return false;
        }
        let is_taken = take(&self.bytes, change.bytes, &quota.bytes_max);
        if !is_taken {
            let bytes = 0;
            self.apply(Change { bytes, ..change }.grown().undone());
        }
        is_taken
    }

    fn apply(&self, change: Change) {
        // Wraps around below zero, as two's complement does.
        self.messages
            .fetch_add(change.messages as u64, Ordering::Relaxed);
        self.bytes.fetch_add(change.bytes as u64, Ordering::Relaxed);
    }
}

/// What a put or a clear changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) messages: i64,
    pub(crate) bytes: i64,
}

impl Change {
    /// From one content length to another; `None` where there is no message.
    pub(crate) fn between(before: Option<u64>, after: Option<u64>) -> Self {
        let count = |len: Option<u64>| i64::from(len.is_some());
        let bytes = |len: Option<u64>| len.unwrap_or(0) as i64;
        Self {
            messages: count(after) - count(before),
            bytes: bytes(after) - bytes(before),
        }
    }

    /// What it adds.
    fn grown(self) -> Self {
        Self {
            messages: self.messages.max(0),
            bytes: self.bytes.max(0),
        }
    }

    /// What it takes away.
    fn shrunk(self) -> Self {
        Self {
            messages: self.messages.min(0),
            bytes: self.bytes.min(0),
        }
    }

    /// Its opposite.
    fn undone(self) -> Self {
        Self {
            messages: -self.messages,
            bytes: -self.bytes,
        }
    }
}

#[derive(Debug)]
struct Limits {
    messages_max: AtomicU64,
    bytes_max: AtomicU64,
}

impl Limits {
    fn new(quota: Quota) -> Self {
        Self {
            messages_max: AtomicU64::new(quota.messages_max),
            bytes_max: AtomicU64::new(quota.bytes_max),
        }
    }

    fn set(&self, quota: Quota) {
        self.messages_max
            .store(quota.messages_max, Ordering::Relaxed);
        self.bytes_max.store(quota.bytes_max, Ordering::Relaxed);
    }
}

/// What all zones use, together and each. A put takes what it needs before, and gives back what
/// it has freed after, so that shards that put at the same moment stay within the quotas together.
#[derive(Debug)]
pub(crate) struct Accounts {
    total: Usage,
    total_limits: Limits,
    zone_limits: Limits,
    zones: Mutex<HashMap<Zone, Arc<Usage>>>,
}

impl Accounts {
    pub(crate) fn new(total: Quota, zone: Quota) -> Self {
        Self {
            total: Usage::new(),
            total_limits: Limits::new(total),
            zone_limits: Limits::new(zone),
            zones: Mutex::default(),
        }
    }

    /// New quotas; what is held stays.
    pub(crate) fn set_quotas(&self, total: Quota, zone: Quota) {
        self.total_limits.set(total);
        self.zone_limits.set(zone);
    }

    /// The account of a zone.
    pub(crate) fn zone(&self, zone: Zone) -> Arc<Usage> {
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(zones.entry(zone).or_insert_with(|| Arc::new(Usage::new())))
    }

    /// Takes what a change adds, if the quotas have room for it; whether they had. Then the change
    /// is made and [`Self::settle`]d, or this is [`Self::release`]d.
    pub(crate) fn reserve(&self, zone: &Usage, change: Change) -> bool {
        if !self.total.reserve(&self.total_limits, change) {
            return false;
        }
        let is_reserved = zone.reserve(&self.zone_limits, change);
        if !is_reserved {
            self.total.apply(change.grown().undone());
        }
        is_reserved
    }

    /// Gives back what was reserved for a change that was not made.
    pub(crate) fn release(&self, zone: &Usage, change: Change) {
        self.apply(zone, change.grown().undone());
    }

    /// Gives back what a change for which there was a reservation has freed.
    pub(crate) fn settle(&self, zone: &Usage, change: Change) {
        self.apply(zone, change.shrunk());
    }

    /// Counts a change that no quota is asked about.
    pub(crate) fn apply(&self, zone: &Usage, change: Change) {
        self.total.apply(change);
        zone.apply(change);
    }

    /// The bound that leaves no room for another message of a zone, and its value: that of messages
    /// if it is reached, otherwise the one of bytes that is nearest.
    pub(crate) fn bound_met(&self, zone: Zone) -> Option<String> {
        let own = self.zone(zone);
        let bounds = [
            (
                "messages",
                &self.total.messages,
                &self.total_limits.messages_max,
            ),
            (
                "zone_messages",
                &own.messages,
                &self.zone_limits.messages_max,
            ),
            ("bytes", &self.total.bytes, &self.total_limits.bytes_max),
            ("zone_bytes", &own.bytes, &self.zone_limits.bytes_max),
        ];
        let bounds = bounds.map(|(key, used, max)| {
            let max = max.load(Ordering::Relaxed);
            (max.saturating_sub(used.load(Ordering::Relaxed)), key, max)
        });
        let (of_messages, of_bytes) = bounds.split_at(2);
        let reached = of_messages.iter().find(|(left, ..)| *left == 0);
        let nearest = of_bytes.iter().min_by_key(|(left, ..)| *left);
        let (_, key, max) = reached.or(nearest).filter(|(.., max)| *max != u64::MAX)?;
        Some(format!("retained.{key} is {max}"))
    }

    /// Messages and bytes of all zones.
    pub(crate) fn total(&self) -> (u64, u64) {
        (
            self.total.messages.load(Ordering::Relaxed),
            self.total.bytes.load(Ordering::Relaxed),
        )
    }

    /// Messages and bytes of each zone that holds any.
    pub(crate) fn by_zone(&self) -> Vec<(Zone, u64, u64)> {
        let zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = zones
            .iter()
            .map(|(zone, usage)| {
                let messages = usage.messages.load(Ordering::Relaxed);
                (*zone, messages, usage.bytes.load(Ordering::Relaxed))
            })
            .filter(|(_, messages, _)| *messages > 0)
            .collect();
        all.sort_unstable();
        all
    }
}
