//! The queue of packets that wait to be written to one connection.

use alloc::collections::VecDeque;
use alloc::rc::Rc;

use stentor_mqtt::PacketId;

use super::batch::{Batch, Remnant};
use super::run::Run;
use super::wire::{Outgoing, Wire};
use crate::Tick;
use crate::alias::{SentAliases, TopicForm};
use crate::blocks::Blocks;

/// The output queue of one connection. It exists only while it holds something, and is bounded
/// by its owner: [`Output::bytes`] tells what it holds.
///
/// Gathering does not take anything out: the owner calls [`Output::gather`], writes, and then
/// says with [`Output::written`] how much went; nothing else may be called in between.
#[derive(Debug, Default)]
pub struct Output {
    /// The first entries: those that were passed when others behind them were dropped. None of
    /// them may be dropped, so nobody looks at them again to find one that may.
    passed: Blocks<Entry>,
    /// The others.
    entries: Blocks<Entry>,
    /// The bytes of control packets and of stored messages, in the order of their entries.
    copied: VecDeque<u8>,
    /// How many of them are of stored messages.
    stored_bytes: usize,
    /// Whether a control packet other than PINGRESP was added since none waited.
    has_news: bool,
    remnant: Remnant,
    /// All entries together.
    load: Load,
    /// How many entries are marked, and how many may leave, from the first on: see
    /// [`Output::mark`].
    marked: usize,
    released: usize,
    /// Entries that were looked at to drop some.
    #[cfg(test)]
    steps: usize,
}

/// The fields of an [`Outgoing`] stand here by themselves, which keeps an entry at 16 bytes.
#[derive(Debug)]
enum Entry {
    Publish {
        wire: Rc<Wire>,
        packet_id: Option<PacketId>,
        first: u8,
    },
    /// The packets of a run from this one on.
    Run { run: Rc<Run>, next: u32 },
    /// Bytes of `copied`.
    Copied(Copied),
}

/// There may be a hundred thousand of them for one connection.
const _: () = assert!(size_of::<Entry>() == 16);

/// What entries hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    /// Bytes of PUBLISH packets that are not in `copied`.
    wire: usize,
    /// What the entries take beside their packets.
    overhead: usize,
    /// Messages without a packet id.
    messages: usize,
}

impl Load {
    #[inline]
    const fn add(&mut self, more: Self) {
        self.wire += more.wire;
        self.overhead += more.overhead;
        self.messages += more.messages;
    }

    #[inline]
    const fn subtract(&mut self, less: Self) {
        self.wire -= less.wire;
        self.overhead -= less.overhead;
        self.messages -= less.messages;
    }
}

impl Entry {
    /// A queue of entries has room for twice as many.
    const COST: usize = 2 * size_of::<Self>();

    #[inline]
    fn load(&self) -> Load {
        match self {
            Self::Publish {
                wire, packet_id, ..
            } => Load {
                wire: wire.encoded.wire_len(),
                overhead: Self::COST + Wire::OVERHEAD,
                messages: usize::from(packet_id.is_none()),
            },
            Self::Run { run, next } => {
                let messages = run.len() - *next as usize;
                Load {
                    wire: run.bytes().len() - run.start(*next as usize),
                    overhead: Self::COST + run.overhead(messages),
                    messages,
                }
            }
            Self::Copied(copied) => Load {
                wire: 0,
                overhead: Self::COST,
                messages: copied.messages as usize,
            },
        }
    }
}

/// Packets that lie one behind the other in `copied`.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    /// Bytes of all of them.
    len: u32,
    /// Bytes of those that are stored messages.
    stored_len: u32,
    /// How many those are.
    messages: u32,
}

/// The first byte of a PINGRESP.
const PINGRESP: u8 = 0xD0;

/// Packets of about this many bytes make one entry: what a write leaves of an entry is copied.
const COPIED_BYTES_MAX: u32 = 16 * 1024;

/// What is left after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Everything was written.
    Done,
    /// All that was to be written of the batch was written, and there is more.
    More,
    /// The socket did not take all of that: go on when it is writable.
    Blocked,
}

