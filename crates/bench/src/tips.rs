//! What there is instead of options that other commands have.

use clap::error::{ContextKind, ContextValue};

/// What helps where a benchmark is to log in or to find its server.
const TARGET: &str = "--target mqtt://USER:PW@HOST:PORT names a running server and who logs in";

/// How somebody may call options that a benchmark takes from the URL of its target.
const OF_TARGET: [&str; 9] = [
    "--username",
    "--user",
    "-u",
    "--password",
    "--pw",
    "-P",
    "--host",
    "--port",
    "-p",
];

/// What there is instead of an unknown option.
pub(crate) fn instead(error: &clap::Error) -> Option<&'static str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if OF_TARGET.contains(&flag.as_str()) => Some(TARGET),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use stentor_usage::mended;

    use super::*;
    use crate::args::Args;

    #[test]
    fn a_login_is_part_of_the_target() {
        for words in ["bench mine --username ann", "bench fanout -u ann"] {
            let error = Args::try_parse_from(words.split(' ')).expect_err("it is unknown");
            let text = mended(error, instead).to_string();
            assert!(text.contains("mqtt://USER:PW@HOST"), "{text}");
            assert!(!text.contains("as a value"), "{text}");
            assert!(!text.contains("'--server'"), "{text}");
        }
        let error = Args::try_parse_from(["bench", "mine", "--ratte", "1"]).expect_err("unknown");
        let text = mended(error, instead).to_string();
        assert!(text.contains("'--rate'"), "{text}");
    }
}
