//! The `stentor` command.

#![forbid(unsafe_code)]

mod accounts;
mod adaptor;
mod admin;
mod ask;
mod bench;
mod call;
mod check_config;
mod connect;
mod control;
mod failure;
mod file;
mod foreign;
mod format;
mod hash_password;
mod json;
mod lines;
mod output;
mod password;
mod payload;
mod private;
mod procedure;
mod property;
mod publish;
mod reference;
mod request;
mod retained;
mod room;
mod route;
mod scripts;
mod serve;
mod shell;
mod stop;
mod subscribe;
mod support;
mod time;
mod tips;
mod which;
mod why;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use stentor_usage::{mended, readable, show};

use failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  stentor serve --allow-anonymous              a server for this machine, with its data in ./data
  stentor sub -v -t 'sensors/#'                show what is published below sensors/
  stentor pub -t sensors/attic -m 21.5 -r      publish; the server keeps it as the last message
  stentor rr -t sum -e sum/answer -m '1 2'     send a request, and wait for the response
  stentor send -u alice bob 'hello'            a private message, for stentor inbox -u bob
  stentor status                               the state of the server
  stentor history sensors/attic --last 10      messages that a topic has had
  stentor why display sensors/attic            why `display` does not receive this topic
  stentor user add alice                       add a user; the command asks for the password
  stentor hash-password                        hash a password for the configuration

pub, sub and rr have the options of mosquitto's clients, and talk to any MQTT server. send, inbox
and call have them too, and need a Stentor server. Without a host these commands ask the server that
runs on --data-dir. The Unix user of that server needs no password.";

