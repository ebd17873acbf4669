//! The rules that a topic name and a topic filter must follow.

use thiserror::Error;

use crate::word::contains_any;

/// Length limit of topic names and filters, in bytes of UTF-8 [MQTT-4.7.3-3].
pub const TOPIC_BYTES_MAX: usize = 65_535;

/// Why a topic name is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The name has no character [MQTT-4.7.3-1].
    #[error("the topic name is empty")]
    Empty,
    /// The name is longer than [`TOPIC_BYTES_MAX`] [MQTT-4.7.3-3].
    #[error("the topic name is longer than 65,535 bytes")]
    TooLong,
    /// The name contains U+0000 [MQTT-4.7.3-2].
    #[error("the topic name contains a NUL character")]
    Nul,
    /// The name contains `+` or `#` [MQTT-3.3.2-2] [MQTT-4.7.0-1] (3.1.1: [MQTT-4.7.1-1]).
    #[error("the topic name contains a wildcard")]
    Wildcard,
}

/// Why a topic filter is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub enum FilterError {
    /// The filter has no character [MQTT-4.7.3-1].
    Empty,
    /// The filter is longer than [`TOPIC_BYTES_MAX`] [MQTT-4.7.3-3].
    TooLong,
    /// The filter contains U+0000 [MQTT-4.7.3-2].
    Nul,
    /// `+` does not occupy a whole level [MQTT-4.7.1-2] (3.1.1: [MQTT-4.7.1-3]).
    PartialLevelPlus,
    /// `#` does not occupy a whole level [MQTT-4.7.1-1] (3.1.1: [MQTT-4.7.1-2]).
    PartialLevelHash,
    /// `#` is not the last character [MQTT-4.7.1-1] (3.1.1: [MQTT-4.7.1-2]).
    HashNotLast,
    /// `$share/` is not followed by a share name of at least one character [MQTT-4.8.2-1].
    ShareNameEmpty,
    /// The share name contains `+` or `#` [MQTT-4.8.2-2].
    ShareNameWildcard,
    /// The share name is not followed by `/` and a topic filter [MQTT-4.8.2-2].
    ShareFilterMissing,
}

impl FilterError {
    /// What is wrong, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "the topic filter is empty",
            Self::TooLong => "the topic filter is longer than 65,535 bytes",
            Self::Nul => "the topic filter contains a NUL character",
            Self::PartialLevelPlus => "`+` in a topic filter must occupy a whole level",
            Self::PartialLevelHash => "`#` in a topic filter must occupy a whole level",
            Self::HashNotLast => "`#` in a topic filter must be the last level",
            Self::ShareNameEmpty => "the share name of a shared subscription is empty",
            Self::ShareNameWildcard => {
                "the share name of a shared subscription contains a wildcard"
            }
            Self::ShareFilterMissing => "a shared subscription lacks its topic filter",
        }
    }
}

/// What neither a name nor a plain filter contains.
const SPECIAL: [u8; 3] = [0, b'+', b'#'];

/// Checks a topic name as a PUBLISH or a will carries it.
///
/// Cost: one pass over the bytes; this is on the path of every publish.
///
/// # Errors
/// The first rule that the name breaks, see [`NameError`].
pub fn validate_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > TOPIC_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if !contains_any(name.as_bytes(), SPECIAL) {
        return Ok(());
    }
    Err(if name.contains('\0') {
        NameError::Nul
    } else {
        NameError::Wildcard
    })
}

/// Checks a topic filter, without regard to `$share/` (see [`Subscription::parse`]).
///
/// Cost: one pass over the bytes, a second one only where there are wildcards.
///
/// # Errors
/// The first rule that the filter breaks, see [`FilterError`].
///
/// [`Subscription::parse`]: crate::Subscription::parse
pub fn validate_filter(filter: &str) -> Result<(), FilterError> {
    if filter.is_empty() {
        return Err(FilterError::Empty);
    }
    if filter.len() > TOPIC_BYTES_MAX {
        return Err(FilterError::TooLong);
    }
    if !contains_any(filter.as_bytes(), SPECIAL) {
        return Ok(());
    }
    let bytes = filter.as_bytes();
    // A wildcard is looked at together with its neighbours, which must be separators or the ends.
    for (at, &byte) in bytes.iter().enumerate() {
        let fills_level = || {
            let starts = at == 0 || bytes[at - 1] == b'/';
            let ends = bytes.get(at + 1).is_none_or(|&next| next == b'/');
            starts && ends
        };
        match byte {
            0 => return Err(FilterError::Nul),
            b'+' if !fills_level() => return Err(FilterError::PartialLevelPlus),
            b'#' if !fills_level() => return Err(FilterError::PartialLevelHash),
            b'#' if at + 1 != bytes.len() => return Err(FilterError::HashNotLast),
            _ => {}
        }
    }
    Ok(())
}
