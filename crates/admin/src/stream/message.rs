//! A message as JSON, in the keys that `publish` takes: written in pieces, because JSON can be six
//! times as long as the message, and its client may take a long time to read it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stentor_mqtt::{Properties, Publish};

use super::body::{End, Outlet};
use crate::bounds::PIECE_BYTES;

/// The most bytes that one byte of a text has in JSON.
const ESCAPE_BYTES: usize = 6;

/// Writes events of messages to a client. What is written waits until there is a piece of it.
pub(super) struct Writer<'o> {
    outlet: &'o mut Outlet,
    text: Vec<u8>,
    /// Bytes of a piece.
    most: usize,
    /// Whether anything was written.
    has_written: bool,
}

impl<'o> Writer<'o> {
    /// A writer to a client. `text` goes first.
    pub(super) fn new(outlet: &'o mut Outlet, text: String) -> Self {
        Self {
            outlet,
            has_written: !text.is_empty(),
            text: text.into_bytes(),
            most: PIECE_BYTES,
        }
    }

    /// Gives the client what is left; whether anything was written.
    ///
    /// # Errors
    /// When the stream ends.
    pub(super) async fn finish(self) -> Result<bool, End> {
        self.outlet.put(self.text).await?;
        Ok(self.has_written)
    }

    /// The event of a message.
    ///
    /// # Errors
    /// When the stream ends.
    pub(super) async fn message(&mut self, publish: &Publish<'_>) -> Result<(), End> {
        self.has_written = true;
        self.raw("data: {\"topic\":").await?;
        self.string(publish.topic).await?;
        let (qos, retain) = (publish.qos as u8, publish.retain);
        self.raw(&format!(",\"qos\":{qos},\"retain\":{retain}"))
            .await?;
        match str::from_utf8(publish.payload) {
            Ok(text) => {
                self.raw(",\"payload\":").await?;
                self.string(text).await?;
            }
            Err(_) => {
                self.raw(",\"payload_base64\":").await?;
                self.base64(publish.payload).await?;
            }
        }
        if let Some(secs) = publish.properties.message_expiry() {
            self.raw(&format!(",\"expiry_secs\":{secs}")).await?;
        }
        self.properties(publish.properties).await?;
        self.raw("}\n\n").await
    }

    /// The key `properties`, if there are any of those that it has.
    async fn properties(&mut self, all: Properties<'_>) -> Result<(), End> {
        const BEGIN: &str = ",\"properties\":{";
        // What comes before the next key.
        let mut before = BEGIN;
        if let Some(is_text) = all.payload_format() {
            self.raw(before).await?;
            before = ",";
            self.raw(&format!("\"payload_format_indicator\":{is_text}"))
                .await?;
        }
        let texts = [
            ("content_type", all.content_type()),
            ("response_topic", all.response_topic()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                self.raw(&format!("{before}\"{key}\":")).await?;
                before = ",";
                self.string(text).await?;
            }
        }
        if let Some(data) = all.correlation_data() {
            self.raw(&format!("{before}\"correlation_data_base64\":"))
                .await?;
            before = ",";
            self.base64(data).await?;
        }
        let mut is_first = true;
        for (name, value) in all.user_properties() {
            match is_first {
                true => self.raw(&format!("{before}\"user_properties\":[[")).await?,
                false => self.raw(",[").await?,
            }
            is_first = false;
            self.string(name).await?;
            self.raw(",").await?;
            self.string(value).await?;
            self.raw("]").await?;
        }
        if !is_first {
            self.raw("]").await?;
        }
        match is_first && before == BEGIN {
            true => Ok(()),
            false => self.raw("}").await,
        }
    }

