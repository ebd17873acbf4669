//! What has come of a SUBSCRIBE that goes on in later turns.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::ReasonCode;

use super::{Awaited, Tally};
use crate::core::delivery::snapshot::Wanted;
use crate::core::inbound::subscribe::Denial;

/// What has come of the elements so far: a [`Tally`] that outlives them.
#[derive(Debug, Default)]
pub(super) struct Kept {
    reasons: Vec<u8>,
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
        if self.text.is_empty() {
            self.text = tally.text.into();
        }
        let texts = tally.wanted.iter().map(|wanted| wanted.filter);
        let texts = texts.chain(tally.denied.iter().map(|(filter, _)| *filter));
        let refused = tally.no_joins.iter();
        let texts = texts.chain(refused.flat_map(|(filter, _, why)| [*filter, *why]));
        self.text_bytes += texts.map(str::len).sum::<usize>();
        let wanted = tally.wanted.into_iter().map(|wanted| {
            let filter = "";
            (wanted.filter.into(), Wanted { filter, ..wanted })
        });
        self.wanted.extend(wanted);
        let denied = tally.denied.into_iter();
        let denied = denied.map(|(filter, denial)| (filter.into(), denial.clone()));
        self.denied.extend(denied);
        let no_joins = tally.no_joins.into_iter();
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
        tally.text = &self.text;
        let wanted = self.wanted.iter();
        tally.wanted = wanted
            .map(|(filter, wanted)| Wanted { filter, ..*wanted })
            .collect();
        let denied = self.denied.iter();
        tally.denied = denied.map(|(filter, denial)| (&**filter, denial)).collect();
        let no_joins = self.no_joins.iter();
        tally.no_joins = no_joins
            .map(|(filter, reason, why)| (&**filter, *reason, &**why))
            .collect();
        tally
    }
}
