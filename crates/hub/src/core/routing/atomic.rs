//! The words that shards share. Tests run the same code on words whose writes become visible late:
//! see [`model`].

#[cfg(not(test))]
pub(crate) use core::sync::atomic::AtomicU64;

#[cfg(test)]
pub(crate) use model::AtomicU64;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
