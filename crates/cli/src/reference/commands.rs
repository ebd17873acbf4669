//! The reference page of all commands, `docs/reference/commands.md`, made from the command line
//! itself: `stentor man --markdown commands`.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

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

/// An option that means the same in this many commands is explained once.
const COMMON_MIN: usize = 5;

/// What `stentor-call --help` prints.
const CALL_HELP: &str = include_str!("../../../call/src/help.txt");

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from the command line itself: change the help texts in crates/cli,
     crates/bench and crates/call. -->

# Commands

Everything is a command of the program `stentor`. The small program
[`stentor-call`](#the-program-stentor-call) asks a server about a file.

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
    let mut out = String::from(INTRODUCTION);
    for (title, names) in GROUPS {
        let _ = writeln!(out, "**{title}**\n");
        for command in names.iter().filter_map(|name| cli.find_subcommand(name)) {
            let name = command.get_name();
            let about = sentence(command.get_about().map(ToString::to_string));
            let _ = writeln!(out, "- [`{name}`](#stentor-{name}): {about}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    let common = common(cli);
    for (title, names) in GROUPS {
        let _ = write!(out, "\n## {title}\n");
        for command in names.iter().filter_map(|name| cli.find_subcommand(name)) {
            describe(command, "###", &common, &mut out);
        }
    }
    out.push_str(SHARED_TEXT);
    if let Some(command) = cli.find_subcommand(SHARED_FROM) {
        let shared = command.get_arguments().filter(|arg| is_shared(arg));
        table(&shared.map(row).collect::<Vec<_>>(), &mut out);
    }
    out.push_str(COMMON_TEXT);
    table(&common, &mut out);
    out.push_str(CALL_TEXT);
    fence(CALL_HELP, &mut out);
    out
}

/// The options that mean the same in many commands, in the order in which they appear.
fn common(cli: &Command) -> Vec<Row> {
    fn collect(command: &Command, rows: &mut Vec<(Row, usize)>) {
        for row in own(command).map(row) {
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, count)) => *count += 1,
                None => rows.push((row, 1)),
            }
        }
        let below = command.get_subcommands();
        below.for_each(|command| collect(command, rows));
    }
    let mut rows = Vec::new();
    collect(cli, &mut rows);
    let mut common: Vec<Row> = Vec::new();
    for (row, _) in rows.into_iter().filter(|(_, count)| *count >= COMMON_MIN) {
        // One name has one meaning in the table, and an argument without a name has none.
        let is_new = common.iter().all(|known| flag(known) != flag(&row));
        if is_new && flag(&row).starts_with("`-") {
            common.push(row);
        }
    }
    common
}

/// The option without its value.
fn flag(row: &Row) -> &str {
    let end = row[0].find(' ').unwrap_or(row[0].len());
    row[0][..end].trim_end_matches('`')
}

/// What a command takes, without help and the options of a connection.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    let arguments = command.get_arguments();
    arguments.filter(|arg| !arg.is_hide_set() && !is_shared(arg) && !is_help(arg))
}

/// A command, and then those below it.
fn describe(command: &Command, level: &str, common: &[Row], out: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = sentence(about.map(ToString::to_string));
    let _ = write!(out, "\n{level} `{name}`\n\n{}\n\n", wrapped(&about));
    let aliases: Vec<String> = command
        .get_visible_aliases()
        .map(|alias| format!("`{alias}`"))
        .collect();
    if !aliases.is_empty() {
        let _ = write!(out, "It is also called {}.\n\n", aliases.join(", "));
    }
    let usage = command.clone().render_usage().to_string();
    fence(usage.trim_start_matches("Usage:").trim(), out);
    let (everyones, own): (Vec<Row>, Vec<Row>) =
        own(command).map(row).partition(|row| common.contains(row));
    if !own.is_empty() {
        out.push('\n');
        table(&own, out);
    }
    if !everyones.is_empty() {
        let names = everyones.iter().map(|[name, ..]| name.as_str());
        let names = names.collect::<Vec<_>>().join("; ");
        let text = format!("[Common options](#common-options): {names}.");
        let _ = write!(out, "\n{}\n", wrapped(&text));
    }
    if command.get_arguments().any(is_shared) {
        out.push_str("\nThe [connection options](#connection-options) apply.\n");
    }
    if let Some(more) = command.get_after_help() {
        out.push('\n');
        fence(&more.to_string(), out);
    }
    for below in command.get_subcommands() {
        if !below.is_hide_set() && below.get_name() != "help" {
            describe(below, "####", common, out);
        }
    }
}

/// A table of arguments and options, with the defaults if there are any.
fn table(rows: &[Row], out: &mut String) {
    let has_defaults = rows.iter().any(|row| !row[1].is_empty());
    let (head, rule) = match has_defaults {
        true => ("| Option | Default | Meaning |", "|---|---|---|"),
        false => ("| Option | Meaning |", "|---|---|"),
    };
    let _ = writeln!(out, "{head}\n{rule}");
    for [name, default, meaning] in rows {
        let _ = match has_defaults {
            true => writeln!(out, "| {name} | {default} | {meaning} |"),
            false => writeln!(out, "| {name} | {meaning} |"),
        };
    }
}

/// The name, the default and the meaning.
type Row = [String; 3];

