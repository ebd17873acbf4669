//! A node of the trie: 40 bytes, and no heap for levels of up to 14 bytes.

use alloc::boxed::Box;

use crate::Zone;
use crate::index::FilterId;

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(pub(super) u32);

impl NodeId {
    /// Stands for "none"; no slab gives this number out.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// The child of a node for a run of `+`, which tells by itself whether the run is a long one: a
/// match need not look at the child for that.
#[derive(Clone, Copy)]
pub(super) struct Plus(u32);

impl Plus {
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Set where the run has more than one level.
    const LONG: u32 = 1 << 31;

    /// # Panics
    /// With 2^31 nodes, which take 86 GB.
    pub(super) const fn new(child: NodeId, run: u32) -> Self {
        assert!(child.0 < Self::LONG - 1, "more nodes than numbers for them");
        Self(if run > 1 {
            child.0 | Self::LONG
        } else {
            child.0
        })
    }

    #[inline]
    pub(super) fn some(self) -> Option<NodeId> {
        (self.0 != Self::NONE.0).then_some(NodeId(self.0 & !Self::LONG))
    }

    /// Whether the run of a child that there is has more than one level.
    #[inline]
    pub(super) const fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }
}

/// The levels that lead here are the beginning of at least one filter with a wildcard.
pub(super) struct Node {
    /// What leads here from the parent.
    pub(super) level: Level,
    /// [`NodeId::NONE`] for a root.
    pub(super) parent: NodeId,
    /// The child for any one level or more.
    pub(super) plus: Plus,
    /// The children for literal levels.
    pub(super) literals: Literals,
    /// The filter that ends here.
    pub(super) exact: Option<FilterId>,
    /// The filter that ends here but for a last level `#`.
    pub(super) multi: Option<FilterId>,
}

impl Node {
    pub(super) const fn new(level: Level, parent: NodeId) -> Self {
        Self {
            level,
            parent,
            plus: Plus::NONE,
            literals: Literals::None,
            exact: None,
            multi: None,
        }
    }

    /// Whether no filter ends here or below.
    pub(super) fn is_unused(&self) -> bool {
        self.plus.some().is_none() && self.leads_to_plus_at_most()
    }

    /// Whether all filters that lead through here go on with `+`.
    pub(super) fn leads_to_plus_at_most(&self) -> bool {
        let is_end = self.exact.is_some() || self.multi.is_some();
        !is_end && matches!(self.literals, Literals::None)
    }
}

/// The children of a node for literal levels.
///
/// A lone child is named here, so that the tail of a filter which many devices share the shape of
/// (`device/4711/+/state`) costs its nodes only, and following it touches no table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Literals {
    None,
    /// This child, which is not in the table.
    One(NodeId),
    /// This many children, at least one, all in the table. A node stays here until the last of
    /// them leaves.
    Many(u32),
}

/// What leads to a node.
pub(super) enum Level {
    /// The node is where names of a zone begin.
    Root(Zone),
    /// Any levels, at least one and this many: a run of `+`. Where filters part within a run, it is
    /// split, and it is merged when they part there no more.
    Plus(u32),
    /// A literal level that fits.
    Short(u8, [u8; SHORT]),
    /// A longer literal level; boxed twice since the text's length would not fit.
    Long(Box<Box<[u8]>>),
}

/// Length up to which a level lies in its node, in bytes.
pub(crate) const SHORT: usize = 14;

impl Level {
    pub(super) fn literal(level: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..level.len()) {
            Some(place) => {
                place.copy_from_slice(level);
                Self::Short(level.len() as u8, short)
            }
            None => Self::Long(Box::new(level.into())),
        }
    }

    /// The text of a literal level.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Root(_) | Self::Plus(_) => None,
            Self::Short(len, bytes) => bytes.get(..usize::from(*len)),
            Self::Long(level) => Some(level),
        }
    }

    /// The length of a run of `+`, 0 for other levels.
    #[inline]
    pub(super) const fn run(&self) -> u32 {
        match self {
            Self::Plus(run) => *run,
            Self::Root(_) | Self::Short(..) | Self::Long(_) => 0,
        }
    }

    /// Bytes of heap that the level occupies.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Root(_) | Self::Plus(_) | Self::Short(..) => 0,
            Self::Long(level) => size_of::<Box<[u8]>>() + level.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the crate's memory figures rest on.
    #[test]
    fn nodes_are_small() {
        assert_eq!(size_of::<Level>(), 16);
        assert_eq!(size_of::<Node>(), 40);
    }

    #[test]
    fn levels_keep_their_text() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 300] {
            let text = [b'x'].repeat(len);
            assert_eq!(Level::literal(&text).text(), Some(&*text));
        }
    }
}
