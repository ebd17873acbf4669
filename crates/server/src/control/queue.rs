//! The verb `sessions.queue`: what waits for one client.
//!
//! A shard tells where messages are, in steps that are bounded each, and hands out those in memory.
//! What is on the disk is read here, by the thread that answers: no shard waits for it, and neither
//! does the thread that reads for clients. Nothing is kept between two pages: a cursor names a
//! place, which a shard finds again without a walk.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stentor_control::Request as _;
use stentor_control::sessions::{Message, Queue, Queued, State};
use stentor_hub::{QueuePlace, QueuedMessage, QueuedPart, QueuedPiece, QueuedState};
use stentor_session::{Spooled, Tick};
use stentor_session_log::{Chunk, SpooledDelivery};
use stentor_spool::Place;
use stentor_topic::Zone;

use super::clients::{home, missing, silent, written, zone_of};
use super::protocol::Failure;
use super::zones;
use crate::context::ServerContext;
use crate::shard::{AboutClient, Inquiry, QueueSeen};
use crate::telemetry::collect::ask_one;

/// Pieces that a shard tells at once.
const AT_ONCE: usize = 256;

/// Bytes of topics and payloads of a page, about, and what is shown of one payload.
const PAGE_BYTES: usize = 1 << 20;
const PAYLOAD_BYTES: usize = 64 << 10;

/// The messages that wait for a client, from a place on.
pub(super) fn queue(context: &ServerContext, request: &Queue) -> Result<Queued, Failure> {
    let client_id = &*request.client_id;
    let mut place = match &request.cursor {
        Some(text) => text.parse::<Cursor>().map_err(|()| no_cursor(text))?.0,
        None => QueuePlace::default(),
    };
    let said = zones::named(context, request.zone.as_ref())?;
    let zone = zone_of(context, said, client_id)?;
    let limit = Queue::VERB.wanted(request.limit)?;
    let mut page = Page {
        context,
        whose: (zone, client_id),
        payloads: request.payloads,
        left: limit,
        bytes: 0,
        told: Queued::default(),
    };
    loop {
        let seen = ask_one(context, home(context, zone, client_id), |answer| {
            Inquiry::Client {
                zone,
                client_id: client_id.to_owned(),
                about: AboutClient::Queue {
                    from: place,
                    at_most: page.left.min(AT_ONCE),
                    answer,
                },
            }
        });
        let seen = seen.ok_or_else(silent)?;
        // It may have ended in the meantime.
        let seen = seen.ok_or_else(|| missing(context, said, client_id))?;
        match page.take(&seen) {
            Some(next) if page.is_full() => {
                page.told.cursor = Some(Cursor(next).to_string());
                break;
            }
            Some(next) => place = next,
            None => break,
        }
    }
    Ok(page.told)
}

fn no_cursor(text: &str) -> Failure {
    let message = format!("{text:?} is not a cursor; give the `cursor` of the answer before");
    Failure::new("bad-request", message).about("cursor")
}

/// A place as the text of a cursor: `f7`, `w1042.0` or `h3.12`.
#[derive(Debug, PartialEq, Eq)]
struct Cursor(QueuePlace);

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            QueuePlace::InFlight(at) => write!(f, "f{at}"),
            QueuePlace::Waiting(after, passed) => write!(f, "w{after}.{passed}"),
            QueuePlace::HeldBack(part, passed) => write!(f, "h{part}.{passed}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        fn number<T: FromStr>(text: &str) -> Result<T, ()> {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then_some(text).ok_or(())?.parse().map_err(drop)
        }
        let (stage, rest) = text.split_at_checked(1).ok_or(())?;
        let two = || rest.split_once('.').ok_or(());
        Ok(Self(match stage {
            "f" => QueuePlace::InFlight(number(rest)?),
            "w" => QueuePlace::Waiting(number(two()?.0)?, number(two()?.1)?),
            "h" => QueuePlace::HeldBack(number(two()?.0)?, number(two()?.1)?),
            _ => return Err(()),
        }))
    }
}

