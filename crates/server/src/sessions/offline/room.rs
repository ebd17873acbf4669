//! A permanent room as a JSON object: a line of an export.

use serde_json::{Map, Value, json};
use stentor_auth::model::DEFAULT_ZONE;
use stentor_session_log::{
    Record, RestoredProperty, RestoredRoom, Room, RoomMember, RoomName, RoomProperty,
    TEXT_BYTES_MAX,
};
use stentor_zone::{Unambiguous, check_name};

use super::fields::{Fields, text_of, wrong};

/// Members of a room that have places, as a server keeps them.
const MEMBERS_MAX: usize = 1_000;
/// Properties of a room.
const PROPERTIES_MAX: usize = 10_000;
/// Bytes of the values of all properties of a room.
const VALUES_BYTES_MAX: usize = 1 << 20;

/// The lowest number that is above those of an `i64`.
const I64_BOUND: f64 = 9_223_372_036_854_775_808.0;

/// The line of a room. The number of the zone in the room is of no account.
#[derive(Debug, PartialEq)]
pub(super) struct RoomLine {
    /// The name of the zone.
    pub(super) zone: Box<str>,
    pub(super) room: RestoredRoom,
}

/// The line of a room in a zone of this name.
pub(super) fn room_json(room: &RestoredRoom, zone: &str) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), "room".into());
    object.insert("room".into(), (*room.room).into());
    if zone != DEFAULT_ZONE {
        object.insert("zone".into(), zone.into());
    }
    if let Some(owner) = &room.owner {
        object.insert("owner".into(), (**owner).into());
    }
    if let Some(capacity) = room.capacity {
        object.insert("capacity".into(), capacity.into());
    }
    if room.locked {
        object.insert("locked".into(), true.into());
    }
    object.insert("history_count".into(), room.history_count.into());
    object.insert("history_bytes".into(), room.history_bytes.into());
    if let Some(secs) = room.history_age_secs {
        object.insert("history_age_secs".into(), secs.into());
    }
    object.insert("version".into(), room.version.into());
    let properties = room.properties.iter().map(property_json);
    object.insert("properties".into(), properties.collect());
    object.insert("members".into(), json!(room.members));
    object.into()
}

fn property_json(property: &RestoredProperty) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), (*property.name).into());
    if let Some(text) = property.value.as_deref().map(String::from_utf8_lossy) {
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.to_string() == text => object.insert("value".into(), value),
            // For example, a number with more digits than a JSON reader keeps.
            _ => object.insert("value_json".into(), (*text).into()),
        };
    }
    object.insert("version".into(), property.version.into());
    if let Some(by) = &property.by {
        object.insert("by".into(), (**by).into());
    }
    if let Some(lock) = &property.lock {
        object.insert("lock".into(), (**lock).into());
    }
    object.into()
}

/// Reads the line of a room.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(super) fn read_room(value: &Value) -> Result<RoomLine, String> {
    let mut fields = Fields::of(value, "a room")?;
    fields.get("kind");
    let zone = fields.text("zone", TEXT_BYTES_MAX)?.unwrap_or(DEFAULT_ZONE);
    let name = fields.a_text("room", TEXT_BYTES_MAX)?;
    check_name(name).map_err(|error| format!("{name:?} is not a name of a room: {error}"))?;
    let properties = fields.list("properties", PROPERTIES_MAX)?.iter();
    let properties = properties.map(read_property);
    let members = fields.list("members", MEMBERS_MAX)?.iter();
    let members = members.map(|it| text_of("members", it, TEXT_BYTES_MAX).map(Into::into));
    let room = RestoredRoom {
        zone: 0,
        room: name.into(),
        owner: fields.text("owner", TEXT_BYTES_MAX)?.map(Into::into),
        capacity: fields.small("capacity", 0, u32::MAX)?,
        locked: fields.flag("locked")?,
        history_count: fields.number("history_count", 0, u64::MAX)?.unwrap_or(0),
        history_bytes: fields.number("history_bytes", 0, u64::MAX)?.unwrap_or(0),
        history_age_secs: fields.number("history_age_secs", 0, u64::MAX)?,
        version: fields.number("version", 0, u64::MAX)?.unwrap_or(0),
        properties: properties.collect::<Result<_, _>>()?,
        members: members.collect::<Result<_, _>>()?,
    };
    fields.end()?;
    let values = room.properties.iter().filter_map(|it| it.value.as_ref());
    let bytes: usize = values.map(Vec::len).sum();
    if bytes > VALUES_BYTES_MAX {
        return Err(format!(
            "the values of its properties have {bytes} bytes, and there can be {VALUES_BYTES_MAX}"
        ));
    }
    Ok(RoomLine {
        zone: zone.into(),
        room,
    })
}

