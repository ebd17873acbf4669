//! A client that never waits: what the server does not take is kept for later, and what it sends is
//! read as the client pleases.

use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use stentor_tests::raw::{packet, string};

use super::act::{Act, USERS};
use super::name::{Bounds, Topic};
use super::random::Random;

/// A client with so much unsent does nothing more until the server has taken some.
const UNSENT_MAX: usize = 512 * 1_024;

/// Acts that are remembered of each.
const REMEMBERED: usize = 12;

/// How it connects.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    user: Option<&'static str>,
    is_clean: bool,
    expiry_secs: u32,
    receive_maximum: u16,
    will: Option<Topic>,
    appetite: Appetite,
}

/// How much it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Appetite {
    Everything,
    /// Some bytes after each of its acts.
    Little,
    Nothing,
}

impl Entry {
    pub(super) fn draw(random: &mut Random, bounds: Bounds) -> Self {
        let appetites = [Appetite::Everything, Appetite::Little, Appetite::Nothing];
        Self {
            user: (!random.one_in(3)).then(|| random.pick(&USERS)),
            is_clean: random.one_in(2),
            expiry_secs: random.pick(&[0, 1, 3_600]),
            receive_maximum: random.pick(&[1, 100, u16::MAX]),
            will: random.one_in(3).then(|| Topic::draw(random, bounds)),
            appetite: random.pick(&appetites),
        }
    }

    fn connect(&self, client_id: &str) -> Vec<u8> {
        let mut flags = u8::from(self.is_clean) << 1;
        let mut body = Vec::new();
        body.push(8);
        body.push(0x11);
        body.extend(self.expiry_secs.to_be_bytes());
        body.push(0x21);
        body.extend(self.receive_maximum.to_be_bytes());
        body.extend(string(client_id));
        if let Some(topic) = self.will {
            // QoS 1, retained.
            flags |= 0x2C;
            body.push(0);
            body.extend(string(&topic.text()));
            body.extend(string("gone"));
        }
        if let Some(user) = self.user {
            flags |= 0xC0;
            body.extend(string(user));
            body.extend(string(super::PASSWORD));
        }
        let head = [&string("MQTT")[..], &[5, flags, 0, 0]].concat();
        packet(0x10, &[head, body].concat())
    }
}

/// A client id and whoever has it now.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) client_id: String,
    stream: Option<TcpStream>,
    appetite: Appetite,
    unsent: VecDeque<u8>,
    packet_id: u16,
    last: VecDeque<String>,
}

impl Client {
    pub(super) fn new(client_id: String) -> Self {
        Self {
            client_id,
            stream: None,
            appetite: Appetite::Everything,
            unsent: VecDeque::new(),
            packet_id: 0,
            last: VecDeque::new(),
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    fn remember(&mut self, step: usize, what: &dyn fmt::Display) {
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(format!("{step}: {what}"));
    }

    /// Connects, though an earlier connection may still be there: then that one is taken over.
    pub(super) fn connect(&mut self, step: usize, address: &str, entry: &Entry) {
        self.remember(step, &format_args!("connects: {entry:?}"));
        let stream = TcpStream::connect(address).expect("the server answers");
        stream
            .set_nonblocking(true)
            .expect("a socket takes options");
        // The old one stays open until the new one has said who it is.
        let old = self.stream.replace(stream);
        self.unsent = entry.connect(&self.client_id).into();
        self.appetite = entry.appetite;
        self.go_on();
        drop(old);
    }

    /// Closes the connection, with a DISCONNECT or without.
    pub(super) fn leave(&mut self, step: usize, says_so: bool) {
        self.remember(step, &format_args!("leaves, says so: {says_so}"));
        if says_so {
            self.unsent.extend([0xE0, 0]);
            self.go_on();
        }
        self.stream = None;
    }

    /// Does something, unless the server has not taken yet what it did before.
    pub(super) fn act(&mut self, step: usize, act: &Act) {
        let bytes = act.bytes(&mut self.packet_id);
        self.go_on();
        if self.unsent.len() > UNSENT_MAX {
            return self.remember(step, &format_args!("waits, and does not: {act}"));
        }
        self.remember(step, act);
        self.unsent.extend(bytes);
        self.go_on();
    }

    /// Sends what the server takes, and reads what this client wants to.
    pub(super) fn go_on(&mut self) {
        let is_there = self.send().is_some() && self.receive().is_some();
        if !is_there {
            self.stream = None;
            self.unsent.clear();
        }
    }

    /// `None` when the connection is gone.
    fn send(&mut self) -> Option<()> {
        let stream = self.stream.as_mut()?;
        while !self.unsent.is_empty() {
            let (bytes, _) = self.unsent.as_slices();
            match stream.write(bytes) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(())
    }

    /// `None` when the connection is gone.
    fn receive(&mut self) -> Option<()> {
        let stream = self.stream.as_mut()?;
        let mut buffer = [0; 64 * 1_024];
        let buffer = match self.appetite {
            Appetite::Everything => &mut buffer[..],
            Appetite::Little => &mut buffer[..100],
            Appetite::Nothing => return Some(()),
        };
        loop {
            match stream.read(buffer) {
                Ok(0) => return None,
                Ok(_) if self.appetite == Appetite::Everything => {}
                Ok(_) => return Some(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(()),
                Err(_) => return None,
            }
        }
    }

    /// What it did last, a line each.
    pub(super) fn story(&self) -> String {
        let lines = self.last.iter().map(|line| format!("  {line}\n"));
        format!("{}:\n{}", self.client_id, lines.collect::<String>())
    }
}
