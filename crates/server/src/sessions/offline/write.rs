//! A session that is imported, as the records that a server would have written.
//!
//! Messages go to the files as they come. What is at the front of a long backlog goes to the
//! spool, as a server does it. In the end, one batch has the session with all that it is owed: so
//! a kill leaves the whole session, or nothing of it.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use stentor_disk::MappedDisk;
use stentor_mqtt::PacketId;
use stentor_session_log::{
    Arrival, Away, Chunk, Debt, Elsewhere, Filter, HeldBack, Identifier, List, Message, Name,
    Origin, Owed, OwnedShare, OwnedTerms, Place, Presence, Queue, Record, RestoredSubscription,
    RestoredWill, Session, Share, Spooled, SpooledDelivery, Subscription, Terms, Will,
    packet_id_of,
};
use stentor_session_store::Adder;
use stentor_spool::{Folder, NotKept};

use super::line::{MessageLine, OwnedBody, SessionLine, State};
use crate::peer::Network;

/// Messages and bytes of a session that wait here for the place where they go.
const WINDOW_LEN: usize = 128;
const WINDOW_BYTES: usize = 2 << 20;
/// Messages and bytes of a chunk.
const CHUNK_LEN: usize = 64;
const CHUNK_BYTES: usize = 32 << 10;
/// Deliveries of a session beside those that lie in chunks.
const ENTRIES_MAX: usize = 1_000_000;

/// Where messages go.
pub(super) struct Target {
    pub(super) adder: Adder<MappedDisk>,
    pub(super) spool: Folder<MappedDisk>,
    /// Whether the configuration has backlogs on the disk.
    pub(super) has_spool: bool,
}

/// Why a session is not written.
pub(super) enum Unwritten {
    /// Something is wrong with it.
    Refused(String),
    /// The disk does not take it, nor others.
    Disk(String),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

/// A delivery whose message is written.
struct Kept {
    delivery: u64,
    packet_id: Option<PacketId>,
    /// The name of the message, its terms without the share, and the place of that; `None` where
    /// only PUBREL is owed.
    message: Option<(Name, OwnedTerms, Option<u32>)>,
}

/// A message that waits here.
struct Waiting {
    delivery: u64,
    terms: OwnedTerms,
    body: OwnedBody,
}

/// A session of which some lines have been read.
pub(super) struct Pending {
    pub(super) line: SessionLine,
    zone: u32,
    /// The least number that the next delivery can have.
    least: u64,
    /// How many messages there were.
    pub(super) messages: u64,
    shares: Vec<OwnedShare>,
    kept: Vec<Kept>,
    held: Vec<(Name, OwnedTerms)>,
    chunks: Vec<(u64, u8, Place)>,
    window: VecDeque<Waiting>,
    window_bytes: usize,
    /// Packet ids that are in use.
    ids: BTreeSet<PacketId>,
}

impl Pending {
    pub(super) fn new(line: SessionLine, zone: u32) -> Self {
        Self {
            line,
            zone,
            least: 0,
            messages: 0,
            shares: Vec::new(),
            kept: Vec::new(),
            held: Vec::new(),
            chunks: Vec::new(),
            window: VecDeque::new(),
            window_bytes: 0,
            ids: BTreeSet::new(),
        }
    }

    /// Takes the next message.
    pub(super) fn push(&mut self, target: &mut Target, line: MessageLine) -> Result<(), Unwritten> {
        self.messages += 1;
        if self.kept.len() + self.held.len() >= ENTRIES_MAX {
            return Err(Unwritten::Refused(format!(
                "the session has more than {ENTRIES_MAX} messages that no backlog can hold"
            )));
        }
        if line.state == State::Held {
            let Some((terms, body)) = line.message else {
                return Ok(());
            };
            if terms.share.is_some() {
                let text = "a message that is held is of no shared subscription";
                return Err(Unwritten::Refused(text.to_owned()));
            }
            let name = target.message(&body, self.zone)?;
            self.held.push((name, terms));
            return Ok(());
        }
        if let Some((terms, _)) = &line.message
            && terms.share.is_none()
            && self.line.whose.is_queue()
        {
            let text = "a message of a queue is of its shared subscription: `share` is missing";
            return Err(Unwritten::Refused(text.to_owned()));
        }
        let (delivery, packet_id) = self.place(&line).map_err(Unwritten::Refused)?;
        self.least = delivery + 1;
        let is_natural = packet_id == packet_id_of(delivery);
        match line.message {
            Some((terms, body))
                if is_natural && self.goes_to_window(target, &line.state, &terms) =>
            {
                self.window_bytes += body.bytes();
                self.window.push_back(Waiting {
                    delivery,
                    terms,
                    body,
                });
                self.shorten(target)
            }
            message => {
                let message = match message {
                    None => None,
                    Some((mut terms, body)) => {
                        let share = terms.share.take().map(|share| self.share(share));
                        Some((target.message(&body, self.zone)?, terms, share))
                    }
                };
                self.kept.push(Kept {
                    delivery,
                    packet_id: (!is_natural).then_some(packet_id),
                    message,
                });
                Ok(())
            }
        }
    }

