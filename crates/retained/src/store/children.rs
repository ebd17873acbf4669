//! Names of topics, level by level: no message is read.

use std::collections::BTreeMap;

use stentor_disk::Disk;
use stentor_topic::Zone;

use super::{STRIPES, Store};
use crate::stripe::Seek;

/// Bytes of names that are listed together.
const BYTES_MAX: usize = 4 << 20;

/// What there is of a name at a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Whether the name is the end of a topic that holds a message.
    pub is_topic: bool,
    /// Whether there are topics below it.
    pub has_below: bool,
}

impl<D: Disk> Store<D> {
    /// The names at the level below a prefix, or at the first level, and whether these are all: at
    /// most this many, and 4 MiB. What is below a name is passed over, however much that is. A lock
    /// is held for 64 names at most. Without topics that are not kept over a restart, such as those
    /// below `$SYS/`.
    #[must_use]
    pub fn children(
        &self,
        zone: Zone,
        prefix: Option<&str>,
        at_most: usize,
    ) -> (BTreeMap<String, Child>, bool) {
        let base = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let (mut found, mut bytes) = (BTreeMap::<String, Child>::new(), 0);
        for stripe in 0..STRIPES {
            let mut seek = Seek::to(&base);
            loop {
                let mut add = |name: &str, has_below: bool| {
                    let child = match found.get_mut(name) {
                        Some(child) => child,
                        None => {
                            bytes += name.len();
                            found.entry(name.to_owned()).or_default()
                        }
                    };
                    child.is_topic |= !has_below;
                    child.has_below |= has_below;
                };
                let is_done = self.lock(stripe).children(zone, &base, &mut seek, &mut add);
                if found.len() > at_most || bytes > BYTES_MAX {
                    while found.len() > at_most {
                        found.pop_last();
                    }
                    return (found, false);
                }
                if is_done {
                    break;
                }
            }
        }
        (found, true)
    }
}
