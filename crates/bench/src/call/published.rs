//! What was published in 2002 about calls of `/sizecheck`, and the same columns of what was
//! measured.

use serde_json::{Value, json};

use crate::report::number::grouped;
use crate::report::table::align;

/// The numbers of calls whose time was published.
pub(super) const CALLS: [u64; 3] = [100, 1_000, 10_000];

/// One of the published set-ups of client and server.
#[derive(Clone, Copy, Debug)]
struct SetUp {
    number: u8,
    /// Client and server.
    machines: &'static str,
    /// Seconds for each of [`CALLS`].
    wall_s: [f64; 3],
    /// Of 10,000 calls, as are the two below.
    client_cpu_s: f64,
    calls_per_s: f64,
    s_per_call: f64,
}

const fn set_up(
    number: u8,
    machines: &'static str,
    wall_s: [f64; 3],
    client_cpu_s: f64,
    calls_per_s: f64,
    s_per_call: f64,
) -> SetUp {
    SetUp {
        number,
        machines,
        wall_s,
        client_cpu_s,
        calls_per_s,
        s_per_call,
    }
}

const SET_UPS: [SetUp; 6] = [
    set_up(
        1,
        "Linux K6-2 450 MHz, loopback",
        [3.49, 34.29, 342.66],
        117.82,
        29.18,
        0.034,
    ),
    set_up(
        2,
        "Win2k Duron 1 GHz, loopback",
        [1.66, 16.64, 167.39],
        11.73,
        59.74,
        0.017,
    ),
    set_up(
        3,
        "Linux P-133 → Win2k Duron, 10 Mbit hub",
        [3.52, 37.17, 634.73],
        369.88,
        15.75,
        0.063,
    ),
    set_up(
        4,
        "Linux P-133 → Linux K6-2",
        [4.81, 49.93, 602.03],
        370.80,
        16.61,
        0.060,
    ),
    set_up(
        5,
        "Win2k Duron → Linux K6-2",
        [2.95, 29.77, 277.15],
        10.32,
        36.08,
        0.028,
    ),
    set_up(
        6,
        "Linux K6-2 → Win2k Duron",
        [1.86, 18.40, 188.05],
        108.81,
        53.18,
        0.019,
    ),
];

/// Seconds that this number of calls took on the fastest machines, and which these were: over
/// loopback, or over a network.
pub(super) fn fastest_s(calls: u64, is_remote: bool) -> Option<(f64, &'static str)> {
    let at = CALLS.iter().position(|published| *published == calls)?;
    let (set_up, source) = match is_remote {
        true => (&SET_UPS[5], "Scope Engine 0.97, 2002 (K6-2 to Duron)"),
        false => (&SET_UPS[1], "Scope Engine 0.97, 2002 (Duron 1 GHz)"),
    };
    Some((set_up.wall_s[at], source))
}

/// For the JSON.
pub(super) fn objects() -> Vec<Value> {
    let each = SET_UPS.iter().map(|set_up| {
        json!({
            "number": set_up.number,
            "machines": set_up.machines,
            "calls": CALLS,
            "wall_s": set_up.wall_s,
            "client_cpu_s": set_up.client_cpu_s,
            "calls_per_s": set_up.calls_per_s,
            "s_per_call": set_up.s_per_call,
        })
    });
    each.collect()
}

/// What one program came to, for each of [`CALLS`] that was measured: wall seconds, and CPU seconds
/// of the clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) program: &'static str,
    pub(super) sums: [Option<(f64, f64)>; 3],
}

/// The published rows, and below them those that were measured, in the published columns.
pub(super) fn table(measured: &[Measured]) -> String {
    let mut header = vec![String::new()];
    header.extend(CALLS.map(|calls| format!("{} calls", grouped(calls as f64))));
    header.extend(["calls/s", "s/call", "client CPU"].map(str::to_owned));
    let mut rows = vec![header];
    for set_up in SET_UPS {
        let mut row = vec![format!("{} {}", set_up.number, set_up.machines)];
        row.extend(set_up.wall_s.map(|wall_s| format!("{wall_s:.2} s")));
        row.push(format!("{:.2}", set_up.calls_per_s));
        row.push(format!("{:.3}", set_up.s_per_call));
        row.push(format!("{:.2} s", set_up.client_cpu_s));
        rows.push(row);
    }
    // Others than one caller at a time have no place in it.
    let has_some = |it: &&Measured| it.sums.iter().any(Option::is_some);
    rows.extend(measured.iter().filter(has_some).map(row));
    format!(
        "calls of /sizecheck, one after the other, beside what was published (Scope Engine 0.97, \
         2002)\n{}  calls/s, s/call and client CPU are those of 10,000 calls\n",
        align(&rows)
    )
}

fn row(measured: &Measured) -> Vec<String> {
    let dash = || "–".to_owned();
    let mut row = vec![measured.program.to_owned()];
    let wall = measured
        .sums
        .iter()
        .map(|sum| sum.map(|(wall_s, _)| wall_s));
    row.extend(wall.map(|wall_s| wall_s.map_or_else(dash, |wall_s| format!("{wall_s:.3} s"))));
    let calls = CALLS[2] as f64;
    let most = measured.sums[2];
    row.push(most.map_or_else(dash, |(wall_s, _)| grouped(calls / wall_s)));
    row.push(most.map_or_else(dash, |(wall_s, _)| format!("{:.6}", wall_s / calls)));
    row.push(most.map_or_else(dash, |(_, cpu_s)| format!("{cpu_s:.2} s")));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_stands_in_the_published_columns() {
        let measured = Measured {
            program: "stentor-call, TCP",
            sums: [Some((0.0652, 0.05)), None, Some((6.12, 5.1))],
        };
        let text = table(&[measured]);
        let words = |start: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(start));
            line.unwrap_or_else(|| panic!("{start}: {text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
        };
        let own = words("stentor-call");
        assert_eq!(
            own[2..],
            [
                "0.065", "s", "–", "6.120", "s", "1,634", "0.000612", "5.10", "s"
            ]
        );
        let duron = words("2 Win2k");
        assert!(duron.ends_with(&["59.74", "0.017", "11.73", "s"]), "{text}");
        assert!(text.contains("6 Linux K6-2 → Win2k Duron"), "{text}");
    }

    #[test]
    fn the_published_figures_agree_with_each_other() {
        for set_up in SET_UPS {
            let rate = CALLS[2] as f64 / set_up.wall_s[2];
            assert!((rate - set_up.calls_per_s).abs() < 0.02, "{set_up:?}");
            let each = set_up.wall_s[2] / CALLS[2] as f64;
            assert!((each - set_up.s_per_call).abs() < 0.001, "{set_up:?}");
        }
        assert_eq!(
            fastest_s(1_000, false),
            Some((16.64, "Scope Engine 0.97, 2002 (Duron 1 GHz)"))
        );
        assert_eq!(fastest_s(10, true), None);
        assert_eq!(objects().len(), 6);
    }
}
