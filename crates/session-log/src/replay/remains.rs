//! What a damaged batch still says: which sessions it was about.
//!
//! Nothing of it is applied, since any byte may be wrong. It only tells people where to look.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{JournalId, Progress};
use crate::list::List;
use crate::message::Group;
use crate::name::Name;
use crate::record::{Record, Records};
use crate::session::{Origin, Session};

/// A session that only a damaged place names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostSession {
    /// The number of its zone.
    pub zone: u32,
    /// Its client id.
    pub client_id: Box<str>,
    /// Its user.
    pub user: Option<Box<str>>,
    /// The place in [`Restored::damage`](super::Restored::damage).
    pub place: u32,
}

/// The sessions of the records, up to the first that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Numbers in this journal.
    pub(super) numbers: BTreeSet<u32>,
    /// Sessions that go on here.
    pub(super) origins: BTreeSet<Origin>,
    /// Sessions whose client ids are there.
    pub(super) sessions: Vec<(u32, LostSession)>,
}

impl Remains {
    pub(super) fn read(at: Name, bytes: &[u8], place: u32) -> Self {
        let mut remains = Self::default();
        for record in Records::new(at, bytes) {
            match record {
                Ok((_, record)) => remains.see(&record, place),
                Err(_) => break,
            }
        }
        remains
    }

    fn see(&mut self, record: &Record<'_>, place: u32) {
        match record {
            Record::Session(session) | Record::Base(session) => self.see_session(session, place),
            Record::Adopted { number, origin } => {
                self.numbers.insert(*number);
                self.origins.insert(*origin);
            }
            Record::Message(message) => {
                self.numbers
                    .extend(message.arrival.map(|arrival| arrival.number));
                self.see_groups(message.recipients);
            }
            Record::Owe(owe) => self.see_groups(owe.recipients),
            Record::Acked(fronts) => self.numbers.extend(fronts.iter().map(|it| it.number)),
            _ => self.numbers.extend(number_of(record)),
        }
    }

    fn see_session(&mut self, session: &Session<'_>, place: u32) {
        self.numbers.insert(session.number);
        let lost = LostSession {
            zone: session.zone,
            client_id: session.client_id.into(),
            user: session.user.map(Into::into),
            place,
        };
        self.sessions.push((session.number, lost));
    }

    fn see_groups(&mut self, groups: List<'_, Group<'_>>) {
        for group in groups.iter() {
            self.numbers.extend(group.numbers.iter());
        }
    }
}

/// The session of a record that is about one.
fn number_of(record: &Record<'_>) -> Option<u32> {
    Some(match record {
        Record::End { number }
        | Record::Owner { number, .. }
        | Record::Here { number }
        | Record::WillGone { number }
        | Record::Unsub { number, .. }
        | Record::Done { number, .. } => *number,
        Record::Away(away) => away.number,
        Record::Sub(subscription) => subscription.number,
        Record::Gone(it) | Record::Received(it) | Record::Sent { delivery: it, .. } => it.number,
        Record::LetGo { held, .. } | Record::Dropped(held) => held.number,
        Record::Arrived(arrival) | Record::Released(arrival) => arrival.number,
        Record::Will(will) => will.number,
        Record::Queue(queue) => queue.number,
        Record::Spooled(spooled) => spooled.number,
        Record::Part(part) => part.number,
        Record::Parts(parts) => parts.number,
        _ => return None,
    })
}

/// Notes in the sessions that are known that a damaged place names them. Returns those that are
/// not.
pub(super) fn note<'a>(
    remains: Remains,
    journal: JournalId,
    place: u32,
    mut known: impl FnMut(Origin, &mut dyn FnMut(&mut Progress<'a>)) -> bool,
) -> Vec<LostSession> {
    let mut name = |origin| {
        known(origin, &mut |it| {
            if it.named.last() != Some(&place) {
                it.named.push(place);
            }
        })
    };
    let numbers = remains.numbers.into_iter();
    let numbers = numbers.filter(|number| name(journal.session(*number)));
    let found: BTreeSet<u32> = numbers.collect();
    for origin in remains.origins {
        name(origin);
    }
    let unknown = remains.sessions.into_iter();
    let unknown = unknown.filter(|(number, _)| !found.contains(number));
    unknown.map(|(_, lost)| lost).collect()
}
