//! The sessions that are counted together, and those that give way when there are too many.
//!
//! A session that outlives its connection takes a place of the server's for days, and costs
//! nothing to make. So the places are counted by who holds them, and when all are taken, whoever
//! holds most gives way to a newcomer who holds less: the session that is closest to its end goes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};

use stentor_session::{Limit, Tick};

use super::disk::{FullOwners, OnDisk, Part};
use crate::core::settings::Settings;

/// The owner that a tenant stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantKind {
    /// A user with a name that it has proved.
    User,
    /// All who come from one network address and have no such name.
    Address,
    /// All who belong to one zone.
    Zone,
}

/// Somebody whose sessions are counted together, on all shards.
#[derive(Debug)]
pub struct Tenant {
    id: u64,
    kind: TenantKind,
    /// The address that it stands for, as it is written down; `None` for others.
    mark: Option<NonZeroU64>,
    sessions: AtomicU32,
    disk: OnDisk,
}

impl Tenant {
    /// One that has no sessions yet. No two have the same number.
    #[must_use]
    pub fn new(id: u64, kind: TenantKind) -> Self {
        Self {
            id,
            kind,
            mark: None,
            sessions: AtomicU32::new(0),
            disk: OnDisk::default(),
        }
    }

    /// All who come from one address. Its sessions are written down with this mark, so that they
    /// count for the same address after a restart.
    #[must_use]
    pub fn of_address(id: u64, mark: NonZeroU64) -> Self {
        Self {
            mark: Some(mark),
            ..Self::new(id, TenantKind::Address)
        }
    }

    /// Bytes that lie on the disk for its sessions, or are on their way there.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk.bytes()
    }

    /// How many sessions it has that outlive their connections.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    fn bound(&self, settings: &Settings) -> (u32, Limit) {
        match self.kind {
            TenantKind::User => (settings.sessions_per_user_max, Limit::SessionsPerUser),
            TenantKind::Address => (settings.sessions_per_address_max, Limit::SessionsPerAddress),
            TenantKind::Zone => (settings.sessions_per_zone_max, Limit::SessionsPerZone),
        }
    }
}

/// A place that a session holds with a tenant, for as long as this exists.
#[derive(Debug)]
struct Place(Arc<Tenant>);

impl Place {
    /// Takes a place, or names the limit that is reached. With `beyond` there is none.
    fn take(tenant: &Arc<Tenant>, settings: &Settings, beyond: bool) -> Result<Self, Limit> {
        let (max, limit) = tenant.bound(settings);
        let is_free = |taken: u32| (beyond || taken < max).then(|| taken.saturating_add(1));
        tenant
            .sessions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free)
            .map(|_| Self(Arc::clone(tenant)))
            .map_err(|_| limit)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The owner that a session is counted for.
#[derive(Clone, Debug)]
pub struct Tenants {
    /// Its user, or its address.
    pub own: Arc<Tenant>,
    /// Its zone.
    pub zone: Arc<Tenant>,
    /// A number below 2^24 that all clients of that user or address have, and hardly anybody else;
    /// not 0.
    pub owner: u32,
}

/// How much room there is on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskRoom {
    /// Bytes that are free in all.
    pub(crate) free: u64,
    /// Bytes that all sessions may have.
    pub(crate) bytes_max: u64,
    /// Bytes that one zone may have.
    pub(crate) zone_max: u64,
}

/// The places of one session.
#[derive(Debug)]
pub(crate) struct Lease {
    own: Place,
    zone: Place,
    owner: u32,
    /// What lies on the disk for the session, or is on its way there.
    disk: u64,
    /// Whether the session is among those that are to be counted again.
    is_listed: bool,
}

impl Lease {
    /// Takes the places of a session, or names the limit that is reached. One that takes the place
    /// of another goes `beyond`.
    pub(crate) fn take(
        tenants: &Tenants,
        settings: &Settings,
        beyond: bool,
    ) -> Result<Self, Limit> {
        Ok(Self {
            own: Place::take(&tenants.own, settings, beyond)?,
            zone: Place::take(&tenants.zone, settings, beyond)?,
            owner: tenants.owner,
            disk: 0,
            is_listed: false,
        })
    }

