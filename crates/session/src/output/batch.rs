//! The bytes of one flush.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::run::Run;
use super::wire::{Wire, is_retained};
use crate::Tick;
use crate::alias::TopicForm;

/// Tails of packets and runs of at least this many bytes are written from where they are.
const SHARE_BYTES_MIN: usize = Wire::SHARED_BYTES_MIN;

/// The output gathered for one write, in a buffer that is used again for every flush of a shard.
#[derive(Debug, Default)]
pub struct Batch {
    copied: Vec<u8>,
    pieces: Vec<Piece>,
    /// Bytes that were gathered.
    pub(super) gathered: usize,
    /// How many of them are written now, if not all.
    cut_at: Option<usize>,
    /// Where each queue entry ends, counted in bytes of the batch.
    pub(super) ends: Vec<usize>,
    /// How many bytes at the front are what an earlier partial write left.
    pub(super) remnant_len: usize,
    /// The entries that were left out because they have expired, with their packet ids.
    pub(super) expired: Vec<(usize, Option<PacketId>)>,
    /// Whether a PUBLISH in it defines a topic alias, so that it cannot be gathered again.
    pub(super) once_only: bool,
    /// When the oldest message in it was taken: for the latency figures.
    pub(super) oldest: Option<Tick>,
}

#[derive(Debug)]
enum Piece {
    Copied(Range<usize>),
    Shared(Shared, Range<usize>),
}

/// Bytes that are written from where they are.
#[derive(Clone, Debug)]
enum Shared {
    Tail(Rc<Wire>),
    Run(Rc<Run>),
}

impl Shared {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Tail(wire) => wire.tail(),
            Self::Run(run) => run.bytes(),
        }
    }
}

/// What a partial write left of a batch: goes out before anything else.
#[derive(Debug, Default)]
pub(super) struct Remnant {
    pieces: VecDeque<RemnantPiece>,
    len: usize,
    /// Bytes of memory that the pieces keep.
    memory: usize,
}

#[derive(Debug)]
enum RemnantPiece {
    Copied(Vec<u8>, usize),
    Shared(Shared, Range<usize>),
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes are to be written: all that were gathered, or those in front of the cut.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.cut_at {
            Some(bytes) => bytes,
            None => self.gathered,
        }
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has up to this many bytes of it written now. [`super::Output::written`] leaves the rest with
    /// the queue. Holds until the batch is cleared.
    pub const fn cut(&mut self, bytes: usize) {
        if self.gathered > bytes {
            self.cut_at = Some(bytes);
        }
    }

