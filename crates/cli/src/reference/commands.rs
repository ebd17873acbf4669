//! The reference page of all commands, `docs/reference/commands.md`, made from the command line
//! itself: `stentor man --markdown commands`.

use clap::Command;
use stentor_usage::Page;

/// What the commands are for, in the order of the page.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Run a server",
        &[
            "serve",
            "check-config",
            "config",
            "log",
            "reload",
            "stop",
            "hash-password",
        ],
    ),
    (
        "Look into a running server",
        &[
            "health",
            "status",
            "top",
            "figures",
            "clients",
            "sessions",
            "events",
            "trace",
            "ban",
            "why",
            "subscriptions",
            "certificates",
            "support-bundle",
            "console",
            "topics",
        ],
    ),
    (
        "Publish, subscribe and talk",
        &["pub", "sub", "rr", "send", "inbox", "room", "call"],
    ),
    (
        "Users, rights and zones",
        &[
            "user", "role", "grant", "revoke", "token", "zone", "auth", "import",
        ],
    ),
    ("Retained messages", &["retained", "history"]),
    ("Your own code", &["adaptor", "procedure"]),
    ("Tools", &["completions", "man", "bench"]),
];

/// The heading in `--help` of the options that several commands share.
const SHARED: &str = "Connection";

/// A command that has these options; the page takes them from there.
const SHARED_FROM: &str = "pub";

/// What `stentor-call --help` prints.
const CALL_HELP: &str = include_str!("../../../call/src/help.txt");

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from the command line itself: change the help texts in crates/cli
     and crates/call. -->

# Commands

Everything is a command of the program `stentor`. The small program
[`stentor-call`](#the-program-stentor-call) asks a server about a file. The program
[`stentor-bench`](bench.md) measures servers, and `stentor bench` starts it.

- **Help:** `stentor help` lists the commands, `stentor COMMAND --help` shows the options.
- **Manual pages:** `stentor man COMMAND` shows a page, `stentor man --dir DIR` writes them all.
- **Exit codes:** each command has 0 for success. [Exit codes](exit-codes.md) lists the others.

";

const SHARED_TEXT: &str = "
## Connection options

Commands that connect to a server as a client have these options. Without an address they ask the
server on `./data`, as administrator. With `-u` they use one of its listeners. If no server runs
there, they try `localhost`.

";

const COMMON_TEXT: &str = "
## Common options

Many commands have these options, and name them in their section:

";

const CALL_TEXT: &str = "
## The program `stentor-call`

It asks a procedure of a Stentor server about a file, and ends with the verdict as its exit code.
Mail servers start it for each message. For a server at `calls://` it starts the program
`stentor-call-tls`, which has to be in the same folder or in one of `PATH`.

";

/// The page.
pub(crate) fn page(cli: &Command) -> String {
    let mut page = Page::new(INTRODUCTION, cli, Some(SHARED));
    for (index, (title, names)) in GROUPS.iter().enumerate() {
        let space = if index == 0 { "" } else { "\n" };
        page.say(&format!("{space}**{title}**\n\n"));
        let commands = names.iter().filter_map(|name| cli.find_subcommand(name));
        commands.for_each(|command| page.entry(command));
    }
    for (title, names) in GROUPS {
        page.say(&format!("\n## {title}\n"));
        let commands = names.iter().filter_map(|name| cli.find_subcommand(name));
        commands.for_each(|command| page.section(command, 3));
    }
    page.say(SHARED_TEXT);
    if let Some(command) = cli.find_subcommand(SHARED_FROM) {
        page.shared_options(command);
    }
    page.say(COMMON_TEXT);
    page.common_options();
    page.say(CALL_TEXT);
    page.fence(CALL_HELP);
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    fn cli() -> Command {
        let mut cli = Cli::command();
        cli.build();
        cli
    }

    #[test]
    fn each_command_is_in_one_group() {
        let cli = cli();
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        for command in cli.get_subcommands().map(Command::get_name) {
            let count = listed.iter().filter(|name| **name == command).count();
            assert_eq!(count, usize::from(command != "help"), "{command}");
        }
        for name in listed {
            assert!(cli.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn options_that_are_shared_mean_the_same_everywhere() {
        let cli = cli();
        let from = cli.find_subcommand(SHARED_FROM).expect("there is one");
        let page = Page::new("", &cli, Some(SHARED));
        assert_eq!(page.unlike(&cli, from), Vec::<String>::new());
        // It compares something.
        let (serve, none) = (Command::new("serve"), Vec::<String>::new());
        assert_ne!(page.unlike(&cli, &serve), none);
    }
}
