//! A segment: a mapped file, and which of its blocks belong to runs.

use super::run::Run;
use crate::class::{self, BLOCK_BYTES, Class, ClassId};
use crate::layout;
use stentor_disk::Region;

/// What a block is used for.
#[derive(Debug)]
enum Block {
    Free,
    /// A run begins here.
    Run(Box<Run>),
    /// It belongs to the run of a block before it, or is set aside.
    Taken,
}

/// A mapped file of blocks.
#[derive(Debug)]
pub(crate) struct Segment<R> {
    number: u32,
    /// Of everything that lies in it.
    key: u32,
    region: R,
    blocks: Vec<Block>,
    /// Bytes of a place of the run that begins at a block, for those where one does: beside the
    /// runs, which are many and larger.
    place_bytes: Vec<u32>,
    free_blocks: usize,
    /// No free block lies before this one.
    search_from: usize,
    /// Written since the last flush began.
    is_dirty: bool,
    /// Being emptied, so that its file can go.
    is_retired: bool,
    /// Blocks were given up.
    has_given_up: bool,
}

impl<R: Region> Segment<R> {
    /// A segment without runs, of as many blocks as its file has room for; `key` is the store's.
    pub(crate) fn new(stripe: u16, number: u32, key: u32, region: R) -> Self {
        let count = layout::blocks_of(region.bytes().len()).unwrap_or(0);
        let blocks = (0..count).map(|_| Block::Free).collect();
        Self {
            number,
            key: layout::segment_key(key, stripe, number),
            region,
            blocks,
            place_bytes: vec![0; count],
            free_blocks: count,
            search_from: 0,
            is_dirty: true,
            is_retired: false,
            has_given_up: false,
        }
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// The key of everything that lies in it.
    pub(crate) const fn key(&self) -> u32 {
        self.key
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.region.bytes()
    }

    /// See [`Region::expect`].
    pub(crate) fn expect(&self, part: std::ops::Range<usize>) {
        self.region.expect(part);
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.is_dirty = true;
        self.region.write(at, bytes);
    }

    pub(crate) fn flusher(&self) -> R::Flusher {
        self.region.flusher()
    }

    /// Whether it was written since this was last asked.
    pub(crate) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// Its content never reached the disk, and the kernel may believe that it did: writes a byte
    /// of every page again.
    pub(crate) fn touch(&mut self) {
        const PAGE_BYTES: usize = 4096;
        for at in (0..self.region.bytes().len()).step_by(PAGE_BYTES) {
            let byte = self.region.bytes()[at];
            self.region.write(at, &[byte]);
        }
        self.is_dirty = true;
    }

    /// Gives out no more blocks, so that the segment can be emptied.
    pub(crate) fn retire(&mut self) {
        self.is_retired = true;
    }

    pub(crate) const fn is_retired(&self) -> bool {
        self.is_retired
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.free_blocks == self.blocks.len()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Free blocks that may be used.
    pub(crate) fn free_blocks(&self) -> usize {
        if self.is_retired { 0 } else { self.free_blocks }
    }

    /// Where a block begins in the file.
    pub(crate) fn block_at(&self, block: u32) -> usize {
        layout::blocks_at(self.blocks.len()) + block as usize * BLOCK_BYTES
    }

    /// The first of this many free blocks in a row.
    pub(crate) fn find_blocks(&mut self, count: usize) -> Option<u32> {
        if self.free_blocks < count {
            return None;
        }
        let is_free = |block: &Block| matches!(block, Block::Free);
        let mut start =
            self.search_from + self.blocks[self.search_from..].iter().position(is_free)?;
        self.search_from = start;
        let mut at = start;
        while at < self.blocks.len() {
            if !is_free(&self.blocks[at]) {
                start = at + 1;
            } else if at + 1 - start == count {
                return u32::try_from(start).ok();
            }
            at += 1;
        }
        None
    }

    /// Whether this many blocks from one on are free.
    pub(crate) fn has_room(&self, block: u32, count: usize) -> bool {
        let blocks = self.blocks.get(block as usize..block as usize + count);
        blocks.is_some_and(|blocks| blocks.iter().all(|block| matches!(block, Block::Free)))
    }

    /// Gives up free blocks until the next start: their directory entries were damaged.
    pub(crate) fn give_up(&mut self, block: u32, count: usize) {
        self.has_given_up = true;
        self.set_aside(block, count);
    }

    /// Whether it has blocks that were given up, and so is never unused.
    pub(crate) const fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Sets free blocks aside.
    fn set_aside(&mut self, block: u32, count: usize) {
        for block in self.blocks.iter_mut().skip(block as usize).take(count) {
            if matches!(block, Block::Free) {
                *block = Block::Taken;
                self.free_blocks -= 1;
            }
        }
    }

    pub(crate) fn add_run(&mut self, block: u32, id: ClassId, class: &Class) {
        self.set_aside(block, class.run_blocks);
        self.blocks[block as usize] = Block::Run(Box::new(Run::new(id, class)));
        // A place is smaller than a segment.
        self.place_bytes[block as usize] = u32::try_from(class.place_bytes).unwrap_or(0);
    }

    /// Gives back the blocks of a run, in the file as well.
    pub(crate) fn free_run(&mut self, block: u32) {
        let entry = layout::free_entry(self.key, block as usize);
        self.write(layout::entry_at(block as usize), &entry);
        self.remove_run(block);
    }

    /// The same of all runs with nothing in them.
    pub(crate) fn free_unused_runs(&mut self) {
        let unused = self.runs().filter(|(_, run)| run.is_unused());
        let unused: Vec<u32> = unused.map(|(block, _)| block).collect();
        for block in unused {
            self.free_run(block);
        }
    }

    fn remove_run(&mut self, block: u32) {
        let block = block as usize;
        let Some(run) = self.run(block as u32) else {
            return;
        };
        let count = class::get(run.class).map_or(1, |class| class.run_blocks);
        for block in &mut self.blocks[block..block + count] {
            *block = Block::Free;
        }
        self.place_bytes[block] = 0;
        self.free_blocks += count;
        self.search_from = self.search_from.min(block);
    }

    pub(crate) fn run(&self, block: u32) -> Option<&Run> {
        match self.blocks.get(block as usize)? {
            Block::Run(run) => Some(run),
            Block::Free | Block::Taken => None,
        }
    }

    /// Bytes of a place of the run that begins at a block, if one does.
    #[inline]
    pub(crate) fn place_bytes(&self, block: u32) -> Option<usize> {
        let bytes = *self.place_bytes.get(block as usize)?;
        (bytes > 0).then_some(bytes as usize)
    }

    pub(crate) fn run_mut(&mut self, block: u32) -> Option<&mut Run> {
        match self.blocks.get_mut(block as usize)? {
            Block::Run(run) => Some(run),
            Block::Free | Block::Taken => None,
        }
    }

    /// The first page of a run, one of those that begin near a block; every run's was written.
    pub(crate) fn page_near(&self, block: usize) -> Option<std::ops::Range<usize>> {
        /// Blocks that are looked at.
        const NEAR: usize = 16;
        let near = self.blocks.iter().enumerate().skip(block).take(NEAR);
        let mut runs = near.filter(|(_, block)| matches!(block, Block::Run(_)));
        let (block, _) = runs.next()?;
        let at = self.block_at(u32::try_from(block).ok()?);
        Some(at..at + 1)
    }

    /// Bytes of the slots in use.
    pub(crate) fn live_bytes(&self) -> usize {
        let bytes = self.runs().map(|(_, run)| {
            let slot = class::get(run.class).map_or(0, Class::slot_bytes);
            slot * run.live()
        });
        bytes.sum()
    }

    /// Blocks that what lies here needs elsewhere, where no run has room for it.
    pub(crate) fn packed_blocks(&self) -> usize {
        packed_blocks(self.runs().map(|(_, run)| run))
    }

    /// All runs, by their first block.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, &Run)> {
        (0..)
            .zip(&self.blocks)
            .filter_map(|(at, block)| match block {
                Block::Run(run) => Some((at, &**run)),
                Block::Free | Block::Taken => None,
            })
    }
}

/// Blocks of as few runs as hold what lies in these.
pub(super) fn packed_blocks<'a>(runs: impl Iterator<Item = &'a Run>) -> usize {
    let mut live = vec![0; class::count()];
    for run in runs {
        live[usize::from(run.class.0)] += run.live();
    }
    let blocks = class::all()
        .iter()
        .zip(live)
        .map(|(class, live)| live.div_ceil(class.run_slots) * class.run_blocks);
    blocks.sum()
}
