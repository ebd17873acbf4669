//! What is in the way on the publisher's side.

use std::borrow::Cow;

use stentor_auth::model::Quotas;
use stentor_hub::{Count, PauseCause};
use stentor_session::Tick;
use stentor_zone::{Address, NotAddress};

use super::subscriber::above_limit;
use super::way::Way;
use super::{Check, Party, Session, State, login_record, permitted, with_right_remedy};

/// What was looked at, in the order in which a message passes it.
pub(super) fn checks(
    party: &Party,
    to: &Party,
    topic: &str,
    way: &Way<'_>,
    now: Tick,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let Some(session) = &party.session else {
        let text =
            party.missing(&format!("is not connected {}", party.place())) + &party.ended(now);
        let remedy = "connect it; `stentor clients ls` lists who is there";
        checks.push(Check::new("publisher", State::Bad, text).with_remedy(remedy));
        return checks;
    };
    if session.entry.info.connection.is_none() {
        let ended = party.ended(now);
        let text = format!(
            "{:?} is away, and publishes nothing{ended}",
            party.client_id
        );
        checks.push(Check::new("publisher", State::Bad, text).with_remedy("connect it"));
        return checks;
    }
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
    checks.extend(above_limit(session));
    checks.push(publish(party, session, topic));
    checks.extend(way.sender(party));
    checks.extend(paused(session, now));
    let tally = &session.entry.info.tally;
    checks.extend(refused(
        &tally.refused,
        "it had no right to publish them",
        now,
    ));
    let limit = "limits.topic_bytes or limits.topic_levels";
    let why = format!("their topics were above {limit}");
    checks.extend(refused(&tally.topics_refused, &why, now));
    checks
}

/// Messages of the publisher that were refused, for one reason.
fn refused(count: &Count, why: &str, now: Tick) -> Option<Check> {
    let ago = now.since(count.last()?).as_secs();
    let text = format!(
        "{} of its messages were refused, because {why}; the last {ago} s ago; MQTT 3 clients are \
         not told",
        count.total()
    );
    Some(Check::new("refused", State::Note, text))
}

/// Whether it may publish.
fn publish(party: &Party, session: &Session, topic: &str) -> Check {
    let asked = match Address::parse(topic) {
        Ok(address) => address.right(topic),
        Err(NotAddress::Elsewhere) => Cow::Borrowed(topic),
        Err(never) => return Check::new("may publish", State::Bad, never.text()),
    };
    let rights = &session.delivering.rights;
    let may = rights.may_publish(&asked);
    let check = permitted("may publish", may, rights, |login_record| {
        login_record.holder().explain_publish(&asked)
    });
    match may {
        true => check,
        false => with_right_remedy(check, party, "publish", topic),
    }
}

/// Nothing is read from a client for a while, or was not in the last minute.
pub(super) fn paused(session: &Session, now: Tick) -> Option<Check> {
    let tally = &session.entry.info.tally;
    let connection = session.entry.info.connection.as_ref();
    let pause = connection.and_then(|connection| connection.paused_until);
    let pause = pause.filter(|(until, _)| *until > now);
    let lately = tally.paused.lately(now);
    let times = if lately == 1 { "time" } else { "times" };
    let (mut text, cause) = match (pause, tally.paused.last(), tally.paused_by) {
        (Some((until, cause)), _, _) => {
            let millis = until.since(now).as_millis();
            (format!("not for another {millis} ms"), cause)
        }
        (None, Some(last), Some(cause)) if lately > 0 => {
            let ago = now.since(last).as_secs();
            let text = format!(
                "yes, but it was paused {lately} {times} in the last minute, the last time {ago} s \
                 ago"
            );
            (text, cause)
        }
        _ => return None,
    };
    let (why, remedy) = match cause {
        PauseCause::MessagesPerSec | PauseCause::BytesPerSec => quota(session, cause),
        PauseCause::RoomCommands => (
            "since it has given many commands about rooms".to_owned(),
            "give fewer commands".to_owned(),
        ),
        PauseCause::Work => (
            "since what it did was expensive for the server".to_owned(),
            "docs/limits.md says what is expensive".to_owned(),
        ),
    };
    text += &format!(", {why}");
    if pause.is_some() && lately > 1 {
        text += &format!("; it was paused {lately} {times} in the last minute");
    }
    let check = Check::new("is read", State::Note, text).with_remedy(remedy);
    Some(check.with_lead("but late (is read)"))
}

/// The quota by which a client is paused with the role that sets it, and what raises it.
fn quota(session: &Session, cause: PauseCause) -> (String, String) {
    let name = cause.label();
    let option = name.replace('_', "-");
    let of_cause = |quotas: &Quotas| match cause {
        PauseCause::MessagesPerSec => quotas.messages_per_sec.map(u64::from),
        _ => quotas.bytes_per_sec,
    };
    let less = "let it publish less, or raise the quota";
    match sets(session, of_cause) {
        Some((role, most)) => {
            let twice = most.saturating_mul(2);
            (
                format!("by the quota {name} of role {role} ({most}/s)"),
                format!("{less}: `stentor role change {role} --{option} {twice}`"),
            )
        }
        None => (
            format!("by the quota {name} of its roles"),
            format!("{less}: `stentor role change ROLE --{option} N`"),
        ),
    }
}

/// The role that sets a quota of a client, and how high.
pub(super) fn sets(
    session: &Session,
    quota: impl Fn(&Quotas) -> Option<u64>,
) -> Option<(String, u64)> {
    let login_record = login_record(&session.delivering.rights)?;
    let (role, most) = login_record.holder().grant().sets(quota)?;
    Some((role.name.to_string(), most))
}
