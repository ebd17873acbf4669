//! Clients that hang up while their login waits for the authenticator.
//!
//! A client may send more behind its CONNECT, and close without waiting for the CONNACK: what it
//! has sent counts then. One that has sent nothing more and is gone wants nothing: its password
//! need not be hashed, and its login takes no earlier connection over.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use stentor_session::Remote;

use super::Shard;
use super::link::{Link, Phase, Stream};
use crate::transport::is_closing_alert;

/// Bytes that are looked at: more than the alert by which TLS ends.
const LOOK_BYTES: usize = 64;

impl Link {
    /// Whether the client has hung up and has sent nothing that was not read, but for the
    /// closing alert of TLS. A look at the socket, which takes nothing from it.
    pub(super) fn is_absent(&self) -> bool {
        self.is_absent_but_for(|link, unread| {
            link.transport.is_encrypted()
                && is_closing_alert(unread)
                && link.stream == Stream::Ended
        })
    }

    /// Whether the client has hung up and every byte it sent was read. A TLS alert counts as
    /// unread too: during a handshake it tells why the client went.
    pub(super) fn is_absent_and_read(&self) -> bool {
        self.is_absent_but_for(|_, _| false)
    }

    fn is_absent_but_for(&self, is_goodbye: impl Fn(&Self, &[u8]) -> bool) -> bool {
        if !self.tail.is_empty() {
            return false;
        }
        let mut seen = [0; LOOK_BYTES];
        match recv(self.fd.as_raw_fd(), &mut seen, MsgFlags::MSG_PEEK) {
            Ok(0) => true,
            Ok(len) => is_goodbye(self, &seen[..len]),
            Err(error) => !matches!(error, Errno::EAGAIN | Errno::EINTR),
        }
    }
}

impl Shard {
    /// Parts with a connection whose login waits, if its client has hung up.
    pub(super) fn part_if_absent(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let is_over = link.stream == Stream::Ended;
        if is_over && matches!(link.phase, Phase::Authenticating(_)) && link.is_absent() {
            self.lost(index, Remote::Closed);
        }
    }
}
