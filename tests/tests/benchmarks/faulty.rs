//! A server that relays MQTT 3.1.1, at QoS 0 whatever it is asked for, and does it badly.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// What it does wrong, counted in messages published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// One of so many reaches nobody.
    Loses { every: u64 },
    /// One of so many is sent twice.
    Repeats { every: u64 },
    /// One of so many is sent after the one of the same publisher that follows it.
    Swaps { every: u64 },
    /// One of so many has another byte in the middle of what it carries.
    Damages { every: u64 },
    /// After so many, it delivers no more.
    Stalls { after: u64 },
    /// After so many, it reads no more of who sent the last one.
    Chokes { after: u64 },
    /// After so many, it closes all connections.
    Dies { after: u64 },
    /// It closes each connection so long after its SUBACK, from this subscription on.
    Leaves { from: u64, millis: u64 },
    /// It grants what it is asked for, but one of so many gets this code. Messages go out at QoS 0
    /// all the same.
    Grants { every: u64, code: u8 },
    /// It answers each subscription twice.
    Stutters,
    /// It delivers everything so much later.
    Late { millis: u64 },
    /// It does its work, and tells the test after so many.
    Tells { after: u64 },
}

#[derive(Default)]
struct State {
    subscribers: HashMap<Vec<u8>, Vec<TcpStream>>,
    /// Of all topics.
    published: u64,
    /// Of all clients.
    subscriptions: u64,
    /// What is to be sent behind the next message of its topic.
    held: HashMap<Vec<u8>, Vec<u8>>,
    connections: Vec<TcpStream>,
    is_dead: bool,
}

/// A message that is due later: when, its topic, and the packet.
type Late = (Instant, Vec<u8>, Vec<u8>);

struct Relay {
    fault: Fault,
    state: Mutex<State>,
    late: Mutex<mpsc::Sender<Late>>,
    told: Mutex<mpsc::Sender<()>>,
}

/// The server. It listens until the test's process ends.
pub(crate) struct Faulty {
    port: u16,
    told: mpsc::Receiver<()>,
}

impl Faulty {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (late, to_deliver) = mpsc::channel::<Late>();
        let (tell, told) = mpsc::channel();
        let relay = Arc::new(Relay {
            fault,
            state: Mutex::default(),
            late: Mutex::new(late),
            told: Mutex::new(tell),
        });
        let later = Arc::clone(&relay);
        thread::spawn(move || {
            for (due, topic, packet) in to_deliver {
                while let Some(rest) = due.checked_duration_since(Instant::now()) {
                    thread::park_timeout(rest);
                }
                Relay::deliver(&mut later.state.lock().unwrap(), &topic, &packet);
            }
        });
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let relay = Arc::clone(&relay);
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || relay.serve(stream));
            }
        });
        Self { port, told }
    }

    /// Waits until it has something to tell.
    pub(crate) fn wait(&self) {
        self.told.recv_timeout(stentor_tests::DEADLINE).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }
}

impl Relay {
    /// Until the client leaves.
    fn serve(&self, mut stream: TcpStream) {
        {
            let mut state = self.state.lock().unwrap();
            if state.is_dead {
                return;
            }
            state.connections.push(stream.try_clone().unwrap());
        }
        while let Ok((first, body)) = read(&mut stream) {
            let answered = match first >> 4 {
                1 => stream.write_all(&[0x20, 2, 0, 0]),
                3 => {
                    let taken = self.take(&mut stream, first, body);
                    self.choke();
                    taken
                }
                8 => {
                    let code = self.subscribe(&stream, &body);
                    self.leave(&stream);
                    let suback = [0x90, 3, body[0], body[1], code];
                    let times = if self.fault == Fault::Stutters { 2 } else { 1 };
                    stream.write_all(&suback.repeat(times))
                }
                12 => stream.write_all(&[0xd0, 0]),
                _ => return,
            };
            if answered.is_err() {
                return;
            }
        }
    }