    /// The session has so much on the disk now. Returns whether it is barred: see
    /// [`OnDisk::note`].
    pub(crate) fn note_disk(&mut self, bytes: u64, room: DiskRoom, full: &FullOwners) -> bool {
        let before = core::mem::replace(&mut self.disk, bytes);
        let (own, zone) = (&self.own.0.disk, &self.zone.0.disk);
        own.change(before, bytes);
        zone.change(before, bytes);
        let of_zone = room.zone_max.saturating_sub(zone.bytes());
        let part = Part::of(room.free, room.bytes_max).and(Part::of(of_zone, room.zone_max));
        own.note(self.owner, part, full)
    }

    /// What [`Lease::note_disk`] was told last.
    pub(crate) const fn disk(&self) -> u64 {
        self.disk
    }

    /// The number of its owner.
    pub(crate) const fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether its owner was full when one of its sessions was counted last.
    pub(crate) fn is_full(&self) -> bool {
        self.own.0.disk.is_full()
    }

    /// The session gives back what it has on the disk. Whether its owner is full shows when others
    /// of its sessions are counted.
    pub(crate) fn release_disk(&mut self, full: &FullOwners) {
        let before = core::mem::take(&mut self.disk);
        let (own, zone) = (&self.own.0.disk, &self.zone.0.disk);
        own.change(before, 0);
        zone.change(before, 0);
        own.note(self.owner, Part::ALL, full);
    }

    /// The session is to be counted again, or it was. Returns whether that is new.
    pub(crate) const fn list(&mut self, is_listed: bool) -> bool {
        core::mem::replace(&mut self.is_listed, is_listed) != is_listed
    }

    /// What is written down of whose the session is: see [`Tenant::of_address`].
    pub(crate) fn mark(&self) -> Option<NonZeroU64> {
        self.own.0.mark
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.own.0
    }
}

/// What a tenant has on one shard of what waits for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holds {
    sessions: u64,
    bytes: u64,
}

/// The sessions of one shard that wait for their clients, by whom they are counted for.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    /// By tenant, then by the time of their end.
    all: BTreeSet<(u64, Tick, u32)>,
    holds: BTreeMap<u64, Holds>,
    /// The tenant with most sessions comes first.
    by_sessions: BTreeSet<(Reverse<u64>, u64)>,
    /// The tenant who holds most bytes comes first.
    by_bytes: BTreeSet<(Reverse<u64>, u64)>,
    /// What all of them hold.
    bytes: u64,
}

impl Absences {
    /// Bytes that the sessions hold which wait for their clients.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the sessions hold of the tenant who holds most.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.by_bytes
            .first()
            .map_or(0, |(Reverse(bytes), _)| *bytes)
    }

    /// What tenants may keep if those who hold most give this many bytes, each down to that.
    /// O(tenants that give).
    pub(crate) fn level(&self, bytes: u64) -> u64 {
        /// With more of them than these, all give that hold as much as the last of these.
        const TENANTS_MAX: u64 = 1_024;
        let (mut sum, mut count, mut level) = (0, 0, 0);
        for (Reverse(most), _) in &self.by_bytes {
            if count > 0 && (*most <= level || count == TENANTS_MAX) {
                return level.max(*most);
            }
            sum += most;
            count += 1;
            level = sum.saturating_sub(bytes) / count;
        }
        level
    }

    /// The session in a slot, which holds this many bytes, waits for its client, until a time.
    /// O(log sessions).
    pub(crate) fn add(&mut self, tenant: &Tenant, until: Tick, slot: u32, bytes: u64) {
        if self.all.insert((tenant.id, until, slot)) {
            self.change(tenant.id, |holds| {
                holds.sessions += 1;
                holds.bytes += bytes;
            });
        }
    }

    /// It does no longer, and held as much as was said last. O(log sessions).
    pub(crate) fn remove(&mut self, tenant: &Tenant, until: Tick, slot: u32, bytes: u64) {
        if self.all.remove(&(tenant.id, until, slot)) {
            self.change(tenant.id, |holds| {
                holds.sessions = holds.sessions.saturating_sub(1);
                holds.bytes = holds.bytes.saturating_sub(bytes);
            });
        }
    }

    /// Sessions that wait hold another number of bytes than before. O(log tenants).
    fn recharge(&mut self, id: u64, before: u64, now: u64) {
        if self.holds.contains_key(&id) {
            self.change(id, |holds| {
                holds.bytes = (holds.bytes + now).saturating_sub(before);
            });
        }
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut Holds)) {
        let mut holds = self.holds.get(&id).copied().unwrap_or_default();
        self.by_sessions.remove(&(Reverse(holds.sessions), id));
        self.by_bytes.remove(&(Reverse(holds.bytes), id));
        let others = self.bytes - holds.bytes;
        change(&mut holds);
        if holds.sessions == 0 {
            holds.bytes = 0;
        }
        self.bytes = others + holds.bytes;
        if holds.sessions == 0 {
            self.holds.remove(&id);
            return;
        }
        self.holds.insert(id, holds);
        self.by_sessions.insert((Reverse(holds.sessions), id));
        self.by_bytes.insert((Reverse(holds.bytes), id));
    }

    /// The slot of the session that goes first where places are short: of the tenant who has most
    /// here, the one that is closest to its end. O(log sessions).
    pub(crate) fn first_by_sessions(&self) -> Option<u32> {
        self.closest_to_end(self.by_sessions.first()?.1)
    }

    /// The same where memory is short: of the tenant whose sessions here hold most.
    pub(crate) fn first_by_bytes(&self) -> Option<u32> {
        self.closest_to_end(self.by_bytes.first()?.1)
    }

    fn closest_to_end(&self, tenant: u64) -> Option<u32> {
        let mut all = self.all.range((tenant, Tick::ZERO, 0)..);
        all.next().map(|(_, _, slot)| *slot)
    }
}

