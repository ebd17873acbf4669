//! Codes and texts of acknowledgements. A test compares the texts with the sources.

use stentor_mqtt::ReasonCode;

/// A row of the page.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) reason: ReasonCode,
    /// The reason string; empty if there is none.
    pub(super) text: &'static str,
    /// When it happens, as a sentence.
    pub(super) when: &'static str,
    /// What to do; empty if there is nothing.
    pub(super) remedy: &'static str,
}

const fn row(
    reason: ReasonCode,
    text: &'static str,
    when: &'static str,
    remedy: &'static str,
) -> Row {
    Row {
        reason,
        text,
        when,
        remedy,
    }
}

/// PUBACK and PUBREC.
#[rustfmt::skip]
pub(super) const PUBLISH: &[Row] = &[
    row(ReasonCode::Success, "",
        "The server took the message. It sends this code also if no client subscribes to the topic.", ""),
    row(ReasonCode::Success, "stored: the recipient is away and gets it later",
        "A private message waits in the queue of its recipient.", ""),
    row(ReasonCode::NoMatchingSubscribers, "nobody is listening under this name",
        "A private message has no recipient.", "Check the name, or try again when the user is connected."),
    row(ReasonCode::NoMatchingSubscribers, "expired: with a Message Expiry Interval of 0 nobody gets it",
        "A private message had expired when it arrived.", "Set a longer expiry, or none."),
    row(ReasonCode::NoMatchingSubscribers, "this server runs no procedures",
        "A call to `$call/…` met a server without procedures.", "Set `procedures.folder`."),
    row(ReasonCode::NoMatchingSubscribers, "nobody waits for this answer of this client",
        "A client that serves a procedure answered too late, or twice.", "Answer within the time of the call."),
    row(ReasonCode::UnspecifiedError, "",
        "The session ended while the message was handled.", "Reconnect, and send the message again."),
    row(ReasonCode::ImplementationSpecificError, "the disk does not take it; the server's log says why",
        "A retained message could not be written.", "Repair the disk. The log and `stentor status` name the error."),
    row(ReasonCode::NotAuthorized, "the right to publish to this topic is missing",
        "No role of the user allows it.", "`stentor user test NAME publish TOPIC` says why. Give a role by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "only the server publishes to this topic",
        "The topic begins with `$` and belongs to the server.", "Publish to a topic without `$`."),
    row(ReasonCode::NotAuthorized, "an adaptor has this go to another topic, where the right to publish is missing",
        "An adaptor changed the topic.", "Give the user the right to the new topic, or change the adaptor."),
    row(ReasonCode::NotAuthorized, "the right to say something in this room is missing",
        "A message to `$room/ROOM/say` is not permitted.", "Give a role with that right by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "you are not a member of the room",
        "The client talks in a room that it did not enter.", "Subscribe to `$room/ROOM` first."),
    row(ReasonCode::NotAuthorized, "private messages to this user are not allowed",
        "No role of the sender allows it.", "Give a role with that right by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "private messages need a login with a user name",
        "The client has no user name.", "Log in as a user."),
    row(ReasonCode::NotAuthorized, "the right to call this procedure is missing",
        "No role of the user allows the call.", "Give a role with that right by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "answers go below $reply/, or to a topic without $ where the caller may publish",
        "The response topic of a call is not permitted.", "Use another response topic."),
    row(ReasonCode::TopicNameInvalid, "the topic is too long: limits.topic_bytes is",
        "The text ends with the value of the limit.", "Shorten the topic, or raise the limit."),
    row(ReasonCode::TopicNameInvalid, "the topic has too many levels: limits.topic_levels is",
        "The text ends with the value of the limit.", "Use fewer levels, or raise the limit."),
    row(ReasonCode::TopicNameInvalid, "the topic does not have the levels that it needs",
        "A topic below `$private/`, `$room/` or `$call/` is not complete.", "See [Zones](../zones.md) for these topics."),
    row(ReasonCode::TopicNameInvalid, "private messages go to $private/to/USER, not to another word",
        "A topic below `$private/` has another word than `to`.", "Publish to `$private/to/USER`."),
    row(ReasonCode::TopicNameInvalid, "a name has at most 255 bytes",
        "The topic names a user or a procedure by more bytes than a name may have.",
        "Write the name as it is known."),
    row(ReasonCode::TopicNameInvalid, "two hexadecimal digits of UTF-8 have to follow a % in a name",
        "A name in a topic has a `%` that is not the start of `%2F` or the like.", "Write `%` as `%25`."),
    row(ReasonCode::QuotaExceeded, "there is no room: a bound of retained messages is reached, of the server or the zone",
        "A retained message was not stored.", "Raise `retained.messages` or `retained.bytes` (`zone_messages` or `zone_bytes` for a zone), or delete messages by `stentor retained clear`."),
    row(ReasonCode::QuotaExceeded, "there is no room: the disk of the retained messages is full",
        "A retained message was not stored.", "Make room on the disk, or delete messages by `stentor retained clear`."),
    row(ReasonCode::QuotaExceeded, "there is no room: limits.memory is reached",
        "A new retained message was not stored. The text ends with the value of the limit.", "Raise `limits.memory`. `stentor status` says who holds most."),
    row(ReasonCode::QuotaExceeded, "the zone's adaptor has too much to do; try again",
        "Too many messages wait for the adaptor.", "Send slower, or make the adaptor faster."),
    row(ReasonCode::QuotaExceeded, "the recipient's queue is full",
        "The recipient of a private message does not read.", "Try again later."),
    row(ReasonCode::QuotaExceeded, "too many private messages wait for their response; try again",
        "The server waits for too many answers.", "Try again later."),
    row(ReasonCode::QuotaExceeded, "too large: the recipient takes smaller packets",
        "A private message is above the Maximum Packet Size of its recipient.", "Send less."),
    row(ReasonCode::QuotaExceeded, "too many calls wait; try again",
        "The server waits for too many procedures.", "Try again later, or make the procedures faster."),
    row(ReasonCode::QuotaExceeded, "larger than allowed",
        "What was said in a room is above the limit of the zone.", "Send less."),
    row(ReasonCode::QuotaExceeded, "",
        "Too many acknowledgements wait for the disk or for other shards.", "Wait for acknowledgements before you send more."),
];

