//! One command that measures: explained, or run, shown and written.

use serde_json::Value;

use crate::affinity::Placement;
use crate::args::Common;
use crate::error::BenchError;
use crate::measure::Verdict;
use crate::output::{Output, print};
use crate::process;
use crate::progress::Progress;
use crate::report;
use crate::report::json::Context;
use crate::runner::{self, Outcome, Results};
use crate::scenario::Scenario;
use crate::target::{Subject, Transport};
use crate::workload::Sheet;

/// Measures (or explains) one workload after the other; the worst verdict of the measured server.
///
/// # Errors
/// When the options make no sense together, or the output cannot be written. A workload that cannot
/// be run is a verdict.
pub(crate) fn run(
    scenario: &dyn Scenario,
    command: String,
    output: &mut Output,
    progress: &mut Progress,
) -> Result<Verdict, BenchError> {
    let common = scenario.common();
    let subjects = common.subjects(common.shards(scenario.shards()));
    if subjects.is_empty() && common.no_floor {
        return Err(BenchError::usage(
            "--no-server --no-floor leaves nothing to measure",
        ));
    }
    let placements = common.placements(scenario.placements());
    let placements = placements.into_iter().map(Placement::here);
    let placements = placements.collect::<Result<Vec<_>, _>>()?;
    if common.explain {
        let workloads = scenario.workloads()?;
        let text: String = workloads
            .iter()
            .flat_map(|workload| {
                let sheet = |transport| carried(workload.sheet(), transport);
                common.transports().into_iter().map(sheet)
            })
            .map(|sheet| explain(&sheet, &subjects, &placements, common))
            .collect();
        return print(&text).map(|()| Verdict::Sound);
    }
    let descriptors = process::raise_descriptor_limit();
    let context = Context {
        machine: report::machine::describe(descriptors),
        command,
    };
    let mut worst = Verdict::Sound;
    output.show(&format!("{}\n", report::machine::line()))?;
    for mut workload in scenario.workloads()? {
        for (transport, placement) in places(common, &placements) {
            let sheet = placement.mark(carried(workload.sheet(), transport));
            let plan = runner::Plan {
                subjects: &subjects,
                placement,
                pairs: common.pairs(sheet.pairs),
                floor: !common.no_floor,
            };
            let results = runner::run(workload.as_mut(), &sheet, &plan, progress);
            let (text, mut object, verdict) = match &results {
                Ok(results) => (
                    report::table::render(&sheet, results, plan.pairs),
                    report::json::object(&sheet, results, plan.pairs, &context),
                    judged(results),
                ),
                Err(error) => {
                    let why = error.to_string();
                    (
                        report::table::not_run(&sheet.title, &why),
                        report::json::not_run(&sheet, plan.pairs, &context, &why),
                        Verdict::NotRun(why),
                    )
                }
            };
            let whole = progress.step();
            output.show(&format!("{whole}{text}  again: {}\n", context.command))?;
            object["processors"] = placement.allot()?.describe();
            output.take(object)?;
            worst = worst.max(verdict);
        }
    }
    Ok(worst)
}

/// About how many seconds each workload of a command takes; `None` if its options make no sense.
pub(crate) fn lengths_s(scenario: &dyn Scenario) -> Option<Vec<f64>> {
    let common = scenario.common();
    let placements = common.placements(scenario.placements());
    let places = places(common, &placements).len();
    let servers = common.subjects(None).len();
    let workloads = scenario.workloads().ok()?;
    let each = workloads.iter().flat_map(|workload| {
        let sheet = workload.sheet();
        let floors = if common.no_floor {
            0
        } else {
            sheet.floors.len()
        };
        let legs = (servers + floors) * common.pairs(sheet.pairs) as usize;
        std::iter::repeat_n(legs as f64 * leg_s(&sheet), places)
    });
    Some(each.collect())
}

/// About how many seconds it takes to measure one server once.
fn leg_s(sheet: &Sheet) -> f64 {
    let number = |key: &str| sheet.parameters.get(key).and_then(Value::as_f64);
    let sum = |keys: &[&str]| keys.iter().filter_map(|key| number(key)).sum::<f64>();
    let measured_s = sum(&["warmup_seconds", "seconds", "settle_seconds"]);
    let connections = sheet.needs.connections as f64;
    let step_s = measured_s + connections / CONNECTIONS_PER_SECOND;
    let steps = number("ramp_step").map_or(1.0, |step| (connections / step.max(1.0)).max(1.0));
    let restart_s = if sheet.parameters.contains_key("restart") {
        RESTART_S
    } else {
        0.0
    };
    // These workloads look at the memory of a server that has come to rest.
    let rest_s = match sheet.needs.accounts {
        Some(_) => REST_S,
        None => 0.0,
    };
    START_S + rest_s + steps * step_s + restart_s
}

/// Seconds in which a server starts and ends.
const START_S: f64 = 0.7;
/// Seconds in which it comes to rest: three, of a floor less.
const REST_S: f64 = 1.6;
/// Seconds in which topics are filled, and a server comes back after a kill.
const RESTART_S: f64 = 4.0;
/// Connections that are made in a second.
const CONNECTIONS_PER_SECOND: f64 = 3_000.0;

/// The verdict of the measured server; of the floor, if nothing else was measured.
fn judged(results: &Results) -> Verdict {
    let judged = results.servers.first().or_else(|| results.floors.first());
    judged.map_or(Verdict::Sound, Outcome::verdict)
}

/// Every transport in every place.
fn places(common: &Common, placements: &[Placement]) -> Vec<(Transport, Placement)> {
    let transports = common.transports().into_iter();
    let each = |transport| placements.iter().map(move |place| (transport, *place));
    transports.flat_map(each).collect()
}

/// A workload's sheet that says what carries it.
fn carried(mut sheet: Sheet, transport: Transport) -> Sheet {
    sheet.needs.transport = transport;
    if transport != Transport::Mqtt {
        sheet.title = format!("{}, over {}", sheet.title, transport.describe());
    }
    let word = transport.as_str().into();
    sheet.parameters.insert("transport".into(), word);
    sheet
}

fn explain(
    sheet: &Sheet,
    subjects: &[Subject],
    placements: &[Placement],
    common: &Common,
) -> String {
    let mut text = format!("{}\n", sheet.title);
    for (index, step) in sheet.plan.iter().enumerate() {
        text.push_str(&format!("  {}. {step}\n", index + 1));
    }
    let floors = sheet.floors.iter().filter(|_| !common.no_floor);
    let floors = floors.map(|floor| Subject::Floor(*floor));
    let places: Vec<&str> = placements.iter().map(|place| place.describe()).collect();
    let pairs = common.pairs(sheet.pairs);
    let times = match pairs {
        1 => "once".to_owned(),
        pairs => format!("{pairs} times"),
    };
    text.push_str(&format!(
        "  {times} in turn, {}, against\n",
        places.join("; then ")
    ));
    for subject in floors.chain(subjects.iter().cloned()) {
        text.push_str(&format!("     {}: {}\n", subject.name(), subject.explain()));
    }
    text
}
