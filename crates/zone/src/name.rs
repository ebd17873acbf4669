//! Names of users and rooms as one level of a topic.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

/// Length limit of a room's or a property's name, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 255;

/// Length limit of a user's name as [`encode_name`] writes it: each byte takes three at most.
pub const LEVEL_BYTES_MAX: usize = 3 * NAME_BYTES_MAX;

/// Why something cannot have this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It has no character.
    #[error("a name needs at least one character")]
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`].
    #[error("a name has at most 255 bytes")]
    TooLong,
    /// It contains a character that means something in topics, or a control character.
    #[error("a name must not contain / + # $ or control characters")]
    Reserved,
}

/// Checks the name of a room or a property.
///
/// # Errors
/// The first rule that the name breaks.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if name.chars().any(|c| is_special(c) || c.is_control()) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

const fn is_special(c: char) -> bool {
    matches!(c, '/' | '+' | '#' | '$')
}

/// A user's name as one level of a topic. Users of existing systems may have names with characters
/// that mean something in topics: those, `%`, and control characters stand percent-encoded.
#[must_use]
pub fn encode_name(name: &str) -> Cow<'_, str> {
    let escape = |c: char| is_special(c) || c == '%' || c.is_control();
    if !name.contains(escape) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() + 8);
    let mut buffer = [0; 4];
    for c in name.chars() {
        if escape(c) {
            for byte in c.encode_utf8(&mut buffer).bytes() {
                encoded.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    encoded.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
                }
            }
        } else {
            encoded.push(c);
        }
    }
    Cow::Owned(encoded)
}

/// The name that a level of a topic stands for: the inverse of [`encode_name`]. `None` for a `%`
/// that two hexadecimal digits do not follow, and for bytes that are not UTF-8. O(length): what
/// clients send is compared with [`LEVEL_BYTES_MAX`] before.
#[must_use]
pub fn decode_name(level: &str) -> Option<Cow<'_, str>> {
    if !level.contains('%') {
        return Some(Cow::Borrowed(level));
    }
    let mut decoded = Vec::with_capacity(level.len());
    let mut rest = level.as_bytes();
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => (digit(*high)? << 4 | digit(*low)?, behind),
            (b'%', _) => return None,
            _ => (*first, behind),
        };
        decoded.push(byte);
        rest = behind;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// What a hexadecimal digit stands for.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_through_a_topic() {
        for (name, level) in [
            ("ann", "ann"),
            ("ann@example.org", "ann@example.org"),
            ("a/b", "a%2fb"),
            ("100%", "100%25"),
            ("$+#", "%24%2b%23"),
            ("a\u{80}b", "a%c2%80b"),
            ("用戶", "用戶"),
        ] {
            assert_eq!(encode_name(name), level);
            assert_eq!(decode_name(level).as_deref(), Some(name));
        }
        assert_eq!(decode_name("%41%2F").as_deref(), Some("A/"));
        for broken in ["%", "%4", "%zz", "a%2", "%ff", "%+1"] {
            assert_eq!(decode_name(broken), None, "{broken}");
        }
    }

    #[test]
    fn rooms_are_one_level() {
        assert_eq!(check_name("lobby 1"), Ok(()));
        assert_eq!(check_name(""), Err(NameError::Empty));
        assert_eq!(check_name(&"x".repeat(256)), Err(NameError::TooLong));
        for name in ["a/b", "+", "#", "$x", "a\n", "\0"] {
            assert_eq!(check_name(name), Err(NameError::Reserved), "{name:?}");
        }
    }
}
