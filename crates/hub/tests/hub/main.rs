//! The hub from outside: worlds of several shards on a virtual clock.
//!
//! One program, so that the world is compiled and linked once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod adaptors;
mod authentication;
mod backlogs;
mod bounds;
mod broadcasts;
mod bugs;
mod burst;
mod calls;
mod client_ids;
mod cold;
mod complete;
mod conflation;
mod conformance;
mod conformance_server;
mod dear_filters;
mod debts;
mod deferred;
mod delay;
mod endings;
mod given_up;
mod heaviest;
mod history;
mod hostile;
mod keep;
mod mesh_room;
mod noise;
mod permission;
mod presence;
mod private;
mod queue;
mod queues;
mod quota;
mod restart;
mod room_simulation;
mod rooms;
mod route_jobs;
mod scenarios;
mod serve;
mod share_room;
mod short_memory;
mod simulation;
mod snapshot_jobs;
mod snapshots_turns;
mod stored;
mod survey;
mod turns;
mod world;
