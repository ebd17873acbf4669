//! What a suite has found, in a sentence or two.

use serde_json::Value;

use super::number::titled;

/// How many workloads are sound, and what is with the others; empty where there are none.
pub(crate) fn sentence(objects: &[Value]) -> String {
    let of = |result: &str| -> Vec<&Value> {
        let is_it = |object: &&Value| object["verdict"]["result"] == result;
        objects.iter().filter(is_it).collect()
    };
    let all = objects
        .iter()
        .filter(|object| object["verdict"].is_object())
        .count();
    if all == 0 {
        return String::new();
    }
    let sound = of("sound").len();
    let mut text = match sound == all {
        true if all == 1 => "The workload is sound: nothing was lost.".to_owned(),
        true => format!("All {all} workloads are sound: nothing was lost."),
        false => format!("{sound} of {all} workloads are sound, and lost nothing."),
    };
    for (result, what) in [
        (
            "generator-limited",
            "could have done more: the load generator was the limit",
        ),
        ("failed", "not sound"),
        ("not-run", "could not run"),
    ] {
        let found = of(result);
        let names = found.iter().take(NAMED).map(|object| named(object, result));
        let names: Vec<String> = names.collect();
        let more = match found.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        if !found.is_empty() {
            text += &format!(" {} {what}: {}{more}.", found.len(), names.join("; "));
        }
    }
    if is_noisy(objects) {
        text += " Each was measured once, as with --quick: the figures are noisy, and small differences mean \
                 nothing.";
    }
    text
}

/// Workloads that are named for each verdict.
const NAMED: usize = 4;

/// Whether everything was measured once only, as by `--quick`.
pub(crate) fn is_noisy(objects: &[Value]) -> bool {
    let pairs = || objects.iter().filter_map(|object| object["pairs"].as_u64());
    pairs().count() > 1 && pairs().all(|pairs| pairs <= 1)
}

fn named(object: &Value, result: &str) -> String {
    let name = titled(object);
    let why = object["verdict"]["why"].as_str();
    let why = why.and_then(|why| why.lines().next());
    match why {
        Some(why) if result != "generator-limited" => format!("{name} ({why})"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(title: &str, pairs: u64, result: &str, why: Option<&str>) -> Value {
        json!({
            "title": format!("{title}: more"),
            "pairs": pairs,
            "parameters": {},
            "verdict": { "result": result, "why": why },
        })
    }

    #[test]
    fn the_verdicts_are_counted_and_the_bad_ones_named() {
        let mut objects = vec![one("a", 1, "sound", None), one("b", 3, "sound", None)];
        assert_eq!(
            sentence(&objects),
            "All 2 workloads are sound: nothing was lost."
        );
        objects.push(one("c", 1, "failed", Some("3 lost\nhere")));
        objects.push(one("d", 1, "generator-limited", Some("busy")));
        let text = sentence(&objects);
        assert_eq!(
            text,
            "2 of 4 workloads are sound, and lost nothing. 1 could have done more: the load \
             generator was the limit: d. 1 not sound: c (3 lost)."
        );
        assert_eq!(sentence(&[]), "");
    }

    #[test]
    fn figures_of_one_measurement_are_called_noisy() {
        let noisy = [one("a", 1, "sound", None), one("b", 1, "sound", None)];
        assert!(sentence(&noisy).contains("noisy"));
        assert!(!is_noisy(&[
            one("a", 1, "sound", None),
            one("b", 5, "sound", None)
        ]));
        assert!(!is_noisy(&[one("a", 1, "sound", None)]));
    }
}
