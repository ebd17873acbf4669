//! From the batches of all journals to the sessions as they were.

mod heard;
mod owed;
mod remains;
mod restored;
mod rooms;
mod session;
mod spool;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use stentor_mqtt::PacketId;

pub use self::remains::LostSession;
pub use self::restored::{
    Damage, DamageKind, OwnedShare, OwnedTerms, Presence, Restored, RestoredChunk, RestoredDebt,
    RestoredDelivery, RestoredHeld, RestoredSession, RestoredSubscription, RestoredWill, Served,
    Target, Unheard,
};
pub use self::rooms::{RestoredProperty, RestoredRoom};

use self::heard::Rings;
use self::owed::{AllTerms, Entry, Owed, State, Written};
use self::remains::Remains;
use self::rooms::Rooms;
use self::session::Progress;
use crate::list::List;
use crate::message::{Arrival, Body, Delivery, Group};
use crate::name::Name;
use crate::packet_id_of;
use crate::queue::HeldBack;
use crate::record::{DecodeError, Record, Records};
use crate::session::{Filter, Origin, Session, Subscription};

/// A journal: of one shard, in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalId {
    /// Which start of the server wrote it.
    pub generation: u32,
    /// The shard, of those there were then.
    pub shard: u16,
}

impl JournalId {
    const fn session(self, number: u32) -> Origin {
        Origin {
            generation: self.generation,
            shard: self.shard,
            number,
        }
    }
}

/// Applies records.
///
/// First the journals, in the order of their generations: [`Replay::journal`], and for each what it
/// has, in order, by [`Replay::batch`] and [`Replay::gap`]. Then [`Replay::finish`].
///
/// A message that a session is owed may be missing without anything being wrong:
///
/// - It lay in a file that is used again. Then it was owed no longer, which only had not been
///   written yet.
/// - The power failed before the disk had it. Then it was never acknowledged.
///
/// So only a message in a part of a file that is damaged counts as lost.
#[derive(Debug, Default)]
pub struct Replay<'a> {
    sessions: BTreeMap<Origin, Progress<'a>>,
    /// What was written down of a session before its base.
    parts: BTreeMap<Origin, Written<'a>>,
    terms: AllTerms<'a>,
    /// Where the last record of each message is.
    bodies: ByName<(Name, &'a [u8])>,
    rings: Rings<'a>,
    rooms: Rooms<'a>,
    /// The sessions that have a message which was being handed out.
    served: ByName<Served>,
    /// The places in `damage` that are in each journal. They follow one another.
    journals: BTreeMap<JournalId, Range<u32>>,
    /// How many records were about sessions of which nothing was known. A base that follows, or
    /// the end of the session, says why: what came before it lay in a file that was given up.
    unknown: BTreeMap<Origin, u64>,
    current: JournalId,
    /// What the current journal says of packet ids that have arrived does not count.
    forgets_arrivals: bool,
    /// Parts of files: the file, and offsets there.
    gaps: Vec<(u32, u64, u64)>,
    damage: Vec<Damage>,
    lost_sessions: Vec<LostSession>,
}

impl Default for JournalId {
    /// That of no journal.
    fn default() -> Self {
        Self {
            generation: 0,
            shard: u16::MAX,
        }
    }
}

type ByName<T> = HashMap<Name, T, FixedState>;

impl<'a> Replay<'a> {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What follows is of this journal.
    ///
    /// # Panics
    /// If its generation is before that of the last one.
    pub fn journal(&mut self, id: JournalId) {
        assert!(
            self.current.generation <= id.generation,
            "generations go up"
        );
        self.current = id;
        self.forgets_arrivals = false;
        let here = self.places();
        self.journals.entry(id).or_insert(here..here);
    }

    /// How many places are damaged so far.
    fn places(&self) -> u32 {
        // Each has a byte of a file at least.
        self.damage.len() as u32
    }

