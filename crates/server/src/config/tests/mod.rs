//! Tests of the whole configuration: files, environment and flags into a `Config` or an error.

mod auth;
mod documents;
mod files;
mod http;
mod ranges;
mod reload;
mod sources;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Config, Sources};

/// Loads a configuration from texts, without touching the process.
#[derive(Default)]
pub(super) struct Case {
    pub(super) file: Option<String>,
    pub(super) others: BTreeMap<PathBuf, String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) flags: Vec<(String, String)>,
}

impl Case {
    pub(super) fn file(text: &str) -> Self {
        Self {
            file: Some(text.to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn with(mut self, path: &str, text: &str) -> Self {
        self.others.insert(PathBuf::from(path), text.to_owned());
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn flag(mut self, key: &str, value: &str) -> Self {
        self.flags.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The configuration, or the problems as they are shown to the user.
    pub(super) fn load(self) -> Result<Config, String> {
        Config::load(&self.sources()).map_err(|error| error.to_string())
    }

    /// The data folder alone, or why it is not known.
    pub(super) fn data_dir(self) -> Result<PathBuf, String> {
        Config::data_dir(&self.sources()).map_err(|error| error.to_string())
    }

    fn sources(self) -> Sources<'static> {
        let path = PathBuf::from("etc/stentor.toml");
        let mut files = self.others;
        let file = self.file.map(|text| {
            files.insert(path.clone(), text);
            path
        });
        Sources {
            file,
            environment: self.environment,
            flags: self.flags,
            read_file: Box::new(move |path: &Path| match files.get(path) {
                Some(text) => Ok(text.clone()),
                None => Err(io::Error::from(io::ErrorKind::NotFound)),
            }),
        }
    }

    /// The configuration; shows the problems if there are any.
    pub(super) fn good(self) -> Config {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The problems, one per line.
    pub(super) fn bad(self) -> String {
        self.load().expect_err("the configuration has a problem")
    }
}
