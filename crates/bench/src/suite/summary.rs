//! The table at the end of a suite: what was measured, beside the floor and what was published.

use serde_json::Value;

use crate::measure::Unit;
use crate::report::number::{figure, lost, titled};
use crate::report::table::align;

/// What the column with factors means.
const FACTOR: &str = "  × floor: the median of the factors, turn by turn. It may differ from the \
                      quotient of the two figures.";

/// One row per workload and figure that has a floor or was published, else the first figure.
pub(super) fn table(objects: &[Value]) -> String {
    let header = ["", "measured", "floor", "× floor", "published", "lost", ""];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for object in objects {
        rows.push(vec![titled(object)]);
        let metrics = object["metrics"].as_array().into_iter().flatten();
        let shown = metrics.filter(|metric| {
            let key = metric["key"].as_str().unwrap_or_default();
            metric["against_floor"] == true || published(object, key).is_some()
        });
        let before = rows.len();
        rows.extend(shown.filter_map(|metric| row(object, metric)));
        if object["verdict"]["result"] == "not-run" {
            let why = object["verdict"]["why"].as_str().unwrap_or_default();
            rows.push(vec![format!(
                "  NOT RUN: {}",
                why.lines().next().unwrap_or(why)
            )]);
            continue;
        }
        if rows.len() == before {
            // Nothing to compare with: then the figure that stands first.
            let first = object["metrics"].get(0);
            rows.extend(first.and_then(|metric| row(object, metric)));
        }
        if let Some(first) = rows.get_mut(before) {
            first[5] = lost(&object["loss"]);
            first[6] = object["verdict"]["result"]
                .as_str()
                .unwrap_or("")
                .to_owned();
        }
    }
    format!("\nall workloads\n\n{}\n{FACTOR}\n", align(&rows))
}

fn published(object: &Value, key: &str) -> Option<f64> {
    object["published"]["figures"][key].as_f64()
}

fn row(object: &Value, metric: &Value) -> Option<Vec<String>> {
    let key = metric["key"].as_str()?;
    let unit = Unit::parse(metric["unit"].as_str()?)?;
    let median = |part: &str| object[part][key]["median"].as_f64();
    let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), |v| figure(v, unit));
    let measured = median("measured")?;
    let against = metric["against_floor"] == true;
    let floor = median("floor").filter(|_| against);
    let ratio = median("ratio").map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
    Some(vec![
        format!("  {}", metric["label"].as_str()?),
        figure(measured, unit),
        shown(floor),
        ratio,
        shown(published(object, key)),
        String::new(),
        String::new(),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn measured_stands_beside_floor_and_published() {
        let object = json!({
            "title": "ice-1: many words",
            "parameters": { "qos": 1, "transport": "wss", "placement": "apart" },
            "metrics": [
                { "key": "a_us", "label": "A", "unit": "us", "against_floor": true },
                { "key": "b_per_s", "label": "B", "unit": "per_s", "against_floor": false },
                { "key": "c", "label": "C", "unit": "count", "against_floor": false },
            ],
            "measured": {
                "a_us": { "median": 5.5 }, "b_per_s": { "median": 105_000.0 },
                "c": { "median": 1.0 },
            },
            "floor": { "a_us": { "median": 5.0 } },
            "ratio": { "a_us": { "median": 1.1 } },
            "published": { "figures": { "b_per_s": 30_000.0 } },
            "loss": { "lost": 3, "failed": 1 },
            "verdict": { "result": "failed" },
        });
        let text = table(&[object]);
        assert!(text.contains("ice-1, QoS 1, wss\n"), "{text}");
        let row = |label: &str| text.lines().find(|line| line.contains(label)).unwrap();
        let words = |label| row(label).split_whitespace().collect::<Vec<_>>();
        assert_eq!(
            words("    A"),
            ["A", "5.50", "µs", "5.00", "µs", "1.10", "–", "4", "failed"]
        );
        assert_eq!(words("    B"), ["B", "105,000", "–", "–", "30,000"]);
        assert!(!text.contains("    C"), "{text}");
    }
}
