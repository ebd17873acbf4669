//! `stentor log`: how much the log of the running server takes.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use stentor_control::log::{Level, LogLevel, Now, Show, Tail};
use stentor_server::config::parse_duration;

use super::table::duration;
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor log level debug --for 5m                     more lines, for 5 minutes
  stentor log level trace --target stentor_auth        of logins alone
  stentor log level configured                         back at once
  stentor log show                                     what holds now
  stentor log tail -n 20                               the last lines

The level goes back by itself, after an hour at the latest. `log.level` of the configuration changes
it for good.";

/// Changes how much the log takes, for a while.
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take another level for a while
    Level {
        /// The least important lines that are written
        #[arg(value_enum)]
        level: Word,
        /// Go back after this time, up to 1h
        #[arg(long = "for", value_name = "TIME", default_value = "10m",
              value_parser = parse_duration)]
        time: Duration,
        /// Only for lines of this part of the program, such as stentor_auth
        #[arg(long, value_name = "PART")]
        target: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Show the last lines of the log
    Tail {
        /// Show up to N lines
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: usize,
        #[command(flatten)]
        which: Which,
    },
    /// Show the level that holds
    Show {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Word {
    /// What went wrong
    Error,
    /// What looks wrong
    Warn,
    /// Events of connections
    Info,
    /// Details
    Debug,
    /// Everything
    Trace,
    /// What the configuration says, at once
    Configured,
}

impl Log {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Tail { lines, which } => {
                let told = which.tell(&Tail { lines: Some(lines) })?;
                told.print(|answer| {
                    let lines = answer.lines.iter();
                    lines.map(|line| format!("{}\n", shown(line))).collect()
                })
            }
            Command::Show { which } => which.tell(&Show {})?.print(text),
            Command::Level {
                level,
                time,
                target,
                which,
            } => {
                let level = match level {
                    Word::Error => Some(LogLevel::Error),
                    Word::Warn => Some(LogLevel::Warn),
                    Word::Info => Some(LogLevel::Info),
                    Word::Debug => Some(LogLevel::Debug),
                    Word::Trace => Some(LogLevel::Trace),
                    Word::Configured => None,
                };
                let told = which.tell(&Level {
                    level,
                    target,
                    for_secs: Some(time.as_secs()),
                })?;
                told.print(text)
            }
        }
    }
}

fn text(now: &Now) -> String {
    let left = now.left_secs.map(duration).unwrap_or_default();
    let (level, configured) = (shown(&now.level), shown(&now.configured));
    match (&now.target, &now.target_level, now.left_secs) {
        (Some(target), Some(of_target), Some(_)) => format!(
            "the log level is {level}, and {} for {} during the next {left}\n",
            shown(of_target),
            shown(target)
        ),
        (_, _, Some(_)) => {
            format!("the log level is {level} for the next {left}, then {configured} again\n")
        }
        _ => format!("the log level is {level}, as configured\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_for_how_long_a_level_holds() {
        let mut now = Now {
            configured: "info".into(),
            level: "info".into(),
            ..Now::default()
        };
        assert_eq!(text(&now), "the log level is info, as configured\n");
        now.left_secs = Some(90);
        now.level = "debug".into();
        let passing = "the log level is debug for the next 1m 30s, then info again\n";
        assert_eq!(text(&now), passing);
        (now.target, now.target_level) = (Some("stentor_auth".into()), Some("trace".into()));
        let part = "the log level is debug, and trace for stentor_auth during the next 1m 30s\n";
        assert_eq!(text(&now), part);
    }
}
