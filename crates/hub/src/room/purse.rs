//! What commands about rooms cost those who give them.
//!
//! The home of a zone does nothing else while it runs a command, and the largest of them look at
//! every room. So each is paid for in advance, before anybody knows what it costs, and what it did
//! not cost is given back with the answer: a few are under way for one connection, and the next is
//! not read before those are answered or the time is over.

use core::time::Duration;

use stentor_session::Tick;

use super::RoomItem;
use crate::hub::Hub;
use crate::key::{SessionKey, ShardId};

/// What is paid in advance.
const DEPOSIT: Duration = Duration::from_millis(5);
/// What who has given no commands for some time may spend at once.
const SAVED_MAX: Duration = Duration::from_millis(20);
/// No pause is longer, whatever a command costs.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How much longer than it keeps the home busy a command is paid for: commands of one connection
/// take a quarter of its time at most.
const SHARE: u32 = 4;

/// What one connection has paid for commands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purse {
    /// When everything is paid for.
    paid: Tick,
}

impl Purse {
    /// Pays for a command that begins now.
    fn pay(&mut self, now: Tick) {
        self.take(now, DEPOSIT);
    }

    /// A command has kept its home busy for so long, and what was paid beyond that comes back.
    fn settle(&mut self, now: Tick, work: Duration) {
        let deposit = DEPOSIT.as_micros() as u64;
        self.paid = Tick::from_micros(self.paid.as_micros().saturating_sub(deposit));
        self.take(now, work.saturating_mul(SHARE));
    }

    fn take(&mut self, now: Tick, cost: Duration) {
        let saved = SAVED_MAX.as_micros() as u64;
        let since = Tick::from_micros(now.as_micros().saturating_sub(saved));
        self.paid = self.paid.max(since).after(cost).min(now.after(PAUSE_MAX));
    }

    /// From when on more is read.
    pub(crate) const fn paid_at(self) -> Tick {
        self.paid
    }
}

impl Hub {
    /// A session gives a command.
    pub(super) fn pay_command(&mut self, now: Tick, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        if let Some(live) = session.and_then(|session| session.live_mut()) {
            live.extras().purse.get_or_insert_default().pay(now);
        }
    }

    /// Tells the shard of a session how long its command has kept this one busy.
    pub(super) fn charge(
        &mut self,
        now: Tick,
        (shard, session): (ShardId, SessionKey),
        work: Duration,
    ) {
        self.send_room(now, shard, RoomItem::Charge { session, work });
    }

    /// The home of a session's zone has been busy for so long with a command of it.
    pub(super) fn charged(&mut self, now: Tick, key: SessionKey, work: Duration) {
        let session = self.sessions.get_mut(key);
        let Some(live) = session.and_then(|session| session.live_mut()) else {
            return;
        };
        let link = live.link;
        // A connection that was not there when the command was given has paid nothing.
        let Some(purse) = live
            .extras
            .as_mut()
            .and_then(|extras| extras.purse.as_mut())
        else {
            return;
        };
        let was_paused = purse.paid > now;
        purse.settle(now, work);
        if was_paused && purse.paid <= now {
            live.last_seen = now;
            self.effects.resumed.push(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_commands_are_under_way_and_what_they_did_not_cost_comes_back() {
        let now = Tick::from_secs(100);
        let mut purse = Purse::default();
        let mut paid = 0;
        while purse.paid_at() <= now {
            purse.pay(now);
            paid += 1;
        }
        assert_eq!(paid, 5);
        purse.settle(now, Duration::from_micros(20));
        assert!(purse.paid_at() > now, "it has cost a little");
        purse.settle(now, Duration::from_micros(20));
        assert!(purse.paid_at() <= now);
        purse.settle(now, Duration::from_millis(10));
        assert_eq!(purse.paid_at().since(now), Duration::from_micros(30_160));
        // Waiting pays, but no more than a little is saved.
        let later = Tick::from_secs(200);
        purse.pay(later);
        assert_eq!(later.since(purse.paid_at()), SAVED_MAX - DEPOSIT);
        purse.settle(later, Duration::from_secs(1_000));
        assert_eq!(purse.paid_at().since(later), PAUSE_MAX);
    }
}
