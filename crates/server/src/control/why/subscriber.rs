//! What is in the way on the subscriber's side.

use stentor_hub::{Count, Keep, LossCause, SlowPolicy, TopicPolicy};
use stentor_mqtt::QoS;
use stentor_session::Tick;

use super::publisher::paused;
use super::{Check, Party, Session, State, permitted, with_right_remedy};

/// What was looked at, in the order in which a message passes it. `holds` is the size of the
/// topic's retained message.
pub(super) fn checks(party: &Party, topic: &str, holds: Option<usize>, now: Tick) -> Vec<Check> {
    let Some(session) = &party.session else {
        let text = format!(
            "{:?} has no session in the zone {}: nothing is kept for it",
            party.client_id, party.zone_name
        );
        let remedy = "connect it; for what it misses while it is away, without clean start and \
                      with a session expiry; `stentor clients ls` lists who is there";
        let check = Check::new("connected", State::Bad, text).with_remedy(remedy);
        return [check].into_iter().chain(retained(holds)).collect();
    };
    let info = &session.entry.info;
    let mut checks = vec![
        connected(session, now),
        subscribed(session, topic),
        receive(party, session, topic),
        policy(session.delivering.policy.as_ref()),
        waiting(session),
    ];
    let pause = info
        .connection
        .and_then(|connection| connection.paused_until);
    if let Some(pause) = pause.filter(|(until, _)| *until > now) {
        checks.push(paused("is read", pause, now));
    }
    if info.tally.withheld.total() > 0 {
        let text = told(&info.tally.withheld, now);
        let text = format!("{text}, of any topic: it has no right to receive them");
        let state = recent(&info.tally.withheld, now, State::Note);
        checks.push(Check::new("withheld", state, text));
    }
    checks.extend(lost(session, now));
    if info.tally.conflated.total() > 0 {
        let text = told(&info.tally.conflated, now);
        let text = format!("{text}, replaced by newer ones of their topics, as was asked for");
        checks.push(Check::new("conflated", State::Good, text));
    }
    checks.extend(retained(holds));
    checks
}

fn connected(session: &Session, now: Tick) -> Check {
    let info = &session.entry.info;
    let Some(connection) = &info.connection else {
        let is_owed = session
            .matching
            .iter()
            .any(|(_, qos)| *qos != QoS::AtMostOnce);
        let text = match is_owed {
            true => "no, it is away: messages of QoS 1 and 2 wait for it, those of QoS 0 do not",
            false => "it is away, and messages of QoS 0 do not wait for anybody",
        };
        let state = if is_owed || session.matching.is_empty() {
            State::Note
        } else {
            State::Bad
        };
        let check = Check::new("connected", state, text);
        return check.with_remedy(match is_owed {
            true => "connect it",
            false => "connect it, or let it subscribe with QoS 1",
        });
    };
    let secs = now.since(connection.since).as_secs();
    let from = match &session.entry.origin {
        Some((peer, listener)) => format!(", from {peer} by {listener}"),
        None => String::new(),
    };
    Check::new("connected", State::Good, format!("for {secs} s{from}"))
}

fn subscribed(session: &Session, topic: &str) -> Check {
    let what = "subscribed";
    if session.matching.is_empty() {
        let text = match session.entry.info.subscriptions {
            0 => "it has no subscription".to_owned(),
            1 => format!("its one subscription does not match {topic}"),
            count => format!("none of its {count} subscriptions matches {topic}"),
        };
        let remedy = format!(
            "let it subscribe to {topic}, or to a filter that matches that; `stentor clients show` \
             lists its filters"
        );
        return Check::new(what, State::Bad, text).with_remedy(remedy);
    }
    let filters = session.matching.iter().take(FILTERS_SHOWN);
    let mut text = filters
        .map(|(filter, qos)| format!("by {filter} with QoS {}", *qos as u8))
        .collect::<Vec<_>>()
        .join(", ");
    let more = session.matching.len().saturating_sub(FILTERS_SHOWN);
    if more > 0 {
        text += &format!(", and by {more} more");
    }
    let is_shared = |(filter, _): &(std::sync::Arc<str>, QoS)| filter.starts_with("$share/");
    match session.matching.iter().all(is_shared) {
        true => {
            text += ": each message goes to one member of the group, which may be another one";
            Check::new(what, State::Note, text)
        }
        false => Check::new(what, State::Good, text),
    }
}

/// Filters that are named.
const FILTERS_SHOWN: usize = 3;