fn row(arg: &Arg) -> Row {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let value = match takes_value {
        true => arg.get_value_names().unwrap_or_default().join(" "),
        false => String::new(),
    };
    let mut names: Vec<String> = arg
        .get_short()
        .map(|c| format!("`-{c}`"))
        .into_iter()
        .collect();
    names.extend(arg.get_long().map(|long| match value.is_empty() {
        true => format!("`--{long}`"),
        false => format!("`--{long} {value}`"),
    }));
    if names.is_empty() {
        let dots = if arg
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1)
        {
            "..."
        } else {
            ""
        };
        names.push(format!("`{value}{dots}`"));
    } else if arg.get_long().is_none() && !value.is_empty() {
        names = vec![format!(
            "`-{} {value}`",
            arg.get_short().unwrap_or_default()
        )];
    }
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut default, mut meaning) = told_default(&help);
    if default.is_empty() && takes_value {
        let values = arg.get_default_values().iter();
        let values = values.filter(|value| !value.is_empty());
        default = values
            .map(|value| format!("`{}`", value.display()))
            .collect::<Vec<_>>()
            .join(" ");
    }
    if let Some(variable) = arg.get_env() {
        meaning.push_str(&format!(". Variable: `{}`", variable.display()));
    }
    let choices = choices(arg);
    if !choices.is_empty() && !meaning.is_empty() {
        meaning.push_str(": ");
    }
    meaning.push_str(&choices);
    [names.join(", "), default, meaning]
}

/// The default that a help text says in brackets, and the rest of it.
fn told_default(help: &str) -> (String, String) {
    let found = help.split_once(" [default: ");
    let split = found.and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    match split {
        Some((before, (default, after))) => (marked(default), marked(&format!("{before}{after}"))),
        None => (String::new(), marked(help)),
    }
}

/// The values that an option can have, where they are few.
fn choices(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values = arg.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    let names: Vec<String> = shown
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    match names.is_empty() || !takes_value {
        true => String::new(),
        false => names.join(", "),
    }
}

fn is_shared(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(SHARED) && !arg.is_hide_set() && !is_help(arg)
}

fn is_help(arg: &Arg) -> bool {
    let is_help = |id: &str| id == "help" || id == "version";
    is_help(arg.get_id().as_str())
}

/// A block of text that is shown as it is.
fn fence(text: &str, out: &mut String) {
    let _ = write!(out, "```text\n{}\n```\n", text.trim_end());
}

/// A text with a full stop, in one line.
fn sentence(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = if text.ends_with(['.', '?', '`']) {
        ""
    } else {
        "."
    };
    marked(&format!("{text}{end}"))
}

/// Text as Markdown: options become code, and signs that would mean something mean themselves.
fn marked(text: &str) -> String {
    let mut is_code = false;
    let words = text.split(' ').map(|word| {
        let was_code = is_code;
        if word.matches('`').count() % 2 == 1 {
            is_code = !is_code;
        }
        if was_code || is_code || word.contains('`') {
            return word.replace('|', "\\|");
        }
        let start = word.len() - word.trim_start_matches(['(', '[']).len();
        let body = &word[start..];
        let end = start + body.trim_end_matches([',', '.', ';', ':', ')', ']']).len();
        let core = &word[start..end];
        match is_code_word(core) {
            true => format!(
                "{}`{core}`{}",
                escaped(&word[..start]),
                escaped(&word[end..])
            ),
            false => escaped(word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Options, addresses, paths and variables of the environment.
fn is_code_word(word: &str) -> bool {
    let is_option = word.starts_with('-') && word.contains(char::is_alphabetic);
    let is_place = word.contains("://") || word.starts_with("./") || word.starts_with('/');
    let is_variable = word.contains('_') && !word.contains(char::is_lowercase);
    word.len() > 1 && (is_option || is_place || is_variable)
}

fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for sign in word.chars() {
        if matches!(sign, '|' | '<' | '>' | '*' | '[' | ']' | '_' | '$') {
            out.push('\\');
        }
        out.push(sign);
    }
    out
}

/// A paragraph in lines of up to 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
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
        fn check(command: &Command, shared: &[Row]) {
            for arg in command.get_arguments().filter(|arg| is_shared(arg)) {
                assert!(shared.contains(&row(arg)), "{} {arg}", command.get_name());
            }
            command
                .get_subcommands()
                .for_each(|below| check(below, shared));
        }
        let cli = cli();
        let from = cli.find_subcommand(SHARED_FROM).expect("there is one");
        let shared = from.get_arguments().filter(|arg| is_shared(arg));
        let shared: Vec<_> = shared.map(row).collect();
        assert!(shared.len() > 10);
        check(&cli, &shared);
    }

    #[test]
    fn help_becomes_markdown() {
        for (text, expected) in [
            ("needs -h or --unix; a|b", "needs `-h` or `--unix`; a\\|b"),
            ("the (--json) `x|y *` form", "the (`--json`) `x\\|y *` form"),
            ("[[policy]] - <NAME>", "\\[\\[policy\\]\\] - \\<NAME\\>"),
        ] {
            assert_eq!(marked(text), expected);
        }
        let (default, meaning) = told_default("Port [default: 1883, with TLS 8883]");
        assert_eq!((&*default, &*meaning), ("1883, with TLS 8883", "Port"));
    }
}
