//! What was on its way between shards.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{ByName, JournalId, OwnedShare, Served, Target, Unheard};
use crate::message::{Again, Elsewhere, Mark, Member};
use crate::name::Name;

/// What shards have sent each other, and how much of it has come.
///
/// What one shard sends another arrives in the order in which it was written. So the last that has
/// come stands for all that was sent before.
#[derive(Debug, Default)]
pub(super) struct Rings<'a> {
    sent: Vec<Sent<'a>>,
    /// The last that a journal says has come from each shard.
    heard: BTreeMap<(JournalId, u8), Name>,
}

/// Something that a shard has sent to others.
#[derive(Clone, Copy, Debug)]
struct Sent<'a> {
    by: JournalId,
    /// Its place in the order.
    at: Name,
    message: Name,
    to: To<'a>,
}

#[derive(Clone, Copy, Debug)]
enum To<'a> {
    Elsewhere(Elsewhere<'a>),
    Member(Member<'a>),
}

impl<'a> Rings<'a> {
    /// A journal says that a message is for others too.
    pub(super) fn sent(
        &mut self,
        by: JournalId,
        at: Name,
        message: Name,
        elsewhere: Elsewhere<'a>,
    ) {
        if !elsewhere.is_nobody() {
            let to = To::Elsewhere(elsewhere);
            self.sent.push(Sent {
                by,
                at,
                message,
                to,
            });
        }
    }

    /// A journal says that messages are for a member elsewhere, after another one has ended.
    pub(super) fn again(&mut self, by: JournalId, at: Name, again: &Again<'a>) {
        let to = To::Member(again.member);
        self.sent.extend(again.names.iter().map(|message| Sent {
            by,
            at,
            message,
            to,
        }));
    }

    /// A journal says that something has come. A message of an earlier generation has a name before
    /// all names of this one, and changes nothing.
    pub(super) fn heard(&mut self, by: JournalId, mark: Mark) {
        let last = self.heard.entry((by, mark.shard)).or_insert(mark.name);
        *last = mark.name.max(*last);
    }

    /// What has not come to where sessions still wait for it.
    pub(super) fn unheard<M>(
        &self,
        is_there: impl Fn(JournalId, &Target) -> bool,
        mut message: impl FnMut(Name) -> Option<M>,
        served: &ByName<Served>,
    ) -> Vec<Unheard<M>> {
        let mut sent: Vec<&Sent<'a>> = self.sent.iter().collect();
        sent.sort_by_key(|sent| (sent.by, sent.at));
        // A message that was carried is there twice.
        sent.dedup_by_key(|sent| (sent.at, sent.message));
        let mut unheard = Vec::new();
        for sent in sent {
            for (shard, to) in sent.targets() {
                let id = JournalId {
                    generation: sent.by.generation,
                    shard,
                };
                if self.has_come(id, sent) || !is_there(id, &to) {
                    continue;
                }
                if let Some(message) = message(sent.message) {
                    unheard.push(Unheard {
                        name: sent.message,
                        message,
                        to,
                        generation: id.generation,
                        shard,
                        is_own: sent.by == id,
                        served: served.get(&sent.message).cloned().unwrap_or_default(),
                    });
                }
            }
        }
        unheard
    }

    fn has_come(&self, to: JournalId, sent: &Sent<'a>) -> bool {
        let from = u8::try_from(sent.by.shard).ok();
        let last = from.and_then(|from| self.heard.get(&(to, from)));
        last.is_some_and(|last| *last >= sent.at)
    }
}

impl Sent<'_> {
    fn targets(&self) -> Vec<(u16, Target)> {
        let member = |member: Member<'_>| {
            let share = OwnedShare::from(member.share);
            (u16::from(member.shard), Target::Member(share))
        };
        match self.to {
            To::Member(to) => [member(to)].into(),
            To::Elsewhere(Elsewhere {
                shards,
                route,
                members,
            }) => {
                let bits = (0..u64::BITS as u16).filter(|shard| shards & 1 << shard != 0);
                let all = bits.map(|shard| (shard, Target::Subscribers(route.map(Into::into))));
                all.chain(members.iter().map(member)).collect()
            }
        }
    }
}
