//! What the face asks the server.

use std::net::IpAddr;

use serde::Serialize;

/// The server, as the HTTP face knows it. Its methods may block: the face calls them on threads
/// that are there for it, a few at a time.
pub trait Office: Send + Sync + 'static {
    /// Whether the process works. It asks no database.
    fn health(&self) -> Report;

    /// Whether new clients can be let in.
    fn readiness(&self) -> Report;

    /// All figures, as text.
    fn metrics(&self, format: Exposition) -> String;

    /// Whether the bearer of a token may read the metrics.
    fn admit(&self, token: &str, address: Option<IpAddr>) -> Admission;
}

/// The forms of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The content type of an answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The form that a header `Accept` prefers.
    #[must_use]
    pub fn wanted(accept: &str) -> Self {
        let quality = |wanted: &str| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next()?;
                let quality = parts.find_map(|part| part.strip_prefix("q="));
                let quality = quality.map_or(Some(1.0), |text| text.parse::<f32>().ok());
                name.eq_ignore_ascii_case(wanted)
                    .then(|| quality.unwrap_or(0.0))
            });
            ranges.fold(0.0, f32::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

/// The answer to a probe: well if there is no reason against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A word for programs.
    pub name: &'static str,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What the server says of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its user may.
    Granted,
    /// It is the token of nobody.
    Unknown,
    /// Its user may not.
    Denied,
    /// Nobody can say now.
    Unavailable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_form_is_given() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,\
                            application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, wanted) in [
            ("", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("text/html", Exposition::Prometheus),
            (prometheus_2, Exposition::OpenMetrics),
            (
                "text/plain, application/openmetrics-text;q=0.2",
                Exposition::Prometheus,
            ),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("Application/OpenMetrics-Text", Exposition::OpenMetrics),
        ] {
            assert_eq!(Exposition::wanted(accept), wanted, "{accept}");
        }
    }
}
