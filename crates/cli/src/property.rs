//! `-D PACKET NAME VALUE`: the properties of MQTT 5, under mosquitto's names.

use std::ffi::OsString;

use stentor_client::{Property, PropertyBuf};

use crate::failure::Failure;

/// Stands between the words of one `-D` on their way through the parser, which cannot count words
/// by what they say.
const SEPARATOR: char = '\u{1F}';

/// Makes one argument of each `-D PACKET NAME VALUE` and `-D PACKET user-property NAME VALUE`.
pub(crate) fn join(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments;
    let mut joined: Vec<OsString> = arguments.by_ref().take(2).collect();
    let takes_properties = joined
        .get(1)
        .is_some_and(|it| it == "pub" || it == "sub" || it == "rr");
    while let Some(argument) = arguments.next() {
        if !takes_properties || (argument != "-D" && argument != "--property") {
            joined.push(argument);
            continue;
        }
        let mut words: Vec<OsString> = arguments.by_ref().take(2).collect();
        let values = if words.get(1).is_some_and(|name| name == "user-property") {
            2
        } else {
            1
        };
        words.extend(arguments.by_ref().take(values));
        let mut text = OsString::from("--property=");
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                text.push(SEPARATOR.to_string());
            }
            text.push(word);
        }
        joined.push(text);
    }
    joined
}

/// The properties of the command line, by packet.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    pub(crate) connect: PropertyBuf,
    pub(crate) publish: PropertyBuf,
    pub(crate) subscribe: PropertyBuf,
    pub(crate) unsubscribe: PropertyBuf,
    pub(crate) disconnect: PropertyBuf,
    pub(crate) will: PropertyBuf,
}

impl Properties {
    /// Reads what [`join`] made.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, Failure> {
        let mut properties = Self::default();
        for text in texts {
            let words: Vec<&str> = text.split(SEPARATOR).collect();
            properties.add(&words)?;
        }
        Ok(properties)
    }

    fn add(&mut self, words: &[&str]) -> Result<(), Failure> {
        let (packet, name, values) = match words {
            [packet, name, values @ ..] if !values.is_empty() => (*packet, *name, values),
            _ => {
                return Err(Failure::usage(
                    "-D needs a packet, the name of a property and a value",
                ));
            }
        };
        let (buffer, allowed): (_, &[&str]) = match packet {
            "connect" => (&mut self.connect, CONNECT),
            "publish" => (&mut self.publish, PUBLISH),
            "subscribe" => (&mut self.subscribe, SUBSCRIBE),
            "unsubscribe" => (&mut self.unsubscribe, UNSUBSCRIBE),
            "disconnect" => (&mut self.disconnect, DISCONNECT),
            "will" => (&mut self.will, WILL),
            _ => {
                return Err(Failure::usage(format!(
                    "-D knows connect, publish, subscribe, unsubscribe, disconnect and will, not \
                     {packet:?}"
                )));
            }
        };
        if !allowed.contains(&name) {
            let list = allowed.join(", ");
            return Err(Failure::usage(format!(
                "-D {packet} takes {list}; not {name:?}"
            )));
        }
        push(buffer, name, values)
    }
}

const CONNECT: &[&str] = &[
    "authentication-data",
    "authentication-method",
    "maximum-packet-size",
    "receive-maximum",
    "request-problem-information",
    "request-response-information",
    "session-expiry-interval",
    "topic-alias-maximum",
    "user-property",
];
const PUBLISH: &[&str] = &[
    "content-type",
    "correlation-data",
    "message-expiry-interval",
    "payload-format-indicator",
    "response-topic",
    "topic-alias",
    "user-property",
];
const SUBSCRIBE: &[&str] = &["subscription-identifier", "user-property"];
const UNSUBSCRIBE: &[&str] = &["user-property"];
const DISCONNECT: &[&str] = &["session-expiry-interval", "user-property"];
const WILL: &[&str] = &[
    "content-type",
    "correlation-data",
    "message-expiry-interval",
    "payload-format-indicator",
    "response-topic",
    "user-property",
    "will-delay-interval",
];

