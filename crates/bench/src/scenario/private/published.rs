//! What ShepHertz published about AppWarp S2.

use std::time::Duration;

use super::Preset;
use crate::measure::MACHINE_CPU;
use crate::workload::Published;

/// Rows of clients and the server's CPU in percent of its machine; where a range was given, its
/// upper end. [`row`] has the whole range.
const LIGHT: [(u32, f64); 8] = [
    (10_000, 7.0),
    (20_000, 12.0),
    (30_000, 20.0),
    (40_000, 30.0),
    (50_000, 45.0),
    (60_000, 60.0),
    (70_000, 70.0),
    (80_000, 85.0),
];
const MEDIUM: [(u32, f64); 6] = [
    (5_000, 7.0),
    (10_000, 15.0),
    (15_000, 26.0),
    (20_000, 35.0),
    (25_000, 70.0),
    (30_000, 75.0),
];
const HEAVY: [(u32, f64); 4] = [
    (5_000, 12.0),
    (10_000, 26.0),
    (15_000, 45.0),
    (20_000, 75.0),
];

fn rows(preset: Preset) -> Vec<(u32, f64)> {
    match preset {
        Preset::Light => LIGHT.to_vec(),
        Preset::Medium => MEDIUM.to_vec(),
        Preset::Heavy => HEAVY.to_vec(),
    }
}

/// The numbers of clients that were published.
pub(super) fn clients(preset: Preset) -> Vec<u32> {
    let rows = rows(preset).into_iter();
    rows.map(|(clients, _)| clients).collect()
}

/// The time between two messages of one client.
pub(super) const fn period(preset: Preset) -> Duration {
    Duration::from_secs(match preset {
        Preset::Light => 10,
        Preset::Medium => 2,
        Preset::Heavy => 1,
    })
}

/// New connections a second.
pub(super) const fn connect_rate(preset: Preset) -> Option<u32> {
    match preset {
        Preset::Light => None,
        Preset::Medium | Preset::Heavy => Some(100),
    }
}

/// The row of this many clients, if there is one.
pub(super) fn row(preset: Preset, clients: usize) -> Option<Published> {
    let rows = rows(preset);
    let (_, cpu) = rows.iter().find(|(of, _)| *of as usize == clients)?;
    let rate = clients as f64 / period(preset).as_secs_f64();
    let mut notes = vec!["published: a dual-core i5 at 2.53 GHz; nothing about size or latency"];
    notes.extend(match (preset, clients) {
        (Preset::Light, 70_000) => Some("published CPU: 60 to 70 % of the whole machine"),
        (Preset::Light, 80_000) => Some("published CPU: 70 to 85 % of the whole machine"),
        _ => None,
    });
    notes.push("published CPU is a share of the whole machine: compare it with \"CPU of machine\"");
    let is_last = rows.last().is_some_and(|(of, _)| *of as usize == clients);
    if is_last {
        notes.push(match preset {
            Preset::Light => "published: beyond this, connections were accepted slowly",
            Preset::Medium | Preset::Heavy => "published: beyond this, connections broke",
        });
    }
    Some(Published {
        source: "AppWarp S2 (ShepHertz)",
        figures: vec![
            ("in_per_s", rate),
            ("out_per_s", 2.0 * rate),
            (MACHINE_CPU.key, *cpu),
        ],
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_that_were_published() {
        assert_eq!(clients(Preset::Light).last(), Some(&80_000));
        assert_eq!(
            clients(Preset::Medium),
            [5, 10, 15, 20, 25, 30].map(|k| k * 1_000)
        );
        let row = row(Preset::Heavy, 20_000).unwrap();
        assert_eq!(row.figures[0], ("in_per_s", 20_000.0));
        assert_eq!(row.figures[1], ("out_per_s", 40_000.0));
        assert_eq!(row.figures[2], (MACHINE_CPU.key, 75.0));
        assert_eq!(row.notes.len(), 3);
        let ranged = super::row(Preset::Light, 80_000).unwrap();
        assert!(
            ranged
                .notes
                .contains(&"published CPU: 70 to 85 % of the whole machine")
        );
        assert_eq!(ranged.notes.len(), row.notes.len() + 1);
        assert!(super::row(Preset::Heavy, 21_000).is_none());
    }
}
