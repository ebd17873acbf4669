//! How `sub` and `rr` print messages: `-F`, in `mosquitto_sub`'s language.

use stentor_client::Message;

use crate::json;
use crate::time::Time;

/// A format, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pieces: Vec<Piece>,
    pretty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    /// `%…`: a letter, and how to fit it in.
    Field(char, Fit),
    /// `@…`: a conversion of `strftime`.
    Time(char),
}

/// Flags and widths between `%` and the letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fit {
    left: bool,
    zero: bool,
    width: usize,
    width_max: Option<usize>,
}

/// The letters that mean something behind `%`.
const LETTERS: &str = "ACDEFIJPRSUXjlmpqrtx";

impl Format {
    /// Reads a format.
    pub(crate) fn parse(text: &str, pretty: bool) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '%' => pieces.push(field(&mut chars)?),
                '@' => pieces.push(match chars.next() {
                    Some('@') => literal('@'),
                    Some(letter) if Time::new(Default::default()).strftime(letter).is_some() => {
                        Piece::Time(letter)
                    }
                    other => return Err(format!("@{} is not known", shown(other))),
                }),
                '\\' => pieces.push(match chars.next() {
                    Some('\\') => literal('\\'),
                    Some('0') => literal('\0'),
                    Some('a') => literal('\u{7}'),
                    Some('e') => literal('\u{1B}'),
                    Some('n') => literal('\n'),
                    Some('r') => literal('\r'),
                    Some('t') => literal('\t'),
                    Some('v') => literal('\u{B}'),
                    other => return Err(format!("\\{} is not known", shown(other))),
                }),
                char => pieces.push(literal(char)),
            }
        }
        Ok(Self { pieces, pretty })
    }

    /// Appends a message, without the end of its line. Says so if `%J` meets what is not JSON.
    pub(crate) fn write(&self, message: &Message, now: Time, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Time(letter) => {
                    out.extend_from_slice(now.strftime(*letter).unwrap_or_default().as_bytes());
                }
                Piece::Field(letter, fit) => {
                    let value = self.value(*letter, message, now);
                    out.extend_from_slice(&fit.apply(value, ZERO_PADDED.contains(*letter)));
                }
            }
        }
    }

    fn value(&self, letter: char, message: &Message, now: Time) -> Vec<u8> {
        let properties = message.properties.as_properties();
        let hex = |upper: bool| -> String {
            let digits = message.payload.iter();
            if upper {
                digits.map(|byte| format!("{byte:02X}")).collect()
            } else {
                digits.map(|byte| format!("{byte:02x}")).collect()
            }
        };
        let shown = |number: Option<u32>| number.map(|it| it.to_string()).unwrap_or_default();
        let text = match letter {
            'p' => return message.payload.clone(),
            'D' => return properties.correlation_data().unwrap_or_default().to_vec(),
            'A' => shown(properties.topic_alias().map(u32::from)),
            'C' => properties.content_type().unwrap_or_default().to_owned(),
            'E' => shown(properties.message_expiry()),
            'F' => shown(properties.payload_format().map(u32::from)),
            'I' => now.iso(),
            'U' => now.unix(),
            'P' => {
                let pairs = properties.user_properties();
                pairs
                    .map(|(name, value)| format!("{name}:{value}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            'R' => properties.response_topic().unwrap_or_default().to_owned(),
            'S' => {
                let ids = properties.subscription_ids();
                ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
            }
            'l' => message.payload.len().to_string(),
            'm' => message.packet_id.unwrap_or(0).to_string(),
            'q' => (message.qos as u8).to_string(),
            'r' => u8::from(message.retain).to_string(),
            't' => message.topic.clone(),
            'x' => hex(false),
            'X' => hex(true),
            'j' => self.json(message, now, json::Payload::Text),
            'J' => self.json(message, now, json::Payload::Value),
            _ => String::new(),
        };
        text.into_bytes()
    }

    fn json(&self, message: &Message, now: Time, payload: json::Payload) -> String {
        match json::message(message, now, payload) {
            Some(value) if self.pretty => format!("{value:#}"),
            Some(value) => value.to_string(),
            None => {
                eprintln!("stentor: the payload on {:?} is not JSON", message.topic);
                String::new()
            }
        }
    }
}

impl Fit {
    fn apply(self, mut value: Vec<u8>, numeric: bool) -> Vec<u8> {
        if let Some(max) = self.width_max {
            // By characters, where there are any.
            let end = match std::str::from_utf8(&value) {
                Ok(text) => text
                    .char_indices()
                    .nth(max)
                    .map_or(text.len(), |(at, _)| at),
                Err(_) => max.min(value.len()),
            };
            value.truncate(end);
        }
        let length = std::str::from_utf8(&value).map_or(value.len(), |text| text.chars().count());
        let missing = self.width.saturating_sub(length);
        if missing == 0 {
            return value;
        }
        if self.left {
            value.resize(value.len() + missing, b' ');
            return value;
        }
        let fill = if self.zero && numeric { b'0' } else { b' ' };
        let mut padded = vec![fill; missing];
        padded.append(&mut value);
        padded
    }
}

/// The letters that the flag `0` applies to.
const ZERO_PADDED: &str = "AEFlmSXx";

fn field(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Piece, String> {
    let mut fit = Fit::default();
    while let Some(flag) = chars.next_if(|char| matches!(char, '-' | '0')) {
        if flag == '-' {
            fit.left = true;
        } else {
            fit.zero = true;
        }
    }
    fit.width = number(chars)?.unwrap_or(0);
    if chars.next_if_eq(&'.').is_some() {
        fit.width_max = Some(number(chars)?.ok_or("a width is missing after the point")?);
    }
    match chars.next() {
        Some('%') => Ok(literal('%')),
        Some(letter) if LETTERS.contains(letter) => Ok(Piece::Field(letter, fit)),
        other => Err(format!("%{} is not known", shown(other))),
    }
}

fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>, String> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    match digits.parse::<usize>() {
        Ok(number) if number <= 10_000 => Ok(Some(number)),
        _ if digits.is_empty() => Ok(None),
        _ => Err(format!("the width {digits} is too large")),
    }
}

fn literal(char: char) -> Piece {
    Piece::Literal(char.to_string().into_bytes())
}

fn shown(char: Option<char>) -> String {
    char.map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use stentor_client::{Property, PropertyBuf, QoS};

    fn message() -> Message {
        let mut properties = PropertyBuf::new();
        properties.push(Property::ContentType("text"));
        properties.push(Property::UserProperty(("a", "b")));
        properties.push(Property::UserProperty(("c", "d")));
        Message {
            topic: "x/y".into(),
            payload: b"[1]".to_vec(),
            qos: QoS::AtLeastOnce,
            retain: true,
            dup: false,
            packet_id: Some(7),
            properties,
        }
    }

    fn print(format: &str) -> String {
        let now = Time::new(Duration::new(1_470_818_943, 5));
        let mut out = Vec::new();
        Format::parse(format, false)
            .unwrap()
            .write(&message(), now, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sequences_stand_for_what_mosquitto_says() {
        let cases = [
            ("%t %p", "x/y [1]"),
            ("%q%r%m %l", "117 3"),
            ("%x %X", "5b315d 5B315D"),
            ("100%% %C|%R|%P", "100% text||a:b c:d"),
            ("[%6t][%-6t][%05l][%.1t]", "[   x/y][x/y   ][00003][x]"),
            ("%U", "1470818943.000000005"),
            ("%I", "2016-08-10T08:49:03+0000"),
            ("@H:@M@@\\n\\\\", "08:49@\n\\"),
        ];
        for (format, expected) in cases {
            assert_eq!(print(format), expected, "{format}");
        }
        let value: serde_json::Value = serde_json::from_str(&print("%j")).unwrap();
        assert_eq!(value["payload"], "[1]");
        assert_eq!(value["properties"]["content-type"], "text");
        let value: serde_json::Value = serde_json::from_str(&print("%J")).unwrap();
        assert_eq!(value["payload"][0], 1);
    }

    #[test]
    fn unknown_sequences_are_refused() {
        for format in ["%", "%y", "%5", "%.t", "@", "@!", "\\", "\\q", "%99999t"] {
            assert!(Format::parse(format, false).is_err(), "{format}");
        }
    }
}