    /// The current journal may lack its last part, which its clients were told of. So one of the
    /// packet ids that have arrived at QoS 2 may have been released, and stand for another message
    /// by now: it is forgotten, since a message that comes twice is better than one that is lost.
    pub fn forget_arrivals(&mut self) {
        self.forgets_arrivals = true;
    }

    /// A part of a file of this journal is damaged.
    pub fn gap(&mut self, file: u32, from: u32, bytes: u64) {
        let from_end = u64::from(from).saturating_add(bytes);
        self.gaps.push((file, u64::from(from), from_end));
        self.tell(DamageKind::Gap { file, from, bytes });
    }

    /// What is left of the batch at the beginning of the last gap. Nothing of it is applied, but
    /// [`Restored`] says which sessions it names.
    pub fn remains(&mut self, at: Name, bytes: &[u8]) {
        let Some(place) = self.places().checked_sub(1) else {
            return;
        };
        let remains = Remains::read(at, bytes, place);
        let sessions = &mut self.sessions;
        let known = |origin, note: &mut dyn FnMut(&mut Progress<'a>)| {
            let session = sessions.get_mut(&origin);
            session.map(note).is_some()
        };
        let lost = remains::note(remains, self.current, place, known);
        self.lost_sessions.extend(lost);
    }

    /// A whole file is damaged, and nobody knows of which journal it was.
    pub fn lost_file(&mut self, file: u32) {
        self.gaps.push((file, 0, u64::MAX));
        self.damage.push(Damage {
            generation: None,
            shard: None,
            kind: DamageKind::Gap {
                file,
                from: 0,
                bytes: u64::MAX,
            },
        });
    }

    /// This many files are missing, and nobody knows of which journals they were.
    pub fn missing_files(&mut self, files: u32) {
        self.damage.push(Damage {
            generation: None,
            shard: None,
            kind: DamageKind::Files(files),
        });
    }