/// What many sessions hold that wait for their clients, and held before. Those of one tenant that
/// follow each other are written in one go.
#[derive(Debug, Default)]
pub(crate) struct Recharges {
    tenant: u64,
    before: u64,
    now: u64,
}

impl Recharges {
    /// A session that waits holds another number of bytes than before.
    #[inline]
    pub(crate) fn add(&mut self, absences: &mut Absences, tenant: &Tenant, before: u64, now: u64) {
        if self.tenant != tenant.id {
            self.write(absences);
            self.tenant = tenant.id;
        }
        self.before += before;
        self.now += now;
    }

    /// Writes what is left.
    pub(crate) fn write(&mut self, absences: &mut Absences) {
        let Self {
            tenant,
            before,
            now,
        } = core::mem::take(self);
        if before != now {
            absences.recharge(tenant, before, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_hold_most_give_down_to_one_level() {
        let mut absences = Absences::default();
        assert_eq!(absences.level(100), 0);
        for (id, bytes) in [(1, 1_000), (2, 700), (3, 100)] {
            let tenant = Tenant::new(id, TenantKind::User);
            absences.add(&tenant, Tick::NEVER, id as u32, bytes);
        }
        let levels = [0, 200, 300, 301, 700, 1_500, 1_501, 1_800, 9_000];
        let levels = levels.map(|bytes| absences.level(bytes));
        assert_eq!(levels, [1_000, 800, 700, 699, 500, 100, 99, 0, 0]);
    }

    #[test]
    fn of_who_has_most_the_session_closest_to_its_end_goes_first() {
        let (ann, bob) = (
            Tenant::new(1, TenantKind::User),
            Tenant::new(2, TenantKind::User),
        );
        let soon = Tick::from_secs(9);
        let mut absences = Absences::default();
        assert_eq!(absences.first_by_sessions(), None);
        absences.add(&ann, Tick::from_secs(1), 0, 500);
        absences.add(&bob, Tick::NEVER, 1, 100);
        absences.add(&bob, soon, 2, 100);
        absences.add(&bob, soon, 2, 100);
        assert_eq!(absences.first_by_sessions(), Some(2));
        assert_eq!(absences.first_by_bytes(), Some(0));
        let mut recharges = Recharges::default();
        recharges.add(&mut absences, &bob, 100, 600);
        recharges.add(&mut absences, &ann, 500, 550);
        recharges.add(&mut absences, &ann, 550, 500);
        assert_eq!(absences.first_by_bytes(), Some(2));
        recharges.write(&mut absences);
        assert_eq!(absences.first_by_bytes(), Some(2));
        assert_eq!(absences.bytes(), 500 + 100 + 600);
        absences.remove(&bob, soon, 2, 600);
        absences.remove(&bob, soon, 2, 600);
        assert_eq!(absences.first_by_sessions(), Some(0), "they have one each");
        absences.remove(&ann, Tick::from_secs(1), 0, 500);
        assert_eq!(absences.first_by_sessions(), Some(1));
        absences.remove(&bob, Tick::NEVER, 1, 100);
        assert!(absences.holds.is_empty() && absences.all.is_empty());
        assert!(absences.by_sessions.is_empty() && absences.by_bytes.is_empty());
        assert_eq!(absences.bytes(), 0);
    }
}