    /// JSON as it is.
    async fn raw(&mut self, json: &str) -> Result<(), End> {
        let mut rest = json.as_bytes();
        while !rest.is_empty() {
            let count = self.room(1).await?.min(rest.len());
            let (now, later) = rest.split_at(count);
            self.text.extend_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    /// A text as JSON.
    async fn string(&mut self, text: &str) -> Result<(), End> {
        self.raw("\"").await?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = self.room(ESCAPE_BYTES).await?;
            rest = &rest[escape(rest, &mut self.text, room)..];
        }
        self.raw("\"").await
    }

    /// Bytes as a text in base 64.
    async fn base64(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.raw("\"").await?;
        let mut rest = bytes;
        while !rest.is_empty() {
            // Whole groups, so only the last one is filled up.
            let count = self.room(4).await? / 4 * 3;
            let (now, later) = rest.split_at(count.min(rest.len()));
            self.text.extend_from_slice(STANDARD.encode(now).as_bytes());
            rest = later;
        }
        self.raw("\"").await
    }

    /// How many bytes may be written, which are `least` or more. If the piece has less room than
    /// that, it waits until the client takes it.
    async fn room(&mut self, least: usize) -> Result<usize, End> {
        if self.text.len() + least > self.most {
            self.outlet.put(std::mem::take(&mut self.text)).await?;
        }
        Ok(self.most - self.text.len())
    }
}

/// Writes the first bytes of a text as JSON, to at most `room` bytes; how many of the text those
/// are. With room for one escape, that is at least one.
fn escape(text: &[u8], out: &mut Vec<u8>, room: usize) -> usize {
    let most = out.len() + room;
    let mut done = 0;
    while done < text.len() {
        let rest = &text[done..];
        let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
        let fitting = plain.min(most - out.len());
        out.extend_from_slice(&rest[..fitting]);
        done += fitting;
        let Some(byte) = rest.get(fitting) else { break };
        if fitting < plain || out.len() + ESCAPE_BYTES > most {
            break;
        }
        match *byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                const DIGITS: [u8; 16] = *b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend([control >> 4, control & 15].map(|digit| DIGITS[usize::from(digit)]));
            }
        }
        done += 1;
    }
    done
}

