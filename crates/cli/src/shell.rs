//! `stentor completions` and `stentor man`: both are made from the command line itself.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueEnum};
use clap_mangen::Man as Page;

use crate::Cli;
use crate::failure::Failure;
use crate::output::print;

/// Shells with completion.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints a completion script. For bash: `stentor completions bash >
/// ~/.local/share/bash-completion/completions/stentor`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "stentor", &mut script);
        print(&script)
    }
}

/// Prints the manual page of a command, or writes all of them into a folder.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Command, for example `sub`; without one, the page that lists them all
    command: Option<String>,
    /// Write stentor.1, stentor-sub.1 and so on into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut cli = Cli::command();
        cli.build();
        if let Some(folder) = &self.dir {
            let failed = |error: io::Error| {
                Failure::new(format!("cannot write into {}: {error}", folder.display()))
            };
            fs::create_dir_all(folder).map_err(failed)?;
            return clap_mangen::generate_to(cli, folder).map_err(failed);
        }
        let command = match &self.command {
            None => cli,
            Some(name) => {
                let found = cli.find_subcommand(name).cloned();
                found.ok_or_else(|| {
                    Failure::usage(format!("there is no command {name:?}: stentor --help"))
                })?
            }
        };
        let mut page = Vec::new();
        Page::new(command)
            .render(&mut page)
            .map_err(|error| Failure::new(format!("cannot make the page: {error}")))?;
        print(&page)
    }
}
