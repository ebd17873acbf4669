//! Refusals that name what they are about: the room, a field, a property, and the bound.

use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Map, Value};

use super::Failed;
use crate::name::check_name;
use crate::room::{Bounds, Refusal};
use crate::words::{BadWord, below, quoted};

/// There is no such room.
pub(super) fn no_room(room: &str) -> Failed {
    let text = format!("room is {}: there is no such room", quoted(room));
    Failed::Part(Refusal::Unknown, BadWord::other("room", text))
}

/// A room of this name was closed, and not everybody has been sent out.
pub(super) fn is_ending(field: &str, room: &str) -> Failed {
    let text = format!(
        "{field} is {}: that room is being closed; try again in a moment",
        quoted(room)
    );
    Failed::Early(room.into(), BadWord::other(field, text))
}

/// The name of a room is the reason of a refusal.
pub(super) fn blame_name(why: Refusal, field: &str, room: &str) -> Failed {
    let text = format!("{field} is {}: {}", quoted(room), why.text());
    Failed::Part(why, BadWord::other(field, text))
}

/// Whether a room could have each of these, whatever becomes of them.
pub(super) fn check_properties(
    field: &str,
    properties: &Map<String, Value>,
    bounds: &Bounds,
) -> Result<(), Failed> {
    for (name, value) in properties {
        let why = match check_name(name) {
            Err(_) => Refusal::Name,
            Ok(()) if value.to_string().len() > bounds.property_bytes => Refusal::TooLarge,
            Ok(()) => continue,
        };
        return Err(blame_property(why, below(field, name), name, value, bounds));
    }
    Ok(())
}

/// A property is the reason of a refusal.
pub(super) fn blame_property(
    why: Refusal,
    part: String,
    name: &str,
    value: &Value,
    bounds: &Bounds,
) -> Failed {
    let text = match why {
        Refusal::TooLarge => {
            let (bytes, max) = (value.to_string().len(), bounds.property_bytes);
            format!("{part} has {bytes} bytes as JSON: a property has at most {max}")
        }
        Refusal::TooMany => format!(
            "{part}: there is no place for it: a room has at most {} properties, and the rooms of \
             a zone share their memory",
            bounds.properties
        ),
        Refusal::Unknown => format!("{part} is {}: there is nothing to take away", quoted(name)),
        why => format!("{part} is {}: {}", quoted(name), why.text()),
    };
    Failed::Part(why, BadWord::other(&part, text))
}
