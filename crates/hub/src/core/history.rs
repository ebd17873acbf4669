//! The history of a topic: which messages of it are kept besides the last one, and which of them a
//! subscriber asks for.

use core::time::Duration;

use stentor_topic::Zone;

/// The user property of a SUBSCRIBE that asks for the history of topics.
pub(crate) const HISTORY: &str = "history";
/// The user property of the message behind them.
pub(crate) const HISTORY_END: &str = "history-end";

/// The most messages of a topic that somebody may ask for.
const LAST_MAX: u64 = 1_000_000;
/// The first second that a date of four digits cannot name: that of the year 10000.
const SECONDS_END: u64 = 253_402_300_800;

/// How much of a topic's history is kept. What is beyond a bound goes, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Messages of a topic; one at least.
    pub messages: u32,
    /// How long a message is kept; zero for no bound.
    pub age: Duration,
    /// Bytes of the messages of a topic: topic, properties and payload of each. The newest message
    /// is kept whatever it has.
    pub bytes: u64,
}

impl Default for HistoryBounds {
    fn default() -> Self {
        Self {
            messages: 100,
            age: Duration::ZERO,
            bytes: 1 << 20,
        }
    }
}

/// Which messages of a topic's history somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryAsk {
    /// Those with the last numbers: this many.
    Last(u64),
    /// Those that the server received then or later, in milliseconds since 1970.
    Since(u64),
    /// Those with a higher number.
    After(u64),
}

/// A `history` that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHistoryAsk;

impl NoHistoryAsk {
    /// What is said of it.
    pub const TEXT: &'static str = "history is last:N with N from 1 to 1000000, since:TIME with a \
         time like 2026-01-31T12:00:00Z or seconds since 1970, or after:NUMBER";
}

impl HistoryAsk {
    /// All of it.
    pub const ALL: Self = Self::After(0);

    /// Reads `last:N`, `since:TIME` or `after:NUMBER`. A time is one of RFC 3339, or seconds since
    /// 1970, both perhaps with a fraction.
    ///
    /// # Errors
    /// When it is none of these, or out of range.
    pub fn parse(text: &str) -> Result<Self, NoHistoryAsk> {
        let (kind, value) = text.split_once(':').ok_or(NoHistoryAsk)?;
        let ask = match kind {
            "last" => number(value)
                .filter(|it| (1..=LAST_MAX).contains(it))
                .map(Self::Last),
            "since" => time_ms(value).map(Self::Since),
            "after" => number(value).map(Self::After),
            _ => None,
        };
        ask.ok_or(NoHistoryAsk)
    }
}

/// A question about the histories of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery<'a> {
    /// The zone of the topics.
    pub zone: Zone,
    /// A topic, or a filter with wildcards.
    pub filter: &'a str,
    /// Which messages of each topic.
    pub ask: HistoryAsk,
}

/// A whole number in digits.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A moment, in milliseconds since 1970: one of RFC 3339, or seconds.
fn time_ms(text: &str) -> Option<u64> {
    let is_seconds = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_seconds {
        return date_ms(text);
    }
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, millis(fraction)?),
        None => (text, 0),
    };
    let seconds = number(whole).filter(|it| *it < SECONDS_END)?;
    Some(seconds * 1_000 + fraction)
}

/// Milliseconds, from the digits behind a point.
fn millis(digits: &str) -> Option<u64> {
    const NANOS: usize = 9;
    if digits.len() > NANOS {
        return None;
    }
    let value = number(digits)?;
    let scale = 10_u64.pow(digits.len() as u32);
    Some(value * 1_000 / scale)
}

/// A date and time of RFC 3339, `2026-01-31T12:00:00.5+01:00`, from 1970 on.
fn date_ms(text: &str) -> Option<u64> {
    const SECOND_END: usize = 19;
    let bytes = text.as_bytes();
    let punctuation = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_there = |&(at, byte): &(usize, u8)| bytes.get(at) == Some(&byte);
    let separates = matches!(bytes.get(10), Some(b'T' | b't' | b' '));
    if !separates || !punctuation.iter().all(is_there) {
        return None;
    }
    let part = |from: usize, to: usize| text.get(from..to).and_then(number);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, SECOND_END)?);
    // A leap second counts as the first one of the next minute.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !is_time || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let rest = text.get(SECOND_END..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|it: char| !it.is_ascii_digit())?;
            (millis(&rest[..end])?, &rest[end..])
        }
        None => (0, rest),
    };
    let of_day = hour * 3_600 + minute * 60 + second;
    let seconds = days_since_1970(year, month, day)? * 86_400 + of_day;
    let seconds = i64::try_from(seconds).ok()? - offset_seconds(zone)?;
    let seconds = u64::try_from(seconds).ok()?;
    Some(seconds * 1_000 + fraction)
}

