//! An MQTT client that writes bytes as it is told, right or wrong.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::DEADLINE;

/// How long a thread parks between two questions of a wait, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The protocol version that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// MQTT 3.1.1.
    V4,
    /// MQTT 5.0.
    V5,
}

/// Both versions, for tests that go through them.
pub const VERSIONS: [Version; 2] = [Version::V4, Version::V5];

/// One control packet as it came: its first byte and its body.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// Packet type and flags.
    pub first: u8,
    /// What follows the remaining length.
    pub body: Vec<u8>,
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of a long payload says nothing.
        let shown = &self.body[..self.body.len().min(80)];
        let (first, length) = (self.first, self.body.len());
        write!(
            f,
            "packet {first:#04x} of {length}: {}",
            shown.escape_ascii()
        )
    }
}

impl Packet {
    /// The packet type: 2 for CONNACK and so on.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.first >> 4
    }

    /// The topic and payload of a PUBLISH.
    ///
    /// # Panics
    /// If the packet is another one.
    #[must_use]
    #[track_caller]
    pub fn message(&self, version: Version) -> (String, Vec<u8>) {
        assert_eq!(self.kind(), 3, "a PUBLISH was expected: {self:?}");
        let length = usize::from(u16::from_be_bytes([self.body[0], self.body[1]]));
        let topic = String::from_utf8(self.body[2..2 + length].to_vec()).expect("topics are UTF-8");
        let mut at = 2 + length;
        if self.first & 0x06 != 0 {
            at += 2;
        }
        if version == Version::V5 {
            // The tests publish few properties, so their length takes one byte.
            at += 1 + usize::from(self.body[at]);
        }
        (topic, self.body[at..].to_vec())
    }
}

trait Stream: Read + Write + Send {
    fn patience(&self, patience: Duration) -> io::Result<()>;
    fn half_close(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }

    fn half_close(&self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

impl Stream for UnixStream {
    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }

    fn half_close(&self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

/// A connection with a buffer of what came and was not looked at yet.
pub struct Raw {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    version: Version,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Raw {
    /// Connects to a TCP port.
    ///
    /// # Panics
    /// If nobody answers.
    #[must_use]
    #[track_caller]
    pub fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("{address} cannot be reached: {error}"));
        Self::over_tcp(stream)
    }

    /// Connects to a TCP port from another address of this machine, such as 127.0.0.2.
    ///
    /// # Panics
    /// If nobody answers, or the machine does not have that address.
    #[must_use]
    #[track_caller]
    pub fn tcp_from(own: Ipv4Addr, address: &str) -> Self {
        let remote: SocketAddr = address.parse().expect("an address and a port");
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((own, 0)).into())?;
            socket.connect(&remote.into())?;
            io::Result::Ok(socket)
        };
        let socket = connect()
            .unwrap_or_else(|error| panic!("{address} cannot be reached from {own}: {error}"));
        Self::over_tcp(socket.into())
    }

    fn over_tcp(stream: TcpStream) -> Self {
        // A lost packet of a few bytes must not wait for an acknowledgement.
        stream.set_nodelay(true).expect("a socket takes options");
        Self::over(stream)
    }

