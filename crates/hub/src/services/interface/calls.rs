//! Calls, as the shards and the control plane hand them to each other.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;
use stentor_topic::Zone;

use super::answer::ReturnAddress;
use super::broadcast::Fate;
use crate::core::sessions::rights::Identity;

/// A call on its way to the control plane.
#[derive(Debug)]
pub struct Call {
    /// What is called: one level of a topic.
    pub procedure: Box<str>,
    /// What it is about.
    pub payload: Box<[u8]>,
    /// The user properties of the publish, in their order.
    pub arguments: Vec<(Box<str>, Box<str>)>,
    /// The caller.
    pub identity: Arc<Identity>,
    /// The caller's client id.
    pub client_id: Box<str>,
    /// When the caller stops waiting; [`Tick::NEVER`] if it did not say.
    pub expires_at: Tick,
    /// Where the answer goes.
    pub return_to: ReturnAddress,
}

/// A call for a client that serves procedures.
#[derive(Debug)]
pub struct Ask {
    /// What the control plane knows it by; no two have the same, and none is 0.
    pub number: u64,
    /// The zone whose clients may serve it.
    pub zone: Zone,
    /// What is called: one level of a topic.
    pub procedure: Box<str>,
    /// User properties of the message: at most 65,535 bytes each.
    pub properties: Vec<(String, String)>,
    /// What the call is about.
    pub payload: Vec<u8>,
    /// From when on nobody waits for the answer.
    pub until: Tick,
}

/// What a shard says to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served<'a> {
    /// No connected client of this shard serves the procedure.
    Nobody,
    /// The call is larger than the packets that the client takes.
    TooLarge,
    /// As much waits for the client as may.
    Full,
    /// The client's connection has ended before it answered.
    Gone,
    /// The client has answered.
    Said(&'a [u8]),
}

/// The receiver of calls: the control plane.
pub trait Callees: Send + Sync {
    /// Takes a call. It is answered once, later and from another thread, by
    /// [`crate::ServiceCommand::Answer`]. Must not block.
    ///
    /// # Errors
    /// The call, if no more can wait.
    fn call(&self, call: Call) -> Result<(), Box<Call>>;

    /// Takes what a shard says to the [`Ask`] of that number; whether somebody waits for it. Must
    /// not block.
    ///
    /// [`Ask`]: crate::Ask
    fn served(&self, number: u64, served: Served<'_>) -> bool;

    /// Takes what has become of one recipient of the [`Broadcast`] of that number, by its place.
    /// Must not block.
    ///
    /// [`Broadcast`]: crate::Broadcast
    fn told(&self, number: u64, place: usize, fate: Fate);
}
