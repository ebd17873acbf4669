//! Copying the retained messages of another running broker.
//!
//! A broker that is asked for everything at QoS 1 or 2 may drop what its queue for one client has
//! no room for, and says nothing. So the topics are listed first, at QoS 0, where nothing waits
//! for acknowledgements, and read as fast as they come; then each message is asked for by its
//! topic, few at a time, with its QoS. In the end the list is read again.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stentor_client::{
    Client, ClientError, Message, Options, Property, PropertyBuf, QoS, ReasonCode, SubscribeOptions,
};
use stentor_server::properties_json;

use super::import::Sink;
use crate::failure::Failure;

/// Topics that are asked for at a time: fewer than any broker's queue has room for.
const BATCH: usize = 100;
/// Bytes of topics in one SUBSCRIBE.
const BATCH_BYTES: usize = 32 << 10;
/// How often the list is read, while it goes on having more.
const LISTS_MAX: usize = 5;
/// Where brokers that tell say how many retained messages they have, their own included.
const COUNT_TOPIC: &str = "$SYS/broker/retained messages/count";
/// Where they say how many messages found no room in a client's queue.
const DROPPED_TOPIC: &str = "$SYS/broker/publish/messages/dropped";
/// What changes whenever they say how they are.
const TICK_TOPIC: &str = "$SYS/broker/uptime";
/// Where they say what they are.
const VERSION_TOPIC: &str = "$SYS/broker/version";
/// What a Stentor says there.
const STENTOR: &[u8] = b"stentor ";
/// What is asked for beside the messages to be copied.
const OWN_TOPICS: [&str; 3] = [DROPPED_TOPIC, TICK_TOPIC, VERSION_TOPIC];
const OWN_FILTER: &str = "$SYS/#";
/// Messages of the broker's own that may be counted and have expired.
const OWN_MAX: u64 = 64;
/// How often a broker says how it is, at least: every ten seconds by default.
const TICK_TIME: Duration = Duration::from_secs(12);

/// What a copy came to.
#[derive(Debug)]
pub(super) struct Copied {
    /// Messages that came.
    found: usize,
    /// Topics that were listed, and their messages did not come.
    silent: Vec<String>,
    /// Messages that the other broker has, if that is more than were listed.
    said: Option<u64>,
    /// The list went on having more.
    is_restless: bool,
}

impl Copied {
    /// Why the copy may not be complete, and what to do.
    pub(super) fn missing(&self) -> Option<String> {
        let found = self.found;
        if let Some(said) = self.said {
            return Some(format!(
                "the copy is not complete: the other broker has at least {said} retained messages \
                 and sent {found}; copy it in parts with --filter, or raise what its queue for one \
                 client takes (mosquitto: max_queued_messages 0)"
            ));
        }
        if let Some(topic) = self.silent.first() {
            return Some(format!(
                "the copy is not complete: {} topics, {topic:?} for one, have messages that did not \
                 come; try again with a larger --idle",
                self.silent.len()
            ));
        }
        self.is_restless.then(|| {
            format!(
                "the copy may not be complete: {found} messages came, and each of {LISTS_MAX} looks \
                 at the other broker showed topics that the one before had not; run it again"
            )
        })
    }
}

/// Why a copy ended.
pub(super) enum Stopped {
    Client(ClientError),
    /// The other broker does not let this user subscribe.
    Refused(String, ReasonCode),
    Store(Failure),
}

impl From<ClientError> for Stopped {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl Stopped {
    pub(super) fn told(self, options: &Options) -> Failure {
        match self {
            Self::Client(error) => Failure::client(&error, options.version),
            Self::Refused(filter, reason) => Failure::new(format!(
                "the other broker refuses the subscription to {filter:?}: {reason}"
            )),
            Self::Store(failure) => failure,
        }
    }
}

/// Copies what matches a filter into the sink. Everything has come when nothing does for `idle`.
pub(super) fn copy(
    options: &Options,
    filter: &str,
    idle: Duration,
    sink: &mut Sink,
) -> Result<Copied, Stopped> {
    let mut source = Source::open(options, idle)?;
    let mut asked: HashSet<String> = HashSet::new();
    let mut copied = Copied {
        found: 0,
        silent: Vec::new(),
        said: None,
        is_restless: true,
    };
    for _ in 0..LISTS_MAX {
        let list = source.list(filter)?;
        // A topic that is silent and still listed is asked for again.
        let silent: HashSet<String> = copied.silent.drain(..).collect();
        let again = |topic: &String| !asked.contains(topic) || silent.contains(topic);
        let news: Vec<String> = list.iter().filter(|topic| again(topic)).cloned().collect();
        if news.is_empty() {
            copied.is_restless = false;
            copied.said = source.said(filter, list.len() as u64)?;
            break;
        }
        for batch in batches(&news) {
            let silent = source.fetch(batch, sink)?;
            copied.found += batch.len() - silent.len();
            copied.silent.extend(silent);
        }
        asked.extend(news);
    }
    source.client.disconnect()?;
    Ok(copied)
}

/// Slices of topics that fit into one SUBSCRIBE each.
fn batches(mut topics: &[String]) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |topic: &&String| {
            bytes += topic.len();
            bytes <= BATCH_BYTES
        };
        let count = topics.iter().take(BATCH).take_while(fits).count();
        let (batch, rest) = topics.split_at(count.max(1).min(topics.len()));
        topics = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The other broker.
struct Source {
    client: Client,
    idle: Duration,
    /// It says how it is.
    tells: bool,
    /// It drops no retained message that was asked for: what its queue has no room for waits.
    drops_nothing: bool,
    /// It has said since the copy began that it drops messages.
    drops: bool,
    /// It has said how it is since this was last cleared.
    has_ticked: bool,
}

impl Source {
    fn open(options: &Options, idle: Duration) -> Result<Self, Stopped> {
        let mut source = Self {
            client: Client::connect(options)?,
            idle,
            tells: false,
            drops_nothing: false,
            drops: false,
            has_ticked: false,
        };
        let filters = OWN_TOPICS.map(str::to_owned);
        match source.subscribe(&filters, QoS::AtMostOnce) {
            // Not everybody may see that.
            Err(Stopped::Refused(..)) => {}
            answered => answered?,
        }
        Ok(source)
    }

