//! The verbs `figures.history` and `figures.peaks`.

use std::sync::Arc;
use std::time::SystemTime;

use stentor_control::figures::{
    Curve, Curves, Day, Extent, Highest, History, Kind, POINTS_MAX, Peak, Peaks, Unit,
};
use stentor_series::{DAY_SECS, Peaks as Found, Range, Row, Span};

use super::protocol::Failure;
use super::{Admin, lock};
use crate::clock::unix_secs;
use crate::telemetry::{FigureHistory, latency};

/// Points of a curve, if nobody says how many.
const POINTS: usize = 60;

/// How far back a curve goes, if nobody says how far.
const SECS: u64 = 3_600;

/// The days of an answer with peaks, if nobody says how many, and the limit.
const DAYS: u64 = 7;
const DAYS_MAX: u64 = 732;

/// A figure that is wanted: its number, and what an answer says about it.
type Wanted = (usize, (&'static str, Kind, Unit));

/// The figures over time.
pub(super) fn history(admin: &Admin, request: &History) -> Result<Curves, Failure> {
    let figures = wanted(request.figure.as_deref())?;
    let history = of(admin)?;
    let now = unix_secs(SystemTime::now());
    // The second that goes on is in it.
    let to = request.to_secs.unwrap_or(now + 1);
    let from = request.from_secs.unwrap_or_else(|| to.saturating_sub(SECS));
    if from >= to {
        let message = format!("the range from {from} to {to} is empty; begin earlier");
        return Err(Failure::new("bad-request", message).about("from_secs"));
    }
    let points = request.points.unwrap_or(POINTS).clamp(1, POINTS_MAX);
    let curve = history.curve(Range { from, to, points }, now);
    let rows = || curve.points().iter().map(|point| &point.row);
    let (from_secs, to_secs) = curve.range();
    let figures = figures.into_iter().map(|(number, (name, kind, unit))| {
        let values = |of: fn(Span) -> f64| -> Vec<Option<f64>> {
            let values = rows().map(|row| row.spans[number].map(|span| round(of(span))));
            values.collect()
        };
        Curve {
            name: name.to_owned(),
            kind,
            unit,
            min: values(|span| span.min.into()),
            mean: values(|span| span.mean),
            max: values(|span| span.max.into()),
            whole: extent(curve.whole(), number),
        }
    });
    Ok(Curves {
        from_secs,
        to_secs,
        step_secs: curve.step(),
        times: rows().map(|row| row.start).collect(),
        figures: figures.collect(),
        latency: rows().map(|row| latency(&row.latency)).collect(),
        latency_whole: latency(&curve.whole().latency),
        trouble: history.trouble(),
    })
}

/// The highest values, and when they were.
pub(super) fn peaks(admin: &Admin, request: &Peaks) -> Result<Highest, Failure> {
    let figures = wanted(request.figure.as_deref())?;
    let history = of(admin)?;
    let days = request.days.unwrap_or(DAYS).min(DAYS_MAX);
    let today = unix_secs(SystemTime::now()) / DAY_SECS;
    let since = (today + 1).saturating_sub(days) * DAY_SECS;
    let found = if days == 0 {
        Vec::new()
    } else {
        history.days(since)
    };
    let day = |day: &Found| Day {
        from_secs: day.start,
        peaks: told(&figures, day),
    };
    Ok(Highest {
        all: told(&figures, &history.peaks()),
        days: found.iter().map(day).collect(),
        trouble: history.trouble(),
    })
}

fn of(admin: &Admin) -> Result<Arc<FigureHistory>, Failure> {
    let figures = lock(&admin.notes).figures.clone();
    figures.ok_or_else(|| Failure::new("unavailable", "the server is starting; try again"))
}

/// The figures with these names, in the order of the table.
fn wanted(names: Option<&str>) -> Result<Vec<Wanted>, Failure> {
    let all = || FigureHistory::figures().enumerate();
    let Some(names) = names else {
        return Ok(all().collect());
    };
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let is_unknown = |name: &&&str| !all().any(|(_, (known, ..))| known == **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        let message = format!("there is no figure {unknown:?}; `stentor figures --all` lists them");
        return Err(Failure::new("not-found", message).about("figure"));
    }
    Ok(all()
        .filter(|(_, (name, ..))| names.contains(name))
        .collect())
}

fn extent(row: &Row, number: usize) -> Option<Extent> {
    row.spans[number].map(|span| Extent {
        min: round(span.min.into()),
        mean: round(span.mean),
        max: round(span.max.into()),
    })
}

/// With six decimals.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn told(figures: &[Wanted], found: &Found) -> Vec<Peak> {
    let peak = |(number, (name, kind, unit)): &Wanted| {
        let peak = found.peaks[*number]?;
        Some(Peak {
            name: (*name).to_owned(),
            kind: *kind,
            unit: *unit,
            value: round(peak.value.into()),
            at_secs: peak.at,
        })
    };
    figures.iter().filter_map(peak).collect()
}
