//! Plots as inline SVG: curves over two axes. Colours come from the page's style.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

/// Pixels of the drawing and of its margins.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

/// Pieces of a long curve: about one for each pixel of the drawing's width.
const PIECES: usize = 480;

/// Colours of server, floor and rivals, as classes of the page.
pub(super) const OWN: &str = "own-c";
pub(super) const FLOOR: &str = "floor-c";
const RIVALS: [&str; 6] = ["c2", "c3", "c4", "c5", "c6", "c7"];

/// The colour of the nth rival.
pub(super) fn rival(index: usize) -> &'static str {
    RIVALS[index % RIVALS.len()]
}

/// One line.
pub(super) struct Curve {
    pub(super) name: String,
    /// A class of the page.
    pub(super) colour: &'static str,
    /// In the units of the axes; NaN interrupts the line.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether what lies below is tinted.
    pub(super) filled: bool,
}

/// An axis: where values lie on it, and what is written beside it.
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    /// Values and their labels.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to a round number that is at least `high`.
    pub(super) fn linear(high: f64, label: impl Fn(f64) -> String) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_up(high / 4.0);
        let count = (high / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|n| f64::from(n) * step);
        Self {
            low: 0.0,
            high: count * step,
            is_log: false,
            ticks: ticks.map(|value| (value, label(value))).collect(),
        }
    }

    /// Powers of ten around both ends, which are above 0.
    pub(super) fn log(low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let first = low.max(1e-9).log10().floor() as i32;
        let last = (high.max(low * 1.01).log10().ceil() as i32).max(first + 1);
        let ticks = (first..=last).map(|n| 10_f64.powi(n));
        Self {
            low: 10_f64.powi(first),
            high: 10_f64.powi(last),
            is_log: true,
            ticks: ticks.map(|value| (value, label(value))).collect(),
        }
    }

    /// Ends and ticks as given.
    pub(super) fn of(low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        Self {
            low,
            high,
            is_log: false,
            ticks,
        }
    }

    /// From 0 at the low end to 1 at the high one.
    fn place(&self, value: f64) -> f64 {
        let (low, high, value) = if self.is_log {
            (
                self.low.log10(),
                self.high.log10(),
                value.max(self.low).log10(),
            )
        } else {
            (self.low, self.high, value)
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// The next of 1, 2, 2.5, 5 × a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fits = |step: &&f64| **step * power >= value * 0.999;
    steps.iter().find(fits).unwrap_or(&10.0) * power
}

/// A figure with a caption, a legend and the curves; nothing without points.
pub(super) fn figure(caption: &str, unit: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> String {
    if curves.iter().all(|curve| curve.points.len() < 2) {
        return String::new();
    }
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        super::escaped(caption)
    );
    let px = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let py = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
    // Writing to a string cannot fail.
    for (value, label) in &y.ticks {
        let at = py(*value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 7.0,
            at + 4.0,
            super::escaped(label)
        );
    }
    for (value, label) in &x.ticks {
        let at = px(*value);
        // The last one has no room to its right.
        let anchor = if at > WIDTH - 2.0 * RIGHT {
            "end"
        } else {
            "middle"
        };
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM + 21.0,
            super::escaped(label)
        );
    }
    for curve in curves {
        let points = thinned(&curve.points);
        svg.push_str(&drawn(curve, &points, &px, &py, py(y.low)));
    }
    svg.push_str("</svg>\n");
    format!(
        "<figure>\n<figcaption>{} <span>{}</span></figcaption>\n{svg}{}</figure>\n",
        super::escaped(caption),
        super::escaped(unit),
        legend(curves)
    )
}

