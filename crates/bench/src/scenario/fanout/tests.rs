//! Bad servers must look bad.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::load::Outcome;
use super::{Fanout, Rate};
use crate::measure::{Leg, Series, Verdict};
use crate::meter::GeneratorUse;
use crate::progress::Progress;
use crate::sequence::Faults;
use crate::target::{Needs, Subject};
use crate::wire::{self, Frame, Version};
use crate::workload::Workload;

/// What a server does wrong, from the twentieth message of a topic on.
#[derive(Clone, Copy, PartialEq)]
enum Mischief {
    None,
    /// Each subscriber misses one message.
    Lose,
    /// One message comes twice.
    Repeat,
    /// One message comes after the next one.
    Swap,
    /// One message has a damaged stamp.
    Damage,
    /// From then on, one byte in the middle of each message is another.
    Spoil,
    /// From then on, messages miss their last byte.
    Cut,
    /// Nothing comes any more.
    Stall,
    /// All connections end.
    Die,
}

const MISCHIEF_AT: u64 = 20;
/// Bytes of each message.
const PAYLOAD: usize = 64;

/// Subscribers and messages so far of each topic.
type Topics = Arc<Mutex<HashMap<Vec<u8>, Topic>>>;

#[derive(Default)]
struct Topic {
    subscribers: Vec<TcpStream>,
    messages: u64,
    held: Vec<u8>,
}

fn serve(mischief: Mischief) -> Subject {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind a free port");
    let url = format!("mqtt://{}", listener.local_addr().expect("the port"));
    let topics = Topics::default();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let topics = Arc::clone(&topics);
            thread::spawn(move || attend(socket, &topics, mischief));
        }
    });
    Subject::Url {
        url: url.parse().expect("a URL"),
        pid: None,
        trusted: None,
    }
}

