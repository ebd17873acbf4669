//! Sockets on their way from one shard to another, or from the control plane to a shard.
//!
//! A connection belongs to the shard that is home to its session. When another shard accepted it,
//! its descriptor travels through the home shard's inbox, a Unix socket, and its state through
//! that shard's control queue; a [`Ticket`] joins the two, whichever comes first. New listeners
//! travel the same way when the configuration is reloaded.

mod arrivals;
mod outbox;

pub(crate) use arrivals::{Arrivals, Received};
pub(crate) use outbox::Outbox;

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;

use crate::fdtable::passing;

/// What joins a descriptor with its state. Unique among all that are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// Deals out tickets; each sender has its own.
#[derive(Debug)]
pub(crate) struct Tickets {
    next: u64,
}

impl Tickets {
    /// The tickets of one sender: a shard's number, or 255 for the control plane.
    pub(crate) const fn of(sender: u8) -> Self {
        Self {
            next: (sender as u64) << 56,
        }
    }

    /// A ticket that was not dealt before.
    pub(crate) const fn deal(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }
}

/// The receiving end of a shard's inbox: belongs to that shard.
#[derive(Debug)]
pub(crate) struct Inbox(OwnedFd);

/// The sending end of a shard's inbox, shared by everybody.
#[derive(Clone, Debug)]
pub(crate) struct Slot(Arc<OwnedFd>);

/// A shard's inbox and the slot through which it is filled.
///
/// # Errors
/// When no descriptors are left.
pub(crate) fn open() -> Result<(Slot, Inbox), Errno> {
    let (slot, inbox) = passing::pair()?;
    Ok((Slot(Arc::new(slot)), Inbox(inbox)))
}

impl AsRawFd for Inbox {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Slot {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Slot {
    /// Sends one batch: all of it or nothing.
    fn send(&self, batch: &[(Ticket, OwnedFd)]) -> Result<(), Errno> {
        let mut payload = Vec::with_capacity(batch.len() * size_of::<Ticket>());
        for (ticket, _) in batch {
            payload.extend_from_slice(&ticket.0.to_le_bytes());
        }
        let descriptors: Vec<_> = batch.iter().map(|(_, fd)| fd.as_fd()).collect();
        passing::send(self.0.as_fd(), &payload, &descriptors)
    }

    /// Sends one descriptor, for threads that may wait: tries again while the inbox is full.
    ///
    /// # Errors
    /// When the shard is gone or stays full for a second.
    pub(crate) fn send_waiting(&self, ticket: Ticket, fd: OwnedFd) -> Result<(), Errno> {
        let batch = [(ticket, fd)];
        for _ in 0..100 {
            match self.send(&batch) {
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                result => return result,
            }
        }
        Err(Errno::EAGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_meet_their_state_in_any_order() {
        let (slot, inbox) = open().unwrap();
        let mut outbox = Outbox::new(vec![slot]);
        let mut tickets = Tickets::of(3);
        let mut arrivals = Arrivals::new(inbox);
        let early = tickets.deal();
        let late = tickets.deal();
        let lost = tickets.deal();
        assert!(arrivals.expect(early, "early").is_none());
        for ticket in [early, late] {
            outbox.queue(0, ticket, UnixStream::pair().unwrap().0.into());
        }
        assert!(outbox.flush());
        let mut met = Vec::new();
        arrivals.receive(|received| match received {
            Received::Whole(state, _) => met.push(state),
            Received::Lost(_) => panic!("nothing was lost"),
        });
        assert_eq!(met, ["early"]);
        let (state, _fd) = arrivals
            .expect(late, "late")
            .expect("its descriptor is here");
        assert_eq!(state, "late");
        assert!(arrivals.expect(lost, "lost").is_none());
        assert_eq!(arrivals.waiting(), 1);
    }

    /// More than one message's worth, through an inbox that fills up in the meantime.
    #[test]
    fn a_full_inbox_is_tried_again() {
        let (slot, inbox) = open().unwrap();
        let mut outbox = Outbox::new(vec![slot]);
        let mut tickets = Tickets::of(0);
        let mut arrivals = Arrivals::new(inbox);
        let (socket, _peer) = UnixStream::pair().unwrap();
        let mut sent = 0;
        let mut whole = 0;
        for _ in 0..20 {
            for _ in 0..250 {
                let ticket = tickets.deal();
                assert!(arrivals.expect(ticket, ()).is_none());
                outbox.queue(0, ticket, socket.try_clone().unwrap().into());
                sent += 1;
            }
            while !outbox.flush() {
                arrivals.receive(|_| whole += 1);
            }
        }
        arrivals.receive(|received| {
            assert!(matches!(received, Received::Whole((), _)));
            whole += 1;
        });
        assert_eq!(whole, sent);
        assert_eq!(arrivals.waiting(), 0);
    }
}
