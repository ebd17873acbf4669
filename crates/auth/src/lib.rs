//! Auth Center: who may log in, and what each may do.
//!
//! A shard hands a [`LoginRequest`] to an [`Authenticator`] and goes on; the answer comes back
//! through an [`Answer`], now or later. Nothing that takes time (a password hash, a database)
//! happens on the calling thread: it waits in a bounded queue for a small pool, first come, first
//! served, and a full queue is an answer too ([`Refusal::Busy`]).
//!
//! Today's one backend is a list of users from the configuration ([`UserList`]).

#![forbid(unsafe_code)]

pub mod credential;
mod list;
pub mod model;
mod pool;
mod rights;

pub use list::{User, UserList, UserListError};
pub use pool::{Pool, PoolOptions};
pub use rights::{Admin, Member};

use std::fmt;
use std::sync::Arc;

use stentor_hub::Identity;

/// Decides who may log in.
pub trait Authenticator: Send + Sync {
    /// Begins a log-in. What can be decided without waiting is returned; for everything else
    /// `answer` is called later, exactly once, on another thread.
    fn begin(&self, request: LoginRequest, answer: Answer) -> Begun;

    /// How many log-ins wait for their answer.
    fn waiting(&self) -> usize;
}

/// What a client shows to be let in.
#[derive(Clone, Default)]
pub struct LoginRequest {
    /// The login name: `user` or `zone/user`.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// Whether the listener lets clients in without a name.
    pub anonymous: bool,
    /// The enhanced authentication method asked for.
    pub method: Option<String>,
}

/// Leaves out what is secret.
impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Where the decision goes.
pub type Answer = Box<dyn FnOnce(Decision) + Send>;

/// What came of [`Authenticator::begin`].
#[derive(Debug)]
pub enum Begun {
    /// Decided at once; the [`Answer`] is not called.
    Decided(Decision),
    /// The [`Answer`] will be called.
    Pending,
}

/// Whether a client is let in.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It is, as this.
    Accepted(Arc<Identity>),
    /// It is not.
    Refused(Refusal),
}

/// Why a client is not let in. What the client is told does not distinguish a wrong name from a
/// wrong password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Wrong name or wrong password.
    Credentials,
    /// No name was given and the listener asks for one.
    LoginRequired,
    /// An authentication method that this server does not have.
    Method,
    /// Too many log-ins wait.
    Busy,
}
