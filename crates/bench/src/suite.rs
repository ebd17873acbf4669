//! All published workloads one after the other, with one table at the end.

mod summary;

use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser};

use crate::args::{Args, Common};
use crate::error::BenchError;
use crate::measure;
use crate::measure::Verdict;
use crate::output::{Output, print};
use crate::progress::Progress;
use crate::report::command;

/// Which workloads, and against whom.
#[derive(Debug, ClapArgs)]
pub(crate) struct SuiteArgs {
    /// Short: under five minutes, one pair each; the figures are noisy
    #[arg(long)]
    quick: bool,
    /// Only workloads whose command begins with this, as in "fanout ice-1" (repeatable)
    #[arg(long, value_name = "COMMAND")]
    only: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// What a workload can be run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Any MQTT server.
    Any,
    /// This project's server alone, in its own process: accounts, restarts, calls.
    Own,
}

/// One command of the suite.
struct Entry {
    words: &'static str,
    /// What makes it whole.
    whole: &'static str,
    /// What makes it short.
    quick: &'static str,
    reach: Reach,
}

const fn any(words: &'static str, whole: &'static str, quick: &'static str) -> Entry {
    Entry {
        words,
        whole,
        quick,
        reach: Reach::Any,
    }
}

const fn own(words: &'static str, whole: &'static str, quick: &'static str) -> Entry {
    Entry {
        words,
        whole,
        quick,
        reach: Reach::Own,
    }
}

const PAIRS: &str = "--pairs 3";
const SHORT: &str = "--pairs 1 --seconds 3 --warmup 1";
const LIGHT: &str = "--clients 10000 --seconds 3 --warmup 1";
const CROWD: &str = "--clients 5000 --seconds 3 --warmup 1";

/// In the order of the published documents.
const ENTRIES: [Entry; 15] = [
    own("login ice-login", "--pairs 5", "--pairs 1"),
    any(
        "subscribe ice-subscribe --topics both",
        "--pairs 5",
        "--pairs 1",
    ),
    any("fanout ice-1", PAIRS, SHORT),
    any("fanout ice-2", PAIRS, SHORT),
    any("fanout ice-2 --rate max", PAIRS, SHORT),
    any("fanout ice-1 --qos 1", PAIRS, SHORT),
    own(
        "fanout ice-1 --transport mqtts --transport ws --transport wss",
        PAIRS,
        SHORT,
    ),
    own("recover ice-last-tick", PAIRS, "--pairs 1"),
    own("call scope-2002", "", "--calls 100 --calls 1000"),
    own("private appwarp-light", "--clients 80000", LIGHT),
    own("private appwarp-medium", "--clients 30000", CROWD),
    own("private appwarp-heavy", "--clients 20000", CROWD),
    any("idle", PAIRS, "--pairs 1 --connections 3000"),
    own(
        "idle --transport mqtts --transport ws --transport wss",
        PAIRS,
        "--pairs 1 --connections 1000",
    ),
    any("pingpong", PAIRS, "--pairs 1 --seconds 1"),
];

