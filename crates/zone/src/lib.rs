//! What a zone is to its users: private messages, rooms and presence, over plain MQTT topics.
//!
//! - [`Address`] and [`Interest`] read the topics that publishers and subscribers use for it.
//! - [`Rooms`] holds the rooms of one zone that live on one shard; every room is a [`Room`], a
//!   state machine that receives what users do and the time, and answers with [`Effect`]s:
//!   messages to publish, sessions to tell, sessions to take out of rooms.
//! - [`Presence`] knows which users are there, away or gone.
//!
//! Nothing here routes, stores or reads a clock. The owner of a [`Room`] publishes what it asks for
//! through the zone's ordinary topics, so that subscriptions, retained messages and slow-client
//! policies are the same for a room as for everything else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod command;
mod deadlines;
mod effect;
mod kept;
mod look;
mod name;
mod presence;
mod private;
mod range;
mod room;
mod rooms;
mod strict;
mod words;
mod work;

pub use address::{Address, Interest, NotAddress, inbox, topic};
pub use command::{
    AllRights, COMMAND_BYTES_MAX, Deed, ROOM_COMMANDS, Ran, RoomCommand, RoomRights, refuse_unread,
    run_command,
};
pub use effect::{Effect, Expelled, SessionId};
pub use kept::PriorRoom;
pub use look::{ListedRoom, ListedRooms, ShownMember, ShownRoom, room_shown, rooms_after};
pub use name::{LEVEL_BYTES_MAX, NAME_BYTES_MAX, NameError, check_name, decode_name, encode_name};
pub use presence::{Presence, PresenceStatus, Uniqueness, Verdict};
pub use private::{
    Reach, Response, adaptor_refused, call_denied, call_refused, join_ended, join_refused,
    out_of_room,
};
pub use room::{
    Actor, Bounds, Change, Condition, Entry, HistoryBounds, Property, Refusal, Role, Room,
    RoomOptions, Summary, closed_event,
};
pub use rooms::{Rooms, RoomsOptions, UNCLAIMED, Unmade};
pub use strict::Unambiguous;
