//! The object of one load of calls, as those of the other workloads are.

use serde_json::{Value, json};

use super::{Figures, Program, Stage, TURNS, floor_of, published, ratio};
use crate::affinity::Placement;
use crate::measure::{Leg, Metric, Unit, Verdict, push_cpu};
use crate::report::json::{self, Context};
use crate::runner::{Outcome, Results};
use crate::scenario::{count, named};
use crate::target::Needs;
use crate::wire::Version;
use crate::workload::{Published, Sheet, members};

const EACH: Metric = Metric::new("call_us", "per call", Unit::Micros).against_floor();
const RATE: Metric = Metric::new("calls_per_s", "calls/s", Unit::PerSecond);
const CLIENT: Metric = Metric::new("client_cpu_per_call_us", "client CPU/call", Unit::Micros);
const SERVER: Metric = Metric::new("server_cpu_per_call_us", "server CPU/call", Unit::Micros);

/// What was called how often.
pub(super) struct Load {
    pub(super) calls: u64,
    /// At once.
    pub(super) callers: u64,
    /// Bytes of the spool file.
    pub(super) message: u32,
    pub(super) placement: Placement,
    /// The server that was called, if it ran already.
    pub(super) target: Option<String>,
}

/// One object: `stentor-call` by Unix socket is what is measured, its bare round trip the floor.
/// Each of the others has a floor of its own transport. `programs` has the sums of each program
/// beside the spreads over the turns.
pub(super) fn of(stage: &Stage, turns: &[Vec<Figures>], load: &Load, context: &Context) -> Value {
    let sheet = sheet(load);
    let programs = &stage.programs;
    let results = results(stage, turns);
    let pairs = turns.first().map_or(0, Vec::len) as u32;
    let mut object = json::object(&sheet, &results, pairs, context);
    let sums: Vec<Figures> = turns.iter().map(|turns| Figures::sum(turns)).collect();
    let to = |index, base| ratio(programs, turns, index, base).map(|ratio| ratio.median);
    object["programs"] = programs
        .iter()
        .zip(&sums)
        .enumerate()
        .map(|(index, (program, sum))| {
            // A call that fails may be over soon.
            let measure = |figure: f64| (sum.failed == 0).then_some(figure);
            json!({
                "program": program.name,
                "calls": sum.calls,
                "failed": sum.failed,
                "wall_s": measure(sum.wall_s),
                "calls_per_s": measure(sum.calls as f64 / sum.wall_s),
                "s_per_call": measure(sum.wall_s / sum.calls.max(1) as f64),
                "client_cpu_s": measure(sum.client_cpu_s),
                "server_cpu_s": program.server.and_then(|_| measure(sum.server_cpu_s)),
                "to_floor": to(index, floor_of(program.name)),
                "to_nothing": to(index, "nothing"),
            })
        })
        .collect();
    object["set_ups"] = published::objects().into();
    object
}

/// What was measured, and what could not be.
fn results(stage: &Stage, turns: &[Vec<Figures>]) -> Results {
    let mut results = Results {
        floors: Vec::new(),
        servers: Vec::new(),
    };
    let programs = &stage.programs;
    for (program, turns) in programs.iter().zip(turns) {
        let outcome = Outcome {
            name: program.name.into(),
            identity: json!({ "command": program.command.join(" ") }),
            floor: Some(floor_of(program.name)),
            legs: turns.iter().map(|turn| Ok(leg(program, turn))).collect(),
        };
        match floor_of(program.name) {
            "" => results.floors.push(outcome),
            _ => results.servers.push(outcome),
        }
    }
    let missing = stage.not_run.iter().map(|why| Outcome {
        name: "spamc".into(),
        identity: Value::Null,
        floor: None,
        legs: vec![Err(Verdict::NotRun(why.clone()))],
    });
    results.servers.extend(missing);
    // The floor of what is measured comes first; doing nothing comes last.
    results.floors.sort_by_key(|floor| floor.name == "nothing");
    results
}

fn leg(program: &Program, turn: &Figures) -> Leg {
    let calls = turn.calls.max(1) as f64;
    let mut leg = Leg {
        failed: turn.failed,
        ..Leg::default()
    };
    // A call that fails may be over soon.
    if turn.failed > 0 {
        return leg;
    }
    leg.push(EACH, turn.us_per_call());
    leg.push(RATE, calls / turn.wall_s);
    leg.push(CLIENT, turn.client_cpu_s * 1e6 / calls);
    let server = program.server.map(|_| turn.server_cpu_s * 1e6 / calls);
    leg.push(SERVER, server);
    let used_s = program.server.map(|_| turn.server_cpu_s);
    push_cpu(&mut leg, used_s, turn.wall_s);
    leg
}

fn sheet(load: &Load) -> Sheet {
    let published = published::fastest_s(load.calls, load.target.is_some());
    let published = published.filter(|_| load.callers == 1);
    let calls = load.calls as f64;
    let place = load.target.as_ref();
    let place = place.map_or_else(String::new, |target| format!(" at {target}"));
    let mut parameters = members(json!({
        "calls": load.calls,
        "callers": load.callers,
        "message_bytes": load.message,
        "turns": TURNS,
    }));
    if let Some(target) = &load.target {
        parameters.insert("target".into(), target.as_str().into());
    }
    let sheet = Sheet {
        name: "call",
        title: format!(
            "{}: {} calls of /sizecheck{place}, {} at once, each a process",
            named("scope-2002", published.is_some()),
            count(load.calls),
            load.callers
        ),
        parameters,
        floors: Vec::new(),
        needs: Needs::new(0, 0, Version::V311),
        pairs: 1,
        plan: Vec::new(),
        published: published.map(|(seconds, source)| Published {
            source,
            figures: vec![
                ("call_us", seconds * 1e6 / calls),
                ("calls_per_s", calls / seconds),
            ],
            notes: vec![match load.target {
                Some(_) => {
                    "published: 10,000 calls in 188.05 s on the fastest machines, by network"
                }
                None => "published: 10,000 calls in 167.39 s on the fastest machine, loopback",
            }],
        }),
        bars: Vec::new(),
    };
    load.placement.mark(sheet)
}
