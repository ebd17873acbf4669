//! The reference page of the command line, `docs/reference/bench.md`.

use clap::CommandFactory;
use stentor_usage::Page;

use crate::args::Args;

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from the command line itself: change the help texts in
     crates/bench. -->

# Commands of `stentor bench`

`stentor bench` measures servers: this one, or any other MQTT server. [Benchmarks](../benchmarks.md)
says what to do with it, and [Exit codes](exit-codes.md#stentor-bench) what its exit codes mean.

The commands are those of the program `stentor-bench`. `stentor bench` starts it, and passes
arguments, streams and signals on. It has to be in the folder of `stentor`, or in one of `PATH`. In
the sources of Stentor, `cargo build --release --package stentor-bench` builds it.

";

const COMMON: &str = "
## Common options

Most commands have these options, and name them in their section:

";

/// The page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut program = Args::command().bin_name("stentor bench");
    program.build();
    let mut page = Page::new(INTRODUCTION, &program, None);
    let shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in program.get_subcommands().filter(shown) {
        page.entry(command);
    }
    for command in program.get_subcommands().filter(shown) {
        page.section(command, 2);
    }
    page.say(COMMON);
    page.common_options();
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        // At run time: objects may be shared between checkouts, and this one is meant.
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        let path = format!("{crate_folder}/../../docs/reference/bench.md");
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == reference(),
            "{path} is out of date; run `cargo xtask gen`"
        );
    }
}
