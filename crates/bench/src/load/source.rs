//! The topic on which a client's message comes back.

/// Where messages of numbered clients arrive: one topic for all, or one for each, which ends with
/// the client's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// All come on this topic.
    Shared(String),
    /// Each comes on this topic with its client's number behind it.
    Numbered(String),
}

impl Source {
    /// Whether this is the topic of that client's messages. No allocation.
    pub(crate) fn is(&self, topic: &[u8], client: u32) -> bool {
        match self {
            Self::Shared(all) => topic == all.as_bytes(),
            Self::Numbered(start) => {
                let number = topic.strip_prefix(start.as_bytes());
                number.is_some_and(|number| is_decimal(number, client))
            }
        }
    }
}

/// Whether these digits are the number's, as it is printed.
fn is_decimal(digits: &[u8], mut number: u32) -> bool {
    let mut places = digits.iter().rev();
    loop {
        // A digit is below ten.
        if places.next() != Some(&(b'0' + (number % 10) as u8)) {
            return false;
        }
        number /= 10;
        if number == 0 {
            return places.next().is_none();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_writers_own_topic_is_right() {
        let each = Source::Numbered("$private/from/user-".into());
        for (topic, client, expected) in [
            ("$private/from/user-0", 0, true),
            ("$private/from/user-1203", 1_203, true),
            ("$private/from/user-4294967295", u32::MAX, true),
            ("$private/from/user-1203", 1_204, false),
            ("$private/from/user-01203", 1_203, false),
            ("$private/from/user-203", 1_203, false),
            ("$private/from/user-", 0, false),
            ("$private/from/user-+", 0, false),
            ("$private/to/user-7", 7, false),
            ("", 0, false),
        ] {
            assert_eq!(each.is(topic.as_bytes(), client), expected, "{topic}");
        }
        let all = Source::Shared("bench/say".into());
        assert!(all.is(b"bench/say", 3) && !all.is(b"bench/say/3", 3));
    }
}
