//! The part of what a session owes that is on the disk, or goes there: chunks of deliveries between
//! those in flight and the newest ones.

use alloc::vec::Vec;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::spool::KEPT_LEN;
use super::{Awaits, CHUNK_BYTES, CHUNK_LEN, Chunk, ChunkPlace, Delivery, Outbound, Sealing};
use super::{Spooled, natural_id};

/// What is on the disk, in the unit of [`ChunkPlace::len`]. O(1).
#[must_use]
pub fn disk_len(outbound: &Outbound) -> u64 {
    outbound.spool.as_ref().map_or(0, |spool| spool.disk_len())
}

/// Bytes of memory that the list of chunks takes.
#[must_use]
pub fn memory(outbound: &Outbound) -> usize {
    outbound.spool.as_ref().map_or(0, |spool| spool.own_bytes())
}

/// Whether something is on the disk, was there, or goes there.
#[must_use]
pub const fn is_spooling(outbound: &Outbound) -> bool {
    outbound.spool.is_some()
}

/// Whether something waits before what is in memory.
#[must_use]
pub fn is_spooled(outbound: &Outbound) -> bool {
    outbound
        .spool
        .as_ref()
        .is_some_and(|spool| !spool.is_empty())
}

/// The chunks of which some is owed still, in order, but for those that were not fetched and begin
/// with one of these numbers.
#[must_use]
pub fn spooled_but(outbound: &Outbound, parts: &Range<u64>) -> Vec<Spooled> {
    let Some(spool) = &outbound.spool else {
        return Vec::new();
    };
    let sent = outbound.in_flight.iter();
    let sent = sent.filter(|entry| !matches!(entry.awaits, Awaits::Completion(_)));
    let sent = sent.map(|entry| (entry.number(), Some(entry.packet_id)));
    let waiting = spool.front.iter();
    let waiting = waiting.map(|it| (it.number, spool.odd.get(&it.number).copied()));
    let mut owed: Vec<(u64, Option<PacketId>)> = sent.chain(waiting).collect();
    owed.sort_unstable_by_key(|(number, _)| *number);
    spool.spooled(outbound.next_number(), parts, |chunk| {
        let from = owed.partition_point(|(number, _)| *number < chunk.first);
        let to = owed.partition_point(|(number, _)| *number < chunk.end());
        let all = owed.get(from..to).unwrap_or_default();
        let odd = all.iter().filter_map(|(number, packet_id)| {
            let packet_id = packet_id.filter(|it| natural_id(*number) != Some(*it))?;
            Some((*number, packet_id))
        });
        let odd = odd.collect();
        (all.iter().map(|(number, _)| *number).collect(), odd)
    })
}

/// Notes that some of what waits in memory is to go to the disk, until [`seal`] finds nothing more.
/// Returns whether that is new.
pub const fn note_due(outbound: &mut Outbound) -> bool {
    !core::mem::replace(&mut outbound.is_due, true)
}

/// No more is to go there for now.
pub const fn note_done(outbound: &mut Outbound) {
    outbound.is_due = false;
}

/// Whether the owner of the session may have no more on the disk.
#[must_use]
pub const fn is_barred(outbound: &Outbound) -> bool {
    outbound.is_barred
}

/// Says whether that is so.
pub const fn set_barred(outbound: &mut Outbound, is_barred: bool) {
    outbound.is_barred = is_barred;
}

/// Takes the oldest of what waits in memory out of it, so that the disk can have it: as many
/// as one chunk takes. `None` if little waits: not much in number, and at most `bytes_max` in
/// all. A message of a shared subscription stays in memory: another member may have to get it.
pub fn seal(outbound: &mut Outbound, bytes_max: usize) -> Option<Sealing<'_>> {
    let next = outbound.next_number();
    let again = { outbound.spool.as_mut() }.is_some_and(|spool| spool.has_refused(next));
    if again {
        return outbound.spool.as_mut()?.seal_again(next);
    }
    while (outbound.waiting.len() > KEPT_LEN || outbound.held_bytes() > bytes_max)
        && let Some(oldest) = outbound.waiting.front()
    {
        if oldest.number > 0 && oldest.share == 0 {
            let run = take_run(outbound);
            return Some(outbound.spool.get_or_insert_default().seal(run));
        }
        if let Some(delivery) = outbound.waiting.pop_front() {
            outbound.spool.get_or_insert_default().keep(delivery, next);
        }
    }
    outbound.is_due = false;
    None
}

/// The oldest messages that wait, with numbers that follow each other.
fn take_run(outbound: &mut Outbound) -> Vec<Delivery> {
    let mut run: Vec<Delivery> = Vec::new();
    let mut bytes = 0;
    while run.len() < CHUNK_LEN
        && let Some(next) = outbound.waiting.front()
    {
        let follows = run.last().is_none_or(|last| last.number + 1 == next.number);
        bytes += next.message.body_bytes();
        let fits = run.is_empty() || bytes <= CHUNK_BYTES;
        if next.share != 0 || next.number == 0 || !follows || !fits {
            break;
        }
        run.extend(outbound.waiting.pop_front());
    }
    run
}

/// The disk has a chunk, or has refused it. Returns whether it counts: otherwise, it can go.
pub fn sealed(outbound: &mut Outbound, first: u64, count: u8, place: Option<ChunkPlace>) -> bool {
    let next = outbound.next_number();
    let spool = outbound.spool.as_mut();
    let unsealed = spool.and_then(|spool| spool.sealed(first, count, place, next));
    if let Some(unsealed) = &unsealed {
        outbound.bytes -= unsealed.bytes;
    }
    unsealed.is_some()
}

/// The chunk to fetch now, if little is left in memory before it.
pub fn next_fetch(outbound: &mut Outbound) -> Option<Chunk> {
    let next = outbound.next_number();
    outbound.spool.as_mut()?.next_fetch(next)
}

/// What was fetched: a delivery for each number of the chunk that begins with `first`, as far as
/// it can be read. Those that `may_have` refuses are not owed any more. Returns how many are
/// not; `None` if nobody waits for it.
pub fn fetched(
    outbound: &mut Outbound,
    first: u64,
    deliveries: Vec<Delivery>,
    may_have: impl FnMut(&Delivery) -> bool,
) -> Option<usize> {
    let next = outbound.next_number();
    let in_flight = &outbound.in_flight;
    let is_in_flight = |number| in_flight.iter().any(|entry| entry.number() == number);
    let spool = outbound.spool.as_mut()?;
    let (bytes, lost) = spool.fetched(first, next, deliveries, may_have, is_in_flight)?;
    outbound.bytes += bytes;
    outbound.has_progress |= !lost.is_empty();
    outbound.gone.extend(&lost);
    Some(lost.len())
}

/// Takes out the chunks that nobody needs any more.
pub fn take_done_chunks(outbound: &mut Outbound) -> Vec<Chunk> {
    let Some(spool) = &mut outbound.spool else {
        return Vec::new();
    };
    let done = spool.take_done();
    outbound.spool.take_if(|spool| spool.is_over());
    done
}
