//! One connection, as its shard keeps it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use stentor_auth::Exchange;
use stentor_hub::SessionKey;
use stentor_session::{ConnectRequest, Limit, Output, Tick};
use stentor_topic::Zone;

use crate::admission::Permit;
use crate::listener::Port;
use crate::peer::Peer;
use crate::transport::Transport;

use super::tail::Tail;

/// Of a CONNECT of which more than this has come, and that is not whole, the rest waits in a line:
/// thousands of properties take most of a millisecond. What is shorter is read at once.
pub(super) const LONG_CONNECT: usize = 4 * 1024;

/// One connection. Kept small, since most are idle: what is not always there is boxed or empty.
pub(super) struct Link {
    /// The socket. Means something in this shard's descriptor table only.
    pub(super) fd: OwnedFd,
    /// Tells this connection from earlier ones in the same slot.
    pub(super) serial: u32,
    pub(super) phase: Phase,
    pub(super) reading: Reading,
    pub(super) stream: Stream,
    /// Whether what it sent last went to a crowd.
    pub(super) serves_crowd: bool,
    /// Its last reads in a row that have cost little, up to [`super::read::LIGHT_READS`].
    pub(super) light_reads: u8,
    pub(super) transport: Transport,
    /// What it has sent that was not applied.
    pub(super) tail: Tail,
    /// Bytes that have come from its socket, and that were written for it.
    pub(super) bytes: LinkBytes,
    /// Bytes that it was counted with last, and those of them beyond a short unfinished packet: see
    /// [`super::Shard::weigh`].
    pub(super) weighed: u32,
    pub(super) long: u32,
    pub(super) peer: Peer,
    /// The listener it came through.
    pub(super) port: Arc<Port>,
    /// Its place among the connections; a connection that is only refused has none.
    pub(super) permit: Option<Permit>,
}

/// What has gone over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkBytes {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Where a connection stands.
pub(super) enum Phase {
    /// CONNECT has not arrived whole, or the layers below MQTT are still shaking hands.
    ExpectConnect(Entrance),
    /// CONNECT waits for the answer of the authenticator; nothing is read in the meantime.
    Authenticating(Box<ConnectRequest>),
    /// The authenticator has asked for more, and the client has to answer.
    ExpectAuth(Box<Exchanging>),
    /// It carries a session.
    Live(SessionKey),
    /// The server has closed it: last bytes go out, and what arrives is thrown away until the
    /// peer closes too, so that a reset does not destroy what it has not read yet.
    Draining(Box<Leaving>),
    /// Over; the slot is free after this turn.
    Gone,
}

impl Phase {
    /// Whether a timer of the connection, which may be one of an earlier phase, ends this one.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        match self {
            // Its time runs from the moment that the client is asked for something.
            Self::Authenticating(_) | Self::Gone => false,
            Self::ExpectAuth(waiting) => waiting.deadline <= now,
            Self::Draining(leaving) => leaving.until <= now,
            Self::ExpectConnect(_) | Self::Live(_) => true,
        }
    }
}

/// An enhanced authentication that waits for its client.
pub(super) struct Exchanging {
    /// What the connection began with.
    pub(super) request: Box<ConnectRequest>,
    pub(super) exchange: Exchange,
    /// When the client must have answered.
    pub(super) deadline: Tick,
}

/// What is left of a connection that the server has closed.
pub(super) struct Leaving {
    /// What is not written yet.
    pub(super) final_output: Option<Box<Output>>,
    /// This many more reads are thrown away; a peer that goes on talking is cut off then.
    pub(super) reads_left: u8,
    /// When it ends, whatever is left.
    pub(super) until: Tick,
}

/// How a connection that has not logged in yet will be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// By the authenticator.
    Login,
    /// When its proxy has said who it is.
    Proxied,
    /// As administrator of a zone: it came through the control socket.
    Administrator(Zone),
    /// With a refusal: a limit was reached when it arrived.
    Refused(Limit),
    /// With a refusal: its address is banned.
    Banned,
    /// With a refusal: the server stops.
    Stopping,
}

/// Whether the shard is going to read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// When the poll says that there is something.
    Waiting,
    /// The poll has said so while the connection waited for the authenticator, and will not again.
    Missed,
    /// It is listed for the next round of reads.
    Listed,
    /// Not before another shard has taken what this connection published.
    Stalled,
    /// Not before a time, because it publishes faster than it may, or before something is decided.
    Paused,
    /// After those that have sent less, because it has used its share of a turn. Where nothing but
    /// a few answers waits for its socket, they are written with those of its next share.
    GaveWay,
}

/// What is known of the peer's half of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// More may come; a short read means that nothing is left for now.
    Open,
    /// The peer has closed it: read on to the end, for the poll will not say so again.
    Ended,
}

/// Names a connection for as long as it exists, for answers and timers that come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinkKey {
    /// The slot.
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl Exchanging {
    /// Bytes of memory that it takes. What the method itself remembers is little.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.request.bytes()
    }
}

impl Link {
    /// Whether its CONNECT is long, and not whole yet.
    pub(super) fn has_long_connect(&self) -> bool {
        let is_expected = matches!(self.phase, Phase::ExpectConnect(_));
        is_expected && self.tail.unread().len() >= LONG_CONNECT
    }

    /// The session that it carries.
    pub(super) const fn session(&self) -> Option<SessionKey> {
        match self.phase {
            Phase::Live(key) => Some(key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the memory that an idle connection costs.
    #[test]
    fn is_small() {
        assert!(size_of::<Link>() <= 128, "{}", size_of::<Link>());
    }

    /// The time for CONNECT has long begun when a late answer of the authenticator refuses.
    #[test]
    fn an_earlier_timer_does_not_cut_a_final_output_short() {
        let leaving = Phase::Draining(Box::new(Leaving {
            final_output: Some(Box::default()),
            reads_left: 1,
            until: Tick::from_secs(12),
        }));
        assert!(!leaving.is_over(Tick::from_secs(10)));
        assert!(leaving.is_over(Tick::from_secs(12)));
    }
}
