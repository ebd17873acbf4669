//! The table itself: every default fits its type, every range holds at both ends.

use std::time::Duration;

use super::Case;
use crate::config::keys::find_section;
use crate::config::table::{Fallback, Key};
use crate::config::units::{show_duration, show_size};
use crate::config::value::{Raw, Value};
use crate::config::{Kind, keys};

/// Loads a configuration in which only this key is given, by its environment variable, beside
/// what its section requires.
fn load_with(key: &Key, text: &str) -> Result<(), String> {
    let mut case = Case::default().variable(&key.environment().replace("__N__", "__0__"), text);
    let section = find_section(key.section).expect("every key has a section");
    for other in section.keys {
        if let (Fallback::Required(example), true) = (other.fallback, other.name != key.name) {
            let example = if other.name == "url" {
                "mqtt://[::1]:1"
            } else {
                example
            };
            case = case.variable(&other.environment().replace("__N__", "__0__"), example);
        }
    }
    if key.section == "jwt" {
        case = case.variable("STENTOR_JWT__0__KEY_FILE", "key.pem");
    }
    if key.section == "adaptor" && !["file", "builtin"].contains(&key.name) {
        case = case.variable("STENTOR_ADAPTOR__0__BUILTIN", "turns");
    }
    if key.section == "policy" && key.name.starts_with("history") {
        case = case.variable("STENTOR_POLICY__0__KEEP", "all");
    }
    if key.name == "packet_bytes" {
        case = case.variable("STENTOR_LIMITS__QUEUE_BYTES", "16GiB");
    }
    if key.name == "queue_bytes" {
        case = case.variable("STENTOR_LIMITS__PACKET_BYTES", "1KiB");
    }
    case.load().map(|_| ())
}

#[test]
fn both_ends_of_every_range_are_taken_and_no_more() {
    let tick = Duration::from_micros(1);
    for key in keys() {
        let (inside, outside) = match key.kind {
            Kind::Count { min, max } => (
                [min, max].map(|n| n.to_string()),
                [min.checked_sub(1), Some(max + 1)].map(|n| n.map(|n| n.to_string())),
            ),
            Kind::Bytes { min, max } => (
                [min, max].map(show_size),
                [min.checked_sub(1), Some(max + 1)].map(|n| n.map(show_size)),
            ),
            Kind::Duration { min, max, .. } => (
                [min, max].map(show_duration),
                [min.checked_sub(tick), Some(max + tick)].map(|n| n.map(show_duration)),
            ),
            _ => continue,
        };
        for text in inside {
            if let Err(message) = load_with(key, &text) {
                // A queue may be smaller than a packet by its range, but not by the rules.
                let ruled = message.contains("is less than") && key.section == "limits";
                assert!(ruled, "{} = {text}: {message}", key.path());
            }
        }
        for text in outside.into_iter().flatten() {
            let message = load_with(key, &text).expect_err(&text);
            let told = message.contains(&key.path()) && message.contains(&key.kind.expects());
            assert!(told, "{} = {text}: {message}", key.path());
        }
    }
}

#[test]
fn every_default_and_example_fits_its_kind() {
    for key in keys() {
        let value = key.kind.parse(&Raw::Words(key.fallback.text().to_owned()));
        assert!(value.is_ok(), "{}: {value:?}", key.path());
        assert_ne!(value, Ok(Value::Unset));
    }
}

/// What the field of a key holds has to be the default, not the placeholder that the reader puts
/// there when type and kind do not fit together. Reading each example proves that they fit.
#[test]
fn every_field_has_a_type_that_fits_its_kind() {
    let config = Case::default().good();
    let shown = format!("{config:?}");
    for key in keys().filter(|key| !key.repeated) {
        let Fallback::Value(text) = key.fallback else {
            continue;
        };
        // Numbers other than zero and words show a placeholder at once.
        let expected = match key.kind.parse(&Raw::Words(text.to_owned())) {
            Ok(Value::Number(number)) => number.to_string(),
            Ok(Value::Duration(duration)) => format!("{duration:?}"),
            _ => continue,
        };
        let field = format!("{}: {expected}", key.name);
        assert!(shown.contains(&field), "{field} in {shown}");
    }
    let ends = keys().filter_map(|key| match key.kind {
        Kind::Count { max, .. } | Kind::Bytes { max, .. } if !key.repeated => Some((key, max)),
        _ => None,
    });
    for (key, max) in ends {
        let case = Case::default().variable(&key.environment(), &max.to_string());
        let case = match key.name {
            "packet_bytes" => case.variable("STENTOR_LIMITS__QUEUE_BYTES", "16GiB"),
            _ => case,
        };
        let shown = format!("{:?}", case.good());
        assert!(
            shown.contains(&format!("{}: {max}", key.name)),
            "{} = {max}",
            key.path()
        );
    }
}

#[test]
fn names_flags_and_variables_are_unique() {
    for (name, of) in [("path", 0), ("variable", 1), ("flag", 2)] {
        let mut all: Vec<String> = keys()
            .filter_map(|key| match of {
                0 => Some(key.path()),
                1 => Some(key.environment()),
                _ => key.flag.map(str::to_owned),
            })
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "{name}");
    }
}

#[test]
fn every_key_has_a_sentence() {
    for key in keys() {
        assert!(
            key.text.trim().ends_with('.'),
            "{}: {}",
            key.path(),
            key.text
        );
    }
}
