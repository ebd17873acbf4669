//! A text that no log line may show.

use std::fmt;

use super::value::{Setting, Value};

/// A secret text: its `Debug` form does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Setting for Secret {
    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(Self)
    }
}
