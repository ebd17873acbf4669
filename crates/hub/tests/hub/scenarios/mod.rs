//! What clients see, step by step.

mod delivery;
mod refusals;
mod retained;
mod sessions;
mod shared;
mod slow;