/// A page that is being made.
struct Page<'b> {
    context: &'b ServerContext,
    whose: (Zone, &'b str),
    payloads: bool,
    /// Messages that may still be added.
    left: usize,
    /// Bytes of what was added.
    bytes: usize,
    told: Queued,
}

impl Page<'_> {
    const fn is_full(&self) -> bool {
        self.left == 0 || self.bytes >= PAGE_BYTES
    }

    /// Adds what a shard has told, as much as fits. Returns where to go on.
    fn take(&mut self, seen: &QueueSeen) -> Option<QueuePlace> {
        let QueuedPart {
            counts,
            held_back,
            in_socket,
            ref pieces,
            next,
        } = seen.part;
        let told = &mut self.told;
        self.whose.1.clone_into(&mut told.client_id);
        told.zone = self.context.zone_name(self.whose.0);
        told.connected = seen.is_connected;
        (told.in_flight, told.waiting) = (counts.in_flight, counts.here);
        (told.on_disk, told.held_back, told.in_socket) = (counts.on_the_disk, held_back, in_socket);
        let mut behind = seen.from;
        for (piece, after) in pieces {
            behind = match piece {
                QueuedPiece::Message(message) => {
                    self.add(in_memory(message, seen.now, self.payloads));
                    *after
                }
                QueuedPiece::Chunk(spooled) => self.add_chunk(seen, spooled, behind),
            };
            if self.is_full() {
                return (next.is_some() || behind != *after || self.is_before_last(pieces, after))
                    .then_some(behind);
            }
        }
        next
    }

    /// Whether a place is not behind the last piece.
    fn is_before_last(&self, pieces: &[(QueuedPiece, QueuePlace)], place: &QueuePlace) -> bool {
        pieces.last().is_some_and(|(_, last)| last != place)
    }

    fn add(&mut self, message: Message) {
        let payload = message
            .payload
            .as_deref()
            .or(message.payload_base64.as_deref());
        let texts = [message.topic.as_deref(), payload];
        self.bytes += texts.into_iter().flatten().map(written).sum::<usize>();
        self.left = self.left.saturating_sub(1);
        self.told.messages.push(message);
    }

    /// Adds messages of a chunk that come behind a place. Returns the place behind the last one.
    fn add_chunk(&mut self, seen: &QueueSeen, spooled: &Spooled, behind: QueuePlace) -> QueuePlace {
        let chunk = &spooled.chunk;
        let after = match behind {
            QueuePlace::Waiting(after, _) => after,
            QueuePlace::InFlight(_) | QueuePlace::HeldBack(..) => 0,
        };
        let bytes = self.read(spooled);
        let content = bytes.as_deref().and_then(|it| Chunk::decode(it).ok());
        let content = content.filter(|it| {
            let whose = (it.zone, it.client_id, it.first);
            whose == (self.whose.0.get(), self.whose.1, chunk.first)
        });
        let mut all = content.iter().flat_map(|it| it.deliveries.iter());
        for number in chunk.first..chunk.end() {
            let found = all.next();
            if number <= after || spooled.gone.contains(&number) {
                continue;
            }
            self.add(match found {
                Some(delivery) => on_disk(&delivery, seen.now_ms, self.payloads),
                None => Message {
                    state: State::Unreadable,
                    ..Message::default()
                },
            });
            if self.is_full() {
                return QueuePlace::Waiting(number, 0);
            }
        }
        QueuePlace::Waiting(chunk.end() - 1, 0)
    }

    /// What the disk has in the place of a chunk. The chunk may have been given back since.
    fn read(&self, spooled: &Spooled) -> Option<Vec<u8>> {
        let looker = self.context.journals.as_ref()?.looker.get()?;
        let place = spooled.chunk.place;
        let place = Place {
            file: place.file,
            at: place.at,
            len: place.len,
        };
        looker.read(&[place]).pop()?.ok()
    }
}

