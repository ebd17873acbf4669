//! The rights that exist before they can be configured.

use stentor_hub::Rights;

/// The rights of every added user and of anonymous clients: everything outside `$…`, and of that
/// the server's figures to read and a bridge's state to write.
#[derive(Clone, Copy, Debug)]
pub struct Member;

/// All rights, administration included.
#[derive(Clone, Copy, Debug)]
pub struct Admin;

impl Rights for Member {
    fn may_publish(&self, topic: &str) -> bool {
        !topic.starts_with('$') || is_bridge_state(topic)
    }

    fn may_subscribe(&self, filter: &str) -> bool {
        !filter.starts_with('$') || filter == "$SYS" || filter.starts_with("$SYS/")
    }
}

impl Rights for Admin {
    fn may_publish(&self, _topic: &str) -> bool {
        true
    }

    fn may_subscribe(&self, _filter: &str) -> bool {
        true
    }
}

/// `$SYS/broker/connection/<id>/state`, with which a mosquitto bridge tells that it is connected.
/// The id may be `<client id>` or `<host>.<name>`, but never several levels.
fn is_bridge_state(topic: &str) -> bool {
    topic
        .strip_prefix("$SYS/broker/connection/")
        .and_then(|rest| rest.strip_suffix("/state"))
        .is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_publish_outside_the_dollar() {
        for (topic, allowed) in [
            ("a/b", true),
            ("", true),
            ("a/$b", true),
            ("$SYS/broker/uptime", false),
            ("$SYS/broker/connection/host.bridge/state", true),
            ("$SYS/broker/connection//state", false),
            ("$SYS/broker/connection/a/b/state", false),
            ("$SYS/broker/connection/state", false),
            ("$SYS/broker/connection/a/state/x", false),
            ("$share/g/t", false),
            ("$anything", false),
        ] {
            assert_eq!(Member.may_publish(topic), allowed, "{topic}");
            assert!(Admin.may_publish(topic));
        }
    }

    #[test]
    fn members_subscribe_outside_the_dollar_and_to_figures() {
        for (filter, allowed) in [
            ("#", true),
            ("+/a", true),
            ("$SYS/#", true),
            ("$SYS", true),
            ("$SYSTEM/#", false),
            ("$private/from/+", false),
            ("$+/a", false),
        ] {
            assert_eq!(Member.may_subscribe(filter), allowed, "{filter}");
            assert!(Admin.may_subscribe(filter));
        }
    }
}
