//! Traces: the packets of some clients, for a while.
//!
//! A trace is bounded in time, lines, lines a second and bytes. Shards fill it, and the control
//! plane reads it. While no trace runs, a shard asks one flag for each read and write.

mod names;
mod packet;
mod tap;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use stentor_control::Network;
use stentor_control::trace::{Line, Way};
use stentor_hub::connections::ConnectedAs;
use stentor_session::{Message, Tick};
use stentor_topic::{Zone, matches};

use crate::peer::Peer;

pub(crate) use tap::Taps;

/// Traces that run at a time.
pub(crate) const TRACES_MAX: usize = 8;

/// Lines of a trace, and bytes of those that can be read. The oldest ones make room.
pub(crate) const LINES_MAX: u64 = 10_000;
const BYTES_MAX: usize = 4 << 20;

/// Lines in a second.
const RATE_MAX: u32 = 1_000;

/// A trace that nobody reads for so long ends.
const UNREAD_MAX: Duration = Duration::from_secs(30);

/// What a trace is about. What is given has to be so of each packet.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    pub(crate) client_id: Option<String>,
    /// A user, by the name in the zone.
    pub(crate) user: Option<String>,
    pub(crate) network: Option<Network>,
    pub(crate) zone: Option<Zone>,
    /// Only PUBLISH packets whose topic matches.
    pub(crate) topic: Option<String>,
    pub(crate) payload_bytes: usize,
}

impl Rule {
    fn is_about(&self, who: &ConnectedAs<'_>, peer: Peer) -> bool {
        let is = |wanted: &Option<String>, text: Option<&str>| {
            let wanted = wanted.as_deref();
            wanted.is_none_or(|wanted| text == Some(wanted))
        };
        let is_near = |network: Network| peer.address().is_some_and(|at| network.contains(at));
        is(&self.client_id, Some(who.client_id))
            && is(&self.user, who.user)
            && self.zone.is_none_or(|zone| zone == who.zone)
            && self.network.is_none_or(is_near)
    }

    /// Whether a message of this zone is meant that somebody publishes without a connection: so a
    /// client id is not.
    fn is_about_publisher(&self, by: &Publisher<'_>, zone: Zone) -> bool {
        let is_near = |network: Network| by.address.is_some_and(|at| network.contains(at));
        let user = self.user.as_deref();
        self.client_id.is_none()
            && user.is_none_or(|user| by.user == Some(user))
            && self.zone.is_none_or(|it| it == zone)
            && self.network.is_none_or(is_near)
    }

    /// Whether a packet is wanted, by the topic of a PUBLISH.
    fn wants(&self, topic: Option<&str>) -> bool {
        let wanted = self.topic.as_deref();
        wanted.is_none_or(|filter| topic.is_some_and(|topic| matches(filter, topic)))
    }
}

/// A trace that runs, or has ended.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) id: u64,
    pub(crate) origin: Origin,
    pub(crate) rule: Rule,
    /// When it ends at the latest.
    until: Tick,
    /// When it ends if nobody reads it.
    unread_until: AtomicU64,
    told: Mutex<Told>,
    news: Condvar,
}

#[derive(Debug)]
struct Told {
    /// Each with the number of its packet.
    lines: VecDeque<(u64, Line)>,
    bytes: usize,
    /// Packets that were wanted, with a line or without.
    packets: u64,
    /// Lines that may still come.
    left: u64,
    /// The second in which lines are counted, and how many there were.
    second: u64,
    in_second: u32,
}

/// Where a trace comes from.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The person or program that began it, as the audit log has it.
    pub(crate) by: String,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl Origin {
    /// Begun now, by somebody.
    pub(crate) fn new(by: String) -> Self {
        Self {
            by,
            at_ms: now_ms(),
        }
    }
}

/// The time of the system, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What was read of a trace.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) lines: Vec<Line>,
    /// Packets without a line, or whose line has made room.
    pub(crate) suppressed: u64,
    /// The number of the last packet.
    pub(crate) cursor: u64,
    pub(crate) has_ended: bool,
}

