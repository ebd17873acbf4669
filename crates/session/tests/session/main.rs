//! Sessions from outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acks;
mod conflation;
mod connect;
mod outbound;
mod output;
