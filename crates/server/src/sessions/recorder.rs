//! A shard's side of its journal.
//!
//! What the hub says of sessions is appended before anybody hears of it. From time to time, all
//! sessions are written again, some in each turn. After such a round, the older files go. The first
//! round also makes the files of earlier starts superfluous.
//!
//! A round leaves the files alone that are kept in reserve for what the hub says.
//!
//! When there is no room, what the hub says waits until the maintenance thread has made another
//! file, and the shard holds back the answers that it belongs to. If the disk refuses files, or is
//! far too slow, all of it is dropped, and the journal is behind. When there is room again, a round
//! makes it complete.
//!
//! With `sessions.sync = "always"`, the shard also holds answers back until the disk has what they
//! belong to. One commit is under way at a time, and covers all that was appended before it began.
//! A client that goes on in the meantime gets the answers that a commit covers when it ends, and
//! the others after the next one: so its requests of one commit's time go to the disk together.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stentor_disk::MappedDisk;
use stentor_hub::Hub;
use stentor_hub::journal::{
    ALL_WRITTEN, bytes_to_write, give_up_rewriting, logged, rewrite_sessions, set_journal_full,
    set_journal_laden, take_batches,
};
use stentor_hub::spool::has_spool_orders;
use stentor_session::Tick;
use stentor_session_log::Name;
use stentor_session_store::{Needs, Position, Room, Usage, Writer};
use tracing::{info, warn};

use super::spooling::Spooling;

/// The writer on mapped files.
pub(crate) type MappedWriter = Writer<<MappedDisk as stentor_disk::Disk>::Region>;

/// Sessions and subscriptions that are written again as one batch, unless one session has more.
const PIECES_AT_ONCE: usize = 256;
/// Batches and bytes of a round in one turn.
const BATCHES_PER_TURN: usize = 4;
const BYTES_PER_TURN: usize = 256 << 10;
/// Bytes that may wait for room.
const WAITING_MAX: usize = 32 << 20;
/// Bytes that may wait before every PUBLISH waits that the journal would have to keep, and when it
/// no longer does.
const WAITING_MUCH: usize = 8 << 20;
const WAITING_LITTLE: usize = 4 << 20;
/// Bytes that may wait before no client is read: they are of requests that were read before.
const WAITING_FAR_TOO_MUCH: usize = 24 << 20;
/// Bytes of files that a round or a commit should have freed before the same happens, and when it
/// ends: while the disk is busy, the journal would take as much as clients send.
const UNFREED_MUCH: usize = 128 << 20;
const UNFREED_LITTLE: usize = 64 << 20;
/// Bytes of those that are appended in one turn.
const WAITING_PER_TURN: usize = 1 << 20;
/// How long a file may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are appended at once while sessions are restored.
const RESTORED_BYTES: usize = 64 << 10;
/// How long a shard waits for room in all while it restores sessions.
const RESTORE_PATIENCE: Duration = Duration::from_secs(5);
/// Files that are filled before a round begins, at least.
const FILES_MIN: usize = 4;
/// Empty files that are left for what makes room when the disk is full.
const FILES_LEFT: usize = 1;
/// How often it is estimated how much a round writes.
const ESTIMATE_TIME: Duration = Duration::from_millis(250);

/// Whether so much waits for room, or to be freed, that more of it should wait with its clients.
const fn is_much(was_much: bool, waiting: usize, unfreed: usize) -> bool {
    match was_much {
        true => waiting >= WAITING_LITTLE || unfreed >= UNFREED_LITTLE,
        false => waiting >= WAITING_MUCH || unfreed >= UNFREED_MUCH,
    }
}

/// Bytes of files beyond those after which a round begins, and of those that wait for a commit.
const fn unfreed(usage: Usage, files_max: usize) -> usize {
    if usage.used <= files_max {
        return usage.released_bytes;
    }
    usage.released_bytes + usage.used_bytes / usage.used * (usage.used - files_max)
}

