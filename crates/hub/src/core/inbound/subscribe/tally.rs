//! What has come of the elements of a SUBSCRIBE.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_mqtt::ReasonCode;

use super::permit::TOO_LONG;
use super::{AllWanted, Answer, Awaited, Denial, ROOM, ROOMS, Verdicts, Wanting, without_share};

/// What has come of the elements so far.
pub(super) struct Tally<'f> {
    pub(super) is_v5: bool,
    /// Whether there is no SUBACK that could tell, or one without reasons.
    pub(super) explains: bool,
    pub(super) reasons: SmallVec<[u8; 8]>,
    pub(super) wanted: AllWanted<'f>,
    /// Few have any.
    refusals: Option<Box<Refusals<'f>>>,
}

/// What is to be said of the elements that were refused.
#[derive(Default)]
pub(super) struct Refusals<'f> {
    /// One explanation for all of them: the first.
    pub(super) text: &'f str,
    /// The filter that it is about, if that is above a limit of topics.
    pub(super) too_long: Option<&'f str>,
    pub(super) denied: SmallVec<[(&'f str, &'f Denial); 2]>,
    pub(super) no_joins: Vec<(&'f str, ReasonCode, &'f str)>,
}

impl<'f> Tally<'f> {
    pub(super) fn new(is_v5: bool, awaited: Option<Awaited>) -> Self {
        Self {
            is_v5,
            explains: !is_v5 || awaited.is_none(),
            reasons: SmallVec::new(),
            wanted: AllWanted::new(),
            refusals: None,
        }
    }

    /// Whether no element was refused.
    pub(super) const fn is_all_granted(&self) -> bool {
        self.refusals.is_none()
    }

    pub(super) fn refusals(&mut self) -> &mut Refusals<'f> {
        self.refusals.get_or_insert_default()
    }

    /// Notes what is to be said of an element that was refused.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        wanting: &Wanting<'f>,
        (reason, why): Answer<'f>,
        verdicts: &Verdicts,
    ) {
        let explains = self.explains;
        let refusals = self.refusals();
        if let Some(denial) = wanting.denial {
            refusals.denied.push((wanting.filter, denial));
        } else if explains {
            let filter = without_share(wanting.filter);
            let room = filter.strip_prefix(ROOMS);
            let room = room.or_else(|| (filter == ROOM).then_some(""));
            // The answer of the zone's home goes with the room that it was asked for.
            let is_told = |room: &str| {
                let verdict = room.split('/').next().and_then(|room| verdicts.get(room));
                verdict.is_some_and(Option::is_some)
            };
            if room.is_some_and(|room| !is_told(room)) {
                refusals.no_joins.push((filter, reason, why));
            }
        }
        if refusals.text.is_empty() {
            refusals.text = why;
            refusals.too_long = (why == TOO_LONG).then(|| without_share(wanting.filter));
        }
    }

    /// Goes on with what was kept of refusals.
    pub(super) fn with_refusals(self, refusals: Refusals<'f>) -> Self {
        Self {
            refusals: Some(Box::new(refusals)),
            ..self
        }
    }

    /// The elements that are granted, and what is to be said of the others.
    pub(super) fn into_parts(self) -> (AllWanted<'f>, Option<Box<Refusals<'f>>>) {
        (self.wanted, self.refusals)
    }
}
