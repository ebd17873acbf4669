//! Auth Center: who may log in, and what each may do.
//!
//! A shard hands a [`LoginRequest`] to an [`Authenticator`] and goes on; the answer comes back
//! through an [`Answer`], now or later. Nothing that takes time (a password hash, a database)
//! happens on the calling thread: it waits in a bounded queue for a small pool, first come, first
//! served, and a full queue is an answer too ([`Refusal::Busy`]).
//!
//! [`center::Center`] is that authenticator, and [`store::Directory`] knows the users.

#![forbid(unsafe_code)]

pub mod calendar;
pub mod center;
pub mod credential;
mod login;
pub mod model;
mod pool;
pub mod rights;
pub mod store;

pub use login::{
    Answer, Asker, Authenticator, Begun, ConnectionBound, Decision, Exchange, JwtRefusal,
    LoginRequest, Method, Refusal, Secret,
};
pub use pool::{Helper, Job, Pool, PoolOptions};

/// This many of something, in words: `1 user`, `2 users`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
