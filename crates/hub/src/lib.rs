//! A shard's brain: sessions, subscriptions and the routes between them.
//!
//! Commands in, effects out: a [`Hub`] is handed what arrived and the time, and answers by
//! filling [`Effects`] and the output queues of its sessions. It owns everything it touches but for
//! what is [`Shared`] by all hubs, above all the [`InterestTable`] and the [`Retained`] store. So
//! the same code is driven by the server's shards, by tests on a virtual clock and by the
//! simulation.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(
        feature = "calls",
        feature = "hooks",
        feature = "presence",
        feature = "private",
        feature = "rooms",
        feature = "serving"
    )),
    expect(unused, reason = "a service that is left out would use it")
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod core;
mod effects;
mod hub;
mod items;
mod services;

pub use self::core::audience::{AudiencePlace, FoundFilters, Listener};
pub use self::core::delivery::spool::SPOOL_UNIT;
pub use self::core::heavy_hitters::{
    Heaviest, Heavy, HeavyBy, HeavyPublisher, HeavyTopic, SAMPLED_ONE_IN,
};
pub use self::core::history::{HistoryAsk, HistoryBounds, HistoryQuery, NoHistoryAsk};
pub use self::core::ids::{LinkId, SHARDS_MAX, SessionKey, ShardId, home_of_zone, home_shard};
pub use self::core::inbound::flood::MeshRoom;
pub use self::core::inbound::subscribe::{Denial, Granted};
pub use self::core::inspect::{ClientInfo, ConnectionInfo, Delivering, SeenClient, ZoneFigures};
pub use self::core::memory::{Holder, Holding, Ledger, Pressure, Tenant, TenantKind, Tenants};
pub use self::core::queued::{QueuePlace, QueuedMessage, QueuedPart, QueuedPiece, QueuedState};
pub use self::core::retained::{
    Cursor, Kept, Mark, NotKept, Purpose, Retained, STRIPE_VISITS, Scope, Stored, Walk,
    copy_visits, topic_visits,
};
pub use self::core::routing::interest::InterestTable;
pub use self::core::routing::share::{Search, ShareName};
pub use self::core::sessions::authenticate::{Authenticated, Authentication, Step};
pub use self::core::sessions::connect::Admitted;
pub use self::core::sessions::log::{
    Owner, PriorDeliveries, PriorSession, PriorSubscription, Start, WRITTEN_BYTES_MAX,
    WrittenSession, prior_message, prior_sessions,
};
pub use self::core::sessions::quota::{Needs, Newest, Places, Quotas, UserBound};
pub use self::core::sessions::registry::Messages;
pub use self::core::sessions::renewal::{Renewal, Renewed};
pub use self::core::sessions::rights::{Access, GuestMark, Identity, QueueBounds, Rights};
pub use self::core::sessions::tally::{Count, LostBy, PauseCause, Tally};
pub use self::core::settings::{
    AtOnce, ClientIdBinding, Keep, PolicyFinder, Settings, SlowPolicy, SpoolSettings, TopicPolicy,
    WideSubscription, ZoneSettings,
};
pub use self::core::stats::{LossCause, Losses, Stats, ZoneTraffic};
pub use self::core::survey::{Part, Subscribed};
pub use self::core::work::{Beside, HandedOver, OWN_PACKETS, TurnFigures};
pub use effects::{Closing, Effects, Event, Full, SpoolOrder};
pub use hub::{
    Hub, Inspect, Operate, Shared, TurnControl, TurnView, ask_rooms, has_untold_shares, publish_for,
};
pub use items::{ControlItem, KeepItem, MeshItem, RoutedItem, Sender, ServiceCommand, ShardItem};
pub use services::ServiceItem;
pub use services::interface::answer::{Answer, ReturnAddress};
pub use services::interface::broadcast::{Broadcast, Fate, Origin, Recipient};
pub use services::interface::calls::{Ask, Call, Callees, Served};
pub use services::interface::hooks::{
    Act, Adaptors, HookEvent, HookRequest, HookVerdict, Hooks, Question, Rewrite,
};
pub use services::interface::rooms::{RoomsAsk, RoomsTold};

/// Single connections.
pub mod connections {
    pub use crate::hub::{ConnectedAs, close_banned, close_connection, connected_as, set_owner};
}

/// What changes in sessions that last: what is written down of it, and what is read back.
pub mod journal {
    pub use crate::hub::{
        ALL_WRITTEN, begin_restoring, bytes_to_write, end_restoring, give_up_rewriting,
        is_journal_laden, logged, restore_room, rewrite_sessions, session_lasts, set_journal_full,
        set_journal_laden, take_batches,
    };
}

/// The output that waits for the sockets of connections, beside [`Hub::transmit`].
pub mod output {
    pub use crate::hub::{
        answer_bytes, forget_touched, has_answers, has_bulk, has_news, mark_output, note_touched,
        release_marked, release_output, take_touched, transmit_released,
    };
}

/// Messages on the disk, for sessions whose clients are away.
pub mod spool {
    pub use crate::hub::{
        fetched, has_backlogs, has_spool_orders, seal_backlogs, sealed, spool_goes_on,
        take_spool_orders, tell_backlog_room,
    };
}

/// What there is to see of sessions and subscriptions.
pub mod survey {
    pub use crate::hub::{
        audience_of, clock_ms, each_client_from, filters_from, filters_matching, granted_from,
        heaviest_publishers, heaviest_topics, holders_from, losses_of, queued_from, session_of,
        shared_members, zone_figures_from,
    };
}
