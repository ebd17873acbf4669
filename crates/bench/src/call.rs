//! Workload B: a small program asks about a file and exits with the verdict, again and again.
//!
//! Each call is a process, a connection and a request. The same spawner starts, in turn and in one
//! run, a static C program that does nothing, one that makes a round trip to a canned answer (the
//! floor), `stentor-call`, and spamc where it is installed. Only `stentor-call` calls a server on
//! another machine.

pub(crate) mod canned;
mod object;
mod programs;
mod published;
mod remote;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Args as ClapArgs;
use nix::sys::resource::{UsageWho, getrusage};

use crate::affinity::Placement;
use crate::args::Files;
use crate::error::{BenchError, Doing};
use crate::measure::{Verdict, processors};
use crate::output::{Output, print};
use crate::process::{cpu_s, raise_descriptor_limit};
use crate::progress::Progress;
use crate::report::json::Context;
use crate::report::machine;
use crate::report::number::grouped;
use crate::stats::Spread;
use object::Load;
use programs::{Program, Stage};
use published::{CALLS, Measured};
use remote::Remote;

/// Calls of spamc, whose server takes a fifth of a second to judge, are as many times fewer.
const SPAMC_SHARE: u64 = 100;
/// How many turns a run is cut into, so that all programs meet the same moods of the machine.
const TURNS: u64 = 10;
/// Calls of each program before the clock starts: the first ones read the programs into memory and
/// wake the servers.
const WARM_UP: u64 = 5;
/// Seconds in which both servers start, and the floor is compiled.
const START_S: f64 = 1.0;
/// Seconds of one call by each of the programs.
const CALLS_S: f64 = 0.008;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// 100, 1,000 and 10,000 calls of /sizecheck, one after the other
    #[value(name = "scope-2002")]
    Scope2002,
}

/// Options of `stentor bench call`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CallArgs {
    /// Published parameters; each can be changed by the options below
    #[arg(value_enum, default_value = "scope-2002")]
    preset: Preset,
    /// How many calls one after the other; can be repeated [default: 100, 1000 and 10000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    calls: Vec<u64>,
    /// How many callers at once; can be repeated [default: 1; with `--callers 1 --callers 64` both]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64))]
    callers: Vec<u64>,
    /// The size of the spool file, in bytes
    #[arg(long, default_value_t = 4_096)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    message: u32,
    /// The client that is measured [default: as `make call` builds it, else beside this program]
    #[arg(long, value_name = "FILE")]
    client: Option<PathBuf>,
    /// Program to start as the server [default: the stentor that runs this command, else the one
    /// beside stentor-bench or on the PATH]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Where the servers and their callers run [default: apart; free with --target]
    #[arg(long, value_enum, conflicts_with = "target")]
    placement: Option<Placement>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Print what would run, and send nothing
    #[arg(long)]
    pub(crate) explain: bool,
}

/// In the order in which they were given first: what is given twice is measured once.
fn once_each(numbers: &[u64]) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let fresh = |number: &u64| seen.insert(*number);
    numbers.iter().copied().filter(fresh).collect()
}

impl CallArgs {
    /// The programs that are started.
    pub(crate) fn inputs(&self) -> Vec<&Path> {
        let files = [&self.client, &self.server].into_iter().flatten();
        files
            .map(PathBuf::as_path)
            .chain(self.remote.inputs())
            .collect()
    }

    fn placement(&self) -> Placement {
        let usual = match self.remote.target() {
            Some(_) => Placement::Free,
            None => Placement::Apart,
        };
        self.placement.unwrap_or(usual)
    }

    fn calls(&self) -> Vec<u64> {
        let Preset::Scope2002 = self.preset;
        match self.calls.as_slice() {
            [] => vec![100, 1_000, 10_000],
            calls => once_each(calls),
        }
    }

    fn callers(&self) -> Vec<u64> {
        match self.callers.as_slice() {
            [] => vec![1],
            callers => once_each(callers),
        }
    }

    /// About how many seconds each of its workloads takes.
    pub(crate) fn lengths_s(&self) -> Vec<f64> {
        let calls = self.calls();
        let once = |_| calls.iter().map(|calls| START_S + *calls as f64 * CALLS_S);
        self.callers().into_iter().flat_map(once).collect()
    }

