//! From a message to the sessions that want it, on this shard and on others.

mod atomic;
pub(crate) mod batch;
pub(crate) mod fence;
pub(crate) mod interest;
pub(crate) mod keep;
pub(crate) mod options;
pub(crate) mod route;
pub(crate) mod share;
