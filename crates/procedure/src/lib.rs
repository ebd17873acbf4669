//! Procedures: named functions that are asked about a message and come to a verdict.
//!
//! - [`Registry`] holds them: one file each in a folder, and a few that are built in. A changed
//!   file is compiled and tested before it takes the place of the old version; one that does not
//!   work changes nothing.
//! - [`Registry::call`] runs one. Each procedure has threads and a queue of its own, so a slow one
//!   keeps nobody else waiting; a [`Call`] is answered exactly once, by its deadline, whatever
//!   the procedure does.
//! - [`adaptor`] runs the operator's own code about what clients do.
//! - [`luau`] is the sandbox in which scripts run. It knows nothing of procedures.
//!
//! **Verdict and status never mix**: [`Verdict`] is what a procedure thinks of a message,
//! [`Status`] is how the call went. What a message without a verdict gets is written in the
//! manifest (`on_error`) and handed out as advice.
#![forbid(unsafe_code)]

pub mod adaptor;
mod answer;
mod blind;
mod broadcast;
mod builtin;
mod call;
mod client;
mod closer;
mod endpoint;
mod file;
mod history;
mod lacking;
mod lexer;
pub mod luau;
mod manifest;
mod message;
mod mime;
mod modules;
mod net;
#[cfg(any(test, feature = "fuzz"))]
pub mod noise;
mod outlet;
mod outside;
mod overview;
mod pace;
pub mod parts;
mod program;
mod queue;
mod registry;
mod said;
mod script;
mod spamd;
mod statistics;
pub mod store;
mod template;
mod view;
mod watchdog;

pub use answer::{Answer, Change, Outcome};
pub use blind::Blind;
pub use builtin::is_builtin;
pub use call::{Call, Caller, Envelope, Reply};
pub use client::{Clients, Request, Unserved};
pub use closer::Closer;
pub use lacking::Lack;
pub use manifest::{Grant, Kind, Manifest, ManifestError, Mode, Need};
pub use message::{Content, Message};
pub use net::Trust;
pub use net::http::Url;
pub use outlet::{Outlet, Parcel, Question, Recipient, Sent, Unread, Unsent};
pub use outside::Outside;
pub use overview::{Since, span};
pub use queue::has_share;
pub use registry::{Line, Loaded, Procedure, Registry, Settings, message_id};
pub use statistics::Figures;
pub use stentor_call_protocol::{Format, Status, Verdict};
pub use template::{MESSAGE, SCRIPT};