/// How far the clock of a place is ahead of UTC: `Z`, `+01:00` or `+0100`.
fn offset_seconds(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        // As `date` and mosquitto's clients write it.
        None => rest.split_at_checked(2)?,
    };
    let two = |text: &str| number(text).filter(|_| text.len() == 2);
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let seconds = hours * 3_600 + minutes * 60;
    let is_offset = hours < 24 && minutes < 60;
    i64::try_from(seconds)
        .ok()
        .filter(|_| is_offset)
        .map(|seconds| sign * seconds)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the first of 1970 to a date; `None` for an earlier one.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap_years = |year: u64| {
        let before = year - 1;
        before / 4 - before / 100 + before / 400
    };
    let years = year.checked_sub(1970)?;
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    Some(years * 365 + leap_years(year) - leap_years(1970) + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_subscriber_asks_for_is_read() {
        for (text, ask) in [
            ("last:1", HistoryAsk::Last(1)),
            ("last:1000000", HistoryAsk::Last(1_000_000)),
            ("after:0", HistoryAsk::After(0)),
            ("after:18446744073709551615", HistoryAsk::After(u64::MAX)),
            ("since:0", HistoryAsk::Since(0)),
            ("since:1.5", HistoryAsk::Since(1_500)),
            ("since:1970-01-01T00:00:00Z", HistoryAsk::Since(0)),
            ("since:1970-01-01T01:00:00+01:00", HistoryAsk::Since(0)),
            ("since:1970-01-01T01:00:00+0100", HistoryAsk::Since(0)),
            (
                "since:1970-01-01T00:00:00-00:30",
                HistoryAsk::Since(1_800_000),
            ),
            (
                "since:2000-02-29T12:00:00Z",
                HistoryAsk::Since(951_825_600_000),
            ),
            (
                "since:2000-03-01 00:00:00z",
                HistoryAsk::Since(951_868_800_000),
            ),
            (
                "since:2026-01-31T12:00:00.25Z",
                HistoryAsk::Since(1_769_860_800_250),
            ),
            ("since:1769860800", HistoryAsk::Since(1_769_860_800_000)),
            (
                "since:9999-12-31T23:59:60Z",
                HistoryAsk::Since(253_402_300_800_000),
            ),
        ] {
            assert_eq!(HistoryAsk::parse(text), Ok(ask), "{text}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "last",
            "last:",
            "last:0",
            "last:1000001",
            "last:-1",
            "last:+1",
            "last: 1",
            "last:1.5",
            "after:18446744073709551616",
            "after:x",
            "before:1",
            "since:",
            "since:.",
            "since:1.",
            "since:1.0000000000",
            "since:-1",
            "since:253402300800",
            "since:yesterday",
            "since:1969-12-31T23:59:59Z",
            "since:1970-01-01T00:00:00+00:01",
            "since:1970-01-01",
            "since:1970-01-01T00:00:00",
            "since:1970-01-01T00:00Z",
            "since:1970-1-01T00:00:00Z",
            "since:1970-00-01T00:00:00Z",
            "since:1970-13-01T00:00:00Z",
            "since:1900-02-29T00:00:00Z",
            "since:2001-02-29T00:00:00Z",
            "since:2001-04-31T00:00:00Z",
            "since:2001-04-30T24:00:00Z",
            "since:2001-04-30T23:60:00Z",
            "since:2001-04-30T23:59:61Z",
            "since:2001-04-30T23:59:59.Z",
            "since:2001-04-30T23:59:59.5",
            "since:2001-04-30T23:59:59+1:00",
            "since:2001-04-30T23:59:59+100",
            "since:2001-04-30T23:59:59+24:00",
            "since:2001-04-30T23:59:59+01:60",
            "since:2001-04-30T23:59:59Zé",
            "since:2001-04-3é0T23:59:59Z",
        ] {
            assert_eq!(HistoryAsk::parse(text), Err(NoHistoryAsk), "{text}");
        }
    }
}
