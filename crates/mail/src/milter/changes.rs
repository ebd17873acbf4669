//! From a changed message to the replies that change it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::reply::{BODY_BYTES_MAX, Reply};

/// A header: its name, and all after the colon but for the line end.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Where the body of a message begins: after the first empty line, or at its end.
#[must_use]
pub fn body_start(message: &[u8]) -> usize {
    let mut at = 0;
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return at;
        }
    }
    at
}

/// The replies, encoded, that turn a message into another one. `has_space` tells that values of
/// headers stand on the wire with the space after the colon.
///
/// Headers that go are removed from the last one to the first, so that the numbers of those before
/// them stay as they are; those that come are inserted after that, in the order of the new message.
#[must_use]
pub fn changes(old: &[u8], new: &[u8], has_space: bool) -> Vec<u8> {
    let (old_body, new_body) = (body_start(old), body_start(new));
    let (before, after) = (fields(&old[..old_body]), fields(&new[..new_body]));
    let (removed, inserted) = compare(&before, &after);
    let mut out = Vec::new();
    let numbers = numbers(&before);
    for index in removed.into_iter().rev() {
        let (name, index) = (before[index].0, numbers[index]);
        Reply::Remove { index, name }.encode(&mut out);
    }
    let tail = tail(&inserted, after.len());
    for index in inserted {
        let (name, value) = after[index];
        let value = on_the_wire(value, has_space);
        let value = &value;
        // What comes after all others is added: where the end is, the mail server knows best,
        // which may have headers of its own.
        if index >= tail && tail > 0 {
            Reply::Add { name, value }.encode(&mut out);
        } else {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            Reply::Insert { index, name, value }.encode(&mut out);
        }
    }
    if old[old_body..] != new[new_body..] {
        let body = &new[new_body..];
        if body.is_empty() {
            Reply::Body(body).encode(&mut out);
        }
        for piece in body.chunks(BODY_BYTES_MAX) {
            Reply::Body(piece).encode(&mut out);
        }
    }
    out
}

/// The headers of a block; a line that is none belongs to the one before it.
fn fields(block: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let continues = line.first().is_none_or(u8::is_ascii_whitespace) || !line.contains(&b':');
        if !continues && at > start {
            fields.extend(field(&block[start..at]));
            start = at;
        }
        at += line.len();
    }
    fields.extend(field(&block[start..]));
    fields
}

fn field(text: &[u8]) -> Option<Field<'_>> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let value = text[colon + 1..].trim_ascii_end();
    Some((text[..colon].trim_ascii_end(), value))
}

/// Of each field, which one of its name it is, counted from 1. A stranger wrote them, so the time
/// for many of a name is not theirs to choose.
fn numbers(fields: &[Field<'_>]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    let number = |(name, _): &Field<'_>| {
        let count = counts.entry(name.to_ascii_lowercase()).or_insert(0_u32);
        *count = count.saturating_add(1);
        *count
    };
    fields.iter().map(number).collect()
}

/// Which of the old ones go, and which of the new ones come.
fn compare(old: &[Field<'_>], new: &[Field<'_>]) -> (Vec<usize>, Vec<usize>) {
    // Where each one is in the new message, the last place first.
    let mut places: BTreeMap<&Field<'_>, Vec<usize>> = BTreeMap::new();
    for (index, field) in new.iter().enumerate().rev() {
        places.entry(field).or_default().push(index);
    }
    let (mut removed, mut inserted) = (Vec::new(), Vec::new());
    let mut next = 0;
    for (index, field) in old.iter().enumerate() {
        let mut own = places.get_mut(field);
        let place = own.as_mut().and_then(|own| {
            while own.pop_if(|place| *place < next).is_some() {}
            own.pop()
        });
        match place {
            Some(place) => {
                inserted.extend(next..place);
                next = place + 1;
            }
            None => removed.push(index),
        }
    }
    inserted.extend(next..new.len());
    (removed, inserted)
}

/// From which of the new ones on all come.
fn tail(inserted: &[usize], count: usize) -> usize {
    let run = inserted.iter().rev().zip((0..count).rev());
    count - run.take_while(|(index, place)| **index == *place).count()
}

/// A header's value as the mail server wants it: lines end with a line feed alone.
fn on_the_wire(value: &[u8], has_space: bool) -> Vec<u8> {
    let value = match value {
        [b' ', rest @ ..] if !has_space => rest,
        value => value,
    };
    let is_return = |index: usize| value[index] == b'\r' && value.get(index + 1) == Some(&b'\n');
    let kept = (0..value.len()).filter(|index| !is_return(*index));
    kept.map(|index| value[index]).collect()
}
