//! All subscribed filters, as one walk over the shards saw them.

use std::ops::ControlFlow;

use stentor_hub::Subscribed;
use stentor_topic::Zone;

use super::{Surveys, TooMany, each_step};
use crate::context::ServerContext;
use crate::shard::Survey;

/// A filter in a zone, with the number of its subscribers.
#[derive(Clone, Copy, Debug)]
struct Row {
    zone: u32,
    at: u32,
    bytes: u32,
    subscribers: u32,
}

/// Filters, without an allocation for each.
#[derive(Debug, Default)]
pub(crate) struct FilterRows {
    rows: Vec<Row>,
    text: String,
    /// Whether all shards have answered.
    pub(crate) is_complete: bool,
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl FilterRows {
    /// Rows with room for a step of a shard.
    pub(crate) fn with_room() -> Self {
        Self {
            rows: Vec::with_capacity(256),
            text: String::with_capacity(16 * 1024),
            is_complete: false,
        }
    }

    /// What they take.
    pub(super) const fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.text.capacity()
    }

    /// Adds a filter that a shard shows.
    pub(crate) fn push(&mut self, (zone, filter, subscribers): &Subscribed<'_>) {
        self.rows.push(Row {
            zone: zone.get(),
            at: short(self.text.len()),
            bytes: short(filter.len()),
            subscribers: short(*subscribers),
        });
        self.text.push_str(filter);
    }

    fn append(&mut self, part: &mut Self) {
        let base = short(self.text.len());
        self.text.push_str(&part.text);
        let moved = part.rows.drain(..).map(|row| Row {
            at: row.at.saturating_add(base),
            ..row
        });
        self.rows.extend(moved);
        part.text.clear();
    }

    fn text_of(&self, row: &Row) -> &str {
        let at = row.at as usize;
        self.text
            .get(at..at + row.bytes as usize)
            .unwrap_or_default()
    }

    /// Sorts them, and makes one row of those that several shards have.
    fn sort(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by(|a, b| (a.zone, self.text_of(a)).cmp(&(b.zone, self.text_of(b))));
        rows.dedup_by(|more, first| {
            let is_same = more.zone == first.zone && self.text_of(more) == self.text_of(first);
            if is_same {
                first.subscribers = first.subscribers.saturating_add(more.subscribers);
            }
            is_same
        });
        self.rows = rows;
    }

    /// All of them: of a survey, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Zone, &str, usize)> {
        let shown = |row: &Row| (Zone(row.zone), row.subscribers as usize);
        self.rows.iter().map(move |row| {
            let (zone, subscribers) = shown(row);
            (zone, self.text_of(row), subscribers)
        })
    }
}

/// Walks over all filters, and hands over what each step has found, as long as it is wanted.
/// Returns whether all shards have answered.
pub(crate) fn each_part(
    context: &ServerContext,
    mut take: impl FnMut(&mut FilterRows) -> ControlFlow<()>,
) -> bool {
    let question = |rows, answer| Survey::Filters { rows, answer };
    each_step(context, FilterRows::with_room, question, |part| {
        let goes_on = take(part);
        part.rows.clear();
        part.text.clear();
        goes_on
    })
}

/// Walks over all filters.
pub(super) fn walk(context: &ServerContext) -> Result<FilterRows, TooMany> {
    let surveys = &context.surveys;
    let (mut all, mut fits) = (FilterRows::default(), true);
    let is_complete = each_part(context, |part| {
        all.append(part);
        fits = surveys.has_room_for_filters(context, all.bytes());
        match fits {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    surveys.has_room_for_filters(context, 0);
    if !fits {
        return Err(TooMany::Bytes(Surveys::bytes_max(context)));
    }
    all.sort();
    all.is_complete = is_complete;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_shards_have_is_one_row() {
        let mut all = FilterRows::default();
        for of_shard in [
            &[(0, "b/#", 2), (1, "a", 1)][..],
            &[(0, "b/#", 3), (0, "a", 1)],
        ] {
            let mut part = FilterRows::with_room();
            for (zone, filter, subscribers) in of_shard {
                part.push(&(Zone(*zone), (*filter).into(), *subscribers));
            }
            all.append(&mut part);
        }
        all.sort();
        let found: Vec<_> = all.iter().collect();
        let expected = [(0, "a", 1), (0, "b/#", 5), (1, "a", 1)];
        assert_eq!(
            found,
            expected.map(|(zone, filter, n)| (Zone(zone), filter, n))
        );
    }
}
