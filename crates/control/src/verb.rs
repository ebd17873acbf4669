//! The table of verbs.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use Audit::{Elsewhere, Outcome};
use Http::{Prompt, Waits};
use Need::{Administer, Change, Read, Topic};
use Scope::{Server, Zone};

/// What somebody who asks has to be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// To look.
    Read,
    /// To change something.
    Change,
    /// To publish to the topic that the request names.
    Topic,
    /// To change who may do what: beside the right to change, it takes all other rights, since it
    /// gives them.
    Administer,
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

/// How a verb is reached by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http {
    /// Not at all: it is for the owner of the server, or its connection goes on in another
    /// protocol.
    Never,
    /// It is answered as soon as it is done.
    Prompt,
    /// It may wait for something to happen, for as long as the request says.
    Waits,
}

/// What of the server a verb is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole server.
    Server,
    /// All zones, or the one that the request names as `zone`: then it shows and changes nothing of
    /// any other one.
    Zone,
}

const QUIET: Audit = Audit::Never;

/// A line of the table.
type Line = (&'static str, Need, Audit, Http, Scope);

/// A verb of the control protocol. The orders of the Auth Center, which commands send, are not
/// among them: `users.…`, `roles.…`, `tokens.…` and `zones.…` give the same orders.
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
    /// See [`crate::heaviest::Clients`].
    ClientsHeaviest,
    /// See [`crate::sessions::Queue`].
    SessionsQueue,
    /// See [`crate::clients::Why`].
    Why,
    /// See [`crate::events`].
    Events,
    /// See [`crate::figures::History`].
    FiguresHistory,
    /// See [`crate::figures::Peaks`].
    FiguresPeaks,
    /// See [`crate::bans::Add`].
    BansAdd,
    /// See [`crate::bans::Ls`].
    BansLs,
    /// See [`crate::bans::Rm`].
    BansRm,
    /// See [`crate::trace::Start`].
    TracesStart,
    /// See [`crate::trace::Ls`].
    TracesLs,
    /// See [`crate::trace::Read`].
    TracesRead,
    /// See [`crate::trace::Stop`].
    TracesStop,
    /// See [`crate::subscriptions`].
    Subscriptions,
    /// See [`crate::topics`].
    Topics,
    /// See [`crate::topics::Children`].
    TopicsChildren,
    /// See [`crate::heaviest::Topics`].
    TopicsHeaviest,
    /// See [`crate::rooms::Ls`].
    RoomsLs,
    /// See [`crate::rooms::Show`].
    RoomsShow,
    /// See [`crate::rooms::Kick`].
    RoomsKick,
    /// See [`crate::rooms::Close`].
    RoomsClose,
    /// See [`crate::zones`].
    Zones,
    /// See [`crate::users::Ls`].
    UsersLs,
    /// See [`crate::users::Show`].
    UsersShow,
    /// See [`crate::users::Add`].
    UsersAdd,
    /// See [`crate::users::SetPassword`].
    UsersSetPassword,
    /// See [`crate::users::Disable`].
    UsersDisable,
    /// See [`crate::users::Enable`].
    UsersEnable,
    /// See [`crate::users::Rm`].
    UsersRm,
    /// See [`crate::users::Grant`].
    UsersGrant,
    /// See [`crate::users::Revoke`].
    UsersRevoke,
    /// See [`crate::roles::Ls`].
    RolesLs,
    /// See [`crate::roles::Show`].
    RolesShow,
    /// See [`crate::roles::Add`].
    RolesAdd,
    /// See [`crate::roles::Change`].
    RolesChange,
    /// See [`crate::roles::Rm`].
    RolesRm,
    /// See [`crate::tokens::Ls`].
    TokensLs,
    /// See [`crate::tokens::Create`].
    TokensCreate,
    /// See [`crate::tokens::Revoke`].
    TokensRevoke,
    /// See [`crate::zones::Ls`].
    ZonesLs,
    /// See [`crate::zones::Add`].
    ZonesAdd,
    /// See [`crate::zones::Rm`].
    ZonesRm,
    /// See [`crate::certificates::Ls`].
    CertificatesLs,
    /// See [`crate::adaptors::Ls`].
    AdaptorsLs,
    /// See [`crate::adaptors::Reload`].
    AdaptorsReload,
    /// See [`crate::procedures::Ls`].
    ProceduresLs,
    /// See [`crate::procedures::Reload`].
    ProceduresReload,
    /// See [`crate::publish`].
    Publish,
    /// See [`crate::retained::Page`].
    RetainedPage,
    /// See [`crate::retained::History`].
    RetainedHistory,
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
    /// See [`crate::config::Effective`].
    ConfigEffective,
    /// See [`crate::config::Diff`].
    ConfigDiff,
    /// See [`crate::log::Level`].
    LogLevel,
    /// See [`crate::log::Show`].
    LogShow,
    /// See [`crate::log::Tail`].
    LogTail,
    /// See [`crate::login::Link`].
    LoginLink,
    /// See [`crate::metrics`].
    Metrics,
    /// See [`crate::reload`].
    Reload,
    /// See [`crate::Stop`].
    Stop,
    /// See [`crate::Mqtt`].
    Mqtt,
}