fn in_memory(queued: &QueuedMessage, now: Tick, payloads: bool) -> Message {
    let (packet_id, sent_at) = match queued.state {
        QueuedState::Sent(packet_id, at) => (Some(packet_id), Some(at)),
        QueuedState::ToResend(packet_id) => (Some(packet_id), None),
        QueuedState::Waits | QueuedState::HeldBack => (None, None),
    };
    let state = match queued.state {
        QueuedState::Sent(..) | QueuedState::ToResend(_) => match queued.message {
            Some(_) => State::InFlight,
            None => State::Received,
        },
        QueuedState::Waits => State::Waiting,
        QueuedState::HeldBack => State::HeldBack,
    };
    let message = queued.message.as_deref();
    let expires_at = message.map_or(Tick::NEVER, |it| it.expires_at);
    let shown = Message {
        state,
        topic: message.map(|it| it.topic().to_owned()),
        payload_bytes: message.map(|it| it.payload().len()),
        qos: Some(queued.qos as u8),
        retain: Some(queued.retain),
        age_secs: message.map(|it| now.since(it.received_at).as_secs()),
        expires_in_secs: (expires_at != Tick::NEVER).then(|| expires_at.since(now).as_secs()),
        packet_id: packet_id.map(|id| id.get()),
        in_flight_secs: sent_at.map(|at| now.since(at).as_secs()),
        conflated: Some(queued.conflated),
        ..Message::default()
    };
    match message.filter(|_| payloads) {
        Some(message) => with_payload(shown, message.payload()),
        None => shown,
    }
}

fn on_disk(delivery: &SpooledDelivery<'_>, now_ms: u64, payloads: bool) -> Message {
    let body = &delivery.body;
    let left = |at: u64| at.saturating_sub(now_ms) / 1_000;
    let shown = Message {
        state: State::OnDisk,
        topic: Some(body.topic.to_owned()),
        payload_bytes: Some(body.payload.len()),
        qos: Some(delivery.terms.qos as u8),
        retain: Some(delivery.terms.retain),
        expires_in_secs: body.expires_at_ms.map(left),
        conflated: Some(delivery.terms.conflated),
        ..Message::default()
    };
    match payloads {
        true => with_payload(shown, body.payload),
        false => shown,
    }
}

/// Adds the payload, or its beginning.
fn with_payload(shown: Message, payload: &[u8]) -> Message {
    let (cut, is_cut) = match payload.get(..PAYLOAD_BYTES) {
        Some(cut) if payload.len() > PAYLOAD_BYTES => (cut, true),
        _ => (payload, false),
    };
    // A character may be cut in two.
    let text = match std::str::from_utf8(cut) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            let whole = cut.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).ok()
        }
        Err(_) => None,
    };
    Message {
        payload: text.map(str::to_owned),
        payload_base64: text.is_none().then(|| STANDARD.encode(cut)),
        payload_cut: is_cut,
        ..shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_no_other_text_is_one() {
        for place in [
            QueuePlace::InFlight(7),
            QueuePlace::Waiting(u64::MAX, 3),
            QueuePlace::HeldBack(63, 12),
        ] {
            let text = Cursor(place).to_string();
            assert_eq!(text.parse(), Ok(Cursor(place)), "{text}");
        }
        for text in [
            "",
            "f",
            "w1",
            "w1.2.3",
            "x1",
            "f-1",
            "w+1.0",
            "h1.",
            "ä",
            "f99999999999999999999",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(()), "{text}");
        }
    }

    #[test]
    fn of_a_long_payload_the_beginning_is_shown() {
        let long = "ä".repeat(PAYLOAD_BYTES);
        let shown = with_payload(Message::default(), &[b"x", long.as_bytes()].concat());
        let text = shown.payload.unwrap_or_default();
        assert_eq!((text.len(), shown.payload_cut), (PAYLOAD_BYTES - 1, true));
        let shown = with_payload(Message::default(), &[0xFF; 3]);
        assert_eq!(shown.payload_base64.as_deref(), Some("////"));
        assert!(shown.payload.is_none() && !shown.payload_cut);
    }
}
