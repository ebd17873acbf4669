//! The filter of a SUBSCRIBE, taken apart.

use crate::name::{FilterError, TOPIC_BYTES_MAX, validate_filter};

/// What a client asks for: a topic filter, perhaps as a member of a share group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subscription<'a> {
    /// The group of a shared subscription, `None` for an ordinary one.
    pub share: Option<&'a str>,
    /// The validated filter that names are matched with, without `$share/<group>/`.
    pub filter: &'a str,
}

/// How the filters of shared subscriptions begin.
const SHARE: &str = "$share/";

/// The same for those of a queue, which keeps messages while it has no member.
const QUEUE: &str = "$queue/";

/// Whether a filter of a SUBSCRIBE is one of a shared subscription, as far as its beginning tells.
#[must_use]
pub fn is_shared(text: &str) -> bool {
    text.starts_with(SHARE) || asks_for_queue(text)
}

/// Whether a filter of a SUBSCRIBE asks for a shared subscription that is a queue.
#[must_use]
pub fn asks_for_queue(text: &str) -> bool {
    text.starts_with(QUEUE)
}

impl<'a> Subscription<'a> {
    /// Splits and checks the filter of a SUBSCRIBE or UNSUBSCRIBE.
    ///
    /// `$share/<group>/<filter>` is a shared subscription: the group has at least one character, no
    /// wildcard, and is followed by a filter [MQTT-4.8.2-1] [MQTT-4.8.2-2]. Anything else is an
    /// ordinary filter, `$share` alone and `$shared/x` included. The length limit counts the whole
    /// text.
    ///
    /// `$queue/<group>/<filter>` is the same shared subscription as `$share/<group>/<filter>`. It
    /// also says that the group has to be a queue: see [`asks_for_queue`].
    ///
    /// # Errors
    /// The first rule that the text breaks, see [`FilterError`].
    pub fn parse(text: &'a str) -> Result<Self, FilterError> {
        let shared = text.strip_prefix(SHARE);
        let Some(shared) = shared.or_else(|| text.strip_prefix(QUEUE)) else {
            validate_filter(text)?;
            return Ok(Self {
                share: None,
                filter: text,
            });
        };
        if text.len() > TOPIC_BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        let (group, filter) = match shared.split_once('/') {
            Some((group, filter)) => (group, Some(filter)),
            None => (shared, None),
        };
        if group.is_empty() {
            return Err(FilterError::ShareNameEmpty);
        }
        if group.contains(['+', '#']) {
            return Err(FilterError::ShareNameWildcard);
        }
        if group.contains('\0') {
            return Err(FilterError::Nul);
        }
        match filter {
            None | Some("") => Err(FilterError::ShareFilterMissing),
            Some(filter) => {
                validate_filter(filter)?;
                Ok(Self {
                    share: Some(group),
                    filter,
                })
            }
        }
    }
}
