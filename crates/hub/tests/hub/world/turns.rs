//! Turns that are short, and leave time for others.

use stentor_hub::{Beside, MeshRoom};
use stentor_session::Tick;

use super::World;

/// Bytes of a PINGREQ.
pub const PING: [u8; 2] = [0xC0, 0];

impl World {
    /// Turns of the first hub until nothing is left to do: each does `visits_max` visits at most,
    /// and in each of them a bystander is served. `each` is asked after each turn. Returns the
    /// visits of all turns, and how many turns there were.
    pub fn turns_beside(
        &mut self,
        bystander: usize,
        visits_max: u32,
        mut each: impl FnMut(&mut Self),
    ) -> (u64, usize) {
        let (mut all, mut turns) = (0, 0_usize);
        loop {
            let goes_on = self.go_on(0);
            let visits = self.hubs[0].turn().visits();
            assert!(visits <= visits_max, "{visits} visits in turn {turns}");
            all += u64::from(visits);
            self.send_without_settling(bystander, &PING);
            self.flush(0);
            let answer = self.take_packet(bystander, 0xD0);
            assert!(answer.is_some(), "turn {turns}");
            each(self);
            if turns.is_multiple_of(16) {
                self.check_accounts();
            }
            if !goes_on && self.hubs[0].next_deadline() != Some(Tick::ZERO) {
                return (all, turns);
            }
            turns += 1;
            assert!(turns < 100_000, "it comes to an end");
            self.tick();
        }
    }

    /// What other hubs may be told of shared subscriptions in a turn of one.
    pub fn set_share_room(&mut self, shard: u8, visits: u32) {
        self.hubs[usize::from(shard)]
            .turn_mut()
            .set_share_room(visits);
        self.collect(shard);
    }

    /// What room the mesh has for what a hub sends; those that wait for some go on.
    pub fn set_mesh_room(&mut self, shard: u8, room: MeshRoom) {
        let hub = &mut self.hubs[usize::from(shard)];
        hub.turn_mut().count_beside(Beside::MeshRoom(room));
        if room == MeshRoom::Free {
            let effects = hub.effects();
            effects.yielded.append(&mut effects.awaiting_room);
        }
        self.settle();
    }

    /// The time that a turn takes.
    pub fn tick(&mut self) {
        self.now = Tick::from_micros(self.now.as_micros() + 200);
    }
}
