//! The retained store: the last message of each topic, shared by all shards.
//!
//! For now it lives in memory, and a restart forgets it.

#![forbid(unsafe_code)]

mod memory;

pub use memory::{Bounds, MemoryStore};