impl Trace {
    pub(crate) fn new(
        id: u64,
        origin: Origin,
        rule: Rule,
        lines: u64,
        time: Duration,
        now: Tick,
    ) -> Self {
        let trace = Self {
            id,
            origin,
            rule,
            until: now.after(time),
            unread_until: AtomicU64::new(0),
            told: Mutex::new(Told {
                lines: VecDeque::new(),
                bytes: 0,
                packets: 0,
                left: lines,
                second: 0,
                in_second: 0,
            }),
            news: Condvar::new(),
        };
        trace.note_reader(now);
        trace
    }

    fn note_reader(&self, now: Tick) {
        let until = now.after(UNREAD_MAX).as_micros();
        self.unread_until.store(until, Ordering::Relaxed);
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self, now: Tick) -> bool {
        let unread_until = self.unread_until.load(Ordering::Relaxed);
        now >= self.until || now.as_micros() >= unread_until
    }

    /// For how long it still runs if somebody reads it, the packets that were wanted so far, and
    /// the lines that may still come.
    pub(crate) fn progress(&self, now: Tick) -> (Duration, u64, u64) {
        let told = self.lock();
        (self.until.since(now), told.packets, told.left)
    }

    /// Ends it: what has come can still be read.
    pub(crate) fn end(&self) {
        self.unread_until.store(0, Ordering::Relaxed);
        self.news.notify_all();
    }

    /// Notes a packet, if it is wanted and there is room for another line.
    fn note(&self, now: Tick, topic: Option<&str>, make: impl FnOnce(usize) -> Line) {
        if !self.rule.wants(topic) || self.is_over(now) || !self.admits(now) {
            return;
        }
        let line = Line {
            at_ms: now_ms(),
            ..make(self.rule.payload_bytes)
        };
        let mut told = self.lock();
        told.bytes += bytes(&line);
        told.packets += 1;
        let number = told.packets;
        told.lines.push_back((number, line));
        while told.bytes > BYTES_MAX {
            let Some((_, oldest)) = told.lines.pop_front() else {
                break;
            };
            told.bytes -= bytes(&oldest);
        }
        let is_last = told.left == 0;
        drop(told);
        if is_last {
            return self.end();
        }
        self.news.notify_all();
    }

    /// Whether there may be another line in this second, and at all.
    fn admits(&self, now: Tick) -> bool {
        let mut told = self.lock();
        let second = now.as_micros() / 1_000_000;
        if told.second != second {
            (told.second, told.in_second) = (second, 0);
        }
        if told.left == 0 || told.in_second >= RATE_MAX {
            told.packets += 1;
            return false;
        }
        told.in_second += 1;
        told.left -= 1;
        true
    }

