//! Clients that connect again and again: counted from the events, and banned for a time.
//!
//! The thread that writes the log counts, so connections cost the shards nothing more. Another
//! thread bans, since that writes a file.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use stentor_topic::Zone;

use crate::config::Limits;

/// Clients whose connections are counted at a time, in all zones. When there are more, those that
/// are new are not counted until the windows of others have ended.
const CLIENTS_MAX: usize = 65_536;

/// Clients that wait to be banned. One that finds no room is found again as it goes on.
const FOUND_MAX: usize = 256;

/// How often a client may connect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Within [`Self::window`]; 0 for any number.
    connects_max: u32,
    window: Duration,
    /// For how long whoever connects more often is banned.
    pub(crate) ban: Duration,
}

impl Rule {
    pub(crate) const fn of(limits: &Limits) -> Self {
        Self {
            connects_max: limits.flapping_connects,
            window: limits.flapping_window,
            ban: limits.flapping_ban,
        }
    }

    /// Why somebody is banned, for people.
    pub(crate) fn told(&self) -> String {
        let (times, secs) = (self.connects_max, self.window.as_secs());
        format!("it connected more than {times} times within {secs} s")
    }
}

/// A client that connects too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flapper {
    pub(crate) zone: Zone,
    pub(crate) client_id: Box<str>,
    /// What it has broken.
    pub(crate) rule: Rule,
}

/// The rule, and where those go who break it.
#[derive(Debug, Default)]
pub(crate) struct Flapping {
    rule: ArcSwap<Rule>,
    found: OnceLock<SyncSender<Flapper>>,
}

impl Flapping {
    /// Another rule from now on.
    pub(crate) fn set(&self, rule: Rule) {
        self.rule.store(Arc::new(rule));
    }

    /// The clients that are found from now on. To be called once.
    pub(crate) fn found(&self) -> Receiver<Flapper> {
        let (sender, receiver) = sync_channel(FOUND_MAX);
        // A second receiver would get nothing.
        let _ = self.found.set(sender);
        receiver
    }

    /// Counts a connection of a client.
    pub(crate) fn note(&self, counts: &mut Counts, zone: Zone, client_id: &str) {
        let rule = **self.rule.load();
        if !counts.is_too_often(rule, Instant::now(), zone, client_id) {
            return;
        }
        let flapper = Flapper {
            zone,
            client_id: client_id.into(),
            rule,
        };
        if let Some(found) = self.found.get() {
            let _ = found.try_send(flapper);
        }
    }
}

/// How often clients have connected lately.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    clients: HashMap<(Zone, Box<str>), Count>,
    /// When those were last forgotten whose windows had ended.
    swept: Option<Instant>,
}

/// Of one client: a window begins with a connection, and the next one after its end.
#[derive(Debug)]
struct Count {
    since: Instant,
    connects: u32,
}

impl Counts {
    /// Counts a connection; whether it is the first one that the rule does not permit.
    fn is_too_often(&mut self, rule: Rule, now: Instant, zone: Zone, client_id: &str) -> bool {
        if rule.connects_max == 0 {
            *self = Self::default();
            return false;
        }
        let is_past = |since: Instant| now.saturating_duration_since(since) >= rule.window;
        if self.swept.is_none_or(is_past) {
            self.clients.retain(|_, count| !is_past(count.since));
            self.swept = Some(now);
        }
        let is_full = self.clients.len() >= CLIENTS_MAX;
        let key = (zone, Box::from(client_id));
        if is_full && !self.clients.contains_key(&key) {
            return false;
        }
        let new = || Count {
            since: now,
            connects: 0,
        };
        let count = self.clients.entry(key).or_insert_with(new);
        if is_past(count.since) {
            *count = new();
        }
        count.connects = count.connects.saturating_add(1);
        if count.connects <= rule.connects_max {
            return false;
        }
        // It begins again after its ban.
        *count = new();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        connects_max: 3,
        window: Duration::from_secs(10),
        ban: Duration::from_secs(60),
    };
    const PUMP: (Zone, &str) = (Zone::DEFAULT, "pump");

    #[test]
    fn a_client_may_connect_so_often_within_a_window() {
        let (start, mut counts) = (Instant::now(), Counts::default());
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut is = |secs: u64, (zone, client_id): (Zone, &str)| {
            counts.is_too_often(RULE, at(secs), zone, client_id)
        };
        let calm = [0, 3, 9, 10, 13, 19, 20].map(|secs| is(secs, PUMP));
        assert_eq!(calm, [false; 7], "three in each window");
        let wild = [21, 22, 23].map(|secs| is(secs, PUMP));
        assert_eq!(wild, [false, false, true]);
        let others = [(Zone(7), "pump"), (Zone::DEFAULT, "lamp")].map(|who| is(23, who));
        assert_eq!(others, [false, false], "each client counts for itself");
        let again = [24, 25, 26, 27].map(|secs| is(secs, PUMP));
        assert_eq!(again, [false, false, false, true], "it began again");
    }

    #[test]
    fn without_a_rule_nothing_is_counted() {
        let (now, mut counts) = (Instant::now(), Counts::default());
        assert!(!counts.is_too_often(RULE, now, PUMP.0, PUMP.1) && counts.clients.len() == 1);
        let off = Rule::default();
        assert!((0..100).all(|_| !counts.is_too_often(off, now, PUMP.0, PUMP.1)));
        assert!(counts.clients.is_empty());
    }

    #[test]
    fn so_many_clients_are_counted_and_windows_that_end_make_room() {
        let (start, mut counts) = (Instant::now(), Counts::default());
        let mut connect = |now: Instant, id: usize| {
            let id = id.to_string();
            counts.is_too_often(RULE, now, Zone::DEFAULT, &id);
            counts.clients.len()
        };
        for id in 0..CLIENTS_MAX {
            assert_eq!(connect(start, id), id + 1);
        }
        assert_eq!(connect(start, CLIENTS_MAX), CLIENTS_MAX);
        assert_eq!(connect(start + RULE.window, 0), 1);
    }
}
