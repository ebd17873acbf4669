//! All published workloads one after the other, with one table at the end.

mod summary;

use clap::{Args as ClapArgs, CommandFactory, FromArgMatches};
use serde_json::{Map, Value};

use crate::args::{Args, Command, Common};
use crate::error::BenchError;
use crate::mariadb::MariaDb;
use crate::measure;
use crate::measure::Verdict;
use crate::output::Output;
use crate::process;
use crate::progress::Progress;
use crate::report::json::Context;
use crate::report::{self, command};
use crate::session;
use crate::target::Needs;
use crate::wire::Version;
use crate::workload::Sheet;

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
    /// Servers that are started for the purpose, rivals too.
    Started,
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

const fn started(words: &'static str, whole: &'static str, quick: &'static str) -> Entry {
    Entry {
        words,
        whole,
        quick,
        reach: Reach::Started,
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
const CROWD: &str = "--clients 5000 --seconds 3 --warmup 1 --connect-rate 5000";

/// The published storm against the database that it was published with, or its successor.
const MARIADB: &str = "login ice-login --store mariadb";

/// In the order of the published documents.
const ENTRIES: [Entry; 20] = [
    own("login ice-login", "--pairs 8", "--pairs 1"),
    own(MARIADB, "--pairs 8", "--pairs 1 --proof token"),
    any(
        "subscribe ice-subscribe --topics both",
        "--pairs 5",
        "--pairs 1",
    ),
    any("fanout ice-1", PAIRS, SHORT),
    any("fanout ice-2", PAIRS, SHORT),
    any("fanout ice-2 --rate max", PAIRS, SHORT),
    any("fanout ice-1 --qos 1", PAIRS, SHORT),
    started(
        "fanout ice-1 --transport mqtts --transport ws --transport wss",
        PAIRS,
        SHORT,
    ),
    started("recover ice-last-tick", PAIRS, "--pairs 1"),
    own("call scope-2002", "", "--calls 100 --calls 1000"),
    own("private appwarp-light", "--clients 80000", LIGHT),
    own("private appwarp-medium", "--clients 30000", CROWD),
    own("private appwarp-heavy", "--clients 20000", CROWD),
    own(
        "private appwarp-heavy --adaptor",
        "--clients 10000 --pairs 3",
        "--clients 1000 --seconds 2 --warmup 1 --connect-rate 5000",
    ),
    own(
        "private --room",
        PAIRS,
        "--clients 1000 --seconds 2 --warmup 1",
    ),
    own(
        "private appwarp-heavy",
        "--ramp 10000",
        "--ramp 1000 --clients 3000 --seconds 2 --warmup 1",
    ),
    any("idle", PAIRS, "--pairs 1 --connections 3000"),
    any("idle --qos 1", PAIRS, "--pairs 1 --connections 3000"),
    started(
        "idle --transport mqtts --transport ws --transport wss",
        PAIRS,
        "--pairs 1 --connections 1000",
    ),
    any("pingpong", PAIRS, "--pairs 1 --seconds 1"),
];

/// Runs (or explains) the suite. The verdict is that of the worst workload.
///
/// # Errors
/// When the outputs cannot be written, or `--only` fits nothing. A workload that cannot run is a
/// verdict, and the others run.
pub(crate) fn run(args: &SuiteArgs) -> Result<Verdict, BenchError> {
    let common = &args.common;
    let missing_database = MariaDb::find().err();
    let lines = args.lines(missing_database.is_none())?;
    let explain = common.explain;
    let files = (!explain).then_some(&common.files);
    let mut output = Output::open(
        files.and_then(|files| files.json.as_deref()),
        files.and_then(|files| files.html.as_deref()),
        &common.inputs(),
    )?;
    if args.quick {
        output.mark_quick();
    }
    let mut progress = Progress::of(lines.iter().flat_map(|words| lengths_s(words)).collect());
    if let Some(why) = missing_database.filter(|_| args.wants(MARIADB)) {
        output.show(&format!("left out: {MARIADB}: {why}\n"))?;
    }
    let mut worst = Verdict::Sound;
    for words in &lines {
        let again = command::line(command::program(), words);
        let measured = parse(words)
            .and_then(|args| measure(&args.command, again.clone(), &mut output, &mut progress));
        let verdict = match measured {
            Ok(verdict) => verdict,
            Err(BenchError::NobodyReads) => return Err(BenchError::NobodyReads),
            Err(error) => {
                let why = error.to_string();
                output.show(&report::table::not_run(&again, &why))?;
                if !explain {
                    progress.count(lengths_s(words).len());
                    output.take(not_run(words, again, &why))?;
                }
                Verdict::NotRun(why)
            }
        };
        worst = worst.max(verdict);
    }
    if explain {
        return Ok(worst);
    }
    output.show(&summary::table(output.objects()))?;
    let found = report::found::sentence(output.objects());
    output.show(&format!("\n{found}\n"))?;
    output.finish()?;
    Ok(match (worst, missing(output.objects())) {
        (Verdict::NotRun(_), missing) => Verdict::NotRun(missing),
        (worst, _) => worst,
    })
}

/// About how many seconds each workload of a line takes; one if the line makes no sense, which
/// shows when it is run.
fn lengths_s(words: &[String]) -> Vec<f64> {
    let lengths_s = |args: Args| match &args.command {
        Command::Call(args) => Some(args.lengths_s()),
        command => session::lengths_s(command.scenario()?),
    };
    parse(words)
        .ok()
        .and_then(lengths_s)
        .unwrap_or_else(|| vec![1.0])
}

/// How many workloads could not be run, and which.
fn missing(objects: &[Value]) -> String {
    let is_missing = |object: &&Value| object["verdict"]["result"] == "not-run";
    let missing: Vec<&str> = objects
        .iter()
        .filter(is_missing)
        .filter_map(|object| object["command"].as_str())
        .collect();
    format!(
        "{} of {} workloads could not run: {}",
        missing.len(),
        objects.len(),
        missing.join("; ")
    )
}

/// The object of a command that came to no workload.
fn not_run(words: &[String], again: String, why: &str) -> Value {
    let descriptors = process::raise_descriptor_limit();
    let context = Context {
        machine: report::machine::describe(descriptors),
        command: again.clone(),
    };
    let name = ENTRIES.iter().find_map(|entry| {
        let name = entry.words.split_whitespace().next()?;
        (words.first().map(String::as_str) == Some(name)).then_some(name)
    });
    let sheet = Sheet {
        name: name.unwrap_or("suite"),
        title: again,
        parameters: Map::new(),
        floors: Vec::new(),
        needs: Needs::new(0, 0, Version::V311),
        pairs: 1,
        plan: Vec::new(),
        published: None,
        bars: Vec::new(),
    };
    report::json::not_run(&sheet, 0, &context, why)
}

impl SuiteArgs {
    /// Whether the user asks for this command, by name or with all the others.
    fn names(&self, words: &str) -> bool {
        let is_named = |only: &String| words.starts_with(only.as_str());
        self.only.is_empty() || self.only.iter().any(is_named)
    }

    /// Whether it can be run where there is what it needs: a target has not our accounts.
    fn wants(&self, words: &str) -> bool {
        self.common.target.is_none() && self.names(words)
    }

    /// The command lines, options included, on a machine with MariaDB or without it.
    fn lines(&self, has_mariadb: bool) -> Result<Vec<Vec<String>>, BenchError> {
        let foreign = self.common.target.is_some();
        let wanted = |entry: &&Entry| {
            let can_run = entry.words != MARIADB || has_mariadb;
            self.names(entry.words) && can_run && !(foreign && entry.reach != Reach::Any)
        };
        let lines: Vec<Vec<String>> = ENTRIES
            .iter()
            .filter(wanted)
            .map(|entry| self.line(entry))
            .collect();
        if lines.is_empty() && !has_mariadb && self.wants(MARIADB) {
            // The reason, unless it was installed at this moment.
            MariaDb::find()?;
        }
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
        let mut words: Vec<String> = [entry.words, more]
            .iter()
            .flat_map(|part| part.split_whitespace())
            .map(str::to_owned)
            .collect();
        if entry.words.starts_with("call") {
            words.extend(self.common.call_words());
        } else {
            if self.common.has_pairs() {
                // What the user says counts, and is said once.
                let at = words.iter().position(|word| word == "--pairs");
                at.map(|at| words.drain(at..at + 2));
            }
            let (target, rivals) = (entry.reach == Reach::Any, entry.reach != Reach::Own);
            words.extend(self.common.words(target, rivals));
        }
        words
    }
}

/// Reads one line; of an option that is given twice, the last counts.
fn parse(words: &[String]) -> Result<Args, BenchError> {
    let program = command::program().to_owned();
    let words = std::iter::once(&program).chain(words);
    let matches = Args::command()
        .args_override_self(true)
        .try_get_matches_from(words);
    matches
        .and_then(|matches| Args::from_arg_matches(&matches))
        .map_err(|e| BenchError::usage(e.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::LIST;

    #[derive(Parser)]
    struct Suite {
        #[command(flatten)]
        args: SuiteArgs,
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let words = ["suite"].iter().chain(words);
        let suite = Suite::try_parse_from(words).unwrap();
        let lines = suite.args.lines(true).unwrap();
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
                let command = &parsed.command;
                let is_call = line.starts_with("call");
                assert_eq!(command.scenario().is_some(), !is_call, "{line}");
            }
        }
    }

    /// What is said of the time left knows each workload: one number, from the beginning to the
    /// summary.
    #[test]
    fn a_short_suite_takes_about_five_minutes() {
        let suite = Suite::try_parse_from(["suite", "--quick"]).unwrap();
        let lines = suite.args.lines(true).unwrap();
        let all: Vec<f64> = lines.iter().flat_map(|words| lengths_s(words)).collect();
        let calls = lines.iter().find(|words| words[0] == "call").unwrap();
        assert_eq!(lengths_s(calls).len(), 2, "100 and 1,000 calls");
        assert_eq!(all.len(), 30);
        let seconds: f64 = all.iter().sum();
        assert!((200.0..420.0).contains(&seconds), "{seconds}: {all:?}");
    }

    /// A row that cannot be had is no reason to fail.
    #[test]
    fn without_mariadb_its_row_is_left_out() {
        let suite = Suite::try_parse_from(["suite"]).unwrap();
        let has_row = |has_mariadb| {
            let lines = suite.args.lines(has_mariadb).unwrap();
            let mut lines = lines.iter().map(|words| words.join(" "));
            lines.any(|line| line.contains("--store mariadb"))
        };
        assert!(has_row(true) && !has_row(false));
        assert!(suite.args.wants(MARIADB));
        for words in [
            ["suite", "--only", "idle"],
            ["suite", "--target", "mqtt://h"],
        ] {
            let suite = Suite::try_parse_from(words).unwrap();
            assert!(!suite.args.wants(MARIADB), "{words:?}");
        }
    }

    /// What the list says of the suite is so.
    #[test]
    fn the_list_names_what_the_suite_leaves_out() {
        let is_left_out = |name: &&str| {
            let line = [(*name).to_owned()];
            let is_scenario = parse(&line).is_ok_and(|it| it.command.scenario().is_some());
            is_scenario
                && !ENTRIES
                    .iter()
                    .any(|it| it.words.split(' ').next() == Some(*name))
        };
        let names = LIST.lines().filter_map(|line| line.split(' ').next());
        let left_out: Vec<&str> = names.filter(is_left_out).collect();
        let [first @ .., last] = left_out.as_slice() else {
            panic!("something is left out");
        };
        let told = format!("all of them but {} and {last},", first.join(", "));
        assert!(LIST.contains(&told), "{told}");
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
            assert!(line.starts_with("fanout ice-2"), "{line}");
            assert!(line.contains("--against rumqttd --pairs 2"), "{line}");
            // A shell takes it as it is.
            assert_eq!(line.matches("--pairs").count(), 1, "{line}");
        }
        // A foreign server has not our accounts.
        let foreign = lines(&["--target", "mqtt://h"]);
        assert!(
            !foreign.iter().any(|line| line.contains("login")),
            "{foreign:?}"
        );
    }
}