    fn explain(&self) -> String {
        let counts = |counts: Vec<u64>| {
            let texts: Vec<String> = counts.iter().map(|n| grouped(*n as f64)).collect();
            texts.join(", ")
        };
        let servers = match self.remote.target() {
            Some(target) => format!("compile a program that does nothing, call {target} once"),
            None => "compile the floor, start both servers".to_owned(),
        };
        let programs = match self.remote.target() {
            Some(_) => "stentor-call by the network",
            None => {
                "a bare round trip (the floor), stentor-call, each by Unix socket and by TCP, and \
                 spamc if installed"
            }
        };
        format!(
            "scope-2002: {} calls of /sizecheck, {} at once\n  \
             1. write a spool file of {} B, {servers}\n  \
             2. call {WARM_UP} times with each program, uncounted\n  \
             3. start a process for each call, wait for its exit code, start the next\n  \
             4. the same in {TURNS} turns for: a program that does nothing, {programs}\n",
            counts(self.calls()),
            counts(self.callers()),
            grouped(f64::from(self.message)),
        )
    }
}

/// What one program came to.
#[derive(Clone, Debug, Default)]
struct Figures {
    calls: u64,
    failed: u64,
    wall_s: f64,
    client_cpu_s: f64,
    server_cpu_s: f64,
}

impl Figures {
    fn sum(turns: &[Self]) -> Self {
        let mut all = Self::default();
        for turn in turns {
            all.calls += turn.calls;
            all.failed += turn.failed;
            all.wall_s += turn.wall_s;
            all.client_cpu_s += turn.client_cpu_s;
            all.server_cpu_s += turn.server_cpu_s;
        }
        all
    }

    fn us_per_call(&self) -> f64 {
        self.wall_s * 1e6 / self.calls.max(1) as f64
    }
}

/// Measures; the verdict is sound if every call passed.
///
/// # Errors
/// When a server does not start, or the floor cannot be compiled.
pub(crate) fn run(
    args: &CallArgs,
    command: String,
    output: &mut Output,
    progress: &mut Progress,
) -> Result<Verdict, BenchError> {
    if args.explain {
        return print(&args.explain()).map(|()| Verdict::Sound);
    }
    let context = Context {
        machine: machine::describe(raise_descriptor_limit()),
        command,
    };
    let line = machine::line();
    let placement = args.placement().here()?;
    let allotment = placement.allot()?;
    let stage = allotment.start(|| Stage::set(args))??;
    let _stay = allotment.generate()?;
    let mut text = format!("{line}\n");
    for note in &stage.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    if let Some(why) = &stage.not_run {
        text.push_str(&format!("spamc: NOT RUN: {why}\n"));
    }
    text.push_str(&format!("{}\n", placement.describe()));
    output.show(&text)?;
    let mut failed = 0;
    let mut measured = stage.measured();
    for callers in args.callers() {
        for calls in args.calls() {
            progress.stage(format!("call: {calls} calls, {callers} at once"));
            let turns = measure(&stage.programs, calls, callers, progress)?;
            progress.clear();
            failed += turns.iter().flatten().map(|turn| turn.failed).sum::<u64>();
            if callers == 1 {
                note(&mut measured, &stage.programs, &turns, calls);
            }
            let text = table(&stage.programs, &turns, calls, callers);
            let whole = progress.step();
            output.show(&format!("{whole}{text}  again: {}\n\n", context.command))?;
            let load = Load {
                calls,
                callers,
                message: args.message,
                placement,
                target: args.remote.target().map(ToString::to_string),
            };
            let mut object = object::of(&stage, &turns, &load, &context);
            object["processors"] = allotment.describe();
            output.take(object)?;
        }
    }
    output.show(&format!("{}\n", published::table(&measured)))?;
    if failed > 0 {
        return Ok(Verdict::Failed(format!("{failed} calls did not pass")));
    }
    Ok(Verdict::Sound)
}

/// Puts what a number of calls came to where it was published, if it was, and if all calls passed.
fn note(measured: &mut [Measured], programs: &[Program], all: &[Vec<Figures>], calls: u64) {
    let Some(at) = CALLS.iter().position(|published| *published == calls) else {
        return;
    };
    for (program, turns) in programs.iter().zip(all) {
        let sum = Figures::sum(turns);
        let own = measured.iter_mut().find(|own| own.program == program.name);
        if let Some(own) = own.filter(|_| sum.failed == 0) {
            own.sums[at] = Some((sum.wall_s, sum.client_cpu_s));
        }
    }
}

