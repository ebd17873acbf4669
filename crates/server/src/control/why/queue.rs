//! The messages that wait for a subscriber, and what becomes of more than may.

use stentor_hub::{Count, Keep, LossCause, QueueBounds, SlowPolicy, TopicPolicy};
use stentor_mqtt::QoS;
use stentor_session::Tick;

use super::publisher::sets;
use super::{Check, Party, Session, State};

/// What becomes of the next message where the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Dropped,
    /// It is kept, and the oldest goes.
    DropsOldest,
    /// It is kept in the place of the one of its topic that waits.
    Replaces,
    /// It ends the connection.
    Disconnects,
}

impl Session {
    /// The most that messages come with.
    pub(super) fn most_qos(&self) -> QoS {
        let all = self.matching.iter().map(|one| one.qos);
        all.max().unwrap_or(QoS::AtMostOnce)
    }

    const fn is_away(&self) -> bool {
        self.entry.info.connection.is_none()
    }

    /// The policy that its messages meet.
    fn slow_policy(&self) -> SlowPolicy {
        let usual = TopicPolicy::default();
        let policy = self.delivering.policy.as_ref().unwrap_or(&usual);
        match self.most_qos() {
            QoS::AtMostOnce => policy.qos0,
            QoS::AtLeastOnce | QoS::ExactlyOnce => policy.qos1,
        }
    }

    /// The bounds of the queue that this is, if it is one.
    pub(super) fn queue(&self) -> Option<QueueBounds> {
        self.delivering.rights.queue()
    }

    /// Whether newer messages take the place of older ones that wait.
    fn conflates(&self) -> bool {
        let policy = self.delivering.policy.as_ref();
        let is_shared = |filter: &str| filter.starts_with("$share/");
        let all = &self.matching;
        let is_thinned = policy.is_some_and(|policy| !policy.interval.is_zero())
            || (!all.is_empty() && all.iter().all(|one| one.interval.is_some()));
        !all.iter().all(|one| is_shared(&one.filter))
            && (is_thinned || self.slow_policy() == SlowPolicy::Conflate)
    }

    fn next(&self) -> Next {
        match self.queue().map(|queue| queue.full) {
            Some(SlowPolicy::DropOldest) => return Next::DropsOldest,
            Some(_) => return Next::Dropped,
            None => {}
        }
        if self.conflates() && self.delivering.holds_topic {
            return Next::Replaces;
        }
        match self.slow_policy() {
            SlowPolicy::DropOldest if !self.conflates() => Next::DropsOldest,
            _ if self.is_away() => Next::Dropped,
            SlowPolicy::DropNewest => Next::Dropped,
            SlowPolicy::Disconnect | SlowPolicy::Conflate | SlowPolicy::DropOldest => {
                Next::Disconnects
            }
        }
    }
}

/// The policy of the topic: what happens when the client reads too slowly, or while it is away.
pub(super) fn policy(session: &Session) -> Check {
    let what = "policy";
    if let Some(queue) = session.queue() {
        let full = queue.full.label();
        let text = format!("none: it is a queue, and its [[queue]] has full = {full:?}");
        return Check::new(what, State::Good, text);
    }
    let Some(policy) = session.delivering.policy.as_ref() else {
        let text = match session.is_away() {
            true => {
                "none matches: while it is away and its queue is full, the newest messages are \
                 dropped"
            }
            false => {
                "none matches: if it reads too slowly, messages of QoS 0 are dropped, and those of \
                 QoS 1 and 2 end its connection"
            }
        };
        return Check::new(what, State::Good, text);
    };
    let filter = &policy.filter;
    let mut text = match session.is_away() {
        true => {
            let word = match policy.qos1 {
                SlowPolicy::DropOldest => "the oldest messages are dropped",
                SlowPolicy::DropNewest | SlowPolicy::Disconnect => {
                    "the newest messages are dropped"
                }
                SlowPolicy::Conflate => "the newest messages of new topics are dropped",
            };
            let conflates = match policy.qos1 {
                SlowPolicy::Conflate => "the newest of each topic waits; ",
                _ => "",
            };
            format!(
                "[[policy]] {filter:?}: {conflates}while it is away and its queue is full, {word} \
                 (qos1 = {:?})",
                policy.qos1.label()
            )
        }
        false => format!(
            "[[policy]] {filter:?}: if it reads too slowly, {} at QoS 0, and {} above",
            word(policy.qos0),
            word(policy.qos1)
        ),
    };
    if !policy.interval.is_zero() {
        text += &format!("; at most one message in {:?}", policy.interval);
    }
    text += match policy.keep {
        Keep::Retained => "",
        Keep::Last => "; every message is kept as the last of its topic",
        Keep::All => "; every message is kept as the last of its topic, and in its history",
    };
    Check::new(what, State::Good, text)
}

