//! The core of a shard: sessions, and the way of a message from one to the others.
//!
//! A message comes in ([`inbound`]), finds the sessions that want it ([`routing`]), and waits for
//! their sockets ([`delivery`]). What lasts from one message to the next belongs to its session
//! ([`sessions`]).

pub(crate) mod delivery;
pub(crate) mod ids;
pub(crate) mod inbound;
pub(crate) mod memory;
pub(crate) mod retained;
pub(crate) mod routing;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod work;
