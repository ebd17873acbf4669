//! Where and by what it was measured: the machine, the programs, their configuration.

use serde_json::Value;

use super::escaped;
use crate::measure::Unit;
use crate::report::number::figure;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("unknown")
}

/// What makes a machine another one.
const MACHINE: [&str; 6] = [
    "processor",
    "processors",
    "memory_bytes",
    "architecture",
    "system",
    "kernel",
];

/// The machines, each once.
fn machines(objects: &[Value]) -> Vec<&Value> {
    let mut machines: Vec<&Value> = Vec::new();
    for machine in objects.iter().map(|object| &object["machine"]) {
        let is_same = |known: &&Value| MACHINE.iter().all(|key| known[*key] == machine[*key]);
        if !machines.iter().any(is_same) {
            machines.push(machine);
        }
    }
    machines
}

fn sentence(machine: &Value) -> String {
    format!(
        "{}, {} processors, kernel {}",
        text(machine, "processor"),
        machine["processors"],
        text(machine, "kernel"),
    )
}

/// One sentence below the title.
pub(super) fn lead(objects: &[Value]) -> String {
    let lead = match machines(objects).as_slice() {
        [] => String::new(),
        [machine] => format!(
            "{}. Server and clients shared this machine.",
            sentence(machine)
        ),
        machines => format!(
            "Measured on {} machines; each workload says on which. Server and clients shared it.",
            machines.len()
        ),
    };
    escaped(&lead)
}

/// When it was measured, and by which programs; nothing of what the files do not say.
pub(super) fn origin(objects: &[Value]) -> String {
    let dates = || {
        let dates = objects.iter().map(|object| object["measured_at"].as_str());
        // All have the same shape.
        dates
            .flatten()
            .map(|date| date.replace('T', " ").replace('Z', ""))
    };
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (dates().min(), dates().max()) {
        let (day, clock) = last.split_once(' ').unwrap_or((&last, ""));
        parts.push(match first.split_once(' ') {
            _ if first == last => format!("Measured {first} UTC"),
            Some((same, _)) if same == day => format!("Measured {first} to {clock} UTC"),
            _ => format!("Measured {first} to {last} UTC"),
        });
    }
    let mut programs: Vec<String> = Vec::new();
    for machine in objects.iter().map(|object| &object["machine"]) {
        let Some(version) = machine["bench_version"].as_str() else {
            continue;
        };
        let commit = machine["commit"].as_str();
        let commit = commit.map_or_else(|| "commit unknown".into(), |c| format!("commit {c}"));
        let program = format!("Stentor {version}, {commit}");
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    parts.extend(programs);
    match parts.is_empty() {
        true => String::new(),
        false => format!("<p class=\"lead\">{}.</p>\n", escaped(&parts.join("; "))),
    }
}

/// The machine of one workload, where a page has several.
pub(super) fn machine(object: &Value, objects: &[Value]) -> String {
    match machines(objects).len() {
        0 | 1 => String::new(),
        _ => format!(
            "<p class=\"what\">On {}.</p>\n",
            escaped(&sentence(&object["machine"]))
        ),
    }
}

/// The machines in full.
pub(super) fn section(objects: &[Value]) -> String {
    machines(objects).into_iter().map(in_full).collect()
}

fn in_full(machine: &Value) -> String {
    let memory = machine["memory_bytes"].as_f64();
    let memory = memory.map_or_else(|| "unknown".into(), |bytes| figure(bytes, Unit::Bytes));
    let build = format!(
        "stentor {} ({} build), commit {}",
        text(machine, "bench_version"),
        text(machine, "build"),
        text(machine, "commit")
    );
    let system = format!(
        "{} {}, {}",
        text(machine, "system"),
        text(machine, "kernel"),
        text(machine, "architecture")
    );
    let processors = format!("{} × {}", machine["processors"], text(machine, "processor"));
    let descriptors = format!("{} a process", machine["descriptors_max"]);
    let mut rows = vec![
        ("processors".to_owned(), processors),
        ("memory".into(), memory),
        ("system".into(), system),
        ("descriptors".into(), descriptors),
        ("program".into(), build),
    ];
    for (name, value) in machine["limits"].as_object().into_iter().flatten() {
        rows.push((
            name.replace('_', " "),
            value.as_str().unwrap_or_default().to_owned(),
        ));
    }
    let rows: String = rows
        .iter()
        .map(|(name, value)| {
            format!(
                "<tr><td>{}</td><td>{}</td></tr>\n",
                escaped(name),
                escaped(value)
            )
        })
        .collect();
    format!(
        "<section>\n<h2>The machine</h2>\n<div class=\"scroll\"><table><tbody>\n{rows}</tbody>\
         </table></div>\n</section>\n"
    )
}

/// Versions and configurations of server and rivals, folded away.
pub(super) fn systems(object: &Value) -> String {
    let own = (text(object, "server"), &object["system"]);
    let rivals = object["rivals"].as_array().into_iter().flatten();
    let rivals = rivals.map(|rival| (text(rival, "name"), &rival["system"]));
    let parts: String = std::iter::once(own)
        .chain(rivals)
        .filter(|(_, system)| system.is_object())
        .map(|(name, system)| {
            let version = system["version"].as_str().unwrap_or("version unknown");
            let configuration = system["configuration"].as_str().unwrap_or_default();
            let configuration = match configuration.trim() {
                "" => "defaults".to_owned(),
                lines => format!("\n{lines}"),
            };
            format!(
                "<h3>{}</h3>\n<pre>{}\nconfiguration: {}</pre>\n",
                escaped(name),
                escaped(version),
                escaped(&configuration)
            )
        })
        .collect();
    if parts.is_empty() {
        return parts;
    }
    format!("<details>\n<summary>versions and configurations</summary>\n{parts}</details>\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_header_says_when_and_by_what() {
        let object = |date: &str, commit: &str| {
            let machine = json!({ "bench_version": "0.1.0", "commit": commit });
            json!({ "measured_at": date, "machine": machine })
        };
        let early = object("2026-11-24T02:54:07Z", "abc");
        let late = object("2026-11-24T03:10:00Z", "abc");
        let next = object("2026-11-25T00:00:00Z", "<def>");
        let old = json!({ "machine": { "bench_version": "0.1.0", "commit": null } });
        for (objects, told) in [
            (
                vec![early.clone()],
                "Measured 2026-11-24 02:54:07 UTC; Stentor 0.1.0, commit abc.",
            ),
            (
                vec![late, early.clone()],
                "Measured 2026-11-24 02:54:07 to 03:10:00 UTC; Stentor 0.1.0, commit abc.",
            ),
            (
                vec![early, next],
                "Measured 2026-11-24 02:54:07 to 2026-11-25 00:00:00 UTC; Stentor 0.1.0, commit \
                 abc; Stentor 0.1.0, commit &lt;def&gt;.",
            ),
            (vec![old], "Stentor 0.1.0, commit unknown."),
        ] {
            assert_eq!(origin(&objects), format!("<p class=\"lead\">{told}</p>\n"));
        }
        assert_eq!(origin(&[json!({ "machine": {} })]), "");
    }
}
