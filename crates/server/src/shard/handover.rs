//! Connections on their way to the shard that is their session's home.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use mio::unix::SourceFd;

use super::Shard;
use super::command::{Arrived, Handover, Incoming, Purpose, ShardCommand};
use super::link::{Entrance, Link, Phase};
use crate::inbox::Received;
use crate::telemetry::Entry;

impl Shard {
    /// Whether a shard has descriptors for another connection.
    pub(super) fn has_room(&self, shard: usize) -> bool {
        let load = self.context.shards[shard].load.load(Ordering::Relaxed);
        load < self.context.capacity.connections
    }

    /// Sends a connection to its home. It is this shard's no longer.
    pub(super) fn send_home(&mut self, index: u32, home: usize, purpose: Purpose) {
        let Some(link) = self.take_out(index) else {
            return;
        };
        self.context.shards[self.id]
            .load
            .fetch_sub(1, Ordering::Relaxed);
        // It stays open on its way, so closing this table's copy would not take it out of the
        // poll.
        let fd = link.fd.as_raw_fd();
        if self
            .poller
            .registry()
            .deregister(&mut SourceFd(&fd))
            .is_err()
        {
            debug_assert!(false, "a link is always registered");
        }
        let ticket = self.tickets.deal();
        let handover = Handover {
            transport: link.transport,
            unread: link.tail.into(),
            peer: link.peer,
            port: link.port,
            permit: link.permit,
            purpose,
        };
        let incoming = Incoming::Connection(Box::new(handover));
        self.context
            .post(home, ShardCommand::Incoming(ticket, incoming));
        self.outbox.queue(home, ticket, link.fd);
    }

    /// Takes in what has come through the inbox.
    pub(super) fn receive_arrivals(&mut self) {
        let mut arrived: Vec<Arrived> = Vec::new();
        let mut lost = 0;
        self.arrivals.receive(|received| match received {
            Received::Whole(incoming, fd) => arrived.push((incoming, fd)),
            Received::Lost(_) => lost += 1,
        });
        if lost > 0 {
            self.figures.refused += lost;
            let what = "connections were closed on their way to another shard: no file \
                        descriptor is left there";
            self.context.journal.note(Entry::Shed { what });
            self.context.journal.wake();
        }
        for (incoming, fd) in arrived {
            self.take_in(incoming, fd);
        }
    }

    /// Takes in something whose two halves are here.
    pub(super) fn take_in(&mut self, incoming: Incoming, fd: OwnedFd) {
        match incoming {
            Incoming::Listener(port) => {
                if self.listen(port, fd).is_err() {
                    let what = "a new listener could not be watched";
                    self.context.journal.note(Entry::Shed { what });
                }
            }
            Incoming::Connection(handover) => self.take_in_connection(*handover, fd),
        }
    }

    fn take_in_connection(&mut self, handover: Handover, fd: OwnedFd) {
        if self.links.len() >= self.context.capacity.total() {
            self.figures.refused += 1;
            return;
        }
        let Handover {
            transport,
            unread,
            peer,
            port,
            permit,
            purpose,
        } = handover;
        let entrance = match purpose {
            Purpose::Connect(..) => Entrance::Login,
            Purpose::Administrate(zone) => Entrance::Administrator(zone),
        };
        let phase = Phase::ExpectConnect(entrance);
        let mut link = Link::new(fd, phase, transport, peer, port, permit);
        link.tail = unread.into();
        let has_pending = !link.transport.pending().is_empty();
        let Some(index) = self.add(link, self.policy.login_timeout) else {
            return;
        };
        if has_pending {
            self.pending.push(index);
        }
        match purpose {
            Purpose::Connect(request, identity) => self.enter(index, request, identity),
            Purpose::Administrate(_) => self.apply_tail(index),
        }
        self.weigh(index);
    }
}
