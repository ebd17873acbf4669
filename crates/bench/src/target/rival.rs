//! Other brokers that are started for the purpose, tuned for the load and as they come.

use std::path::Path;

use serde_json::{Value, json};
use stentor_client::Url;
use tempfile::TempDir;

use super::{Needs, Running, Transport, free_port, launch, mochi, mosquitto, nats, rumqttd};
use crate::error::BenchError;

/// Whose broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broker {
    Mosquitto,
    Rumqttd,
    Mochi,
    Nats,
}

const BROKERS: [Broker; 4] = [
    Broker::Mosquitto,
    Broker::Rumqttd,
    Broker::Mochi,
    Broker::Nats,
];

impl Broker {
    const fn name(self) -> &'static str {
        match self {
            Self::Mosquitto => "mosquitto",
            Self::Rumqttd => "rumqttd",
            Self::Mochi => "mochi",
            Self::Nats => "nats",
        }
    }

    /// Where its program comes from.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Mosquitto => "the package mosquitto of the distribution has it",
            // Its own lock file has dependencies that today's compilers refuse.
            Self::Rumqttd => "cargo install rumqttd (0.20.0 compiles without --locked only)",
            Self::Mochi => {
                "go install github.com/mochi-mqtt/server/v2/cmd@latest makes `cmd`, to be named \
                 mochi; …/v2/cmd/docker@latest makes `docker`, which reads a configuration, to be \
                 named mochi-config"
            }
            Self::Nats => "go install github.com/nats-io/nats-server/v2@latest",
        }
    }
}

/// How it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuning {
    /// Limits that the load would meet are raised, logs are off.
    Tuned,
    /// As it comes: a listener, anonymous clients, and what it does not start without.
    Defaults,
}

const TUNINGS: [(Tuning, &str); 2] = [(Tuning::Tuned, "tuned"), (Tuning::Defaults, "defaults")];

/// A broker and how it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    broker: Broker,
    tuning: Tuning,
}

/// The names that `--against` knows; each of them also with -tuned or -defaults behind it.
pub(super) const NAMES: &str = "mosquitto, rumqttd, mochi, nats";

/// Where a broker is to listen, and what it may use.
pub(super) struct Place<'a> {
    pub(super) transport: Transport,
    pub(super) port: u16,
    /// Its folder, with a certificate and a key in it where they are needed.
    pub(super) folder: &'a Path,
}

impl Place<'_> {
    /// A file of the folder, as a configuration names it.
    pub(super) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Files of the certificate and its key.
    pub(super) fn certificate(&self) -> (String, String) {
        let (certificate, key) = super::transport::CERTIFICATE_FILES;
        (self.file(certificate), self.file(key))
    }
}

/// What a broker is started with.
pub(super) struct Recipe {
    /// The program, to be found on the PATH.
    pub(super) program: &'static str,
    /// The name of its configuration in the folder, and what is in it.
    pub(super) config: Option<(&'static str, String)>,
    pub(super) arguments: Vec<String>,
}

impl Recipe {
    /// All that was told to it, for people.
    fn describe(&self) -> String {
        let arguments = self.arguments.join(" ");
        match &self.config {
            Some((_, config)) => format!("# {} {arguments}\n{config}", self.program),
            None => format!("# {} {arguments}", self.program),
        }
    }
}

impl Rival {
    /// Reads a name: a broker's stands for both of its configurations, side by side.
    pub(super) fn parse(name: &str) -> Option<Vec<Self>> {
        BROKERS.iter().find_map(|&broker| {
            let rest = name.strip_prefix(broker.name())?;
            let wanted = TUNINGS
                .iter()
                .filter(|(_, word)| rest.is_empty() || rest.strip_prefix('-') == Some(*word));
            let rivals: Vec<Self> = wanted.map(|&(tuning, _)| Self { broker, tuning }).collect();
            (!rivals.is_empty()).then_some(rivals)
        })
    }

