//! The types of a verb, by its line of the table.

use crate::{Mqtt, Request, Stop, Verb};
use crate::{
    adaptors, bans, clients, config, events, figures, health, heaviest, log, login, metrics,
    procedures, publish, reload, retained, roles, status, subscriptions, tokens, topics, trace,
    users, zones,
};

/// Something to be done with the types of a verb.
pub trait Visit {
    /// What comes of it.
    type Outcome;

    /// Does it.
    fn visit<R: Request>(self) -> Self::Outcome;
}

impl Verb {
    /// Does something with the types of this verb.
    pub fn visit<V: Visit>(self, visit: V) -> V::Outcome {
        match self {
            Self::Health => visit.visit::<health::Health>(),
            Self::Status => visit.visit::<status::Status>(),
            Self::ClientsLs => visit.visit::<clients::Ls>(),
            Self::ClientsShow => visit.visit::<clients::Show>(),
            Self::ClientsKick => visit.visit::<clients::Kick>(),
            Self::ClientsHeaviest => visit.visit::<heaviest::Clients>(),
            Self::Why => visit.visit::<clients::Why>(),
            Self::Events => visit.visit::<events::Events>(),
            Self::FiguresHistory => visit.visit::<figures::History>(),
            Self::FiguresPeaks => visit.visit::<figures::Peaks>(),
            Self::BansAdd => visit.visit::<bans::Add>(),
            Self::BansLs => visit.visit::<bans::Ls>(),
            Self::BansRm => visit.visit::<bans::Rm>(),
            Self::TracesStart => visit.visit::<trace::Start>(),
            Self::TracesLs => visit.visit::<trace::Ls>(),
            Self::TracesRead => visit.visit::<trace::Read>(),
            Self::TracesStop => visit.visit::<trace::Stop>(),
            Self::Subscriptions => visit.visit::<subscriptions::Subscriptions>(),
            Self::Topics => visit.visit::<topics::Topics>(),
            Self::TopicsChildren => visit.visit::<topics::Children>(),
            Self::TopicsHeaviest => visit.visit::<heaviest::Topics>(),
            Self::Zones => visit.visit::<zones::Zones>(),
            Self::UsersLs => visit.visit::<users::Ls>(),
            Self::UsersShow => visit.visit::<users::Show>(),
            Self::UsersAdd => visit.visit::<users::Add>(),
            Self::UsersSetPassword => visit.visit::<users::SetPassword>(),
            Self::UsersDisable => visit.visit::<users::Disable>(),
            Self::UsersEnable => visit.visit::<users::Enable>(),
            Self::UsersRm => visit.visit::<users::Rm>(),
            Self::UsersGrant => visit.visit::<users::Grant>(),
            Self::UsersRevoke => visit.visit::<users::Revoke>(),
            Self::RolesLs => visit.visit::<roles::Ls>(),
            Self::RolesShow => visit.visit::<roles::Show>(),
            Self::RolesAdd => visit.visit::<roles::Add>(),
            Self::RolesChange => visit.visit::<roles::Change>(),
            Self::RolesRm => visit.visit::<roles::Rm>(),
            Self::TokensLs => visit.visit::<tokens::Ls>(),
            Self::TokensCreate => visit.visit::<tokens::Create>(),
            Self::TokensRevoke => visit.visit::<tokens::Revoke>(),
            Self::ZonesLs => visit.visit::<zones::Ls>(),
            Self::ZonesAdd => visit.visit::<zones::Add>(),
            Self::ZonesRm => visit.visit::<zones::Rm>(),
            Self::AdaptorsLs => visit.visit::<adaptors::Ls>(),
            Self::AdaptorsReload => visit.visit::<adaptors::Reload>(),
            Self::ProceduresLs => visit.visit::<procedures::Ls>(),
            Self::ProceduresReload => visit.visit::<procedures::Reload>(),
            Self::Publish => visit.visit::<publish::Publish>(),
            Self::RetainedPage => visit.visit::<retained::Page>(),
            Self::RetainedHistory => visit.visit::<retained::History>(),
            Self::RetainedFilters => visit.visit::<retained::Filters>(),
            Self::RetainedPut => visit.visit::<retained::Put>(),
            Self::RetainedClear => visit.visit::<retained::Clear>(),
            Self::RetainedVerify => visit.visit::<retained::Verify>(),
            Self::RetainedStatus => visit.visit::<retained::Status>(),
            Self::RetainedCompact => visit.visit::<retained::Compact>(),
            Self::ConfigEffective => visit.visit::<config::Effective>(),
            Self::ConfigDiff => visit.visit::<config::Diff>(),
            Self::LogLevel => visit.visit::<log::Level>(),
            Self::LogShow => visit.visit::<log::Show>(),
            Self::LogTail => visit.visit::<log::Tail>(),
            Self::LoginLink => visit.visit::<login::Link>(),
            Self::Metrics => visit.visit::<metrics::Metrics>(),
            Self::Reload => visit.visit::<reload::Reload>(),
            Self::Stop => visit.visit::<Stop>(),
            Self::Mqtt => visit.visit::<Mqtt>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct VerbOf;

    impl Visit for VerbOf {
        type Outcome = Verb;

        fn visit<R: Request>(self) -> Verb {
            R::VERB
        }
    }

    #[test]
    fn each_verb_has_its_own_types() {
        for verb in Verb::ALL {
            assert_eq!(verb.visit(VerbOf), verb);
        }
    }
}
