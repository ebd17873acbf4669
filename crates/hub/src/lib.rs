//! A shard's brain: sessions, subscriptions and the routes between them.
//!
//! Commands in, effects out: a [`Hub`] is handed what arrived and the time, and answers by
//! filling [`Effects`] and the output queues of its sessions. It owns everything it touches and
//! shares two things with the hubs of other shards: the [`InterestTable`] and the [`Retained`]
//! store. So the same code is driven by the server's shards, by tests on a virtual clock and by
//! the simulation.

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
    ALL_WRITTEN, ConnectedAs, Hub, Inspect, Operate, Shared, TurnControl, TurnView, answer_bytes,
    ask_rooms, audience_of, begin_restoring, bytes_to_write, clock_ms, close_banned,
    close_connection, connected_as, each_client_from, end_restoring, fetched, filters_from,
    filters_matching, forget_touched, give_up_rewriting, granted_from, has_answers, has_backlogs,
    has_bulk, has_news, has_spool_orders, has_untold_shares, heaviest_publishers, heaviest_topics,
    holders_from, is_journal_laden, logged, losses_of, mark_output, note_touched, publish_for,
    queued_from, release_marked, release_output, restore_room, rewrite_sessions, seal_backlogs,
    sealed, session_lasts, session_of, set_journal_full, set_journal_laden, set_owner,
    shared_members, spool_goes_on, take_batches, take_spool_orders, take_touched,
    tell_backlog_room, transmit_released, zone_figures_from,
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
