//! The Stentor server: the I/O around the hubs.
//!
//! [`run`] makes a server out of a [`config::Config`] and runs it until it is asked to stop. The
//! other modules are private; this is the path of a message through them:
//!
//! - `listener` opens the places where clients arrive;
//! - `shard` is a thread with a poll loop, its connections and its hub;
//! - `transport` is what lies between a socket and MQTT: TLS, WebSocket;
//! - `mesh` carries messages between shards, `inbox` sockets, `fdtable` keeps descriptors apart;
//! - `context` is what all shards and the control plane share;
//! - `adaptors` asks the operator's own code about what clients do;
//! - `zones` are the zones of the configuration, for logins and for hubs;
//! - `accounts` opens users, roles and zones, for the server and for commands without one;
//! - `reference` writes pages of the documents;
//! - `http` is the way in for programs that watch the server, `condition` what probes ask;
//! - `survey` keeps lists of all sessions and filters for a while, for those who ask;
//! - `telemetry` tells what happens, `control` is the administrator's way in;
//! - `lifecycle` starts, reloads and stops it all.

mod accounts;
mod adaptors;
mod admission;
mod bans;
mod call;
mod clock;
mod condition;
pub mod config;
mod context;
mod control;
mod data_dir;
mod error;
mod exit;
mod fdtable;
mod give_back;
mod http;
mod inbox;
mod lifecycle;
mod listener;
pub mod log;
mod logins;
mod memory;
mod mesh;
mod own_status;
mod peer;
mod priority;
pub mod proxy;
mod queues;
mod reference;
mod retained;
mod sessions;
mod shard;
mod survey;
mod telemetry;
mod tenants;
mod trace;
mod transport;
mod warden;
mod zones;

pub use accounts::Accounts;
pub use error::ServerError;
pub use exit::ServerExit;
pub use lifecycle::{block_signals, check, hints, run, survive_long_files};
pub use reference::reasons;
pub use retained::{Access, OfflineError, OfflineStore, properties_json};
pub use sessions::{
    DamagedPlace, Ended, Exported, HarmedSession, ImportOptions, Imported, Outcome, Refused,
    SessionsError, SessionsImport, SessionsReport, check_sessions, export_sessions,
    verify_sessions,
};
pub use stentor_admin::openapi;
pub use telemetry::{figures_reference, metrics_reference, sys_topics};
