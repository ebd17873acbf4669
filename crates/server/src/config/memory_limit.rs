//! How much memory clients may make the server hold.

use super::units;
use super::value::{Setting, Value};

/// A bound in bytes, or as a part of what the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// There is no bound.
    Off,
    /// This many bytes.
    Bytes(u64),
    /// This many hundredths of the machine's memory, or of what its control group may use, if that
    /// is less.
    Percent(u8),
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl MemoryLimit {
    /// A server with less could not even hold what it needs for itself.
    const BYTES_MIN: u64 = 4 << 20;

    /// Reads `50%`, `2GiB`, or `0` for none.
    ///
    /// # Errors
    /// The reason, in words that follow the offending value.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.trim().parse::<u8>() {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => Err("a percentage is from 1% to 100%".to_owned()),
            };
        }
        match units::parse_size(text)? {
            0 => Ok(Self::Off),
            bytes if bytes < Self::BYTES_MIN => Err("the value is too small".to_owned()),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }
}

impl Setting for MemoryLimit {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::parse(&text).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_parts_are_read() {
        for (text, limit) in [
            ("50%", MemoryLimit::Percent(50)),
            ("100 %", MemoryLimit::Percent(100)),
            ("2GiB", MemoryLimit::Bytes(2 << 30)),
            ("0", MemoryLimit::Off),
        ] {
            assert_eq!(MemoryLimit::parse(text), Ok(limit), "{text}");
        }
        for text in ["", "0%", "101%", "half", "1KiB", "-1", "50.5%"] {
            assert!(MemoryLimit::parse(text).is_err(), "{text}");
        }
    }
}