const fn word(policy: SlowPolicy) -> &'static str {
    match policy {
        SlowPolicy::DropOldest => "the oldest are dropped",
        SlowPolicy::DropNewest => "the newest are dropped",
        SlowPolicy::Disconnect => "it is disconnected",
        SlowPolicy::Conflate => "it gets the newest of each topic",
    }
}

/// Which bound of its queue a session has reached: what it holds and may, and what raises that.
fn full(session: &Session) -> Option<(String, String)> {
    let delivering = &session.delivering;
    let (bytes, bytes_max) = delivering.queued_bytes;
    let (messages, messages_max) = delivering.queued_messages;
    if messages >= messages_max {
        let text = format!("{messages} messages wait for it, and {messages_max} may");
        let raise = match session.queue() {
            Some(_) => "raise `messages` of its [[queue]]",
            None => "raise `limits.queue_messages`",
        };
        return Some((text, raise.to_owned()));
    }
    if bytes < bytes_max {
        return None;
    }
    let text = format!("{} wait for it, and {} may", size(bytes), size(bytes_max));
    let own = delivering.rights.quotas().queued_bytes;
    let is_own = own.and_then(|own| usize::try_from(own).ok()) == Some(bytes_max);
    let role = sets(session, |quotas| quotas.queued_bytes);
    let role = role.map_or_else(|| "ROLE".to_owned(), |(role, _)| role);
    let raise = match is_own {
        _ if session.queue().is_some() => "raise `bytes` of its [[queue]]".to_owned(),
        true => {
            format!("raise the quota of its roles: `stentor role change {role} --queued-bytes N`")
        }
        false if delivering.is_tightened => {
            "raise `limits.memory`: memory is short, so less may wait than `limits.queue_bytes`"
                .to_owned()
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
        LossCause::Unreadable => "it waited on the disk, and could not be read",
        LossCause::Conflated | LossCause::NotKept | LossCause::SessionEnded => {
            return cause.label().to_owned();
        }
    };
    format!("{words} ({})", cause.label())
}

/// The messages that wait for the client, and what is in their way.
pub(super) fn waiting(party: &Party, session: &Session) -> Check {
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
        return overfull(session, held, raise);
    }
    if is_blocked {
        let text = format!("it reads too slowly, its socket is full: {text}");
        let check = Check::new(what, State::Note, text).with_lead(LATE);
        return check.with_remedy("see its network, and what it does with each message");
    }
    let window = window(session);
    if let Some(silent) = party.silent {
        let secs = silent.as_secs().max(1);
        let mut text = format!("{text}, and nothing has come from it for {secs} s");
        if let Some((window, _)) = window {
            text += &format!("; {window}");
        }
        let remedy = "the client has to acknowledge each message of QoS 1 and 2: see whether it \
                      hangs; `stentor clients kick` makes it connect again";
        let check = Check::new(what, State::Note, text).with_remedy(remedy);
        return check.with_lead(LATE);
    }
    if let Some((window, remedy)) = window {
        let text = format!("{window} ({text})");
        let check = Check::new(what, State::Note, text).with_remedy(remedy);
        return check.with_lead(LATE);
    }
    Check::new(what, State::Good, text)
}

/// How the verdict leads to what waits.
const LATE: &str = "but late (waiting)";

