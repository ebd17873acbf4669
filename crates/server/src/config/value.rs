//! Values: as they are given, as their kind reads them, and as the typed settings take them.

use std::path::PathBuf;
use std::time::Duration;

use super::problem::Origin;
use super::url::ListenUrl;

/// A value as it was written, before its key is consulted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// Text of an environment variable or a flag: any type may be written in it.
    Words(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Flag(bool),
    /// A TOML array.
    List(Vec<Self>),
    /// A TOML number that no key takes: with a fraction, or larger than any bound.
    Number(String),
    /// Any other TOML type, which no key takes.
    Other(&'static str),
}

impl Raw {
    /// The value as it is quoted in a message, shortened.
    pub(super) fn show(&self) -> String {
        match self {
            Self::Words(text) | Self::Text(text) => format!("{:?}", beginning(text)),
            Self::Number(text) => beginning(text),
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(_) => "[…]".to_owned(),
            Self::Other(name) => format!("({name})"),
        }
    }
}

/// A text, or its beginning with a sign that it goes on.
fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A raw value and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// A value that its kind has read and found in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Unset,
    Flag(bool),
    Number(u64),
    Duration(Duration),
    Text(String),
    List(Vec<String>),
    Url(ListenUrl),
}

/// A type that a field of a section may have.
///
/// `None` says that the field's type does not fit its kind, which is a mistake in the table; a
/// test goes through the whole table, so it cannot happen to a user.
pub(super) trait Setting: Default {
    fn from_value(value: Value) -> Option<Self>;
}

impl Setting for bool {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

macro_rules! number_settings {
    ($($type:ty)+) => {$(
        impl Setting for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Number(number) => Self::try_from(number).ok(),
                    _ => None,
                }
            }
        }
    )+};
}

number_settings!(u8 u16 u32 u64);

impl Setting for Duration {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Duration(duration) => Some(duration),
            _ => None,
        }
    }
}

impl Setting for String {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Setting for PathBuf {
    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(Self::from)
    }
}

impl Setting for Vec<String> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }
}

impl Setting for ListenUrl {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Url(url) => Some(url),
            _ => None,
        }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Unset => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
