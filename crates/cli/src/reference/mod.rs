//! Pages of the reference that the command line knows best: `stentor man --markdown`.

mod commands;
mod exit_codes;

use clap::{Command, ValueEnum};

/// The pages.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Page {
    Commands,
    ExitCodes,
}

impl Page {
    /// The page as Markdown.
    pub(crate) fn text(self, cli: &Command) -> String {
        match self {
            Self::Commands => commands::page(cli),
            Self::ExitCodes => exit_codes::page(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_pages_in_docs_are_up_to_date() {
        let mut cli = Cli::command();
        cli.build();
        // At run time: objects may be shared between checkouts, and this one is meant.
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        for page in Page::value_variants() {
            let name = page.to_possible_value().expect("each has a name");
            let path = format!("{crate_folder}/../../docs/reference/{}.md", name.get_name());
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let is_up_to_date = found == page.text(&cli);
            assert!(
                is_up_to_date,
                "{path} is out of date; run `cargo xtask gen`"
            );
        }
    }
}