    /// The next batch of this journal.
    ///
    /// # Errors
    /// If a record cannot be read. What stands before it in the batch is applied, and the rest
    /// counts as damaged.
    pub fn batch(&mut self, at: Name, records: &'a [u8]) -> Result<(), DecodeError> {
        for record in Records::new(at, records) {
            match record {
                Ok((name, record)) => self.apply(name, &record, at, records),
                Err(error) => {
                    let from = u64::from(at.offset);
                    self.gaps
                        .push((at.file, from + error.at as u64, from + records.len() as u64));
                    self.tell(DamageKind::Batch(at, error));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, kind: DamageKind) {
        let here = self.places();
        let places = self.journals.entry(self.current).or_insert(here..here);
        if places.start == places.end {
            *places = here..here;
        }
        places.end = here + 1;
        self.damage.push(Damage {
            generation: Some(self.current.generation),
            shard: Some(self.current.shard),
            kind,
        });
    }

    fn apply(&mut self, name: Name, record: &Record<'a>, at: Name, records: &'a [u8]) {
        // An offset in the batch, since the name was made of it.
        let rest = || {
            let before = name.offset.saturating_sub(at.offset) as usize;
            records.get(before..).unwrap_or_default()
        };
        match record {
            Record::Message(message) => {
                self.bodies.insert(name, (name, rest()));
                self.rings.sent(self.current, name, name, message.elsewhere);
                if message.elsewhere.shards >> self.current.shard.min(63) & 1 == 1 {
                    self.serve(name, message.recipients);
                }
                self.owe(name, message.recipients);
                if let Some(arrival) = message.arrival {
                    self.arrived(arrival);
                }
            }
            Record::Carry(carry) => {
                self.bodies.insert(carry.name, (name, rest()));
                let named = carry.name;
                self.rings.sent(self.current, named, named, carry.elsewhere);
            }
            Record::Again(again) => {
                self.rings.again(self.current, name, again);
            }
            Record::Owe(owe) => {
                self.rings.heard(self.current, owe.mark());
                if owe.mark().name < owe.name {
                    self.serve(owe.name, owe.recipients);
                }
                self.owe(owe.name, owe.recipients);
            }
            Record::Heard(marks) => {
                for mark in marks.iter() {
                    self.rings.heard(self.current, mark);
                }
            }
            Record::Room(room) => self.rooms.room(room),
            Record::RoomProperty(property) => self.rooms.property(property),
            Record::RoomMember(member) => self.rooms.member(member),
            Record::RoomGone(name) => self.rooms.gone(*name),
            _ => self.apply_to_session(record),
        }
    }

    fn apply_to_session(&mut self, record: &Record<'a>) {
        match record {
            Record::Session(session) => self.session(session),
            Record::Base(session) => self.begin(session),
            Record::Adopted { number, origin } => self.adopted(*number, *origin),
            Record::End { number } => {
                let origin = self.current.session(*number);
                self.sessions.remove(&origin);
                self.parts.remove(&origin);
                self.unknown.remove(&origin);
            }
            Record::Owner { number, mark } => self.with(*number, |it| it.owner = Some(*mark)),
            Record::Here { number } => self.with(*number, |it| it.presence = Presence::Here),
            Record::Away(away) => self.with(away.number, |it| it.presence = (*away).into()),
            Record::Sub(sub) => self.with_subscriptions(sub.number, |all| {
                all.insert(sub.filter, *sub);
            }),
            Record::Unsub { number, filter } => self.with_subscriptions(*number, |all| {
                all.remove(filter);
            }),
            Record::Done { number, filter } => self.with_subscriptions(*number, |all| {
                if let Some(subscription) = all.get_mut(filter) {
                    subscription.snapshot = false;
                }
            }),
            Record::Will(will) => self.with(will.number, |it| it.will = Some(*will)),
            Record::WillGone { number } => self.with(*number, |it| it.will = None),
            Record::Arrived(arrival) => self.arrived(*arrival),
            Record::Released(Arrival { number, packet_id }) => self.with(*number, |it| {
                it.arrived.remove(packet_id);
            }),
            _ => self.apply_to_deliveries(record),
        }
    }

    fn apply_to_deliveries(&mut self, record: &Record<'a>) {
        match record {
            Record::Acked(fronts) => {
                for front in fronts.iter() {
                    self.with(front.number, |it| it.acked(&front));
                    self.with_parts(front.number, |it| it.owed.acked(front.front));
                }
            }
            Record::Gone(Delivery { number, delivery }) => {
                self.with_owed(*number, |it| it.gone(*delivery));
            }
            Record::Received(Delivery { number, delivery }) => {
                self.with_owed(*number, |it| it.received(*delivery));
            }
            Record::Sent {
                delivery: Delivery { number, delivery },
                packet_id,
            } => self.with_owed(*number, |it| it.sent_as(*delivery, *packet_id)),
            Record::Spooled(spooled) => {
                self.with(spooled.number, |it| it.spooled(spooled));
                self.with_parts(spooled.number, |it| it.owed.spooled(spooled));
            }
            _ => self.apply_to_queue(record),
        }
    }

    fn apply_to_queue(&mut self, record: &Record<'a>) {
        match record {
            Record::LetGo { held, conflated } => {
                self.with_parts(held.number, |it| {
                    it.held.remove(&held.name);
                });
                let origin = self.current.session(held.number);
                match self.sessions.get_mut(&origin) {
                    Some(it) => it.let_go(held.name, *conflated, &mut self.terms),
                    None => self.unknown(origin),
                }
            }
            Record::Dropped(held) => {
                self.with(held.number, |it| {
                    let _ = it.take_held(held.name);
                });
                self.with_parts(held.number, |it| {
                    it.held.remove(&held.name);
                });
            }
            Record::Queue(queue) => {
                let origin = self.current.session(queue.number);
                match self.sessions.get_mut(&origin) {
                    Some(it) => it.restore_queue(queue, &mut self.terms),
                    None => self.unknown(origin),
                }
            }
            Record::Part(part) => {
                let origin = self.current.session(part.number);
                let places = self.places();
                if part.place == 0 {
                    self.parts.insert(origin, Written::new(places));
                }
                if let Some(written) = self.parts.get_mut(&origin) {
                    written.add(part, &mut self.terms);
                }
            }
            Record::Parts(parts) => {
                let written = self.parts.remove(&self.current.session(parts.number));
                self.with(parts.number, |it| it.join(written, parts));
            }
            // They were applied before.
            _ => {}
        }
    }

    fn with(&mut self, number: u32, apply: impl FnOnce(&mut Progress<'a>)) {
        let origin = self.current.session(number);
        match self.sessions.get_mut(&origin) {
            Some(session) => apply(session),
            None => self.unknown(origin),
        }
    }

    /// Something has become of deliveries, of those as well that are written in parts.
    fn with_owed(&mut self, number: u32, apply: impl Fn(&mut Owed)) {
        self.with(number, |it| apply(&mut it.owed));
        self.with_parts(number, |it| apply(&mut it.owed));
    }

    /// The same of subscriptions.
    fn with_subscriptions(
        &mut self,
        number: u32,
        apply: impl Fn(&mut BTreeMap<Filter<'a>, Subscription<'a>>),
    ) {
        self.with(number, |it| apply(&mut it.subscriptions));
        self.with_parts(number, |it| apply(&mut it.subscriptions));
    }

    fn with_parts(&mut self, number: u32, apply: impl FnOnce(&mut Written<'a>)) {
        if let Some(parts) = self.parts.get_mut(&self.current.session(number)) {
            apply(parts);
        }
    }

    /// A record is about a session of which nothing is known yet.
    fn unknown(&mut self, origin: Origin) {
        *self.unknown.entry(origin).or_default() += 1;
    }

    fn session(&mut self, session: &Session<'a>) {
        let origin = self.current.session(session.number);
        match self.sessions.get_mut(&origin) {
            Some(it) => it.session = *session,
            None => self.begin(session),
        }
    }

    fn begin(&mut self, session: &Session<'a>) {
        let origin = self.current.session(session.number);
        let progress = Progress::new(*session, self.places());
        self.sessions.insert(origin, progress);
        self.unknown.remove(&origin);
    }

    fn adopted(&mut self, number: u32, origin: Origin) {
        let Some(mut session) = self.sessions.remove(&origin) else {
            // A base follows, or the earlier generation would still be there.
            self.unknown(self.current.session(number));
            return;
        };
        let gaps = self.gaps_since(origin, &session);
        session.may_lack.extend(gaps);
        session.places_before = self.places();
        session.session.number = number;
        self.sessions.insert(self.current.session(number), session);
    }

    /// The gaps of its journal since all of it was known, if there are any.
    fn gaps_since(&self, origin: Origin, session: &Progress<'a>) -> Option<Range<u32>> {
        let id = JournalId {
            generation: origin.generation,
            shard: origin.shard,
        };
        let gaps = self.journals.get(&id)?;
        let from = gaps.start.max(session.places_before);
        Some(from..gaps.end).filter(|gaps| !gaps.is_empty())
    }

    fn arrived(&mut self, arrival: Arrival) {
        if self.forgets_arrivals {
            return;
        }
        self.with(arrival.number, |it| {
            it.arrived.insert(arrival.packet_id);
        });
    }

    /// A message goes on in later turns, and these have it already.
    fn serve(&mut self, name: Name, recipients: List<'a, Group<'a>>) {
        let current = self.current;
        let served = self.served.entry(name).or_default();
        for Group { terms, numbers } in recipients.iter() {
            served.shares.extend(terms.share.map(OwnedShare::from));
            let sessions = numbers.iter().map(|number| current.session(number));
            served.sessions.extend(sessions);
        }
    }

    fn owe(&mut self, name: Name, recipients: List<'a, Group<'a>>) {
        for Group { terms, numbers } in recipients.iter() {
            if terms.held {
                let held = HeldBack { name, terms };
                for number in numbers.iter() {
                    self.with(number, |it| it.held.push_back(held));
                    self.with_parts(number, |it| {
                        it.held.insert(name, held);
                    });
                }
                continue;
            }
            let id = self.terms.add(terms);
            for number in numbers.iter() {
                self.with(number, |it| it.owe(name, id));
            }
        }
    }

    /// Everything was applied. Makes a message of each body that is needed, once.
    #[must_use]
    pub fn finish<M: Clone>(mut self, mut make: impl FnMut(Name, &Body<'a>) -> M) -> Restored<M> {
        let everyones = self.lost_files();
        let places = self.places();
        self.tell_unknown();
        let mut made: ByName<M> = ByName::default();
        let mut message = |name: Name| {
            if let Some(message) = made.get(&name) {
                return Some(message.clone());
            }
            let (at, bytes) = self.bodies.get(&name)?;
            let message = make(name, &body(*at, bytes)?);
            made.insert(name, message.clone());
            Some(message)
        };
        let sessions = self.sessions.iter().map(|(origin, session)| {
            let own = self.gaps_since(*origin, session);
            let later = self.gaps_of_later_starts(*origin, places);
            let may_lack = session.may_lack.iter().cloned();
            let may_lack = everyones.clone().into_iter().chain(may_lack);
            let may_lack = may_lack.chain(own).chain(later).collect();
            let is_lost = |name: Name| self.is_in_a_gap(name);
            restore(
                *origin,
                session,
                &self.terms,
                &mut message,
                is_lost,
                may_lack,
            )
        });
        let sessions: Vec<RestoredSession<M>> = sessions.collect();
        let lost_sessions = still_lost(self.lost_sessions, &sessions);
        // Another shard may have a member of a shared subscription.
        let is_there = |id: JournalId, to: &Target| {
            let shards = match to {
                Target::Subscribers(_) => id.shard..=id.shard,
                Target::Member(_) => 0..=u16::MAX,
            };
            let (generation, from, to) = (id.generation, *shards.start(), *shards.end());
            let of = |shard| JournalId { generation, shard };
            let all = of(from).session(0)..=of(to).session(u32::MAX);
            self.sessions.range(all).next().is_some()
        };
        Restored {
            sessions,
            unheard: self.rings.unheard(is_there, message, &self.served),
            rooms: self.rooms.finish(),
            damage: self.damage,
            lost_sessions,
        }
    }

    /// Reports the records whose sessions stayed unknown, by journal.
    fn tell_unknown(&mut self) {
        let mut orphans = BTreeMap::<(u32, u16), (u64, u64)>::new();
        for (origin, records) in &self.unknown {
            let here = orphans.entry((origin.generation, origin.shard));
            let (all, sessions) = here.or_default();
            *all += records;
            *sessions += 1;
        }
        let told = orphans
            .into_iter()
            .map(|((generation, shard), (records, sessions))| Damage {
                generation: Some(generation),
                shard: Some(shard),
                kind: DamageKind::Orphans { records, sessions },
            });
        self.damage.extend(told);
    }

    fn is_in_a_gap(&self, name: Name) -> bool {
        let offset = u64::from(name.offset);
        let mut gaps = self.gaps.iter();
        gaps.any(|(file, from, to)| *file == name.file && (*from..*to).contains(&offset))
    }

    /// The gaps of later generations, which may have told what has become of a session.
    fn gaps_of_later_starts(&self, origin: Origin, places: u32) -> Option<Range<u32>> {
        let first = JournalId {
            generation: origin.generation.saturating_add(1),
            shard: 0,
        };
        let mut later = self.journals.range(first..).map(|(_, gaps)| gaps);
        let first = later.find(|gaps| !gaps.is_empty())?;
        Some(first.start..places)
    }

    /// Files of which no journal says that it misses them, so they may have told of any session.
    fn lost_files(&self) -> Option<Range<u32>> {
        let file_of = |damage: &Damage| match damage.kind {
            DamageKind::Gap { file, .. } => Some(file),
            DamageKind::Files(_) | DamageKind::Batch(..) | DamageKind::Orphans { .. } => None,
        };
        let is_lost = |damage: &&Damage| damage.generation.is_none();
        let is_missed = |file| {
            let mut told = self.damage.iter().filter(|damage| !is_lost(damage));
            told.any(|damage| file_of(damage) == Some(file))
        };
        let lost = self.damage.iter().take_while(is_lost);
        let is_anybodys = lost
            .clone()
            .any(|damage| file_of(damage).is_none_or(|file| !is_missed(file)));
        // As many as there are files.
        is_anybodys.then(|| 0..lost.count() as u32)
    }
}

/// Sessions that damaged places name, and nobody else, each once.
fn still_lost<M>(mut lost: Vec<LostSession>, sessions: &[RestoredSession<M>]) -> Vec<LostSession> {
    if lost.is_empty() {
        return lost;
    }
    let there = sessions.iter();
    let there: BTreeSet<_> = there
        .map(|it| (it.zone, &*it.client_id, it.user.as_deref()))
        .collect();
    lost.retain(|it| !there.contains(&(it.zone, &*it.client_id, it.user.as_deref())));
    lost.sort();
    lost.dedup();
    lost
}

/// The message in a record.
fn body<'a>(at: Name, bytes: &'a [u8]) -> Option<Body<'a>> {
    match Records::new(at, bytes).next()?.ok()?.1 {
        Record::Message(message) => Some(message.body),
        Record::Carry(carry) => Some(carry.body),
        _ => None,
    }
}

fn restore<M>(
    origin: Origin,
    it: &Progress<'_>,
    all: &AllTerms<'_>,
    message: &mut impl FnMut(Name) -> Option<M>,
    is_lost: impl Fn(Name) -> bool,
    may_lack: Vec<Range<u32>>,
) -> RestoredSession<M> {
    let mut lost = 0;
    let mut find = |name| {
        let found = message(name);
        lost += u64::from(found.is_none() && is_lost(name));
        found
    };
    let owed = it.owed.queue.iter().filter_map(|entry| {
        let debt = match entry.state {
            State::Owed(name, terms) => RestoredDebt::Message(find(name)?, all.get(terms)?.into()),
            State::Received => RestoredDebt::Release,
            State::Done => return None,
        };
        Some(RestoredDelivery {
            delivery: entry.delivery,
            packet_id: packet_id(entry),
            debt,
        })
    });
    let owed = owed.collect();
    let held = it.held.iter().filter_map(|held| {
        Some(RestoredHeld {
            message: find(held.name)?,
            terms: (&held.terms).into(),
        })
    });
    let held = held.collect();
    let session = &it.session;
    RestoredSession {
        origin,
        zone: session.zone,
        client_id: session.client_id.into(),
        user: session.user.map(Into::into),
        guest: session.guest,
        owner: it.owner,
        expiry_secs: session.expiry_secs,
        has_no_account: session.has_no_account,
        roles_are_of_credential: session.roles_are_of_credential,
        roles: session.roles.iter().map(Into::into).collect(),
        quotas: session.quotas,
        presence: it.presence,
        subscriptions: it.subscriptions.values().map(Into::into).collect(),
        arrived: it.arrived.iter().copied().collect(),
        next: it.next,
        sent: match it.presence {
            // What was sent last is perhaps not written. No packet id is in use twice.
            Presence::Here => {
                let first = it.owed.first().unwrap_or(it.next);
                it.next.min(first.saturating_add(PACKET_IDS)).max(it.sent)
            }
            Presence::Away { .. } => it.sent,
        },
        owed,
        spooled: it.owed.spool.restored(),
        held,
        will: it.will.as_ref().map(Into::into),
        // At least one, if nobody knows where.
        lost: lost + u64::from(it.lacks_parts && may_lack.is_empty()),
        may_lack,
        named: it.named.clone(),
    }
}

/// How many packet ids there are.
const PACKET_IDS: u64 = 65_535;

fn packet_id(entry: &Entry) -> PacketId {
    let natural = || packet_id_of(entry.delivery);
    entry.packet_id.unwrap_or_else(natural)
}
