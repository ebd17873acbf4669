//! The floor: a bare server that makes the same system calls as a broker and nothing else.
//!
//! It takes connections, answers with canned acknowledgements, and relays what it reads to whoever
//! named the same topic. No sessions, no matching, no limits, no checks: what a broker costs beyond
//! this is its own doing. It runs as a process of its own, `bench floor`, and the generator treats
//! it like any other server.

mod hand_over;
mod ledger;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::ValueEnum;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};

use crate::error::{BenchError, Doing};
use crate::wire::{self, Frame};
use ledger::Ledger;

/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 16_384;
/// One read takes at most this much.
const READ_BYTES: usize = 256 * 1_024;
const LISTENER: Token = Token(usize::MAX);

/// What the floor program does beyond accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum FloorKind {
    /// One `send` per message and subscriber.
    Send,
    /// One `send` per subscriber for all that one turn of the loop has read.
    Batch,
    /// Canned SUBACKs, one write per turn; filters are skipped.
    Acknowledge,
    /// The same, and a copy of each filter goes into a hash map.
    Keep,
    /// Canned SUBACKs, and behind each a canned retained message of the topic.
    Recover,
    /// Two threads; what crosses is handed over with one write to an eventfd. MQTT 3.1.1, QoS 0.
    HandOver,
    /// Canned acknowledgements, and a canned challenge before that of CONNECT.
    Exchange,
    /// What a client publishes comes back to it, after a canned PUBACK.
    Echo,
    /// Copies what is published into a mapped file, then answers with canned acknowledgements.
    Copy,
    /// Writes what one read has brought to a file, waits for the disk, then answers.
    Sync,
}

impl FloorKind {
    /// As on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Batch => "batch",
            Self::Acknowledge => "acknowledge",
            Self::Keep => "keep",
            Self::Recover => "recover",
            Self::HandOver => "hand-over",
            Self::Exchange => "exchange",
            Self::Echo => "echo",
            Self::Copy => "copy",
            Self::Sync => "sync",
        }
    }

    /// Whether it has a file.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Copy | Self::Sync)
    }

    fn relays(self) -> bool {
        matches!(self, Self::Send | Self::Batch)
    }
}

/// Runs until the parent process ends. Prints `listening URL` like a real server. What it writes
/// goes to `folder`.
pub(crate) fn run(
    kind: FloorKind,
    payload: usize,
    folder: Option<&Path>,
) -> Result<(), BenchError> {
    // A floor that outlives a killed benchmark would disturb the next one.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    crate::process::raise_descriptor_limit();
    let ledger = ledger(kind, folder)?;
    let listener = listen().doing("open the floor's listener")?;
    let address = listener.local_addr().doing("read the floor's port")?;
    writeln!(io::stdout().lock(), "listening mqtt://{address}").doing("print the address")?;
    let served = match kind {
        FloorKind::HandOver => hand_over::serve(listener),
        _ => Floor::new(kind, listener, payload).and_then(|mut floor| {
            floor.ledger = ledger;
            floor.serve()
        }),
    };
    served.doing("run the floor")
}

/// The file of a floor that writes.
fn ledger(kind: FloorKind, folder: Option<&Path>) -> Result<Option<Ledger>, BenchError> {
    let make = match kind {
        FloorKind::Copy => Ledger::mapped,
        FloorKind::Sync => Ledger::synced,
        _ => return Ok(None),
    };
    let missing = || BenchError::usage("a floor that writes needs --folder");
    let folder = folder.ok_or_else(missing)?;
    make(folder).map(Some).doing("make the floor's file")
}

fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

struct Peer {
    stream: TcpStream,
    /// The front of an unfinished packet.
    carry: Vec<u8>,
    /// What the kernel did not take yet.
    unsent: Vec<u8>,
    v5: bool,
}

/// One topic.
#[derive(Default)]
struct Feed {
    peers: Vec<usize>,
    /// Messages of this turn, when batching.
    ready: Vec<u8>,
}

struct Floor {
    kind: FloorKind,
    poll: Poll,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    topics: HashMap<Vec<u8>, usize, RandomState>,
    feeds: Vec<Feed>,
    /// Feeds with something ready.
    dirty: Vec<usize>,
    /// The filters of [`FloorKind::Keep`], and who asked.
    kept: HashMap<Box<[u8]>, usize, RandomState>,
    /// Answers to the peer being read.
    answers: Vec<u8>,
    /// Bytes of the messages of [`FloorKind::Recover`].
    payload: usize,
    /// Where messages are written.
    ledger: Option<Ledger>,
}

