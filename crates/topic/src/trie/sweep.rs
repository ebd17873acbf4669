//! A match from its beginning.

use core::cell::LazyCell;

use smallvec::SmallVec;

use super::node::NodeId;
use super::walk::{Matching, Progress, VISIT_BYTES};
use crate::Zone;
use crate::index::FilterId;

/// Branches that a match follows side by side. Where a name reaches more, they are followed one
/// after the other, which bounds what a match keeps in memory.
const BRANCHES_MAX: usize = 32;

/// A node and the start of the level that comes after it. Room for what one level adds to
/// [`BRANCHES_MAX`], so that nothing is allocated.
type Branches = SmallVec<[(NodeId, u32); 2 * BRANCHES_MAX]>;

/// What [`Matching::begin`] did.
pub(crate) struct Begun {
    pub(crate) visits: u32,
    /// What is left, where the bound was met.
    pub(crate) rest: Option<Progress>,
}

impl Matching<'_> {
    /// Matches the name from its first level on, until `visits_max` are met.
    ///
    /// Breadth first: the text of a level is looked at once for all nodes that the levels before it
    /// lead to.
    #[inline]
    pub(crate) fn begin(
        &self,
        zone: Zone,
        visits_max: u32,
        mut visit: impl FnMut(FilterId),
    ) -> Begun {
        // A probe for the root, and reading the name.
        let mut visits = 1 + (self.name.len() / VISIT_BYTES) as u32;
        let Some(root) = self.trie.root(zone) else {
            return Begun { visits, rest: None };
        };
        // Swapped by reference below, since the sets themselves are large.
        let (mut reached, mut next) = (&mut Branches::new(), &mut Branches::new());
        let mut at: u32 = 0;
        reached.push((root, at));
        let mut allows_wildcards = self.allows_wildcards();
        for level in self.name.as_bytes().split(|&byte| byte == b'/') {
            next.clear();
            visits += reached.len() as u32 * (1 + (level.len() / VISIT_BYTES) as u32);
            // Hashed when the first node asks, and once for all of them.
            let hash = LazyCell::new(|| self.hasher.level(level));
            let next_at = at + level.len() as u32 + 1;
            for &(node_at, end) in reached.iter() {
                if end != at {
                    // A run of `+` that goes on.
                    next.push((node_at, end));
                    continue;
                }
                let Some(node) = self.trie.nodes.get(node_at.0) else {
                    continue;
                };
                if allows_wildcards {
                    node.multi.map(&mut visit);
                    if let Some(plus) = node.plus.some() {
                        if node.plus.is_long() {
                            next.extend(self.long_run(plus, at));
                        } else {
                            next.push((plus, next_at));
                        }
                    }
                }
                if let Some(child) = self.trie.literal(node_at, node, level, || *hash) {
                    next.push((child, next_at));
                }
            }
            core::mem::swap(&mut reached, &mut next);
            if reached.is_empty() {
                return Begun { visits, rest: None };
            }
            at = next_at;
            allows_wildcards = true;
            if reached.len() > BRANCHES_MAX || visits >= visits_max {
                return self.go_on(zone, reached, visits, visits_max, visit);
            }
        }
        let is_here = |(node, end): &(NodeId, u32)| (*end == at).then_some(*node);
        for node in reached.iter().filter_map(is_here) {
            if let Some(node) = self.trie.nodes.get(node.0) {
                // `#` matches the parent level too.
                node.multi.map(&mut visit);
                node.exact.map(&mut visit);
            }
        }
        visits += reached.len() as u32;
        Begun { visits, rest: None }
    }

    /// The end of a run of several `+` after the level at `at`, if the name has as many.
    #[cold]
    fn long_run(&self, plus: NodeId, at: u32) -> Option<(NodeId, u32)> {
        // A level that is passed counts when it is.
        let end = self.skip(at, self.trie.run(plus), &mut 0)?;
        Some((plus, end))
    }

    /// Follows the branches one after the other for the visits that are left.
    #[cold]
    fn go_on(
        &self,
        zone: Zone,
        reached: &[(NodeId, u32)],
        visits: u32,
        visits_max: u32,
        visit: impl FnMut(FilterId),
    ) -> Begun {
        let mut visits = visits;
        let mut rest = self.leave(zone, reached, &mut visits);
        if visits < visits_max {
            visits += self.advance(&mut rest, visits_max - visits, visit);
        }
        let rest = (!rest.is_done()).then_some(rest);
        Begun { visits, rest }
    }
}
