//! Numbers as people read them.

use serde_json::Value;

use crate::measure::Unit;

/// Parameters that tell workloads of one name apart.
const NAMING: [&str; 10] = [
    "proof",
    "store",
    "scene",
    "topics",
    "clients",
    "qos",
    "transport",
    "placement",
    "calls",
    "callers",
];
/// What goes without saying.
const USUAL: [&str; 4] = ["apart", "mqtt", "sqlite", "private"];

/// A figure with its unit.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond | Unit::Count => grouped(value),
        Unit::Percent => format!("{value:.0} %"),
        Unit::Ratio => format!("{value:.2} ×"),
        Unit::Micros => duration(value),
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
    }
}

/// What was lost and what failed, of a server's `loss`; a dash where it is not known.
pub(crate) fn lost(loss: &Value) -> String {
    let count = |key: &str| loss[key].as_u64().unwrap_or(0);
    match loss.is_object() {
        true => (count("lost") + count("failed")).to_string(),
        false => "–".into(),
    }
}

/// A short name for one workload's object, with what tells it from others of the same name.
pub(crate) fn titled(object: &Value) -> String {
    let title = object["title"].as_str().unwrap_or_default();
    // What follows the colon explains; the parameters are in the workload's own table.
    let mut text = title.split(": ").next().unwrap_or(title).to_owned();
    for key in NAMING {
        match &object["parameters"][key] {
            Value::Null => {}
            Value::String(word) if USUAL.contains(&word.as_str()) || text == *word => {}
            Value::Number(number) if key == "qos" && number.as_u64() == Some(0) => {}
            Value::Number(number) if key == "callers" && number.as_u64() == Some(1) => {}
            Value::String(word) => text.push_str(&format!(", {word}")),
            value if key == "qos" => text.push_str(&format!(", QoS {value}")),
            value => text.push_str(&format!(", {value} {key}")),
        }
    }
    if object["parameters"]["rate_per_publisher"] == "max" {
        text.push_str(", rate max");
    }
    if object["parameters"]["ramp_step"].is_number() {
        text.push_str(", ramp");
    }
    text
}

/// Whole numbers with commas; three digits at least.
pub(crate) fn grouped(value: f64) -> String {
    if value != 0.0 && value.abs() < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    if value <= -0.5 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn three_digits(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn duration(micros: f64) -> String {
    let (value, unit) = if micros < 1e3 {
        (micros, "µs")
    } else if micros < 1e6 {
        (micros / 1e3, "ms")
    } else {
        (micros / 1e6, "s")
    };
    format!("{} {unit}", three_digits(value))
}

fn bytes(value: f64) -> String {
    let (value, unit) = if value < 1_024.0 {
        return format!("{value:.0} B");
    } else if value < 1_048_576.0 {
        (value / 1_024.0, "KiB")
    } else {
        (value / 1_048_576.0, "MiB")
    };
    format!("{} {unit}", three_digits(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let cases = [
            (105_000.4, Unit::PerSecond, "105,000"),
            (999.0, Unit::Count, "999"),
            (1_000.0, Unit::Count, "1,000"),
            (1_234_567.0, Unit::Count, "1,234,567"),
            (0.0, Unit::Count, "0"),
            (-1_234.0, Unit::Count, "-1,234"),
            (7.345, Unit::Micros, "7.34 µs"),
            (12_345.0, Unit::Micros, "12.3 ms"),
            (3.75e6, Unit::Micros, "3.75 s"),
            (922.0, Unit::Bytes, "922 B"),
            (1_740.0, Unit::Bytes, "1.70 KiB"),
            (350_000_000.0, Unit::Bytes, "334 MiB"),
            (30e6, Unit::BytesPerSecond, "28.6 MiB/s"),
            (45.3, Unit::Percent, "45 %"),
            (1.017, Unit::Ratio, "1.02 ×"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(figure(value, unit), text);
        }
    }
}
