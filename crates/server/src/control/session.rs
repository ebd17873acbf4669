//! MQTT sessions of callers that come by HTTP: a connection inside the server, as if it had come by
//! a listener after its login.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stentor_hub::Identity;
use stentor_mqtt::Version;
use stentor_session::ConnectRequest;

use super::Admin;
use super::protocol::Failure;
use crate::peer::Peer;
use crate::shard::{Handover, Incoming, Purpose};
use crate::transport::Transport;

/// Messages of QoS 1 on their way at a time.
const RECEIVE_MAXIMUM: u16 = 100;

/// The largest packet that is delivered, in bytes.
const PACKET_BYTES_MAX: u32 = 1 << 20;

impl Admin {
    /// Opens a session of somebody who is known, which ends with the connection: the CONNACK comes
    /// first. The caller's address counts as the other end, for bans and traces.
    pub(super) fn open_session(
        &self,
        identity: &Arc<Identity>,
        address: Option<SocketAddr>,
    ) -> Result<UnixStream, Failure> {
        let shard = self.idlest_shard();
        let load = self.context.shards[shard].load.load(Ordering::Relaxed);
        if load >= self.context.capacity.connections {
            let text = "the server has no room for another connection; try again later";
            return Err(Failure::new("busy", text));
        }
        let pair = UnixStream::pair();
        let pair =
            pair.and_then(|(ours, theirs)| theirs.set_nonblocking(true).map(|()| (ours, theirs)));
        let (ours, theirs) = pair.map_err(|error| Failure::new("busy", no_socket(&error)))?;
        let handover = Handover {
            transport: Transport::Plain,
            unread: Vec::new(),
            peer: address.map_or_else(own, Peer::from),
            port: Arc::clone(&self.http_port),
            // It is counted where it came in.
            permit: None,
            purpose: Purpose::Connect(Box::new(request()), Arc::clone(identity)),
        };
        let incoming = Incoming::Connection(Box::new(handover));
        let sent = self.context.send(shard, incoming, OwnedFd::from(theirs));
        sent.map_err(|errno| Failure::new("busy", no_socket(&errno)))?;
        Ok(ours)
    }

    /// The shard with the fewest connections.
    pub(super) fn idlest_shard(&self) -> usize {
        let shards = self.context.shards.iter();
        let loads = shards.map(|way| way.load.load(Ordering::Relaxed));
        let idlest = loads.enumerate().min_by_key(|(_, load)| *load);
        idlest.map_or(0, |(shard, _)| shard)
    }
}

fn no_socket(error: &dyn std::fmt::Display) -> String {
    format!("the server has no connection left inside: {error}; try again later")
}

/// What its CONNECT would say.
fn request() -> ConnectRequest {
    ConnectRequest {
        version: Version::V5,
        bridge: false,
        clean_start: true,
        // Both ends are the server's.
        keep_alive_secs: 0,
        client_id: String::new(),
        username: None,
        password: None,
        will: None,
        session_expiry_secs: 0,
        receive_maximum: RECEIVE_MAXIMUM,
        packet_bytes_max: PACKET_BYTES_MAX,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: true,
        authentication_method: None,
        authentication_data: None,
    }
}

/// The server itself.
fn own() -> Peer {
    Peer::Unix {
        uid: nix::unistd::geteuid().as_raw(),
        pid: 0,
    }
}
