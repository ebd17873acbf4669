//! What a parser's errors say beside what is wrong.

use std::num::ParseIntError;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that somebody may look for, and what there is instead.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "--zone",
        "this command is about no zone, or about all; --help shows what it takes",
    ),
    (
        "--tls",
        "TLS needs to know whom to trust: --cafile FILE, or --tls-use-os-certs",
    ),
    ("--expires", "--days N says how many days a token lasts"),
    (
        "--quota",
        "each quota is a flag of its own, such as --messages-per-sec; --help lists them",
    ),
];

/// What helps where a zone is what the command is about.
const NAMED: &str = "a zone is named without a flag here: `stentor zone show NAME`";

/// What helps where a command of the command is missing.
const BEHIND: &str = "--zone stands behind the command, as in `stentor clients ls --zone NAME`";

/// What helps where a server is to speak TLS.
const SERVED: &str = "--listen mqtts://HOST:PORT with --tls-certificate FILE and --tls-key FILE";

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
    let mut suits = None;
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && let Some((known, tip)) = ELSEWHERE.iter().find(|(known, _)| known == flag)
    {
        let tip = match (*known, verb(&error).as_deref()) {
            ("--zone", Some("zone")) => NAMED,
            ("--zone", _) if error.to_string().contains("<COMMAND>") => BEHIND,
            ("--tls", Some("serve")) => SERVED,
            _ => *tip,
        };
        // Something that only looks alike is not what was meant.
        suits = Some(StyledStr::from(tip));
    }
    if let Some(tip) = suits {
        error.remove(ContextKind::SuggestedArg);
        tips.insert(0, tip);
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The command that an error is about.
fn verb(error: &clap::Error) -> Option<String> {
    let text = error.to_string();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "))?;
    usage.split(' ').nth(1).map(str::to_owned)
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
            ("stentor zone show --zone game", "without a flag here"),
            ("stentor pub -t t -m x --tls", "--cafile FILE"),
            ("stentor serve --tls", "--tls-certificate FILE"),
            ("stentor role add r --quota 5", "--messages-per-sec"),
            ("stentor token create bob --expires 5d", "--days N"),
            ("stentor clients --zone game", "behind the command"),
            ("stentor user list --limt 1", "--limit"),
        ] {
            let text = told(words);
            assert!(!text.contains("as a value") && text.contains(tip), "{text}");
            assert!(
                !text.contains("--tls-alpn") && !text.contains("--tls-key'"),
                "{text}"
            );
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
