//! What is in the way on the subscriber's side.

use stentor_hub::Granted;
use stentor_mqtt::QoS;
use stentor_session::Tick;

use super::publisher::paused;
use super::queue::{lost, policy, recent, told, waiting};
use super::way::Way;
use super::{Check, Party, Session, State, permitted, with_right_remedy};

/// What is asked about a subscriber.
pub(super) struct Question<'q> {
    /// The publisher, if it is about the messages of one client.
    pub(super) publisher: Option<&'q Party>,
    /// The topic that they are published to.
    pub(super) topic: &'q str,
    pub(super) way: &'q Way<'q>,
    /// The size of the topic's retained message.
    pub(super) holds: Option<usize>,
    pub(super) now: Tick,
}

impl Question<'_> {
    /// The name of the publisher's user.
    fn name(&self) -> Option<&str> {
        self.publisher.and_then(Party::name)
    }

    /// Whether the subscriber is the publisher itself.
    fn is_own(&self, party: &Party) -> bool {
        let same = |one: &Party| one.zone == party.zone && one.client_id == party.client_id;
        self.publisher.is_some_and(same)
    }
}

/// What was looked at, in the order in which a message passes it.
pub(super) fn checks(party: &Party, question: &Question<'_>) -> Vec<Check> {
    let (now, way) = (question.now, question.way);
    // In a zone's own topics nothing is stored, or its rooms do that.
    let retained = || way.is_usual().then(|| retained(question.holds));
    let Some(session) = &party.session else {
        let what = format!("has no session {}: nothing is kept for it", party.place());
        let text = party.missing(&what) + &party.ended(now);
        let remedy = "connect it; for what it misses while it is away, without clean start and \
                      with a session expiry; `stentor clients ls` lists who is there";
        let check = Check::new("connected", State::Bad, text).with_remedy(remedy);
        return [check].into_iter().chain(retained()).collect();
    };
    let info = &session.entry.info;
    let mut checks = vec![connected(party, session, now)];
    // Otherwise the publisher's side has it.
    if question.publisher.is_none_or(|from| from.session.is_none()) {
        checks.extend(above_limit(session));
    }
    checks.extend(way.recipient(party));
    checks.push(subscribed(party, session, question));
    checks.push(receive(party, session, question));
    checks.push(policy(session));
    checks.push(waiting(party, session));
    checks.extend(paused(session, now));
    if info.tally.withheld.total() > 0 {
        let text = told(&info.tally.withheld, now);
        let text = format!("{text}, of any topic: it has no right to receive them");
        let state = recent(&info.tally.withheld, now, State::Note);
        checks.push(Check::new("withheld", state, text));
    }
    checks.extend(lost(session, now));
    if info.tally.conflated.total() > 0 {
        let text = told(&info.tally.conflated, now);
        let why = "as a [[policy]] or a max-rate of its subscriptions says";
        let text = format!("{text}, replaced by newer ones of their topics, {why}");
        checks.push(Check::new("conflated", State::Good, text));
    }
    checks.extend(retained());
    checks
}

fn connected(party: &Party, session: &Session, now: Tick) -> Check {
    let info = &session.entry.info;
    if session.queue().is_some() {
        let text = "it is a queue: messages of QoS 1 and 2 wait in it until a member takes them";
        return Check::new("connected", State::Good, text);
    }
    let Some(connection) = &info.connection else {
        let is_owed = session.most_qos() != QoS::AtMostOnce;
        let text = match is_owed {
            true => "no, it is away: messages of QoS 1 and 2 wait for it, those of QoS 0 do not",
            false => "it is away, and messages of QoS 0 do not wait for anybody",
        };
        let state = if is_owed || session.matching.is_empty() {
            State::Note
        } else {
            State::Bad
        };
        let check = Check::new("connected", state, format!("{text}{}", party.ended(now)));
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

fn subscribed(party: &Party, session: &Session, question: &Question<'_>) -> Check {
    let what = "subscribed";
    let topic = question.way.shown(question.topic, question.name());
    if session.matching.is_empty() {
        let text = match session.entry.info.subscriptions {
            0 => "it has no subscription".to_owned(),
            1 => format!("its one subscription does not match {topic}"),
            count => format!("none of its {count} subscriptions matches {topic}"),
        };
        let wanted = match question.way {
            Way::Usual => format!("{topic}, or to a filter that matches that"),
            Way::Private { .. } => "$private/from/+".to_owned(),
            Way::Said { room } => format!("$room/{room}/#, which joins the room"),
        };
        let remedy =
            format!("let it subscribe to {wanted}; `stentor clients show` lists its filters");
        return Check::new(what, State::Bad, text).with_remedy(remedy);
    }
    let filters = session.matching.iter().take(FILTERS_SHOWN);
    let mut text = filters.map(by).collect::<Vec<_>>().join(", ");
    let more = session.matching.len().saturating_sub(FILTERS_SHOWN);
    if more > 0 {
        text += &format!(", and by {more} more");
    }
    if !question.way.is_usual() {
        text += &format!("; the messages arrive as {topic}");
    }
    if question.is_own(party) && session.matching.iter().all(|one| one.no_local) {
        text += ": no-local keeps from it what it publishes itself";
        let remedy = "let it subscribe without no-local; subscriptions of a mosquitto bridge \
                      always have it";
        return Check::new(what, State::Bad, text).with_remedy(remedy);
    }
    let is_shared = |one: &Granted| one.filter.starts_with("$share/");
    match session.matching.iter().all(is_shared) {
        true => {
            text += ": each message goes to one member of the group, which may be another one";
            Check::new(what, State::Note, text)
        }
        false => Check::new(what, State::Good, text),
    }
}

/// `by a/# with QoS 1, no-local`.
fn by(granted: &Granted) -> String {
    let mut text = format!("by {} with QoS {}", granted.filter, granted.qos as u8);
    if granted.no_local {
        text += ", no-local";
    }
    if let Some(interval) = granted.interval {
        text += &format!(", max-rate: at most one message of a topic in {interval:?}");
    }
    text
}

/// Filters that are named.
const FILTERS_SHOWN: usize = 3;

/// Whether it may receive the topic.
fn receive(party: &Party, session: &Session, question: &Question<'_>) -> Check {
    let topic = &*question.way.arrives(question.topic, question.name());
    let delivering = &session.delivering;
    // Its subscriptions are permitted in full, whatever the topic is called inside.
    let is_full = !delivering.is_filtered && !session.matching.is_empty();
    let may = is_full || delivering.rights.may_receive(topic);
    let check = permitted("may receive", may, &delivering.rights, |login_record| {
        login_record.holder().explain_receive(topic)
    });
    match may {
        true => check,
        false => with_right_remedy(check, party, "subscribe", topic),
    }
}

fn retained(holds: Option<usize>) -> Check {
    let text = match holds {
        Some(bytes) => format!("the topic holds a message of {bytes} bytes for late subscribers"),
        None => "nothing: a late subscriber gets the next message first".to_owned(),
    };
    Check::new("retained", State::Good, text)
}

/// A topic that is above a limit of topics: no message of it comes in.
pub(super) fn above_limit(session: &Session) -> Option<Check> {
    let limit = session.delivering.above_limit.as_deref()?;
    let check = Check::new(
        "topic",
        State::Bad,
        format!("every publish is refused: {limit}"),
    );
    Some(check.with_remedy("use a shorter topic, or raise the limit"))
}
