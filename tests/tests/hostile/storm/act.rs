//! What a client may do, chosen for what it costs.

use std::fmt;

use stentor_tests::raw::{packet, string};

use super::name::{Bounds, Filter, Topic};
use super::random::Random;

/// Users with an account; other clients have none.
pub(super) const USERS: [&str; 3] = ["ann", "bob", "cid"];

/// Bytes of one act, roughly.
const BYTES_MAX: usize = 256 * 1_024;

/// One thing that a connected client does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// One SUBSCRIBE; with a rate it wants few messages.
    Subscribe {
        filters: Vec<Filter>,
        qos: u8,
        rate: Option<&'static str>,
    },
    Unsubscribe {
        filters: Vec<Filter>,
    },
    /// To topics that differ in their number.
    Publish {
        topic: Topic,
        times: usize,
        payload: usize,
        qos: u8,
        retain: bool,
    },
    /// The topic once, then its alias.
    PublishByAlias {
        topic: Topic,
        times: usize,
        payload: usize,
    },
    /// A retained message is set and cleared in turn.
    Retain {
        topic: Topic,
        times: usize,
    },
    Private {
        to: &'static str,
        times: usize,
        payload: usize,
    },
    /// It enters a room, or leaves it.
    Room {
        room: usize,
        enters: bool,
    },
    Say {
        room: usize,
        times: usize,
        payload: usize,
    },
    Command {
        command: &'static str,
        room: usize,
        times: usize,
    },
    Call {
        times: usize,
    },
    Ping {
        times: usize,
    },
}

const COMMANDS: [&str; 6] = ["create", "match", "set", "list", "info", "lock"];
const ROOMS: usize = 5;

impl Act {
    pub(super) fn draw(random: &mut Random, bounds: Bounds) -> Self {
        let topic = |random: &mut Random| Topic::draw(random, bounds);
        match random.below(20) {
            0..=3 => Self::Subscribe {
                filters: draw_filters(random, bounds),
                qos: random.below(3) as u8,
                rate: random
                    .one_in(3)
                    .then(|| random.pick(&["0.001", "1", "1000"])),
            },
            4 => Self::Unsubscribe {
                filters: draw_filters(random, bounds),
            },
            5..=8 => Self::Publish {
                topic: topic(random),
                times: random.size(500),
                payload: random.size(20_000),
                qos: random.below(3) as u8,
                retain: random.one_in(2),
            },
            9..=11 => Self::PublishByAlias {
                topic: topic(random),
                times: random.size(5_000),
                payload: random.size(200),
            },
            12 | 13 => Self::Retain {
                topic: topic(random),
                times: random.size(2_000),
            },
            14 => Self::Private {
                to: random.pick(&USERS),
                times: random.size(1_000),
                payload: random.size(1_000),
            },
            15 => Self::Room {
                room: random.below(ROOMS),
                enters: !random.one_in(3),
            },
            16 => Self::Say {
                room: random.below(ROOMS),
                times: random.size(1_000),
                payload: random.size(1_000),
            },
            17 => Self::Command {
                command: random.pick(&COMMANDS),
                room: random.below(ROOMS),
                times: random.size(200),
            },
            18 => Self::Call {
                times: random.size(500),
            },
            _ => Self::Ping {
                times: random.size(20_000),
            },
        }
    }

