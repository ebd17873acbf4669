//! What the server tells about itself: the log, `$SYS` topics, and reports for the control plane.

mod administered;
mod bound;
pub(crate) mod collect;
mod denied;
mod figures;
mod histogram;
mod journal;
mod load;
mod remedy;
mod report;
pub(crate) mod sys;

pub(crate) use bound::Bound;
pub use figures::sys_topics;
pub(crate) use histogram::Histogram;
pub(crate) use journal::{Claim, Entry, Journal};
pub(crate) use report::{LongTurn, LossReport, ShardReport, TurnReport};
