//! How a match goes on after a pause, or where a name reaches many branches.

use alloc::vec::Vec;

use super::Trie;
use super::node::{Level, Literals, NodeId};
use crate::index::FilterId;
use crate::word::{level_before, levels_after, levels_before};
use crate::{TopicHasher, Zone};

/// This many bytes of a name that are read or compared count as one visit.
pub(crate) const VISIT_BYTES: usize = 64;

/// A node that a name's first levels lead to.
#[derive(Clone, Copy)]
struct Position {
    node: NodeId,
    /// Where the name's next level starts; one more than its length where none is left.
    at: u32,
    /// The last node on the way here that is not a run of `+`, this one included. Runs are split
    /// and merged while a match pauses, but the node before them stays while any filter needs it.
    anchor: NodeId,
    /// Where the level after the anchor starts; the way from there to here is all `+`.
    anchor_at: u32,
}

impl Position {
    const fn at_anchor(anchor: NodeId, at: u32) -> Self {
        Self {
            node: anchor,
            at,
            anchor,
            anchor_at: at,
        }
    }

    /// At the end of the run `plus` below; `is_run` says whether this node is a run as well.
    const fn run_to(self, plus: NodeId, at: u32, is_run: bool) -> Self {
        let (anchor, anchor_at) = if is_run {
            (self.anchor, self.anchor_at)
        } else {
            (self.node, self.at)
        };
        Self {
            node: plus,
            at,
            anchor,
            anchor_at,
        }
    }
}

/// How far a match has come.
///
/// It goes depth first, so that what it still has to follow grows by one node per level of the name
/// at most. A node is reached from its parent alone, so that each is visited at most once.
pub(crate) struct Progress {
    zone: Zone,
    /// What is left to follow; the last goes first.
    open: Vec<Position>,
    /// How many of `open`, from the bottom, are of a time before nodes were removed.
    stale: usize,
    /// [`Trie::removals`] when `stale` was up to date.
    removals: u64,
}

impl Progress {
    pub(crate) const fn is_in(&self, zone: Zone) -> bool {
        self.zone.get() == zone.get()
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// How many branches are left to follow.
    pub(crate) const fn branches(&self) -> usize {
        self.open.len()
    }

    pub(crate) const fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Position>()
    }
}

/// A match of one name.
pub(crate) struct Matching<'a> {
    pub(crate) trie: &'a Trie,
    pub(crate) hasher: &'a TopicHasher,
    pub(crate) name: &'a str,
}

