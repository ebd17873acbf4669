//! `room.match`: a room that suits, or a new one.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde_json::{Value, json};

use super::blame::{blame_name, check_properties};
use super::{Command, Failed, RoomRights};
use crate::name::check_name;
use crate::room::Refusal;
use crate::rooms::Wish;
use crate::words::{BadWord, below};

/// Seconds that `room.match` holds a place at most.
const HOLD_SECS_MAX: u32 = 60;

impl<R: RoomRights> Command<'_, R> {
    pub(super) fn find(&mut self) -> Result<Value, Failed> {
        let asks = self.words.has("history");
        let places = self.words.count("places")?.unwrap_or(1);
        let hold_secs = self.hold_secs()?;
        let create = self.words.text("create")?;
        let (options, properties) = self.options()?;
        let members = self.words.members()?;
        let ranges = self.words.ranges(options.bounds.properties)?;
        let mut made_with = self.words.properties("create_properties")?;
        if let Some((both, _)) = ranges
            .iter()
            .find(|(name, _)| properties.contains_key(name))
        {
            let part = below("ranges", both);
            let text = format!("{part}: properties has it too; leave one of them out");
            return Err(BadWord::other(&part, text).into());
        }
        if create.is_none() && !made_with.is_empty() {
            let text = "create_properties is for a new room: give it a name by create";
            return Err(BadWord::other("create_properties", text).into());
        }
        if let Some(name) = &create {
            check_name(name).map_err(|_| blame_name(Refusal::Name, "create", name))?;
        }
        check_properties("create_properties", &made_with, &options.bounds)?;
        if let Some(capacity) = options.capacity.filter(|capacity| *capacity < places) {
            let text = format!("capacity is {capacity}: places asks for {places}, which is more");
            return Err(BadWord::other("capacity", text).into());
        }
        let wish = Wish {
            properties,
            ranges,
            members,
            places,
            who: (self.now, self.actor.user.into()),
        };
        // That a room matches tells its properties.
        let may_find = |room: &str| {
            let may_read = |property: &String| self.may_read_inside(room, property);
            let ranged = wish.ranges.iter().map(|(name, _)| name);
            let mut names = wish.properties.keys().chain(ranged).peekable();
            self.rights.may_enter(room)
                && (names.peek().is_none() || self.is_listed(room) || names.all(may_read))
        };
        if let Some(room) = self.rooms.find(self.work, &wish, may_find) {
            let answer = json!({ "room": room, "created": false });
            return Ok(self.with_hold(hold_secs, &room, answer));
        }
        let room = create.ok_or_else(|| {
            let text = "no room suits: ask for less, or give create, the name of a new room";
            Failed::Part(Refusal::Unknown, BadWord::other("", text))
        })?;
        self.actor.role = self.rights.role(&room);
        // A property that is wished for has that value in any case.
        made_with.extend(wish.properties);
        self.make("create", &room, options, made_with)?;
        let answer = json!({ "room": room, "created": true });
        let answer = self.with_hold(hold_secs, &room, answer);
        Ok(self.with_history(asks, &room, answer))
    }

    /// For how long a place is to be held; 0 for not at all.
    fn hold_secs(&mut self) -> Result<u32, Failed> {
        let secs = self.words.count_up_to("hold", HOLD_SECS_MAX)?.unwrap_or(0);
        if secs > 0 && self.actor.user.is_empty() {
            let text = format!("hold is {secs}: places are held for user names, and you have none");
            return Err(BadWord::other("hold", text).into());
        }
        Ok(secs)
    }

    /// The answer to somebody for whom a place is held, if that was asked for.
    fn with_hold(&mut self, secs: u32, room: &str, mut answer: Value) -> Value {
        if secs > 0 {
            self.work.looked_at(self.rooms.len());
            let until = self.now.after(Duration::from_secs(secs.into()));
            let user = self.actor.user;
            let is_held = self.rooms.hold(self.now, user, until, room, self.out);
            answer["held_secs"] = json!(if is_held { secs } else { 0 });
        }
        answer
    }
}