impl Floor {
    fn new(kind: FloorKind, mut listener: TcpListener, payload: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            kind,
            poll,
            listener,
            peers: Vec::new(),
            topics: HashMap::default(),
            feeds: Vec::new(),
            dirty: Vec::new(),
            kept: HashMap::default(),
            answers: Vec::new(),
            payload,
            ledger: None,
        })
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut scratch = vec![0; READ_BYTES];
        loop {
            match self.poll.poll(&mut events, None) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                if event.token() == LISTENER {
                    self.accept()?;
                } else {
                    self.turn(event, &mut scratch);
                }
            }
            for feed in std::mem::take(&mut self.dirty) {
                let mut ready = std::mem::take(&mut self.feeds[feed].ready);
                self.send_to_all(feed, &ready);
                ready.clear();
                self.feeds[feed].ready = ready;
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            stream.set_nodelay(true)?;
            let token = Token(self.peers.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, token, interest)?;
            let peer = Peer {
                stream,
                carry: Vec::new(),
                unsent: Vec::new(),
                v5: false,
            };
            self.peers.push(Some(peer));
        }
    }

    fn turn(&mut self, event: &Event, scratch: &mut Vec<u8>) {
        let index = event.token().0;
        let Some(mut peer) = self.peers.get_mut(index).and_then(Option::take) else {
            return;
        };
        if event.is_writable() && !peer.unsent.is_empty() {
            let waiting = std::mem::take(&mut peer.unsent);
            send(&mut peer, &waiting);
        }
        if !event.is_readable() || self.read(index, &mut peer, scratch, event.is_read_closed()) {
            self.peers[index] = Some(peer);
        }
    }

    /// Reads until the socket is drained; `false` if the peer is gone. The end may come with the
    /// same event as the last bytes (`closed`).
    fn read(&mut self, index: usize, peer: &mut Peer, scratch: &mut Vec<u8>, closed: bool) -> bool {
        loop {
            let kept = peer.carry.len();
            if kept >= scratch.len() / 2 {
                scratch.resize(kept * 4, 0);
            }
            scratch[..kept].copy_from_slice(&peer.carry);
            let read = match peer.stream.read(&mut scratch[kept..]) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let input = &scratch[..kept + read];
            let Some(used) = self.apply(index, peer, input) else {
                return false;
            };
            peer.carry.clear();
            peer.carry.extend_from_slice(&input[used..]);
            if !self.answers.is_empty() {
                let settled = self.ledger.as_mut().map_or(Ok(()), Ledger::settle);
                if settled.is_err() {
                    // What the disk does not have is not acknowledged.
                    return false;
                }
                send(peer, &self.answers);
                self.answers.clear();
            }
            if kept + read < scratch.len() && !closed {
                return true;
            }
        }
    }

    /// Applies the whole packets of `input`; returns the bytes used, `None` to hang up.
    fn apply(&mut self, index: usize, peer: &mut Peer, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let (first, packet, body) = match wire::frame(&input[at..]) {
                Frame::Partial => return Some(at),
                Frame::Malformed => return None,
                Frame::Whole { first, body, end } => {
                    let packet = &input[at..at + end];
                    at += end;
                    (first, packet, &packet[body..])
                }
            };
            match first >> 4 {
                wire::PUBLISH => self.relay(packet, body),
                wire::SUBSCRIBE => self.subscribe(index, peer.v5, body)?,
                wire::PUBREL => wire::push_ack(&mut self.answers, wire::PUBCOMP, id_of(body)),
                wire::PINGREQ => self.answers.extend_from_slice(&[0xd0, 0]),
                wire::DISCONNECT => return None,
                1 if self.kind == FloorKind::Exchange => self.challenge(body)?,
                wire::AUTH => self.answers.extend_from_slice(&[0x20, 3, 0, 0, 0]),
                1 => {
                    peer.v5 = body.get(6) == Some(&5);
                    let accepted: &[u8] = if peer.v5 {
                        &[0x20, 3, 0, 0, 0]
                    } else {
                        &[0x20, 2, 0, 0]
                    };
                    self.answers.extend_from_slice(accepted);
                }
                _ => {}
            }
        }
    }

    /// Answers the first message of SCRAM with salt and rounds that are always the same.
    fn challenge(&mut self, body: &[u8]) -> Option<()> {
        let (method, first) = wire::connect_method(body)?;
        let at = first.windows(3).position(|part| part == b",r=")?;
        let mut challenge = first[at + 1..].to_vec();
        challenge.extend_from_slice(crate::accounts::CANNED_CHALLENGE.as_bytes());
        wire::push_auth(&mut self.answers, 0x18, method, &challenge);
        Some(())
    }

    fn subscribe(&mut self, index: usize, v5: bool, body: &[u8]) -> Option<()> {
        let id = body.get(..2)?;
        let filter_at = 2 + usize::from(v5);
        self.answers
            .extend_from_slice(if v5 { &[0x90, 4] } else { &[0x90, 3] });
        self.answers.extend_from_slice(id);
        // Clients compare it with what they have asked for.
        let granted = body.last()? & 3;
        if v5 {
            self.answers.push(0);
        }
        self.answers.push(granted);
        if matches!(
            self.kind,
            FloorKind::Acknowledge
                | FloorKind::Exchange
                | FloorKind::Echo
                | FloorKind::Copy
                | FloorKind::Sync
        ) {
            return Some(());
        }
        let length = usize::from(wire::u16_at(body, filter_at)?);
        let filter = body.get(filter_at + 2..filter_at + 2 + length)?;
        if self.kind == FloorKind::Recover {
            wire::push_retained(&mut self.answers, v5, filter, self.payload);
        } else if self.kind == FloorKind::Keep {
            self.kept.insert(filter.into(), index);
        } else {
            let feed = *self.topics.entry_ref(filter).or_insert_with(|| {
                self.feeds.push(Feed::default());
                self.feeds.len() - 1
            });
            self.feeds[feed].peers.push(index);
        }
        Some(())
    }

    fn relay(&mut self, packet: &[u8], body: &[u8]) {
        if let Some(ledger) = &mut self.ledger {
            ledger.take(packet);
        }
        let qos = packet[0] >> 1 & 3;
        let topic_end = 2 + usize::from(wire::u16_at(body, 0).unwrap_or(0));
        if qos > 0 {
            let kind = if qos == 1 { wire::PUBACK } else { wire::PUBREC };
            wire::push_ack(
                &mut self.answers,
                kind,
                id_of(body.get(topic_end..).unwrap_or(&[])),
            );
        }
        if self.kind == FloorKind::Echo {
            let rest = body.get(topic_end + 2 * usize::from(qos > 0)..);
            let topic = body.get(..topic_end);
            if let (Some(topic), Some(rest)) = (topic, rest) {
                wire::push_echo(&mut self.answers, topic, rest);
            }
            return;
        }
        let topic = body.get(2..topic_end).unwrap_or(&[]);
        let Some(&feed) = self.topics.get(topic).filter(|_| self.kind.relays()) else {
            return;
        };
        let ready = &mut self.feeds[feed].ready;
        if ready.is_empty() && self.kind == FloorKind::Batch {
            self.dirty.push(feed);
        }
        let from = ready.len();
        ready.extend_from_slice(packet);
        // A live message has no RETAIN flag.
        ready[from] &= 0xfe;
        if self.kind == FloorKind::Send {
            let mut ready = std::mem::take(ready);
            self.send_to_all(feed, &ready);
            ready.clear();
            self.feeds[feed].ready = ready;
        }
    }

    fn send_to_all(&mut self, feed: usize, bytes: &[u8]) {
        for &index in &self.feeds[feed].peers {
            if let Some(peer) = &mut self.peers[index] {
                send(peer, bytes);
            }
        }
    }
}

fn id_of(body: &[u8]) -> u16 {
    wire::u16_at(body, 0).unwrap_or(0)
}

/// Sends what the kernel takes and keeps the rest. A dead peer shows at the next read.
fn send(peer: &mut Peer, bytes: &[u8]) {
    let sent = if peer.unsent.is_empty() {
        peer.stream.write(bytes).unwrap_or(0)
    } else {
        0
    };
    peer.unsent.extend_from_slice(&bytes[sent..]);
}