/// Whether the journal has everything that the hub has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completeness {
    Complete,
    /// Something was dropped, and all that follows is dropped too.
    Behind,
    /// Something was dropped before the round that is under way.
    CatchingUp,
}

/// Why something was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The disk refuses files. The maintenance thread has told that.
    Refused,
    /// A file has not come in time.
    Slow,
    /// Too much waits.
    Much,
}

impl Why {
    fn told(self) -> Option<&'static str> {
        match self {
            Self::Refused => None,
            Self::Slow => Some("the disk has taken seconds for a file"),
            Self::Much => Some("they change faster than the disk takes it"),
        }
    }
}

/// The records that wait for room, in order.
#[derive(Debug)]
struct Waiting {
    batches: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Bytes that there may be.
    max: usize,
    /// Since when nothing has found room.
    since: Instant,
    /// Whether there is no room for the first batch.
    is_stuck: bool,
}

impl Waiting {
    fn new() -> Self {
        Self {
            batches: VecDeque::new(),
            bytes: 0,
            max: WAITING_MAX,
            since: Instant::now(),
            is_stuck: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn push(&mut self, batch: &[u8]) {
        if self.is_empty() {
            self.since = Instant::now();
            self.is_stuck = true;
        }
        self.bytes += batch.len();
        self.batches.push_back(batch.to_vec());
    }

    fn clear(&mut self) {
        self.batches = VecDeque::new();
        self.bytes = 0;
    }
}

/// A round, in which all sessions are written again.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The session to go on with.
    next: u32,
    /// The file that was the newest when it began.
    first: Option<u32>,
    /// Whether it began after the disk had failed.
    after_failure: bool,
    /// Whether the last step found no room.
    waits: bool,
    /// Whether all is written, and something is under way to other shards that was written before.
    is_written: bool,
    /// Whether it has to begin in a file of its own: older records that nothing follows must not
    /// count when it has ended.
    needs_file: bool,
}

impl Round {
    const fn new(after_failure: bool, needs_file: bool) -> Self {
        Self {
            next: 0,
            first: None,
            after_failure,
            waits: false,
            is_written: false,
            needs_file,
        }
    }
}

/// What the disk is to have before answers leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncing {
    /// Nothing: a kill leaves what is appended.
    Later,
    /// Everything that answers promise.
    First {
        /// Whether something was appended that no commit covers yet.
        has_news: bool,
        /// What the commit covers that is under way.
        under_way: Option<Position>,
    },
}

/// What has become of the commits that answers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The one that was under way has ended.
    pub(crate) ends: bool,
    /// One has begun.
    pub(crate) begins: bool,
    /// Something was dropped that waited for room. Clients that wait for an answer must not get it.
    pub(crate) drops: bool,
}

impl Turn {
    /// Whether nothing has become of any.
    pub(crate) fn is_quiet(self) -> bool {
        self == Self::default()
    }
}

/// See the module.
pub(crate) struct Recorder {
    writer: MappedWriter,
    /// None in tests.
    spooling: Option<Spooling>,
    syncing: Syncing,
    completeness: Completeness,
    round: Option<Round>,
    /// Whether a round has ended.
    has_taken_over: bool,
    /// Whether the shard stops. Then sessions are not as they would be written: their wills are put
    /// off.
    is_stopping: bool,
    /// A round begins when this number of files is filled.
    files_max: usize,
    /// Files that all sessions took when the last round ended; `None` before.
    files_last: Option<usize>,
    /// Whether something was appended since the last look at the maintenance thread.
    has_news: bool,
    /// How long it is still to wait for room while sessions are restored.
    patience: Duration,
    waiting: Waiting,
    /// Where the oldest batches are that the hub has not been told of; `None` for dropped ones.
    fates: VecDeque<Option<Name>>,
    /// Whether the log has a line that says that the journal is behind.
    has_told: bool,
    /// Whether the hub refuses what sessions that last would take on.
    is_full: bool,
    /// Whether hubs let wait what the journal would have to keep.
    is_laden: bool,
    /// Whether something was dropped since the last turn.
    has_dropped: bool,
    /// About how many bytes a round writes, and when that was estimated; while the disk is full.
    estimate: Option<(Instant, u64)>,
}

