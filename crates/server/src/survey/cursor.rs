//! Where a page of a list begins, as a text that a caller gives back.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use super::Selection;

/// The beginning of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) place: Place,
    /// What the list was asked for: see [`print_of`].
    pub(crate) print: u32,
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind the entries of a survey that earlier pages had.
    Survey { number: u64, passed: usize },
    /// At a place of a shard: nothing is kept.
    Shard { shard: usize, slot: u64 },
}

impl Cursor {
    /// A place in the list of a selection.
    pub(crate) fn new(some: &Selection, place: Place) -> Self {
        Self {
            place,
            print: print_of(some),
        }
    }

    /// Whether it is one of the list of this selection.
    pub(crate) fn is_of(&self, some: &Selection) -> bool {
        self.print == print_of(some)
    }
}

/// Tells what a list was asked for from what others were.
fn print_of(some: &Selection) -> u32 {
    let mut hasher = DefaultHasher::new();
    some.hash(&mut hasher);
    hasher.finish() as u32
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let print = self.print;
        match self.place {
            Place::Survey { number, passed } => write!(f, "s-{number:x}-{passed}-{print:x}"),
            Place::Shard { shard, slot } => write!(f, "p-{shard}-{slot}-{print:x}"),
        }
    }
}

/// A text that is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoCursor;

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let parts: Vec<&str> = text.split('-').collect();
        let [kind, first, second, print] = parts[..] else {
            return Err(NoCursor);
        };
        let number = |text: &str| text.parse().map_err(|_| NoCursor);
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| NoCursor);
        let place = match kind {
            "s" => Place::Survey {
                number: hex(first)?,
                passed: number(second)?,
            },
            "p" => Place::Shard {
                shard: number(first)?,
                slot: number(second)? as u64,
            },
            _ => return Err(NoCursor),
        };
        let print = u32::try_from(hex(print)?).map_err(|_| NoCursor)?;
        Ok(Self { place, print })
    }
}

#[cfg(test)]
mod tests {
    use stentor_control::clients::Order;

    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let some = Selection::default();
        for place in [
            Place::Survey {
                number: u64::MAX,
                passed: 100,
            },
            Place::Shard {
                shard: 1,
                slot: 256,
            },
        ] {
            let cursor = Cursor::new(&some, place);
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
            assert!(cursor.is_of(&some));
            let other = Selection {
                by: Order::Lost,
                ..Selection::default()
            };
            assert!(!cursor.is_of(&other));
        }
        for text in [
            "",
            "s",
            "s-1-2",
            "s-g-2-3",
            "x-1-2-3",
            "p-1--3",
            "s-1-2-100000000",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(NoCursor), "{text}");
        }
    }
}
