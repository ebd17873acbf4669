//! The rules of one role as a tree of levels, shared by everybody who has the role.
//!
//! Each node says what the rules that end there say, so that a question costs one walk along the
//! levels of the topic, however many rules there are, and no allocation. Placeholders are in the
//! tree as they are and are compared with the names of whoever is asked about: so thousands of
//! users with one role share one tree.

use super::pattern::{Level, Template};
use super::powers::Powers;
use super::who::{Placeholder, Who};
use crate::model::{EVERY_DOLLAR, Rule};

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    /// The root stands first.
    nodes: Vec<Node>,
    /// What is said about every topic that begins with `$`.
    dollar: Powers,
    /// Levels of the longest pattern.
    depth: usize,
}

#[derive(Debug, Default)]
struct Node {
    /// What the patterns that end here say.
    here: Powers,
    /// What the patterns say whose `#` stands below this level.
    rest: Powers,
    /// What any pattern at or below this node says.
    below: Powers,
    /// What any pattern says that goes on below this node.
    children: Powers,
    /// By text.
    texts: Vec<(Box<str>, u32)>,
    templates: Vec<(Template, u32)>,
    plus: Option<u32>,
}

/// How a pattern has to relate to the filter that is asked about. To a topic name, which is a
/// filter without wildcards, both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It matches every topic that the filter matches.
    Covers,
    /// There may be a topic that both match. Too much is found, never too little: a filter that
    /// ends with `#` finds patterns below whose placeholders expand to nothing.
    Overlaps,
}

/// A question about one filter.
#[derive(Clone, Copy)]
struct Question<'q> {
    who: &'q Who,
    relation: Relation,
}

