//! The trie of the filters with wildcards, one level of a filter per node.

use alloc::boxed::Box;
use core::cell::LazyCell;

use smallvec::SmallVec;

use crate::index::FilterId;
use crate::slots::Slots;
use crate::table::TagTable;
use crate::{TopicHasher, Zone};

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// Stands for "none"; no slab gives this number out.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The levels that lead here are the beginning of at least one filter with a wildcard.
struct Node {
    /// The level that leads here from the parent; empty for a `+` and for a root.
    level: Box<str>,
    /// What this node is to its parent.
    place: Place,
    /// The child for any one level.
    plus: NodeId,
    /// Number of children for literal levels; they are found through [`Trie::children`].
    literals: u32,
    /// The filter that ends here.
    exact: Option<FilterId>,
    /// The filter that ends here but for a last level `#`.
    multi: Option<FilterId>,
}

/// Where a node hangs.
#[derive(Clone, Copy)]
enum Place {
    Root(Zone),
    Plus(NodeId),
    Literal(NodeId),
}

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
    /// Roots by zone and literal children by (parent, level).
    children: TagTable,
}

impl Trie {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Slots::new(),
            children: TagTable::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
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
                literal => node = self.literal_or_insert(hasher, node, literal),
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
        let mut reached = Branches::from_slice(&[root]);
        let mut next = Branches::new();
        // No wildcard at the first level matches a name that begins with `$` [MQTT-4.7.2-1].
        let mut allows_wildcards = !name.starts_with('$');
        for level in name.split('/') {
            next.clear();
            // Hashed when the first node asks, and once for all of them.
            let hash = LazyCell::new(|| hasher.level(level.as_bytes()));
            for (at, node) in reached
                .iter()
                .filter_map(|&at| Some((at, self.nodes.get(at.0)?)))
            {
                if allows_wildcards {
                    node.multi.map(&mut visit);
                    next.extend(node.plus.some());
                }
                if node.literals > 0 {
                    next.extend(self.literal(*hash, at, level));
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
        let levels: usize = self.nodes.iter().map(|(_, node)| node.level.len()).sum();
        self.nodes.heap_bytes() + self.children.heap_bytes() + levels
    }

    fn root(&self, zone: Zone) -> Option<NodeId> {
        let is_root = |other| match self.nodes.get(other) {
            Some(Node {
                place: Place::Root(other),
                ..
            }) => *other == zone,
            _ => false,
        };
        self.children.find(root_hash(zone), is_root).map(NodeId)
    }

    /// The child of `parent` for a literal level with this hash.
    fn literal(&self, level_hash: u64, parent: NodeId, level: &str) -> Option<NodeId> {
        let is_child = |other| is_literal(&self.nodes, other, parent, level);
        self.children
            .find(child_hash(level_hash, parent), is_child)
            .map(NodeId)
    }

    fn root_or_insert(&mut self, zone: Zone) -> NodeId {
        if let Some(root) = self.root(zone) {
            return root;
        }
        let root = self.nodes.insert(Node::new("", Place::Root(zone)));
        self.children.insert_unique(root_hash(zone), root);
        NodeId(root)
    }

    fn plus_or_insert(&mut self, parent: NodeId) -> NodeId {
        if let Some(plus) = self.nodes.get(parent.0).and_then(|node| node.plus.some()) {
            return plus;
        }
        let plus = NodeId(self.nodes.insert(Node::new("", Place::Plus(parent))));
        if let Some(parent) = self.nodes.get_mut(parent.0) {
            parent.plus = plus;
        }
        plus
    }

    fn literal_or_insert(&mut self, hasher: &TopicHasher, parent: NodeId, level: &str) -> NodeId {
        let level_hash = hasher.level(level.as_bytes());
        if let Some(child) = self.literal(level_hash, parent, level) {
            return child;
        }
        let child = self.nodes.insert(Node::new(level, Place::Literal(parent)));
        self.children
            .insert_unique(child_hash(level_hash, parent), child);
        if let Some(parent) = self.nodes.get_mut(parent.0) {
            parent.literals += 1;
        }
        NodeId(child)
    }

    /// Removes a node that leads to no filter; returns its parent, which may be unused then.
    fn remove_if_unused(&mut self, hasher: &TopicHasher, at: NodeId) -> Option<NodeId> {
        if !self.nodes.get(at.0)?.is_unused() {
            return None;
        }
        let node = self.nodes.remove(at.0)?;
        match node.place {
            Place::Root(zone) => {
                self.children.remove(root_hash(zone), at.0);
                None
            }
            Place::Plus(parent) => {
                self.nodes.get_mut(parent.0)?.plus = NodeId::NONE;
                Some(parent)
            }
            Place::Literal(parent) => {
                let level_hash = hasher.level(node.level.as_bytes());
                self.children.remove(child_hash(level_hash, parent), at.0);
                self.nodes.get_mut(parent.0)?.literals -= 1;
                Some(parent)
            }
        }
    }
}

impl Node {
    fn new(level: &str, place: Place) -> Self {
        Self {
            level: level.into(),
            place,
            plus: NodeId::NONE,
            literals: 0,
            exact: None,
            multi: None,
        }
    }

    fn is_unused(&self) -> bool {
        let is_end = self.exact.is_some() || self.multi.is_some();
        !is_end && self.literals == 0 && self.plus == NodeId::NONE
    }
}

fn is_literal(nodes: &Slots<Node>, node: u32, parent: NodeId, level: &str) -> bool {
    match nodes.get(node) {
        Some(node) => {
            matches!(node.place, Place::Literal(other) if other == parent && *node.level == *level)
        }
        None => false,
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
