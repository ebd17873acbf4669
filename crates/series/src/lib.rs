//! The figures of a server over time: from an hour to two years, in a file that never grows beyond
//! a bound.
//!
//! ```text
//! histogram   counts of latencies; two of them are merged by adding
//! span, row   what the figures were in a period: least, mean and highest, and a histogram
//! peaks       the highest value of each figure, and when that was
//! ring        periods of one length, and where their rows are kept
//! recorder    samples become rows; what is not in the file yet
//! curve       rows become points of a curve
//! store       the file                       archive   living with a file that fails
//! ```
//!
//! Everything but `store` and `archive` is pure: callers bring the time. A figure is a number from
//! 0 to [`FIGURES_MAX`]; what it means is the caller's affair. Its number must stay the same for
//! ever, as files have it.
//!
//! # The file
//!
//! A redb database of format 1, with mode 0600. Its table `rings` has blocks of four rows: the key
//! is the number of the ring and of the block. Its table `meta` has the format and the peaks of all
//! times. Rows are added to rows of the same period, so a restart goes on with a period that has
//! begun, and so does a clock that was set back.

#![forbid(unsafe_code)]

mod archive;
mod bytes;
mod curve;
mod histogram;
mod peaks;
mod recorder;
mod ring;
mod row;
mod span;
mod store;

pub use archive::Archive;
pub use curve::{Curve, Point, Range};
pub use histogram::Histogram;
pub use peaks::{Peak, Peaks};
pub use recorder::{Batch, Recorder, Sample};
pub use ring::{DAY_SECS, Ring};
pub use row::Row;
pub use span::Span;
pub use store::{FILE_BYTES_MAX, Snapshot, Store, StoreError};

/// The most figures that there may be.
pub const FIGURES_MAX: usize = 64;
