//! What the server tells about itself: the log, `$SYS` topics, and reports for the control plane.

mod administered;
mod bound;
pub(crate) mod collect;
mod day;
mod denied;
mod events;
mod figures;
mod histogram;
mod journal;
mod load;
mod metrics;
mod remedy;
mod report;
mod rounds;
pub(crate) mod sys;
mod tallies;

pub(crate) use bound::Bound;
pub(crate) use events::{Noted, Wanted, ZoneOf};
pub use figures::sys_topics;
pub(crate) use histogram::Histogram;
pub(crate) use journal::{Claim, Entry, Journal, shown};
pub(crate) use metrics::Metrics;
pub use metrics::metrics_reference;
pub(crate) use report::{LongTurn, LossReport, ShardReport, TurnReport};
pub(crate) use rounds::Rounds;
