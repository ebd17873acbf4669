//! Rooms from outside.

mod model;
mod observers;
mod owners;
mod rooms;
mod support;
