//! What is in the way on the publisher's side.

use std::borrow::Cow;

use stentor_session::Tick;
use stentor_zone::{Address, NotAddress};

use super::{Check, Party, State, permitted, with_right_remedy};

/// What was looked at, in the order in which a message passes it.
pub(super) fn checks(party: &Party, to: &Party, topic: &str, now: Tick) -> Vec<Check> {
    let mut checks = Vec::new();
    let Some(session) = &party.session else {
        let text = party.missing(&format!("is not connected {}", party.place()));
        let remedy = "connect it; `stentor clients ls` lists who is there";
        checks.push(Check::new("publisher", State::Bad, text).with_remedy(remedy));
        return checks;
    };
    let Some(connection) = &session.entry.info.connection else {
        let text = format!("{:?} is away, and publishes nothing", party.client_id);
        checks.push(Check::new("publisher", State::Bad, text).with_remedy("connect it"));
        return checks;
    };
    let text = format!("{:?} is connected", party.client_id);
    checks.push(Check::new("publisher", State::Good, text));
    if party.zone != to.zone && to.session.is_some() {
        let text = format!(
            "{:?} is in the zone {}, {:?} in {}: no message passes from one zone to another",
            party.client_id, party.zone_name, to.client_id, to.zone_name
        );
        let remedy = "let both log in to the same zone";
        checks.push(Check::new("zone", State::Bad, text).with_remedy(remedy));
    }
    checks.push(publish(party, session, topic));
    if let Some(pause) = connection.paused_until.filter(|(until, _)| *until > now) {
        checks.push(paused("is read", pause, now));
    }
    let refused = &session.entry.info.tally.refused;
    if let Some(last) = refused.last() {
        let ago = now.since(last).as_secs();
        let text = format!(
            "{} of its messages had no right to be published, the last {ago} s ago; MQTT 3 clients \
             are not told",
            refused.total()
        );
        checks.push(Check::new("refused", State::Note, text));
    }
    checks
}

/// Whether it may publish.
fn publish(party: &Party, session: &super::Session, topic: &str) -> Check {
    let asked = match Address::parse(topic) {
        Ok(address) => address.right(topic),
        Err(NotAddress::Elsewhere) => Cow::Borrowed(topic),
        Err(never) => return Check::new("may publish", State::Bad, never.text()),
    };
    let rights = &session.delivering.rights;
    let may = rights.may_publish(&asked);
    let check = permitted("may publish", may, rights, |standing| {
        standing.holder().explain_publish(&asked)
    });
    match may {
        true => check,
        false => with_right_remedy(check, party, "publish", topic),
    }
}

/// Nothing is read from a client for a while.
pub(super) fn paused(
    what: &'static str,
    (until, cause): (Tick, stentor_hub::PauseCause),
    now: Tick,
) -> Check {
    use stentor_hub::PauseCause as By;
    let millis = until.since(now).as_millis();
    let (text, remedy) = match cause {
        By::MessagesPerSec | By::BytesPerSec => (
            format!(
                "not for another {millis} ms: it publishes more than the quota {} of its roles allows",
                cause.label()
            ),
            "let it publish less, or raise the quota: `stentor role change ROLE --messages-per-sec N`, \
             `--bytes-per-sec N`",
        ),
        By::RoomCommands => (
            format!("not for another {millis} ms: it has given many commands about rooms"),
            "give fewer commands",
        ),
        By::Work => (
            format!("not for another {millis} ms: what it did was dear for the server"),
            "docs/limits.md says what is dear",
        ),
    };
    Check::new(what, State::Note, text).with_remedy(remedy)
}