/// All programs in turn, this many calls of each, by this many callers at once; the turns of each.
fn measure(
    programs: &[Program],
    calls: u64,
    callers: u64,
    progress: &Progress,
) -> Result<Vec<Vec<Figures>>, BenchError> {
    progress.show("warm-up");
    for program in programs {
        turn(program, WARM_UP, 1)?;
    }
    let mut all = vec![Vec::new(); programs.len()];
    let turns = TURNS.min(calls / 10).max(1);
    for number in 1..=turns {
        progress.show(&format!("turn {number}/{turns}"));
        for (program, figures) in programs.iter().zip(&mut all) {
            let share = if program.name == "spamc" {
                SPAMC_SHARE
            } else {
                1
            };
            let calls = part(calls, number, turns) / share;
            figures.push(turn(program, calls.max(1), callers)?);
        }
    }
    Ok(all)
}

/// How many of all calls are made in a turn, so that the turns make all of them.
const fn part(calls: u64, turn: u64, turns: u64) -> u64 {
    calls * turn / turns - calls * (turn - 1) / turns
}

fn turn(program: &Program, calls: u64, callers: u64) -> Result<Figures, BenchError> {
    let server_cpu = || program.server.and_then(cpu_s).unwrap_or(0.0);
    let (server_before, client_before) = (server_cpu(), children_cpu_s()?);
    let (left, failed) = (AtomicU64::new(calls), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..callers.min(calls) {
            scope.spawn(|| {
                let take = |left: u64| left.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    if !passes(program) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(Figures {
        calls,
        failed: failed.into_inner(),
        wall_s: start.elapsed().as_secs_f64(),
        client_cpu_s: children_cpu_s()? - client_before,
        server_cpu_s: server_cpu() - server_before,
    })
}

/// One call. The standard library starts processes by posix_spawn.
fn passes(program: &Program) -> bool {
    let command = program.call().and_then(|mut command| {
        let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
        silent.status()
    });
    command.is_ok_and(|status| program.is_answer(status))
}

/// CPU seconds of all processes that were waited for.
fn children_cpu_s() -> Result<f64, BenchError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).doing("read the time of children")?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// How much longer a program takes than another one, turn by turn. A call that fails may be over
/// soon: a turn with one measures neither.
fn ratio(programs: &[Program], all: &[Vec<Figures>], index: usize, to: &str) -> Option<Spread> {
    let base = programs.iter().position(|program| program.name == to)?;
    let each = |turn: &Figures| (turn.failed == 0).then(|| turn.us_per_call());
    let pairs = all[index].iter().zip(&all[base]);
    Spread::of_ratios(pairs.map(|(own, base)| (each(own), each(base)))).filter(|_| base != index)
}

/// The floor that a program is compared with.
fn floor_of(name: &str) -> &'static str {
    match name {
        "stentor-call, Unix" => "floor, Unix",
        "stentor-call, TCP" | "stentor-call, TLS" | "spamc" => "floor, TCP",
        _ => "",
    }
}

/// The sums of each program. A call that fails may be over soon: a program with one has no figures.
fn table(programs: &[Program], all: &[Vec<Figures>], calls: u64, callers: u64) -> String {
    let mut text = format!(
        "{calls} calls, {callers} at once, each a process (posix_spawn); ratios: median \
         (lowest-highest) of the turns\n\
         {:<20} {:>8} {:>9} {:>9} {:>9} {:>11} {:>11} {:>6} {:>10} {:>17} {:>9}\n",
        "",
        "calls",
        "wall s",
        "calls/s",
        "us/call",
        "client us",
        "server us",
        "CPU",
        "of machine",
        "x floor",
        "x nothing"
    );
    for (index, (program, turns)) in programs.iter().zip(all).enumerate() {
        let figures = Figures::sum(turns);
        if figures.failed > 0 {
            text.push_str(&format!(
                "{:<20} {:>8}  {} FAILED: no measure\n",
                program.name, figures.calls, figures.failed
            ));
            continue;
        }
        let calls = figures.calls.max(1) as f64;
        let to_floor = ratio(programs, all, index, floor_of(program.name));
        let to_floor = to_floor.map_or(String::new(), |ratio| {
            let Spread { median, low, high } = ratio;
            format!("{median:.2} ({low:.2}-{high:.2})")
        });
        let to_nothing = ratio(programs, all, index, "nothing");
        let to_nothing = to_nothing.map_or(String::new(), |ratio| format!("{:.2}", ratio.median));
        let server = |figure: String| program.server.map_or(String::new(), |_| figure);
        let share = figures.server_cpu_s / figures.wall_s * 100.0;
        let of_machine = share / processors();
        text.push_str(&format!(
            "{:<20} {:>8} {:>9.3} {:>9.0} {:>9.1} {:>11.1} {:>11} {:>6} {:>10} {:>17} {:>9}\n",
            program.name,
            figures.calls,
            figures.wall_s,
            calls / figures.wall_s,
            figures.us_per_call(),
            figures.client_cpu_s * 1e6 / calls,
            server(format!("{:.1}", figures.server_cpu_s * 1e6 / calls)),
            server(format!("{share:.0} %")),
            server(format!("{of_machine:.0} %")),
            to_floor,
            to_nothing,
        ));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(turns: &[(f64, u64)]) -> Vec<Figures> {
        let figures = turns.iter().map(|&(wall_s, failed)| Figures {
            calls: 10,
            failed,
            wall_s,
            ..Figures::default()
        });
        figures.collect()
    }

    /// A floor and a program for each transport, whose calls take this many seconds and fail so
    /// often.
    fn stage() -> (Stage, Vec<Vec<Figures>>) {
        let each = [
            ("floor, Unix", figures(&[(1.0, 0), (1.0, 0)])),
            ("stentor-call, Unix", figures(&[(2.0, 0), (0.1, 7)])),
            ("floor, TCP", figures(&[(4.0, 0), (4.0, 0)])),
            ("stentor-call, TCP", figures(&[(12.0, 0), (12.0, 0)])),
        ];
        let (names, turns): (Vec<_>, Vec<_>) = each.into_iter().unzip();
        let programs = names.into_iter().map(Program::nothing).collect();
        (Stage::of(programs), turns)
    }

    #[test]
    fn a_turn_that_failed_is_no_measure() {
        let (stage, turns) = stage();
        let median = |index, base| {
            let ratio = ratio(&stage.programs, &turns, index, base);
            ratio.map(|ratio| ratio.median)
        };
        assert_eq!(median(1, "floor, Unix"), Some(2.0));
        assert_eq!(median(0, "stentor-call, Unix"), Some(0.5));
        assert_eq!(median(3, "floor, TCP"), Some(3.0));
        let table = table(&stage.programs, &turns, 20, 1);
        let line = table
            .lines()
            .find(|line| line.contains("stentor-call, Unix"));
        let words: Vec<&str> = line.expect("it is there").split_whitespace().collect();
        assert_eq!(
            words[2..],
            ["20", "7", "FAILED:", "no", "measure"],
            "{table}"
        );
    }

    #[test]
    fn each_transport_has_its_own_floor() {
        let (mut stage, turns) = stage();
        stage.not_run = Some("no score".into());
        let load = Load {
            calls: 20,
            callers: 1,
            message: 1,
            placement: Placement::Together,
            target: None,
        };
        let context = Context {
            machine: serde_json::Value::Null,
            command: String::new(),
        };
        let object = object::of(&stage, &turns, &load, &context);
        assert_eq!(object["verdict"]["result"], "failed", "7 of them");
        assert_eq!(object["ratio"]["call_us"]["median"], 2.0, "{object}");
        let [floor, failed] = [0, 1].map(|index| &object["programs"][index]);
        assert_eq!(floor["wall_s"], 2.0, "{floor}");
        assert_eq!(failed["failed"], 7, "{failed}");
        for figure in ["wall_s", "calls_per_s", "s_per_call", "client_cpu_s"] {
            assert!(failed[figure].is_null(), "{failed}");
        }
        let date = object["measured_at"].as_str().expect("a date");
        assert!(date.starts_with("20") && date.ends_with('Z'), "{date}");
        let [tcp, spamc] = [0, 1].map(|index| &object["rivals"][index]);
        assert_eq!(tcp["ratio"]["call_us"]["median"], 3.0, "{tcp}");
        assert_eq!(spamc["verdict"]["result"], "not-run", "{spamc}");
        assert_eq!(spamc["verdict"]["why"], "no score");
    }

    #[test]
    fn what_is_given_twice_is_measured_once() {
        assert_eq!(once_each(&[10, 100, 10, 100]), [10, 100]);
    }

    #[test]
    fn all_calls_are_made() {
        for (calls, turns) in [(10, 1), (105, 10), (1_000, 10), (19, 1), (999_999, 10)] {
            let made: u64 = (1..=turns).map(|turn| part(calls, turn, turns)).sum();
            assert_eq!(made, calls);
        }
    }
}
