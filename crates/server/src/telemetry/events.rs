//! The last events of connections, in a ring that is bounded in number and in bytes.
//!
//! The thread that writes the log fills it, from the entries that the shards leave there anyway.

mod kept;
mod ring;
mod shelf;

use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stentor_control::Network;
use stentor_control::events::Kind;
use stentor_hub::{Event, Identity};
use stentor_session::CloseReason;
use stentor_topic::Zone;

use super::denied::Denial;
use super::journal::{Entry, Pace, at_limit, losing, shown};
use super::remedy::{Scene, remedy};
use crate::listener::Port;
use crate::peer::Peer;
use kept::Kept;
use ring::Ring;

/// Refusals, denials and losses that are kept in a period, for each reason: one client that tries
/// for ever does not push out all the others. What is above is counted.
const REPEATED_MAX: u32 = 100;

/// Something that has happened to a connection.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    /// Its place since the start.
    pub(crate) seq: u64,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) kind: Kind,
    pub(crate) zone: Option<ZoneOf>,
    /// These are empty where they are not known.
    pub(crate) client_id: Box<str>,
    pub(crate) user: Box<str>,
    pub(crate) peer: Option<Peer>,
    pub(crate) port: Option<Arc<Port>>,
    pub(crate) reason: &'static str,
    pub(crate) text: Box<str>,
    /// How many of this kind and reason were left out before it.
    pub(crate) held_back: u64,
}

/// How a zone is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ZoneOf {
    Number(Zone),
    /// As somebody claims it who was not let in, or an administrator has it.
    Name(Box<str>),
}

impl Noted {
    /// An event of which nothing else is known yet.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            seq: 0,
            at_ms: 0,
            kind,
            zone: None,
            client_id: Box::default(),
            user: Box::default(),
            peer: None,
            port: None,
            reason: "",
            text: Box::default(),
            held_back: 0,
        }
    }

    /// What is worth keeping of an entry of the log.
    fn of(entry: &Entry, data_dir: &std::path::Path, pace: &mut Pace) -> Option<Self> {
        match entry {
            Entry::Session(event, origin) => {
                let mut noted = Self::of_session(event, pace)?;
                if let Some((peer, port)) = origin {
                    (noted.peer, noted.port) = (Some(*peer), Some(Arc::clone(port)));
                }
                Some(noted)
            }
            Entry::Refused {
                peer,
                port,
                user,
                client_id,
                fault,
                reason,
            } => {
                let held_back = pace.admit(reason.label())?;
                let rules = port.rules.load();
                let scene = Scene {
                    url: &port.url,
                    rules: &rules,
                    claim: user,
                    fault: fault.as_ref(),
                    data_dir,
                };
                let text = remedy(*reason, &scene);
                let zone = user.name().split_once('/').map(|(zone, _)| zone);
                let zone = zone.or(rules.zone.as_deref());
                Some(Self {
                    zone: zone.map(|zone| ZoneOf::Name(shown(zone).into())),
                    client_id: shown(client_id).into(),
                    user: shown(user.name()).into(),
                    peer: Some(*peer),
                    port: Some(Arc::clone(port)),
                    reason: reason.label(),
                    text: text.trim_start_matches(": ").into(),
                    held_back,
                    ..Self::new(Kind::Refused)
                })
            }
            Entry::ByHttp(request) => request.noted(pace),
            Entry::Banned(noted) => Some((**noted).clone()),
            Entry::Administered(..) | Entry::LongTurn(..) | Entry::Shed { .. } => None,
        }
    }

    fn of_session(event: &Event, pace: &mut Pace) -> Option<Self> {
        match event {
            Event::Connected {
                zone,
                client_id,
                user,
                session_present,
                ..
            } => Some(Self {
                zone: Some(ZoneOf::Number(*zone)),
                client_id: shown(client_id).into(),
                user: shown(user.as_deref().unwrap_or_default()).into(),
                text: match session_present {
                    true => "it goes on with its session".into(),
                    false => Box::default(),
                },
                ..Self::new(Kind::Connected)
            }),
            Event::Disconnected {
                zone,
                client_id,
                user,
                connected_secs,
                reason,
                limit,
                ..
            } => Some(Self {
                zone: Some(ZoneOf::Number(*zone)),
                client_id: shown(client_id).into(),
                user: shown(user.as_deref().unwrap_or_default()).into(),
                reason: reason.label(),
                text: ended(*connected_secs, *reason, limit.as_deref()).into(),
                ..Self::new(Kind::Disconnected)
            }),
            Event::PublishDenied {
                client_id,
                identity,
                ..
            }
            | Event::SubscribeDenied {
                client_id,
                identity,
                ..
            } => Self::denied(client_id, identity, &Denial::of(event)?, pace),
            Event::Losing {
                client_id,
                topic,
                cause,
                full,
            } => {
                let text = format!("messages of {:?}{}", shown(topic), losing(cause, *full));
                let held_back = pace.admit(cause)?;
                Some(Self {
                    client_id: shown(client_id).into(),
                    reason: cause,
                    text: text.into(),
                    held_back,
                    ..Self::new(Kind::Losing)
                })
            }
            Event::AboveLimit { .. }
            | Event::SessionExpired { .. }
            | Event::Unreadable { .. }
            | Event::SessionEvicted { .. }
            | Event::NotKept { .. }
            | Event::NotTaken { .. }
            | Event::Administered { .. } => None,
        }
    }

    fn denied(
        client_id: &str,
        identity: &Identity,
        denial: &Denial<'_>,
        pace: &mut Pace,
    ) -> Option<Self> {
        let held_back = pace.admit(denial.label())?;
        let user = identity.user.as_deref().unwrap_or_default();
        Some(Self {
            zone: Some(ZoneOf::Number(identity.zone)),
            client_id: shown(client_id).into(),
            user: shown(user).into(),
            reason: denial.label(),
            text: denial.text().into(),
            held_back,
            ..Self::new(Kind::Denied)
        })
    }
}