/// SUBACK.
#[rustfmt::skip]
pub(super) const SUBSCRIBE: &[Row] = &[
    row(ReasonCode::Success, "", "The subscription has QoS 0.", ""),
    row(ReasonCode::GrantedQoS1, "", "The subscription has QoS 1.", ""),
    row(ReasonCode::GrantedQoS2, "", "The subscription has QoS 2.", ""),
    row(ReasonCode::UnspecifiedError, "",
        "The session ended while the subscription was handled. MQTT 3 has this code for each refusal.", "Reconnect, or read the log."),
    row(ReasonCode::ImplementationSpecificError, "max-rate is messages a second: digits, perhaps with a point, from 0.001 to 1000000",
        "The user property `max-rate` is not a number of this form.", "Write for example `2.5`."),
    row(ReasonCode::ImplementationSpecificError, "the room is locked",
        "The owner locked the room.", "Ask the owner."),
    row(ReasonCode::NotAuthorized, "the right to receive what this filter matches is missing",
        "No role of the user allows it.", "`stentor user test NAME subscribe FILTER` says why. Give a role by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "the right to be in this room is missing",
        "No role of the user allows this room.", "Give a role with that right by `stentor grant`."),
    row(ReasonCode::NotAuthorized, "this zone's rooms are made by its administrators",
        "The room does not exist, and users may not make rooms.", "Let an administrator make the room by `stentor room`."),
    row(ReasonCode::TopicFilterInvalid, "this filter is longer, or has more levels, than this server takes",
        "The filter is above `limits.topic_bytes` or `limits.topic_levels`. The text ends with the limit and its value.", "Shorten the filter, or raise the limit."),
    row(ReasonCode::TopicFilterInvalid, "the group of this shared subscription has a longer name than this server takes",
        "The name of the group is above `limits.topic_bytes`.", "Shorten the name, or raise the limit."),
    row(ReasonCode::TopicFilterInvalid, "`+` in a topic filter must occupy a whole level",
        "The filter is not valid. The text says what is wrong with it.", "Correct the filter."),
    row(ReasonCode::QuotaExceeded, "this session has as many subscriptions as it may have",
        "The text ends with the limit that is reached and its value: `limits.subscriptions_per_client`, `limits.subscription_bytes_per_client` or the quota of a role.", "Use wildcards, or raise the limit."),
    row(ReasonCode::QuotaExceeded, "this filter has more wildcards than one may have",
        "The filter is above `limits.topic_wildcards`.", "Use fewer `+`, or raise the limit."),
    row(ReasonCode::QuotaExceeded, "64 subscriptions of the session have a max-rate already, or their filters would have more than 2,048 bytes",
        "Too many subscriptions have a `max-rate`.", "Give one `max-rate` for a filter with wildcards."),
    row(ReasonCode::QuotaExceeded, "this session shares as many subscriptions as it may",
        "`limits.shared_subscriptions_per_client` is reached.", "Raise the limit."),
    row(ReasonCode::QuotaExceeded, "this filter is shared by as many groups as may share one",
        "`limits.share_groups_per_filter` is reached.", "Use fewer group names, or raise the limit."),
    row(ReasonCode::QuotaExceeded, "the zone's adaptor has too much to do; try again",
        "Too many subscriptions wait for the adaptor.", "Try again later."),
    row(ReasonCode::QuotaExceeded, "the room is full",
        "All places of the room are taken.", "Try again later, or enter another room."),
    row(ReasonCode::TopicFilterInvalid, "there is no such room, member or property",
        "The room does not exist.", "`stentor room ls` lists the rooms."),
    row(ReasonCode::TopicFilterInvalid, "a name has 1 to 255 bytes, and none of / + # $ or control characters",
        "The name of the room is not valid.", "Use another name."),
    row(ReasonCode::QuotaExceeded, "as many as allowed are there already",
        "The zone has as many rooms as it may have.", "Close a room, or raise the limit of the zone."),
    row(ReasonCode::QuotaExceeded, "too many wait for rooms",
        "Too many clients wait to enter rooms.", "Try again later."),
];

/// UNSUBACK.
#[rustfmt::skip]
pub(super) const UNSUBSCRIBE: &[Row] = &[
    row(ReasonCode::Success, "", "The subscription is gone.", ""),
    row(ReasonCode::NoSubscriptionExisted, "", "The session has no such subscription.", "Write the filter as it was subscribed, with `$share/GROUP/`."),
    row(ReasonCode::UnspecifiedError, "", "The session ended while the packet was handled.", ""),
    row(ReasonCode::TopicFilterInvalid, "", "The filter is not valid.", "Correct the filter."),
];
