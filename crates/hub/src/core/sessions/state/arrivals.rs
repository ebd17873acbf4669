//! The messages above QoS 0 that a client has sent and that are not settled yet.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::PacketId;
use stentor_session::{Arrival, Attempt, Inbound, Outcome, Receipt, Ticket};

/// The messages above QoS 0 of one client: see [`Inbound`]. Takes no memory while all of them are
/// settled.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Option<Box<Inbound>>);

impl Arrivals {
    /// A message arrives that is to be acknowledged like this. Returns whether it is new. At QoS 1
    /// it may be a repetition, which makes no difference.
    pub(crate) fn arrived(
        &mut self,
        receipt: Receipt,
        attempt: Attempt,
        receive_maximum: u16,
    ) -> Arrival {
        match (receipt, &mut self.0) {
            (Receipt::PubAck(_), Some(inbound)) if inbound.is_full(receive_maximum) => {
                Arrival::TooMany
            }
            (Receipt::PubAck(_), _) => Arrival::New,
            (Receipt::PubRec(packet_id), inbound) => {
                inbound
                    .get_or_insert_default()
                    .on_publish(packet_id, attempt, receive_maximum)
            }
        }
    }

    /// Bytes of memory that they take. O(1).
    pub(crate) fn bytes(&self) -> usize {
        let inbound = self.0.as_deref();
        inbound.map_or(0, |inbound| size_of::<Inbound>() + inbound.bytes())
    }

    /// Forgets a message at QoS 2 that was not taken: it is new when it comes again.
    pub(super) fn refuse(&mut self, packet_id: PacketId) {
        if let Some(inbound) = &mut self.0 {
            inbound.refuse(packet_id);
        }
    }

    /// Messages that were taken before the start of the server, and not released.
    pub(crate) fn restored(received: Vec<PacketId>) -> Self {
        let is_any = !received.is_empty();
        Self(is_any.then(|| Box::new(Inbound::restored(received))))
    }

    /// The packet ids of messages at QoS 2 that were taken and not released, and what their
    /// acknowledgements wait for.
    pub(crate) fn received(&self) -> impl Iterator<Item = (PacketId, Option<Ticket>)> {
        let all = self.0.as_deref().into_iter();
        all.flat_map(|inbound| {
            let ids = inbound.received();
            ids.map(|id| (id, inbound.ticket_of(id)))
        })
    }

    /// Whether an acknowledgement can be sent now. If not, it is queued behind another one.
    pub(crate) fn may_acknowledge(&mut self, receipt: Receipt, outcome: &Outcome) -> bool {
        let inbound = self.0.as_mut();
        inbound.is_none_or(|inbound| inbound.may_acknowledge(receipt, outcome))
    }

    /// An acknowledgement waits. Returns its name for [`Arrivals::settle`].
    pub(crate) fn defer(&mut self, receipt: Receipt, ticket: Ticket) -> u64 {
        self.0.get_or_insert_default().defer(receipt, ticket)
    }

    /// What an acknowledgement waited for has happened. Returns whether
    /// [`Arrivals::next_ack`] is to be asked.
    pub(crate) fn settle(&mut self, name: u64, ticket: Ticket, outcome: Outcome) -> bool {
        let Some(inbound) = &mut self.0 else {
            return false;
        };
        inbound.settle(name, ticket, outcome);
        true
    }

    /// The next acknowledgement that can be sent, in the order of receipt.
    pub(crate) fn next_ack(&mut self) -> Option<(Receipt, Outcome)> {
        let ack = self.0.as_mut()?.next_ack();
        if ack.is_none() {
            self.shrink();
        }
        ack
    }

    /// PUBREL: the client has released a message at QoS 2. Returns whether that was known.
    pub(super) fn released(&mut self, packet_id: PacketId) -> bool {
        let inbound = self.0.as_mut();
        let known = inbound.is_some_and(|inbound| inbound.on_pubrel(packet_id));
        self.shrink();
        known
    }

    /// The connection is gone: its client will send again what was not acknowledged.
    pub(crate) fn disconnected(&mut self) {
        if let Some(inbound) = &mut self.0 {
            inbound.disconnected();
        }
        self.shrink();
    }

    /// Gives the memory back when everything is settled.
    fn shrink(&mut self) {
        self.0.take_if(|inbound| inbound.is_empty());
    }
}
