//! What commands about rooms cost those who give them.
//!
//! The home of a zone does nothing else while it runs a command, and the largest of them look at
//! every room. So each is paid for with time. What a command costs is known when its home has run
//! it: a few of one connection are under way, and the next is not read before one of those is done.
//! A connection may owe a little, so that pauses, which end late, take nothing from its share.

use core::time::Duration;

use stentor_session::Tick;
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::ids::SessionKey;

/// This many commands of a connection are under way.
const UNDER_WAY_MAX: u32 = 5;
/// What a connection may owe: about how late a timer rings.
const CREDIT: Duration = Duration::from_millis(131);
/// The same of a connection that is read for the last time.
const LAST_UNDER_WAY_MAX: u32 = 200;
const LAST_CREDIT: Duration = Duration::from_millis(600);
/// No pause is longer, whatever a command costs.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How much longer than it keeps the home busy a command is paid for: commands of one connection
/// take a quarter of its time at most.
const SHARE: u32 = 4;

/// What one connection owes for commands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandRate {
    /// When everything is paid for.
    paid: Tick,
    /// Commands that have not been charged yet.
    under_way: u32,
    /// Whether the connection is read for the last time.
    is_last: bool,
}

impl CommandRate {
    /// A command has kept its home busy for so long.
    fn charge(&mut self, now: Tick, work: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        let paid = self.paid.max(now).after(work.saturating_mul(SHARE));
        self.paid = paid.min(now.after(PAUSE_MAX));
    }

    /// Whether nothing is read before a command has been charged.
    pub(crate) const fn is_full(&self) -> bool {
        let max = if self.is_last {
            LAST_UNDER_WAY_MAX
        } else {
            UNDER_WAY_MAX
        };
        self.under_way >= max
    }

    /// From when on more is read.
    pub(crate) fn paid_at(&self) -> Tick {
        let credit = if self.is_last { LAST_CREDIT } else { CREDIT };
        let credit = credit.as_micros() as u64;
        Tick::from_micros(self.paid.as_micros().saturating_sub(credit))
    }
}

/// A session gives a command.
pub(crate) fn begin_command(core: &mut Core, key: SessionKey) {
    let session = core.sessions.get_mut(key);
    if let Some(live) = session.and_then(|session| session.live_mut()) {
        live.extras().command_rate.get_or_insert_default().under_way += 1;
    }
}

/// The home of a session's zone has been busy for so long with a command of it.
pub(crate) fn charge(core: &mut Core, now: Tick, key: SessionKey, work: Duration) {
    let session = core.sessions.get_mut(key);
    let Some(live) = session.and_then(|session| session.live_mut()) else {
        return;
    };
    let link = live.link;
    // A connection that was not there when the command was given owes nothing.
    let command_rate = live
        .extras
        .as_mut()
        .and_then(|extras| extras.command_rate.as_mut());
    let Some(command_rate) = command_rate else {
        return;
    };
    let was_full = command_rate.is_full();
    command_rate.charge(now, work);
    if was_full && !command_rate.is_full() {
        live.last_seen = now;
        core.effects.resumed.push(link);
    }
}

/// The connection that a client id has now is about to be taken over: commands that it has
/// sent already need not wait, up to some more, or else they would be lost, and a DISCONNECT
/// behind them. To be undone.
pub(crate) fn read_last(core: &mut Core, zone: Zone, client_id: &str, is_last: bool) {
    let key = core.sessions.connected(zone, client_id);
    let session = key.and_then(|key| core.sessions.get_mut(key));
    if let Some(live) = session.and_then(|session| session.live_mut())
        && (is_last || live.extras.is_some())
    {
        live.extras().command_rate.get_or_insert_default().is_last = is_last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_commands_are_under_way_and_a_little_is_owed() {
        let now = Tick::from_secs(100);
        let mut command_rate = CommandRate::default();
        while !command_rate.is_full() {
            command_rate.under_way += 1;
        }
        assert_eq!(command_rate.under_way, 5);
        command_rate.charge(now, Duration::from_millis(32));
        assert!(
            !command_rate.is_full() && command_rate.paid_at() <= now,
            "it is little"
        );
        command_rate.charge(now, Duration::from_millis(8));
        assert_eq!(command_rate.paid_at().since(now), Duration::from_millis(29));
        // A pause that ends as late as a timer rings takes no time from its share.
        let later = command_rate.paid_at().after(CREDIT);
        command_rate.charge(later, Duration::from_millis(1));
        assert_eq!(command_rate.paid.since(now), Duration::from_millis(164));
        // A session that has given no commands has saved nothing.
        let later = Tick::from_secs(200);
        command_rate.charge(later, Duration::from_secs(1_000));
        assert_eq!(command_rate.paid.since(later), PAUSE_MAX);
    }
}
