//! The values of limits that somebody has met.

use std::fmt;

use stentor_auth::{ConnectionBound, counted};
use stentor_session::Limit;

/// The limit that a connection has met, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A key of the configuration or a number of files; 0 where nobody knows the value.
    Number(Limit, u64),
    /// What roles and zones say.
    Connections(ConnectionBound),
}

/// The name of the limit and its value: the refused client receives this text.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConnectionBound as By;
        match self {
            Self::Number(Limit::Memory, max) => write!(f, "limits.memory is {max} bytes"),
            Self::Number(limit, max) => match key(*limit) {
                Some(key) => write!(f, "{key} is {max}"),
                None => write!(f, "there is room for {}", counted(*max, "connection")),
            },
            Self::Connections(By::Role { name, max, .. }) => {
                write!(f, "the role {name} allows {}", connections(*max))
            }
            Self::Connections(By::Configured { zone, max } | By::Added { zone, max }) => {
                write!(f, "the zone {zone} allows {}", connections(*max))
            }
        }
    }
}

fn connections(max: u32) -> String {
    counted(max.into(), "connection")
}

/// The key of the configuration that has the value of a limit.
const fn key(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::Connections => "limits.connections",
        Limit::ConnectionsOfListener => "max_connections of the listener",
        Limit::ConnectionsPerAddress => "limits.connections_per_address",
        Limit::ConnectionRate => "limits.connection_rate",
        Limit::ConnectionRatePerAddress => "limits.connection_rate_per_address",
        Limit::Sessions => "limits.sessions",
        Limit::SessionsPerUser => "limits.sessions_per_user",
        Limit::SessionsPerAddress => "limits.sessions_per_address",
        Limit::SessionsPerZone => "limits.sessions_per_zone",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_with_what_it_belongs_to() {
        let role = ConnectionBound::Role {
            name: "sensor".into(),
            zone: None,
            max: 2,
        };
        let zone = ConnectionBound::Added {
            zone: "game".into(),
            max: 3,
        };
        for (bound, told) in [
            (
                Bound::Number(Limit::Connections, 7),
                "limits.connections is 7",
            ),
            (
                Bound::Number(Limit::Memory, 1_048_576),
                "limits.memory is 1048576 bytes",
            ),
            (
                Bound::Number(Limit::ConnectionsPerShard, 9),
                "there is room for 9 connections",
            ),
            (
                Bound::Connections(role),
                "the role sensor allows 2 connections",
            ),
            (
                Bound::Connections(zone),
                "the zone game allows 3 connections",
            ),
        ] {
            assert_eq!(bound.to_string(), told);
        }
    }
}
