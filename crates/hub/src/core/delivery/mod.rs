//! From a message to one session, and from there to its socket.

pub(crate) mod conflate;
pub(crate) mod copies;
pub(crate) mod deliver;
pub(crate) mod direct;
pub(crate) mod held;
pub(crate) mod outbox;
pub(crate) mod pump;
pub(crate) mod snapshot;
pub(crate) mod spool;
pub(crate) mod stored;
pub(crate) mod transmit;