/// A queue that is full, as the topic's policy takes it.
fn overfull(session: &Session, held: String, raise: String) -> Check {
    let what = "waiting";
    let (state, then) = match session.next() {
        Next::Dropped => (State::Bad, "the next one is dropped (drop-newest)"),
        Next::Disconnects => (State::Bad, "the next one ends its connection (disconnect)"),
        Next::DropsOldest => (
            State::Note,
            "the next one is kept, and the oldest is dropped for it (drop-oldest)",
        ),
        Next::Replaces => (
            State::Note,
            "the next one of this topic takes the place of the one that waits (conflate)",
        ),
    };
    let text = format!("its queue is full: {held}; {then}");
    if session.queue().is_some() {
        let remedy = format!("let more members subscribe to it, or {raise}");
        let check = Check::new(what, state, text).with_remedy(remedy);
        return check.with_lead("but not all (waiting)");
    }
    let back = match session.is_away() {
        true => "let it come back",
        false => "let it read faster",
    };
    let remedy = match (state, session.is_away()) {
        (State::Bad, true) => format!(
            "{back}, or {raise}; a [[policy]] with `qos1 = \"drop-oldest\"` keeps the newest"
        ),
        (State::Bad, false) => {
            format!("{back}, or {raise}, or give the topic a [[policy]] that conflates")
        }
        _ => format!("nothing, if it is to get the newest; for more of them, {back}, or {raise}"),
    };
    let check = Check::new(what, state, text).with_remedy(remedy);
    check.with_lead("but not all (waiting)")
}

/// That as many messages are in flight as may, while others wait, and what helps.
fn window(session: &Session) -> Option<(String, &'static str)> {
    let (info, delivering) = (&session.entry.info, &session.delivering);
    let (own, max) = delivering.window?;
    if info.in_flight < usize::from(own) || info.waiting == 0 {
        return None;
    }
    let at_once = match own {
        1 => "one message at a time waits for its acknowledgement".to_owned(),
        own => format!("{own} messages at a time wait for their acknowledgement"),
    };
    let wait = match info.waiting {
        1 => "1 waits".to_owned(),
        more => format!("{more} wait"),
    };
    let (bound, remedy) = match own < max {
        true => (
            "its receive maximum",
            "let it acknowledge each message sooner, or connect with a larger receive maximum",
        ),
        false => (
            "`limits.inflight`",
            "let it acknowledge each message sooner, or raise `limits.inflight`",
        ),
    };
    Some((format!("{bound} is {own}: {at_once}; {wait}"), remedy))
}

/// What the client should have had and did not get.
pub(super) fn lost(session: &Session, now: Tick) -> Option<Check> {
    let (tally, of_topic) = (&session.entry.info.tally, session.delivering.lost);
    if tally.lost.total() == 0 && of_topic == 0 {
        return None;
    }
    let why = tally
        .lost_by
        .map_or_else(|| "it was an earlier session".to_owned(), cause);
    let mut text = format!(
        "{}, {of_topic} of this topic since the server started; the last time, {why}",
        told(&tally.lost, now)
    );
    let most = session.delivering.packet_bytes_max;
    let is_large = tally.lost_by == Some(LossCause::PacketTooLarge);
    if let (true, Some(most)) = (is_large, most) {
        text += &format!(": its maximum packet size is {most} bytes");
    }
    let raise = match full(session) {
        Some((_, raise)) => raise,
        None if session.queue().is_some() => {
            "raise `messages` or `bytes` of its [[queue]]".to_owned()
        }
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
    let mut check = Check::new("lost", recent(&tally.lost, now, State::Note), text);
    if of_topic > 0 || is_large {
        check = check.with_lead("but not all (lost)");
    }
    Some(match tally.lost_by {
        Some(LossCause::DropNewest | LossCause::DropOldest) if session.queue().is_some() => {
            check.with_remedy(format!("let more members subscribe to it, or {raise}"))
        }
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

/// Something that went wrong before counts if it was lately.
pub(super) fn recent(count: &Count, now: Tick, state: State) -> State {
    match count.lately(now) {
        0 => State::Good,
        _ => state,
    }
}

/// `12, 3 of them in the last minute`.
pub(super) fn told(count: &Count, now: Tick) -> String {
    match (count.total(), count.lately(now)) {
        (total, 0) => format!("{total}, none in the last minute"),
        (total, lately) => format!("{total}, {lately} of them in the last minute"),
    }
}