/// The table, in the order of the verbs.
const TABLE: [(Verb, Line); 71] = [
    (Verb::Health, ("health", Read, QUIET, Prompt, Server)),
    (Verb::Status, ("status", Read, QUIET, Waits, Server)),
    (Verb::ClientsLs, ("clients.ls", Read, QUIET, Prompt, Zone)),
    (
        Verb::ClientsShow,
        ("clients.show", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::ClientsKick,
        ("clients.kick", Change, Outcome, Prompt, Zone),
    ),
    (
        Verb::ClientsHeaviest,
        ("clients.heaviest", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::SessionsQueue,
        ("sessions.queue", Read, QUIET, Prompt, Zone),
    ),
    (Verb::Why, ("why", Read, QUIET, Prompt, Server)),
    (Verb::Events, ("events", Read, QUIET, Waits, Zone)),
    (
        Verb::FiguresHistory,
        ("figures.history", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::FiguresPeaks,
        ("figures.peaks", Read, QUIET, Prompt, Server),
    ),
    (Verb::BansAdd, ("bans.add", Change, Outcome, Prompt, Server)),
    (Verb::BansLs, ("bans.ls", Read, QUIET, Prompt, Server)),
    (Verb::BansRm, ("bans.rm", Change, Outcome, Prompt, Server)),
    (
        Verb::TracesStart,
        ("traces.start", Change, Outcome, Prompt, Server),
    ),
    (Verb::TracesLs, ("traces.ls", Read, QUIET, Prompt, Server)),
    (
        Verb::TracesRead,
        ("traces.read", Read, QUIET, Waits, Server),
    ),
    (
        Verb::TracesStop,
        ("traces.stop", Change, Outcome, Prompt, Server),
    ),
    (
        Verb::Subscriptions,
        ("subscriptions", Read, QUIET, Prompt, Zone),
    ),
    (Verb::Topics, ("topics", Read, QUIET, Prompt, Server)),
    (
        Verb::TopicsChildren,
        ("topics.children", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::TopicsHeaviest,
        ("topics.heaviest", Read, QUIET, Prompt, Zone),
    ),
    (Verb::RoomsLs, ("rooms.ls", Read, QUIET, Prompt, Zone)),
    (Verb::RoomsShow, ("rooms.show", Read, QUIET, Prompt, Zone)),
    (
        Verb::RoomsKick,
        ("rooms.kick", Change, Outcome, Prompt, Zone),
    ),
    (
        Verb::RoomsClose,
        ("rooms.close", Change, Outcome, Prompt, Zone),
    ),
    (Verb::Zones, ("zones", Read, QUIET, Prompt, Zone)),
    (Verb::UsersLs, ("users.ls", Read, QUIET, Prompt, Zone)),
    (Verb::UsersShow, ("users.show", Read, QUIET, Prompt, Zone)),
    (
        Verb::UsersAdd,
        ("users.add", Administer, Outcome, Waits, Zone),
    ),
    (
        Verb::UsersSetPassword,
        ("users.set-password", Administer, Outcome, Waits, Zone),
    ),
    (
        Verb::UsersDisable,
        ("users.disable", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::UsersEnable,
        ("users.enable", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::UsersRm,
        ("users.rm", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::UsersGrant,
        ("users.grant", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::UsersRevoke,
        ("users.revoke", Administer, Outcome, Prompt, Zone),
    ),
    (Verb::RolesLs, ("roles.ls", Read, QUIET, Prompt, Zone)),
    (Verb::RolesShow, ("roles.show", Read, QUIET, Prompt, Zone)),
    (
        Verb::RolesAdd,
        ("roles.add", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::RolesChange,
        ("roles.change", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::RolesRm,
        ("roles.rm", Administer, Outcome, Prompt, Zone),
    ),
    (Verb::TokensLs, ("tokens.ls", Read, QUIET, Prompt, Zone)),
    (
        Verb::TokensCreate,
        ("tokens.create", Administer, Outcome, Prompt, Zone),
    ),
    (
        Verb::TokensRevoke,
        ("tokens.revoke", Administer, Outcome, Prompt, Zone),
    ),
    (Verb::ZonesLs, ("zones.ls", Read, QUIET, Prompt, Server)),
    (
        Verb::ZonesAdd,
        ("zones.add", Administer, Outcome, Prompt, Server),
    ),
    (
        Verb::ZonesRm,
        ("zones.rm", Administer, Outcome, Prompt, Server),
    ),
    (
        Verb::CertificatesLs,
        ("certificates.ls", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::AdaptorsLs,
        ("adaptors.ls", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::AdaptorsReload,
        ("adaptors.reload", Change, Outcome, Prompt, Server),
    ),
    (
        Verb::ProceduresLs,
        ("procedures.ls", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::ProceduresReload,
        ("procedures.reload", Change, Outcome, Prompt, Server),
    ),
    (Verb::Publish, ("publish", Topic, Elsewhere, Prompt, Zone)),
    (
        Verb::RetainedPage,
        ("retained.page", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::RetainedHistory,
        ("retained.history", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::RetainedFilters,
        ("retained.filters", Read, QUIET, Prompt, Zone),
    ),
    (
        Verb::RetainedPut,
        ("retained.put", Change, Outcome, Prompt, Server),
    ),
    (
        Verb::RetainedClear,
        ("retained.clear", Change, Outcome, Prompt, Zone),
    ),
    (
        Verb::RetainedVerify,
        ("retained.verify", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::RetainedStatus,
        ("retained.status", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::RetainedCompact,
        ("retained.compact", Change, Outcome, Prompt, Server),
    ),
    (
        Verb::ConfigEffective,
        ("config.effective", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::ConfigDiff,
        ("config.diff", Read, QUIET, Prompt, Server),
    ),
    (
        Verb::LogLevel,
        ("log.level", Change, Outcome, Prompt, Server),
    ),
    (Verb::LogShow, ("log.show", Read, QUIET, Prompt, Server)),
    (Verb::LogTail, ("log.tail", Read, QUIET, Prompt, Server)),
    (
        Verb::LoginLink,
        ("login.link", Change, Outcome, Http::Never, Server),
    ),
    (Verb::Metrics, ("metrics", Read, QUIET, Prompt, Server)),
    (Verb::Reload, ("reload", Change, Elsewhere, Prompt, Server)),
    (Verb::Stop, ("stop", Change, Elsewhere, Prompt, Server)),
    (Verb::Mqtt, ("mqtt", Change, Elsewhere, Http::Never, Server)),
];

impl Verb {
    /// All verbs, as they are listed.
    pub const ALL: [Self; TABLE.len()] = {
        let (mut all, mut at) = ([Self::Health; TABLE.len()], 0);
        while at < TABLE.len() {
            all[at] = TABLE[at].0;
            at += 1;
        }
        all
    };

    /// The line of the table: its name, what it needs, what the audit log has of it, how HTTP
    /// reaches it, and what it is about.
    const fn line(self) -> Line {
        // A test compares the places.
        TABLE[self as usize].1
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

    /// How it is reached by HTTP.
    #[must_use]
    pub const fn http(self) -> Http {
        self.line().3
    }

    /// What of the server it is about.
    #[must_use]
    pub const fn scope(self) -> Scope {
        self.line().4
    }

    /// Its name as levels of a path: `clients/kick`.
    #[must_use]
    pub fn path(self) -> String {
        self.name().replace('.', "/")
    }

    /// The topic that stands for the right to it: `$control/clients/kick`. A verb that changes
    /// something needs the right to publish there, and one that looks the right to subscribe.
    #[must_use]
    pub fn right(self) -> String {
        format!("$control/{}", self.path())
    }

    /// The verb with this path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        let name = path.replace('/', ".");
        Self::named(&name).filter(|_| !path.contains('.'))
    }

    /// The verb of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

/// What is asked by a verb, and what is answered.
pub trait Request: Serialize + DeserializeOwned + JsonSchema {
    /// The verb.
    const VERB: Verb;
    /// What a server answers that does what is asked.
    type Answer: Serialize + DeserializeOwned + JsonSchema;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_one_name_and_every_change_is_noted() {
        for (at, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(Verb::named(verb.name()), Some(verb));
            assert_eq!(verb as usize, at, "{verb:?} is listed elsewhere");
            let is_change = verb.need() != Read;
            assert_eq!(verb.audit() != Audit::Never, is_change, "{verb:?}");
        }
        assert_eq!(Verb::named("fly"), None);
    }

    /// `docs/http.md` lists what users of one zone may do: by name, or by the first level of names.
    #[test]
    fn the_documentation_names_the_verbs_of_a_zone() {
        let page = include_str!("../../../docs/http.md");
        let about = page.split("- **A user of another zone").nth(1);
        let about = about.and_then(|rest| rest.split("\n- **").next());
        let named = |name: &str| about.is_some_and(|text| text.contains(&format!("`{name}`")));
        for verb in Verb::ALL {
            let level = verb.name().split('.').next().unwrap_or_default();
            let is_level = ["rooms", "users", "roles", "tokens"].contains(&level);
            let is_named = named(if is_level { level } else { verb.name() });
            assert_eq!(is_named, verb.scope() == Zone, "{}", verb.name());
        }
    }

    #[test]
    fn a_path_and_a_right_are_the_name_by_levels() {
        for verb in Verb::ALL {
            assert_eq!(Verb::at(&verb.path()), Some(verb));
        }
        assert_eq!(Verb::ClientsKick.path(), "clients/kick");
        assert_eq!(Verb::ClientsKick.right(), "$control/clients/kick");
        for other in [
            "clients.kick",
            "clients/",
            "/clients/kick",
            "Clients/kick",
            "",
        ] {
            assert_eq!(Verb::at(other), None, "{other}");
        }
    }
}
