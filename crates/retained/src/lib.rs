//! The retained store: the last message of each topic, shared by all shards.
//!
//! [`Store`] keeps them in memory-mapped files, see `docs/retained-format.md`; [`MemoryStore`]
//! forgets them at the end.
//!
//! ```text
//! store     all stripes; the threads that grow, commit, compact
//! stripe    the topics of one hash stripe, under one lock: put, read, recover
//! names     topics in order, for walks         index    topics by hash: where a record lies
//! space     segments, runs, slots              record   one version of a message
//! history   what is kept besides: names
//! ```

mod class;
mod damage;
mod history;
mod index;
mod layout;
mod memory;
mod names;
mod record;
mod space;
mod store;
mod stripe;
#[cfg(test)]
mod tests;
mod usage;

pub use damage::{DamageReport, Outcome};
pub use memory::{Bounds, MemoryStore};
pub use store::{
    Child, FileUse, HistoryFigures, OpenError, Remembered, Store, StoreEvent, StoreMaintenance,
    StoreOptions, StoreStatus, Sync, Verified, Watcher,
};
pub use usage::Quota;