impl Recorder {
    /// With the journal of a shard, which begins with a round. With `syncs_first`, answers wait
    /// for the disk.
    pub(crate) fn new(writer: MappedWriter, syncs_first: bool, spooling: Option<Spooling>) -> Self {
        let syncing = match syncs_first {
            false => Syncing::Later,
            true => Syncing::First {
                has_news: false,
                under_way: None,
            },
        };
        Self {
            writer,
            spooling,
            syncing,
            completeness: Completeness::Complete,
            round: Some(Round::new(false, false)),
            has_taken_over: false,
            is_stopping: false,
            files_max: FILES_MIN,
            files_last: None,
            has_news: false,
            patience: RESTORE_PATIENCE,
            waiting: Waiting::new(),
            fates: VecDeque::new(),
            has_told: false,
            is_full: false,
            is_laden: false,
            has_dropped: false,
            estimate: None,
        }
    }

    /// Whether [`Self::record`] has something to do.
    #[inline]
    pub(crate) fn is_asked(hub: &mut Hub) -> bool {
        !hub.effects().log.is_empty() || has_spool_orders(hub)
    }

    /// Appends what the hub has said since the last time. Returns whether some of it waits for
    /// room, or for the disk: then nobody may hear of it.
    #[inline]
    pub(crate) fn record(&mut self, hub: &mut Hub) -> bool {
        let says = !hub.effects().log.is_empty();
        let waits = says && self.record_log(hub);
        if let Some(spooling) = &self.spooling {
            spooling.order(hub);
        }
        waits
    }

    fn record_log(&mut self, hub: &mut Hub) -> bool {
        let is_promised = take_batches(hub, |batch| self.append(batch));
        if self.waiting.bytes > self.waiting.max {
            self.fall_behind(Why::Much);
        }
        self.tell(hub);
        // The hub does not know yet that nothing more can be promised.
        self.has_dropped |=
            is_promised && self.completeness == Completeness::Behind && !self.is_full;
        if self.completeness != Completeness::Behind
            && is_promised
            && let Syncing::First { has_news, .. } = &mut self.syncing
        {
            *has_news = true;
            return true;
        }
        self.lacks_room()
    }

    fn append(&mut self, batch: &[u8]) {
        if self.completeness == Completeness::Behind {
            return self.fates.push_back(None);
        }
        self.has_news = true;
        if self.is_waiting() {
            return self.waiting.push(batch);
        }
        match self.writer.append(batch) {
            Ok(name) => self.fates.push_back(Some(name)),
            Err(_) => self.waiting.push(batch),
        }
    }

    /// Tells the hub where batches are, or that they were dropped, in order.
    fn tell(&mut self, hub: &mut Hub) {
        for at in self.fates.drain(..) {
            logged(hub, at);
        }
    }

    /// Whether answers wait for the disk.
    pub(crate) const fn syncs_first(&self) -> bool {
        matches!(self.syncing, Syncing::First { .. })
    }

    /// Whether something waits for room, or was dropped in this turn.
    pub(crate) fn lacks_room(&self) -> bool {
        self.is_waiting() || self.has_dropped
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether something waits for room, or for the disk.
    pub(crate) fn waits(&self) -> bool {
        self.lacks_room()
            || match self.syncing {
                Syncing::Later => false,
                Syncing::First {
                    has_news,
                    under_way,
                } => has_news || under_way.is_some(),
            }
    }

    /// Begins and ends commits that answers wait for. What waits for room is in none yet.
    fn commit(&mut self) -> Turn {
        let is_waiting = self.is_waiting();
        let Syncing::First {
            has_news,
            under_way,
        } = &mut self.syncing
        else {
            return Turn::default();
        };
        let ends = under_way.is_some_and(|place| self.writer.is_committed(place));
        if ends {
            *under_way = None;
        }
        let begins = *has_news && under_way.is_none() && !is_waiting;
        if begins {
            *has_news = false;
            *under_way = Some(self.writer.commit());
        }
        Turn {
            ends,
            begins,
            drops: false,
        }
    }

    /// Bytes that wait for room in the journal, or are on their way to files of long backlogs.
    /// O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.bytes + self.spooling.as_ref().map_or(0, Spooling::bytes)
    }

