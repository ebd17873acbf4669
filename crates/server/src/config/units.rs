//! Sizes and durations as people write them: `2MiB`, `1h30m`.

use std::time::Duration;

const SIZES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

const DURATIONS: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Reads a number of bytes: `512`, `64KiB`, `2 MiB`, `1_000_000`, `5MB`.
///
/// # Errors
/// The reason, in words that follow the offending value.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split_number(text)?;
    if unit.is_empty() {
        return Ok(number);
    }
    let factor = SIZES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let Some((_, factor)) = factor else {
        return Err(format!(
            "\"{unit}\" is not a unit of size; use B, KiB, MiB, GiB, TiB, kB, MB, GB or TB"
        ));
    };
    number
        .checked_mul(*factor)
        .ok_or_else(|| "the number is too large".to_owned())
}

/// Reads a duration: `30s`, `500 ms`, `1h30m`. A bare `0` is zero; any other bare number is
/// refused, since nothing says what it counts.
///
/// # Errors
/// The reason, in words that follow the offending value.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut nanos = 0_u64;
    loop {
        let (number, after) = split_number(rest)?;
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, tail) = after.split_at(end);
        if unit.is_empty() && tail.starts_with(['.', ',']) {
            let reason = "only whole numbers are taken; use a smaller unit, as in 1500us for 1.5ms";
            return Err(reason.to_owned());
        }
        if unit.is_empty() {
            return Err("the unit is missing (us, ms, s, m, h, d)".to_owned());
        }
        let Some((_, factor)) = DURATIONS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "\"{unit}\" is not a unit of time; use us, ms, s, m, h or d"
            ));
        };
        let part = number.checked_mul(*factor);
        let sum = part.and_then(|part| nanos.checked_add(part));
        nanos = sum.ok_or_else(|| "the number is too large".to_owned())?;
        rest = tail.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_nanos(nanos));
        }
    }
}

/// Splits `12 MiB` into 12 and `MiB`.
fn split_number(text: &str) -> Result<(u64, &str), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = parse_count(digits)?;
    Ok((number, rest.trim_start()))
}

/// Reads a whole number; underscores between digits are ignored.
///
/// # Errors
/// The reason, in words that follow the offending value.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("this is not a whole number".to_owned());
    }
    digits
        .parse()
        .map_err(|_| "the number is too large".to_owned())
}

/// Writes a number of bytes with the largest unit that divides it.
pub(super) fn show_size(bytes: u64) -> String {
    let unit = SIZES.iter().find(|(name, factor)| {
        bytes != 0 && bytes.is_multiple_of(*factor) && (name.ends_with("iB") || *name == "B")
    });
    match unit {
        Some((name, factor)) if *factor > 1 => format!("{}{name}", bytes / factor),
        _ => bytes.to_string(),
    }
}

/// Writes a duration with the largest units that fit, for example `18h12m15s`.
pub(super) fn show_duration(duration: Duration) -> String {
    if duration == Duration::MAX {
        return "never".to_owned();
    }
    let mut nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, factor) in DURATIONS {
        let count = nanos / factor;
        nanos %= factor;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1KiB", 1024),
            ("2 MiB", 2 << 20),
            ("1mib", 1 << 20),
            ("5MB", 5_000_000),
            ("1_000", 1000),
            ("3GiB", 3 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5MiB",
            "3 parsecs",
            "99999999999999999999",
            "99999999999GiB",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_and_shown() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("30 s", 30_000),
            ("1h30m", 5_400_000),
            ("18h12m15s", 65_535_000),
            ("7d", 604_800_000),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(text), Ok(duration), "{text}");
            assert_eq!(
                parse_duration(&show_duration(duration)),
                Ok(duration),
                "{text}"
            );
        }
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "3 fortnights",
            "1h 5",
            "99999999999d",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
