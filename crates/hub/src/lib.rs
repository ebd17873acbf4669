//! A shard's brain: sessions, subscriptions and the routes between them.
//!
//! Commands in, effects out: a [`Hub`] is handed what arrived and the time, and answers by
//! filling [`Effects`] and the output queues of its sessions. It owns everything it touches and
//! shares two things with the hubs of other shards: the [`InterestTable`] and the [`Retained`]
//! store. So the same code is driven by the server's shards, by tests on a virtual clock and by
//! the simulation.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod acknowledge;
mod adaptor;
mod authenticate;
mod burst;
mod call;
mod charge;
mod client_id;
mod conflate;
mod connect;
mod debts;
mod deliver;
mod departures;
mod effects;
mod ending;
mod fence;
mod hub;
mod inspect;
mod interest;
mod keep;
mod key;
mod lifecycle;
mod memory;
mod met;
mod options;
mod outbox;
mod permission;
mod private;
mod publish;
mod pump;
mod quota;
mod receive;
mod renewal;
mod reply;
mod retained;
mod rights;
mod room;
mod route;
mod serve;
mod sessions;
mod settings;
mod share;
mod snapshot;
mod stats;
mod stored;
mod subscribe;
mod tally;
mod transmit;
mod work;

pub use adaptor::{Act, Adaptors, Deed, Denial, Happening, Hooks, Judgement, Question, Rewrite};
pub use authenticate::{Authenticated, Authentication, Step};
pub use call::{Answer, Call, Callees, ReturnAddress};
pub use connect::Admitted;
pub use effects::{Closing, ControlItem, Effects, Event, Full, KeepItem, MeshItem, Sender};
pub use hub::{Hub, Shared};
pub use inspect::{ClientInfo, ConnectionInfo, Delivering, Granted, ZoneFigures};
pub use interest::InterestTable;
pub use key::{LinkId, SHARDS_MAX, SessionKey, ShardId, home_shard};
pub use memory::{Holder, Holding, Ledger, Pressure, Tenant, TenantKind, Tenants};
pub use private::PrivateMessage;
pub use quota::{Needs, Newest, Places, Quotas, UserBound};
pub use renewal::{Renewal, Renewed};
pub use retained::{
    Cursor, Kept, Mark, NotKept, Purpose, Retained, STRIPE_VISITS, Scope, Stored, Walk,
    copy_visits, topic_visits,
};
pub use rights::{Access, GuestMark, Identity, Rights};
pub use room::{Parting, Place, RoomItem, Who};
pub use serve::{Ask, Served};
pub use settings::{
    AtOnce, ClientIdBinding, Keep, PolicyFinder, Settings, SlowPolicy, TopicPolicy,
    WideSubscription, ZoneSettings,
};
pub use share::{Search, ShareName};
pub use stats::{LossCause, Losses, Stats, ZoneTraffic};
pub use tally::{Count, PauseCause, Tally};
pub use work::{OWN_PACKETS, TurnFigures};
