//! The login name that a command is about.

use clap::Args;

use crate::failure::Failure;

/// A user, and perhaps its zone apart.
#[derive(Debug, Args)]
pub(super) struct Login {
    /// Login name: NAME or ZONE/NAME
    name: String,
    /// Zone of the user, if its name does not say it
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
}

impl Login {
    /// As two arguments of a command say it.
    pub(super) const fn new(name: String, zone: Option<String>) -> Self {
        Self { name, zone }
    }

    /// `NAME`, or `ZONE/NAME` where a zone is given.
    pub(super) fn full(self) -> Result<String, Failure> {
        let Some(zone) = self.zone else {
            return Ok(self.name);
        };
        match self.name.split_once('/') {
            None => Ok(format!("{zone}/{}", self.name)),
            Some((said, _)) if said == zone => Ok(self.name),
            Some((said, _)) => Err(Failure::usage(format!(
                "{} is in the zone {said}, and --zone says {zone}: leave one of them out",
                self.name
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_said_once_or_twice_the_same() {
        let full = |name: &str, zone: Option<&str>| {
            let (name, zone) = (name.to_owned(), zone.map(str::to_owned));
            Login { name, zone }
                .full()
                .map_err(|failure| failure.message().to_owned())
        };
        assert_eq!(full("bob", None).as_deref(), Ok("bob"));
        assert_eq!(full("bob", Some("game")).as_deref(), Ok("game/bob"));
        assert_eq!(full("game/bob", Some("game")).as_deref(), Ok("game/bob"));
        assert!(full("shop/bob", Some("game")).is_err());
    }
}
