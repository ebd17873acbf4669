//! The client from outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod carriers;
mod mosquitto;
mod scripted;
mod support;