fn read_property(value: &Value) -> Result<RestoredProperty, String> {
    let mut fields = Fields::of(value, "a property")?;
    let lock = fields.get("lock");
    let property = RestoredProperty {
        name: fields.a_text("name", TEXT_BYTES_MAX)?.into(),
        value: read_value(&mut fields)?,
        version: fields.number("version", 0, u64::MAX)?.unwrap_or(0),
        by: fields.text("by", TEXT_BYTES_MAX)?.map(Into::into),
        lock: lock
            .map(|lock| text_of("lock", lock, TEXT_BYTES_MAX).map(Into::into))
            .transpose()?,
    };
    fields.end()?;
    match property.value.is_none() && property.lock.is_none() {
        true => Err(wrong("properties", value, "each has a value or a lock")),
        false => Ok(property),
    }
}

/// The value of a property, as JSON.
fn read_value(fields: &mut Fields<'_>) -> Result<Option<Vec<u8>>, String> {
    match (fields.get("value"), fields.get("value_json")) {
        (Some(_), Some(_)) => {
            Err("it has both value and value_json: only one can be meant".to_owned())
        }
        (Some(value), None) => match changed_number(value) {
            Some(number) => Err(format!(
                "a property cannot keep {number} as it is: numbers with more than 64 bits are \
                 written as a text in value_json"
            )),
            None => Ok(Some(value.to_string().into())),
        },
        (None, Some(value)) => {
            let text = text_of("value_json", value, VALUES_BYTES_MAX)?;
            Unambiguous::from_line(text.as_bytes())
                .map_err(|error| format!("value_json has no JSON value: {error}"))?;
            Ok(Some(text.into()))
        }
        (None, None) => Ok(None),
    }
}

/// A number that was read as another one than it was: a whole one that does not fit into 64 bits.
fn changed_number(value: &Value) -> Option<f64> {
    match value {
        // Beyond this, all floating-point numbers are whole ones.
        Value::Number(number) if number.is_f64() => {
            number.as_f64().filter(|it| it.abs() >= I64_BOUND)
        }
        Value::Array(values) => values.iter().find_map(changed_number),
        Value::Object(map) => map.values().find_map(changed_number),
        _ => None,
    }
}

/// All that there is to say of a room, as a batch.
pub(super) fn room_batch(room: &RestoredRoom, zone: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let name = RoomName {
        zone,
        room: &room.room,
    };
    let base = Record::Room(Room {
        name,
        is_base: true,
        owner: room.owner.as_deref(),
        capacity: room.capacity,
        locked: room.locked,
        history_count: room.history_count,
        history_bytes: room.history_bytes,
        history_age_secs: room.history_age_secs,
        version: room.version,
    });
    base.encode(&mut out);
    for property in &room.properties {
        let record = Record::RoomProperty(RoomProperty {
            name,
            property: &property.name,
            value: property.value.as_deref(),
            version: property.version,
            by: property.by.as_deref(),
            lock: property.lock.as_deref(),
        });
        record.encode(&mut out);
    }
    for user in &room.members {
        let record = Record::RoomMember(RoomMember {
            name,
            user,
            is_in: true,
        });
        record.encode(&mut out);
    }
    out
}
