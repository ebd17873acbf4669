//! What administrators do by MQTT, for the audit log.

use serde_json::json;
use stentor_auth::model::{DEFAULT_ZONE, login_name};
use stentor_auth::store::{Directory, Who};
use stentor_hub::{Event, Identity};

use super::journal::shown;

/// Notes what somebody has done who has the authority for it, or why it was refused.
pub(super) fn note_administered(directory: &Directory, event: &Event, zone: &str) {
    let Event::Administered {
        identity,
        what,
        target,
        user,
        refused,
    } = event
    else {
        return;
    };
    let mut detail = json!({});
    if zone != DEFAULT_ZONE {
        detail["zone"] = json!(zone);
    }
    if let Some(user) = user {
        detail["user"] = json!(shown(user));
    }
    if let Some(reason) = refused {
        detail["outcome"] = json!("refused");
        detail["reason"] = json!(reason);
    }
    directory.note(&who(identity, zone), what, &shown(target), detail);
}

/// The administrator, and the way that the message came.
fn who(identity: &Identity, zone: &str) -> Who {
    if identity.rights.is_operator() {
        return match identity.rights.operator_uid() {
            Some(uid) => Who::new(format!("uid {uid} by the control socket")),
            None => Who::new("the control socket"),
        };
    }
    let Some(user) = identity.user.as_deref() else {
        return Who::new("an anonymous client by MQTT");
    };
    Who::new(format!("{} by MQTT", shown(&login_name(zone, user))))
}
