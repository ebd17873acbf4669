//! The table of verbs.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What somebody who asks has to be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// To look.
    Read,
    /// To change something.
    Change,
}

/// What the audit log has of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// Nothing: it changes nothing.
    Never,
    /// Its outcome, as soon as it is answered.
    Outcome,
    /// Its outcome, noted by the part that carries it out: other causes than a verb lead there too.
    Elsewhere,
}

/// A verb of the control protocol, without those of the Auth Center.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// See [`crate::health`].
    Health,
    /// See [`crate::status`].
    Status,
    /// See [`crate::clients::Ls`].
    ClientsLs,
    /// See [`crate::clients::Show`].
    ClientsShow,
    /// See [`crate::clients::Kick`].
    ClientsKick,
    /// See [`crate::clients::Why`].
    Why,
    /// See [`crate::events`].
    Events,
    /// See [`crate::bans::Add`].
    BanAdd,
    /// See [`crate::bans::Ls`].
    BanLs,
    /// See [`crate::bans::Rm`].
    BanRm,
    /// See [`crate::trace::Start`].
    TraceStart,
    /// See [`crate::trace::Read`].
    TraceRead,
    /// See [`crate::trace::Stop`].
    TraceStop,
    /// See [`crate::topics`].
    Topics,
    /// See [`crate::zones`].
    Zones,
    /// See [`crate::adaptors::Ls`].
    AdaptorLs,
    /// See [`crate::adaptors::Reload`].
    AdaptorReload,
    /// See [`crate::procedures::Ls`].
    ProcedureLs,
    /// See [`crate::procedures::Reload`].
    ProcedureReload,
    /// See [`crate::retained::Page`].
    RetainedPage,
    /// See [`crate::retained::Filters`].
    RetainedFilters,
    /// See [`crate::retained::Put`].
    RetainedPut,
    /// See [`crate::retained::Clear`].
    RetainedClear,
    /// See [`crate::retained::Verify`].
    RetainedVerify,
    /// See [`crate::retained::Status`].
    RetainedStatus,
    /// See [`crate::retained::Compact`].
    RetainedCompact,
    /// See [`crate::reload`].
    Reload,
    /// See [`crate::Stop`].
    Stop,
    /// See [`crate::Mqtt`].
    Mqtt,
}

impl Verb {
    /// All verbs, as they are listed.
    pub const ALL: [Self; 29] = [
        Self::Health,
        Self::Status,
        Self::ClientsLs,
        Self::ClientsShow,
        Self::ClientsKick,
        Self::Why,
        Self::Events,
        Self::BanAdd,
        Self::BanLs,
        Self::BanRm,
        Self::TraceStart,
        Self::TraceRead,
        Self::TraceStop,
        Self::Topics,
        Self::Zones,
        Self::AdaptorLs,
        Self::AdaptorReload,
        Self::ProcedureLs,
        Self::ProcedureReload,
        Self::RetainedPage,
        Self::RetainedFilters,
        Self::RetainedPut,
        Self::RetainedClear,
        Self::RetainedVerify,
        Self::RetainedStatus,
        Self::RetainedCompact,
        Self::Reload,
        Self::Stop,
        Self::Mqtt,
    ];

    /// The line of the table: its name, what it needs, and what the audit log has of it.
    const fn line(self) -> (&'static str, Need, Audit) {
        use Need::{Change, Read};
        match self {
            Self::Health => ("health", Read, Audit::Never),
            Self::Status => ("status", Read, Audit::Never),
            Self::ClientsLs => ("clients.ls", Read, Audit::Never),
            Self::ClientsShow => ("clients.show", Read, Audit::Never),
            Self::ClientsKick => ("clients.kick", Change, Audit::Outcome),
            Self::Why => ("why", Read, Audit::Never),
            Self::Events => ("events", Read, Audit::Never),
            Self::BanAdd => ("ban.add", Change, Audit::Outcome),
            Self::BanLs => ("ban.ls", Read, Audit::Never),
            Self::BanRm => ("ban.rm", Change, Audit::Outcome),
            Self::TraceStart => ("trace.start", Change, Audit::Outcome),
            Self::TraceRead => ("trace.read", Read, Audit::Never),
            Self::TraceStop => ("trace.stop", Change, Audit::Outcome),
            Self::Topics => ("topics", Read, Audit::Never),
            Self::Zones => ("zones", Read, Audit::Never),
            Self::AdaptorLs => ("adaptor.ls", Read, Audit::Never),
            Self::AdaptorReload => ("adaptor.reload", Change, Audit::Outcome),
            Self::ProcedureLs => ("procedure.ls", Read, Audit::Never),
            Self::ProcedureReload => ("procedure.reload", Change, Audit::Outcome),
            Self::RetainedPage => ("retained.page", Read, Audit::Never),
            Self::RetainedFilters => ("retained.filters", Read, Audit::Never),
            Self::RetainedPut => ("retained.put", Change, Audit::Outcome),
            Self::RetainedClear => ("retained.clear", Change, Audit::Outcome),
            Self::RetainedVerify => ("retained.verify", Read, Audit::Never),
            Self::RetainedStatus => ("retained.status", Read, Audit::Never),
            Self::RetainedCompact => ("retained.compact", Change, Audit::Outcome),
            Self::Reload => ("reload", Change, Audit::Elsewhere),
            Self::Stop => ("stop", Change, Audit::Elsewhere),
            Self::Mqtt => ("mqtt", Change, Audit::Elsewhere),
        }
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.line().0
    }

    /// What somebody who asks has to be permitted.
    #[must_use]
    pub const fn need(self) -> Need {
        self.line().1
    }

    /// What the audit log has of it.
    #[must_use]
    pub const fn audit(self) -> Audit {
        self.line().2
    }

    /// The verb of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

/// What is asked by a verb, and what is answered.
pub trait Request: Serialize + DeserializeOwned {
    /// The verb.
    const VERB: Verb;
    /// What a server answers that does what is asked.
    type Answer: Serialize + DeserializeOwned;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_one_name_and_every_change_is_noted() {
        for (at, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(Verb::named(verb.name()), Some(verb));
            assert_eq!(verb as usize, at, "{verb:?} is listed elsewhere");
            let is_change = verb.need() == Need::Change;
            assert_eq!(verb.audit() != Audit::Never, is_change, "{verb:?}");
        }
        assert_eq!(Verb::named("fly"), None);
    }
}
