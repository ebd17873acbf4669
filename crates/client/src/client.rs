//! The client itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use stentor_mqtt::{
    Ack, Disconnect, EncodeError, Packet, PacketId, Properties, PropertyBuf, Publish, QoS,
    ReasonCode, Sender, Subscribe, SubscribeFilterBuf, SubscribeOptions, Unsubscribe,
    UnsubscribeFilterBuf, Version, decode, encode, frame,
};

use crate::connack::{self, Accepted};
use crate::error::ClientError;
use crate::flow::{Acknowledged, Flow};
use crate::interrupt::Interrupter;
use crate::message::{Message, Publication};
use crate::options::Options;
use crate::transport::Transport;

/// Bytes of output that wait at most for [`Client::flush`].
const OUTPUT_BYTES: usize = 64 << 10;

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// Time for the server to take note of the end of a connection.
const GOODBYE: Duration = Duration::from_millis(500);

/// A connection to a server.
///
/// Dropping a client closes the connection without DISCONNECT, and the server publishes the will.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    version: Version,
    timeout: Duration,
    packet_bytes_max: u32,
    accepted: Accepted,
    /// Bytes from the server; those before `parsed` are dealt with.
    input: Vec<u8>,
    parsed: usize,
    output: Vec<u8>,
    scratch: Vec<u8>,
    flow: Flow,
    /// Arrived while something else was waited for.
    inbox: VecDeque<Message>,
    /// QoS 2 messages that were handed out and whose PUBREL is to come.
    unreleased: HashSet<u16>,
    /// Topic aliases that the server set.
    aliases: HashMap<u16, String>,
    last_sent: Instant,
    /// When the PINGREQ went that has no answer yet.
    ping_sent: Option<Instant>,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Packet,
    Deadline,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// No connection, or [`ClientError::Refused`].
    pub fn connect(options: &Options) -> Result<Self, ClientError> {
        Self::begin(Transport::connect(options)?, options)
    }

    /// Logs in over a connection that exists, such as the control socket after it was asked for
    /// MQTT.
    /// The options' URL counts only for its user name and password.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn over_unix(stream: UnixStream, options: &Options) -> Result<Self, ClientError> {
        Self::begin(Transport::over_unix(stream, options)?, options)
    }

    fn begin(mut transport: Transport, options: &Options) -> Result<Self, ClientError> {
        let mut input = Vec::new();
        let accepted = connack::connect(&mut transport, options, &mut input)?;
        Ok(Self {
            transport,
            version: options.version,
            timeout: options.timeout,
            packet_bytes_max: options.packet_bytes_max,
            accepted,
            input,
            parsed: 0,
            output: Vec::new(),
            scratch: vec![0; READ_BYTES],
            flow: Flow::default(),
            inbox: VecDeque::new(),
            unreleased: HashSet::new(),
            aliases: HashMap::new(),
            last_sent: Instant::now(),
            ping_sent: None,
        })
    }

    /// What the server said when it let the client in.
    #[must_use]
    pub const fn accepted(&self) -> &Accepted {
        &self.accepted
    }

    /// What ends the waiting of this client from elsewhere.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn interrupter(&self) -> Result<Interrupter, ClientError> {
        self.transport.interrupter()
    }

    /// Goes on where an earlier connection of the same session stopped: messages with QoS 2 that
    /// it handed out and the server has not released are not handed out again [MQTT-4.3.3-10].
    /// Does nothing if the server has lost the session.
    pub fn inherit(&mut self, before: Self) {
        if self.accepted.session_present {
            self.unreleased = before.unreleased;
        }
    }

    /// The protocol version of the connection.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Publishes and waits until the server has taken the message: for nothing at QoS 0, PUBACK at
    /// QoS 1, PUBCOMP at QoS 2. Gives back what the server said about it.
    ///
    /// # Errors
    /// [`ClientError::Rejected`] if the server did not take the message; the connection's end, or
    /// no answer in time.
    pub fn publish(&mut self, publication: &Publication<'_>) -> Result<ReasonCode, ClientError> {
        let Some(id) = self.publish_soon(publication)? else {
            self.flush()?;
            return Ok(ReasonCode::Success);
        };
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.flow.take_settled_of(id) {
                Some(Acknowledged { reason, text }) if reason.is_error() => {
                    return Err(ClientError::Rejected { reason, text });
                }
                Some(Acknowledged { reason, .. }) => return Ok(reason),
                None => self.turn_before(deadline, "acknowledgement")?,
            }
        }
    }

    /// Publishes without waiting for the acknowledgement, which [`settled`](Self::settled) brings
    /// later under the packet identifier given back here; `None` at QoS 0.
    ///
    /// The bytes leave with the next call that waits, [`flush`](Self::flush), or when much has been
    /// gathered. Waits while the server's receive maximum is used up.
    ///
    /// # Errors
    /// The connection's end, or a message that does not fit into a packet;
    /// [`ClientError::Rejected`] for one that the server said at the beginning not to take
    /// ([`Accepted::objection`]), which is not sent.
    pub fn publish_soon(
        &mut self,
        publication: &Publication<'_>,
    ) -> Result<Option<PacketId>, ClientError> {
        if self.version.is_v5()
            && let Some((reason, text)) = self.accepted.objection(publication)
        {
            let text = Some(text);
            return Err(ClientError::Rejected { reason, text });
        }
        if publication.qos != QoS::AtMostOnce {
            self.wait_outstanding(self.accepted.receive_maximum().saturating_sub(1))?;
        }
        let id = match publication.qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(self.flow.begin_qos1()),
            QoS::ExactlyOnce => Some(self.flow.begin_qos2()),
        };
        let packet = Packet::Publish(Publish {
            dup: false,
            qos: publication.qos,
            retain: publication.retain,
            topic: publication.topic,
            packet_id: id,
            properties: self.in_version(&publication.properties),
            payload: publication.payload,
        });
        if let Err(error) = self.put(&packet) {
            if let Some(id) = id {
                self.flow.abandon(id);
            }
            return Err(error);
        }
        if self.output.len() >= OUTPUT_BYTES {
            self.flush()?;
        }
        Ok(id)
    }

    /// Waits until at most `left` packets have no answer yet.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn wait_outstanding(&mut self, left: usize) -> Result<(), ClientError> {
        let mut deadline = Instant::now() + self.timeout;
        let mut outstanding = self.flow.outstanding();
        while outstanding > left {
            self.turn_before(deadline, "acknowledgement")?;
            if self.flow.outstanding() < outstanding {
                outstanding = self.flow.outstanding();
                deadline = Instant::now() + self.timeout;
            }
        }
        Ok(())
    }

    /// The acknowledgements that arrived for messages of [`publish_soon`](Self::publish_soon).
    pub fn settled(&mut self) -> Vec<(PacketId, Acknowledged)> {
        self.flow.take_settled()
    }

    /// Subscribes and waits for the answer: for each filter, in order, the QoS that was granted or
    /// why it was refused.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn subscribe(
        &mut self,
        filters: &[(&str, SubscribeOptions)],
    ) -> Result<Vec<ReasonCode>, ClientError> {
        self.subscribe_with(filters, &PropertyBuf::new())
    }

    /// As [`subscribe`](Self::subscribe), with properties, which are ignored in 3.x.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn subscribe_with(
        &mut self,
        filters: &[(&str, SubscribeOptions)],
        properties: &PropertyBuf,
    ) -> Result<Vec<ReasonCode>, ClientError> {
        let mut buffer = SubscribeFilterBuf::new(self.version);
        for (filter, options) in filters {
            buffer.push(filter, *options)?;
        }
        let packet_id = self.flow.begin_subscribe();
        self.put(&Packet::Subscribe(Subscribe {
            packet_id,
            properties: self.in_version(properties),
            filters: buffer.as_filters(),
        }))?;
        self.wait_answers(packet_id, "SUBACK")
    }

    /// What the server said in words to the last SUBSCRIBE or UNSUBSCRIBE; 5.0 only.
    #[must_use]
    pub fn answer_text(&self) -> Option<&str> {
        self.flow.answer_text.as_deref()
    }

    /// Unsubscribes and waits for the answer: for each filter in order; nothing in 3.x.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn unsubscribe(&mut self, filters: &[&str]) -> Result<Vec<ReasonCode>, ClientError> {
        self.unsubscribe_with(filters, &PropertyBuf::new())
    }

    /// As [`unsubscribe`](Self::unsubscribe), with properties, which are ignored in 3.x.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn unsubscribe_with(
        &mut self,
        filters: &[&str],
        properties: &PropertyBuf,
    ) -> Result<Vec<ReasonCode>, ClientError> {
        let mut buffer = UnsubscribeFilterBuf::new();
        for filter in filters {
            buffer.push(filter)?;
        }
        let packet_id = self.flow.begin_unsubscribe();
        self.put(&Packet::Unsubscribe(Unsubscribe {
            packet_id,
            properties: self.in_version(properties),
            filters: buffer.as_filters(),
        }))?;
        self.wait_answers(packet_id, "UNSUBACK")
    }

    /// The next message; `None` when there is none for this long. Without a limit, waits for ever.
    ///
    /// # Errors
    /// The connection's end.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Message>, ClientError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(message) = self.inbox.pop_front() {
                // The acknowledgement must not wait for the program to come back.
                self.flush()?;
                return Ok(Some(message));
            }
            if self.turn(deadline)? == Turn::Deadline {
                return Ok(None);
            }
        }
    }

    /// Sends PINGREQ and waits for the answer: the time of a round trip.
    ///
    /// # Errors
    /// The connection's end, or no answer in time.
    pub fn ping(&mut self) -> Result<Duration, ClientError> {
        let start = Instant::now();
        self.put(&Packet::PingReq)?;
        self.ping_sent = Some(start);
        while self.ping_sent.is_some() {
            self.turn_before(start + self.timeout, "PINGRESP")?;
        }
        Ok(start.elapsed())
    }

    /// Sends what has been gathered.
    ///
    /// # Errors
    /// The connection's end.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if !self.output.is_empty() {
            self.transport.write_all(&self.output)?;
            self.output.clear();
            self.last_sent = Instant::now();
        }
        Ok(())
    }

    /// Says DISCONNECT and ends the connection; the will is not published.
    ///
    /// # Errors
    /// The connection broke before.
    pub fn disconnect(self) -> Result<(), ClientError> {
        self.disconnect_with(ReasonCode::Success, &PropertyBuf::new())
    }

    /// Ends the connection for a reason. 3.x knows no reasons: any but `Success` closes without
    /// DISCONNECT, and so publishes the will. Waits for the server's end, but not for long: leaving
    /// with bytes unread would make the kernel throw away what has just been sent.
    ///
    /// # Errors
    /// The connection broke before.
    pub fn disconnect_with(
        mut self,
        reason: ReasonCode,
        properties: &PropertyBuf,
    ) -> Result<(), ClientError> {
        if self.version.is_v5() || reason == ReasonCode::Success {
            let properties = self.in_version(properties);
            self.put(&Packet::Disconnect(Disconnect { reason, properties }))?;
        }
        self.flush()?;
        self.transport.close();
        let deadline = Instant::now() + GOODBYE;
        let mut rest = vec![0; READ_BYTES];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero()
                || !matches!(self.transport.read(&mut rest, Some(left)), Ok(Some(1..)))
            {
                return Ok(());
            }
        }
    }

    fn in_version<'a>(&self, properties: &'a PropertyBuf) -> Properties<'a> {
        if self.version.is_v5() {
            properties.as_properties()
        } else {
            Properties::EMPTY
        }
    }

    /// Appends a packet to the output, unless it is larger than the server takes [MQTT-3.2.2-15].
    fn put(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        let before = self.output.len();
        encode(self.version, packet, &mut self.output)?;
        let (bytes, limit) = (self.output.len() - before, self.accepted.packet_bytes_max());
        if bytes > limit {
            self.output.truncate(before);
            let reason = ReasonCode::PacketTooLarge;
            let text = format!("{bytes} bytes, and the server takes {limit}");
            return Err(ClientError::Rejected {
                reason,
                text: Some(text),
            });
        }
        Ok(())
    }

    fn wait_answers(
        &mut self,
        id: PacketId,
        what: &'static str,
    ) -> Result<Vec<ReasonCode>, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(answers) = self.flow.take_answers(id) {
                return Ok(answers);
            }
            self.turn_before(deadline, what)?;
        }
    }

    fn turn_before(&mut self, deadline: Instant, what: &'static str) -> Result<(), ClientError> {
        match self.turn(Some(deadline))? {
            Turn::Packet => Ok(()),
            Turn::Deadline => Err(ClientError::Timeout(what)),
        }
    }

    /// Deals with one packet, waiting for it until the deadline.
    fn turn(&mut self, deadline: Option<Instant>) -> Result<Turn, ClientError> {
        loop {
            if self.handle_next()? {
                return Ok(Turn::Packet);
            }
            let ping_at = self.keep_alive(Instant::now())?;
            self.flush()?;
            let wake = [deadline, ping_at].into_iter().flatten().min();
            let left = wake.map(|at| at.saturating_duration_since(Instant::now()));
            match self.transport.read(&mut self.scratch, left)? {
                Some(0) => return Err(ClientError::Closed),
                Some(read) => self.input.extend_from_slice(&self.scratch[..read]),
                None if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Ok(Turn::Deadline);
                }
                None => {}
            }
        }
    }

    /// Pings when it is time to; says when to come back [MQTT-3.1.2-20].
    fn keep_alive(&mut self, now: Instant) -> Result<Option<Instant>, ClientError> {
        let interval = Duration::from_secs(self.accepted.keep_alive_secs.into());
        if interval.is_zero() {
            return Ok(None);
        }
        if let Some(sent) = self.ping_sent {
            return if now >= sent + interval {
                Err(ClientError::Timeout("PINGRESP"))
            } else {
                Ok(Some(sent + interval))
            };
        }
        if !self.output.is_empty() || now < self.last_sent + interval {
            return Ok(Some(self.last_sent + interval));
        }
        self.put(&Packet::PingReq)?;
        self.ping_sent = Some(now);
        Ok(Some(now + interval))
    }

    /// Deals with the first packet of the input, if all of it is there.
    fn handle_next(&mut self) -> Result<bool, ClientError> {
        let input = std::mem::take(&mut self.input);
        let result = self.handle_first(&input[self.parsed..]);
        self.input = input;
        match result {
            Ok(Some(bytes)) => {
                self.parsed += bytes;
                Ok(true)
            }
            Ok(None) => {
                self.input.drain(..self.parsed);
                self.parsed = 0;
                Ok(false)
            }
            Err(error) => {
                self.complain(&error);
                Err(error)
            }
        }
    }

    fn handle_first(&mut self, input: &[u8]) -> Result<Option<usize>, ClientError> {
        let Some(frame) = frame(input, self.packet_bytes_max)? else {
            return Ok(None);
        };
        frame.check(self.version)?;
        let body = &input[frame.header_len..frame.total_len];
        let packet = decode(self.version, Sender::Server, frame.first, body)?;
        self.handle(&packet)?;
        Ok(Some(frame.total_len))
    }

    fn handle(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        match packet {
            Packet::Publish(publish) => self.handle_publish(publish),
            Packet::PubAck(ack) => {
                self.flow.pub_ack(ack);
                Ok(())
            }
            Packet::PubRec(ack) if self.flow.pub_rec(ack) => {
                self.put(&Packet::PubRel(answer(ack.packet_id, ReasonCode::Success)))
            }
            Packet::PubRec(_) => Ok(()),
            Packet::PubRel(ack) => self.handle_release(ack.packet_id),
            Packet::PubComp(ack) => {
                self.flow.pub_comp(ack);
                Ok(())
            }
            Packet::SubAck(ack) => {
                self.flow.sub_ack(ack);
                Ok(())
            }
            Packet::UnsubAck(ack) => {
                self.flow.unsub_ack(ack);
                Ok(())
            }
            Packet::PingResp => {
                self.ping_sent = None;
                Ok(())
            }
            Packet::Disconnect(Disconnect { reason, properties }) => {
                Err(ClientError::Disconnected {
                    reason: *reason,
                    text: properties.reason_string().map(str::to_owned),
                })
            }
            other => Err(ClientError::Unexpected(other.name())),
        }
    }

    fn handle_publish(&mut self, publish: &Publish<'_>) -> Result<(), ClientError> {
        let topic = self.topic_of(publish)?;
        match (publish.qos, publish.packet_id) {
            (QoS::ExactlyOnce, Some(id)) => {
                self.put(&Packet::PubRec(answer(id, ReasonCode::Success)))?;
                // Until PUBREL, the same identifier is the same message [MQTT-4.3.3-10].
                if !self.unreleased.insert(id.get()) {
                    return Ok(());
                }
            }
            (QoS::AtLeastOnce, Some(id)) => {
                self.put(&Packet::PubAck(answer(id, ReasonCode::Success)))?;
            }
            _ => {}
        }
        let mut properties = PropertyBuf::new();
        properties.extend(publish.properties);
        self.inbox.push_back(Message {
            topic,
            payload: publish.payload.to_vec(),
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            packet_id: publish.packet_id.map(PacketId::get),
            properties,
        });
        Ok(())
    }

    /// Looks up and remembers topic aliases [MQTT-3.3.2-7].
    fn topic_of(&mut self, publish: &Publish<'_>) -> Result<String, ClientError> {
        let Some(alias) = publish.properties.topic_alias() else {
            return Ok(publish.topic.to_owned());
        };
        if !publish.topic.is_empty() {
            self.aliases.insert(alias, publish.topic.to_owned());
            return Ok(publish.topic.to_owned());
        }
        let known = self.aliases.get(&alias).cloned();
        known.ok_or(ClientError::Unexpected("a topic alias that it has not set"))
    }

    fn handle_release(&mut self, id: PacketId) -> Result<(), ClientError> {
        let reason = if self.unreleased.remove(&id.get()) {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdentifierNotFound
        };
        self.put(&Packet::PubComp(answer(id, reason)))
    }

    /// Tells a 5.0 server what it did wrong [MQTT-4.13.1-1], if it still listens.
    fn complain(&mut self, error: &ClientError) {
        let reason = match error {
            ClientError::Decode(error) => error.reason(),
            ClientError::Unexpected(_) => ReasonCode::ProtocolError,
            _ => return,
        };
        let properties = Properties::EMPTY;
        let final_output = Packet::Disconnect(Disconnect { reason, properties });
        let sent: Result<(), EncodeError> = encode(self.version, &final_output, &mut self.output);
        if self.version.is_v5() && sent.is_ok() {
            // The connection ends either way.
            let _ = self.flush();
        }
    }
}

const fn answer(packet_id: PacketId, reason: ReasonCode) -> Ack<'static> {
    Ack {
        packet_id,
        reason,
        properties: Properties::EMPTY,
    }
}
