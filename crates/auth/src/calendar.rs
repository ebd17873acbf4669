//! Points in time as people write them, in UTC.

use std::fmt;

/// Seconds of a day; UTC has no others here, as in Unix time.
const DAY_SECS: u64 = 86_400;

/// A second, taken apart into the parts of a date and a clock, in UTC. Shown as
/// `2026-11-21T08:15:30Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    /// The year, from 1970.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59.
    pub second: u64,
}

impl Utc {
    /// From the seconds since 1970.
    #[must_use]
    pub const fn new(secs: u64) -> Self {
        let (days, rest) = (secs / DAY_SECS, secs % DAY_SECS);
        // Days are counted in eras of 400 years, from the first of March of the year 0, so that the
        // leap day is the last one of a year.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        Self {
            year: year_of_era + era * 400 + (month <= 2) as u64,
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// `2026-11-21`.
    #[must_use]
    pub fn date(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// `08:15:30`.
    #[must_use]
    pub fn clock(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}Z", self.date(), self.clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_470_818_858, "2016-08-10T08:47:38Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_249_530, "2026-11-21T08:25:30Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Utc::new(secs).to_string(), text);
        }
    }
}
