//! `traces/stream`: the packets of some clients. The trace ends with the stream.

use serde_json::{Value, json};
use stentor_control::Verb;

use super::body::{End, Outlet};
use super::watcher::Watcher;
use super::{Kind, Told, Wanted, event};
use crate::bounds::LOOK_AGAIN;

/// Begins a trace, and sends its lines until the client is gone, or may not have them any more.
pub(super) async fn follow(mut watcher: Watcher, mut outlet: Outlet, wanted: Wanted, told: Told) {
    // The client that began it may end it, even without the right.
    let beginner = watcher.caller().clone();
    let started = match watcher.look(Verb::TracesStart, wanted).await {
        Ok(started) => started,
        Err(problem) => return drop(told.send(Err(problem))),
    };
    let id = started["id"].clone();
    if told.send(Ok(())).is_ok()
        && let Err(end) = go_on(&mut watcher, &mut outlet, &started).await
    {
        outlet.close(&end);
    }
    let stop = Wanted::from_iter([("id".to_owned(), id)]);
    // One that has ended by itself cannot be ended.
    let stop = move || drop(beginner.ask(Verb::TracesStop, stop));
    let _ = watcher.context().slots.looks.run(stop).await;
}

async fn go_on(watcher: &mut Watcher, outlet: &mut Outlet, started: &Value) -> Result<(), End> {
    let mut request = Wanted::from_iter([("id".to_owned(), started["id"].clone())]);
    let mut text = event(Some("started"), None, started);
    loop {
        outlet.put(std::mem::take(&mut text)).await?;
        outlet.pause(LOOK_AGAIN).await?;
        watcher.renew(Kind::Trace.verbs()).await?;
        let answer = watcher.look(Verb::TracesRead, request.clone()).await?;
        let lines = answer["lines"].as_array().into_iter().flatten();
        lines.for_each(|line| text += &event(None, None, line));
        if answer["suppressed"].as_u64().unwrap_or(0) > 0 {
            let data = json!({
                "packets": answer["suppressed"],
                "detail": "packets have no line here: there were too many in a second, or they \
                           were read too late",
            });
            text += &event(Some("missed"), None, &data);
        }
        if answer["ended"] == json!(true) {
            outlet.put(text).await?;
            let detail = "the trace has ended: its time is over, or it has all its lines";
            return Err(End::Over("ended", detail.to_owned()));
        }
        request.insert("after".into(), answer["cursor"].clone());
    }
}
