//! `stentor figures`: what the figures of the running server were, from an hour to two years ago.

use std::time::Duration;

use clap::Args;
use stentor_auth::calendar::Utc;
use stentor_control::figures::{
    Curve, Curves, Day, Extent, Highest, History, Kind, POINTS_MAX, Peak, Peaks, Unit,
};
use stentor_control::status::Latency;
use stentor_server::config::parse_duration;

use super::now_secs;
use super::status::millis;
use super::table::{Table, bytes, duration};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor figures                                  all figures in the last hour
  stentor figures --last 30d                       all figures in the last 30 days
  stentor figures messages_sent --last 6h          one figure, a line for each period
  stentor figures messages_sent --points 10        the same, in at most ten periods
  stentor figures latency --last 7d                percentiles of the time from publish to socket
  stentor figures --peaks                          the highest values ever, and when they were
  stentor figures --peaks messages_sent --days 30  the same, and of each of the last 30 days
  stentor figures --json --last 2y                 for programs

Times are in UTC. The server keeps 10 seconds each for 6 hours, minutes for 3 days, quarters of an
hour for 35 days, and quarters of a day for 2 years.";

/// The word for the percentiles, which are not a figure.
const LATENCY: &str = "latency";

/// Points of a curve in a table, and lines of one figure.
const CURVE_POINTS: usize = 40;
const LINE_POINTS: usize = 60;

/// Shows what the figures of the server were, from an hour to two years ago.
#[derive(Debug, Args)]
pub(crate) struct Figures {
    /// Figures to show one by one, such as `messages_sent` or `latency`
    #[arg(value_name = "FIGURE")]
    names: Vec<String>,
    /// How far back: 1h, 3d, 2y …
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = age)]
    last: Duration,
    /// At most this many points [default: 40 in a curve, 60 lines of one figure]
    #[arg(long, value_name = "N")]
    points: Option<usize>,
    /// Show the highest value of each figure, and when it was
    #[arg(long, conflicts_with_all = ["last", "points"])]
    peaks: bool,
    /// With --peaks, show those of each of the last N days, too
    #[arg(long, value_name = "N", requires = "peaks")]
    days: Option<u64>,
    /// Show figures that were 0 all the time, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    which: Which,
}

/// A duration as in the configuration, or weeks or years.
fn age(text: &str) -> Result<Duration, String> {
    let days = [("y", 365), ("w", 7)];
    let counted = days.iter().find_map(|(unit, days)| {
        let count: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        Some(count.saturating_mul(days * 86_400))
    });
    let age = counted.map_or_else(
        || parse_duration(text),
        |secs| Ok(Duration::from_secs(secs)),
    )?;
    match age.as_secs() {
        0 => Err(format!("{text} is less than a second")),
        _ => Ok(age),
    }
}

impl Figures {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(points) = self.points
            && !(1..=POINTS_MAX).contains(&points)
        {
            let message = format!("--points is 1 to {POINTS_MAX}, not {points}");
            return Err(Failure::usage(message));
        }
        // The server knows the latency without being asked for it.
        let figures = self.names.iter().filter(|name| *name != LATENCY);
        let figures: Vec<&str> = figures.map(String::as_str).collect();
        let figure = (!figures.is_empty()).then(|| figures.join(","));
        let is_latency = self.names.len() > figures.len();
        if self.peaks {
            if is_latency {
                return Err(Failure::usage("the latency has no peaks"));
            }
            let days = Some(self.days.unwrap_or(0));
            let told = self.which.tell(&Peaks { figure, days })?;
            return told.print(|highest| peaks(highest, self.all));
        }
        let to = now_secs() + 1;
        let is_table = self.names.is_empty();
        let points = if is_table { CURVE_POINTS } else { LINE_POINTS };
        let told = self.which.tell(&History {
            figure,
            from_secs: Some(to.saturating_sub(self.last.as_secs())),
            to_secs: Some(to),
            points: Some(self.points.unwrap_or(points)),
        })?;
        told.print(|curves| {
            let mut text = match is_table {
                true => table(curves, self.all),
                false => {
                    let wanted = !figures.is_empty();
                    let all = curves.figures.iter().filter(|_| wanted);
                    let mut parts: Vec<String> = all.map(|it| lines(curves, it)).collect();
                    parts.extend(is_latency.then(|| percentiles(curves)));
                    parts.join("\n")
                }
            };
            text += &trouble(curves.trouble.as_deref());
            text
        })
    }
}

/// What keeps the server from writing the history, as a line.
fn trouble(trouble: Option<&str>) -> String {
    let line = |trouble| {
        format!(
            "the history is not written to its file: {}\n",
            shown(trouble)
        )
    };
    trouble.map(line).unwrap_or_default()
}

