//! Points in time for people, in UTC, without a library for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, taken apart. Always UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    since_epoch: Duration,
    year: u64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
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

    /// The calendar date by counting days in years that begin in March, so that the leap day comes
    /// last.
    pub(crate) fn new(since_epoch: Duration) -> Self {
        let days = since_epoch.as_secs() / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self {
            since_epoch,
            year,
            month,
            day,
        }
    }

    const fn second_of_day(&self) -> u64 {
        self.since_epoch.as_secs() % 86_400
    }

    fn date(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    fn clock(&self) -> String {
        let second = self.second_of_day();
        format!(
            "{:02}:{:02}:{:02}",
            second / 3_600,
            second / 60 % 60,
            second % 60
        )
    }

    /// `2016-08-10T09:47:38+0000`.
    pub(crate) fn iso(&self) -> String {
        format!("{}T{}+0000", self.date(), self.clock())
    }

    /// `2020-05-06T22:12:00.000000+0000`.
    pub(crate) fn iso_micros(&self) -> String {
        let micros = self.since_epoch.subsec_micros();
        format!("{}T{}.{micros:06}+0000", self.date(), self.clock())
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
        let second = self.second_of_day();
        Some(match conversion {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", second / 3_600),
            'M' => format!("{:02}", second / 60 % 60),
            'S' => format!("{:02}", second % 60),
            'F' => self.date(),
            'T' | 'X' => self.clock(),
            'R' => format!("{:02}:{:02}", second / 3_600, second / 60 % 60),
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
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00+0000"),
            (951_782_399, "2000-02-28T23:59:59+0000"),
            (951_782_400, "2000-02-29T00:00:00+0000"),
            (1_470_818_858, "2016-08-10T08:47:38+0000"),
            (1_735_689_599, "2024-12-31T23:59:59+0000"),
            (4_107_542_400, "2100-03-01T00:00:00+0000"),
        ];
        for (secs, text) in cases {
            assert_eq!(Time::new(Duration::from_secs(secs)).iso(), text);
        }
        let time = Time::new(Duration::new(1_470_818_943, 786_368_637));
        assert_eq!(time.unix(), "1470818943.786368637");
        assert_eq!(time.strftime('T').as_deref(), Some("08:49:03"));
        assert_eq!(time.strftime('q'), None);
    }
}