    /// The lines of packets behind this one; if there are none, waits for the first one.
    pub(crate) fn read(&self, now: Tick, after: u64, patience: Duration) -> Read {
        let was_over = self.is_over(now);
        if !was_over {
            // The reader that waits is there until then.
            self.note_reader(now.after(patience));
        }
        let deadline = Instant::now() + patience;
        let mut told = self.lock();
        loop {
            let waited =
                patience.saturating_sub(deadline.saturating_duration_since(Instant::now()));
            let has_ended = self.is_over(now.after(waited));
            let is_new = told.lines.back().is_some_and(|(number, _)| *number > after);
            if has_ended || waited >= patience || is_new {
                let first = told.lines.partition_point(|(number, _)| *number <= after);
                let lines = told.lines.range(first..).map(|(_, line)| line.clone());
                let lines: Vec<Line> = lines.collect();
                let packets = told.packets.saturating_sub(after);
                return Read {
                    suppressed: packets.saturating_sub(lines.len() as u64),
                    cursor: told.packets.max(after),
                    lines,
                    has_ended,
                };
            }
            let woken = self.news.wait_timeout(told, patience - waited);
            told = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A line is put in or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a line takes of the memory.
fn bytes(line: &Line) -> usize {
    let more = [&line.topic, &line.payload];
    let more: usize = more.into_iter().flatten().map(String::len).sum();
    size_of::<Line>() + line.client_id.len() + line.text.len() + more
}

/// Somebody who publishes without a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publisher<'p> {
    /// The name in the zone.
    pub(crate) user: Option<&'p str>,
    /// The address that HTTP came from; none for the control socket.
    pub(crate) address: Option<IpAddr>,
}

/// The line about such a message. It is not a packet: its bytes are those of its topic, properties
/// and payload.
fn published(by: &Publisher<'_>, message: &Message, payload_bytes: usize) -> Line {
    let payload = message.payload();
    let retain = if message.retain { " retain" } else { "" };
    let mut text = format!(
        "qos={}{retain} payload={} bytes",
        message.qos as u8,
        payload.len()
    );
    if let Some(user) = by.user {
        let _ = write!(text, " user={:?}", packet::shown(user));
    }
    let _ = match by.address {
        Some(address) => write!(text, " by HTTP from {address}"),
        None => write!(text, " by the control socket"),
    };
    let beginning = payload.get(..payload_bytes).unwrap_or(payload);
    Line {
        way: Way::Received,
        packet: "PUBLISH".to_owned(),
        topic: Some(packet::shown(message.topic()).to_owned()),
        text,
        bytes: (message.topic().len() + message.properties().len() + payload.len()) as u64,
        payload: (payload_bytes > 0).then(|| String::from_utf8_lossy(beginning).into_owned()),
        ..Line::default()
    }
}

/// The traces that run.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    running: ArcSwap<Vec<Arc<Trace>>>,
    /// The number of the last one.
    last: Mutex<u64>,
}

impl Traces {
    /// Begins a trace; `None` if too many run. The shards have to be told of all that run then.
    pub(crate) fn begin(
        &self,
        origin: Origin,
        rule: Rule,
        lines: u64,
        time: Duration,
        now: Tick,
    ) -> Option<Arc<Trace>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = self.running(now);
        if running.len() >= TRACES_MAX {
            return None;
        }
        *last += 1;
        let trace = Arc::new(Trace::new(*last, origin, rule, lines, time, now));
        running.push(Arc::clone(&trace));
        self.running.store(Arc::new(running));
        Some(trace)
    }

