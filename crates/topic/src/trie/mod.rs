//! The trie of the filters with wildcards, one level of a filter per node.

mod node;

use core::cell::LazyCell;

use smallvec::SmallVec;

use crate::index::FilterId;
use crate::slots::Slots;
use crate::table::TagTable;
use crate::{TopicHasher, Zone};
pub(crate) use node::NodeId;
use node::{Level, Literals, Node};

/// Branches that a match follows at a time without allocating.
const BRANCHES: usize = 32;

type Branches = SmallVec<[NodeId; BRANCHES]>;

/// Filters with wildcards of all zones.
///
/// A walk takes a name level by level and keeps the set of nodes that it reached. A node is reached
/// from its parent alone and at its own depth alone, so that a walk visits each node at most once:
/// however filters nest their `+`, the cost is bounded by the number of nodes (levels of distinct
/// filter beginnings), and is in practice that of the branches that match. Nothing recurses, as a
/// name may have 65,536 levels.
pub(crate) struct Trie {
    nodes: Slots<Node>,
    /// Roots by zone, and children by (parent, level) of nodes with [`Literals::Many`].
    children: TagTable,
}

impl Trie {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Slots::new(),
            children: TagTable::new(),
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
        for level in filter.split('/') {
            match level {
                "#" => {
                    if let Some(node) = self.nodes.get_mut(node.0) {
                        node.multi = Some(id);
                    }
                    return node;
                }
                "+" => node = self.plus_or_insert(node),
                literal => node = self.literal_or_insert(hasher, node, literal.as_bytes()),
            }
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
    }

    /// Calls `visit` with each filter that matches `name`.
    pub(crate) fn for_each_match(
        &self,
        hasher: &TopicHasher,
        zone: Zone,
        name: &str,
        mut visit: impl FnMut(FilterId),
    ) {
        let Some(root) = self.root(zone) else {
            return;
        };
        // Swapped by reference below, since the sets themselves are large.
        let (mut reached, mut next) = (&mut Branches::new(), &mut Branches::new());
        reached.push(root);
        // No wildcard at the first level matches a name that begins with `$` [MQTT-4.7.2-1].
        let mut allows_wildcards = !name.starts_with('$');
        for level in name.as_bytes().split(|&byte| byte == b'/') {
            next.clear();
            // Hashed when the first node asks, and once for all of them.
            let hash = LazyCell::new(|| hasher.level(level));
            for &at in reached.iter() {
                let Some(node) = self.nodes.get(at.0) else {
                    continue;
                };
                if allows_wildcards {
                    node.multi.map(&mut visit);
                    if let Some(plus) = node.plus.some() {
                        next.push(plus);
                    }
                }
                if let Some(child) = self.literal(at, node, level, || *hash) {
                    next.push(child);
                }
            }
            core::mem::swap(&mut reached, &mut next);
            if reached.is_empty() {
                return;
            }
            allows_wildcards = true;
        }
        for node in reached.iter().filter_map(|at| self.nodes.get(at.0)) {
            // `#` matches the parent level too.
            node.multi.map(&mut visit);
            node.exact.map(&mut visit);
        }
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

    fn plus_or_insert(&mut self, parent: NodeId) -> NodeId {
        if let Some(plus) = self.nodes.get(parent.0).and_then(|node| node.plus.some()) {
            return plus;
        }
        let plus = NodeId(self.nodes.insert(Node::new(Level::Plus, parent)));
        if let Some(parent) = self.nodes.get_mut(parent.0) {
            parent.plus = plus;
        }
        plus
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
        if let Level::Root(zone) = removed.level {
            self.children.remove(root_hash(zone), at.0);
            return None;
        }
        let parent = self.nodes.get_mut(removed.parent.0)?;
        match removed.level.text() {
            None => parent.plus = NodeId::NONE,
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
