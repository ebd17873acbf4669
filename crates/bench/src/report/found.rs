//! What a suite has found, in a sentence or two.

use serde_json::Value;

use super::number::titled;

/// What workloads say of themselves; of the others, how many are sound, and what is with those that
/// are not. Empty where there are none.
pub(crate) fn sentence(objects: &[Value]) -> String {
    let said = |object: &&Value| object["sentences"].get(0).is_some();
    let (say, others): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(said);
    let sentences = say.iter().flat_map(|object| object["sentences"].as_array());
    let mut parts: Vec<&str> = sentences.flatten().filter_map(Value::as_str).collect();
    let counted = counted(&others);
    parts.extend(Some(&*counted).filter(|text| !text.is_empty()));
    let mut text = parts.join(" ");
    if !text.is_empty() && is_noisy(objects) {
        text += match objects.iter().any(is_quick) {
            true => " This was measured with --quick",
            false => " Each was measured once, as with --quick",
        };
        text += ": the figures are noisy, and small differences mean nothing.";
    }
    text
}

/// How many workloads are sound, and what is with the others.
fn counted(objects: &[&Value]) -> String {
    let of = |result: &str| -> Vec<&Value> {
        let is_it = |object: &&Value| object["verdict"]["result"] == result;
        objects.iter().copied().filter(is_it).collect()
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
        false if sound == 0 && all == 1 => String::new(),
        false if sound == 0 => format!("None of {all} workloads is sound."),
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
        if found.is_empty() {
            continue;
        }
        let reasons = || found.iter().map(|object| reason(object, result));
        let first = reasons().next().flatten();
        // What is wrong with all is said once.
        let of_all = first.filter(|first| found.len() > 1 && reasons().all(|it| it == Some(first)));
        let named = |object: &&Value| match reason(object, result).filter(|_| of_all.is_none()) {
            Some(why) => format!("{} ({why})", titled(object)),
            None => titled(object),
        };
        let names: Vec<String> = found.iter().take(NAMED).map(named).collect();
        let more = match found.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let why = of_all.map_or_else(String::new, |why| format!(" (all of them: {why})"));
        text += &format!(" {} {what}: {}{more}{why}.", found.len(), names.join("; "));
    }
    text.trim_start().to_owned()
}

/// Workloads that are named for each verdict.
const NAMED: usize = 4;

/// Whether it was measured with `--quick`.
fn is_quick(object: &Value) -> bool {
    object["quick"] == true
}

/// Whether anything was measured with `--quick`, or everything once only.
pub(crate) fn is_noisy(objects: &[Value]) -> bool {
    let pairs = || objects.iter().filter_map(|object| object["pairs"].as_u64());
    let is_once = pairs().count() > 1 && pairs().all(|pairs| pairs <= 1);
    is_once || objects.iter().any(is_quick)
}

/// Why a workload is not sound; of one that only the generator held up, that says enough.
fn reason<'a>(object: &'a Value, result: &str) -> Option<&'a str> {
    let why = object["verdict"]["why"].as_str()?.lines().next();
    why.filter(|_| result != "generator-limited")
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
        let gone = ["a", "b"].map(|title| one(title, 3, "not-run", Some("no file")));
        assert_eq!(
            sentence(&gone),
            "None of 2 workloads is sound. 2 could not run: a; b (all of them: no file)."
        );
    }

    /// What the terminal says of one's own load, the page says in the same words.
    #[test]
    fn a_load_of_ones_own_speaks_for_itself() {
        let mut mine = one("mine", 1, "sound", None);
        mine["sentences"] = json!(["Yes: stentor carries your load."]);
        assert_eq!(
            sentence(std::slice::from_ref(&mine)),
            "Yes: stentor carries your load."
        );
        let text = sentence(&[mine, one("a", 3, "failed", Some("late"))]);
        assert_eq!(
            text,
            "Yes: stentor carries your load. 1 not sound: a (late)."
        );
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

    /// Some workloads of a short suite take many turns all the same.
    #[test]
    fn figures_of_a_short_suite_are_called_noisy() {
        let mut objects = [one("a", 1, "sound", None), one("call", 10, "sound", None)];
        assert!(!is_noisy(&objects));
        for object in &mut objects {
            object["quick"] = true.into();
        }
        let text = sentence(&objects);
        assert!(
            text.contains("measured with --quick: the figures are noisy"),
            "{text}"
        );
        assert!(is_noisy(&objects[..1]));
    }
}
