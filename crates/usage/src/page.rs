//! A page of the reference, made from the command line itself.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// An option that means the same in this many commands is explained once.
const COMMON_MIN: usize = 5;

/// The deepest heading: commands below commands below commands share it.
const LEVEL_MAX: usize = 4;

/// A page of Markdown about commands. Its methods add to it, in the order of the page.
///
/// An option that means the same in five commands or more is one of the common options: the section
/// of a command only names it. The commands have to be built ([`Command::build`]), so that each
/// knows its whole name.
#[derive(Debug)]
pub struct Page {
    text: String,
    /// The heading in `--help` of options that several commands share, if there are any.
    shared: Option<&'static str>,
    common: Vec<Row>,
}

impl Page {
    /// A page about the commands of `cli` that begins with this text. The options below the heading
    /// `shared` in `--help` are left out of the sections: [`Page::shared_options`] explains them.
    #[must_use]
    pub fn new(introduction: &str, cli: &Command, shared: Option<&'static str>) -> Self {
        let mut page = Self {
            text: introduction.to_owned(),
            shared,
            common: Vec::new(),
        };
        page.common = page.common(cli);
        page
    }

    /// Adds Markdown as it is.
    pub fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a line of a list: the name of a command, with a link to its section, and what it does.
    pub fn entry(&mut self, command: &Command) {
        let (name, anchor) = (command.get_name(), whole_name(command).replace(' ', "-"));
        let about = sentence(command.get_about().map(ToString::to_string));
        let _ = writeln!(self.text, "- [`{name}`](#{anchor}): {about}");
    }

    /// Adds the section of a command under a heading of this level, 1 to 4, and then those of the
    /// commands below it.
    pub fn section(&mut self, command: &Command, level: usize) {
        let (heading, name) = ("#".repeat(level), whole_name(command));
        let about = command.get_long_about().or_else(|| command.get_about());
        let about = sentence(about.map(ToString::to_string));
        let about = wrapped(&about);
        let _ = write!(self.text, "\n{heading} `{name}`\n\n{about}\n\n");
        let aliases: Vec<String> = command
            .get_visible_aliases()
            .map(|alias| format!("`{alias}`"))
            .collect();
        if !aliases.is_empty() {
            let _ = write!(self.text, "It is also called {}.\n\n", aliases.join(", "));
        }
        let usage = command.clone().render_usage().to_string();
        self.fence(usage.trim_start_matches("Usage:").trim());
        self.options(command);
        if let Some(more) = command.get_after_help() {
            self.text.push('\n');
            self.fence(&more.to_string());
        }
        for below in command.get_subcommands() {
            if is_described(below) {
                self.section(below, LEVEL_MAX.min(level + 1));
            }
        }
    }

    /// Adds a table of the options that several commands share, as `from` has them.
    pub fn shared_options(&mut self, from: &Command) {
        let shared = from.get_arguments().filter(|arg| self.is_shared(arg));
        let rows: Vec<Row> = shared.map(row).collect();
        table(&rows, &mut self.text);
    }

    /// Adds a table of the options that mean the same in many commands.
    pub fn common_options(&mut self) {
        table(&self.common, &mut self.text);
    }

    /// Adds a block of text that is shown as it is.
    pub fn fence(&mut self, text: &str) {
        let _ = write!(self.text, "```text\n{}\n```\n", text.trim_end());
    }

    /// The page, as Markdown.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }

    /// The shared options of `command` and those below it that `from` has not, or not with the same
    /// meaning: a page cannot explain them once for all.
    #[must_use]
    pub fn unlike(&self, command: &Command, from: &Command) -> Vec<String> {
        let known: Vec<Row> = from
            .get_arguments()
            .filter(|arg| self.is_shared(arg))
            .map(row)
            .collect();
        let shared = command.get_arguments().filter(|arg| self.is_shared(arg));
        let unlike = shared.filter(|arg| !known.contains(&row(arg)));
        let mut unlike: Vec<String> = unlike
            .map(|arg| format!("{} {arg}", whole_name(command)))
            .collect();
        let below = command.get_subcommands();
        unlike.extend(below.flat_map(|below| self.unlike(below, from)));
        unlike
    }

