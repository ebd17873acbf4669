//! The text forms of metrics: that of Prometheus, and OpenMetrics.

use std::fmt::{self, Write as _};

use stentor_admin::Exposition;

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes up only, until the server starts again. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations by size.
    Histogram,
    /// Always 1; the labels say something. Its name ends in `_info`.
    Info,
}

impl Kind {
    /// The word of the reference and of the text form.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A text that grows by families.
#[derive(Debug)]
pub(super) struct Page {
    format: Exposition,
    text: String,
    series: usize,
}

impl Page {
    /// An empty text.
    pub(super) const fn new(format: Exposition) -> Self {
        Self {
            format,
            text: String::new(),
            series: 0,
        }
    }

    /// Begins a family.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Samples<'_> {
        // OpenMetrics names a family without the suffix that its kind demands.
        let (shown, kind) = match (self.format, kind) {
            (Exposition::OpenMetrics, Kind::Counter) => (name.trim_end_matches("_total"), kind),
            (Exposition::OpenMetrics, Kind::Info) => (name.trim_end_matches("_info"), kind),
            (Exposition::Prometheus, Kind::Info) => (name, Kind::Gauge),
            _ => (name, kind),
        };
        let _ = writeln!(self.text, "# HELP {shown} {}", Escaped(help));
        let _ = writeln!(self.text, "# TYPE {shown} {}", kind.name());
        Samples { page: self, name }
    }

    /// Lines with a value.
    #[cfg(test)]
    pub(super) const fn series(&self) -> usize {
        self.series
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Exposition::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// The lines of one family.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    page: &'a mut Page,
    name: &'static str,
}

impl Samples<'_> {
    /// A value without labels.
    pub(super) fn one(&mut self, value: impl fmt::Display) {
        self.line("", &[], value);
    }

    /// A value with one label.
    pub(super) fn by(&mut self, label: &str, of: impl fmt::Display, value: impl fmt::Display) {
        self.line("", &[(label, &of)], value);
    }

    /// A value with two labels.
    pub(super) fn by_both(
        &mut self,
        label: &str,
        of: impl fmt::Display,
        second: &str,
        of_second: impl fmt::Display,
        value: impl fmt::Display,
    ) {
        self.line("", &[(label, &of), (second, &of_second)], value);
    }

    /// A histogram: the counts up to each bound, the count of all, and their sum.
    pub(super) fn histogram(
        &mut self,
        buckets: impl Iterator<Item = (&'static str, u64)>,
        count: u64,
        sum: f64,
    ) {
        for (bound, up_to) in buckets {
            self.line("_bucket", &[("le", &bound)], up_to);
        }
        self.line("_bucket", &[("le", &"+Inf")], count);
        self.line("_sum", &[], sum);
        self.line("_count", &[], count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &dyn fmt::Display)],
        value: impl fmt::Display,
    ) {
        let text = &mut self.page.text;
        self.page.series += 1;
        text.push_str(self.name);
        text.push_str(suffix);
        let mut before = '{';
        for (label, of) in labels {
            let _ = write!(text, "{before}{label}=\"{}\"", Escaped(&of.to_string()));
            before = ',';
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

/// A text inside of quotes, or of a line of help.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Exposition) -> String {
        let mut page = Page::new(format);
        page.family("a_total", Kind::Counter, "As.").one(3);
        page.family("b_info", Kind::Info, "The b.")
            .by("c", "x\"\\\n", 1);
        let mut both = page.family("d", Kind::Gauge, "Ds.");
        both.by_both("e", 1, "f", "g", 0.5);
        let buckets = [("0.5", 1), ("1.0", 2)].into_iter();
        page.family("h", Kind::Histogram, "Hs.")
            .histogram(buckets, 3, 2.25);
        assert_eq!(page.series(), 8);
        page.finish()
    }

    #[test]
    fn both_forms_are_written() {
        let text = page(Exposition::Prometheus);
        for line in [
            "# TYPE a_total counter",
            "# TYPE b_info gauge",
            "b_info{c=\"x\\\"\\\\\\n\"} 1",
            "d{e=\"1\",f=\"g\"} 0.5",
            "h_bucket{le=\"+Inf\"} 3",
            "h_sum 2.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let text = page(Exposition::OpenMetrics);
        for line in ["# TYPE a counter", "a_total 3", "# TYPE b info", "# EOF"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
