//! Texts that nobody is to read by accident.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A password or a token. It is not shown by `Debug`, and it is wiped when it is dropped.
#[derive(Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Secret(#[schemars(with = "String")] Zeroizing<String>);

impl Secret {
    /// The text itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// What is not a text is refused without showing it.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer);
        let reason = "a password has to be a text";
        text.map(Self::from)
            .map_err(|_| serde::de::Error::custom(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_to_nobody_by_accident() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").expect("a text");
        assert_eq!(secret.reveal(), "hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        let error = serde_json::from_str::<Secret>("7261").expect_err("not a text");
        assert!(!error.to_string().contains("7261"), "{error}");
    }
}