    /// The packets; ids go on from `id`.
    pub(super) fn bytes(&self, id: &mut u16) -> Vec<u8> {
        match self {
            Self::Subscribe { filters, qos, rate } => {
                let properties = rate.map_or_else(Vec::new, |rate| {
                    [&[0x26][..], &string("max-rate"), &string(rate)].concat()
                });
                let mut body = next(id).to_be_bytes().to_vec();
                body.push(u8::try_from(properties.len()).expect("few properties"));
                body.extend(properties);
                for filter in filters {
                    body.extend(string(&filter.text()));
                    body.push(*qos);
                }
                packet(0x82, &body)
            }
            Self::Unsubscribe { filters } => {
                let mut body = next(id).to_be_bytes().to_vec();
                body.push(0);
                for filter in filters {
                    body.extend(string(&filter.text()));
                }
                packet(0xA2, &body)
            }
            Self::Publish {
                topic,
                times,
                payload,
                qos,
                retain,
            } => {
                let payload = vec![b'p'; *payload];
                repeat(*times, |number| {
                    let topic = topic.numbered(number).text();
                    publish(&topic, &[], &payload, *qos, *retain, id)
                })
            }
            Self::PublishByAlias {
                topic,
                times,
                payload,
            } => {
                let (alias, payload) = ([0x23, 0, 1], vec![b'p'; *payload]);
                let mut bytes = publish(&topic.text(), &alias, &payload, 0, false, id);
                bytes.extend(repeat(*times, |_| {
                    publish("", &alias, &payload, 0, false, id)
                }));
                bytes
            }
            Self::Retain { topic, times } => {
                let alias = [0x23, 0, 2];
                let mut bytes = publish(&topic.text(), &alias, b"", 0, true, id);
                bytes.extend(repeat(*times, |number| {
                    let payload: &[u8] = if number % 2 == 0 { b"v" } else { b"" };
                    publish("", &alias, payload, 0, true, id)
                }));
                bytes
            }
            Self::Private { to, times, payload } => {
                let payload = vec![b'p'; *payload];
                let topic = format!("$private/to/{to}");
                repeat(*times, |_| publish(&topic, &[], &payload, 0, false, id))
            }
            Self::Room { room, enters } => {
                let mut body = next(id).to_be_bytes().to_vec();
                body.push(0);
                body.extend(string(&format!("$room/r{room}/#")));
                body.extend(enters.then_some(0));
                packet(if *enters { 0x82 } else { 0xA2 }, &body)
            }
            Self::Say {
                room,
                times,
                payload,
            } => {
                let payload = vec![b'p'; *payload];
                let topic = format!("$room/r{room}/say");
                repeat(*times, |_| publish(&topic, &[], &payload, 0, false, id))
            }
            Self::Command {
                command,
                room,
                times,
            } => repeat(*times, |number| {
                let topic = format!("$call/room.{command}/{number}");
                let payload = format!(
                    "{{\"room\":\"r{room}\",\"name\":\"p{}\",\"value\":{number}}}",
                    number % 80
                );
                publish(&topic, &[], payload.as_bytes(), 0, false, id)
            }),
            Self::Call { times } => repeat(*times, |number| {
                publish(&format!("$call/noop/{number}"), &[], b"", 0, false, id)
            }),
            Self::Ping { times } => [0xC0, 0].repeat(*times),
        }
    }
}

fn draw_filters(random: &mut Random, bounds: Bounds) -> Vec<Filter> {
    let count = random.size(1_000);
    let mut bytes = 0;
    let mut filters = Vec::new();
    while filters.len() < count && bytes < BYTES_MAX {
        let filter = Filter::draw(random, bounds);
        bytes += filter.text().len();
        filters.push(filter);
    }
    filters
}

/// The next packet id.
fn next(id: &mut u16) -> u16 {
    *id = (*id % u16::MAX) + 1;
    *id
}

/// So many times, or until it is enough.
fn repeat(times: usize, mut packet: impl FnMut(usize) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..times {
        bytes.extend(packet(number));
        if bytes.len() > BYTES_MAX {
            break;
        }
    }
    bytes
}

fn publish(
    topic: &str,
    properties: &[u8],
    payload: &[u8],
    qos: u8,
    retain: bool,
    id: &mut u16,
) -> Vec<u8> {
    let mut body = string(topic);
    if qos > 0 {
        body.extend(next(id).to_be_bytes());
    }
    body.push(u8::try_from(properties.len()).expect("few properties"));
    body.extend_from_slice(properties);
    body.extend_from_slice(payload);
    packet(0x30 | qos << 1 | u8::from(retain), &body)
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribe { filters, qos, rate } => {
                let (count, first) = (filters.len(), &filters[0]);
                write!(
                    f,
                    "subscribes to {count}, QoS {qos}, rate {rate:?}; first {first}"
                )
            }
            Self::Unsubscribe { filters } => {
                write!(
                    f,
                    "unsubscribes from {}; first {}",
                    filters.len(),
                    filters[0]
                )
            }
            Self::Publish {
                topic,
                times,
                payload,
                qos,
                retain,
            } => write!(
                f,
                "publishes {times} × {payload} B, QoS {qos}, retain {retain}, to {topic}"
            ),
            Self::PublishByAlias {
                topic,
                times,
                payload,
            } => {
                write!(f, "publishes {times} × {payload} B by alias to {topic}")
            }
            Self::Retain { topic, times } => write!(f, "sets and clears {times} × {topic}"),
            other => write!(f, "{other:?}"),
        }
    }
}
