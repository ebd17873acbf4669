//! What is said of a command line that a parser refuses.

use std::io::{self, IsTerminal, Write};
use std::num::ParseIntError;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error with tips that help: no tip takes an option for a value, and a tip of the program
/// (`suits`) replaces options and commands that only look similar. `suits` is asked about unknown
/// options and unknown commands.
#[must_use]
pub fn mended(
    mut error: clap::Error,
    suits: impl FnOnce(&clap::Error) -> Option<&'static str>,
) -> clap::Error {
    let alike = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::SuggestedArg,
        ErrorKind::InvalidSubcommand => ContextKind::SuggestedSubcommand,
        _ => return error,
    };
    let suits = suits(&error);
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    tips.retain(|tip| !tip.to_string().contains("as a value, use"));
    if let Some(tip) = suits {
        error.remove(alike);
        tips.insert(0, StyledStr::from(tip));
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The command that an error is about: the second word of its usage.
#[must_use]
pub fn verb(error: &clap::Error) -> Option<String> {
    let text = error.to_string();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "))?;
    usage.split(' ').nth(1).map(str::to_owned)
}

/// The text of a parser, with words for people where a number was expected.
#[must_use]
pub fn readable(text: &str) -> String {
    let raw = "x"
        .parse::<u8>()
        .map_err(|error: ParseIntError| error.to_string());
    match raw {
        Ok(_) => text.to_owned(),
        Err(raw) => text.replace(&raw, "it is not a whole number"),
    }
}

/// Says what is wrong on standard error, or shows the help that was asked for on standard output.
pub fn show(error: &clap::Error) {
    // Nobody is left to be told if the terminal is gone.
    let _ = match error.kind() {
        ErrorKind::ValueValidation => {
            let text = error.render();
            let text = match io::stderr().is_terminal() {
                true => text.ansi().to_string(),
                false => text.to_string(),
            };
            write!(io::stderr(), "{}", readable(&text))
        }
        _ => error.print(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    fn refused(words: &str) -> clap::Error {
        let limit = Arg::new("limit").long("limit");
        let limit = limit.value_parser(clap::value_parser!(u8));
        let name = Arg::new("name");
        let list = Command::new("list").arg(limit).arg(name);
        let program = Command::new("program").subcommand(list);
        let refused = program.try_get_matches_from(words.split(' '));
        refused.expect_err("it is not understood")
    }

    #[test]
    fn a_tip_replaces_what_only_looks_similar() {
        for words in ["program list --limt 1", "program lst"] {
            assert!(refused(words).to_string().contains("similar"), "{words}");
            let plain = mended(refused(words), |_| None).to_string();
            assert!(plain.contains("similar"), "{plain}");
            assert!(!plain.contains("as a value"), "{plain}");
            let told = mended(refused(words), |_| Some("use another one")).to_string();
            assert!(told.contains("tip: use another one"), "{told}");
            assert!(!told.contains("similar"), "{told}");
        }
    }

    #[test]
    fn only_unknown_words_are_asked_about() {
        let told = mended(refused("program list --limit x"), |_| Some("use another"));
        assert!(!told.to_string().contains("use another"), "{told}");
        let told = readable(&told.to_string());
        assert!(told.contains("it is not a whole number"), "{told}");
    }

    #[test]
    fn an_error_is_about_a_command() {
        assert_eq!(
            verb(&refused("program list --limt 1")).as_deref(),
            Some("list")
        );
    }
}
