//! `stentor completions` and `stentor man`: both are made from the command line itself.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_mangen::Man as Page;

use crate::Cli;
use crate::failure::Failure;
use crate::output::print;
use crate::reference;

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
    /// The shell
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

/// Shows the manual page of a command, or writes all of them into a folder. On a terminal `man`
/// shows it; elsewhere it is printed as it is, for `man -l -`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Command, for example `sub`; without one, the page that lists them all
    command: Option<String>,
    /// Write stentor.1, stentor-sub.1 and so on into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// Print a page of the reference as Markdown
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["command", "dir"])]
    markdown: Option<reference::Page>,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut cli = Cli::command();
        cli.build();
        if let Some(page) = self.markdown {
            return print(page.text(&cli).as_bytes());
        }
        if let Some(folder) = &self.dir {
            let failed = |error: io::Error| {
                Failure::new(format!("cannot write into {}: {error}", folder.display()))
            };
            fs::create_dir_all(folder).map_err(failed)?;
            return write_all(&cli, folder).map_err(failed);
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
        let page = page(&command)
            .map_err(|error| Failure::new(format!("cannot make the page: {error}")))?;
        if io::stdout().is_terminal() && is_shown(&page) {
            return Ok(());
        }
        print(&page)
    }
}

/// The page of a command, under its whole name.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command.clone())
        .title(name(command))
        .source(concat!("stentor ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    Ok(page)
}

/// The name of a page: `stentor-sub`.
fn name(command: &Command) -> &str {
    let display_name = command.get_display_name();
    display_name.unwrap_or_else(|| command.get_name())
}

/// Writes the pages of a command and of those below it.
fn write_all(command: &Command, folder: &Path) -> io::Result<()> {
    fs::write(folder.join(format!("{}.1", name(command))), page(command)?)?;
    let below = command.get_subcommands();
    for command in below.filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        write_all(command, folder)?;
    }
    Ok(())
}

/// Lets `man` show a page; whether there is one that does.
fn is_shown(page: &[u8]) -> bool {
    let mut man = process::Command::new("man");
    let man = man.args(["-l", "-"]).stdin(Stdio::piped());
    let Ok(mut child) = man.spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // A reader that has read enough leaves.
        let _ = input.write_all(page);
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_whole_name_and_the_version() {
        let mut cli = Cli::command();
        cli.build();
        for (command, title) in [("sub", "stentor-sub"), ("clients", "stentor-clients")] {
            let command = cli.find_subcommand(command).expect("there is one");
            let page = String::from_utf8(page(command).unwrap()).unwrap();
            let head = format!(".TH {title} 1  \"stentor {}\" ", env!("CARGO_PKG_VERSION"));
            assert!(page.contains(&head), "{}", &page[..300]);
        }
    }
}