    fn goes_to_window(&self, target: &Target, state: &State, terms: &OwnedTerms) -> bool {
        let is_whole = matches!(state, State::Waiting | State::Sent);
        target.has_spool && is_whole && terms.share.is_none()
    }

    /// The number and the packet id of a delivery, if they go together with the others.
    fn place(&mut self, line: &MessageLine) -> Result<(u64, PacketId), String> {
        let delivery = line.delivery.unwrap_or(self.least);
        if delivery < self.least {
            return Err(format!(
                "delivery {delivery} comes after delivery {}: deliveries go up",
                self.least.saturating_sub(1)
            ));
        }
        if self.line.next.is_some_and(|next| delivery >= next) {
            return Err(format!(
                "delivery {delivery} is not below next_delivery of its session"
            ));
        }
        let natural = packet_id_of(delivery);
        let packet_id = line.packet_id.unwrap_or(natural);
        let may_be_sent = delivery < self.line.sent || packet_id != natural;
        match line.state {
            State::Waiting if may_be_sent => Err(format!(
                "a message that is waiting has a delivery from sent_before on ({}), and packet \
                 id {natural} for delivery {delivery}",
                self.line.sent
            )),
            State::Sent if !may_be_sent => Err(format!(
                "a message that is sent has a delivery before sent_before ({}), or a packet id \
                 other than {natural} for delivery {delivery}",
                self.line.sent
            )),
            State::Sent | State::Received if !self.ids.insert(packet_id) => {
                Err(format!("packet id {packet_id} is used twice"))
            }
            _ => Ok((delivery, packet_id)),
        }
    }