    /// Connects to a Unix socket.
    ///
    /// # Panics
    /// If nobody answers.
    #[must_use]
    #[track_caller]
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path)
            .unwrap_or_else(|error| panic!("{} cannot be reached: {error}", path.display()));
        Self::over(stream)
    }

    fn over(stream: impl Stream + 'static) -> Self {
        stream
            .patience(DEADLINE)
            .expect("a socket takes time limits");
        Self {
            stream: Box::new(stream),
            input: Vec::new(),
            version: Version::V4,
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .expect("the server takes bytes");
    }

    /// Sends bytes to a server that may have closed the connection already.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Tells the server that nothing more will come, and goes on reading.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn half_close(&self) {
        self.stream
            .half_close()
            .expect("a connection can be closed");
    }

    /// As [`Self::half_close`], to a server that may have closed the connection already.
    pub fn half_close_softly(&self) {
        // An error says that the server was faster.
        let _ = self.stream.half_close();
    }

    /// The next packet, or nothing if the server closed the connection.
    ///
    /// # Panics
    /// If neither comes in time.
    #[track_caller]
    pub fn try_receive(&mut self) -> Option<Packet> {
        loop {
            if let Some((packet, length)) = split(&self.input) {
                self.input.drain(..length);
                return Some(packet);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The next packet.
    ///
    /// # Panics
    /// If the server closes the connection, or nothing comes in time.
    #[must_use]
    #[track_caller]
    pub fn receive(&mut self) -> Packet {
        self.try_receive()
            .expect("the server was not to close the connection")
    }

    /// The next packet, which has to be of that type.
    ///
    /// # Panics
    /// If it is another one, or none comes.
    #[track_caller]
    pub fn expect(&mut self, kind: u8) -> Packet {
        let packet = self.receive();
        assert_eq!(packet.kind(), kind, "another packet came: {packet:?}");
        packet
    }

    /// Everything up to the end of the connection, packets or not.
    ///
    /// # Panics
    /// If the server does not close in time.
    #[must_use]
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.input)
    }

    /// Asserts that the server closes the connection, whatever it says before.
    #[track_caller]
    pub fn closed(&mut self) {
        let _ = self.rest();
    }

    /// Everything up to and including a marker.
    ///
    /// # Panics
    /// If the marker does not come.
    #[must_use]
    #[track_caller]
    pub fn until(&mut self, marker: &[u8]) -> Vec<u8> {
        loop {
            let found = self
                .input
                .windows(marker.len())
                .position(|window| window == marker);
            if let Some(start) = found {
                return self.input.drain(..start + marker.len()).collect();
            }
            assert!(self.fill(), "closed before {marker:?}: {:?}", self.input);
        }
    }

    /// Reads once; false at the end of the connection.
    #[track_caller]
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.input.extend_from_slice(&buffer[..length]);
                true
            }
            // A reset is how the system says that the server closed with input unread.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ) =>
            {
                false
            }
            Err(error) => panic!("nothing came from the server: {error}"),
        }
    }

    /// Logs in and returns the CONNACK.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn login(&mut self, version: Version, client_id: &str, clean: bool) -> Packet {
        self.version = version;
        self.send(&connect(version, client_id, clean));
        let answer = self.expect(2);
        assert_eq!(
            answer.body[1], 0,
            "the server refused the login: {answer:?}"
        );
        answer
    }

    /// Speaks another version from here on; for tests that wrote their CONNECT themselves.
    pub fn speaks(&mut self, version: Version) {
        self.version = version;
    }

    /// Subscribes and waits for the acknowledgement.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn subscribe(&mut self, filter: &str, qos: u8) {
        self.send(&subscribe(self.version, 1, filter, qos));
        let answer = self.expect(9);
        assert_eq!(
            answer.body.last(),
            Some(&qos),
            "the server refused {filter}: {answer:?}"
        );
    }

    /// Publishes with QoS 0.
    #[track_caller]
    pub fn publish(&mut self, topic: &str, payload: &[u8]) {
        self.send(&publish(self.version, topic, payload, 0, false));
    }

    /// Publishes with QoS 1 and waits for the acknowledgement: every subscriber's queue has the
    /// message then.
    #[track_caller]
    pub fn publish_surely(&mut self, topic: &str, payload: &[u8]) {
        self.send(&publish(self.version, topic, payload, 1, false));
        self.expect(4);
    }

    /// The topic and payload of the next packet, which has to be a PUBLISH.
    #[must_use]
    #[track_caller]
    pub fn message(&mut self) -> (String, Vec<u8>) {
        let version = self.version;
        self.expect(3).message(version)
    }

    /// Asserts that the connection works in both directions, whatever messages come before.
    #[track_caller]
    pub fn ping_among_messages(&mut self) {
        self.send(&packet(0xC0, &[]));
        loop {
            match self.receive().kind() {
                13 => return,
                3 => {}
                kind => panic!("a packet of type {kind} instead of PINGRESP"),
            }
        }
    }

    /// Asserts that the connection works in both directions.
    #[track_caller]
    pub fn ping(&mut self) {
        self.send(&[0xC0, 0]);
        self.expect(13);
    }
}