/// A communication server that speaks MQTT, and the commands that go with it.
#[derive(Debug, Parser)]
#[command(name = "stentor", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server
    Serve(Box<serve::Serve>),
    /// Check the configuration without starting a server
    CheckConfig(check_config::CheckConfig),
    /// Print a sample configuration file, the reference of all keys, what the running server runs
    /// with, or what a reload would change
    Config(check_config::Print),
    /// Publish messages
    #[command(disable_help_flag = true, disable_version_flag = true,
              after_help = failure::PUB_HELP)]
    #[command(args_override_self = true, allow_negative_numbers = true)]
    Pub(Box<publish::Pub>),
    /// Subscribe and print what arrives
    #[command(disable_help_flag = true, disable_version_flag = true,
              after_help = failure::SUB_HELP)]
    #[command(args_override_self = true, allow_negative_numbers = true)]
    Sub(Box<subscribe::Sub>),
    /// Publish a request and print the answer
    #[command(disable_help_flag = true, disable_version_flag = true,
              after_help = failure::RR_HELP)]
    #[command(args_override_self = true, allow_negative_numbers = true)]
    Rr(Box<request::Rr>),
    /// Send a private message to a user
    #[command(disable_help_flag = true, disable_version_flag = true,
              after_help = private::SEND_HELP)]
    Send(Box<private::Send>),
    /// Print the private messages that arrive
    #[command(disable_help_flag = true, disable_version_flag = true,
              after_help = private::INBOX_HELP)]
    Inbox(Box<private::Inbox>),
    /// Call a procedure
    #[command(disable_help_flag = true, disable_version_flag = true, after_help = call::HELP)]
    Call(Box<call::Call>),
    /// List, make, join and moderate rooms
    #[command(after_help = room::HELP)]
    Room(Box<room::Room>),
    /// Make, check, test and reload adaptors: your own code about what clients do
    #[command(after_help = adaptor::HELP)]
    Adaptor(adaptor::Adaptor),
    /// Make, check, test and list procedures: your own code that judges mails
    #[command(after_help = procedure::HELP)]
    Procedure(procedure::Procedure),
    /// Say whether the running server works and is ready for clients
    #[command(after_help = admin::health::HELP)]
    Health(admin::Health),
    /// Show the state of the running server
    Status(admin::Status),
    /// Show the state of the running server again and again, until Ctrl-C
    #[command(after_help = admin::top::HELP)]
    Top(admin::Top),
    /// Show what the figures of the server were, from an hour to two years ago
    #[command(after_help = admin::figures::HELP)]
    Figures(admin::Figures),
    /// List, show or disconnect the clients of the running server
    Clients(admin::Clients),
    /// List, show or end sessions that outlive their connections
    #[command(after_help = admin::sessions::HELP)]
    Sessions(admin::Sessions),
    /// Show what has happened to connections lately: logins, refusals, ends, losses and bans
    #[command(after_help = admin::events::HELP)]
    Events(admin::Events),
    /// Show the packets of some clients as they come and go
    #[command(after_help = admin::trace::HELP)]
    Trace(admin::Trace),
    /// Ban clients by client id, user, address or zone
    #[command(after_help = admin::ban::HELP)]
    Ban(admin::Bans),
    /// Say why a client does or does not receive messages of a topic, and what to do
    #[command(after_help = why::HELP)]
    Why(why::Why),
    /// Say who gets messages of a topic, and by which subscription
    #[command(after_help = admin::subscriptions::HELP)]
    Subscriptions(admin::Subscriptions),
    /// Show the certificates in use: names, issuers, days left
    #[command(after_help = admin::certificates::HELP)]
    Certificates(admin::Certificates),
    /// List topic filters and retained topics of the running server
    Topics(admin::Topics),
    /// List, change, copy and check retained messages, of a running server or of files
    Retained(Box<retained::Retained>),
    /// Print messages of a topic's history
    #[command(after_help = retained::HISTORY_HELP)]
    History(retained::History),
    /// Change how much the log of the running server takes, for a while
    #[command(after_help = admin::log::HELP)]
    Log(admin::Log),
    /// Put what is needed to help into one file: configuration without secrets, state, log
    #[command(after_help = support::HELP)]
    SupportBundle(support::SupportBundle),
    /// Print a link that logs a browser in as the owner of the running server, once
    #[command(after_help = admin::console::HELP)]
    Console(admin::Console),
    /// Make the running server read its configuration again
    Reload(admin::Reload),
    /// Stop the running server
    Stop(admin::Stop),
    /// Add, list, change and delete users
    User(accounts::User),
    /// Add, list, change and delete roles
    Role(accounts::Role),
    /// Give roles to a user
    Grant(accounts::Grant),
    /// Take roles from a user
    Revoke(accounts::Revoke),
    /// Make, list and revoke tokens for machines
    Token(accounts::Token),
    /// Add, list and remove zones
    Zone(accounts::Zone),
    /// Take over users, rights and settings of mosquitto
    Import(accounts::Import),
    /// Read users and rights again
    Auth(accounts::Auth),
    /// Hash a password for `password_hash` in the configuration
    HashPassword(hash_password::HashPassword),
    /// Print a script that completes these commands in a shell
    Completions(shell::Completions),
    /// Print or write the manual pages
    Man(shell::Man),
    /// Measure servers, by the program stentor-bench
    #[command(disable_help_flag = true, after_help = bench::HELP)]
    Bench(bench::Bench),
}

/// Commands about the server and its accounts, to which `--json` says that a program reads what
/// goes wrong. Others have it as a word of a message, or as a form of messages.
const FAIL_AS_JSON: [&str; 28] = [
    "health",
    "status",
    "top",
    "figures",
    "clients",
    "events",
    "trace",
    "ban",
    "why",
    "subscriptions",
    "certificates",
    "topics",
    "history",
    "log",
    "config",
    "support-bundle",
    "console",
    "reload",
    "user",
    "role",
    "grant",
    "revoke",
    "token",
    "zone",
    "import",
    "auth",
    "procedure",
    "adaptor",
];

/// Whether a program reads what goes wrong.
fn fails_as_json() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_one = arguments.next().is_some_and(|verb| {
        let verb = verb.to_str().unwrap_or_default();
        FAIL_AS_JSON.contains(&verb)
    });
    is_one && arguments.any(|argument| argument == "--json")
}

