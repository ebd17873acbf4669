//! The identity of a client and what it may do, as the hub needs to know it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use stentor_session::Tick;
use stentor_topic::Zone;

use crate::core::sessions::quota::{Needs, Quotas};
use crate::core::settings::SlowPolicy;

/// Rights compiled for one login. They never change: a login whose rights change gets others.
pub trait Rights: Send + Sync {
    /// Whether `topic` may be published to. Asked for every publish: no allocation, no lock.
    fn may_publish(&self, topic: &str) -> bool;
    /// How much of what `filter` matches may be received; without `$share/<group>/`.
    fn may_subscribe(&self, filter: &str) -> Access;
    /// Whether the messages of `topic` may be received. Asked for each delivery to a session with
    /// a subscription that is not permitted in full: no allocation, no lock.
    fn may_receive(&self, topic: &str) -> bool;

    /// How much each session may take. Asked when a connection or a subscription begins.
    fn quotas(&self) -> Quotas {
        Quotas::default()
    }

    /// The names of the roles that these rights come from: they are written down with a session
    /// that lasts, which gets its rights by them after a restart. None where the roles alone would
    /// allow more.
    fn roles(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether the user is known to nobody but the credential that it came with, as the bearer of
    /// a web token may be. Written down like the roles: such a session goes on though no account
    /// has its name.
    fn has_no_account(&self) -> bool {
        false
    }

    /// Whether [`roles`](Self::roles) are those of the credential that the user came with, and not
    /// of an account. Written down like the roles: what becomes of an account changes nothing in
    /// them.
    fn roles_are_of_credential(&self) -> bool {
        false
    }

    /// Whether the user is known to be one still. After a restart it is not, until the user
    /// database has answered. Until then, no will is published.
    fn is_confirmed(&self) -> bool {
        true
    }

    /// The places that a connection needs, where connections are counted.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// How many rules [`may_subscribe`](Self::may_subscribe) has to look at where it has to weigh
    /// them: commands about rooms are paid for by that.
    fn rules(&self) -> usize {
        0
    }

    /// Whether this is the server's owner, by its control socket, and no user of any zone: it may
    /// have any client id.
    fn is_operator(&self) -> bool {
        false
    }

    /// The system's user who acts as the server's owner, where that is known.
    fn operator_uid(&self) -> Option<u32> {
        None
    }

    /// The bounds of the queue that these rights are for: its session belongs to the server, and no
    /// client ever has it. `None` for the rights of clients.
    fn queue(&self) -> Option<QueueBounds> {
        None
    }

    /// The rights as their maker knows them, for a [`crate::Renewal`]; `None` if they are not to
    /// be renewed.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// What a queue may hold: a shared subscription that keeps messages above QoS 0 for its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Messages that may wait.
    pub messages: u32,
    /// Bytes that may wait, with what each message costs beside its own.
    pub bytes: u64,
    /// What happens to a message that does not fit: either that one is dropped, or the oldest ones.
    pub full: SlowPolicy,
}

/// How much of what a filter matches somebody may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every topic that it matches.
    All,
    /// Some of the topics.
    Part,
    /// None of them.
    Nothing,
}

impl Access {
    /// A word for people and for machines.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Part => "part",
            Self::Nothing => "nothing",
        }
    }
}

/// An authenticated client.
#[derive(Clone)]
pub struct Identity {
    /// The user name; `None` for anonymous.
    pub user: Option<Arc<str>>,
    /// The zone that the user belongs to.
    pub zone: Zone,
    /// What it may do.
    pub rights: Arc<dyn Rights>,
    /// When the connection ends unless the client authenticates again: the end of a token;
    /// [`Tick::NEVER`] for most.
    pub expires_at: Tick,
    /// By what it is known again that has got its name without proving anything; `None` for all
    /// others.
    pub guest: Option<GuestMark>,
}

/// Where a guest has come from, as a number that nobody can foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestMark(pub u64);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("user", &self.user)
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}
