//! The owner of a client id.

use stentor_session::{CloseReason, Denied};
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::sessions::connect::is_assigned;
use crate::core::sessions::registry::{Session, Sessions};
use crate::core::sessions::rights::Identity;
use crate::core::settings::ClientIdBinding;

impl Sessions {
    /// Whether somebody else is connected with a client id, or has a session there while this one
    /// has none. Where several have sessions from before the ids were bound, whoever is connected
    /// keeps the others out.
    fn is_of_another(&self, zone: Zone, client_id: &str, identity: &Identity) -> bool {
        let mut has_own = false;
        let mut others = false;
        for (_, session) in self.all(zone, client_id) {
            match (is_same(session, client_id, identity), session.live()) {
                (true, _) => has_own = true,
                (false, Some(_)) => return true,
                (false, None) => others = true,
            }
        }
        others && !has_own
    }
}

/// Whether a client may come with the client id that it gives. O(sessions of that client id).
pub(in crate::core) fn may_be_called(
    core: &Core,
    client_id: &str,
    identity: &Identity,
) -> Result<(), CloseReason> {
    let binding = core.rules.settings.client_id_binding;
    // The id that the server is going to make up is nobody's.
    let is_free = binding == ClientIdBinding::None || client_id.is_empty();
    if is_free || identity.rights.is_operator() {
        return Ok(());
    }
    // A guest has a name that it has not chosen and did not know before.
    let named = identity
        .user
        .as_deref()
        .filter(|_| identity.guest.is_none());
    let is_its_own = match (binding, named) {
        (ClientIdBinding::UserPrefix, Some(user)) if !is_assigned(client_id) => {
            begins_with_user(client_id, user)
        }
        _ => !core
            .sessions
            .is_of_another(identity.zone, client_id, identity),
    };
    match is_its_own {
        true => Ok(()),
        false => Err(CloseReason::Denied(Denied::ForeignClientId)),
    }
}

/// Whether a session belongs to who comes. A guest proves nothing: it is the one who comes from the
/// same address, or who knows an id that nobody can guess. All anonymous clients are one.
fn is_same(session: &Session, client_id: &str, identity: &Identity) -> bool {
    let (known, new) = (session.state.identity().guest, identity.guest);
    match (known, new) {
        (Some(_), Some(_)) => known == new || is_assigned(client_id),
        (None, None) => session.state.user() == identity.user.as_deref(),
        _ => false,
    }
}

/// Whether a client id is a user's name, or begins with it and a sign that ends it.
fn begins_with_user(client_id: &str, user: &str) -> bool {
    let rest = client_id.strip_prefix(user);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/', ':', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_begins_with_the_name_of_its_user() {
        for (client_id, is_anns) in [
            ("ann", true),
            ("ann-phone", true),
            ("ann/phone", true),
            ("ann:1", true),
            ("ann.example", true),
            ("anna", false),
            ("ann_phone", false),
            ("phone-ann", false),
            ("an", false),
            ("Ann-phone", false),
        ] {
            assert_eq!(begins_with_user(client_id, "ann"), is_anns, "{client_id}");
        }
    }
}
