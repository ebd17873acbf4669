//! The disk for backlogs: it answers late, refuses, and is there after a restart.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use stentor_hub::spool::{fetched, seal_backlogs, sealed, spool_goes_on, take_spool_orders};
use stentor_hub::{PriorSession, SpoolOrder};
use stentor_session::ChunkPlace;

use super::World;

/// Chunks, and what was asked and not answered yet.
#[derive(Debug, Default)]
pub struct SpoolDisk {
    chunks: BTreeMap<u32, Vec<u8>>,
    orders: VecDeque<(u8, SpoolOrder)>,
    last: u32,
    /// Whether it answers as soon as everything else is quiet.
    pub is_slow: bool,
    /// Whether it refuses chunks.
    pub refuses: bool,
    /// How many it has taken, and given back.
    pub counts: (u32, u32),
}

impl SpoolDisk {
    /// It is there after a restart; what was not answered is gone.
    pub fn survive(self) -> Self {
        Self {
            orders: VecDeque::new(),
            ..self
        }
    }

    /// What is not there any more was freed before the journal said so.
    pub fn find(&self, session: &mut PriorSession) {
        let is_there = |file| self.chunks.contains_key(&file);
        session
            .deliveries
            .spooled
            .retain(|chunk| is_there(chunk.place.file));
    }
}

impl World {
    /// Takes what a hub has ordered.
    pub(super) fn take_orders(&mut self, shard: u8) {
        seal_backlogs(&mut self.hubs[usize::from(shard)], 100_000);
        let orders = take_spool_orders(&mut self.hubs[usize::from(shard)]).into_iter();
        self.spool.orders.extend(orders.map(|it| (shard, it)));
    }

    /// The disk answers what was asked first. Returns whether there was anything.
    pub fn spool_one(&mut self) -> bool {
        let Some((shard, order)) = self.spool.orders.pop_front() else {
            return false;
        };
        let hub = &mut self.hubs[usize::from(shard)];
        match order {
            SpoolOrder::Seal {
                session,
                first,
                count,
                bytes,
            } => {
                let place = (!self.spool.refuses).then(|| {
                    let len = bytes.len().div_ceil(64).min(usize::from(u16::MAX)) as u16;
                    self.spool.last += 1;
                    self.spool.counts.0 += 1;
                    self.spool.chunks.insert(self.spool.last, bytes);
                    ChunkPlace {
                        file: NonZeroU32::new(self.spool.last).unwrap(),
                        at: 1,
                        len,
                    }
                });
                sealed(hub, session, first, count, place);
            }
            SpoolOrder::Fetch {
                session,
                first,
                place,
            } => {
                let bytes = self.spool.chunks.get(&place.file.get());
                assert!(bytes.is_some(), "it was freed, and is needed");
                fetched(hub, self.now, session, first, bytes.map(|it| &**it));
            }
            SpoolOrder::Free(place) => {
                let freed = self.spool.chunks.remove(&place.file.get());
                assert!(freed.is_some(), "it was freed twice");
                self.spool.counts.1 += 1;
            }
        }
        self.collect(shard);
        true
    }

    /// The disk for backlogs refuses chunks from now on, or takes them.
    pub fn set_spool(&mut self, refuses: bool) {
        self.spool.refuses = refuses;
        if !refuses {
            self.hubs.iter_mut().for_each(spool_goes_on);
        }
    }
}
