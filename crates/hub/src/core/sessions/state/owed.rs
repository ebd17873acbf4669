//! The messages above QoS 0 that a session owes its client.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, ReasonCode};
use stentor_session::owed::note_time;
use stentor_session::{
    Acked, Advanced, Chunk, ChunkPlace, Delivery, Message, Outbound, Progress, Remains, Resend,
    Sealing, Tick, Window, backlog,
};

use crate::core::delivery::spool::SPOOL_UNIT;

/// The messages above QoS 0 to one client: see [`Outbound`]. Takes no memory while there are none.
#[derive(Debug, Default)]
pub(crate) struct Owed(Option<Box<Outbound>>);

impl Owed {
    /// What there is, to look at.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Outbound> {
        self.0.as_deref()
    }

    /// What was owed when the server ended.
    pub(crate) fn restored(outbound: Outbound) -> Self {
        let is_any = outbound.is_numbered();
        Self(is_any.then(|| Box::new(outbound)))
    }

    /// The number of the next delivery that is written down.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.get().map_or(1, Outbound::next_number)
    }

    /// What there is to report of deliveries with numbers.
    pub(super) fn take_progress(&mut self) -> Option<Progress> {
        self.0.as_mut()?.take_progress()
    }

    /// What they cost that are in memory, and are not about to go to the disk.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.get().map_or(0, Outbound::held_bytes)
    }

    /// How many of these wait.
    #[inline]
    pub(crate) fn held_len(&self) -> usize {
        self.get().map_or(0, Outbound::held_len)
    }

    /// Whether something waits on the disk, or goes there.
    #[inline]
    pub(crate) fn is_spooled(&self) -> bool {
        self.get().is_some_and(backlog::is_spooled)
    }

    /// Bytes on the disk, or on their way there.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.get().map_or(0, |owed| {
            let under_way = (owed.bytes() - owed.held_bytes()) as u64;
            backlog::disk_len(owed) * SPOOL_UNIT + under_way
        })
    }

    /// Whether its owner may have no more on the disk.
    #[inline]
    pub(crate) fn is_barred(&self) -> bool {
        self.get().is_some_and(backlog::is_barred)
    }

    /// Says whether that is so.
    pub(crate) fn set_barred(&mut self, is_barred: bool) {
        if let Some(owed) = &mut self.0 {
            backlog::set_barred(owed, is_barred);
        }
    }

    /// See [`backlog::note_due`].
    pub(crate) fn note_due(&mut self) -> bool {
        self.0.as_mut().is_some_and(|owed| backlog::note_due(owed))
    }

    /// No more is to go to the disk for now.
    pub(crate) fn note_done(&mut self) {
        if let Some(owed) = &mut self.0 {
            backlog::note_done(owed);
        }
    }

    /// See [`backlog::seal`].
    pub(crate) fn seal(&mut self, bytes_max: usize) -> Option<Sealing<'_>> {
        backlog::seal(self.0.as_mut()?, bytes_max)
    }

    /// See [`backlog::sealed`].
    pub(crate) fn sealed(&mut self, first: u64, count: u8, place: Option<ChunkPlace>) -> bool {
        let owed = self.0.as_mut();
        owed.is_some_and(|owed| backlog::sealed(owed, first, count, place))
    }

    /// See [`backlog::next_fetch`].
    pub(crate) fn next_fetch(&mut self) -> Option<Chunk> {
        backlog::next_fetch(self.0.as_mut()?)
    }

    /// See [`backlog::fetched`]. Returns how many messages are not owed any more.
    pub(super) fn fetched(
        &mut self,
        first: u64,
        deliveries: Vec<Delivery>,
        may_have: impl FnMut(&Delivery) -> bool,
    ) -> usize {
        let owed = self.0.as_mut();
        owed.and_then(|owed| backlog::fetched(owed, first, deliveries, may_have))
            .unwrap_or(0)
    }

    /// Takes out the chunks that nobody needs any more.
    pub(super) fn take_done_chunks(&mut self) -> Vec<Chunk> {
        let owed = self.0.as_mut();
        owed.map_or_else(Vec::new, |owed| backlog::take_done_chunks(owed))
    }

    /// Messages that wait: those in flight do not.
    #[inline]
    pub(crate) fn waiting_len(&self) -> usize {
        self.get().map_or(0, Outbound::waiting_len)
    }

    /// Packet ids begin here, if nothing is owed yet.
    #[inline]
    fn open(&mut self, next_id: u16) -> &mut Outbound {
        self.0
            .get_or_insert_with(|| Box::new(Outbound::starting_at(next_id)))
    }

    /// Puts a message into the window: see [`Outbound::send`]. Returns its packet id.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Tick,
        window: Window,
        next_id: u16,
        delivery: &Delivery,
    ) -> Option<PacketId> {
        let outbound = self.open(next_id);
        note_time(outbound, now);
        outbound.send(window, delivery)
    }

    /// Says when what is sent next was sent.
    pub(crate) fn note_time(&mut self, now: Tick) {
        if let Some(outbound) = &mut self.0 {
            note_time(outbound, now);
        }
    }

    /// Whether [`Owed::send`] would take a message now.
    #[inline]
    pub(crate) fn may_send(&self, window: Window) -> bool {
        match self.get() {
            Some(owed) => owed.may_send(window),
            None => Outbound::default().may_send(window),
        }
    }

    /// Adds a message to the waiting ones.
    pub(crate) fn wait(&mut self, next_id: u16, delivery: Delivery) {
        self.open(next_id).wait(delivery);
    }

    /// Drops some of the waiting messages that have expired: see
    /// [`Outbound::drop_expired_waiting`].
    pub(crate) fn drop_expired(&mut self, now: Tick, tell: impl FnMut(&str)) -> usize {
        let owed = self.0.as_mut();
        owed.map_or(0, |owed| owed.drop_expired_waiting(now, tell))
    }

    /// Takes the oldest waiting message out, to drop it.
    pub(crate) fn drop_oldest(&mut self) -> Option<Delivery> {
        self.0.as_mut()?.drop_oldest_waiting()
    }

    /// What to send again next, if the window has room.
    pub(crate) fn resend(&mut self, window: Window) -> Option<Resend<'_>> {
        self.0.as_mut()?.resend(window)
    }

    /// Moves the oldest waiting message into the window, if there is room.
    pub(crate) fn advance(&mut self, window: Window) -> Option<Advanced> {
        self.0.as_mut()?.advance(window)
    }

    /// Whether something has to be sent again, or waits.
    pub(crate) fn is_behind(&self) -> bool {
        self.get().is_some_and(Outbound::owes)
    }

    /// PUBACK: the client has a message at QoS 1.
    #[inline]
    pub(crate) fn acknowledged(&mut self, packet_id: PacketId) -> Acked {
        let owed = self.0.as_mut();
        owed.map_or(Acked::Unknown, |owed| owed.on_puback(packet_id))
    }

    /// PUBREC: the client has a message at QoS 2, or refuses it.
    pub(super) fn received(&mut self, packet_id: PacketId, reason: ReasonCode) -> Acked {
        let owed = self.0.as_mut();
        owed.map_or(Acked::Unknown, |owed| owed.on_pubrec(packet_id, reason))
    }

    /// PUBCOMP: the client has released a message at QoS 2.
    pub(crate) fn completed(&mut self, packet_id: PacketId) -> Acked {
        let owed = self.0.as_mut();
        owed.map_or(Acked::Unknown, |owed| owed.on_pubcomp(packet_id))
    }

    /// Takes back a message that cannot be sent.
    pub(crate) fn discard(&mut self, packet_id: PacketId) {
        if let Some(owed) = &mut self.0 {
            owed.discard(packet_id);
        }
    }

    /// Takes out what the session must not have any more: see [`Outbound::withdraw`].
    pub(crate) fn withdraw(&mut self, may_have: impl FnMut(&Message) -> bool) -> Remains {
        let owed = self.0.as_mut();
        owed.map_or_else(Remains::default, |owed| owed.withdraw(may_have))
    }

    /// Everything that is owed is so no longer. O(1).
    pub(crate) fn abandon(&mut self) -> Remains {
        let owed = self.0.take();
        owed.map_or_else(Remains::default, |owed| Outbound::abandon(*owed))
    }

    /// The connection is gone: what is in flight has to be sent again on the next one.
    pub(crate) fn disconnected(&mut self) {
        if let Some(owed) = &mut self.0 {
            owed.disconnected();
        }
    }

    /// Gives the memory back when nothing is owed. Returns where packet ids go on then.
    pub(crate) fn shrink(&mut self) -> Option<u16> {
        let owed = self
            .0
            .take_if(|owed| owed.is_empty() && !owed.is_numbered())?;
        Some(owed.next_id())
    }
}