/// A command line by itself.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Runs (or explains) the suite. The verdict is that of the worst workload.
///
/// # Errors
/// When the outputs cannot be written, when `--only` fits nothing, and in the end when a workload
/// could not run: the others have run then, and their results are written.
pub(crate) fn run(args: &SuiteArgs) -> Result<Verdict, BenchError> {
    let common = &args.common;
    let lines = args.lines()?;
    let explain = common.explain;
    let files = (!explain).then_some(&common.files);
    let mut output = Output::open(
        files.and_then(|files| files.json.as_deref()),
        files.and_then(|files| files.html.as_deref()),
    )?;
    let mut progress = Progress::new();
    let mut worst = Verdict::Sound;
    let mut failures = Vec::new();
    for (number, words) in lines.iter().enumerate() {
        let again = command::line(words);
        progress.part(format!("[{}/{}] ", number + 1, lines.len()));
        match parse(words).and_then(|line| {
            measure(
                &line.args.command,
                again.clone(),
                &mut output,
                &mut progress,
            )
        }) {
            Ok(verdict) => worst = worst.max(verdict),
            Err(error) => {
                print(&format!("\n{again}\n  could not run: {error}\n"))?;
                failures.push(again);
            }
        }
    }
    if explain {
        return Ok(Verdict::Sound);
    }
    print(&summary::table(output.objects()))?;
    output.finish()?;
    match (&worst, failures.as_slice()) {
        // What was measured and found wanting outranks what was not measured.
        (Verdict::Failed(_), _) | (_, []) => Ok(worst),
        (_, failures) => Err(BenchError::server(format!(
            "{} of {} workloads could not run: {}",
            failures.len(),
            lines.len(),
            failures.join("; ")
        ))),
    }
}

impl SuiteArgs {
    /// The command lines, options included.
    fn lines(&self) -> Result<Vec<Vec<String>>, BenchError> {
        let foreign = self.common.target.is_some();
        let wanted = |entry: &&Entry| {
            let is_named = |only: &String| entry.words.starts_with(only.as_str());
            let is_wanted = self.only.is_empty() || self.only.iter().any(is_named);
            is_wanted && !(foreign && entry.reach == Reach::Own)
        };
        let lines: Vec<Vec<String>> = ENTRIES
            .iter()
            .filter(wanted)
            .map(|entry| self.line(entry))
            .collect();
        if lines.is_empty() {
            let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.words).collect();
            return Err(BenchError::usage(format!(
                "--only {} leaves nothing to run; there are: {}",
                self.only.join(" --only "),
                known.join("; ")
            )));
        }
        Ok(lines)
    }

    fn line(&self, entry: &Entry) -> Vec<String> {
        let more = if self.quick { entry.quick } else { entry.whole };
        let mut words: Vec<String> = ["bench", entry.words, more]
            .iter()
            .flat_map(|part| part.split_whitespace())
            .map(str::to_owned)
            .collect();
        if entry.words.starts_with("call") {
            words.extend(self.common.call_words());
        } else {
            words.extend(self.common.words(entry.reach == Reach::Any));
        }
        words
    }
}

/// Reads one line; of an option that is given twice, the last counts.
fn parse(words: &[String]) -> Result<Line, BenchError> {
    let matches = Line::command()
        .args_override_self(true)
        .try_get_matches_from(words);
    matches
        .and_then(|matches| Line::from_arg_matches(&matches))
        .map_err(|e| BenchError::usage(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Suite {
        #[command(flatten)]
        args: SuiteArgs,
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let words = ["suite"].iter().chain(words);
        let suite = Suite::try_parse_from(words).unwrap();
        let lines = suite.args.lines().unwrap();
        lines.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn every_line_is_a_command() {
        for words in [
            &["--quick"][..],
            &["--against", "mosquitto"],
            &["--explain"],
        ] {
            for line in lines(words) {
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                let parsed = parse(&words).unwrap_or_else(|e| panic!("{line}: {e}"));
                let command = &parsed.args.command;
                let is_call = line.starts_with("bench call");
                assert_eq!(command.scenario().is_some(), !is_call, "{line}");
            }
        }
    }

    #[test]
    fn options_reach_the_workloads_that_take_them() {
        let only = [
            "--only",
            "fanout ice-2",
            "--against",
            "rumqttd",
            "--pairs",
            "2",
        ];
        for line in lines(&only) {
            assert!(line.starts_with("bench fanout ice-2"), "{line}");
            assert!(line.contains("--against rumqttd --pairs 2"), "{line}");
        }
        // A foreign server has not our accounts.
        let foreign = lines(&["--target", "mqtt://h"]);
        assert!(
            !foreign.iter().any(|line| line.contains("login")),
            "{foreign:?}"
        );
    }
}
