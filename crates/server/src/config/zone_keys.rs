//! The part of the table that is about zones and their rooms.

use std::path::PathBuf;
use std::time::Duration;

use stentor_procedure::adaptor::{Builtin, Source};

use super::diff::Change;
use super::keys::{GIB, KIB, MIB, bytes, count, seconds};
use super::kind::Kind;
use super::reader::Reader;
use super::table::Fallback::{Required, Unset, Value as Default};
use super::table::{Key, Reload, Section, choice, section};
use super::value::{Setting, Value};

choice! {
    /// What happens when a user logs in who is connected already.
    SecondLogin {
        /// Both stay.
        Allow = "allow",
        /// The newcomer is refused with 0x97, unless it takes its own session over.
        Refuse = "refuse",
        /// The newcomer stays; the client that was there is disconnected with 0x8E.
        Replace = "replace",
    }
}

section! {
    /// Zones: isolated applications with their own users, topics and rooms. A zone that is not
    /// named here has these defaults.
    Zone = "zone", repeated: true;

    /// The zone; logins without a zone belong to the zone `default`.
    name: String = Kind::Name, Required("game"), Live;
    /// Simultaneous connections of all its users; with 0, `stentor zone add --connections` decides.
    connections: u32 = count(0, 10_000_000), Default("0"), NewConnections;
    /// What happens when a connected user logs in again: `allow` lets both stay, `refuse` refuses
    /// the new connection unless it takes its own session over, `replace` disconnects the existing
    /// one.
    second_login: SecondLogin = Kind::Choice(SecondLogin::NAMES), Default("allow"),
        NewConnections;
    /// Simultaneous connections of one user with `second_login = "allow"`; 0 turns the limit off.
    user_connections: u32 = count(0, 1_000_000), Default("0"), NewConnections;
    /// Lets clients in that log in as `guest` without a password. Each gets a name `guest/RANDOM`
    /// and the role `guest`.
    guests: bool = Kind::Flag, Default("false"), NewConnections;
    /// Guests that may log in per second.
    guest_rate: u32 = count(1, 1_000_000), Default("10"), Live;
    /// Whether users may make rooms, by joining one that does not exist or by command.
    user_rooms: bool = Kind::Flag, Default("true"), Live;
    /// The highest number of rooms.
    rooms: u32 = count(1, 1_000_000), Default("100000"), Live;
    /// Rooms that one user may own.
    rooms_per_user: u32 = count(1, 1_000_000), Default("100"), Live;
    /// Bytes that all its rooms may hold in memory: properties, and the messages of their
    /// histories. An eighth of `limits.memory` at most.
    room_bytes: u64 = bytes(MIB, 64 * GIB), Default("256MiB"), Live;
    /// Members of a new room, unless its maker says otherwise; 0 for no limit.
    room_capacity: u32 = count(0, 10_000_000), Default("0"), Live;
    /// How long the place of a lost connection is kept in a new room.
    room_grace: Duration = seconds(0, 86_400), Default("30s"), Live;
    /// The messages that a new room keeps for those who join, unless its maker says otherwise.
    room_history: u32 = count(0, 1_000), Default("0"), Live;
    /// Bytes of the messages that a new room keeps.
    room_history_bytes: u64 = bytes(KIB, MIB), Default("64KiB"), Live;
    /// How long a new room keeps messages; `0s` turns the limit off.
    room_history_age: Duration = seconds(0, 31_536_000), Default("0s"), Live;
}

choice! {
    /// What a request comes to when the adaptor that judges it fails.
    OnTrouble {
        /// It is denied.
        Deny = "deny",
        /// It is allowed.
        Allow = "allow",
    }
}

section! {
    /// Your own code in Luau that receives, changes and refuses the actions of clients
    /// ([adaptors.md](adaptors.md)), or one that comes with the server. Adaptors of the server are
    /// asked first, then those of the zone, then those of the room. The server takes over a changed
    /// file by itself.
    Adaptor = "adaptor", repeated: true;

    /// The script; or give `builtin`.
    file: Option<PathBuf> = Kind::Path, Unset("/etc/stentor/moderate.luau"), Live;
    /// An adaptor that comes with the server: `turns`, for [games with
    /// turns](games.md#rooms-with-turns).
    builtin: Option<String> = Kind::Name, Unset("turns"), Live;
    /// The zone of the adaptor; not given, all zones.
    zone: Option<String> = Kind::Name, Unset("game"), Live;
    /// The room of the adaptor; not given, all rooms, and everything outside rooms.
    room: Option<String> = Kind::Name, Unset("tea"), Live;
    /// The memory of its virtual machine.
    memory: u64 = bytes(MIB, GIB), Default("16MiB"), Live;
    /// How long one run of a hook may compute before it is stopped; waiting does not count.
    time: Duration = Kind::Duration {
        min: Duration::from_millis(1), max: Duration::from_secs(10), never: false,
    }, Default("50ms"), Live;
    /// How long a hook may take in all, waiting included.
    deadline: Duration = Kind::Duration {
        min: Duration::from_millis(100), max: Duration::from_secs(60), never: false,
    }, Default("5s"), Live;
    /// The hosts that it may call by HTTP or HTTPS, each `HOST` or `HOST:PORT`.
    http: Vec<String> = Kind::Texts, Default(""), Live;
    /// The messages, commands, calls and HTTP requests of its hooks in one second, all together.
    /// More than that is an error in the script.
    rate: u32 = count(1, 1_000_000), Default("20000"), Live;
    /// What happens to an action when the hook that judges it fails.
    on_error: OnTrouble = Kind::Choice(OnTrouble::NAMES), Default("deny"), Live;
}

impl Adaptor {
    /// Where its text comes from.
    ///
    /// # Errors
    /// If both `file` and `builtin` are given, or neither, or if no such adaptor comes with the
    /// server.
    pub fn source(&self) -> Result<Source, String> {
        match (&self.file, &self.builtin) {
            (Some(file), None) => Ok(Source::File(file.clone())),
            (None, Some(name)) => Builtin::named(name).map(Source::Builtin),
            (Some(_), Some(_)) => {
                Err("an adaptor has either `file` or `builtin`, not both; remove one".to_owned())
            }
            (None, None) => {
                Err("an adaptor needs `file = \"SCRIPT.luau\"` or `builtin = \"turns\"`".to_owned())
            }
        }
    }
}

section! {
    /// Rooms that exist from the start and stay when they are empty. Every zone has the room
    /// `lobby`, whose options you can set here.
    Room = "room", repeated: true;

    /// The zone of the room.
    zone: String = Kind::Name, Default("default"), Live;
    /// The room.
    name: String = Kind::Name, Required("tea"), Live;
    /// The highest number of members; 0 for no limit.
    capacity: u32 = count(0, 10_000_000), Default("0"), Live;
    /// Lets only administrators in.
    locked: bool = Kind::Flag, Default("false"), Live;
    /// How long the place of a lost connection is kept.
    grace: Duration = seconds(0, 86_400), Default("30s"), Live;
    /// The messages that it keeps for those who join.
    history: u32 = count(0, 1_000), Default("0"), Live;
    /// Bytes of the messages that it keeps.
    history_bytes: u64 = bytes(KIB, MIB), Default("64KiB"), Live;
    /// How long it keeps messages; `0s` turns the limit off.
    history_age: Duration = seconds(0, 31_536_000), Default("0s"), Live;
}
