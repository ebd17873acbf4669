//! Which server a command is about: what all commands to the server of this machine share.

use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use stentor_control::{Request, asked};
use stentor_server::ServerExit;
use stentor_server::config::{Config, ConfigError, Sources};

use crate::control;
use crate::failure::Failure;
use crate::output::print;

/// The exit code for a configuration that is wrong: `EX_CONFIG`, as of `stentor serve`.
const EXIT_CONFIG: u8 = ServerExit::Configuration as u8;

/// Which server, running or stopped.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The server's configuration file
    #[arg(long, value_name = "FILE", env = "STENTOR_CONFIG")]
    config: Option<PathBuf>,
    /// Data folder of the server. Without it: the variable STENTOR_DATA_DIR, the configuration
    /// file, ./data, or /var/lib/stentor if ./data does not exist
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Which {
    /// The data folder, if the command line names one.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// The configuration of that server.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let mut config = load(&self.sources(self.config.clone()))?;
        config.general.data_dir = of_the_unit(config.general.data_dir);
        Ok(config)
    }

    /// Where its configuration comes from, read from this file.
    pub(crate) fn sources<'t>(&self, file: Option<PathBuf>) -> Sources<'t> {
        let data_dir = self.data_dir.as_deref().map(Path::to_string_lossy);
        let flags = data_dir.map(|path| ("data_dir".to_owned(), path.into_owned()));
        Sources::from_process(file, flags.into_iter().collect())
    }

    /// Asks the server for something of the table of verbs, see [`Self::ask`].
    pub(crate) fn tell<R: Request>(&self, request: &R) -> Result<Told<R::Answer>, Failure> {
        let nonsense = |error: serde_json::Error| control::nonsense::<R>(&error);
        let raw = self.ask(asked(request).map_err(nonsense)?)?;
        let answer = R::Answer::deserialize(&raw).map_err(nonsense)?;
        Ok(Told {
            is_json: self.json,
            raw,
            answer,
        })
    }

    /// Asks the server, which has to run. Of the configuration only the data folder counts: the
    /// rest may be wrong while somebody is changing it.
    pub(crate) fn ask(&self, request: Value) -> Result<Value, Failure> {
        let sources = self.sources(self.config.clone());
        let folder = Config::data_dir(&sources).map_err(|error| wrong(&error))?;
        let folder = of_the_unit(folder);
        let stream = control::connect(&folder).map_err(|error| {
            let failure = control::no_server(&folder, &error);
            match is_stopped(error.kind()) {
                true => failure.with_note("or its configuration with --config or STENTOR_CONFIG"),
                false => failure,
            }
        })?;
        control::ask(&mut BufReader::new(stream), request)
    }
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Told<A> {
    /// Whether it is printed as JSON.
    is_json: bool,
    /// As it came, with what this command does not know.
    raw: Value,
    /// What this command knows of it.
    pub(crate) answer: A,
}

impl<A> Told<A> {
    /// Leaves out entries of a list of the JSON that is printed.
    pub(crate) fn keep(&mut self, list: &str, mut is_kept: impl FnMut(&Value) -> bool) {
        if let Some(list) = self.raw[list].as_array_mut() {
            list.retain(|one| is_kept(one));
        }
    }

    /// The answer: as a line of JSON if that is wanted, else this text.
    pub(crate) fn text(&self, text: impl FnOnce(&A) -> String) -> String {
        match self.is_json {
            true => format!("{}\n", self.raw),
            false => text(&self.answer),
        }
    }

    /// Prints the answer, see [`Self::text`].
    pub(crate) fn print(&self, text: impl FnOnce(&A) -> String) -> Result<(), Failure> {
        print(self.text(text))
    }
}

/// The data folder of `deploy/stentor.service`, where nothing is said of another one and none lies
/// here.
fn of_the_unit(folder: PathBuf) -> PathBuf {
    choose(folder, |path| path.symlink_metadata().is_ok())
}

/// Where a server of this machine is looked for if nothing is said of its data folder.
pub(crate) fn usual_folder() -> PathBuf {
    of_the_unit(HERE.into())
}

/// The data folder where a server is started without another one.
const HERE: &str = "data";

fn choose(folder: PathBuf, is_there: impl Fn(&Path) -> bool) -> PathBuf {
    const OF_THE_UNIT: &str = "/var/lib/stentor";
    let is_default = folder == Path::new(HERE);
    match is_default && !is_there(&folder) && is_there(Path::new(OF_THE_UNIT)) {
        true => OF_THE_UNIT.into(),
        false => folder,
    }
}

/// The data folder that `STENTOR_DATA_DIR` names, or else the configuration that `STENTOR_CONFIG`
/// names; `None` without both.
pub(crate) fn folder_of_variables() -> Result<Option<PathBuf>, Failure> {
    let variable = |name| std::env::var_os(name).filter(|path| !path.is_empty());
    if let Some(folder) = variable("STENTOR_DATA_DIR") {
        return Ok(Some(folder.into()));
    }
    let Some(file) = variable("STENTOR_CONFIG") else {
        return Ok(None);
    };
    let sources = Sources::from_process(Some(file.into()), Vec::new());
    Config::data_dir(&sources)
        .map(Some)
        .map_err(|error| wrong(&error))
}

/// Reads a configuration.
pub(crate) fn load(sources: &Sources<'_>) -> Result<Config, Failure> {
    Config::load(sources).map_err(|error| wrong(&error))
}

fn wrong(error: &ConfigError) -> Failure {
    Failure::with_code(EXIT_CONFIG, error.to_string())
}

/// Whether a control socket that cannot be connected to is that of a stopped server.
pub(crate) fn is_stopped(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_folder_of_the_unit_counts_where_there_is_no_other() {
        let chosen = |folder: &str, there: &[&str]| {
            let is_there = |path: &Path| there.iter().any(|one| path == Path::new(one));
            choose(folder.into(), is_there)
        };
        let unit = "/var/lib/stentor";
        assert_eq!(chosen("data", &[unit]), Path::new(unit));
        assert_eq!(chosen("data", &["data", unit]), Path::new("data"));
        assert_eq!(chosen("data", &[]), Path::new("data"));
        assert_eq!(chosen("mine", &[unit]), Path::new("mine"));
    }

    #[test]
    fn a_missing_server_is_explained() {
        let which = Which {
            config: None,
            data_dir: Some("/nonexistent".into()),
            json: false,
        };
        let failure = which.ask(json!({"verb": "status"})).unwrap_err();
        for words in ["stentor serve --data-dir", "--config"] {
            assert!(failure.message().contains(words), "{}", failure.message());
        }
    }
}
