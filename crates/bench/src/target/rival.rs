//! Other brokers that are started for the purpose, tuned for the load or as they come.

use serde_json::{Value, json};

use super::{Needs, Running, Transport, launch, mochi, mosquitto, rumqttd};
use crate::error::BenchError;

/// Whose broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broker {
    Mosquitto,
    Rumqttd,
    Mochi,
}

/// How it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuning {
    /// Limits that the load would meet are raised, logs are off.
    Tuned,
    /// As it comes: a listener, anonymous clients, and what it does not start without.
    Defaults,
}

/// A broker and how it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    broker: Broker,
    tuning: Tuning,
}

/// The names that `--against` knows.
pub(super) const NAMES: &str = "mosquitto, mosquitto-defaults, rumqttd, rumqttd-defaults, mochi";

impl Rival {
    /// Reads a name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (broker, tuning) = match name {
            "mosquitto" => (Broker::Mosquitto, Tuning::Tuned),
            "mosquitto-defaults" => (Broker::Mosquitto, Tuning::Defaults),
            "rumqttd" => (Broker::Rumqttd, Tuning::Tuned),
            "rumqttd-defaults" => (Broker::Rumqttd, Tuning::Defaults),
            // It has no options for its limits.
            "mochi" => (Broker::Mochi, Tuning::Defaults),
            _ => return None,
        };
        Some(Self { broker, tuning })
    }

    /// As `--against` and tables have it.
    pub(super) const fn name(self) -> &'static str {
        match (self.broker, self.tuning) {
            (Broker::Mosquitto, Tuning::Tuned) => "mosquitto",
            (Broker::Mosquitto, Tuning::Defaults) => "mosquitto-defaults",
            (Broker::Rumqttd, Tuning::Tuned) => "rumqttd",
            (Broker::Rumqttd, Tuning::Defaults) => "rumqttd-defaults",
            (Broker::Mochi, _) => "mochi",
        }
    }

    const fn program(self) -> &'static str {
        match self.broker {
            Broker::Mosquitto => "mosquitto",
            Broker::Rumqttd => "rumqttd",
            Broker::Mochi => "mochi",
        }
    }

    /// How it is started, for `--explain`.
    pub(super) fn explain(self) -> String {
        let how = match self.tuning {
            Tuning::Tuned => "limits raised for the load, no logs",
            Tuning::Defaults => "as it comes",
        };
        format!("{} from the PATH or ~/.cargo/bin, {how}", self.program())
    }

    /// Its version and whole configuration; port 0 stands for a free one.
    pub(super) fn identity(self, needs: &Needs) -> Value {
        let flag = match self.broker {
            Broker::Mosquitto => "-h",
            Broker::Rumqttd | Broker::Mochi => "--version",
        };
        let version = match self.broker {
            // It does not say.
            Broker::Mochi => mochi::version(),
            _ => launch::version(self.program(), flag),
        };
        let configuration = match self.broker {
            Broker::Mosquitto => mosquitto::config(self.tuning, 0, None),
            Broker::Rumqttd => rumqttd::config(self.tuning, 0, needs),
            Broker::Mochi => mochi::arguments(0).join(" "),
        };
        json!({
            "program": launch::find_program(self.program()).ok(),
            "version": version,
            "tuned": self.tuning == Tuning::Tuned,
            "configuration": configuration,
        })
    }

    /// Starts it on a free port.
    pub(super) fn start(self, needs: &Needs) -> Result<Running, BenchError> {
        if needs.transport != Transport::Mqtt {
            return Err(BenchError::usage(format!(
                "{} is started with TCP only, not with {}; start it yourself and name its URL",
                self.name(),
                needs.transport.describe()
            )));
        }
        match self.broker {
            Broker::Mosquitto => mosquitto::start(self.tuning, needs),
            Broker::Rumqttd => rumqttd::start(self.tuning, needs),
            Broker::Mochi => mochi::start(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for name in NAMES.split(", ") {
            assert_eq!(Rival::parse(name).map(Rival::name), Some(name));
        }
        assert_eq!(Rival::parse("mosquito"), None);
    }
}
