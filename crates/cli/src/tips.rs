//! What a parser's errors say beside what is wrong.

use std::num::ParseIntError;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that somebody may look for, and what there is instead.
const ELSEWHERE: [(&str, &str); 2] = [
    (
        "--zone",
        "this command is about no zone, or about all; --help shows what it takes",
    ),
    (
        "--quota",
        "each quota is a flag of its own, such as --messages-per-sec; --help lists them",
    ),
];

/// The error with tips that help: no flag is meant as a value here.
pub(crate) fn mended(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    tips.retain(|tip| !tip.to_string().contains("as a value, use"));
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && let Some((_, tip)) = ELSEWHERE.iter().find(|(known, _)| known == flag)
    {
        // Something that only looks alike is not what was meant.
        tips.insert(0, StyledStr::from(*tip));
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// What a parser says of a number that is none, for people.
pub(crate) fn readable(text: &str) -> String {
    let raw = "x"
        .parse::<u8>()
        .map_err(|error: ParseIntError| error.to_string());
    match raw {
        Ok(_) => text.to_owned(),
        Err(raw) => text.replace(&raw, "it is no whole number"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Cli;

    fn told(words: &str) -> String {
        match Cli::try_parse_from(words.split(' ')) {
            Ok(_) => panic!("{words} is understood"),
            Err(error) => readable(&mended(error).to_string()),
        }
    }

    #[test]
    fn an_unknown_flag_is_not_said_to_be_a_value() {
        for (words, tip) in [
            ("stentor reload --zone game", "about no zone"),
            ("stentor role add r --quota 5", "--messages-per-sec"),
            ("stentor token create bob --expires 5d", ""),
            ("stentor user list --limt 1", "--limit"),
        ] {
            let text = told(words);
            assert!(!text.contains("as a value") && text.contains(tip), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_called_so() {
        for words in [
            "stentor room create tea --capacity x",
            "stentor clients ls --limit x",
        ] {
            let text = told(words);
            assert!(text.contains("it is no whole number"), "{text}");
            assert!(!text.contains("invalid digit"), "{text}");
        }
    }
}
