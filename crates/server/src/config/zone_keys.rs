//! The part of the table that is about zones and their rooms.

use std::path::PathBuf;
use std::time::Duration;

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
        /// The newcomer stays; who was there is disconnected with 0x8E.
        Replace = "replace",
    }
}

section! {
    /// Zones: isolated applications with users, topics and rooms of their own. One that is not
    /// named here behaves by these defaults.
    Zone = "zone", repeated: true;

    /// The zone; logins that name none are of the zone `default`.
    name: String = Kind::Name, Required("game"), Live;
    /// Connections of all its users at a time; 0 leaves it to `stentor zone add --connections`.
    connections: u32 = count(0, 10_000_000), Default("0"), NewConnections;
    /// What happens when a user logs in who is connected already: `allow` lets both stay, `refuse`
    /// refuses the newcomer unless it takes its own session over, `replace` disconnects who was
    /// there.
    second_login: SecondLogin = Kind::Choice(SecondLogin::NAMES), Default("allow"),
        NewConnections;
    /// Connections of one user at a time under `second_login = "allow"`; 0 turns the limit off.
    user_connections: u32 = count(0, 1_000_000), Default("0"), NewConnections;
    /// Lets clients in that log in as `guest` without a password: each gets a name `guest/RANDOM`
    /// and the role `guest`.
    guests: bool = Kind::Flag, Default("false"), NewConnections;
    /// Guests that come in per second.
    guest_rate: u32 = count(1, 1_000_000), Default("10"), Live;
    /// Whether users make rooms, by joining one that does not exist or by command.
    user_rooms: bool = Kind::Flag, Default("true"), Live;
    /// Rooms that there may be.
    rooms: u32 = count(1, 1_000_000), Default("100000"), Live;
    /// Rooms that one user may own.
    rooms_per_user: u32 = count(1, 1_000_000), Default("100"), Live;
    /// Bytes that all its rooms may hold in memory: properties, and the messages that they keep.
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
    /// What a deed comes to when the adaptor that judges it fails.
    OnTrouble {
        /// It is denied.
        Deny = "deny",
        /// It is allowed.
        Allow = "allow",
    }
}

section! {
    /// Your own code in Luau that sees, changes and refuses what clients do
    /// ([adaptors.md](adaptors.md)). Several are asked in this order: those of the server, of the
    /// zone, of the room. A changed file is taken over by itself.
    Adaptor = "adaptor", repeated: true;

    /// The script.
    file: PathBuf = Kind::Path, Required("/etc/stentor/moderate.luau"), Live;
    /// The zone that it is for; not given, all.
    zone: Option<String> = Kind::Name, Unset("game"), Live;
    /// The room that it is for; not given, all, and what is in none.
    room: Option<String> = Kind::Name, Unset("tea"), Live;
    /// The memory of its machine.
    memory: u64 = bytes(MIB, GIB), Default("16MiB"), Live;
    /// How long one run of a hook may take, waiting aside; it is stopped then.
    time: Duration = Kind::Duration {
        min: Duration::from_millis(1), max: Duration::from_secs(10), never: false,
    }, Default("50ms"), Live;
    /// How long a hook may take in all.
    deadline: Duration = Kind::Duration {
        min: Duration::from_millis(100), max: Duration::from_secs(60), never: false,
    }, Default("5s"), Live;
    /// The hosts that it may call by HTTP or HTTPS, each `HOST` or `HOST:PORT`.
    http: Vec<String> = Kind::Texts, Default(""), Live;
    /// What its hooks publish, send and ask for in one second, all together: messages, commands,
    /// calls and HTTP requests. More than that is an error in the script.
    rate: u32 = count(1, 1_000_000), Default("20000"), Live;
    /// What a deed comes to when the hook that judges it fails.
    on_error: OnTrouble = Kind::Choice(OnTrouble::NAMES), Default("deny"), Live;
}

section! {
    /// Rooms that are there from the start and stay when they are empty. Every zone has the room
    /// `lobby`, which can be given options here.
    Room = "room", repeated: true;

    /// The zone of the room.
    zone: String = Kind::Name, Default("default"), Live;
    /// The room.
    name: String = Kind::Name, Required("tea"), Live;
    /// Members that it may have; 0 for no limit.
    capacity: u32 = count(0, 10_000_000), Default("0"), Live;
    /// Lets nobody in but administrators.
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
