//! Things that many events have in common, each kept once.

/// Things by number. One that no event has any more makes room for another.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    /// Each with the number of events that have it.
    places: Vec<(T, usize)>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T: Clone + PartialEq> Shelf<T> {
    /// One event more has it. Returns its number. O(things).
    pub(super) fn put(&mut self, thing: &T) -> usize {
        let known = self.places.iter().position(|(it, _)| it == thing);
        let number = known.unwrap_or_else(|| {
            let free = self.places.iter().position(|(_, events)| *events == 0);
            let number = free.unwrap_or(self.places.len());
            match free {
                Some(free) => self.places[free] = (thing.clone(), 0),
                None => self.places.push((thing.clone(), 0)),
            }
            number
        });
        self.places[number].1 += 1;
        number
    }

    /// One event less has what has this number.
    pub(super) fn release(&mut self, number: usize) {
        debug_assert!(
            self.places
                .get(number)
                .is_some_and(|(_, events)| *events > 0)
        );
        if let Some((_, events)) = self.places.get_mut(number) {
            *events = events.saturating_sub(1);
        }
    }

    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.places.get(number).map(|(thing, _)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_that_nobody_has_makes_room() {
        let mut shelf = Shelf::default();
        assert_eq!(
            (shelf.put(&"a"), shelf.put(&"b"), shelf.put(&"a")),
            (0, 1, 0)
        );
        shelf.release(0);
        assert_eq!(shelf.put(&"c"), 2, "one event has it still");
        shelf.release(0);
        assert_eq!(shelf.put(&"d"), 0);
        assert_eq!(
            (shelf.get(0), shelf.get(1), shelf.get(3)),
            (Some(&"d"), Some(&"b"), None)
        );
    }
}
