//! Connection and session state machines: bytes, packets and a time in; packets out.
//!
//! Nothing here does I/O, reads a clock or knows about routing. A session's pieces are separate
//! state machines, so that a session that needs none of them costs nothing: [`Outbound`] and
//! [`Inbound`] hold the two halves of QoS 1 and 2, [`Output`] what waits for the socket,
//! [`ReceivedAliases`] and [`SentAliases`] the topic aliases. [`read_connect`] reads the first
//! packet; [`CloseReason`] is the closed list of how a connection ends.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod acks;
mod alias;
mod blocks;
mod close;
mod conflation;
mod connect;
mod inbound;
mod message;
mod outbound;
mod output;
#[cfg(test)]
mod random;
mod tick;
mod wheel;

pub use acks::{AckQueue, Outcome, Receipt, Ticket};
pub use alias::{ReceivedAliases, SentAliases, TopicForm, TopicName};
pub use close::{CloseReason, Denied, Limit, Local, Remote, Timer, Violation};
pub use conflation::{Conflation, Offered, QosClass};
pub use connect::{
    AuthAnswer, ConnectRequest, WillRequest, auth, malformed, read_auth, read_connect, refusal,
};
pub use inbound::{Arrival, Attempt, Inbound};
pub use message::{Message, MessageParts, Publisher};
pub use outbound::{
    Acked, Advanced, CHUNK_BYTES, CHUNK_LEN, Chunk, ChunkPlace, Delivery, Outbound, PriorDelivery,
    Progress, Remains, Resend, Sealing, Spooled, SubscriptionIds, Window,
};
pub use outbound::{backlog, owed, waiting};
pub use output::{Batch, Flush, Outgoing, Output, Run, Wire};
pub use tick::Tick;
pub use wheel::Wheel;