    /// All names that [`Rival::parse`] reads.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        BROKERS.into_iter().flat_map(|broker| {
            let one = move |(tuning, _)| Self { broker, tuning }.name();
            TUNINGS.into_iter().map(one).chain([broker.name()])
        })
    }

    /// As `--against` and tables have it.
    pub(super) const fn name(self) -> &'static str {
        match (self.broker, self.tuning) {
            (Broker::Mosquitto, Tuning::Tuned) => "mosquitto-tuned",
            (Broker::Mosquitto, Tuning::Defaults) => "mosquitto-defaults",
            (Broker::Rumqttd, Tuning::Tuned) => "rumqttd-tuned",
            (Broker::Rumqttd, Tuning::Defaults) => "rumqttd-defaults",
            (Broker::Mochi, Tuning::Tuned) => "mochi-tuned",
            (Broker::Mochi, Tuning::Defaults) => "mochi-defaults",
            (Broker::Nats, Tuning::Tuned) => "nats-tuned",
            (Broker::Nats, Tuning::Defaults) => "nats-defaults",
        }
    }

    /// What it is started with; why it cannot be asked to do that.
    fn recipe(self, needs: &Needs, place: &Place<'_>) -> Result<Recipe, String> {
        match self.broker {
            Broker::Mosquitto => Ok(mosquitto::recipe(self.tuning, needs, place)),
            Broker::Rumqttd => rumqttd::recipe(self.tuning, needs, place),
            Broker::Mochi => mochi::recipe(self.tuning, place),
            Broker::Nats => nats::recipe(self.tuning, needs, place),
        }
    }

    /// How it is started, for `--explain`.
    pub(super) fn explain(self) -> String {
        let how = match self.tuning {
            Tuning::Tuned => "limits raised for the load, no logs",
            Tuning::Defaults => "as it comes",
        };
        format!("from the PATH, ~/.cargo/bin or ~/go/bin, {how}")
    }

    /// Its version, its build and its whole configuration, in which port 0 stands for a free one
    /// and FOLDER for a temporary one.
    pub(super) fn identity(self, needs: &Needs) -> Value {
        let place = Place {
            transport: needs.transport,
            port: 0,
            folder: Path::new("FOLDER"),
        };
        let recipe = self.recipe(needs, &place);
        let program = recipe.as_ref().ok();
        let program = program.and_then(|recipe| launch::find_program(recipe.program).ok());
        let version = program.as_deref().and_then(|program| match self.broker {
            Broker::Mosquitto => launch::version(program, "-h"),
            Broker::Rumqttd | Broker::Nats => launch::version(program, "--version"),
            // It does not say.
            Broker::Mochi => launch::go_module(program),
        });
        json!({
            "program": program,
            "version": version,
            "build": program.as_deref().and_then(launch::build),
            "tuned": self.tuning == Tuning::Tuned,
            "transport": needs.transport.as_str(),
            "configuration": recipe.map_or_else(|why| why, |recipe| recipe.describe()),
        })
    }

    /// Starts it on a free port.
    pub(super) fn start(self, needs: &Needs) -> Result<Running, BenchError> {
        let folder = launch::folder()?;
        let place = Place {
            transport: needs.transport,
            port: free_port()?,
            folder: folder.path(),
        };
        needs.transport.make_files(folder.path())?;
        let recipe = self.recipe(needs, &place);
        let recipe = recipe.map_err(|why| BenchError::usage(format!("{}: {why}", self.name())))?;
        let program = launch::find_program(recipe.program)
            .map_err(|e| BenchError::usage(format!("{e}; {}", self.broker.remedy())))?;
        let url = needs.transport.url(folder.path(), place.port);
        // They have what they keep after an end, and listen where they did.
        let keeps = match self.broker {
            Broker::Mosquitto => needs.stored > 0 || needs.lasting,
            Broker::Nats => needs.lasting,
            Broker::Rumqttd | Broker::Mochi => false,
        };
        let keeps = keeps.then_some(place.port);
        start(&program, self.name(), &recipe, folder, &url, keeps)
    }
}

fn start(
    program: &Path,
    name: &str,
    recipe: &Recipe,
    folder: TempDir,
    url: &Url,
    keeps: Option<u16>,
) -> Result<Running, BenchError> {
    use crate::error::Doing;

    let mut command = std::process::Command::new(program);
    command
        .args(&recipe.arguments)
        .stdout(std::process::Stdio::null())
        .current_dir(folder.path());
    if let Some((file, config)) = &recipe.config {
        std::fs::write(folder.path().join(file), config)
            .doing(format!("write the configuration of {name}"))?;
    }
    let mut child = launch::Child::spawn(name, command, folder)?;
    if let Some(port) = keeps {
        child = child.keeps(port);
    }
    child.wait_for(url)?;
    Running::started(child, url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Version;

    #[test]
    fn a_broker_stands_for_both_of_its_configurations() {
        for name in NAMES.split(", ") {
            let rivals = Rival::parse(name).unwrap();
            let names: Vec<&str> = rivals.iter().map(|rival| rival.name()).collect();
            assert_eq!(names, [format!("{name}-tuned"), format!("{name}-defaults")]);
            for rival in rivals {
                assert_eq!(Rival::parse(rival.name()), Some(vec![rival]));
            }
        }
        for wrong in ["mosquito", "mosquitto-", "mosquittodefaults", ""] {
            assert_eq!(Rival::parse(wrong), None, "{wrong}");
        }
    }

    /// Each that can do a transport says so by a recipe that names its files.
    #[test]
    fn recipes_fit_what_carries_mqtt() {
        let all = [
            Transport::Mqtt,
            Transport::Mqtts,
            Transport::Ws,
            Transport::Wss,
            Transport::Unix,
        ];
        let able = |name: &str| {
            let rival = Rival::parse(name).unwrap()[0];
            let can = |transport: &&Transport| {
                let mut needs = Needs::new(10, 100, Version::V311);
                needs.transport = **transport;
                let place = Place {
                    transport: **transport,
                    port: 1,
                    folder: Path::new("/F"),
                };
                rival.recipe(&needs, &place).is_ok_and(|recipe| {
                    let text = recipe.describe();
                    let secure = matches!(transport, Transport::Mqtts | Transport::Wss);
                    assert_eq!(text.contains("/F/server.crt"), secure, "{name}: {text}");
                    true
                })
            };
            let words = all.iter().filter(can).map(|transport| transport.as_str());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(able("mosquitto"), "mqtt mqtts ws wss unix");
        assert_eq!(able("rumqttd"), "mqtt mqtts ws wss");
        assert_eq!(able("mochi-defaults"), "mqtt mqtts ws");
        assert_eq!(able("mochi-tuned"), "mqtt ws");
        assert_eq!(able("nats"), "mqtt mqtts ws wss");
    }
}