    /// The code of the SUBACK.
    fn subscribe(&self, stream: &TcpStream, body: &[u8]) -> u8 {
        let (filter, options) = text(&body[2..]);
        let stream = stream.try_clone().unwrap();
        let mut state = self.state.lock().unwrap();
        state.subscribers.entry(filter).or_default().push(stream);
        state.subscriptions += 1;
        match self.fault {
            Fault::Grants { every, code } if state.subscriptions.is_multiple_of(every) => code,
            Fault::Grants { .. } => options[0],
            _ => 0,
        }
    }

    fn choke(&self) {
        if let Fault::Chokes { after } = self.fault {
            let is_full = self.state.lock().unwrap().published >= after;
            if is_full {
                loop {
                    thread::park();
                }
            }
        }
    }

    fn leave(&self, stream: &TcpStream) {
        if let Fault::Leaves { from, millis } = self.fault {
            if self.state.lock().unwrap().subscriptions < from {
                return;
            }
            let stream = stream.try_clone().unwrap();
            let due = Instant::now() + Duration::from_millis(millis);
            thread::spawn(move || {
                while let Some(rest) = due.checked_duration_since(Instant::now()) {
                    thread::park_timeout(rest);
                }
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    }

    /// A message, acknowledged if its publisher waits for that.
    fn take(&self, stream: &mut TcpStream, first: u8, mut body: Vec<u8>) -> io::Result<()> {
        if first & 0x06 == 0 {
            self.publish(first, &body);
            return Ok(());
        }
        let (topic, _) = text(&body);
        let at = 2 + topic.len();
        let id: Vec<u8> = body.drain(at..at + 2).collect();
        stream.write_all(&[0x40, 2, id[0], id[1]])?;
        self.publish(first & !0x06, &body);
        Ok(())
    }

    fn publish(&self, first: u8, body: &[u8]) {
        let (topic, _) = text(body);
        let mut packet = vec![first];
        packet.extend(stentor_tests::raw::remaining_length(body.len()));
        packet.extend_from_slice(body);
        let mut state = self.state.lock().unwrap();
        state.published += 1;
        let number = state.published;
        match self.fault {
            Fault::Loses { every } if number.is_multiple_of(every) => {}
            Fault::Stalls { after } if number > after => {}
            Fault::Dies { after } if number > after => {
                state.is_dead = true;
                for connection in state.connections.drain(..) {
                    let _ = connection.shutdown(Shutdown::Both);
                }
            }
            Fault::Swaps { every } if number.is_multiple_of(every) => {
                state.held.insert(topic, packet);
            }
            Fault::Late { millis } => {
                let due = Instant::now() + Duration::from_millis(millis);
                let late = self.late.lock().unwrap();
                late.send((due, topic, packet)).unwrap();
            }
            fault => {
                if fault == (Fault::Tells { after: number }) {
                    // A test that does not listen does not want to know.
                    let _ = self.told.lock().unwrap().send(());
                }
                if matches!(fault, Fault::Damages { every } if number.is_multiple_of(every)) {
                    // The topic, with its length, comes before the payload.
                    let payload = packet.len() - (body.len() - 2 - topic.len());
                    let middle = payload.midpoint(packet.len());
                    packet[middle] ^= 0x20;
                }
                Self::deliver(&mut state, &topic, &packet);
                if matches!(fault, Fault::Repeats { every } if number.is_multiple_of(every)) {
                    Self::deliver(&mut state, &topic, &packet);
                }
                if let Some(held) = state.held.remove(&topic) {
                    Self::deliver(&mut state, &topic, &held);
                }
            }
        }
    }

    fn deliver(state: &mut State, topic: &[u8], packet: &[u8]) {
        let matches = |filter: &[u8]| match filter.strip_suffix(b"#") {
            Some(front) => topic.starts_with(front),
            None => filter == topic,
        };
        let each = state.subscribers.iter_mut();
        let each = each.filter(|(filter, _)| matches(filter));
        for stream in each.flat_map(|(_, streams)| streams) {
            // A client that has left misses it.
            let _ = stream.write_all(packet);
        }
    }
}

/// A packet: its first byte and its body.
pub(crate) fn read(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    let first = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((first, body))
}

/// A string with its length before it, and what follows.
fn text(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let (text, rest) = bytes[2..].split_at(length);
    (text.to_vec(), rest)
}
