//! What the server tells about itself: the log, `$SYS` topics, and reports for the control plane.

mod administered;
mod bound;
mod by_http;
pub(crate) mod collect;
mod day;
mod denied;
mod events;
mod figure_history;
mod figures;
mod journal;
mod load;
mod metrics;
mod remedy;
mod report;
mod rounds;
pub(crate) mod sys;
mod tallies;
mod waiting;

pub(crate) use bound::Bound;
pub(crate) use by_http::ByHttp;
pub(crate) use events::{Noted, Wanted, ZoneOf};
pub use figure_history::figures_reference;
pub(crate) use figure_history::{FigureHistory, FigureRecorder};
pub use figures::sys_topics;
pub(crate) use journal::{Claim, Entry, Journal, shown};
pub(crate) use metrics::Metrics;
pub use metrics::metrics_reference;
pub(crate) use remedy::{why_refused, word};
pub(crate) use report::{LongTurn, LossReport, ShardReport, TurnReport};
pub(crate) use rounds::Rounds;
pub(crate) use stentor_series::Histogram;

use stentor_control::status::Latency;

/// The percentiles of a histogram, each at most 1/16 too high.
pub(crate) fn latency(histogram: &Histogram) -> Latency {
    Latency {
        samples: histogram.count_and_secs().0,
        p50_micros: histogram.quantile(500),
        p90_micros: histogram.quantile(900),
        p99_micros: histogram.quantile(990),
        p999_micros: histogram.quantile(999),
        max_micros: histogram.quantile(1000),
    }
}