/// All figures, each with its curve.
fn table(curves: &Curves, with_zeros: bool) -> String {
    let mut table = Table::new(&["FIGURE", "MIN", "MEAN", "MAX", "LAST", "CURVE"]);
    let mut zeros = 0;
    for curve in &curves.figures {
        let Some(whole) = curve.whole else {
            continue;
        };
        if is_zero(whole) && !with_zeros {
            zeros += 1;
            continue;
        }
        let last = curve.mean.iter().rev().find_map(|value| *value);
        let value = |value: f64| amount(value, curve.kind, curve.unit);
        table.row([
            shown(&curve.name),
            value(whole.min),
            value(whole.mean),
            value(whole.max),
            last.map_or_else(|| "-".to_owned(), value),
            spark(curves, &curve.mean),
        ]);
    }
    let latency = &curves.latency_whole;
    if latency.samples > 0 {
        let p99 = curves.latency.iter().map(|it| match it.samples {
            0 => None,
            _ => Some(it.p99_micros as f64),
        });
        let p99: Vec<Option<f64>> = p99.collect();
        let known = p99.iter().flatten();
        let (least, most) = known.fold((f64::MAX, 0.0_f64), |(least, most), value| {
            (least.min(*value), most.max(*value))
        });
        let last = p99.iter().rev().find_map(|value| *value);
        let shown = |micros: f64| millis(micros as u64);
        table.row([
            "latency (99 %)".to_owned(),
            shown(least),
            shown(latency.p99_micros as f64),
            shown(most),
            last.map_or_else(|| "-".to_owned(), shown),
            spark(curves, &p99),
        ]);
    }
    let span = curves.to_secs.saturating_sub(curves.from_secs);
    let mut text = format!(
        "{} to {} UTC: {}, {} for each point\n\n{}",
        moment(curves.from_secs),
        moment(curves.to_secs),
        duration(span),
        duration(curves.step_secs),
        table.render(),
    );
    if zeros > 0 {
        text += &format!("… and {zeros} figures that were 0 all the time; --all shows them\n");
    }
    text
}

fn is_zero(extent: Extent) -> bool {
    extent.min == 0.0 && extent.max == 0.0
}

/// A figure, period by period.
fn lines(curves: &Curves, curve: &Curve) -> String {
    let mut table = Table::new(&["TIME", "MIN", "MEAN", "MAX"]);
    let value = |value: Option<f64>| {
        value.map_or_else(
            || "-".to_owned(),
            |value| amount(value, curve.kind, curve.unit),
        )
    };
    for (at, time) in curves.times.iter().enumerate() {
        let of = |values: &[Option<f64>]| value(values.get(at).copied().flatten());
        table.row([
            moment(*time),
            of(&curve.min),
            of(&curve.mean),
            of(&curve.max),
        ]);
    }
    format!("{}\n{}", shown(&curve.name), table.render())
}

/// The percentiles, period by period.
fn percentiles(curves: &Curves) -> String {
    let mut table = Table::new(&["TIME", "SAMPLES", "50 %", "90 %", "99 %", "99.9 %", "MAX"]);
    let mut row = |time: String, latency: &Latency| {
        let all = [
            latency.p50_micros,
            latency.p90_micros,
            latency.p99_micros,
            latency.p999_micros,
            latency.max_micros,
        ];
        let [p50, p90, p99, p999, max] = all.map(|micros| match latency.samples {
            0 => "-".to_owned(),
            _ => millis(micros),
        });
        table.row([time, latency.samples.to_string(), p50, p90, p99, p999, max]);
    };
    for (time, latency) in curves.times.iter().zip(&curves.latency) {
        row(moment(*time), latency);
    }
    row("all".to_owned(), &curves.latency_whole);
    format!("latency, from publish to socket\n{}", table.render())
}

/// The highest values of all times, and of days.
fn peaks(highest: &Highest, with_zeros: bool) -> String {
    let mut parts = vec![format!(
        "highest ever\n{}",
        peak_table(&highest.all, with_zeros)
    )];
    let of_day = |day: &Day| {
        let date = Utc::new(day.from_secs).date().to_string();
        format!("{date}\n{}", peak_table(&day.peaks, with_zeros))
    };
    parts.extend(highest.days.iter().map(of_day));
    parts.join("\n") + &trouble(highest.trouble.as_deref())
}

