//! What clients see, step by step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
mod refusals;
mod retained;
mod sessions;
mod shared;
mod slow;
#[path = "../world/mod.rs"]
mod world;
