//! `stentor bench`: the program `stentor-bench`, which goes on in the place of this one.
//!
//! A generator of load and its reports need libraries that a server does not, and servers are built
//! and installed more often than they are measured. The other program gets the same arguments,
//! variables and streams. It is the same process, so exit code and signals need no care.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::Failure;

/// What `stentor help bench` says where the program is missing, and the reference always.
pub(crate) const HELP: &str = "\
The program stentor-bench has these commands: `stentor bench --help` lists them, and
`stentor bench list` shows the workloads. It has to be in the folder of stentor or in one of PATH.
In the sources of Stentor, `cargo build --release --package stentor-bench` builds it.";

/// The benchmark could not run, or its command line has a mistake. The program has the same code:
/// its code 2 judges the generator of load.
pub(crate) const EXIT_CANNOT_RUN: u8 = 3;

/// The name of the program.
const PROGRAM: &str = "stentor-bench";

/// Its first argument, by which it calls itself in texts as people call it here.
const CALLED: &str = "stentor bench";

/// A variable that names the running `stentor` to it: what somebody measures by `stentor bench` is
/// this server, not the one that happens to lie beside the other program.
const SERVER: &str = "STENTOR_BENCH_SERVER";

/// What to do where it is missing.
const REMEDY: &str = "build it in the sources of Stentor by `cargo build --release --package \
                      stentor-bench`, and put it beside stentor";

/// Runs a benchmark, or explains and compares some.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Command of stentor-bench, with its options
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    arguments: Vec<OsString>,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        Err(go_on(&self.arguments))
    }
}

/// The arguments of the other program, if a command line is meant for it. `stentor help bench` asks
/// for its help. No parser here changes them.
pub(crate) fn asked(words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut words = words.skip(1);
    let verb = words.next()?;
    let is_help = verb == "help";
    let verb = if is_help { words.next()? } else { verb };
    let help = is_help.then(|| OsString::from("help"));
    (verb == "bench").then(|| help.into_iter().chain(words).collect())
}

/// Goes on as the other program, with these arguments. Returns why it did not.
pub(crate) fn go_on(arguments: &[OsString]) -> Failure {
    let own = env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let path = env::var_os("PATH");
    let found = places(folder, path.as_deref()).find(|place| place.is_file());
    let message = match found {
        Some(program) => {
            let mut command = Command::new(&program);
            command.arg0(CALLED).args(arguments);
            if let Some(own) = &own {
                command.env(SERVER, own);
            }
            let error = command.exec();
            format!("cannot start {}: {error}; {REMEDY}", program.display())
        }
        None => missing(folder),
    };
    Failure::with_code(EXIT_CANNOT_RUN, message)
}

/// Why it cannot be started.
fn missing(folder: Option<&Path>) -> String {
    let beside = folder.map(|folder| format!("{} nor in ", folder.display()));
    let beside = beside.unwrap_or_default();
    format!(
        "`stentor bench` needs the program {PROGRAM}, which is neither in {beside}a folder of \
         PATH; {REMEDY}"
    )
}

/// Where the program may be: beside this one, then in the folders of `PATH`. Relative ones do not
/// count: the current folder may be one in which strangers write.
fn places(folder: Option<&Path>, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let path = path.map(|path| env::split_paths(path).collect::<Vec<_>>());
    let folders = folder.map(Path::to_owned).into_iter();
    let folders = folders.chain(path.into_iter().flatten());
    let folders = folders.filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_behind_bench_are_its_own() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        for (line, expected) in [
            ("stentor bench", Some("")),
            ("stentor bench --help", Some("--help")),
            ("stentor bench idle -- --json=x", Some("idle -- --json=x")),
            ("stentor help bench", Some("help")),
            ("stentor help bench idle", Some("help idle")),
            ("stentor help", None),
            ("stentor help sub bench", None),
            ("stentor pub bench", None),
            ("stentor", None),
        ] {
            let expected = expected.map(|text| match text {
                "" => Vec::new(),
                text => words(text),
            });
            assert_eq!(asked(words(line).into_iter()), expected, "{line}");
        }
    }

    #[test]
    fn no_relative_folder_is_searched() {
        let path = env::join_paths(["", ".", "bin", "/usr/bin", "../x"].map(Path::new)).unwrap();
        let found: Vec<PathBuf> = places(Some(Path::new("/opt")), Some(&path)).collect();
        let expected = ["/opt/stentor-bench", "/usr/bin/stentor-bench"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(places(None, None).count(), 0);
    }
}
