//! Something is asked of the server itself, which answers on `$reply/<id>`.

use std::time::{Duration, Instant};

use stentor_client::{
    Client, ClientError, PropertyBuf, Publication, QoS, ReasonCode, SubscribeOptions,
};
use stentor_zone::topic;

use crate::connect::Plan;
use crate::failure::{self, Failure};

/// Where the answer arrives: in `$reply/`, which is the connection's own.
const REPLY_ID: &str = "cli";

/// Publishes on `topic` with a reply id, and waits this many seconds for the answer: its payload.
pub(crate) fn ask(
    plan: &Plan,
    client: &mut Client,
    topic: &str,
    payload: &[u8],
    properties: PropertyBuf,
    timeout_secs: u64,
) -> Result<Vec<u8>, Failure> {
    let failed = |error: ClientError| Failure::client(&error, plan.version());
    let reply = topic::reply(REPLY_ID);
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        ..SubscribeOptions::default()
    };
    let answers = client
        .subscribe_with(&[(reply.as_str(), options)], &plan.properties.subscribe)
        .map_err(failed)?;
    if let Some(reason) = answers.iter().find(|reason| reason.is_error()) {
        let text = format!("the subscription to {reply} was refused: {}", reason.name());
        let failure = Failure::with_code(failure::code(*reason), text);
        let is_nobody = *reason == ReasonCode::NotAuthorized && !plan.has_name();
        return Err(match is_nobody {
            true => failure.with_note("only users call commands: log in with -u NAME"),
            false => failure,
        });
    }
    let message = Publication {
        topic: &format!("{topic}/{REPLY_ID}"),
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        properties,
    };
    client.publish_soon(&message).map_err(failed)?;
    let deadline = Instant::now() + Duration::from_secs(timeout_secs);
    loop {
        let patience = deadline.saturating_duration_since(Instant::now());
        let message = client.receive(Some(patience)).map_err(failed)?;
        let note = "there was no answer: is it a Stentor server?";
        let message = message.ok_or_else(|| Failure::timeout().with_note(note))?;
        if message.topic == reply {
            return Ok(message.payload);
        }
    }
}