fn push(buffer: &mut PropertyBuf, name: &str, values: &[&str]) -> Result<(), Failure> {
    let number = |max: u32| match values[0].parse::<u32>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(Failure::usage(format!(
            "{name} is a number from 0 to {max}, not {:?}",
            values[0]
        ))),
    };
    let short = || number(u16::MAX.into()).map(|number| number as u16);
    let flag = || number(1).map(|number| number == 1);
    let text = values[0];
    let property = match name {
        "authentication-data" => Property::AuthenticationData(text.as_bytes()),
        "authentication-method" => Property::AuthenticationMethod(text),
        "content-type" => Property::ContentType(text),
        "correlation-data" => Property::CorrelationData(text.as_bytes()),
        "maximum-packet-size" => Property::MaximumPacketSize(number(u32::MAX)?),
        "message-expiry-interval" => Property::MessageExpiryInterval(number(u32::MAX)?),
        "payload-format-indicator" => Property::PayloadFormatIndicator(flag()?),
        "receive-maximum" => Property::ReceiveMaximum(short()?),
        "request-problem-information" => Property::RequestProblemInformation(flag()?),
        "request-response-information" => Property::RequestResponseInformation(flag()?),
        "response-topic" => Property::ResponseTopic(text),
        "session-expiry-interval" => Property::SessionExpiryInterval(number(u32::MAX)?),
        "subscription-identifier" => Property::SubscriptionIdentifier(number(268_435_455)?),
        "topic-alias" => Property::TopicAlias(short()?),
        "topic-alias-maximum" => Property::TopicAliasMaximum(short()?),
        "will-delay-interval" => Property::WillDelayInterval(number(u32::MAX)?),
        _ => match values {
            [name, value] => Property::UserProperty((name, value)),
            _ => return Err(Failure::usage("user-property needs a name and a value")),
        },
    };
    buffer
        .try_push(property)
        .map_err(|error| Failure::usage(format!("-D {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from);
        join(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    fn parse(words: &[&str]) -> Result<Properties, Failure> {
        let texts: Vec<String> = joined(words)
            .iter()
            .filter_map(|word| word.strip_prefix("--property=").map(str::to_owned))
            .collect();
        Properties::parse(&texts)
    }

    #[test]
    fn user_properties_take_two_words_and_the_others_one() {
        let words = [
            "stentor",
            "pub",
            "-D",
            "publish",
            "user-property",
            "a",
            "-b",
            "-t",
            "x",
        ];
        let properties = parse(&words).unwrap();
        let found: Vec<_> = properties
            .publish
            .as_properties()
            .user_properties()
            .collect();
        assert_eq!(found, [("a", "-b")]);
        assert_eq!(joined(&words)[3..], ["-t", "x"]);
        let words = [
            "stentor",
            "pub",
            "-D",
            "publish",
            "content-type",
            "text",
            "-m",
            "x",
        ];
        let properties = parse(&words).unwrap();
        assert_eq!(
            properties.publish.as_properties().content_type(),
            Some("text")
        );
        assert_eq!(joined(&words)[3..], ["-m", "x"]);
    }

    #[test]
    fn other_commands_keep_their_arguments() {
        let words = ["stentor", "serve", "-D", "x", "y", "z"];
        assert_eq!(joined(&words), words);
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let cases: [(&[&str], &str); 4] = [
            (&["connect", "topic-alias", "1"], "connect takes"),
            (&["publish", "topic-alias", "70000"], "0 to 65535"),
            (&["publisher", "topic-alias", "1"], "publisher"),
            (&["publish", "topic-alias"], "needs a packet"),
        ];
        for (words, part) in cases {
            let mut all = vec!["stentor", "pub", "-D"];
            all.extend(words);
            let failure = parse(&all).unwrap_err();
            assert_eq!(failure.code(), 2);
            assert!(failure.message().contains(part), "{}", failure.message());
        }
    }
}
