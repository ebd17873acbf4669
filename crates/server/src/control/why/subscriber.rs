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
        let what = format!("has no session {}: nothing is kept for it", party.place());
        let text = party.missing(&what);
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
        waiting(party, session),
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

/// Which bound of its queue a session has reached: what it holds and may, and what raises that.
fn full(session: &Session) -> Option<(String, String)> {
    let delivering = &session.delivering;
    let (bytes, bytes_max) = delivering.queued_bytes;
    let (messages, messages_max) = delivering.queued_messages;
    if messages >= messages_max {
        let text = format!("{messages} messages wait for it, and {messages_max} may");
        return Some((text, "raise `limits.queue_messages`".to_owned()));
    }
    if bytes < bytes_max {
        return None;
    }
    let text = format!("{} wait for it, and {} may", size(bytes), size(bytes_max));
    let own = delivering.rights.quotas().queued_bytes;
    let is_own = own.and_then(|own| usize::try_from(own).ok()) == Some(bytes_max);
    let raise = match is_own {
        true => {
            "raise the quota of its roles: `stentor role change ROLE --queued-bytes N`".to_owned()
        }
        false => "raise `limits.queue_bytes`".to_owned(),
    };
    Some((text, raise))
}

/// `1.5 MiB`.
fn size(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes as f64, None);
    for next in UNITS {
        if size < 1_024.0 {
            break;
        }
        (size, unit) = (size / 1_024.0, Some(next));
    }
    match unit {
        Some(unit) => format!("{size:.1} {unit}"),
        None => format!("{bytes} B"),
    }
}

/// What a loss is called, and what it is in words.
fn cause(cause: LossCause) -> String {
    let words = match cause {
        LossCause::DropNewest => "its queue was full, so the newest message was dropped",
        LossCause::DropOldest => "its queue was full, so the oldest message was dropped",
        LossCause::Disconnect => "its queue was full, so it was disconnected",
        LossCause::PacketTooLarge => "the message was larger than it takes",
        LossCause::Expired => "the message expired while it waited",
        LossCause::Conflated | LossCause::NotKept => return cause.label().to_owned(),
    };
    format!("{words} ({})", cause.label())
}

fn waiting(party: &Party, session: &Session) -> Check {
    let (info, delivering) = (&session.entry.info, &session.delivering);
    let (bytes, bytes_max) = delivering.queued_bytes;
    let (messages, messages_max) = delivering.queued_messages;
    let text = format!(
        "{messages} of {messages_max} messages, {} of {}; {} not acknowledged",
        size(bytes),
        size(bytes_max),
        info.in_flight
    );
    let is_blocked = info
        .connection
        .is_some_and(|connection| connection.is_blocked);
    let what = "waiting";
    if let Some((held, raise)) = full(session) {
        let then = match &info.connection {
            Some(_) => "its policy decides what becomes of the next one",
            None => "the next one is dropped (drop-newest)",
        };
        let text = format!("its queue is full: {held}; {then}");
        let remedy = format!("let it come back or read faster, or {raise}");
        return Check::new(what, State::Bad, text).with_remedy(remedy);
    }
    if is_blocked {
        let text = format!("it reads too slowly, its socket is full: {text}");
        let check = Check::new(what, State::Note, text);
        return check.with_remedy("see its network, and what it does with each message");
    }
    if let Some(silent) = party.silent {
        let secs = silent.as_secs().max(1);
        let text = format!("{text}, and nothing has come from it for {secs} s");
        let remedy = "the client has to acknowledge each message of QoS 1 and 2: see whether it \
                      hangs; `stentor clients kick` makes it connect again";
        return Check::new(what, State::Note, text).with_remedy(remedy);
    }
    Check::new(what, State::Good, text)
}

fn lost(session: &Session, now: Tick) -> Option<Check> {
    let (tally, of_topic) = (&session.entry.info.tally, session.delivering.lost);
    if tally.lost.total() == 0 && of_topic == 0 {
        return None;
    }
    let why = tally
        .lost_by
        .map_or_else(|| "it was an earlier session".to_owned(), cause);
    let text = format!(
        "{}, {of_topic} of this topic since the server started; the last time, {why}",
        told(&tally.lost, now)
    );
    let raise = match full(session) {
        Some((_, raise)) => raise,
        None => {
            let (messages, bytes) = (
                session.delivering.queued_messages.1,
                session.delivering.queued_bytes.1,
            );
            format!(
                "raise the bound that it met: `limits.queue_messages` ({messages}) or \
                 `limits.queue_bytes` ({})",
                size(bytes)
            )
        }
    };
    let check = Check::new("lost", recent(&tally.lost, now, State::Note), text);
    Some(match tally.lost_by {
        Some(LossCause::DropNewest | LossCause::DropOldest) => check.with_remedy(format!(
            "let it read faster, {raise}, or give the topic a [[policy]] that conflates"
        )),
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