    fn subscribe(&mut self, filters: &[String], qos: QoS) -> Result<(), Stopped> {
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        let wanted: Vec<_> = filters
            .iter()
            .map(|filter| (filter.as_str(), options))
            .collect();
        let granted = self.client.subscribe(&wanted)?;
        let refused = granted.iter().position(|reason| reason.is_error());
        match refused {
            Some(at) => Err(Stopped::Refused(filters[at].clone(), granted[at])),
            None => Ok(()),
        }
    }

    fn unsubscribe(&mut self, filters: &[String]) -> Result<(), Stopped> {
        let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
        self.client.unsubscribe(&filters)?;
        Ok(())
    }

    /// The next message within some time.
    fn next(&mut self, patience: Duration) -> Result<Option<Message>, Stopped> {
        let message = self.client.receive(Some(patience))?;
        if let Some(message) = &message {
            let is_live = !message.retain;
            self.tells |= message.topic == TICK_TOPIC;
            self.drops_nothing |=
                message.topic == VERSION_TOPIC && message.payload.starts_with(STENTOR);
            self.has_ticked |= is_live && message.topic == TICK_TOPIC;
            self.drops |= is_live && message.topic == DROPPED_TOPIC;
        }
        Ok(message)
    }

    /// Calls `each` with every retained message that comes, until it says that this was the last
    /// or none comes for a while. A message that is published in the meantime does not count.
    fn receive(
        &mut self,
        mut each: impl FnMut(Message) -> Result<bool, Failure>,
    ) -> Result<(), Stopped> {
        let mut last_at = Instant::now();
        while last_at.elapsed() < self.idle {
            let patience = self.idle.saturating_sub(last_at.elapsed());
            let Some(message) = self.next(patience)? else {
                break;
            };
            if message.retain {
                last_at = Instant::now();
                if each(message)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The topics with a retained message that match a filter, as far as they come.
    fn list(&mut self, filter: &str) -> Result<HashSet<String>, Stopped> {
        let mut topics = HashSet::new();
        let filters = [filter.to_owned()];
        let is_own = |topic: &str| OWN_TOPICS.contains(&topic);
        self.subscribe(&filters, QoS::AtMostOnce)?;
        self.receive(|message| {
            if !is_own(&message.topic) {
                topics.insert(message.topic);
            }
            Ok(false)
        })?;
        self.unsubscribe(&filters)?;
        Ok(topics)
    }

    /// Asks for the messages of some topics; those that do not come.
    fn fetch(&mut self, topics: &[String], sink: &mut Sink) -> Result<Vec<String>, Stopped> {
        let mut missing: HashSet<&str> = topics.iter().map(String::as_str).collect();
        self.subscribe(topics, QoS::ExactlyOnce)?;
        self.receive(|message| {
            if missing.remove(message.topic.as_str()) {
                sink.push(line_of(&message), 0)?;
            }
            Ok(missing.is_empty())
        })?;
        self.unsubscribe(topics)?;
        Ok(missing.into_iter().map(str::to_owned).collect())
    }

    /// How many retained messages the other broker says it has, if it says so and dropped some, or
    /// has many more than were listed.
    fn said(&mut self, filter: &str, listed: u64) -> Result<Option<u64>, Stopped> {
        if !self.tells || self.drops_nothing {
            return Ok(None);
        }
        // What it has dropped by now is in what it says next.
        self.has_ticked = false;
        let until = Instant::now() + TICK_TIME;
        while !self.has_ticked && Instant::now() < until {
            self.next(until.saturating_duration_since(Instant::now()))?;
        }
        if filter != "#" {
            // It counts all that there are, which were not wanted.
            return Ok(self.drops.then_some(listed + 1));
        }
        let (mut count, mut own) = (None, 0_u64);
        self.subscribe(&[OWN_FILTER.to_owned()], QoS::AtMostOnce)?;
        self.receive(|message| {
            own += 1;
            if message.topic == COUNT_TOPIC {
                let text = std::str::from_utf8(&message.payload).unwrap_or_default();
                count = text.trim().parse::<u64>().ok();
            }
            Ok(false)
        })?;
        let slack = if self.drops { 0 } else { OWN_MAX };
        let said = count.map(|count| count.saturating_sub(own));
        Ok(said.filter(|said| *said > listed + slack))
    }
}

/// A received message as a line.
fn line_of(message: &Message) -> Value {
    let mut properties = PropertyBuf::new();
    let mut users: Vec<(&str, &str)> = Vec::new();
    let mut line = json!({
        "topic": message.topic,
        "payload_base64": STANDARD.encode(&message.payload),
        "qos": message.qos as u8,
    });
    for property in message.properties.as_properties() {
        match property {
            Property::MessageExpiryInterval(secs) => line["expiry_secs"] = secs.into(),
            Property::UserProperty(pair) => users.push(pair),
            property => properties.push(property),
        }
    }
    strip_numbers(&mut users);
    for pair in users {
        properties.push(Property::UserProperty(pair));
    }
    let properties = properties_json(&properties);
    if !properties.is_empty() {
        line["properties"] = properties.into();
    }
    line
}

/// Takes away what a Stentor has put behind the publisher's own properties under
/// `sequence = true`: they are numbers of that server.
fn strip_numbers(users: &mut Vec<(&str, &str)>) {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_epoch = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let end = match users.as_slice() {
        [.., ("conflated", count)] if is_number(count) => users.len() - 1,
        _ => users.len(),
    };
    if let [.., ("seq", seq), ("epoch", epoch)] = &users[..end]
        && is_number(seq)
        && is_epoch(epoch)
    {
        users.truncate(end - 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_another_stentor_are_not_copied() {
        const EPOCH: &str = "00000192aabbccdd";
        let check = |users: &[(&'static str, &'static str)], left: usize| {
            let mut stripped = users.to_vec();
            strip_numbers(&mut stripped);
            assert_eq!(stripped, users[..left], "{users:?}");
        };
        check(&[("seq", "7"), ("epoch", EPOCH)], 0);
        check(&[("a", "b"), ("seq", "7"), ("epoch", EPOCH)], 1);
        check(&[("seq", "7"), ("epoch", EPOCH), ("conflated", "3")], 0);
        // The publisher's own stand as they are.
        check(&[("seq", "7")], 1);
        check(&[("seq", "x"), ("epoch", EPOCH)], 2);
        check(&[("seq", "7"), ("epoch", "1"), ("conflated", "3")], 3);
        check(&[("seq", "7"), ("epoch", EPOCH), ("a", "b")], 3);
        check(&[("conflated", "3")], 1);
        check(&[], 0);
    }

    /// What a broker sends is what an export would have.
    #[test]
    fn a_message_is_a_line_with_its_properties() {
        let mut properties = PropertyBuf::new();
        for property in [
            Property::PayloadFormatIndicator(true),
            Property::MessageExpiryInterval(60),
            Property::UserProperty(("a", "1")),
            Property::ContentType("text/plain"),
            Property::ResponseTopic("back"),
            Property::CorrelationData(b"\x01"),
            Property::UserProperty(("a", "2")),
        ] {
            properties.push(property);
        }
        let message = Message {
            topic: "t".into(),
            payload: b"x".to_vec(),
            qos: QoS::AtLeastOnce,
            retain: true,
            dup: false,
            packet_id: Some(1),
            properties,
        };
        let expected = json!({
            "topic": "t",
            "payload_base64": "eA==",
            "qos": 1,
            "expiry_secs": 60,
            "properties": {
                "payload_format_indicator": true,
                "content_type": "text/plain",
                "response_topic": "back",
                "correlation_data_base64": "AQ==",
                "user_properties": [["a", "1"], ["a", "2"]],
            },
        });
        assert_eq!(line_of(&message), expected);
    }

    #[test]
    fn topics_are_asked_for_in_parts() {
        let topics: Vec<String> = (0..250).map(|i| format!("t/{i}")).collect();
        let sizes: Vec<usize> = batches(&topics).map(<[String]>::len).collect();
        assert_eq!(sizes, [100, 100, 50]);
        let long = vec!["x".repeat(20_000); 3];
        assert_eq!(batches(&long).count(), 3);
        let longer = vec!["x".repeat(60_000); 2];
        assert_eq!(batches(&longer).count(), 2);
        assert_eq!(batches(&[]).count(), 0);
    }
}
