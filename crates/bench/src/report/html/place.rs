//! Where and by what it was measured: the machine, the programs, their configuration.

use serde_json::Value;

use super::escaped;
use crate::measure::Unit;
use crate::report::number::figure;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("unknown")
}

/// One sentence below the title.
pub(super) fn lead(machine: &Value) -> String {
    let lead = format!(
        "{}, {} processors, kernel {}. Server and clients shared this machine.",
        text(machine, "processor"),
        machine["processors"],
        text(machine, "kernel"),
    );
    escaped(&lead)
}

/// The machine in full.
pub(super) fn section(objects: &[Value]) -> String {
    let Some(machine) = objects.first().map(|object| &object["machine"]) else {
        return String::new();
    };
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
