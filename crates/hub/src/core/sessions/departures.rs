//! The connections that the server has ended last: so that whoever asks for a client that is not
//! there can be told why, also where its session has ended with it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use stentor_session::{CloseReason, Local, Tick};
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::ids::SessionKey;

/// Connections that are remembered.
const REMEMBERED_MAX: usize = 64;

/// Longer client ids are not remembered.
const CLIENT_ID_BYTES_MAX: usize = 256;

#[derive(Debug)]
struct Departure {
    zone: Zone,
    client_id: Box<str>,
    at: Tick,
    reason: CloseReason,
}

/// The newest of them, in a bounded number.
#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<Departure>);

impl Departures {
    /// A connection has ended. O(1). It is remembered if the server wanted that, and the client is
    /// not connected again.
    pub(crate) fn note(&mut self, now: Tick, zone: Zone, client_id: &str, reason: CloseReason) {
        let is_told = !matches!(
            reason,
            CloseReason::Remote(_)
                | CloseReason::Local(Local::TakenOver | Local::Replaced | Local::ShuttingDown)
        );
        if !is_told || client_id.len() > CLIENT_ID_BYTES_MAX {
            return;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Departure {
            zone,
            client_id: client_id.into(),
            at: now,
            reason,
        });
    }

    /// When and why the server has ended the last connection of a client, if that is remembered.
    pub(crate) fn of(&self, zone: Zone, client_id: &str) -> Option<(Tick, CloseReason)> {
        let is_it = |one: &&Departure| one.zone == zone && *one.client_id == *client_id;
        let last = self.0.iter().rev().find(is_it);
        last.map(|one| (one.at, one.reason))
    }
}

/// The connection of a session ends.
pub(in crate::core) fn remember(core: &mut Core, now: Tick, key: SessionKey, reason: CloseReason) {
    if let Some(session) = core.sessions.get(key) {
        let (zone, client_id) = (session.state.zone(), session.state.client_id());
        core.past.departures.note(now, zone, client_id, reason);
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use stentor_session::{Limit, Remote};

    use super::*;

    const SLOW: CloseReason = CloseReason::Limit(Limit::QueueBytes);

    #[test]
    fn the_last_ones_are_remembered() {
        let mut departures = Departures::default();
        let zone = Zone::DEFAULT;
        for number in 0..=REMEMBERED_MAX as u32 {
            let client_id = format!("c{number}");
            let at = Tick::from_secs(u64::from(number));
            departures.note(at, zone, &client_id, SLOW);
        }
        assert_eq!(departures.0.len(), REMEMBERED_MAX);
        assert_eq!(departures.of(zone, "c0"), None, "the oldest gives way");
        let last = Some((Tick::from_secs(64), SLOW));
        assert_eq!(departures.of(zone, "c64"), last);
        assert_eq!(departures.of(Zone(7), "c64"), None);
    }

    #[test]
    fn who_goes_by_itself_and_long_names_are_not_remembered() {
        let mut departures = Departures::default();
        let zone = Zone::DEFAULT;
        for reason in [
            CloseReason::Remote(Remote::Closed),
            CloseReason::Local(Local::TakenOver),
        ] {
            departures.note(Tick::ZERO, zone, "a", reason);
        }
        let long = "x".repeat(CLIENT_ID_BYTES_MAX + 1);
        departures.note(Tick::ZERO, zone, &long, SLOW);
        assert!(departures.0.is_empty());
    }
}
