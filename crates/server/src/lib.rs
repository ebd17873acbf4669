//! The Stentor server: the I/O around the hubs.

pub mod config;
pub mod listener;
pub mod log;
