//! The zones of a configuration, for the Auth Center and for the hubs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stentor_auth::center::{Center, SecondLogin, ZoneRule, ZoneRules};
use stentor_hub::ZoneSettings;
use stentor_zone::{HistoryBounds, RoomOptions, RoomsOptions};

use crate::config::{self, Config};

/// The rules of logins.
pub(crate) fn rules(config: &Config) -> Arc<ZoneRules> {
    let rule = |zone: &config::Zone| {
        let bound = |count: u32| Some(count).filter(|count| *count > 0);
        let rule = ZoneRule {
            second_login: match zone.second_login {
                config::SecondLogin::Allow => SecondLogin::Allow,
                config::SecondLogin::Refuse => SecondLogin::Refuse,
                config::SecondLogin::Replace => SecondLogin::Replace,
            },
            user_connections: bound(zone.user_connections),
            connections: bound(zone.connections),
            guests_per_sec: zone.guests.then_some(zone.guest_rate),
        };
        (zone.name.as_str().into(), rule)
    };
    Arc::new(config.zones.iter().map(rule).collect())
}

/// The zones for the hubs: each zone that the configuration names, with its number.
///
/// # Errors
/// When the number of a new zone cannot be written down.
pub(crate) fn settings(config: &Config, center: &Center) -> io::Result<Vec<ZoneSettings>> {
    let mut zones: Vec<(&str, ZoneSettings)> = Vec::new();
    for zone in &config.zones {
        let settings = ZoneSettings {
            zone: center.zone_number(&zone.name)?,
            rooms: rooms(zone),
            fixed: Vec::new(),
        };
        zones.push((&zone.name, settings));
    }
    for room in &config.rooms {
        let fixed = (room.name.as_str().into(), options(room));
        match zones.iter_mut().find(|(name, _)| *name == room.zone) {
            Some((_, settings)) => settings.fixed.push(fixed),
            None => {
                let settings = ZoneSettings {
                    zone: center.zone_number(&room.zone)?,
                    rooms: RoomsOptions::default(),
                    fixed: vec![fixed],
                };
                zones.push((&room.zone, settings));
            }
        }
    }
    Ok(zones.into_iter().map(|(_, settings)| settings).collect())
}

fn rooms(zone: &config::Zone) -> RoomsOptions {
    RoomsOptions {
        user_rooms: zone.user_rooms,
        rooms_max: zone.rooms as usize,
        owned_max: zone.rooms_per_user as usize,
        bytes_max: usize::try_from(zone.room_bytes).unwrap_or(usize::MAX),
        room: RoomOptions {
            capacity: Some(zone.room_capacity).filter(|capacity| *capacity > 0),
            history: history(
                zone.room_history,
                zone.room_history_bytes,
                zone.room_history_age,
            ),
            grace: zone.room_grace,
            ..RoomOptions::default()
        },
    }
}

fn options(room: &config::Room) -> RoomOptions {
    RoomOptions {
        permanent: true,
        capacity: Some(room.capacity).filter(|capacity| *capacity > 0),
        locked: room.locked,
        history: history(room.history, room.history_bytes, room.history_age),
        grace: room.grace,
        ..RoomOptions::default()
    }
}

fn history(count: u32, bytes: u64, age: Duration) -> HistoryBounds {
    HistoryBounds {
        count: count as usize,
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        age: Some(age).filter(|age| !age.is_zero()),
    }
}