/// How long a connection lasted, and what to do where a limit ended it.
fn ended(secs: u64, reason: CloseReason, limit: Option<&str>) -> String {
    let limit = limit.map(|limit| format!(": {limit}; {}", at_limit(reason)));
    format!("after {secs} s{}", limit.unwrap_or_default())
}

/// Which events somebody wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Only those behind this one, the oldest first; without it, the newest.
    pub(crate) after: Option<u64>,
    pub(crate) client_id: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) network: Option<Network>,
    pub(crate) kind: Option<Kind>,
    /// The name of a zone, and its number if it has one.
    pub(crate) zone: Option<(String, Option<Zone>)>,
    pub(crate) since_ms: u64,
    pub(crate) limit: usize,
}

impl Wanted {
    fn is(&self, kept: &Kept<'_>) -> bool {
        let is_text = |wanted: &Option<String>, text: &str| {
            let wanted = wanted.as_deref();
            wanted.is_none_or(|wanted| *shown(wanted) == *text)
        };
        let address = || kept.peer.and_then(Peer::address);
        let is_near = |network: Network| address().is_some_and(|it: IpAddr| network.contains(it));
        let is_of_zone = |(name, number): &(String, Option<Zone>)| kept.is_of_zone(name, *number);
        kept.at_ms >= self.since_ms
            && self.kind.is_none_or(|kind| kind == kept.kind)
            && is_text(&self.client_id, kept.client_id)
            && is_text(&self.user, kept.user)
            && self.network.is_none_or(is_near)
            && self.zone.as_ref().is_none_or(is_of_zone)
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The oldest first.
    pub(crate) events: Vec<Noted>,
    /// Where to go on.
    pub(crate) cursor: u64,
    /// Whether events behind the cursor are gone already.
    pub(crate) missed: bool,
}

/// The ring.
#[derive(Debug, Default)]
pub(crate) struct Events {
    ring: Mutex<Ring>,
    /// Something was noted.
    news: Condvar,
}

impl Events {
    /// Limits what one reason may push out.
    pub(super) fn pace() -> Pace {
        Pace::of(REPEATED_MAX)
    }

    /// Notes what is worth keeping of an entry of the log.
    pub(super) fn note(&self, entry: &Entry, data_dir: &std::path::Path, pace: &mut Pace) {
        if let Some(noted) = Noted::of(entry, data_dir, pace) {
            let at_ms = std::time::SystemTime::UNIX_EPOCH.elapsed();
            let at_ms = at_ms.map_or(0, |since| since.as_millis() as u64);
            self.keep(&Noted { at_ms, ..noted });
        }
    }

    fn keep(&self, noted: &Noted) {
        let mut ring = self.lock();
        ring.push(noted);
        let is_awaited = ring.waiting > 0;
        drop(ring);
        if is_awaited {
            self.news.notify_all();
        }
    }