    /// Whether so much waits for room that nobody should be read.
    pub(crate) const fn is_overladen(&self) -> bool {
        self.waiting.bytes >= WAITING_FAR_TOO_MUCH
    }

    /// Tells all hubs whether much waits for room, or for the disk.
    fn tell_laden(&mut self, hub: &Hub) {
        let unfreed = match self.is_full {
            // Clients are refused and do not wait.
            true => 0,
            false => unfreed(self.writer.usage(), self.files_max),
        };
        let is_laden = is_much(self.is_laden, self.waiting.bytes, unfreed);
        if is_laden != self.is_laden {
            self.is_laden = is_laden;
            set_journal_laden(hub, is_laden);
        }
    }

    /// Takes what the spool has done. Returns whether it has done anything.
    pub(crate) fn hear_spool(&mut self, hub: &mut Hub, now: Tick) -> bool {
        let spooling = self.spooling.as_mut();
        spooling.is_some_and(|spooling| spooling.hear(hub, now))
    }

    /// Appends what waits, as far as there is room and the turn has time.
    fn append_waiting(&mut self) {
        let mut bytes = 0;
        while bytes < WAITING_PER_TURN
            && let Some(batch) = self.waiting.batches.front()
        {
            let appended = self.writer.append(batch).ok();
            self.waiting.is_stuck = appended.is_none();
            if self.waiting.is_stuck {
                return self.bear();
            }
            self.has_news = true;
            self.fates.push_back(appended);
            self.waiting.since = Instant::now();
            bytes += batch.len();
            self.waiting.bytes -= batch.len();
            self.waiting.batches.pop_front();
        }
    }

    /// Gives what waits up if there is no hope for it.
    fn bear(&mut self) {
        if self.writer.is_refused() {
            self.fall_behind(Why::Refused);
        } else if self.waiting.since.elapsed() >= PATIENCE {
            self.fall_behind(Why::Slow);
        }
    }

    fn fall_behind(&mut self, why: Why) {
        self.completeness = Completeness::Behind;
        self.round = None;
        self.has_dropped |= self.is_waiting();
        self.fates.extend(self.waiting.batches.iter().map(|_| None));
        self.waiting.clear();
        if let (false, Some(why)) = (self.has_told, why.told()) {
            self.has_told = true;
            let shard = self.writer.shard();
            warn!(
                shard,
                "changes of sessions are not written down: {why}; until they are, the server \
                 refuses what sessions that last would take on. Use a faster disk for \
                 `sessions.dir`"
            );
        }
    }

