//! The verb `events`.

use stentor_control::Request as _;
use stentor_control::events::{Event, Events, Told};

use super::protocol::{Failure, network, wait};
use crate::context::ServerContext;
use crate::telemetry::{Noted, Wanted, ZoneOf};

/// What has happened lately, as far as somebody wants to know.
pub(super) fn events(context: &ServerContext, request: &Events) -> Result<Told, Failure> {
    let zone = request.zone.clone().map(|name| {
        let number = context.authenticator.known_zone(&name);
        (name, number)
    });
    let wanted = Wanted {
        after: request.after,
        client_id: request.client_id.clone(),
        user: request.user.clone(),
        network: network(request.address.as_deref())?,
        kind: request.event,
        zone,
        since_ms: request.since_ms.unwrap_or(0),
        limit: Events::VERB.wanted(request.limit)?.max(1),
    };
    let found = context
        .journal
        .events()
        .find(&wanted, wait(request.wait_ms));
    let events = found.events.into_iter();
    Ok(Told {
        events: events.map(|noted| shown(context, noted)).collect(),
        cursor: found.cursor,
        missed: found.missed,
    })
}

fn shown(context: &ServerContext, noted: Noted) -> Event {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Event {
        seq: noted.seq,
        at_ms: noted.at_ms,
        event: noted.kind.label().to_owned(),
        client_id: some(&noted.client_id),
        user: some(&noted.user),
        zone: noted.zone.map(|zone| match zone {
            ZoneOf::Number(zone) => context.zone_name(zone),
            ZoneOf::Name(name) => name.into_string(),
        }),
        peer: noted.peer.map(|peer| peer.to_string()),
        listener: noted.port.map(|port| port.url.to_string()),
        reason: some(noted.reason),
        text: some(&noted.text),
        held_back: noted.held_back,
    }
}