    /// The options of a section: those of the command, then the names of those explained elsewhere.
    fn options(&mut self, command: &Command) {
        let rows = self.own(command).map(row);
        let (everyones, own): (Vec<Row>, Vec<Row>) =
            rows.partition(|row| self.common.contains(row));
        if !own.is_empty() {
            self.text.push('\n');
            table(&own, &mut self.text);
        }
        if !everyones.is_empty() {
            let names = everyones.iter().map(|[name, ..]| name.as_str());
            let names = names.collect::<Vec<_>>().join("; ");
            let text = format!("[Common options](#common-options): {names}.");
            let _ = write!(self.text, "\n{}\n", wrapped(&text));
        }
        if command.get_arguments().any(|arg| self.is_shared(arg)) {
            let told = "\nThe [connection options](#connection-options) apply.\n";
            self.text.push_str(told);
        }
    }

    /// The options that mean the same in many commands, in the order in which they appear.
    fn common(&self, cli: &Command) -> Vec<Row> {
        let mut rows = Vec::new();
        self.count(cli, &mut rows);
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

    /// Counts the options of a command and of those below it.
    fn count(&self, command: &Command, rows: &mut Vec<(Row, usize)>) {
        for row in self.own(command).map(row) {
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, count)) => *count += 1,
                None => rows.push((row, 1)),
            }
        }
        let below = command.get_subcommands();
        below.for_each(|command| self.count(command, rows));
    }

    /// What a command takes, without help and the options that several commands share.
    fn own<'a>(&self, command: &'a Command) -> impl Iterator<Item = &'a Arg> + use<'a> {
        let shared = self.shared;
        let arguments = command.get_arguments();
        arguments.filter(move |arg| !arg.is_hide_set() && !is_below(arg, shared) && !is_help(arg))
    }

    fn is_shared(&self, arg: &Arg) -> bool {
        is_below(arg, self.shared) && !arg.is_hide_set() && !is_help(arg)
    }
}

/// Whether an argument stands below this heading in `--help`.
fn is_below(arg: &Arg, heading: Option<&str>) -> bool {
    heading.is_some() && arg.get_help_heading() == heading
}

/// The command with the program's name and those of the commands above it.
fn whole_name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Whether a command has a section.
fn is_described(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The option without its value.
fn flag(row: &Row) -> &str {
    let end = row[0].find(' ').unwrap_or(row[0].len());
    row[0][..end].trim_end_matches('`')
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

fn is_help(arg: &Arg) -> bool {
    let is_help = |id: &str| id == "help" || id == "version";
    is_help(arg.get_id().as_str())
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

    fn option(name: &'static str) -> Arg {
        let option = Arg::new(name).long(name).value_name("X");
        option.help(format!("The {name}"))
    }

    /// Six commands with an option that all of them have, one that all share, and one of their own.
    fn program() -> Command {
        let names = ["one", "two", "three", "four", "five", "six"];
        let commands = names.map(|name| {
            let command = Command::new(name).about(format!("Does {name}"));
            let host = option("host").help_heading("Connection");
            command.arg(option("all")).arg(option(name)).arg(host)
        });
        let hidden = Command::new("hidden").hide(true);
        let mut program = Command::new("p").subcommand(hidden);
        program = program.subcommands(commands);
        program.build();
        program
    }

    #[test]
    fn what_many_have_is_explained_once() {
        let program = program();
        let two = program.find_subcommand("two").expect("there is one");
        let mut page = Page::new("# P\n", &program, Some("Connection"));
        page.entry(two);
        page.section(two, 2);
        page.shared_options(two);
        page.common_options();
        let text = page.finish();
        for part in [
            "# P\n- [`two`](#p-two): Does two.\n\n## `p two`\n\nDoes two.\n",
            "```text\np two [OPTIONS]\n```\n",
            "| `--two X` | The two |\n\n[Common options](#common-options): `--all X`.\n",
            "The [connection options](#connection-options) apply.\n",
            "| `--host X` | The host |\n",
            "| `--all X` | The all |\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(text.matches("The all").count(), 1, "{text}");
        let mut page = Page::new("", &program, None);
        page.section(&program, 3);
        let text = page.finish();
        assert!(text.contains("\n#### `p six`\n"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn a_shared_option_with_another_meaning_is_found() {
        let program = program();
        let two = program.find_subcommand("two").expect("there is one");
        let page = Page::new("", &program, Some("Connection"));
        assert_eq!(page.unlike(&program, two), Vec::<String>::new());
        let other = option("host").help("Another host");
        let mut odd = Command::new("odd").arg(other.help_heading("Connection"));
        odd.build();
        assert_eq!(page.unlike(&odd, two), ["odd --host <X>"]);
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