    /// The shard stops: no round goes on, and none begins.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        self.round = None;
    }

    /// The same while sessions are restored, when there is time to wait for room. With `is_last`,
    /// all of it is appended.
    pub(crate) fn record_restored(&mut self, hub: &mut Hub, is_last: bool) {
        let log = &hub.effects().log;
        if log.is_empty() || !is_last && log.len() < RESTORED_BYTES {
            return;
        }
        take_batches(hub, |batch| {
            let at = self.append_patiently(batch);
            self.fates.push_back(at);
        });
        self.tell(hub);
    }

    fn append_patiently(&mut self, batch: &[u8]) -> Option<Name> {
        let began = Instant::now();
        let mut appended = None;
        while self.completeness != Completeness::Behind && appended.is_none() {
            appended = self.writer.append(batch).ok();
            if appended.is_none() {
                if self.writer.is_refused() {
                    self.fall_behind(Why::Refused);
                    break;
                }
                if began.elapsed() >= self.patience {
                    self.fall_behind(Why::Slow);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
                self.writer.tend();
            }
        }
        self.patience = self.patience.saturating_sub(began.elapsed());
        appended
    }

    /// Whether there is something to do at once.
    pub(crate) fn has_work(&self) -> bool {
        let appends = self.is_waiting() && !self.waiting.is_stuck;
        let goes_on = |round: Round| !round.waits && !round.is_written;
        let goes_on = !self.is_waiting() && self.round.is_some_and(goes_on);
        let spools = self.spooling.as_ref().is_some_and(Spooling::has_more);
        self.is_waited_for() || appends || goes_on || spools
    }

    /// Whether a round waits for what other shards do.
    pub(crate) fn waits_for_shards(&self) -> bool {
        self.round.is_some_and(|round| round.is_written)
    }

    /// Whether the maintenance thread has left something: to be asked before the shard sleeps.
    pub(crate) fn is_waited_for(&self) -> bool {
        let spooling = self.spooling.as_ref();
        self.writer.is_waited_for() || spooling.is_some_and(Spooling::is_waited_for)
    }

    /// Takes what the maintenance thread has done, and goes on with a round. To be called once in a
    /// turn.
    pub(crate) fn tend(&mut self, hub: &mut Hub) -> Turn {
        if let Some(spooling) = &mut self.spooling {
            spooling.seal(hub);
        }
        let is_idle =
            !self.has_news && self.round.is_none() && !self.waits() && !self.writer.is_waited_for();
        let is_complete =
            !self.is_full && !self.is_laden && self.completeness == Completeness::Complete;
        if is_idle && is_complete {
            return Turn::default();
        }
        self.has_news = false;
        let may_have_room = self.writer.is_waited_for();
        let needs = self.writer.tend();
        self.append_waiting();
        self.tell(hub);
        self.look_for_room(hub);
        let fits = self.may_use_reserve(hub);
        self.begin_round(needs, may_have_room, fits);
        if self.completeness == Completeness::Behind {
            give_up_rewriting(hub);
        }
        self.go_on(hub);
        self.writer
            .note(self.completeness != Completeness::Complete);
        self.tell_laden(hub);
        Turn {
            drops: std::mem::take(&mut self.has_dropped),
            ..self.commit()
        }
    }

    /// Has the hub refuse what sessions that last would take on, while the disk has no room for it.
    fn look_for_room(&mut self, hub: &Hub) {
        let is_low = self.writer.usage().ready <= FILES_LEFT && self.writer.is_refused();
        let is_full = is_low || self.completeness != Completeness::Complete;
        if is_full != self.is_full {
            self.is_full = is_full;
            set_journal_full(hub, is_full);
        }
    }

    /// Whether a round may use the reserve: the disk refuses files, and there is room for what the
    /// round writes, and for as much again.
    fn may_use_reserve(&mut self, hub: &Hub) -> bool {
        if !self.writer.is_refused() {
            self.estimate = None;
            return false;
        }
        let now = Instant::now();
        let known = self
            .estimate
            .filter(|(at, _)| now.duration_since(*at) < ESTIMATE_TIME);
        let estimate = known.unwrap_or_else(|| (now, bytes_to_write(hub)));
        self.estimate = Some(estimate);
        2 * estimate.1 <= self.writer.free_bytes()
    }

    /// Whether a round would make room on a full disk: little counts of what is written.
    fn may_clean(&self) -> bool {
        let usage = self.writer.usage();
        usage.used > self.files_last.unwrap_or(0) + 1
    }

    fn begin_round(&mut self, needs: Needs, may_have_room: bool, fits: bool) {
        if self.is_stopping {
            return;
        }
        let has_failed = needs == Needs::Rewriting;
        match &mut self.round {
            // What was written in this round may be what the disk has failed.
            Some(round) if has_failed && !round.after_failure => {
                *round = Round::new(true, round.needs_file)
            }
            Some(round) => round.waits &= !(may_have_room || fits),
            None => {
                let is_full = self.writer.usage().used >= self.files_max;
                let is_full = is_full || fits && self.may_clean();
                let is_behind = self.completeness == Completeness::Behind;
                let catches_up = is_behind && self.has_room_to_catch_up();
                if catches_up || !is_behind && (has_failed || is_full) {
                    self.round = Some(Round::new(has_failed, is_behind));
                }
            }
        }
        if self.round.is_some() && self.completeness == Completeness::Behind {
            self.completeness = Completeness::CatchingUp;
        }
    }

    /// Whether all sessions find room, as far as one can tell. For few of them, that is less than
    /// the reserve: a small disk may never have more.
    fn has_room_to_catch_up(&self) -> bool {
        let usage = self.writer.usage();
        let is_enough = |files: usize| usage.ready >= files.max(1);
        self.writer.room() == Room::Plenty || self.files_last.is_some_and(is_enough)
    }

    /// Goes on with a round, as far as one turn has time.
    fn go_on(&mut self, hub: &mut Hub) {
        self.record(hub);
        if self.is_waiting() {
            // The records that wait are older than those that the round would write.
            return;
        }
        let Some(mut round) = self.round.filter(|round| !round.waits) else {
            return;
        };
        if round.needs_file && self.writer.begin_file().is_ok() {
            round.needs_file = false;
        }
        let mut bytes = 0;
        for _ in 0..BATCHES_PER_TURN {
            // Changes have no use for the reserve until the journal is complete again.
            let is_low =
                self.writer.room() == Room::Low && self.completeness == Completeness::Complete;
            let is_low = is_low && !self.may_use_reserve(hub);
            if round.needs_file || is_low {
                round.waits = true;
                break;
            }
            if round.next == 0 {
                // All that the round writes is there or later.
                round.first = Some(self.writer.newest());
            }
            let next = rewrite_sessions(hub, round.next, PIECES_AT_ONCE);
            let written = hub.effects().log.len();
            if written > 0 {
                bytes += written;
                let mut has_room = true;
                take_batches(hub, |batch| {
                    // Later ones name what is in earlier ones.
                    let at = has_room.then(|| self.writer.append(batch).ok()).flatten();
                    has_room = at.is_some();
                    self.fates.push_back(at);
                });
                self.tell(hub);
                if !has_room {
                    // They are written again when there is room.
                    round.waits = true;
                    break;
                }
                self.has_news = true;
            }
            match next {
                Some(ALL_WRITTEN) => {
                    round.next = ALL_WRITTEN;
                    round.is_written = true;
                    break;
                }
                Some(next) => round.next = next,
                None => return self.end_round(round),
            }
            if bytes >= BYTES_PER_TURN {
                break;
            }
        }
        self.round = Some(round);
    }

    fn end_round(&mut self, round: Round) {
        self.round = None;
        self.has_news = true;
        self.completeness = Completeness::Complete;
        if std::mem::take(&mut self.has_told) {
            let shard = self.writer.shard();
            info!(shard, "all sessions are written down again");
        }
        if round.after_failure {
            self.writer.rewritten();
        }
        if !self.has_taken_over {
            self.has_taken_over = true;
            self.writer.took_over();
        }
        let first = round.first.unwrap_or_else(|| self.writer.newest());
        self.writer.release_before(first);
        let left = self.writer.usage().used;
        self.files_max = FILES_MIN.max(2 * left);
        self.files_last = Some(left);
    }

    /// Nothing more is said.
    pub(crate) fn finish(mut self, hub: &mut Hub) {
        self.record(hub);
        while self.is_waiting() {
            self.writer.tend();
            self.append_waiting();
            if self.waiting.is_stuck {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.tell(hub);
        self.writer.finish();
    }
}

#[cfg(test)]
mod tests;
