//! Zones: isolated applications.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{NameError, check_name};

/// A zone, with the bounds that hold for all its users together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneRecord {
    /// The name.
    pub name: Arc<str>,
    /// Connections of all its users at the same time; `None` for no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

/// Why a zone is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ZoneError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl ZoneRecord {
    /// A zone without bounds.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            connections: None,
        }
    }

    /// Checks the name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ZoneError> {
        Ok(check_name(&self.name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_a_name_that_fits_into_a_login() {
        assert_eq!(ZoneRecord::new("game").check(), Ok(()));
        assert!(ZoneRecord::new("game/1").check().is_err());
    }
}
