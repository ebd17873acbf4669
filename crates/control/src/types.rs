//! The types of a verb, by its line of the table.

use crate::{Mqtt, Request, Stop, Verb};
use crate::{
    adaptors, bans, certificates, clients, config, events, figures, health, heaviest, log, login,
    metrics, procedures, publish, reload, retained, roles, rooms, sessions, status, subscriptions,
    tokens, topics, trace, users, zones,
};

/// Something to be done with the types of a verb.
pub trait Visit {
    /// What comes of it.
    type Outcome;

    /// Does it.
    fn visit<R: Request>(self) -> Self::Outcome;
}

/// The types of each verb.
macro_rules! types {
    ($($verb:ident => $request:ty,)*) => {
        impl Verb {
            /// Does something with the types of this verb.
            pub fn visit<V: Visit>(self, visit: V) -> V::Outcome {
                match self {
                    $(Self::$verb => visit.visit::<$request>(),)*
                }
            }
        }
    };
}

types! {
    Health => health::Health,
    Status => status::Status,
    ClientsLs => clients::Ls,
    ClientsShow => clients::Show,
    ClientsKick => clients::Kick,
    ClientsHeaviest => heaviest::Clients,
    SessionsQueue => sessions::Queue,
    Why => clients::Why,
    Events => events::Events,
    FiguresHistory => figures::History,
    FiguresPeaks => figures::Peaks,
    BansAdd => bans::Add,
    BansLs => bans::Ls,
    BansRm => bans::Rm,
    TracesStart => trace::Start,
    TracesLs => trace::Ls,
    TracesRead => trace::Read,
    TracesStop => trace::Stop,
    Subscriptions => subscriptions::Subscriptions,
    Topics => topics::Topics,
    TopicsChildren => topics::Children,
    TopicsHeaviest => heaviest::Topics,
    RoomsLs => rooms::Ls,
    RoomsShow => rooms::Show,
    RoomsKick => rooms::Kick,
    RoomsClose => rooms::Close,
    Zones => zones::Zones,
    UsersLs => users::Ls,
    UsersShow => users::Show,
    UsersAdd => users::Add,
    UsersSetPassword => users::SetPassword,
    UsersDisable => users::Disable,
    UsersEnable => users::Enable,
    UsersRm => users::Rm,
    UsersGrant => users::Grant,
    UsersRevoke => users::Revoke,
    RolesLs => roles::Ls,
    RolesShow => roles::Show,
    RolesAdd => roles::Add,
    RolesChange => roles::Change,
    RolesRm => roles::Rm,
    TokensLs => tokens::Ls,
    TokensCreate => tokens::Create,
    TokensRevoke => tokens::Revoke,
    ZonesLs => zones::Ls,
    ZonesAdd => zones::Add,
    ZonesRm => zones::Rm,
    CertificatesLs => certificates::Ls,
    AdaptorsLs => adaptors::Ls,
    AdaptorsReload => adaptors::Reload,
    ProceduresLs => procedures::Ls,
    ProceduresReload => procedures::Reload,
    Publish => publish::Publish,
    RetainedPage => retained::Page,
    RetainedHistory => retained::History,
    RetainedFilters => retained::Filters,
    RetainedPut => retained::Put,
    RetainedClear => retained::Clear,
    RetainedVerify => retained::Verify,
    RetainedStatus => retained::Status,
    RetainedCompact => retained::Compact,
    ConfigEffective => config::Effective,
    ConfigDiff => config::Diff,
    LogLevel => log::Level,
    LogShow => log::Show,
    LogTail => log::Tail,
    LoginLink => login::Link,
    Metrics => metrics::Metrics,
    Reload => reload::Reload,
    Stop => Stop,
    Mqtt => Mqtt,
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
