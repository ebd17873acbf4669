//! Bad servers must look bad.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Fanout, Rate};
use crate::measure::Verdict;
use crate::progress::Progress;
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
    /// Nothing comes any more.
    Stall,
    /// All connections end.
    Die,
}

const MISCHIEF_AT: u64 = 20;

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
                let stamp = bytes.len() - 24;
                bytes[stamp] ^= 1;
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

fn verdict(mischief: Mischief, rate: Rate) -> Verdict {
    let mut fanout = Fanout {
        preset: "test",
        publishers: 2,
        subscribers: 6,
        rate,
        payload: 24,
        qos: 0,
        retain: false,
        version: Version::V311,
        warmup: Duration::ZERO,
        seconds: Duration::from_secs(1),
        grace: Duration::from_millis(500),
        workers: 2,
        window: Some(4),
        published: None,
        windows: HashMap::new(),
    };
    let needs = Needs {
        connections: 8,
        payload: 24,
        version: Version::V311,
    };
    let mut running = serve(mischief).start(&needs).expect("resolve the address");
    fanout
        .leg(0, &mut running, &Progress::new())
        .expect("measure")
        .verdict()
}

const PACED: Rate = Rate::Paced(100.0);

#[test]
fn a_good_server_is_sound_at_any_pace() {
    assert_eq!(verdict(Mischief::None, PACED), Verdict::Sound);
    assert!(!matches!(
        verdict(Mischief::None, Rate::Max),
        Verdict::Failed(_)
    ));
}

#[track_caller]
fn check_fails(mischief: Mischief, expected: &str) {
    for rate in [PACED, Rate::Max] {
        match verdict(mischief, rate) {
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

#[test]
fn a_server_that_stalls_has_lost_what_it_holds() {
    check_fails(Mischief::Stall, "lost");
}

#[test]
fn a_server_that_hangs_up_has_failed() {
    check_fails(Mischief::Die, "6 failed");
}
