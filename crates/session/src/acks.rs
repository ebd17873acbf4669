//! Acknowledgements that have to wait, and those behind them.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, ReasonCode};

/// Names something that an acknowledgement waits for, and that is resolved later.
///
/// One ticket may stand for many messages: all that one sync of the disk covers, for example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Which packet acknowledges a PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// PUBACK, at QoS 1.
    PubAck(PacketId),
    /// PUBREC, at QoS 2.
    PubRec(PacketId),
}

/// What an acknowledgement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reason code.
    pub reason: ReasonCode,
    /// The reason string, for people; empty for none.
    pub text: Cow<'static, str>,
}

impl Outcome {
    /// The message was taken, and there is nothing to say about it.
    pub const SUCCESS: Self = Self::new(ReasonCode::Success, "");

    /// A reason with its explanation.
    #[must_use]
    pub const fn new(reason: ReasonCode, text: &'static str) -> Self {
        Self {
            reason,
            text: Cow::Borrowed(text),
        }
    }
}

/// Without an explanation.
impl From<ReasonCode> for Outcome {
    fn from(reason: ReasonCode) -> Self {
        Self::new(reason, "")
    }
}

/// Acknowledgements in the order of what they acknowledge [MQTT-4.6.0-2] [MQTT-4.6.0-3].
///
/// It holds something only while the one at its front waits for a [`Ticket`]: as long as nothing
/// waits, acknowledgements are sent at once and never come here. Of a connection that is gone it
/// remembers the QoS 2 messages that still wait: their client sends them again, and then they are
/// not acknowledged before their first arrival is settled. Its owner bounds it by the receive
/// maximum.
#[derive(Debug, Default)]
pub struct AckQueue {
    /// The name of the entry at the front; names go up by one.
    first: u64,
    entries: VecDeque<Entry>,
    /// How many PUBACKs are among them.
    pubacks: usize,
    /// Entries that wait from earlier connections, by name. One for each packet id at most.
    orphans: Vec<Orphan>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// To be sent when it is its turn.
    Ready(Receipt, Outcome),
    /// Not known yet.
    Waiting(Receipt, Ticket),
    /// Waits, and so does another one with this packet id that came before.
    WaitingAgain(PacketId, Ticket),
}

#[derive(Clone, Copy, Debug)]
struct Orphan {
    name: u64,
    packet_id: PacketId,
    ticket: Ticket,
}

impl AckQueue {
    /// How many acknowledgements of the present connection wait. If none does, the next one is
    /// sent at once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory on the heap. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.orphans.capacity() * size_of::<Orphan>()
    }

    /// Whether no acknowledgement of the present connection waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether nothing is remembered from earlier connections either.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.orphans.is_empty()
    }

    /// How many messages of QoS 1 wait for their PUBACK: they count for the receive maximum.
    #[must_use]
    pub const fn pubacks(&self) -> usize {
        self.pubacks
    }

    /// Adds one that could be sent, but for those before it.
    pub fn push_ready(&mut self, receipt: Receipt, outcome: Outcome) {
        self.pubacks += usize::from(matches!(receipt, Receipt::PubAck(_)));
        self.entries.push_back(Entry::Ready(receipt, outcome));
    }

    /// Adds one that waits; returns its name for [`AckQueue::settle`].
    pub fn push_waiting(&mut self, receipt: Receipt, ticket: Ticket) -> u64 {
        let entry = match receipt {
            Receipt::PubRec(packet_id) if self.ticket_of(packet_id).is_some() => {
                Entry::WaitingAgain(packet_id, ticket)
            }
            Receipt::PubRec(_) => Entry::Waiting(receipt, ticket),
            Receipt::PubAck(_) => {
                self.pubacks += 1;
                Entry::Waiting(receipt, ticket)
            }
        };
        self.entries.push_back(entry);
        self.first + self.entries.len() as u64 - 1
    }

    /// What the QoS 2 message with this packet id waits for. O(entries).
    #[must_use]
    pub fn ticket_of(&self, packet_id: PacketId) -> Option<Ticket> {
        let waiting = self.entries.iter().find_map(|entry| match *entry {
            Entry::Waiting(Receipt::PubRec(id), ticket) if id == packet_id => Some(ticket),
            _ => None,
        });
        let orphan = || {
            let orphan = self.orphans.iter().find(|o| o.packet_id == packet_id)?;
            Some(orphan.ticket)
        };
        waiting.or_else(orphan)
    }

    /// Whether the QoS 2 message with this packet id was refused, and its client is yet to be told.
    /// O(entries).
    #[must_use]
    pub fn is_refused(&self, packet_id: PacketId) -> bool {
        self.entries.iter().any(|entry| match entry {
            Entry::Ready(Receipt::PubRec(id), outcome) => {
                *id == packet_id && outcome.reason.is_error()
            }
            Entry::Ready(..) | Entry::Waiting(..) | Entry::WaitingAgain(..) => false,
        })
    }

    /// What an entry waited for has happened; does nothing if nobody is left to tell. The ticket
    /// tells it from one of the same name in an earlier queue. Returns the packet id of a QoS 2
    /// message that was refused after its connection went: when it comes again, it is new.
    pub fn settle(&mut self, name: u64, ticket: Ticket, outcome: Outcome) -> Option<PacketId> {
        let Some(at) = name.checked_sub(self.first) else {
            let at = self.orphans.binary_search_by_key(&name, |o| o.name).ok()?;
            self.orphans.get(at).filter(|o| o.ticket == ticket)?;
            let orphan = self.orphans.remove(at);
            return outcome.reason.is_error().then_some(orphan.packet_id);
        };
        let entry = self.entries.get_mut(usize::try_from(at).ok()?)?;
        match *entry {
            Entry::Waiting(receipt, of) if of == ticket => *entry = Entry::Ready(receipt, outcome),
            Entry::WaitingAgain(packet_id, of) if of == ticket => {
                *entry = Entry::Ready(Receipt::PubRec(packet_id), outcome);
            }
            Entry::Waiting(..) | Entry::WaitingAgain(..) | Entry::Ready(..) => {}
        }
        None
    }

    /// Takes out the next one that can be sent.
    pub fn pop(&mut self) -> Option<(Receipt, Outcome)> {
        let ready = |entry: &mut Entry| matches!(entry, Entry::Ready(..));
        let Entry::Ready(receipt, outcome) = self.entries.pop_front_if(ready)? else {
            return None;
        };
        self.first += 1;
        self.pubacks -= usize::from(matches!(receipt, Receipt::PubAck(_)));
        Some((receipt, outcome))
    }

    /// The connection is gone: nothing of it is sent any more. Calls `forget` with the QoS 2
    /// messages that were refused and whose client was not told.
    pub fn disconnected(&mut self, mut forget: impl FnMut(PacketId)) {
        for entry in self.entries.drain(..) {
            let name = self.first;
            self.first += 1;
            match entry {
                Entry::Waiting(Receipt::PubRec(packet_id), ticket) => self.orphans.push(Orphan {
                    name,
                    packet_id,
                    ticket,
                }),
                Entry::Ready(Receipt::PubRec(packet_id), outcome) if outcome.reason.is_error() => {
                    forget(packet_id);
                }
                Entry::Ready(..) | Entry::Waiting(..) | Entry::WaitingAgain(..) => {}
            }
        }
        self.pubacks = 0;
    }
}