/// As many points as can be seen: a long curve has a piece for each pixel, and of each piece its
/// ends, its lowest and its highest point are left. A gap stays one where it lies.
fn thinned(points: &[(f64, f64)]) -> Cow<'_, [(f64, f64)]> {
    if points.len() <= 4 * PIECES {
        return points.into();
    }
    let mut left = Vec::new();
    for piece in points.chunks(points.len().div_ceil(PIECES)) {
        let place = |pick: fn(&f64, &f64) -> Ordering| {
            let values = piece.iter().enumerate().filter(|(_, (_, y))| !y.is_nan());
            values.max_by(|(_, (_, a)), (_, (_, b))| pick(a, b))
        };
        let highest = place(f64::total_cmp).map(|(at, _)| at);
        let lowest = place(|a, b| b.total_cmp(a)).map(|(at, _)| at);
        let gap = piece.iter().position(|(_, y)| y.is_nan());
        let mut kept = [Some(0), lowest, highest, gap, Some(piece.len() - 1)];
        kept.sort_unstable();
        let mut last = None;
        for at in kept.into_iter().flatten() {
            if last.replace(at) != Some(at) {
                left.push(piece[at]);
            }
        }
    }
    left.into()
}

fn drawn(
    curve: &Curve,
    points: &[(f64, f64)],
    px: &dyn Fn(f64) -> f64,
    py: &dyn Fn(f64) -> f64,
    base: f64,
) -> String {
    let mut text = String::new();
    for run in points
        .split(|(_, y)| y.is_nan())
        .filter(|run| !run.is_empty())
    {
        let mut path = String::new();
        for (index, (x, y)) in run.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", px(*x), py(*y));
        }
        if let (true, Some(first), Some(last)) = (curve.filled, run.first(), run.last()) {
            let (from, to) = (px(first.0), px(last.0));
            let _ = writeln!(
                text,
                "<path class=\"area {}\" d=\"{path}L{to:.1} {base:.1}L{from:.1} {base:.1}Z\"/>",
                curve.colour
            );
        }
        let _ = writeln!(
            text,
            "<path class=\"curve {}\" d=\"{path}\"/>",
            curve.colour
        );
    }
    text
}

fn legend(curves: &[Curve]) -> String {
    let entries: String = curves
        .iter()
        .map(|curve| {
            let name = super::escaped(&curve.name);
            format!("<span><i class=\"dot {}\"></i>{name}</span>", curve.colour)
        })
        .collect();
    format!("<div class=\"legend\">{entries}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of hours has hundreds of thousands of steps; the page has a few for each pixel, and
    /// the highest, the lowest and the gaps among them.
    #[test]
    fn a_long_curve_is_drawn_with_as_many_points_as_can_be_seen() {
        let mut points: Vec<_> = (0..1_000_000).map(|x| (f64::from(x), 10.0)).collect();
        points[333_333].1 = 99.0;
        points[666_666].1 = 1.0;
        points[500_001].1 = f64::NAN;
        let left = thinned(&points);
        assert!(left.len() <= 5 * PIECES, "{}", left.len());
        assert!(left.is_sorted_by(|a, b| a.0 < b.0));
        for at in [0, 333_333, 666_666, 999_999] {
            assert!(left.contains(&points[at]), "{at}");
        }
        assert!(left.iter().any(|(_, y)| y.is_nan()));
        assert_eq!(*thinned(&points[..500]), points[..500]);
    }

    #[test]
    fn axes_are_round_and_reach_their_ends() {
        let plain = |value: f64| format!("{value}");
        let axis = Axis::linear(105_000.0, plain);
        assert_eq!((axis.low, axis.high), (0.0, 150_000.0));
        assert_eq!(axis.ticks[1], (50_000.0, "50000".into()));
        assert!((axis.place(75_000.0) - 0.5).abs() < 1e-9);
        let log = Axis::log(30.0, 4_000.0, plain);
        assert_eq!((log.low, log.high), (10.0, 10_000.0));
        assert!((log.place(100.0) - 1.0 / 3.0).abs() < 1e-9);
        // A single value has an axis as well.
        assert_eq!(Axis::log(10.0, 10.0, plain).ticks.len(), 2);
        assert_eq!(Axis::linear(0.0, plain).high, 1.0);
    }

    #[test]
    fn gaps_interrupt_a_curve() {
        let curve = Curve {
            name: "a<b".into(),
            colour: OWN,
            points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (3.0, 2.0)],
            filled: false,
        };
        let axis = || Axis::linear(4.0, |value| format!("{value}"));
        let text = figure("c", "u", &axis(), &axis(), &[curve]);
        assert_eq!(text.matches("class=\"curve").count(), 2, "{text}");
        assert!(text.contains("a&lt;b") && !text.contains("NaN"), "{text}");
    }
}
