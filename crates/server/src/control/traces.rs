//! The verbs `trace.…`.

use std::sync::Arc;
use std::time::Duration;

use stentor_auth::model::DEFAULT_ZONE;
use stentor_auth::store::Who;
use stentor_control::Done;
use stentor_control::trace::{Lines, List, Ls, Read, Running, Start, Started, Stop};
use stentor_topic::validate_filter;

use super::protocol::{Failure, network, wait};
use super::zones;
use crate::context::ServerContext;
use crate::shard::ShardCommand;
use crate::telemetry::shown;
use crate::trace::{LINES_MAX, Origin, Rule, TRACES_MAX, Trace};

/// How long a trace runs if nothing is said, and at most.
const SECS: u64 = 300;
const SECS_MAX: u64 = 900;

/// Bytes of each payload at most.
const PAYLOAD_BYTES_MAX: usize = 1_024;

/// Begins a trace for somebody.
pub(super) fn start(
    context: &ServerContext,
    who: &Who,
    request: &Start,
) -> Result<Started, Failure> {
    let rule = rule(context, request)?;
    let for_secs = request.for_secs.unwrap_or(SECS).clamp(1, SECS_MAX);
    let lines = request.lines.unwrap_or(LINES_MAX).clamp(1, LINES_MAX);
    let time = Duration::from_secs(for_secs);
    let (origin, now) = (Origin::new(who.to_string()), context.clock.now());
    let begun = context.traces.begin(origin, rule, lines, time, now);
    let Some(trace) = begun else {
        let message = format!(
            "{TRACES_MAX} traces run, and there can be no more; `stentor trace ls` lists them, and \
             `stentor trace stop ID` ends one"
        );
        return Err(Failure::new("too-many", message));
    };
    tell_shards(context);
    Ok(Started {
        id: trace.id,
        for_secs,
        lines,
    })
}

/// What a trace is about, if that is anything.
fn rule(context: &ServerContext, request: &Start) -> Result<Rule, Failure> {
    let bad = |message: String| Failure::new("bad-request", message);
    let Start {
        client_id,
        user,
        address,
        topic,
        zone,
        ..
    } = request;
    if [client_id, user, address, topic, zone]
        .iter()
        .all(|it| it.is_none())
    {
        return Err(bad(
            "a trace needs a client id, a user, an address, a topic filter or a zone: `stentor \
             trace --client ID`, --user NAME, --address ADDRESS, --topic FILTER or --zone NAME"
                .to_owned(),
        ));
    }
    if let Some(filter) = topic {
        validate_filter(filter)
            .map_err(|error| {
                bad(format!(
                    "{:?} is not a topic filter: {error}",
                    shown(filter)
                ))
            })
            .map_err(|failure| failure.about("topic"))?;
    }
    let network = network(address.as_deref())?;
    // As at a login, a user without a zone is one of the default zone.
    let (of_user, user) = match user.as_deref().map(|user| (user, user.split_once('/'))) {
        None => (None, None),
        Some((_, Some((zone, name)))) => (Some(zone), Some(name)),
        Some((name, None)) => (zone.as_deref().or(Some(DEFAULT_ZONE)), Some(name)),
    };
    if let (Some(said), Some(other)) = (zone.as_deref(), of_user)
        && said != other
    {
        return Err(bad(format!(
            "the user is in the zone {other:?}, and the trace is for {said:?}; leave --zone out"
        ))
        .about("zone"));
    }
    let zone = of_user.or(zone.as_deref());
    Ok(Rule {
        client_id: client_id.clone(),
        user: user.map(str::to_owned),
        network,
        zone: zone.map(|zone| zones::number(context, zone)).transpose()?,
        topic: topic.clone(),
        payload_bytes: request.payload_bytes.min(PAYLOAD_BYTES_MAX),
    })
}

/// The traces that run, the oldest first.
pub(super) fn list(context: &ServerContext, Ls {}: Ls) -> List {
    let now = context.clock.now();
    let running = context.traces.running(now);
    let one = |trace: &Arc<Trace>| {
        let (left, packets, lines_left) = trace.progress(now);
        let rule = &trace.rule;
        Running {
            id: trace.id,
            by: trace.origin.by.clone(),
            begun_at_ms: trace.origin.at_ms,
            ends_in_secs: left.as_secs(),
            packets,
            lines_left,
            client_id: rule.client_id.clone(),
            user: rule.user.clone(),
            address: rule.network.map(|network| network.to_string()),
            topic: rule.topic.clone(),
            zone: rule.zone.map(|zone| context.zone_name(zone)),
            payload_bytes: rule.payload_bytes,
        }
    };
    List {
        traces: running.iter().map(one).collect(),
    }
}

/// The lines of a trace behind a cursor.
pub(super) fn read(context: &ServerContext, request: &Read) -> Result<Lines, Failure> {
    let trace = context.traces.find(request.id).ok_or_else(ended)?;
    let patience = wait(request.wait_ms);
    let read = trace.read(context.clock.now(), request.after, patience);
    if read.has_ended {
        tell_shards(context);
    }
    Ok(Lines {
        lines: read.lines,
        suppressed: read.suppressed,
        cursor: read.cursor,
        ended: read.has_ended,
    })
}

/// Ends a trace.
pub(super) fn stop(context: &ServerContext, request: &Stop) -> Result<Done, Failure> {
    let trace = context.traces.find(request.id).ok_or_else(ended)?;
    trace.end();
    tell_shards(context);
    Ok(Done {})
}

fn ended() -> Failure {
    let message = "the trace has ended: nobody has read it for half a minute, or its time is over; \
                   start another one";
    Failure::new("not-found", message).about("id")
}

/// Tells the shards which traces run.
fn tell_shards(context: &ServerContext) {
    let running = context.traces.running(context.clock.now());
    for shard in 0..context.shards.len() {
        context.post(shard, ShardCommand::Traces(running.clone()));
    }
}
