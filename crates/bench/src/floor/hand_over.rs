//! The floor of messages that cross shards: two threads, each with a poll and half of the
//! connections. A message for the other half is left in its inbox, and one write to its eventfd
//! wakes it; nothing else happens on the way.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use crate::wire::{self, Frame};

const LISTENER: Token = Token(usize::MAX);
const INBOX: Token = Token(usize::MAX - 1);
/// A ping-pong's packets are small, and one thread is not flooded.
const READ_BYTES: usize = 64 * 1_024;

/// The subscribers of each topic: the half and the number there.
type Topics = Arc<Mutex<HashMap<Vec<u8>, Vec<(usize, usize)>, RandomState>>>;

/// What one half leaves for the other.
enum Item {
    Connection(TcpStream),
    Message(usize, Vec<u8>),
}

struct Inbox {
    items: Mutex<Vec<Item>>,
    waker: Waker,
}

impl Inbox {
    fn leave(&self, item: Item) -> io::Result<()> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        items.push(item);
        drop(items);
        self.waker.wake()
    }

    fn take(&self) -> Vec<Item> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut items)
    }
}

/// Runs until it is killed.
pub(super) fn serve(listener: TcpListener) -> io::Result<()> {
    let topics = Topics::default();
    let polls = [Poll::new()?, Poll::new()?];
    let mut inboxes = Vec::new();
    for poll in &polls {
        inboxes.push(Arc::new(Inbox {
            items: Mutex::default(),
            waker: Waker::new(poll.registry(), INBOX)?,
        }));
    }
    let inboxes: Arc<[Arc<Inbox>]> = inboxes.into();
    let mut halves = polls.into_iter().enumerate().map(|(index, poll)| Half {
        index,
        poll,
        inboxes: Arc::clone(&inboxes),
        topics: Arc::clone(&topics),
        peers: Vec::new(),
        accepted: 0,
    });
    if let (Some(mut first), Some(mut second)) = (halves.next(), halves.next()) {
        // A half that fails takes the ping-pong with it, which is reported as a lost message.
        thread::spawn(move || second.run(None));
        first.run(Some(listener))?;
    }
    Ok(())
}

struct Half {
    index: usize,
    poll: Poll,
    inboxes: Arc<[Arc<Inbox>]>,
    topics: Topics,
    /// Each with the front of an unfinished packet.
    peers: Vec<Option<(TcpStream, Vec<u8>)>>,
    accepted: usize,
}

impl Half {
    fn run(&mut self, mut listener: Option<TcpListener>) -> io::Result<()> {
        if let Some(listener) = &mut listener {
            let registry = self.poll.registry();
            registry.register(listener, LISTENER, Interest::READABLE)?;
        }
        let mut events = Events::with_capacity(1_024);
        let mut scratch = vec![0; READ_BYTES];
        loop {
            match self.poll.poll(&mut events, None) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match (event.token(), &listener) {
                    (INBOX, _) => self.empty_inbox()?,
                    (LISTENER, Some(listener)) => self.accept(listener)?,
                    (Token(index), _) => self.read(index, &mut scratch)?,
                }
            }
        }
    }

    fn empty_inbox(&mut self) -> io::Result<()> {
        for item in self.inboxes[self.index].take() {
            match item {
                Item::Connection(stream) => self.adopt(stream)?,
                Item::Message(peer, packet) => self.send(peer, &packet),
            }
        }
        Ok(())
    }

    /// Connections go to the halves in turn.
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let half = self.accepted % self.inboxes.len();
            self.accepted += 1;
            if half == self.index {
                self.adopt(stream)?;
            } else {
                self.inboxes[half].leave(Item::Connection(stream))?;
            }
        }
    }

    fn adopt(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let token = Token(self.peers.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut stream, token, interest)?;
        self.peers.push(Some((stream, Vec::new())));
        Ok(())
    }

    /// A dead peer shows at the next read; a full socket does not happen with one small message
    /// under way.
    fn send(&mut self, peer: usize, packet: &[u8]) {
        if let Some(Some((stream, _))) = self.peers.get_mut(peer) {
            let _ = stream.write(packet);
        }
    }

    fn read(&mut self, index: usize, scratch: &mut [u8]) -> io::Result<()> {
        let Some((mut stream, mut carry)) = self.peers.get_mut(index).and_then(Option::take) else {
            return Ok(());
        };
        let read = match stream.read(scratch) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return Ok(()),
        };
        carry.extend_from_slice(&scratch[..read]);
        let mut at = 0;
        let mut answers = Vec::new();
        while let Frame::Whole { first, body, end } = wire::frame(&carry[at..]) {
            let packet = &carry[at..at + end];
            match first >> 4 {
                1 => answers.extend_from_slice(&[0x20, 2, 0, 0]),
                wire::SUBSCRIBE => self.subscribe(index, &packet[body..], &mut answers),
                wire::PUBLISH => self.relay(packet, &packet[body..])?,
                _ => {}
            }
            at += end;
        }
        carry.drain(..at);
        if !answers.is_empty() {
            // They are a few bytes on a new connection.
            let _ = stream.write(&answers);
        }
        self.peers[index] = Some((stream, carry));
        Ok(())
    }

    fn subscribe(&mut self, index: usize, body: &[u8], answers: &mut Vec<u8>) {
        let length = usize::from(wire::u16_at(body, 2).unwrap_or(0));
        if let (Some(id), Some(filter)) = (body.get(..2), body.get(4..4 + length)) {
            let granted = body.last().map_or(0, |options| options & 3);
            answers.extend_from_slice(&[0x90, 3, id[0], id[1], granted]);
            let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            topics
                .entry(filter.into())
                .or_default()
                .push((self.index, index));
        }
    }

    fn relay(&mut self, packet: &[u8], body: &[u8]) -> io::Result<()> {
        let end = 2 + usize::from(wire::u16_at(body, 0).unwrap_or(0));
        let topics = Arc::clone(&self.topics);
        let topics = topics.lock().unwrap_or_else(PoisonError::into_inner);
        for &(half, peer) in topics
            .get(body.get(2..end).unwrap_or_default())
            .into_iter()
            .flatten()
        {
            if half == self.index {
                self.send(peer, packet);
            } else {
                self.inboxes[half].leave(Item::Message(peer, packet.into()))?;
            }
        }
        Ok(())
    }
}