impl Matching<'_> {
    /// What is left of a match that has reached these nodes, each where the level at its offset
    /// starts.
    pub(super) fn leave(
        &self,
        zone: Zone,
        reached: &[(NodeId, u32)],
        visits: &mut u32,
    ) -> Progress {
        let position = |&(node, at)| self.position(node, at, visits);
        Progress {
            zone,
            open: reached.iter().map(position).collect(),
            stale: 0,
            removals: self.trie.removals,
        }
    }

    /// The position of a node, with its anchor.
    fn position(&self, node: NodeId, at: u32, visits: &mut u32) -> Position {
        let (mut anchor, mut levels) = (node, 0);
        while let Some(found) = self.trie.nodes.get(anchor.0)
            && found.level.run() > 0
        {
            levels += found.level.run();
            anchor = found.parent;
            *visits = visits.saturating_add(1);
        }
        if levels == 0 {
            return Position::at_anchor(node, at);
        }
        let anchor_at = levels_before(self.name.as_bytes(), at as usize, levels);
        let anchor_at = anchor_at.map_or(0, |anchor_at| anchor_at as u32);
        *visits = visits.saturating_add((at - anchor_at) / VISIT_BYTES as u32);
        Position {
            node,
            at,
            anchor,
            anchor_at,
        }
    }

    /// Goes on until `visits_max` is met, with one node at least; returns the visits made.
    pub(crate) fn advance(
        &self,
        progress: &mut Progress,
        visits_max: u32,
        mut visit: impl FnMut(FilterId),
    ) -> u32 {
        if progress.removals != self.trie.removals {
            progress.removals = self.trie.removals;
            progress.stale = progress.open.len();
        }
        let mut visits: u32 = 0;
        // Something is done even where the bound is 0.
        while visits == 0 || visits < visits_max {
            let Some(next) = progress.open.pop() else {
                break;
            };
            let mut next = Some(next);
            if progress.open.len() < progress.stale {
                progress.stale = progress.open.len();
                next = next.and_then(|stale| self.locate(progress.zone, stale, &mut visits));
            }
            while let Some(position) = next {
                next = self.step(progress, position, &mut visits, &mut visit);
                if visits >= visits_max {
                    progress.open.extend(next.take());
                }
            }
        }
        visits
    }

    /// Visits one node; returns where to go on, and leaves a second branch in `open`.
    fn step(
        &self,
        progress: &mut Progress,
        position: Position,
        visits: &mut u32,
        visit: &mut impl FnMut(FilterId),
    ) -> Option<Position> {
        *visits = visits.saturating_add(1);
        let node = self.trie.nodes.get(position.node.0)?;
        let Some(rest) = self.name.as_bytes().get(position.at as usize..) else {
            // `#` matches the parent level too.
            node.multi.map(&mut *visit);
            node.exact.map(visit);
            return None;
        };
        let len = rest.iter().position(|&byte| byte == b'/');
        let level = rest.get(..len.unwrap_or(rest.len()))?;
        *visits = visits.saturating_add((level.len() / VISIT_BYTES) as u32);
        let next_at = position.at + level.len() as u32 + 1;
        if let Literals::Many(_) = node.literals {
            *visits = visits.saturating_add(1);
        }
        let hash = || self.hasher.level(level);
        let literal = self.trie.literal(position.node, node, level, hash);
        let literal = literal.map(|child| Position::at_anchor(child, next_at));
        if position.at == 0 && !self.allows_wildcards() {
            return literal;
        }
        node.multi.map(visit);
        let Some(plus) = node.plus.some() else {
            return literal;
        };
        let at = if node.plus.is_long() {
            self.skip(position.at, self.trie.run(plus), visits)
        } else {
            Some(next_at)
        };
        let is_run = node.level.run() > 0;
        let plus = at.map(|at| position.run_to(plus, at, is_run));
        match (literal, plus) {
            (Some(literal), Some(plus)) => {
                progress.open.push(plus);
                Some(literal)
            }
            (literal, plus) => literal.or(plus),
        }
    }

    /// Where the level starts that comes `levels` after the one at `at`; `None` where the name has
    /// fewer.
    pub(super) fn skip(&self, at: u32, levels: u32, visits: &mut u32) -> Option<u32> {
        let rest = self.name.as_bytes().get(at as usize..)?;
        let skipped = levels_after(rest, levels);
        let read = skipped.unwrap_or(rest.len()) / VISIT_BYTES;
        *visits = visits.saturating_add(read as u32);
        Some(at + skipped? as u32)
    }

    /// Finds the place of a position again after nodes were removed.
    ///
    /// Its nodes may be gone, or stand elsewhere since their numbers were given out again. An
    /// anchor that is gone led to no filter at that moment. One that leads to other filters now is
    /// as good as another, if they match.
    fn locate(&self, zone: Zone, stale: Position, visits: &mut u32) -> Option<Position> {
        if !self.leads_to(zone, stale.anchor, stale.anchor_at, visits) {
            return None;
        }
        let mut position = Position::at_anchor(stale.anchor, stale.anchor_at);
        while position.at < stale.at {
            *visits = visits.saturating_add(1);
            // A run that was merged ends below; all that led on from here leads on from there.
            let plus = self.trie.nodes.get(position.node.0)?.plus.some()?;
            position.node = plus;
            position.at = self.skip(position.at, self.trie.run(plus), visits)?;
        }
        Some(position)
    }

    /// Whether the name's levels before `at` lead to a node, along its parents.
    fn leads_to(&self, zone: Zone, node: NodeId, at: u32, visits: &mut u32) -> bool {
        let name = self.name.as_bytes();
        let (mut node, mut at) = (node, at as usize);
        loop {
            *visits = visits.saturating_add(1);
            let Some(found) = self.trie.nodes.get(node.0) else {
                return false;
            };
            if let Level::Root(other) = found.level {
                return at == 0 && other == zone;
            }
            let above = match found.level.text() {
                Some(text) => level_before(name, at, text),
                None => levels_before(name, at, found.level.run()),
            };
            // A wildcard at the first level does not match every name.
            let is_wildcard = found.level.run() > 0;
            let above = above.filter(|above| *above > 0 || !is_wildcard || self.allows_wildcards());
            let Some(above) = above else {
                return false;
            };
            let read = ((at - above) / VISIT_BYTES) as u32;
            *visits = visits.saturating_add(read);
            (node, at) = (found.parent, above);
        }
    }

    /// Whether wildcards at the first level match the name: not if it begins with `$`
    /// [MQTT-4.7.2-1].
    pub(super) fn allows_wildcards(&self) -> bool {
        !self.name.starts_with('$')
    }
}
