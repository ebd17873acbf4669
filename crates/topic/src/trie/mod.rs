//! The trie of the filters with wildcards: a node per level of a filter, and one per run of `+`.

mod node;
mod sweep;
mod walk;

use crate::index::FilterId;
use crate::slots::Slots;
use crate::table::TagTable;
use crate::{TopicHasher, Zone};
use node::{Level, Literals, Node, Plus};
pub(crate) use node::{NodeId, SHORT as LEVEL_IN_NODE_BYTES};
pub(crate) use walk::{Matching, Progress, VISIT_BYTES};

/// Filters with wildcards of all zones.
///
/// Each literal level of a filter is a node, and so is each run of `+`, however long. A run is
/// split where another filter parts from it, and merged when no filter parts from it there, so that
/// the trie has no more nodes than its filters have runs and literal levels. Splitting and merging
/// keep the number and the depth of the lower part, which filters and lower nodes refer to.
pub(crate) struct Trie {
    nodes: Slots<Node>,
    /// Roots by zone, and children by (parent, level) of nodes with [`Literals::Many`].
    children: TagTable,
    /// How many nodes were removed so far. Matches that pause compare it.
    removals: u64,
}

impl Trie {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Slots::new(),
            children: TagTable::new(),
            removals: 0,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// Adds a filter that is not there yet; the returned node is for [`Trie::remove`].
    pub(crate) fn insert(
        &mut self,
        hasher: &TopicHasher,
        zone: Zone,
        filter: &str,
        id: FilterId,
    ) -> NodeId {
        let mut node = self.root_or_insert(zone);
        let mut run = 0;
        for level in filter.split('/') {
            if level == "+" {
                run += 1;
                continue;
            }
            if run > 0 {
                node = self.run_or_insert(node, run);
                run = 0;
            }
            if level == "#" {
                if let Some(node) = self.nodes.get_mut(node.0) {
                    node.multi = Some(id);
                }
                return node;
            }
            node = self.literal_or_insert(hasher, node, level.as_bytes());
        }
        if run > 0 {
            node = self.run_or_insert(node, run);
        }
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.exact = Some(id);
        }
        node
    }

    /// Takes a filter out, and the nodes that led to it alone.
    pub(crate) fn remove(&mut self, hasher: &TopicHasher, at: NodeId, id: FilterId) {
        let Some(node) = self.nodes.get_mut(at.0) else {
            return;
        };
        for end in [&mut node.exact, &mut node.multi] {
            if *end == Some(id) {
                *end = None;
            }
        }
        let mut at = at;
        while let Some(parent) = self.remove_if_unused(hasher, at) {
            at = parent;
        }
        self.merge_if_run(at);
    }

    /// Bytes of heap that the trie occupies.
    pub(crate) fn heap_bytes(&self) -> usize {
        let levels: usize = self
            .nodes
            .iter()
            .map(|(_, node)| node.level.heap_bytes())
            .sum();
        self.nodes.heap_bytes() + self.children.heap_bytes() + levels
    }

    fn root(&self, zone: Zone) -> Option<NodeId> {
        let is_root = |other| match self.nodes.get(other) {
            Some(node) => matches!(node.level, Level::Root(other) if other == zone),
            None => false,
        };
        self.children.find(root_hash(zone), is_root).map(NodeId)
    }

    /// The length of a run of `+`; 0 for other nodes.
    #[inline]
    fn run(&self, at: NodeId) -> u32 {
        self.nodes.get(at.0).map_or(0, |node| node.level.run())
    }

    /// The child of a node for a literal level, whose hash is asked for where it is needed.
    #[inline]
    fn literal(
        &self,
        parent: NodeId,
        node: &Node,
        level: &[u8],
        hash: impl FnOnce() -> u64,
    ) -> Option<NodeId> {
        let is_level = |child: &Node| child.level.text() == Some(level);
        match node.literals {
            Literals::None => None,
            Literals::One(child) => self
                .nodes
                .get(child.0)
                .is_some_and(is_level)
                .then_some(child),
            Literals::Many(_) => {
                let is_child = |child| match self.nodes.get(child) {
                    Some(child) => child.parent == parent && is_level(child),
                    None => false,
                };
                self.children
                    .find(child_hash(hash(), parent), is_child)
                    .map(NodeId)
            }
        }
    }

    fn root_or_insert(&mut self, zone: Zone) -> NodeId {
        if let Some(root) = self.root(zone) {
            return root;
        }
        let root = self
            .nodes
            .insert(Node::new(Level::Root(zone), NodeId::NONE));
        self.children.insert_unique(root_hash(zone), root);
        NodeId(root)
    }

    /// The node at the end of a run of `+` below `at`.
    fn run_or_insert(&mut self, at: NodeId, run: u32) -> NodeId {
        let (mut at, mut left) = (at, run);
        while left > 0 {
            let plus = self.nodes.get(at.0).and_then(|node| node.plus.some());
            let Some(plus) = plus else {
                return self.run_insert(at, left);
            };
            let there = self.run(plus);
            if there == 0 || left < there {
                return self.split(at, left, plus, there);
            }
            (at, left) = (plus, left - there);
        }
        at
    }

    /// Adds a run of `+` that `parent` leads to.
    fn run_insert(&mut self, parent: NodeId, run: u32) -> NodeId {
        let plus = NodeId(self.nodes.insert(Node::new(Level::Plus(run), parent)));
        if let Some(parent) = self.nodes.get_mut(parent.0) {
            parent.plus = Plus::new(plus, run);
        }
        plus
    }

    /// Splits the run `lower`, `there` levels long, after its first `run` levels; returns the upper
    /// part. The lower one keeps its number and its depth.
    fn split(&mut self, parent: NodeId, run: u32, lower: NodeId, there: u32) -> NodeId {
        let left = there.saturating_sub(run);
        let upper = self.run_insert(parent, run);
        if let Some(upper) = self.nodes.get_mut(upper.0) {
            upper.plus = Plus::new(lower, left);
        }
        if let Some(lower) = self.nodes.get_mut(lower.0) {
            lower.level = Level::Plus(left);
            lower.parent = upper;
        }
        upper
    }

    fn literal_or_insert(&mut self, hasher: &TopicHasher, at: NodeId, level: &[u8]) -> NodeId {
        let node = self.nodes.get(at.0);
        if let Some(child) =
            node.and_then(|node| self.literal(at, node, level, || hasher.level(level)))
        {
            return child;
        }
        let before = node.map_or(Literals::None, |node| node.literals);
        let child = NodeId(self.nodes.insert(Node::new(Level::literal(level), at)));
        let after = match before {
            Literals::None => Literals::One(child),
            Literals::One(other) => {
                // From the second child on they are found through the table.
                self.enter(hasher, at, other);
                self.enter(hasher, at, child);
                Literals::Many(2)
            }
            Literals::Many(count) => {
                self.enter(hasher, at, child);
                Literals::Many(count + 1)
            }
        };
        if let Some(node) = self.nodes.get_mut(at.0) {
            node.literals = after;
        }
        child
    }

    /// Puts a child for a literal level into the table.
    fn enter(&mut self, hasher: &TopicHasher, parent: NodeId, child: NodeId) {
        if let Some(level) = self.nodes.get(child.0).and_then(|child| child.level.text()) {
            self.children
                .insert_unique(child_hash(hasher.level(level), parent), child.0);
        }
    }

    /// Removes a node that leads to no filter; returns its parent, which may be unused then.
    fn remove_if_unused(&mut self, hasher: &TopicHasher, at: NodeId) -> Option<NodeId> {
        if !self.nodes.get(at.0)?.is_unused() {
            return None;
        }
        let removed = self.nodes.remove(at.0)?;
        self.removals += 1;
        if let Level::Root(zone) = removed.level {
            self.children.remove(root_hash(zone), at.0);
            return None;
        }
        let parent = self.nodes.get_mut(removed.parent.0)?;
        match removed.level.text() {
            None => parent.plus = Plus::NONE,
            Some(level) => {
                parent.literals = match parent.literals {
                    Literals::None | Literals::One(_) => Literals::None,
                    Literals::Many(count) => {
                        let hash = child_hash(hasher.level(level), removed.parent);
                        self.children.remove(hash, at.0);
                        if count > 1 {
                            Literals::Many(count - 1)
                        } else {
                            Literals::None
                        }
                    }
                };
            }
        }
        Some(removed.parent)
    }

    /// Merges a run of `+` with the run below it, if nothing else leads on from it. That keeps who
    /// subscribes and leaves again from cutting the runs of others up.
    fn merge_if_run(&mut self, upper: NodeId) -> Option<()> {
        let node = self.nodes.get(upper.0)?;
        let (run, parent, lower) = (node.level.run(), node.parent, node.plus.some()?);
        if run == 0 || !node.leads_to_plus_at_most() {
            return None;
        }
        let node = self.nodes.get_mut(lower.0)?;
        let run = run + node.level.run();
        node.level = Level::Plus(run);
        node.parent = parent;
        self.nodes.get_mut(parent.0)?.plus = Plus::new(lower, run);
        self.nodes.remove(upper.0);
        self.removals += 1;
        Some(())
    }
}

/// Odd, so that different numbers stay different.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Zones are numbered by the server, so that no key is needed.
fn root_hash(zone: Zone) -> u64 {
    u64::from(zone.get()).wrapping_mul(FACTOR)
}

fn child_hash(level_hash: u64, parent: NodeId) -> u64 {
    level_hash ^ u64::from(parent.0).wrapping_mul(FACTOR)
}
