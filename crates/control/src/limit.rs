//! How many entries of a list a request may want.

use crate::{Failure, Verb};

/// Entries of a list that are wanted at most, where the server can give them all at once.
const ENTRIES_MAX: usize = 1_000_000;

/// How many entries of a list a request may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// If nothing is said.
    pub usual: usize,
    /// At least.
    pub least: usize,
    /// At most.
    pub most: usize,
    /// The key that leads to the next page, if there are pages.
    pub next: Option<&'static str>,
}

impl Limit {
    /// How many are wanted.
    ///
    /// # Errors
    /// `bad-request` for fewer or more than possible: an answer with less than was asked for would
    /// look as if there were no more.
    pub fn of(self, asked: Option<usize>) -> Result<usize, Failure> {
        let Self { least, most, .. } = self;
        let asked = asked.unwrap_or(self.usual);
        if (least..=most).contains(&asked) {
            return Ok(asked);
        }
        let remedy = match self.next {
            Some(key) => format!("; the next page follows by `{key}`"),
            None => String::new(),
        };
        let message = format!("limit is {asked}, and has to be from {least} to {most}{remedy}");
        Err(Failure::new("bad-request", message).about("limit"))
    }
}

impl Verb {
    /// The bounds of the key `limit`, of verbs that have it.
    #[must_use]
    pub const fn limit(self) -> Option<Limit> {
        let (usual, least, most, next) = match self {
            Self::ClientsLs => (1_000, 0, ENTRIES_MAX, Some("cursor")),
            Self::Topics => (1_000, 0, ENTRIES_MAX, Some("offset")),
            Self::Events => (1_000, 0, ENTRIES_MAX, Some("after")),
            Self::Subscriptions => (1_000, 1, 10_000, Some("cursor")),
            Self::TopicsChildren | Self::UsersLs => (1_000, 1, 10_000, Some("after")),
            Self::RetainedHistory => (1_000, 1, 1_000, Some("ask")),
            Self::RoomsLs | Self::RoomsShow => (100, 1, 1_000, Some("after")),
            Self::SessionsQueue => (100, 1, 1_000, Some("cursor")),
            Self::TopicsHeaviest | Self::ClientsHeaviest => (20, 1, 1_000, None),
            _ => return None,
        };
        Some(Limit {
            usual,
            least,
            most,
            next,
        })
    }

    /// How many entries of a list a request of this verb wants.
    ///
    /// # Errors
    /// Those of [`Limit::of`].
    pub fn wanted(self, asked: Option<usize>) -> Result<usize, Failure> {
        match self.limit() {
            Some(limit) => limit.of(asked),
            None => Ok(asked.unwrap_or(ENTRIES_MAX)),
        }
    }
}

/// The first entry of a list that a request wants, and the one behind the last.
///
/// # Errors
/// Those of [`Limit::of`].
pub fn page(verb: Verb, asked: Option<usize>, offset: usize) -> Result<(usize, usize), Failure> {
    let limit = verb.wanted(asked)?;
    Ok((offset, offset.saturating_add(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schemas;

    #[test]
    fn what_is_asked_for_is_given_or_refused() {
        let wanted = |asked| Verb::RoomsLs.wanted(asked);
        assert_eq!(wanted(None), Ok(100));
        assert_eq!(wanted(Some(1_000)), Ok(1_000));
        for wrong in [0, 1_001, usize::MAX] {
            let failure = wanted(Some(wrong)).unwrap_err();
            assert_eq!(
                (failure.code, failure.field),
                ("bad-request", Some("limit"))
            );
            let told = format!("limit is {wrong}, and has to be from 1 to 1000; the next page");
            assert!(failure.message.starts_with(&told), "{}", failure.message);
        }
        let page = |limit| page(Verb::ClientsLs, limit, 5);
        assert_eq!(page(None), Ok((5, 1_005)));
        assert_eq!(page(Some(0)), Ok((5, 5)));
        assert_eq!(page(Some(ENTRIES_MAX)), Ok((5, ENTRIES_MAX + 5)));
        page(Some(ENTRIES_MAX + 1)).unwrap_err();
    }

    #[test]
    fn each_verb_with_such_a_key_has_its_bounds_and_leads_on_by_a_key_of_its_own() {
        for verb in Verb::ALL {
            let fields = Schemas::of(verb).fields();
            let has = |name: &str| fields.iter().any(|field| field.name == name);
            assert_eq!(verb.limit().is_some(), has("limit"), "{verb:?}");
            let next = verb.limit().and_then(|limit| limit.next);
            assert!(next.is_none_or(has), "{verb:?}");
        }
    }
}