impl Output {
    /// Bytes that wait, without framing below MQTT.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.load.wire + self.copied.len()
    }

    /// The packets that wait cost this many bytes of memory, with what holds them. A packet that
    /// other queues share counts as if it were here alone, so this is an upper bound. What a write
    /// has begun does not count. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.wire_bytes() + self.load.overhead
    }

    /// Bytes of memory that it keeps: what waits costs, and what a write has begun takes. As with
    /// [`Output::bytes`], what other queues share counts as if it were here alone. O(1).
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes() + self.remnant.memory()
    }

    /// Bytes that are to be written, with the rest of what a write has begun. O(1).
    #[must_use]
    pub fn due_bytes(&self) -> usize {
        self.wire_bytes() + self.remnant.len()
    }

    /// How many messages wait that hold no packet id. O(1).
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.load.messages
    }

    /// Bytes of packets other than PUBLISH that wait.
    #[must_use]
    pub fn control_bytes(&self) -> usize {
        self.copied.len() - self.stored_bytes
    }

    /// Whether something waits that tells its client something: anything but PINGRESP. It may be
    /// said of PINGRESP that came behind another control packet. O(1).
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_answers() || self.wire_bytes() > self.control_bytes()
    }

    /// Whether packets wait other than PUBLISH and PINGRESP, as above. O(1).
    #[must_use]
    pub fn has_answers(&self) -> bool {
        self.has_news && self.control_bytes() > 0
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.remnant.is_empty()
    }

    /// Drops the first packets. Returns whether there were any: nothing else may be called any more
    /// but [`Output::bytes`] and [`Output::reset`].
    pub fn shed(&mut self) -> bool {
        let first = self.passed.pop_front();
        let Some(entry) = first.or_else(|| self.entries.pop_front()) else {
            return false;
        };
        self.load.subtract(entry.load());
        self.is_gone(0);
        true
    }

    /// Marks all that waits now. Where what is added may not leave before something has happened,
    /// its owner marks it when that begins, and calls [`Output::release_marked`] when it has
    /// happened. Only [`Output::gather_released`] heeds that. O(1).
    pub fn mark(&mut self) {
        self.marked = self.len();
    }

    /// What was marked may leave. O(1).
    pub fn release_marked(&mut self) {
        self.released = self.released.max(self.marked);
    }

    /// All that waits now may leave. O(1).
    pub fn release(&mut self) {
        self.released = self.len();
    }

    /// Whether something may leave: also the rest of a packet that has begun to. O(1).
    #[must_use]
    pub fn has_released(&self) -> bool {
        self.released > 0 || !self.remnant.is_empty()
    }

    /// An entry was taken out from this place.
    const fn is_gone(&mut self, place: usize) {
        if self.marked > place {
            self.marked -= 1;
        }
        if self.released > place {
            self.released -= 1;
        }
    }

    /// Whether an entry at this place belongs to those before it: all of them may
    /// leave together, or none.
    const fn goes_on_at(&self, place: usize) -> bool {
        self.marked != place && self.released != place || place == 0
    }

    /// How many pieces it holds that are dropped one by one. O(1).
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.len()
    }

    /// How many entries there are.
    fn len(&self) -> usize {
        self.passed.len() + self.entries.len()
    }

    /// Adds a PUBLISH.
    #[inline]
    pub fn push_publish(&mut self, outgoing: Outgoing) {
        let Outgoing {
            wire,
            packet_id,
            first,
        } = outgoing;
        self.push(Entry::Publish {
            wire,
            packet_id,
            first,
        });
    }

    /// Adds all packets of a run.
    #[inline]
    pub fn push_run(&mut self, run: Rc<Run>) {
        self.push(Entry::Run { run, next: 0 });
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        self.load.add(entry.load());
        self.entries.push_back(entry);
    }

    /// Adds a packet other than PUBLISH.
    pub fn push_control(&mut self, packet: &[u8]) {
        let told = self.has_answers();
        self.has_news = told || packet.first() != Some(&PINGRESP);
        self.push_copied(packet, false);
    }

    /// Adds a whole PUBLISH of QoS 0 that is for this connection alone, and stays in the queue
    /// until it is written.
    pub fn push_stored(&mut self, packet: &[u8]) {
        self.stored_bytes += packet.len();
        self.push_copied(packet, true);
    }

    /// Adds a packet to the last entry, if it is one of its kind and short.
    fn push_copied(&mut self, packet: &[u8], is_stored: bool) {
        self.copied.extend(packet);
        // A packet is at most 256 MiB.
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let goes_on = self.goes_on_at(self.len());
        let run = match self.entries.back_mut() {
            Some(Entry::Copied(run)) if goes_on && run.len < COPIED_BYTES_MAX => run,
            _ => {
                self.push(Entry::Copied(Copied::default()));
                match self.entries.back_mut() {
                    Some(Entry::Copied(run)) => run,
                    _ => return,
                }
            }
        };
        run.len = run.len.saturating_add(len);
        if is_stored {
            run.stored_len += len;
            run.messages += 1;
            self.load.messages += 1;
        }
    }

    /// Drops the oldest PUBLISH packets that hold no packet id, until [`Output::bytes`] and
    /// [`Output::messages`] are at most `bytes` and `messages`, or there are no more of them. Tells
    /// `lost` of them: their topic, and how many they are.
    ///
    /// An entry is looked at once, however often this is called: one that may not be dropped is
    /// put with those that were passed before.
    pub fn make_room(&mut self, bytes: usize, messages: usize, mut lost: impl FnMut(&str, u64)) {
        loop {
            let too_large = self.bytes().saturating_sub(bytes);
            let too_many = self.load.messages.saturating_sub(messages);
            if too_large == 0 && too_many == 0 {
                return;
            }
            #[cfg(test)]
            {
                self.steps += 1;
            }
            match self.entries.front() {
                None => return,
                Some(Entry::Copied(_)) => self.pass(),
                Some(Entry::Publish {
                    wire, packet_id, ..
                }) => {
                    if packet_id.is_some() {
                        self.pass();
                    } else {
                        lost(wire.encoded.topic(), 1);
                        self.drop_first();
                    }
                }
                Some(Entry::Run { run, next }) => {
                    let first = *next as usize;
                    let count = run.excess(first, too_large, too_many);
                    lost(run.topic(), count as u64);
                    self.take_of_run(count);
                }
            }
        }
    }

    fn drop_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.load.subtract(entry.load());
            self.is_gone(self.passed.len());
        }
    }

    /// Takes packets out of the run that is the first entry; with the last of them it is gone.
    fn take_of_run(&mut self, packets: usize) {
        let Some(entry) = self.entries.front_mut() else {
            return;
        };
        self.load.subtract(entry.load());
        let mut is_gone = false;
        if let Entry::Run { run, next } = entry {
            // No more than there are packets, which are counted in 32 bits.
            *next += packets as u32;
            is_gone = *next as usize >= run.len();
        }
        if is_gone {
            self.entries.pop_front();
            self.is_gone(self.passed.len());
        } else {
            self.load.add(entry.load());
        }
    }

    /// Puts the first entry with those that were passed before.
    fn pass(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        let place = self.passed.len();
        let goes_on = self.goes_on_at(place);
        if let (Entry::Copied(more), Some(Entry::Copied(run))) = (&entry, self.passed.back_mut())
            && goes_on
            && run.len.saturating_add(more.len) <= COPIED_BYTES_MAX
        {
            run.len += more.len;
            run.stored_len += more.stored_len;
            run.messages += more.messages;
            self.load.overhead -= Entry::COST;
            self.is_gone(place);
            return;
        }
        self.passed.push_back(entry);
    }

    /// Puts what waits into `batch`, up to about `budget` bytes and at least one packet. Expired
    /// messages are left out [MQTT-3.3.2-5].
    pub fn gather(
        &self,
        now: Tick,
        aliases: Option<&mut SentAliases>,
        budget: usize,
        batch: &mut Batch,
    ) {
        self.gather_first(self.len(), now, aliases, budget, batch);
    }

    /// The same of what may leave: the rest of a packet that has begun to, and what was released.
    pub fn gather_released(
        &self,
        now: Tick,
        aliases: Option<&mut SentAliases>,
        budget: usize,
        batch: &mut Batch,
    ) {
        self.gather_first(self.released, now, aliases, budget, batch);
    }

    /// The same of this many entries.
    #[inline]
    fn gather_first(
        &self,
        entries: usize,
        now: Tick,
        mut aliases: Option<&mut SentAliases>,
        budget: usize,
        batch: &mut Batch,
    ) {
        batch.clear();
        batch.append_remnant(&self.remnant);
        let (first, second) = self.copied.as_slices();
        let mut copied_at = 0;
        for entry in self.passed.iter().chain(self.entries.iter()).take(entries) {
            if batch.gathered >= budget {
                break;
            }
            match entry {
                Entry::Publish {
                    wire,
                    packet_id,
                    first,
                } => {
                    if wire.is_expired(now, *first) {
                        batch.expired.push((batch.ends.len(), *packet_id));
                    } else {
                        let form = aliases.as_deref_mut().map_or(TopicForm::Plain, |aliases| {
                            let encoded = &wire.encoded;
                            aliases.form(encoded.topic(), encoded.wire_len())
                        });
                        batch.append_publish(now, wire, *first, *packet_id, form);
                    }
                }
                Entry::Run { run, next } => batch.append_run(run, *next as usize),
                Entry::Copied(run) => {
                    let end = copied_at + run.len as usize;
                    let cut = first.len();
                    batch.append_copied(
                        first
                            .get(copied_at.min(cut)..end.min(cut))
                            .unwrap_or_default(),
                        second
                            .get(copied_at.saturating_sub(cut)..end.saturating_sub(cut))
                            .unwrap_or_default(),
                    );
                    copied_at = end;
                }
            }
            batch.ends.push(batch.gathered);
        }
    }

    /// Takes out what was written: the first `written` bytes of the batch that was gathered last.
    /// [`Batch::expired`] tells then what was left out of it for good.
    pub fn written(&mut self, batch: &mut Batch, written: usize) -> Flush {
        let before = self.len();
        self.take_written(batch, written);
        let gone = before - self.len();
        batch.expired.retain(|(entry, _)| *entry < gone);
        if written < batch.len() {
            Flush::Blocked
        } else if self.is_empty() {
            Flush::Done
        } else {
            Flush::More
        }
    }

    fn take_written(&mut self, batch: &Batch, written: usize) {
        if written >= batch.gathered {
            self.remnant = Remnant::default();
            self.forget(batch.ends.len());
            return;
        }
        if written < batch.remnant_len {
            self.remnant.consume(written);
            // A batch that defined aliases may not be gathered a second time.
            if batch.once_only {
                batch.keep(batch.remnant_len..batch.gathered, &mut self.remnant);
                self.forget(batch.ends.len());
            }
            return;
        }
        self.remnant = Remnant::default();
        let kept_until = if batch.once_only {
            self.forget(batch.ends.len());
            batch.gathered
        } else {
            let whole = batch.ends.partition_point(|end| *end <= written);
            let before = whole.checked_sub(1);
            let start = before.map_or(batch.remnant_len, |before| batch.ends[before]);
            self.forget(whole);
            match batch.ends.get(whole) {
                Some(end) if written > start => start + self.begin(written - start, end - start),
                _ => written,
            }
        };
        batch.keep(written..kept_until, &mut self.remnant);
    }

    /// Takes the packet of the first entry that was begun out of the queue, with those before it:
    /// `written` bytes of the entry's `len` went. Returns where in the entry that packet ends.
    fn begin(&mut self, written: usize, len: usize) -> usize {
        let first = self.passed.front().or_else(|| self.entries.front());
        let Some(Entry::Run { run, next }) = first else {
            self.forget(1);
            return len;
        };
        let from = run.start(*next as usize);
        let whole = run.whole_until(from + written);
        let is_begun = run.start(whole) < from + written;
        let taken = whole + usize::from(is_begun);
        let end = run.start(taken);
        let packets = taken - *next as usize;
        self.take_of_run(packets);
        end - from
    }

    /// Drops everything that was not begun, control packets too: a final output follows. The rest
    /// of a packet that was begun stays, so that the stream stays whole. Tells `lost` of the
    /// messages that are lost by that, which are those without a packet id: their topic, where it
    /// is still known, and how many they are.
    pub fn abandon(&mut self, mut lost: impl FnMut(Option<&str>, u64)) {
        for entry in self.passed.take().chain(self.entries.take()) {
            match entry {
                Entry::Publish {
                    packet_id: Some(_), ..
                } => {}
                Entry::Publish { wire, .. } => lost(Some(wire.encoded.topic()), 1),
                Entry::Run { run, next } => {
                    lost(Some(run.topic()), (run.len() - next as usize) as u64);
                }
                Entry::Copied(run) => lost(None, u64::from(run.messages)),
            }
        }
        self.copied.clear();
        self.stored_bytes = 0;
        self.load = Load::default();
        (self.marked, self.released) = (0, 0);
    }

    fn forget(&mut self, entries: usize) {
        let mut copied = 0;
        for _ in 0..entries {
            let passed = if self.passed.is_empty() {
                None
            } else {
                self.passed.pop_front()
            };
            let Some(entry) = passed.or_else(|| self.entries.pop_front()) else {
                break;
            };
            self.load.subtract(entry.load());
            self.is_gone(0);
            if let Entry::Copied(run) = entry {
                copied += run.len as usize;
                self.stored_bytes -= run.stored_len as usize;
            }
        }
        if copied > 0 {
            self.copied.drain(..copied.min(self.copied.len()));
        }
    }

    /// Empties it and gives back large buffers, so that it can be used for another connection.
    pub fn reset(&mut self) {
        const KEEP_ENTRIES: usize = 64;
        const KEEP_BYTES: usize = 1024;
        self.passed = Blocks::new();
        self.entries.reset(KEEP_ENTRIES);
        self.copied.clear();
        self.copied.shrink_to(KEEP_BYTES);
        self.stored_bytes = 0;
        self.remnant = Remnant::default();
        self.load = Load::default();
        (self.marked, self.released) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