/// What comes before the command line is read.
fn prepare() {
    // What writes to a file says so if it cannot: the files of a stopped server are not left in the
    // middle of a change. Should this fail, nothing is worse than it was.
    let _ = stentor_server::survive_long_files();
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == "serve")
    {
        // First of all: a signal that comes while the command line and the configuration are read
        // waits for the server. Should this fail, the server says so when it tries again.
        let _ = stentor_server::block_signals();
    }
}

fn main() -> ExitCode {
    prepare();
    if let Some(arguments) = bench::asked(std::env::args_os()) {
        return bench::go_on(&arguments).report(false);
    }
    let arguments = property::join(std::env::args_os());
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        Err(error) => return refuse(&mended(error, tips::instead)),
    };
    let result = match command {
        Command::Serve(serve) => return serve.run(),
        Command::Bench(bench) => bench.run(),
        Command::CheckConfig(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Pub(command) => command.run(),
        Command::Sub(command) => command.run(),
        Command::Rr(command) => command.run(),
        Command::Send(command) => command.run(),
        Command::Inbox(command) => command.run(),
        Command::Call(command) => command.run(),
        Command::Room(command) => command.run(),
        Command::Adaptor(command) => command.run(),
        Command::Procedure(command) => command.run(),
        Command::Health(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Figures(command) => command.run(),
        Command::Clients(command) => command.run(),
        Command::Sessions(command) => command.run(),
        Command::Events(command) => command.run(),
        Command::Trace(command) => command.run(),
        Command::Ban(command) => command.run(),
        Command::Why(command) => command.run(),
        Command::Certificates(command) => command.run(),
        Command::Subscriptions(command) => command.run(),
        Command::Topics(command) => command.run(),
        Command::Retained(command) => command.run(),
        Command::History(command) => command.run(),
        Command::Log(command) => command.run(),
        Command::SupportBundle(command) => command.run(),
        Command::Console(command) => command.run(),
        Command::Reload(command) => command.run(),
        Command::Stop(command) => command.run(),
        Command::User(command) => command.run(),
        Command::Role(command) => command.run(),
        Command::Grant(command) => command.run(),
        Command::Revoke(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Zone(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Auth(command) => command.run(),
        Command::HashPassword(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    };
    result.map_or_else(
        |failure| failure.report(fails_as_json()),
        |()| ExitCode::SUCCESS,
    )
}

/// Says what is wrong with a command line, or shows the help that was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.exit_code() != 0 && fails_as_json() {
        let what = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".into(),
            _ => in_one_line(&readable(&error.to_string())),
        };
        return Failure::usage(what).report(true);
    }
    show(error);
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        code => ExitCode::from(u8::try_from(code).unwrap_or(2)),
    }
}

/// What a parser says is wrong, with its tips, but without how the command is used.
fn in_one_line(text: &str) -> String {
    let end = text
        .find("\n\nUsage:")
        .or_else(|| text.find("\n\nFor more"));
    let text = &text[..end.unwrap_or(text.len())];
    let text = text.strip_prefix("error:").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn what_a_parser_says_fits_into_one_line() {
        let refused = |words: &[&str]| match Cli::try_parse_from(words) {
            Ok(_) => panic!("{words:?} is understood"),
            Err(error) => in_one_line(&error.to_string()),
        };
        for (words, expected) in [
            (&["stentor", "user", "lst"][..], "'lst'"),
            (&["stentor", "user", "add"], "not provided: <NAME>"),
            (&["stentor", "user", "list", "--limt", "1"], "tip:"),
            (
                &["stentor", "zone", "add", "z", "--connections", "x"],
                "'x'",
            ),
        ] {
            let told = refused(words);
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("Usage") && !told.contains('\n'), "{told}");
            assert!(!told.starts_with("error"), "{told}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
