//! Points in time in the forms that `-F` knows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stentor_auth::calendar::Utc;

/// A point in time. Always UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    since_epoch: Duration,
    utc: Utc,
}

impl Time {
    pub(crate) fn now() -> Self {
        // A clock before 1970 is not worth an error.
        Self::new(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        )
    }

    pub(crate) const fn new(since_epoch: Duration) -> Self {
        Self {
            since_epoch,
            utc: Utc::new(since_epoch.as_secs()),
        }
    }

    /// `2016-08-10T09:47:38+0000`.
    pub(crate) fn iso(&self) -> String {
        format!("{}T{}+0000", self.utc.date(), self.utc.clock())
    }

    /// `2020-05-06T22:12:00.000000+0000`.
    pub(crate) fn iso_micros(&self) -> String {
        let micros = self.since_epoch.subsec_micros();
        format!("{}T{}.{micros:06}+0000", self.utc.date(), self.utc.clock())
    }

    /// `1470818943.786368637`.
    pub(crate) fn unix(&self) -> String {
        format!(
            "{}.{:09}",
            self.since_epoch.as_secs(),
            self.since_epoch.subsec_nanos()
        )
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_millis(&self) -> u64 {
        u64::try_from(self.since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    /// What `strftime` makes of one conversion, for the numeric ones; nothing for the others.
    pub(crate) fn strftime(&self, conversion: char) -> Option<String> {
        let utc = &self.utc;
        Some(match conversion {
            'Y' => utc.year.to_string(),
            'y' => format!("{:02}", utc.year % 100),
            'm' => format!("{:02}", utc.month),
            'd' => format!("{:02}", utc.day),
            'e' => format!("{:2}", utc.day),
            'H' => format!("{:02}", utc.hour),
            'M' => format!("{:02}", utc.minute),
            'S' => format!("{:02}", utc.second),
            'F' => utc.date(),
            'T' | 'X' => utc.clock(),
            'R' => format!("{:02}:{:02}", utc.hour, utc.minute),
            's' => self.since_epoch.as_secs().to_string(),
            'N' => format!("{:09}", self.since_epoch.subsec_nanos()),
            'z' => "+0000".into(),
            'Z' => "UTC".into(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_forms_of_mosquitto() {
        let time = Time::new(Duration::from_secs(951_782_400));
        assert_eq!(time.iso(), "2000-02-29T00:00:00+0000");
        let time = Time::new(Duration::new(1_470_818_943, 786_368_637));
        assert_eq!(time.unix(), "1470818943.786368637");
        assert_eq!(time.strftime('T').as_deref(), Some("08:49:03"));
        assert_eq!(time.strftime('q'), None);
    }
}