/// Whether it may receive the topic.
fn receive(party: &Party, session: &Session, topic: &str) -> Check {
    let delivering = &session.delivering;
    // Its subscriptions are permitted in full, whatever the topic is called inside.
    let is_full = !delivering.is_filtered && !session.matching.is_empty();
    let may = is_full || delivering.rights.may_receive(topic);
    let check = permitted("may receive", may, &delivering.rights, |standing| {
        standing.holder().explain_receive(topic)
    });
    match may {
        true => check,
        false => with_right_remedy(check, party, "subscribe", topic),
    }
}

fn policy(policy: Option<&TopicPolicy>) -> Check {
    let what = "policy";
    let Some(policy) = policy else {
        let text = "none matches: if it reads too slowly, messages of QoS 0 are dropped, and those \
                    of QoS 1 and 2 end its connection";
        return Check::new(what, State::Good, text);
    };
    let word = |policy: SlowPolicy| match policy {
        SlowPolicy::DropOldest => "the oldest are dropped",
        SlowPolicy::DropNewest => "the newest are dropped",
        SlowPolicy::Disconnect => "it is disconnected",
        SlowPolicy::Conflate => "it gets the newest of each topic",
    };
    let mut text = format!(
        "[[policy]] {:?}: if it reads too slowly, {} at QoS 0, and {} above",
        policy.filter,
        word(policy.qos0),
        word(policy.qos1)
    );
    if !policy.interval.is_zero() {
        text += &format!("; at most one message in {:?}", policy.interval);
    }
    if policy.keep == Keep::Last {
        text += "; every message is kept as the last of its topic";
    }
    Check::new(what, State::Good, text)
}

fn waiting(session: &Session) -> Check {
    let (info, delivering) = (&session.entry.info, &session.delivering);
    let (bytes, bytes_max) = delivering.queued_bytes;
    let (messages, messages_max) = delivering.queued_messages;
    let text = format!(
        "{messages} of {messages_max} messages, {bytes} of {bytes_max} bytes; {} not acknowledged",
        info.in_flight
    );
    let is_blocked = info
        .connection
        .is_some_and(|connection| connection.is_blocked);
    let what = "waiting";
    if messages >= messages_max || bytes >= bytes_max {
        let text = format!("its queue is full: {text}");
        let remedy = "let it come back or read faster, or raise `limits.queue_messages` or \
                      `limits.queue_bytes`";
        return Check::new(what, State::Bad, text).with_remedy(remedy);
    }
    if is_blocked {
        let text = format!("it reads too slowly, its socket is full: {text}");
        let check = Check::new(what, State::Note, text);
        return check.with_remedy("see its network, and what it does with each message");
    }
    Check::new(what, State::Good, text)
}

fn lost(session: &Session, now: Tick) -> Option<Check> {
    let (tally, of_topic) = (&session.entry.info.tally, session.delivering.lost);
    if tally.lost.total() == 0 && of_topic == 0 {
        return None;
    }
    let cause = tally.lost_by.map_or("an earlier session", LossCause::label);
    let text = format!(
        "{}, {of_topic} of this topic since the server started; the last cause: {cause}",
        told(&tally.lost, now)
    );
    let check = Check::new("lost", recent(&tally.lost, now, State::Note), text);
    Some(match tally.lost_by {
        Some(LossCause::DropNewest | LossCause::DropOldest) => check.with_remedy(
            "its queue was full: let it read faster, raise `limits.queue_messages` or \
             `limits.queue_bytes`, or give the topic a [[policy]] that conflates",
        ),
        Some(LossCause::Disconnect) => {
            check.with_remedy("it reads too slowly, and its [[policy]] is to disconnect")
        }
        Some(LossCause::PacketTooLarge) => {
            check.with_remedy("let it allow larger packets (maximum packet size in its CONNECT)")
        }
        Some(LossCause::Expired) => {
            check.with_remedy("let them expire later, or let it read sooner")
        }
        _ => check,
    })
}

fn retained(holds: Option<usize>) -> Option<Check> {
    let text = match holds {
        Some(bytes) => format!("the topic holds a message of {bytes} bytes for late subscribers"),
        None => "nothing: a late subscriber gets the next message first".to_owned(),
    };
    Some(Check::new("retained", State::Good, text))
}

/// Something that went wrong before counts if it was lately.
fn recent(count: &Count, now: Tick, state: State) -> State {
    match count.lately(now) {
        0 => State::Good,
        _ => state,
    }
}

/// `12, 3 of them in the last minute`.
fn told(count: &Count, now: Tick) -> String {
    match (count.total(), count.lately(now)) {
        (total, 0) => format!("{total}, none in the last minute"),
        (total, lately) => format!("{total}, {lately} of them in the last minute"),
    }
}