impl Tree {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut tree = Self {
            nodes: vec![Node::default()],
            dollar: Powers::NONE,
            depth: 0,
        };
        for rule in rules {
            tree.add(rule);
        }
        tree.sum_up();
        tree
    }

    fn add(&mut self, rule: &Rule) {
        let powers = Powers::of(rule);
        if &*rule.pattern == EVERY_DOLLAR {
            self.dollar |= powers;
            return;
        }
        let mut at = 0;
        for (depth, level) in rule.pattern.split('/').enumerate() {
            self.depth = self.depth.max(depth + 1);
            if level == "#" {
                self.nodes[at].rest |= powers;
                return;
            }
            at = self.child(at, level);
        }
        self.nodes[at].here |= powers;
    }

    /// The node below `at` for a level of a pattern, made if there is none.
    fn child(&mut self, at: usize, level: &str) -> usize {
        let next = self.nodes.len();
        // A role has at most 10,000 rules of 1,024 bytes, which are fewer levels than 2^32.
        let new = u32::try_from(next).unwrap_or(u32::MAX);
        let node = &mut self.nodes[at];
        let found = match Level::parse(level) {
            Level::Plus => *node.plus.get_or_insert(new),
            Level::Text(text) => match node.texts.binary_search_by(|(t, _)| (**t).cmp(text)) {
                Ok(at) => node.texts[at].1,
                Err(at) => {
                    node.texts.insert(at, (text.into(), new));
                    new
                }
            },
            Level::Template(template) => {
                match node.templates.iter().find(|(known, _)| *known == template) {
                    Some((_, child)) => *child,
                    None => {
                        node.templates.push((template, new));
                        new
                    }
                }
            }
        };
        if found as usize == next {
            self.nodes.push(Node::default());
        }
        found as usize
    }

    /// Fills in what stands below each node. Children come after their parents in the list.
    fn sum_up(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let texts = node.texts.iter().map(|(_, child)| *child);
            let templates = node.templates.iter().map(|(_, child)| *child);
            let below = |child: u32| self.nodes[child as usize].below;
            let children = texts
                .chain(templates)
                .chain(node.plus)
                .fold(Powers::NONE, |sum, child| sum | below(child));
            let node = &mut self.nodes[at];
            node.children = children;
            node.below = node.here | node.rest | children;
            node.texts.shrink_to_fit();
            node.templates.shrink_to_fit();
        }
        self.nodes.shrink_to_fit();
    }

    /// What any rule says about anything.
    pub(super) fn says(&self) -> Powers {
        self.nodes[0].below | self.dollar
    }

    /// Levels of the longest pattern.
    pub(super) const fn depth(&self) -> usize {
        self.depth
    }

    /// Whether any pattern asks for this name.
    pub(super) fn uses(&self, placeholder: Placeholder) -> bool {
        let mut templates = self.nodes.iter().flat_map(|node| &node.templates);
        templates.any(|(template, _)| template.uses(placeholder))
    }

    /// What the rules say whose patterns relate so to a filter; of that, only what is `wanted`.
    ///
    /// Costs at most a walk over the nodes that the filter's levels lead to; no allocation.
    pub(super) fn ask(
        &self,
        filter: &str,
        relation: Relation,
        who: &Who,
        wanted: Powers,
    ) -> Powers {
        let question = Question { who, relation };
        let root = &self.nodes[0];
        if filter.starts_with('$') {
            // Only what names it literally: no wildcard in the first level, and somebody's name
            // allows nothing there.
            let (first, rest) = split(filter);
            let mut found = self.dollar & wanted;
            found |= self.text(root, first, rest, question, wanted);
            for (template, child) in &root.templates {
                if template.fit(first, who) == Powers::ALL {
                    let deny = (Powers::DENY & wanted).without(found);
                    found |= self.walk(*child, rest, question, deny);
                }
            }
            return found;
        }
        self.walk(0, Some(filter), question, wanted)
    }

    /// What is said at or below a node about the rest of a filter.
    fn walk(&self, at: u32, rest: Option<&str>, question: Question<'_>, wanted: Powers) -> Powers {
        let node = &self.nodes[at as usize];
        if !(node.below & wanted).is_some() {
            return Powers::NONE;
        }
        let mut found = node.rest & wanted;
        let Some(rest) = rest else {
            return found | (node.here & wanted);
        };
        if rest == "#" {
            return match question.relation {
                Relation::Covers => found,
                Relation::Overlaps => self.anything(at, wanted),
            };
        }
        let wanted = wanted.without(found);
        if !(node.children & wanted).is_some() {
            return found;
        }
        let (level, rest) = split(rest);
        if level == "+" {
            return found | self.plus(at, rest, question, wanted);
        }
        found |= self.text(node, level, rest, question, wanted);
        if let Some(child) = node.plus {
            found |= self.walk(child, rest, question, wanted.without(found));
        }
        for (template, child) in &node.templates {
            let fit = template.fit(level, question.who) & wanted;
            found |= self.walk(*child, rest, question, fit.without(found));
        }
        found
    }

    fn text(
        &self,
        node: &Node,
        level: &str,
        rest: Option<&str>,
        question: Question<'_>,
        wanted: Powers,
    ) -> Powers {
        match node.texts.binary_search_by(|(text, _)| (**text).cmp(level)) {
            Ok(at) => self.walk(node.texts[at].1, rest, question, wanted),
            Err(_) => Powers::NONE,
        }
    }

    /// What is said about a filter whose next level is `+`.
    fn plus(&self, at: u32, rest: Option<&str>, question: Question<'_>, wanted: Powers) -> Powers {
        let node = &self.nodes[at as usize];
        let mut found = Powers::NONE;
        if let Some(child) = node.plus {
            found |= self.walk(child, rest, question, wanted);
        }
        for (template, child) in &node.templates {
            let fit = template.fit_any(question.who);
            // A name that may not be used denies every level, as `+` does.
            if fit == Powers::DENY || question.relation == Relation::Overlaps {
                found |= self.walk(*child, rest, question, (fit & wanted).without(found));
            }
        }
        if question.relation == Relation::Overlaps {
            for (text, child) in &node.texts {
                if at > 0 || !text.starts_with('$') {
                    found |= self.walk(*child, rest, question, wanted.without(found));
                }
            }
        }
        found
    }

    /// What is said at or below a node about anything.
    fn anything(&self, at: u32, wanted: Powers) -> Powers {
        let node = &self.nodes[at as usize];
        if at > 0 {
            return node.below & wanted;
        }
        // `#` leaves out what begins with `$`.
        let texts = node.texts.iter().filter(|(text, _)| !text.starts_with('$'));
        let templates = node.templates.iter().map(|(_, child)| *child);
        let children = texts
            .map(|(_, child)| *child)
            .chain(templates)
            .chain(node.plus);
        let below = |child: u32| self.nodes[child as usize].below;
        children.fold(node.rest, |sum, child| sum | below(child)) & wanted
    }
}

/// The first level, and what follows it.
fn split(filter: &str) -> (&str, Option<&str>) {
    match filter.split_once('/') {
        Some((level, rest)) => (level, Some(rest)),
        None => (filter, None),
    }
}