fn split(input: &[u8]) -> Option<(Packet, usize)> {
    let mut length = 0;
    for (index, byte) in input.get(1..)?.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let start = index + 2;
            let body = input.get(start..start + length)?.to_vec();
            return Some((
                Packet {
                    first: input[0],
                    body,
                },
                start + length,
            ));
        }
    }
    None
}

/// A packet with its remaining length.
#[must_use]
pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    bytes.extend(remaining_length(body.len()));
    bytes.extend_from_slice(body);
    bytes
}

/// A remaining length as it goes over the wire.
///
/// # Panics
/// If it is more than the 268,435,455 that the protocol knows.
#[must_use]
pub fn remaining_length(mut length: usize) -> Vec<u8> {
    assert!(length < 1 << 28, "{length} bytes do not fit into a packet");
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(length & 0x7F).expect("seven bits fit");
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A string with its length.
///
/// # Panics
/// If it is longer than 65,535 bytes.
#[must_use]
pub fn string(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("strings are short");
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A CONNECT without a user name and without a keep alive.
#[must_use]
pub fn connect(version: Version, client_id: &str, clean: bool) -> Vec<u8> {
    connect_as(version, client_id, clean, None)
}

/// A CONNECT, possibly with user name and password. A session that is not clean lives for an hour
/// in MQTT 5.
#[must_use]
pub fn connect_as(
    version: Version,
    client_id: &str,
    clean: bool,
    login: Option<(&str, &str)>,
) -> Vec<u8> {
    let mut body = string("MQTT");
    body.push(if version == Version::V5 { 5 } else { 4 });
    body.push(u8::from(clean) << 1 | if login.is_some() { 0xC0 } else { 0 });
    body.extend([0, 0]);
    match (version, clean) {
        (Version::V4, _) => {}
        (Version::V5, true) => body.push(0),
        (Version::V5, false) => body.extend([5, 0x11, 0, 0, 0x0E, 0x10]),
    }
    body.extend(string(client_id));
    if let Some((user, password)) = login {
        body.extend(string(user));
        body.extend(string(password));
    }
    packet(0x10, &body)
}

/// An MQTT 5 CONNECT with a will of QoS 0 that says `gone`.
#[must_use]
pub fn connect_with_will(client_id: &str, topic: &str) -> Vec<u8> {
    let head = [&string("MQTT")[..], &[5, 0b0000_0110, 0, 0, 0]].concat();
    let will = [&[0][..], &string(topic), &string("gone")].concat();
    packet(0x10, &[&head[..], &string(client_id), &will].concat())
}

/// A SUBSCRIBE with one filter.
#[must_use]
pub fn subscribe(version: Version, packet_id: u16, filter: &str, qos: u8) -> Vec<u8> {
    let mut body = packet_id.to_be_bytes().to_vec();
    if version == Version::V5 {
        body.push(0);
    }
    body.extend(string(filter));
    body.push(qos);
    packet(0x82, &body)
}

/// A PUBLISH; one with a QoS above 0 has packet id 1.
#[must_use]
pub fn publish(version: Version, topic: &str, payload: &[u8], qos: u8, retain: bool) -> Vec<u8> {
    let mut body = string(topic);
    if qos > 0 {
        body.extend([0, 1]);
    }
    if version == Version::V5 {
        body.push(0);
    }
    body.extend_from_slice(payload);
    packet(0x30 | qos << 1 | u8::from(retain), &body)
}

/// Waits for a condition that nothing announces, by asking again and again.
///
/// # Panics
/// If it does not come to hold in time.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_in_time(holds), "{what} did not come to hold");
}

/// Whether a condition that nothing announces comes to hold in time. Between two questions the
/// thread parks, 1 ms at first and up to 20 ms later: it leaves the processor to the server that
/// it waits for, and no test relies on the length.
#[must_use]
pub fn holds_in_time(mut holds: impl FnMut() -> bool) -> bool {
    let (end, mut pause) = (Instant::now() + DEADLINE, PAUSE_MIN);
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::park_timeout(pause);
        pause = PAUSE_MAX.min(pause * 2);
    }
    true
}