fn peak_table(peaks: &[Peak], with_zeros: bool) -> String {
    let mut table = Table::new(&["FIGURE", "HIGHEST", "TIME"]);
    for peak in peaks.iter().filter(|it| with_zeros || it.value != 0.0) {
        let value = amount(peak.value, peak.kind, peak.unit);
        table.row([shown(&peak.name), value, moment(peak.at_secs)]);
    }
    table.render()
}

/// `2026-01-31 12:00:00`.
fn moment(secs: u64) -> String {
    let utc = Utc::new(secs);
    format!("{} {}", utc.date(), utc.clock())
}

/// `12`, `0.25/s`, `1.5 MiB/s`.
fn amount(value: f64, kind: Kind, unit: Unit) -> String {
    let text = match unit {
        Unit::Bytes => bytes(value.round() as u64),
        Unit::Seconds => format!("{value:.4} s"),
        Unit::Count if value.fract() == 0.0 || value >= 1_000.0 => format!("{value:.0}"),
        Unit::Count => format!("{value:.2}"),
    };
    match (kind, unit) {
        (Kind::Level, _) => text,
        // Seconds in a second.
        (Kind::PerSecond, Unit::Seconds) => format!("{:.2}", value),
        (Kind::PerSecond, _) => text + "/s",
    }
}

/// A curve of the width of its periods: eight heights from 0 to the highest value, and a space
/// where nothing was measured.
fn spark(curves: &Curves, values: &[Option<f64>]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let step = curves.step_secs.max(1);
    let periods = curves
        .to_secs
        .saturating_sub(curves.from_secs)
        .div_ceil(step);
    let mut line = vec![' '; periods.min(2 * POINTS_MAX as u64) as usize];
    let most = values
        .iter()
        .flatten()
        .fold(0.0_f64, |most, it| most.max(*it));
    for (time, value) in curves.times.iter().zip(values) {
        let at = time.saturating_sub(curves.from_secs) / step;
        let (Some(place), Some(value)) = (line.get_mut(at as usize), value) else {
            continue;
        };
        let share = if most > 0.0 { value / most } else { 0.0 };
        *place = HEIGHTS[((share * 7.0).round() as usize).min(7)];
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves() -> Curves {
        Curves {
            from_secs: 600,
            to_secs: 660,
            step_secs: 10,
            times: vec![600, 610, 640, 650],
            figures: vec![
                Curve {
                    name: "sent_bytes".to_owned(),
                    kind: Kind::PerSecond,
                    unit: Unit::Bytes,
                    min: vec![Some(0.0); 4],
                    mean: vec![Some(0.0), Some(1_024.0), None, Some(2_048.0)],
                    max: vec![Some(4_096.0); 4],
                    whole: Some(Extent {
                        min: 0.0,
                        mean: 1_024.0,
                        max: 4_096.0,
                    }),
                },
                Curve {
                    name: "bugs".to_owned(),
                    whole: Some(Extent::default()),
                    ..Curve::default()
                },
            ],
            ..Curves::default()
        }
    }

    #[test]
    fn a_curve_has_a_place_for_each_period() {
        let curves = curves();
        assert_eq!(spark(&curves, &curves.figures[0].mean), "▁▅   █");
        let text = table(&curves, false);
        let row = "sent_bytes  0 B/s  1.0 KiB/s  4.0 KiB/s  2.0 KiB/s  ▁▅   █\n";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("… and 1 figures that were 0") && !text.contains("bugs"));
        assert!(table(&curves, true).contains("bugs"));
        let lines = lines(&curves, &curves.figures[0]);
        assert!(lines.contains("1970-01-01 00:10:40  0 B/s  -"), "{lines}");
    }

    #[test]
    fn amounts_have_their_units() {
        let check = |value, kind, unit, text: &str| assert_eq!(amount(value, kind, unit), text);
        check(12.0, Kind::Level, Unit::Count, "12");
        check(0.25, Kind::PerSecond, Unit::Count, "0.25/s");
        check(1_234.5, Kind::PerSecond, Unit::Count, "1234/s");
        check(1.5, Kind::PerSecond, Unit::Seconds, "1.50");
        check(0.012, Kind::Level, Unit::Seconds, "0.0120 s");
    }

    #[test]
    fn ages_go_up_to_years() {
        let secs = |text: &str| age(text).map(|it| it.as_secs());
        let expected = [
            ("2y", 63_072_000),
            ("3w", 1_814_400),
            ("1d", 86_400),
            ("90m", 5_400),
        ];
        for (text, expected) in expected {
            assert_eq!(secs(text), Ok(expected));
        }
        for wrong in ["0s", "y", "-1d", "0d", "soon"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert!(age("99999999999999999999d").is_err());
    }
}
