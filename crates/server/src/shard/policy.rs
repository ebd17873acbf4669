//! What a shard needs of the configuration. Replaced as a whole on reload.

use std::sync::Arc;
use std::time::Duration;

use stentor_hub::{HistoryBounds, Settings, SpoolSettings, TopicPolicy, ZoneSettings};

use crate::config::Config;
use crate::listener::Port;

/// The limit for a CONNECT, whatever the limit for other packets: a client that has not logged in
/// yet gets little memory. Every field at its longest takes a third of it.
const CONNECT_BYTES_MAX: u32 = 1 << 20;

/// Limits and policies of a shard.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Those of its hub.
    pub(crate) hub: Arc<Settings>,
    /// From connecting to being logged in.
    pub(super) login_timeout: Duration,
    /// How long output is held back.
    pub(super) coalesce: Duration,
    /// A turn that takes longer than this is logged; zero for none.
    pub(super) slow_turn: Duration,
    /// The largest CONNECT, in bytes.
    pub(super) connect_bytes_max: u32,
    /// The server that MQTT 5 clients receive as a reference, where the listener names none.
    server_reference: Option<String>,
}

impl Policy {
    /// The policy of a configuration, whose zones have got their numbers.
    /// Its server has this many shards.
    pub(crate) fn of(config: &Config, zones: Vec<ZoneSettings>, shards: u8) -> Self {
        let hub = Settings {
            zones,
            ..hub_settings(config, shards)
        };
        Self {
            hub: Arc::new(hub),
            login_timeout: config.limits.login_timeout,
            coalesce: config.general.coalesce,
            slow_turn: config.log.slow_turn,
            connect_bytes_max: config.limits.packet_bytes.min(CONNECT_BYTES_MAX),
            server_reference: config.general.server_reference.clone(),
        }
    }

    /// The server that MQTT 5 clients of a listener receive as a reference when they cannot stay.
    pub(super) fn server_reference(&self, port: &Port) -> Option<String> {
        let rules = port.rules.load();
        let reference = rules.server_reference.as_ref();
        reference.or(self.server_reference.as_ref()).cloned()
    }
}

/// The time from one message to the next; zero for no limit.
const fn interval(per_second: u32) -> Duration {
    match 1_000_000_u64.checked_div(per_second as u64) {
        Some(micros) => Duration::from_micros(micros),
        None => Duration::ZERO,
    }
}

/// A limit that 0 turns off.
const fn or_none(limit: u32) -> u32 {
    if limit == 0 { u32::MAX } else { limit }
}

fn spool_settings(config: &Config, shards: u8) -> SpoolSettings {
    let sessions = &config.sessions;
    if !sessions.enabled {
        return SpoolSettings::default();
    }
    let memory = sessions.memory / u64::from(shards.max(1));
    SpoolSettings {
        client_bytes_max: sessions.client_bytes,
        bytes_max: sessions.bytes,
        zone_bytes_max: sessions.zone_bytes,
        memory: usize::try_from(memory).unwrap_or(usize::MAX),
        ..SpoolSettings::default()
    }
}

fn hub_settings(config: &Config, shards: u8) -> Settings {
    let limits = &config.limits;
    let policies = config.policies.iter().map(|policy| TopicPolicy {
        filter: policy.filter.clone(),
        qos0: policy.qos0,
        qos1: policy.qos1,
        interval: interval(policy.max_rate),
        delay: policy.delay,
        keep: policy.keep,
        history: HistoryBounds {
            messages: policy.history,
            age: policy.history_age,
            bytes: policy.history_bytes,
        },
        sequence: policy.sequence,
    });
    Settings {
        packet_bytes_max: limits.packet_bytes,
        receive_maximum: limits.receive_maximum,
        in_flight_max: limits.inflight,
        topic_alias_maximum: limits.topic_alias_maximum,
        queue_bytes_max: usize::try_from(limits.queue_bytes).unwrap_or(usize::MAX),
        queue_messages_max: limits.queue_messages as usize,
        spool: spool_settings(config, shards),
        sessions_max: limits.sessions,
        sessions_per_user_max: or_none(limits.sessions_per_user),
        sessions_per_address_max: or_none(limits.sessions_per_address),
        sessions_per_zone_max: or_none(limits.sessions_per_zone),
        subscription_bytes_max: usize::try_from(limits.subscription_bytes_per_client)
            .unwrap_or(usize::MAX),
        subscriptions_max: limits.subscriptions_per_client as usize,
        shares_max: limits.shared_subscriptions_per_client as usize,
        share_groups_max: limits.share_groups_per_filter as usize,
        wide_subscription: config.auth.subscribe,
        client_id_binding: config.auth.client_id_binding,
        topic_levels_max: usize::from(limits.topic_levels),
        topic_bytes_max: usize::from(limits.topic_bytes),
        topic_wildcards_max: usize::from(limits.topic_wildcards),
        // The configuration keeps "never" apart from the longest finite time.
        session_expiry_max_secs: u32::try_from(limits.session_expiry_max.as_secs())
            .unwrap_or(u32::MAX),
        // At most 65,535 by the table of keys.
        keep_alive_max_secs: u16::try_from(limits.keep_alive_max.as_secs()).unwrap_or(u16::MAX),
        response_information: config.general.response_information.clone(),
        policies: policies.collect(),
        ..Settings::default()
    }
    .indexed()
}