/// Whether a byte of a text is the same in JSON.
const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stentor_control::publish::Properties as Shown;
    use stentor_mqtt::{Property, PropertyBuf, QoS};
    use tokio::runtime::Builder;
    use tokio::sync::watch;

    use super::super::body::Pieces;
    use super::super::held::Held;
    use super::*;

    /// The pieces of some messages.
    fn pieces(publishes: &[Publish<'_>], most: usize) -> Vec<Vec<u8>> {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (_stop, stopping) = watch::channel(());
            let held = Held::default();
            let (mut outlet, mut read) = Outlet::new(stopping, held.stream());
            let write = async {
                let mut writer = Writer::new(&mut outlet, String::new());
                writer.most = most;
                for publish in publishes {
                    writer.message(publish).await.expect("the client is there");
                }
                assert_eq!(writer.finish().await, Ok(!publishes.is_empty()));
                drop(outlet);
            };
            let take = async {
                let mut all = Vec::new();
                while let Some(piece) = Pieces::next(&mut read).await {
                    assert!(
                        held.bytes() <= 4 * most.max(64) as u64,
                        "{} bytes are held for pieces of {most}",
                        held.bytes()
                    );
                    all.push(piece.to_vec());
                }
                all
            };
            let ((), all) = tokio::join!(write, take);
            assert_eq!(held.bytes(), 0);
            all
        })
    }

    /// The same by serde_json, in one go.
    fn whole(publish: &Publish<'_>) -> String {
        let mut message = json!({
            "topic": publish.topic,
            "qos": publish.qos as u8,
            "retain": publish.retain,
        });
        match str::from_utf8(publish.payload) {
            Ok(text) => message["payload"] = json!(text),
            Err(_) => message["payload_base64"] = json!(STANDARD.encode(publish.payload)),
        }
        if let Some(secs) = publish.properties.message_expiry() {
            message["expiry_secs"] = json!(secs);
        }
        let all = publish.properties;
        let text = |text: Option<&str>| text.map(str::to_owned);
        let pairs = all.user_properties();
        let properties = Shown {
            payload_format_indicator: all.payload_format(),
            content_type: text(all.content_type()),
            response_topic: text(all.response_topic()),
            correlation_data_base64: all.correlation_data().map(|data| STANDARD.encode(data)),
            user_properties: pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        };
        if properties != Shown::default() {
            message["properties"] = json!(properties);
        }
        format!("data: {message}\n\n")
    }

    fn publish<'p>(payload: &'p [u8], properties: &'p PropertyBuf) -> Publish<'p> {
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "a/\"b\"",
            packet_id: None,
            properties: properties.as_properties(),
            payload,
        }
    }

    #[test]
    fn a_message_has_the_keys_of_publish() {
        let mut properties = PropertyBuf::new();
        properties.push(Property::ContentType("text/plain"));
        properties.push(Property::CorrelationData(&[1, 2]));
        properties.push(Property::MessageExpiryInterval(9));
        properties.push(Property::UserProperty(("a", "1")));
        properties.push(Property::UserProperty(("a", "2")));
        let expected = json!({
            "topic": "a/\"b\"", "qos": 1, "retain": true, "payload": "x\ny", "expiry_secs": 9,
            "properties": {
                "content_type": "text/plain",
                "correlation_data_base64": "AQI=",
                "user_properties": [["a", "1"], ["a", "2"]],
            },
        });
        let read = |publish: Publish<'_>| -> Value {
            let text = pieces(&[publish], PIECE_BYTES).concat();
            let data = text.strip_prefix(b"data: ").expect("it is data");
            serde_json::from_slice(data).expect("it is JSON")
        };
        assert_eq!(read(publish(b"x\ny", &properties)), expected);
        let expected = json!({
            "topic": "a/\"b\"", "qos": 1, "retain": true, "payload_base64": "AP8=",
        });
        assert_eq!(read(publish(&[0, 255], &PropertyBuf::new())), expected);
    }

    /// Wherever the pieces end, they are together what serde_json writes.
    #[test]
    fn the_pieces_of_a_message_are_the_whole() {
        let every: String = (0..0x100)
            .chain(0x7FE..0x802)
            .chain(0xFFFE..0x1_0002)
            .filter_map(char::from_u32)
            .collect();
        let binary: Vec<u8> = (0..=255).collect();
        let mut kinds = vec![PropertyBuf::new()];
        for one in [
            Property::PayloadFormatIndicator(true),
            Property::ContentType("\u{1}\"ä"),
            Property::ResponseTopic("r/\\"),
            Property::CorrelationData(&[]),
            Property::CorrelationData(&binary),
            Property::UserProperty(("a\n", "\"1\"")),
            Property::MessageExpiryInterval(7),
        ] {
            let mut alone = PropertyBuf::new();
            alone.push(one);
            alone.push(Property::UserProperty(("b", "")));
            kinds.push(alone);
            let mut alone = PropertyBuf::new();
            alone.push(one);
            kinds.push(alone);
        }
        let mut all = PropertyBuf::new();
        for kind in &kinds {
            all.push(Property::UserProperty(("one", "more")));
            all.extend(kind.as_properties());
        }
        for properties in &kinds {
            for payload in [b"".as_slice(), every.as_bytes(), &binary, &binary[..128]] {
                let publish = publish(payload, properties);
                let both = [publish.clone(), publish.clone()];
                let expected = whole(&publish).repeat(2);
                for most in (ESCAPE_BYTES..80).chain([expected.len() - 1, expected.len(), 4_096]) {
                    let pieces = pieces(&both, most);
                    assert!(pieces.iter().all(|piece| (1..=most).contains(&piece.len())));
                    let text = String::from_utf8(pieces.concat()).expect("it is text");
                    assert_eq!(text, expected, "in pieces of {most}");
                }
            }
        }
    }

    /// However long a message becomes, little of it is held.
    #[test]
    fn a_long_message_comes_in_pieces() {
        let payload = vec![1; 1 << 20];
        let none = PropertyBuf::new();
        let publish = publish(&payload, &none);
        let expected = whole(&publish);
        let pieces = pieces(&[publish], PIECE_BYTES);
        assert_eq!(pieces.concat(), expected.as_bytes());
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    }
}
