//! A publish that is begun where it is read.

use std::sync::Arc;

use axum::response::Response;
use hyper::StatusCode;
use stentor_control::Failure;
use stentor_control::publish::{Plain, Published};
use tokio::time::timeout;

use crate::backend::Caller;
use crate::bounds::{SOON_BYTES_MAX, SOON_TIME};
use crate::identity::failed;
use crate::pages::ListenerContext;
use crate::problem::{JSON, Problem, answer, busy};
use crate::soon::{Outcome, Taken};

/// Publishes a message without a thread that waits for it; `None` if it takes one, or if something
/// is wrong: then nothing was done.
pub(super) async fn soon(
    context: &ListenerContext,
    caller: &Arc<dyn Caller>,
    body: &[u8],
) -> Option<Result<Response, Problem>> {
    if body.len() > SOON_BYTES_MAX {
        return None;
    }
    let message: Plain<'_> = serde_json::from_slice(body).ok()?;
    let (reply, answered) = context.soon.begin()?;
    caller.publish(&message, reply).ok()?;
    context.soon.has_begun();
    let outcome = match timeout(SOON_TIME, answered).await {
        Ok(Ok(outcome)) => outcome,
        // The other end is gone, or does not come to it.
        Ok(Err(_)) | Err(_) => Err(silence()),
    };
    let kept = kept(context, outcome).await;
    let topic = message.topic.into_owned();
    Some(kept.map(|kept| {
        written(&Published {
            topic,
            kept,
            ..Published::default()
        })
    }))
}

/// Whether the topic keeps the message: that may have to be waited for.
async fn kept(context: &ListenerContext, outcome: Outcome) -> Result<bool, Problem> {
    match outcome.map_err(failed)? {
        Taken::Passed => Ok(false),
        Taken::Kept => Ok(true),
        Taken::Waits(wait) => {
            let waited = context.slots.verbs.finish(wait).await.ok_or_else(busy)?;
            waited.map(|()| true).map_err(failed)
        }
    }
}

fn written(published: &Published) -> Response {
    let mut text = serde_json::to_string(published).unwrap_or_default();
    text.push('\n');
    answer(StatusCode::OK, JSON, text)
}

fn silence() -> Failure {
    let text = "the server did not answer within 10 seconds, and the message may have been \
                published or not; see the server's log";
    Failure::new("unavailable", text)
}