fn attend(mut socket: TcpStream, topics: &Topics, mischief: Mischief) {
    let (mut input, mut chunk) = (Vec::new(), [0; 4_096]);
    while let Ok(read) = socket.read(&mut chunk) {
        if read == 0 {
            return;
        }
        input.extend_from_slice(&chunk[..read]);
        while let Frame::Whole { first, body, end } = wire::frame(&input) {
            let packet: Vec<u8> = input.drain(..end).collect();
            let body = &packet[body..];
            match first >> 4 {
                1 => socket.write_all(&[0x20, 2, 0, 0]).expect("answer"),
                wire::SUBSCRIBE => {
                    let copy = socket.try_clone().expect("clone a socket");
                    let mut topics = topics.lock().expect("lock");
                    let name = body[4..body.len() - 1].to_vec();
                    topics.entry(name).or_default().subscribers.push(copy);
                    socket
                        .write_all(&[0x90, 3, body[0], body[1], 0])
                        .expect("answer");
                }
                wire::PUBLISH => {
                    let publish = wire::publish(first, body, Version::V311).expect("a message");
                    let mut topics = topics.lock().expect("lock");
                    if let Some(topic) = topics.get_mut(publish.topic) {
                        topic.relay(&packet, mischief);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Topic {
    fn relay(&mut self, packet: &[u8], mischief: Mischief) {
        let number = self.messages;
        self.messages += 1;
        let now = number == MISCHIEF_AT;
        let mut bytes = std::mem::take(&mut self.held);
        match mischief {
            Mischief::Lose if now => {}
            Mischief::Repeat if now => bytes.extend([packet, packet].concat()),
            Mischief::Swap if now => self.held = packet.to_vec(),
            Mischief::Stall if number >= MISCHIEF_AT => {}
            Mischief::Damage if now => {
                bytes.extend_from_slice(packet);
                let stamp = bytes.len() - PAYLOAD;
                bytes[stamp] ^= 1;
            }
            Mischief::Spoil if number >= MISCHIEF_AT => {
                bytes.extend_from_slice(packet);
                let middle = bytes.len() - PAYLOAD / 2;
                bytes[middle] ^= 1;
            }
            Mischief::Cut if number >= MISCHIEF_AT => {
                bytes.extend_from_slice(&packet[..packet.len() - 1]);
                // The remaining length is one byte.
                bytes[1] -= 1;
            }
            Mischief::Die if now => {
                for subscriber in &self.subscribers {
                    let _ = subscriber.shutdown(Shutdown::Both);
                }
            }
            // What was held comes after its successor.
            _ => bytes.splice(0..0, packet.iter().copied()).for_each(drop),
        }
        for subscriber in &mut self.subscribers {
            // The generator may have hung up by now.
            let _ = subscriber.write_all(&bytes);
        }
    }
}

/// A plan whose waits outlast the pauses of a busy machine. What a bad server lost is waited for
/// in full, which is why it gets less.
fn plan(mischief: Mischief, rate: Rate) -> Fanout {
    let patience = match mischief {
        Mischief::None => 10,
        Mischief::Stall => 1,
        _ => 3,
    };
    Fanout {
        preset: "test",
        publishers: 2,
        subscribers: 6,
        rate,
        payload: PAYLOAD,
        qos: 0,
        retain: false,
        topics: 2,
        all: false,
        version: Version::V311,
        warmup: Duration::ZERO,
        seconds: Duration::from_secs(1),
        grace: Duration::from_secs(patience),
        workers: 2,
        groups: None,
        window: Some(4),
        ramp: None,
        published: None,
        windows: HashMap::new(),
    }
}

fn leg(mischief: Mischief, rate: Rate) -> Leg {
    let needs = Needs::new(8, PAYLOAD, Version::V311);
    let mut running = serve(mischief).start(&needs).expect("resolve the address");
    plan(mischief, rate)
        .leg(0, &mut running, &Progress::new())
        .expect("measure")
}

const PACED: Rate = Rate::Paced(100.0);

/// Whether it also keeps up depends on the machine, so that is looked at apart.
#[test]
fn a_good_server_is_found_without_fault_at_any_pace() {
    for rate in [PACED, Rate::Max] {
        let leg = leg(Mischief::None, rate);
        assert_eq!((leg.faults, leg.failed), (Faults::default(), 0), "{rate:?}");
    }
}

/// What a second of the plan came to: it asks for 600 deliveries.
fn outcome(deliveries: u64, late_ms: u64, busiest_thread: f64) -> Outcome {
    let mut lateness = Histogram::new(3).expect("a histogram of three digits");
    lateness.record(late_ms * 1_000_000).expect("it grows");
    Outcome {
        deliveries,
        seconds: 1.0,
        window: 0,
        latency: Histogram::new(3).expect("a histogram of three digits"),
        lateness,
        faults: Faults::default(),
        disconnected: 0,
        unacknowledged: 0,
        unsent: 0,
        after_end: 0,
        uncleared: None,
        server_cpu_s: Some(0.1),
        generator_cpu_s: 0.1,
        groups: Vec::new(),
        generator: GeneratorUse {
            seconds: 1.0,
            cpu_percent: 10.0,
            busiest_thread,
            rss: None,
        },
        usage: None,
        series: Series::default(),
    }
}

#[test]
fn a_verdict_follows_from_the_figures() {
    let check = |deliveries, late_ms, busiest_thread| {
        let outcome = outcome(deliveries, late_ms, busiest_thread);
        plan(Mischief::None, PACED).evaluate(outcome).verdict()
    };
    assert_eq!(check(600, 1, 0.5), Verdict::Sound);
    assert!(matches!(check(600, 60, 0.5), Verdict::GeneratorLimited(_)));
    assert!(matches!(check(600, 1, 0.99), Verdict::GeneratorLimited(_)));
    assert!(matches!(check(580, 1, 0.5), Verdict::Failed(_)));
}

/// What stays on a target is a failure of its own, and hides no other one.
#[test]
fn what_is_not_cleared_is_told_behind_what_was_lost() {
    let check = |lost, told: &str| {
        let mut outcome = outcome(600, 1, 0.5);
        outcome.faults.lost = lost;
        outcome.uncleared = Some("nobody answers".into());
        let leg = plan(Mischief::None, PACED).evaluate(outcome);
        assert_eq!(leg.verdict(), Verdict::Failed(told.into()));
        assert_eq!(leg.faults.lost, lost);
    };
    check(0, "nobody answers");
    check(3, "3 lost, nobody answers");
}

#[track_caller]
fn check_fails(mischief: Mischief, expected: &str) {
    for rate in [PACED, Rate::Max] {
        match leg(mischief, rate).verdict() {
            Verdict::Failed(why) => assert!(why.contains(expected), "{why}"),
            other => panic!("{rate:?}: {other:?} instead of {expected}"),
        }
    }
}

#[test]
fn lost_messages_are_counted() {
    check_fails(Mischief::Lose, "6 lost");
}

#[test]
fn repeated_messages_are_counted() {
    check_fails(Mischief::Repeat, "6 duplicated");
}

#[test]
fn swapped_messages_are_counted() {
    check_fails(Mischief::Swap, "6 out of order");
}

#[test]
fn damaged_messages_are_counted() {
    check_fails(Mischief::Damage, "6 lost, 6 corrupt");
}

/// Behind the stamp: the message has arrived, but is not what was sent.
#[test]
fn spoilt_messages_are_counted() {
    for mischief in [Mischief::Spoil, Mischief::Cut] {
        check_fails(mischief, "corrupt");
        let leg = leg(mischief, PACED);
        // By the clock, every byte of each is looked at: 80 messages to each of six.
        let Faults { lost, corrupt, .. } = leg.faults;
        assert_eq!((lost, corrupt), (0, 6 * (100 - MISCHIEF_AT)));
    }
}

#[test]
fn a_server_that_stalls_has_lost_what_it_holds() {
    check_fails(Mischief::Stall, "lost");
}

#[test]
fn a_server_that_hangs_up_has_failed() {
    check_fails(Mischief::Die, "6 failed");
}
