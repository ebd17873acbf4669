//! `stentor check-config` and `stentor config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stentor_server::ServerExit;
use stentor_server::config::{self, Config, Sources};

use crate::admin::config as running;
use crate::failure::Failure;
use crate::output::print;
use crate::which::Which;

/// The exit code for a configuration that is wrong: `EX_CONFIG`, as of `stentor serve`.
const EXIT_CONFIG: u8 = ServerExit::Configuration as u8;

/// Reads the configuration as `stentor serve` would, environment included, and says what is wrong:
/// also with the certificates, keys, folders, users and groups that it names, as far as reading
/// them tells. Opens no port, connects to no database and changes nothing: the columns of
/// auth.query are looked at by the start and by `stentor auth refresh`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 the configuration is good, 78 it has an error.")]
pub(crate) struct CheckConfig {
    /// The configuration file; the variable STENTOR_CONFIG names it too
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same, as `stentor serve` takes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CheckConfig {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let variable = || std::env::var_os("STENTOR_CONFIG").filter(|path| !path.is_empty());
        let file = self.file.or(self.config);
        let file = file.or_else(|| variable().map(PathBuf::from));
        let sources = Sources::from_process(file, Vec::new());
        let config = Config::load(&sources)
            .map_err(|error| Failure::with_code(EXIT_CONFIG, error.to_string()))?;
        let refusals = stentor_server::check(&config);
        if !refusals.is_empty() {
            let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            return Err(Failure::with_code(EXIT_CONFIG, lines.join("\n")));
        }
        let hints = stentor_server::hints(&config).into_iter();
        let hints: String = hints.map(|hint| format!("hint: {hint}\n")).collect();
        let what = match sources.file.is_some() {
            true => "the configuration is good",
            false => {
                "no configuration file was read: name one, as in `stentor check-config \
                 stentor.toml`; the defaults and the environment are good"
            }
        };
        print(format!("{what}\n{hints}"))
    }
}

#[derive(Debug, Subcommand)]
enum Document {
    /// Print a configuration file with every key and its default
    Sample,
    /// Print a page that describes every key
    Reference,
    /// Show what the running server runs with, and where each value comes from
    Effective {
        /// Only keys that contain this text
        #[arg(
            value_name = "CONTAINING",
            default_value = "",
            hide_default_value = true
        )]
        containing: String,
        /// Show keys that have their defaults too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Show what a reload would change now, and what waits for a restart
    Diff {
        #[command(flatten)]
        which: Which,
    },
}

/// Prints documents about the configuration, and shows that of the running server.
#[derive(Debug, Args)]
pub(crate) struct Print {
    #[command(subcommand)]
    document: Document,
}

impl Print {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.document {
            Document::Sample => print(config::sample()),
            Document::Reference => print(config::reference()),
            Document::Effective {
                containing,
                all,
                which,
            } => running::effective(&which, containing, all),
            Document::Diff { which } => running::diff(&which),
        }
    }
}