    /// Whether bytes were gathered that are not written now.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut_at.is_some()
    }

    /// How many bytes at the front are the rest of what an earlier write has begun: behind them a
    /// packet begins.
    #[must_use]
    pub const fn begun_len(&self) -> usize {
        self.remnant_len
    }

    /// The bytes, when they lie in one piece.
    #[must_use]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [piece] => self.slice(piece).get(..self.len()),
            _ => None,
        }
    }

    /// The pieces of what is to be written, in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = self.len();
        self.pieces.iter().map_while(move |piece| {
            let bytes = self.slice(piece);
            let bytes = bytes.get(..left).unwrap_or(bytes);
            left -= bytes.len();
            (!bytes.is_empty()).then_some(bytes)
        })
    }

    /// When the oldest message in it was taken by the server. Retained messages do not count:
    /// their age says nothing of the way through the server.
    #[must_use]
    pub const fn oldest(&self) -> Option<Tick> {
        self.oldest
    }

    /// After [`super::Output::written`]: the messages that were left out for good because they
    /// have expired. A packet id among them was never used on this connection and is free.
    pub fn expired(&self) -> impl Iterator<Item = Option<PacketId>> {
        self.expired.iter().map(|(_, packet_id)| *packet_id)
    }

    /// Leaves [`Batch::oldest`] unset if that message was taken before `since`: it waited for its
    /// client to come back.
    pub fn count_latency_since(&mut self, since: Tick) {
        self.oldest = self.oldest.filter(|oldest| *oldest >= since);
    }

    /// Empties it; keeps the buffers.
    pub fn clear(&mut self) {
        self.copied.clear();
        self.pieces.clear();
        self.ends.clear();
        self.expired.clear();
        self.gathered = 0;
        self.cut_at = None;
        self.remnant_len = 0;
        self.once_only = false;
        self.oldest = None;
    }

    fn slice<'a>(&'a self, piece: &'a Piece) -> &'a [u8] {
        match piece {
            Piece::Copied(range) => self.copied.get(range.clone()).unwrap_or_default(),
            Piece::Shared(shared, range) => shared.bytes().get(range.clone()).unwrap_or_default(),
        }
    }

    /// Counts what was appended to `copied` since `start` as part of the batch.
    #[inline]
    fn cover(&mut self, start: usize) {
        let end = self.copied.len();
        self.gathered += end - start;
        if let Some(Piece::Copied(range)) = self.pieces.last_mut() {
            range.end = end;
        } else if end > start {
            self.pieces.push(Piece::Copied(start..end));
        }
    }

    fn share(&mut self, shared: Shared, range: Range<usize>) {
        self.gathered += range.len();
        self.pieces.push(Piece::Shared(shared, range));
    }

    #[inline]
    fn copy(&mut self, bytes: &[u8]) {
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        self.cover(start);
    }

    #[inline]
    fn count_latency(&mut self, received_at: Tick) {
        self.oldest = Some(self.oldest.map_or(received_at, |old| old.min(received_at)));
    }

    /// Adds what is left of a run from the packet with index `next` on.
    #[inline]
    pub(super) fn append_run(&mut self, run: &Rc<Run>, next: usize) {
        self.count_latency(run.received_at());
        let range = run.start(next)..run.bytes().len();
        if range.len() >= SHARE_BYTES_MIN {
            self.share(Shared::Run(Rc::clone(run)), range);
        } else {
            self.copy(run.bytes().get(range).unwrap_or_default());
        }
    }

    #[inline]
    pub(super) fn append_copied(&mut self, first: &[u8], second: &[u8]) {
        let start = self.copied.len();
        self.copied.extend_from_slice(first);
        self.copied.extend_from_slice(second);
        self.cover(start);
    }

    #[inline]
    pub(super) fn append_publish(
        &mut self,
        now: Tick,
        wire: &Rc<Wire>,
        first: u8,
        packet_id: Option<PacketId>,
        form: TopicForm,
    ) {
        let encoded = &wire.encoded;
        if !is_retained(first) {
            self.count_latency(wire.received_at);
        }
        let expiry = wire.expiry_secs(now);
        let start = self.copied.len();
        let shared = encoded.tail_len() >= SHARE_BYTES_MIN;
        match form {
            TopicForm::Plain if !shared => {
                encoded.append_to(&mut self.copied, first, packet_id, expiry);
                return self.cover(start);
            }
            TopicForm::Plain => {
                encoded.append_head_to(&mut self.copied, first, packet_id, expiry);
            }
            TopicForm::Define(alias) | TopicForm::Alias(alias) => {
                let define = matches!(form, TopicForm::Define(_));
                self.once_only |= define;
                encoded.append_head_aliased(
                    &mut self.copied,
                    first,
                    packet_id,
                    expiry,
                    alias,
                    define,
                );
            }
        }
        if !shared {
            self.copied.extend_from_slice(encoded.payload());
        }
        self.cover(start);
        if shared {
            let tail = 0..encoded.tail_len();
            self.share(Shared::Tail(Rc::clone(wire)), tail);
        }
    }

    pub(super) fn append_remnant(&mut self, remnant: &Remnant) {
        for piece in &remnant.pieces {
            match piece {
                RemnantPiece::Copied(bytes, from) => {
                    self.copy(bytes.get(*from..).unwrap_or_default());
                }
                RemnantPiece::Shared(shared, range) => self.share(shared.clone(), range.clone()),
            }
        }
        self.remnant_len = self.gathered;
    }

    /// Copies `range` of the batch into a remnant; what is long and shared stays shared.
    pub(super) fn keep(&self, range: Range<usize>, remnant: &mut Remnant) {
        let mut position = 0;
        for piece in &self.pieces {
            let bytes = self.slice(piece);
            let from = range.start.clamp(position, position + bytes.len()) - position;
            let to = range.end.clamp(position, position + bytes.len()) - position;
            position += bytes.len();
            if from >= to {
                continue;
            }
            remnant.push(match piece {
                Piece::Shared(shared, range) if to - from >= SHARE_BYTES_MIN => {
                    let start = range.start;
                    RemnantPiece::Shared(shared.clone(), start + from..start + to)
                }
                _ => RemnantPiece::Copied(bytes.get(from..to).unwrap_or_default().into(), 0),
            });
        }
    }
}

impl RemnantPiece {
    /// Bytes that are still to be written.
    fn len(&self) -> usize {
        match self {
            Self::Copied(bytes, from) => bytes.len() - from,
            Self::Shared(_, range) => range.len(),
        }
    }

    /// Bytes of memory that it keeps: all of what it is a part of.
    fn memory(&self) -> usize {
        match self {
            Self::Copied(bytes, _) => bytes.len(),
            Self::Shared(shared, _) => shared.bytes().len(),
        }
    }
}

impl Remnant {
    fn push(&mut self, piece: RemnantPiece) {
        self.len += piece.len();
        self.memory += piece.memory();
        self.pieces.push_back(piece);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many bytes it holds. O(1).
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it keeps. O(1).
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    /// Forgets the first `written` bytes.
    pub(super) fn consume(&mut self, mut written: usize) {
        self.len = self.len.saturating_sub(written);
        while written > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                return;
            };
            let left = piece.len();
            if written < left {
                match piece {
                    RemnantPiece::Copied(_, from) => *from += written,
                    RemnantPiece::Shared(_, range) => range.start += written,
                }
                return;
            }
            written -= left;
            self.memory -= piece.memory();
            self.pieces.pop_front();
        }
    }
}
