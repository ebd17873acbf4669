//! The topics that aliases stand for, as far as traced connections have said them.

use std::collections::HashMap;

use stentor_control::trace::Way;

use super::packet::Topic;

/// Aliases of one connection for each way: the server allows no more by default.
const ALIASES_MAX: usize = 64;

/// What the names of all connections of a shard may take. Beyond that, a line has no topic if the
/// packet has none.
const BYTES_MAX: usize = 4 << 20;

/// What a name takes beside its bytes, at most.
const NAME_BYTES: usize = 96;

/// How much more the names of a shard may take, in bytes.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(BYTES_MAX)
    }
}

const fn cost(name: &str) -> usize {
    NAME_BYTES + name.len()
}

/// The names of one connection: those of the client, and those of the server.
#[derive(Debug, Default)]
pub(super) struct Names([HashMap<u16, Box<str>>; 2]);

impl Names {
    /// The topic of a PUBLISH, as far as it is known.
    pub(super) fn name(
        &mut self,
        topic: &Topic<'_>,
        way: Way,
        room: &mut Room,
    ) -> Option<Box<str>> {
        let names = &mut self.0[way as usize];
        let (name, Some(alias)) = (topic.name, topic.alias) else {
            return Some(topic.name.into());
        };
        if name.is_empty() {
            return names.get(&alias).cloned();
        }
        // It stands for nothing else any more, whether there is room for the new name or not.
        let before = names.remove(&alias);
        room.0 += before.map_or(0, |before| cost(&before));
        if names.len() < ALIASES_MAX && cost(name) <= room.0 {
            room.0 -= cost(name);
            names.insert(alias, name.into());
        }
        Some(name.into())
    }

    /// The connection is not traced any more.
    pub(super) fn forget(self, room: &mut Room) {
        let all = self.0.iter().flat_map(HashMap::values);
        room.0 += all.map(|name| cost(name)).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(names: &mut Names, room: &mut Room, alias: u16, name: &str) -> Option<Box<str>> {
        let topic = Topic {
            name,
            alias: Some(alias),
        };
        names.name(&topic, Way::Received, room)
    }

    #[test]
    fn names_of_a_shard_are_bounded_and_never_wrong() {
        let mut room = Room::default();
        let long = "n".repeat(60_000);
        let mut all: Vec<Names> = (0..2).map(|_| Names::default()).collect();
        for names in &mut all {
            for alias in 0..200 {
                let said = say(names, &mut room, alias, &long);
                assert_eq!(said.as_deref(), Some(&*long));
            }
        }
        let kept: usize = all.iter().map(|names| names.0[0].len()).sum();
        assert_eq!(kept, BYTES_MAX / cost(&long), "64 and a few");
        assert_eq!(say(&mut all[0], &mut room, 1, "").as_deref(), Some(&*long));
        assert_eq!(say(&mut all[1], &mut room, 60, ""), None);
        // An alias that gets a longer name, for which there is no room, has lost the old one.
        let _ = say(&mut all[0], &mut room, 1, &"m".repeat(2 * long.len()));
        assert_eq!(say(&mut all[0], &mut room, 1, ""), None);
        for names in all {
            names.forget(&mut room);
        }
        assert_eq!(room.0, BYTES_MAX);
    }
}