    /// Looks for events; if there are none, waits for the first one.
    pub(crate) fn find(&self, wanted: &Wanted, patience: Duration) -> Found {
        let deadline = Instant::now() + patience;
        let (mut ring, mut after) = (self.lock(), wanted.after);
        loop {
            let found = ring.find(wanted, after);
            let left = deadline.saturating_duration_since(Instant::now());
            if !found.events.is_empty() || left.is_zero() {
                return found;
            }
            after = Some(found.cursor);
            ring.waiting += 1;
            let woken = self.news.wait_timeout(ring, left);
            ring = woken.unwrap_or_else(PoisonError::into_inner).0;
            ring.waiting -= 1;
        }
    }

    /// An event is put in or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(client_id: &str) -> Noted {
        Noted {
            client_id: client_id.into(),
            ..Noted::new(Kind::Connected)
        }
    }

    fn wanted(after: Option<u64>, limit: usize) -> Wanted {
        Wanted {
            after,
            limit,
            ..Wanted::default()
        }
    }

    fn is_wanted(wanted: &Wanted, noted: &Noted) -> bool {
        let events = Events::default();
        events.keep(noted);
        !events
            .find(
                &Wanted {
                    limit: 1,
                    ..wanted.clone()
                },
                Duration::ZERO,
            )
            .events
            .is_empty()
    }

    fn find(events: &Events, wanted: &Wanted) -> (Vec<String>, u64, bool) {
        let found = events.find(wanted, Duration::ZERO);
        let ids = found.events.iter().map(|noted| noted.client_id.to_string());
        (ids.collect(), found.cursor, found.missed)
    }

    #[test]
    fn a_cursor_goes_through_all_of_them_once() {
        let events = Events::default();
        for id in ["a", "b", "c"] {
            events.keep(&connected(id));
        }
        let told = |ids: &[&str], cursor, missed| {
            let ids = ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
            (ids, cursor, missed)
        };
        assert_eq!(find(&events, &wanted(None, 2)), told(&["b", "c"], 3, false));
        let mut after = 0;
        for id in ["a", "b", "c"] {
            let next = find(&events, &wanted(Some(after), 1));
            after += 1;
            assert_eq!(next, told(&[id], after, false));
        }
        assert_eq!(find(&events, &wanted(Some(3), 1)), told(&[], 3, false));
        // That of an earlier run.
        assert_eq!(
            find(&events, &wanted(Some(99), 9)),
            told(&["a", "b", "c"], 3, false)
        );
        let only = Wanted {
            client_id: Some("b".into()),
            ..wanted(Some(0), 1)
        };
        assert_eq!(find(&events, &only), told(&["b"], 2, false));
    }

    #[test]
    fn what_is_gone_was_missed() {
        let events = Events::default();
        for _ in 0..ring::EVENTS_MAX + 5 {
            events.keep(&connected("a"));
        }
        let (_, cursor, missed) = find(&events, &wanted(Some(2), 1));
        assert!(missed, "the first five are gone");
        assert_eq!(cursor, 6);
    }

    #[test]
    fn filters_look_at_zone_address_kind_and_time() {
        let noted = Noted {
            zone: Some(ZoneOf::Number(Zone(7))),
            user: "game/ann".into(),
            peer: Some(Peer::V4([192, 0, 2, 7], 5)),
            at_ms: 50,
            ..connected("a")
        };
        let is = |change: fn(&mut Wanted)| {
            let mut wanted = wanted(None, 1);
            change(&mut wanted);
            is_wanted(&wanted, &noted)
        };
        assert!(is(|it| it.zone = Some(("game".into(), Some(Zone(7))))));
        assert!(!is(|it| it.zone = Some(("shop".into(), None))));
        assert!(is(|it| it.network = "192.0.2.0/24".parse().ok()));
        assert!(!is(|it| it.network = "192.0.2.8".parse().ok()));
        assert!(is(|it| it.kind = Some(Kind::Connected)));
        assert!(!is(|it| it.kind = Some(Kind::Refused)));
        assert!(is(|it| it.since_ms = 50) && !is(|it| it.since_ms = 51));
        assert!(is(|it| it.user = Some("game/ann".into())));
        assert!(!is(|it| it.user = Some("ann".into())));
        let claimed = Noted {
            zone: Some(ZoneOf::Name("game".into())),
            ..connected("b")
        };
        let mut of_zone = wanted(None, 1);
        of_zone.zone = Some(("game".into(), None));
        assert!(is_wanted(&of_zone, &claimed));
    }
}
