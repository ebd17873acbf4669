//! What has come of a SUBSCRIBE that goes on in later turns.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::ReasonCode;

use super::Awaited;
use super::tally::{Refusals, Tally};
use crate::core::delivery::snapshot::Wanted;
use crate::core::inbound::subscribe::Denial;

/// What has come of the elements so far: a [`Tally`] that outlives them.
#[derive(Debug, Default)]
pub(super) struct Kept {
    reasons: Vec<u8>,
    /// Whether any element was refused.
    has_refusals: bool,
    text: Box<str>,
    pub(super) wanted: Vec<(Box<str>, Wanted<'static>)>,
    denied: Vec<(Box<str>, Denial)>,
    no_joins: Vec<(Box<str>, ReasonCode, Box<str>)>,
    /// Bytes of the texts in these lists.
    text_bytes: usize,
}

impl Kept {
    pub(super) fn add(&mut self, tally: Tally<'_>) {
        self.reasons.extend_from_slice(&tally.reasons);
        let (wanted, refusals) = tally.into_parts();
        self.text_bytes += wanted.iter().map(|it| it.filter.len()).sum::<usize>();
        let wanted = wanted.into_iter().map(|wanted| {
            let filter = "";
            (wanted.filter.into(), Wanted { filter, ..wanted })
        });
        self.wanted.extend(wanted);
        if let Some(refusals) = refusals {
            self.add_refusals(*refusals);
        }
    }

    fn add_refusals(&mut self, refusals: Refusals<'_>) {
        self.has_refusals = true;
        if self.text.is_empty() {
            self.text = refusals.text.into();
        }
        let texts = refusals.denied.iter().map(|(filter, _)| *filter);
        let no_joins = refusals.no_joins.iter();
        let texts = texts.chain(no_joins.flat_map(|(filter, _, why)| [*filter, *why]));
        self.text_bytes += texts.map(str::len).sum::<usize>();
        let denied = refusals.denied.into_iter();
        let denied = denied.map(|(filter, denial)| (filter.into(), denial.clone()));
        self.denied.extend(denied);
        let no_joins = refusals.no_joins.into_iter();
        let no_joins = no_joins.map(|(filter, reason, why)| (filter.into(), reason, why.into()));
        self.no_joins.extend(no_joins);
    }

    /// Bytes of memory that it holds. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.reasons.capacity()
            + self.text.len()
            + self.text_bytes
            + self.wanted.capacity() * size_of::<(Box<str>, Wanted<'static>)>()
            + self.denied.capacity() * size_of::<(Box<str>, Denial)>()
            + self.no_joins.capacity() * size_of::<(Box<str>, ReasonCode, Box<str>)>()
    }

    pub(super) fn tally(&self, is_v5: bool, awaited: Awaited) -> Tally<'_> {
        let mut tally = Tally::new(is_v5, Some(awaited));
        tally.reasons = self.reasons.as_slice().into();
        let wanted = self.wanted.iter();
        tally.wanted = wanted
            .map(|(filter, wanted)| Wanted { filter, ..*wanted })
            .collect();
        if !self.has_refusals {
            return tally;
        }
        let denied = self.denied.iter();
        let no_joins = self.no_joins.iter();
        tally.with_refusals(Refusals {
            text: &self.text,
            too_long: None,
            denied: denied.map(|(filter, denial)| (&**filter, denial)).collect(),
            no_joins: no_joins
                .map(|(filter, reason, why)| (&**filter, *reason, &**why))
                .collect(),
        })
    }
}