    fn share(&mut self, share: OwnedShare) -> u32 {
        let place = self.shares.iter().position(|it| *it == share);
        let place = place.unwrap_or_else(|| {
            self.shares.push(share);
            self.shares.len() - 1
        });
        // The bound of entries makes it fit.
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Gives the front of a long window to the spool.
    fn shorten(&mut self, target: &mut Target) -> Result<(), Unwritten> {
        while self.window.len() > WINDOW_LEN || self.window_bytes > WINDOW_BYTES {
            let (mut len, mut bytes) = (0, 0);
            let first = self.window.front().map_or(0, |it| it.delivery);
            for (expected, it) in (first..).zip(&self.window) {
                let is_full = len == CHUNK_LEN || len > 0 && bytes + it.body.bytes() > CHUNK_BYTES;
                if is_full || it.delivery != expected {
                    break;
                }
                len += 1;
                bytes += it.body.bytes();
            }
            let all: Vec<Waiting> = self.window.drain(..len).collect();
            self.window_bytes -= bytes;
            let chunk = self.chunk(first, &all);
            let place = target.chunk(&chunk)?;
            // A chunk has 64 at most.
            self.chunks.push((first, all.len() as u8, place));
        }
        Ok(())
    }

    fn chunk(&self, first: u64, all: &[Waiting]) -> Vec<u8> {
        let content = Chunk {
            zone: self.zone,
            client_id: &self.line.whose.client_id,
            // A chunk counts deliveries from 1 on.
            first: first + 1,
            deliveries: List::default(),
        };
        let all = all.iter().map(|it| SpooledDelivery {
            terms: terms(&it.terms, false),
            body: it.body.body(self.zone),
        });
        let mut bytes = Vec::new();
        content.encode_to(all, &mut bytes);
        bytes
    }

    /// Writes the session, in the place of one that is there already.
    pub(super) fn end(
        mut self,
        target: &mut Target,
        number: u32,
        replaced: Option<Origin>,
    ) -> Result<(), Unwritten> {
        for waiting in std::mem::take(&mut self.window) {
            let name = target.message(&waiting.body, self.zone)?;
            self.kept.push(Kept {
                delivery: waiting.delivery,
                packet_id: None,
                message: Some((name, waiting.terms, None)),
            });
        }
        self.kept.sort_by_key(|it| it.delivery);
        if !self.chunks.is_empty() {
            target.spool.flush()?;
        }
        let mut out = Vec::new();
        if let Some(origin) = replaced {
            Record::Adopted { number, origin }.encode(&mut out);
        }
        self.write_base(number, &mut out);
        self.write_queue(number, &mut out);
        for subscription in &self.line.subscriptions {
            Record::Sub(subscription_of(number, subscription)).encode(&mut out);
        }
        if let Some(will) = &self.line.will {
            Record::Will(will_of(number, will)).encode(&mut out);
        }
        if let Presence::Away {
            since_ms,
            until_ms,
            will_at_ms,
        } = self.line.presence
        {
            let away = Away {
                number,
                since_ms,
                until_ms,
                will_at_ms,
            };
            Record::Away(away).encode(&mut out);
        }
        target.adder.append(&out)?;
        Ok(())
    }

    fn write_base(&self, number: u32, out: &mut Vec<u8>) {
        let line = &self.line;
        let roles: Vec<&str> = line.roles.iter().map(|role| &**role).collect();
        let base = Session {
            number,
            zone: self.zone,
            client_id: &line.whose.client_id,
            user: line.whose.user.as_deref(),
            guest: None,
            expiry_secs: line.expiry_secs,
            has_no_account: line.has_no_account,
            roles_are_of_credential: line.roles_are_of_credential,
            roles: List::new(&roles),
            quotas: line.quotas,
        };
        Record::Base(base).encode(out);
        if let Some(mark) = line.address.map(Network::mark) {
            Record::Owner { number, mark }.encode(out);
        }
        for packet_id in &line.arrived {
            let packet_id = *packet_id;
            Record::Arrived(Arrival { number, packet_id }).encode(out);
        }
    }

    fn write_queue(&self, number: u32, out: &mut Vec<u8>) {
        let shares: Vec<Share<'_>> = self.shares.iter().map(share_of).collect();
        let queue = Queue {
            number,
            next: self.line.next.unwrap_or(self.least),
            sent: self.line.sent,
            shares: List::new(&shares),
            owed: List::default(),
            held: List::default(),
        };
        let owed = self.kept.iter().map(|it| Owed {
            delivery: it.delivery,
            packet_id: it.packet_id,
            debt: match &it.message {
                None => Debt::Release,
                Some((name, its, share)) => Debt::Message(*name, terms(its, false), *share),
            },
        });
        let held = self.held.iter().map(|(name, its)| HeldBack {
            name: *name,
            terms: terms(its, true),
        });
        queue.encode_to(owed, held, out);
        for (first, count, place) in &self.chunks {
            let spooled = Spooled {
                number,
                first: *first,
                count: *count,
                place: *place,
            };
            Record::Spooled(spooled).encode(out);
        }
    }
}

impl Target {
    /// Writes a message, and returns its name.
    fn message(&mut self, body: &OwnedBody, zone: u32) -> Result<Name, Unwritten> {
        let mut out = Vec::new();
        let record = Record::Message(Message {
            body: body.body(zone),
            arrival: None,
            elsewhere: Elsewhere::default(),
            recipients: List::default(),
        });
        record.encode(&mut out);
        Ok(self.adder.append(&out)?)
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<Place, Unwritten> {
        let place = self.spool.append(bytes).map_err(|error| match error {
            NotKept::Full => Unwritten::Disk(
                "backlogs have as many bytes as `sessions.bytes` allows: raise it".to_owned(),
            ),
            NotKept::Disk(error) => Unwritten::Disk(error.to_string()),
        })?;
        Ok(Place {
            file: place.file.get(),
            at: place.at,
            len: place.len,
        })
    }
}

fn terms(its: &OwnedTerms, held: bool) -> Terms<'_> {
    Terms {
        qos: its.qos,
        retain: its.retain,
        held,
        conflated: its.conflated,
        identifiers: List::<Identifier>::new(&its.identifiers),
        share: None,
    }
}

fn share_of(share: &OwnedShare) -> Share<'_> {
    Share {
        group: &share.group,
        filter: &share.filter,
    }
}

fn subscription_of(number: u32, it: &RestoredSubscription) -> Subscription<'_> {
    Subscription {
        number,
        filter: Filter {
            group: it.group.as_deref(),
            filter: &it.filter,
        },
        qos: it.qos,
        no_local: it.no_local,
        retain_as_published: it.retain_as_published,
        snapshot: it.snapshot,
        room: it.room,
        identifier: it.identifier,
        interval_micros: it.interval_micros,
    }
}

fn will_of(number: u32, it: &RestoredWill) -> Will<'_> {
    Will {
        number,
        topic: &it.topic,
        properties: &it.properties,
        payload: &it.payload,
        qos: it.qos,
        retain: it.retain,
        delay_secs: it.delay_secs,
        expiry_secs: it.expiry_secs,
    }
}
