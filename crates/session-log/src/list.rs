//! Lists, as a writer has them and as they lie in a batch.

use alloc::vec::Vec;
use core::fmt;

use crate::Name;
use crate::wire::{Fault, IDENTIFIER_MAX, Reader, Why, put_bytes, put_varint, unzigzag, zigzag};

/// What a list may hold.
pub(crate) trait Item<'a>: Copy + PartialEq + fmt::Debug {
    /// What is remembered of the items before.
    type Before: Default;

    fn put(&self, before: &mut Self::Before, out: &mut Vec<u8>);

    fn take(reader: &mut Reader<'a>, before: &mut Self::Before) -> Result<Self, Fault>;
}

/// A list: a slice that is to be written, or what was read, which stays as it lies there.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Content<'a, T>);

#[derive(Clone, Copy)]
enum Content<'a, T> {
    Plain(&'a [T]),
    /// Looked through once, so all of it can be read.
    Encoded {
        count: usize,
        bytes: Reader<'a>,
    },
}

impl<'a, T> List<'a, T> {
    /// A list to be written.
    #[must_use]
    pub const fn new(items: &'a [T]) -> Self {
        Self(Content::Plain(items))
    }

    /// How many items there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Content::Plain(items) => items.len(),
            Content::Encoded { count, .. } => count,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self::new(items)
    }
}

#[expect(private_bounds, reason = "this crate alone says what a list may hold")]
impl<'a, T: Item<'a>> List<'a, T> {
    /// The items in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'a, T> {
        Iter {
            content: self.0,
            before: T::Before::default(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self.0 {
            Content::Plain(items) => put_items(items.iter().copied(), out),
            Content::Encoded { .. } => put_items(self.iter(), out),
        }
    }

    /// Reads a list: all items are looked at, and none is kept apart from its bytes.
    pub(crate) fn take(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, Fault> {
        // Each item takes a byte at least.
        let count = reader.varint(field, u64::MAX)?;
        if count > reader.rest().len() as u64 {
            return Err(Fault {
                field,
                why: Why::Truncated,
            });
        }
        let bytes = *reader;
        let mut before = T::Before::default();
        for _ in 0..count {
            T::take(reader, &mut before)?;
        }
        Ok(Self(Content::Encoded {
            count: count as usize,
            bytes,
        }))
    }
}

/// Appends a list of items that no slice holds.
pub(crate) fn put_items<'a, T: Item<'a>>(
    items: impl ExactSizeIterator<Item = T>,
    out: &mut Vec<u8>,
) {
    put_varint(out, items.len() as u64);
    let mut before = T::Before::default();
    for item in items {
        item.put(&mut before, out);
    }
}

impl<'a, T: Item<'a>> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a>> fmt::Debug for List<'a, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

/// The items of a [`List`].
#[expect(private_bounds, reason = "this crate alone says what a list may hold")]
pub struct Iter<'a, T: Item<'a>> {
    content: Content<'a, T>,
    before: T::Before,
}

impl<'a, T: Item<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.content {
            Content::Plain(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(*first)
            }
            Content::Encoded { count, bytes } => {
                *count = count.checked_sub(1)?;
                T::take(bytes, &mut self.before).ok()
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match self.content {
            Content::Plain(items) => items.len(),
            Content::Encoded { count, .. } => count,
        };
        (len, Some(len))
    }
}

impl<'a, T: Item<'a>> ExactSizeIterator for Iter<'a, T> {}

impl<'a, T: Item<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The number of a session: the difference to the one before, so a dense list in order takes one
/// byte for each. Any order is possible.
impl Item<'_> for u32 {
    type Before = Self;

    #[inline]
    fn put(&self, before: &mut Self, out: &mut Vec<u8>) {
        let distance = self.wrapping_sub(*before) as i32;
        put_varint(out, u64::from(zigzag(distance)));
        *before = *self;
    }

    #[inline]
    fn take(reader: &mut Reader<'_>, before: &mut Self) -> Result<Self, Fault> {
        let distance = unzigzag(reader.u32("number")?);
        *before = before.wrapping_add(distance as Self);
        Ok(*before)
    }
}

/// A subscription identifier, which is sent with a message: from 1 to 268,435,455.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(pub u32);

impl Item<'_> for Identifier {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.0));
    }

    fn take(reader: &mut Reader<'_>, (): &mut ()) -> Result<Self, Fault> {
        let field = "identifier";
        // The bound makes it fit.
        match reader.varint(field, u64::from(IDENTIFIER_MAX))? as u32 {
            0 => Err(Fault {
                field,
                why: Why::Value,
            }),
            identifier => Ok(Self(identifier)),
        }
    }
}

/// The name of a role.
impl<'a> Item<'a> for &'a str {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn take(reader: &mut Reader<'a>, (): &mut ()) -> Result<Self, Fault> {
        reader.text("role")
    }
}

impl Item<'_> for Name {
    type Before = ();

    fn put(&self, (): &mut (), out: &mut Vec<u8>) {
        Self::put(*self, out);
    }

    fn take(reader: &mut Reader<'_>, (): &mut ()) -> Result<Self, Fault> {
        Self::take(reader, "name")
    }
}