    /// A trace that runs, or has ended since the last one began.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Trace>> {
        let running = self.running.load();
        running.iter().find(|trace| trace.id == id).cloned()
    }

    /// Notes a message that somebody has published without a connection, in the traces that are
    /// about him and its topic. While no trace runs, that costs one look.
    pub(crate) fn note_published(&self, now: Tick, by: &Publisher<'_>, message: &Message) {
        for trace in self.running.load().iter() {
            if trace.rule.is_about_publisher(by, message.zone) {
                trace.note(now, Some(message.topic()), |payload_bytes| {
                    published(by, message, payload_bytes)
                });
            }
        }
    }

    /// Those that have not ended.
    pub(crate) fn running(&self, now: Tick) -> Vec<Arc<Trace>> {
        let running = self.running.load();
        let on = running.iter().filter(|trace| !trace.is_over(now));
        on.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use stentor_mqtt::Version;

    use super::*;

    const NOW: Tick = Tick::from_secs(100);

    fn trace(rule: Rule, lines: u64) -> Trace {
        let (origin, time) = (Origin::new("me".into()), Duration::from_secs(60));
        Trace::new(1, origin, rule, lines, time, NOW)
    }

    fn note(trace: &Trace, now: Tick, topic: Option<&str>) {
        let text = "x".repeat(100);
        trace.note(now, topic, |_| Line {
            text,
            ..Line::default()
        });
    }

    fn read(trace: &Trace, now: Tick) -> (usize, u64, bool) {
        let read = trace.read(now, 0, Duration::ZERO);
        (read.lines.len(), read.suppressed, read.has_ended)
    }

    #[test]
    fn each_reader_goes_on_where_it_was() {
        let trace = trace(Rule::default(), LINES_MAX);
        let read = |after| trace.read(NOW, after, Duration::ZERO);
        let both = |after| {
            let it = read(after);
            (it.lines.len(), it.suppressed, it.cursor)
        };
        assert_eq!(both(0), (0, 0, 0));
        for _ in 0..3 {
            note(&trace, NOW, None);
        }
        assert_eq!(
            (both(0), both(0)),
            ((3, 0, 3), (3, 0, 3)),
            "nothing is gone"
        );
        for _ in 3..RATE_MAX + 5 {
            note(&trace, NOW, None);
        }
        let last = u64::from(RATE_MAX) + 5;
        assert_eq!(both(3), (RATE_MAX as usize - 3, 5, last));
        assert_eq!(both(last), (0, 0, last));
        note(&trace, Tick::from_secs(101), None);
        assert_eq!(both(last), (1, 0, last + 1));
        assert_eq!(
            both(last - 1),
            (1, 1, last + 1),
            "the other one has no line"
        );
        assert_eq!(both(u64::MAX), (0, 0, u64::MAX));
    }

    #[test]
    fn a_trace_is_bounded_in_lines_in_rate_and_in_time() {
        let rated = trace(Rule::default(), LINES_MAX);
        for _ in 0..RATE_MAX + 5 {
            note(&rated, NOW, None);
        }
        note(&rated, Tick::from_secs(101), None);
        assert_eq!(read(&rated, NOW), (RATE_MAX as usize + 1, 5, false));
        let short = trace(Rule::default(), 2);
        for _ in 0..5 {
            note(&short, NOW, None);
        }
        assert_eq!(read(&short, NOW), (2, 0, true));
        let unread = trace(Rule::default(), 9);
        assert!(!unread.is_over(Tick::from_secs(129)) && unread.is_over(Tick::from_secs(130)));
        assert_eq!(read(&unread, Tick::from_secs(120)), (0, 0, false));
        assert!(!unread.is_over(Tick::from_secs(149)), "somebody reads it");
        for secs in [140, 150] {
            let _ = read(&unread, Tick::from_secs(secs));
        }
        assert!(unread.is_over(Tick::from_secs(160)), "its time is over");
    }

    #[test]
    fn a_trace_is_bounded_in_bytes() {
        let all = trace(Rule::default(), LINES_MAX);
        for at in 0..LINES_MAX {
            let now = NOW.after(Duration::from_millis(2 * at));
            let text = "x".repeat(2_000);
            all.note(now, None, |_| Line {
                text,
                ..Line::default()
            });
        }
        let held = all.lock().bytes;
        assert!(held <= BYTES_MAX && held > BYTES_MAX - 4_000, "{held}");
        let read = all.read(NOW, 0, Duration::ZERO);
        assert_eq!(read.lines.len() as u64 + read.suppressed, LINES_MAX);
    }

    #[test]
    fn a_rule_is_about_client_user_zone_address_and_topic() {
        let who = ConnectedAs {
            zone: Zone(7),
            client_id: "pump",
            user: Some("ann"),
            version: Version::V5,
        };
        let peer = Peer::V4([192, 0, 2, 7], 5);
        let is = |change: fn(&mut Rule)| {
            let mut rule = Rule::default();
            change(&mut rule);
            rule.is_about(&who, peer)
        };
        assert!(is(|_| {}) && is(|rule| rule.client_id = Some("pump".into())));
        assert!(!is(|rule| rule.client_id = Some("lamp".into())));
        assert!(is(|rule| rule.user = Some("ann".into())));
        assert!(!is(|rule| rule.user = Some("bob".into())));
        assert!(is(|rule| rule.zone = Some(Zone(7))) && !is(|rule| rule.zone = Some(Zone(8))));
        assert!(is(|rule| rule.network = "192.0.2.0/24".parse().ok()));
        assert!(!is(|rule| rule.network = "10.0.0.0/8".parse().ok()));
        let topic = trace(
            Rule {
                topic: Some("a/#".into()),
                ..Rule::default()
            },
            9,
        );
        for name in [Some("a/b"), Some("b"), None] {
            note(&topic, NOW, name);
        }
        assert_eq!(read(&topic, NOW), (1, 0, false));
    }

    #[test]
    fn so_many_traces_run_at_a_time() {
        let traces = Traces::default();
        let begin = |now| {
            let (origin, time) = (Origin::new("me".into()), Duration::from_secs(60));
            traces.begin(origin, Rule::default(), 9, time, now)
        };
        let first = begin(NOW).unwrap();
        assert!((1..TRACES_MAX).all(|_| begin(NOW).is_some()) && begin(NOW).is_none());
        first.end();
        assert!(traces.find(first.id).is_some(), "it can still be read");
        assert!(begin(NOW).is_some() && begin(NOW).is_none());
        assert!(
            begin(Tick::from_secs(200)).is_some(),
            "nobody read the others"
        );
    }
}
