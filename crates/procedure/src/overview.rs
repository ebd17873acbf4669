//! What `/status` shows: since when the server runs, and what each procedure did.

use std::time::Instant;

use serde::Serialize;

use crate::statistics::{Figures, table};

const MINUTE_SECS: u64 = 60;
const HOUR_SECS: u64 = 60 * MINUTE_SECS;
const DAY_SECS: u64 = 24 * HOUR_SECS;

/// When the server was started.
#[derive(Clone, Debug)]
pub struct Since {
    /// The time of the wall clock, as people write it.
    pub text: String,
    /// The same in seconds since 1970.
    pub secs: u64,
    /// From where the uptime counts.
    pub origin: Instant,
}

/// Now, for a trial without a server; the wall clock is not asked.
impl Default for Since {
    fn default() -> Self {
        Self {
            text: String::new(),
            secs: 0,
            origin: Instant::now(),
        }
    }
}

/// What `/status` shows.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Overview {
    since: String,
    since_secs: u64,
    uptime_secs: u64,
    procedures: Vec<Figures>,
}

impl Overview {
    pub(crate) fn new(since: &Since, procedures: Vec<Figures>) -> Self {
        Self {
            since: since.text.clone(),
            since_secs: since.secs,
            uptime_secs: since.origin.elapsed().as_secs(),
            procedures,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let (since, up) = (&self.since, span(self.uptime_secs));
        format!("up for {up}, since {since}\n\n{}", table(&self.procedures))
    }

    /// For programs: a line.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Plain numbers and texts always have a JSON form.
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}

/// Seconds as people say them: `3 days 04:05:06`.
#[must_use]
pub fn span(secs: u64) -> String {
    let (days, rest) = (secs / DAY_SECS, secs % DAY_SECS);
    let (hours, rest) = (rest / HOUR_SECS, rest % HOUR_SECS);
    let clock = format!(
        "{hours:02}:{:02}:{:02}",
        rest / MINUTE_SECS,
        rest % MINUTE_SECS
    );
    match days {
        0 => clock,
        1 => format!("1 day {clock}"),
        _ => format!("{days} days {clock}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_span_of_time_is_said_in_days_and_a_clock() {
        for (secs, text) in [
            (0, "00:00:00"),
            (59, "00:00:59"),
            (3_661, "01:01:01"),
            (86_399, "23:59:59"),
            (86_400, "1 day 00:00:00"),
            (273_906, "3 days 04:05:06"),
        ] {
            assert_eq!(span(secs), text);
        }
    }

    #[test]
    fn both_forms_say_since_when() {
        let ago = Duration::from_secs(3_700);
        let since = Since {
            text: "2026-11-28T08:00:00Z".to_owned(),
            secs: 1_796_803_200,
            origin: Instant::now()
                .checked_sub(ago)
                .expect("a machine that is up"),
        };
        let overview = Overview::new(&since, vec![Figures::absent("a", "why")]);
        let text = overview.text();
        let first = "up for 01:01:40, since 2026-11-28T08:00:00Z\n\nprocedure";
        assert!(text.starts_with(first), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&overview.json()).unwrap();
        assert_eq!(json["since"], "2026-11-28T08:00:00Z");
        assert_eq!(json["since_secs"], 1_796_803_200);
        assert_eq!(json["uptime_secs"], 3_700);
        assert_eq!(json["procedures"][0]["problem"], "why");
    }
}
