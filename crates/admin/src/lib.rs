//! The HTTP server of Stentor, for operators and the programs that watch it.
//!
//! [`HttpServer::start`] serves the sockets of its [`HttpListener`]s on a thread of its own. What
//! it answers comes from a [`Backend`], which the server implements. This crate knows no shard and
//! no database: it knows HTTP, and who may ask for what.
//!
//! | path | answer | who may |
//! |---|---|---|
//! | `/healthz` | whether the process works | everybody |
//! | `/readyz` | whether new clients can be let in | everybody; details on this machine |
//! | `/metrics` | figures for Prometheus | this machine; elsewhere the bearer of a token |
//! | `/login` | a session by a link of `stentor console` | the owner of the server |
//! | `/api/v1/login`, `/api/v1/logout` | a session of a browser begins or ends | users |
//! | `/api/v1/me` | who asks, and what he may | the bearer of a token, or a session |
//! | `/api/v1/…` | verbs of the control socket, as JSON | the same with the right |
//! | `/api/v1/…/stream` | what some verbs tell, again and again, as server-sent events | the same |
//! | `/api/v1/openapi.json`, `/api/v1/problems` | what can be asked, and how it fails | everybody |

#![forbid(unsafe_code)]

mod api;
mod backend;
mod bounds;
mod checks;
mod connections;
mod cookie;
mod guard;
mod identity;
mod login;
mod origin;
mod pages;
mod patience;
mod problem;
mod serve;
mod slots;
mod soon;
mod stream;
mod visit;

pub use api::openapi;
pub use backend::{
    Admitted, Backend, Begun, Caller, Denied, Exposition, Login, NewSession, NotAdmitted, Proof,
    REASONS, Reason, Refused, Rejected, Report, Unproven,
};
pub use serve::{CertificateName, HttpListener, HttpServer, ListenerSocket, Rules, TlsSource};
pub use soon::{Outcome, Reply, Taken};
pub use stream::Held;
