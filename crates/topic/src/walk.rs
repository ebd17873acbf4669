//! A match that goes on later.

use core::fmt;

use crate::Zone;
use crate::index::{FilterId, Index};
use crate::trie::Progress;

/// What a bounded match did, see [`Index::match_some`].
#[derive(Debug)]
pub struct Matched {
    /// Nodes visited, tables probed, and one for each 64 bytes of text that were read for it. One
    /// takes about 30 ns.
    pub visits: u32,
    /// What is left, where the bound was met.
    pub rest: Option<Walk>,
}

/// A match that goes on later, in spite of changes of the index in the meantime.
///
/// Begun by [`Index::match_some`]. Whatever happens to the index between two calls of
/// [`Walk::resume`]:
///
/// - A filter that matches the name, was subscribed when the match began and stays subscribed until
///   the walk is done, is visited at least once.
/// - A filter that is visited is in the index and matches the name at that moment.
/// - A filter that came after the match began may be visited or not.
/// - While no filter with a wildcard leaves the index, each filter is visited at most once.
///   Otherwise one may be visited again, so that a caller removes duplicates.
///
/// A filter that left and came again counts as new. Its [`FilterId`] may stand for another filter
/// by the time that the walk is done, so that a caller who keeps ids between two calls asks
/// [`matches()`](crate::matches()) again.
///
/// Keeps 16 bytes for each branch that is left to follow: at most some 100, and one for each level
/// of the name.
pub struct Walk {
    progress: Progress,
}

impl Walk {
    pub(crate) const fn new(progress: Progress) -> Self {
        Self { progress }
    }

    /// Goes on with the match; returns the visits made, see [`Matched::visits`].
    ///
    /// The index, the zone and the name are those that the match began with. Ends when
    /// `visits_max` are made, and may exceed it by those of a single node. Visits at least one
    /// node, so that calling it often enough gets the walk done.
    ///
    /// After filters left, each branch is checked from the root before it is followed, at a visit
    /// per level at most.
    pub fn resume(
        &mut self,
        index: &Index,
        zone: Zone,
        name: &str,
        visits_max: u32,
        visit: impl FnMut(FilterId),
    ) -> u32 {
        debug_assert!(self.progress.is_in(zone), "a walk stays in its zone");
        index
            .matching(name)
            .advance(&mut self.progress, visits_max, visit)
    }

    /// Whether nothing is left to visit.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.progress.is_done()
    }

    /// Bytes of heap that the walk occupies.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        self.progress.heap_bytes()
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Walk")
            .field("branches", &self.progress.branches())
            .finish_non_exhaustive()
    }
}
