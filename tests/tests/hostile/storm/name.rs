//! Topics and filters that may be dear: long, deep, with wildcards, in groups.

use std::fmt;

use super::random::Random;

/// What names may be at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) levels: usize,
    pub(super) wildcards: usize,
}

/// A topic: levels of one or two letters, and the last one as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topic {
    /// Chooses the letters: few, so that topics have much in common.
    seed: usize,
    levels: usize,
    /// Of the last level, beside its number.
    length: usize,
    number: usize,
}

impl Topic {
    pub(super) fn draw(random: &mut Random, bounds: Bounds) -> Self {
        let levels = random.size(bounds.levels);
        let most = bounds.bytes - 3 * levels - 24;
        Self {
            seed: random.below(4),
            levels,
            length: random.size(most),
            number: random.below(500),
        }
    }

    /// The topic, with another number.
    pub(super) const fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }

    fn level(self, at: usize) -> &'static str {
        ["a", "b", "aa", "ab"][(self.seed >> (at % 4)) % 4]
    }

    fn last(self) -> String {
        format!("{}{}", "x".repeat(self.length), self.number)
    }

    pub(super) fn text(self) -> String {
        let mut text = String::new();
        for at in 1..self.levels {
            text.push_str(self.level(at));
            text.push('/');
        }
        text + &self.last()
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            levels,
            length,
            number,
        } = self;
        write!(f, "topic {seed}/{number} of {levels} levels + {length} B")
    }
}

/// A filter that may match such topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    like: Topic,
    /// Levels that are `+`, as far as they are among the first 64.
    plus: u64,
    ends_in_hash: bool,
    group: Option<usize>,
}

impl Filter {
    pub(super) fn draw(random: &mut Random, bounds: Bounds) -> Self {
        let like = Topic::draw(random, bounds);
        let mut plus = 0;
        for _ in 0..random.below(bounds.wildcards) {
            plus |= 1 << random.below(like.levels.min(64));
        }
        Self {
            like,
            plus,
            ends_in_hash: random.one_in(3),
            group: random.one_in(4).then(|| random.below(300)),
        }
    }

    pub(super) fn text(self) -> String {
        let mut text = match self.group {
            Some(group) => format!("$share/g{group}/"),
            None => String::new(),
        };
        for at in 1..self.like.levels {
            let is_plus = self.plus.checked_shr(at as u32).unwrap_or(0) & 1 == 1;
            text.push_str(if is_plus { "+" } else { self.like.level(at) });
            text.push('/');
        }
        if self.ends_in_hash {
            text.push('#');
        } else {
            text.push_str(&self.like.last());
        }
        text
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with + {:#x}", self.like, self.plus)?;
        if self.ends_in_hash {
            write!(f, " and #")?;
        }
        match self.group {
            Some(group) => write!(f, " in group {group}"),
            None => Ok(()),
        }
    }
}
