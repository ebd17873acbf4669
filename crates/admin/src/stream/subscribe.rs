//! `subscribe`: messages, for programs without an MQTT client.
//!
//! Behind each stream stands an ordinary MQTT session of the user. It is read only when the client
//! has taken what came before, so a slow client is to the server what any slow subscriber is: its
//! messages wait in the queue of the session, and the oldest or newest are lost when that is full.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use stentor_mqtt::{QoS, ReasonCode};
use tokio::time::{Instant, sleep, timeout};

use super::body::{End, MEMORY, Outlet};
use super::feed::{Feed, Heard, Said};
use super::held::StreamHeld;
use super::message::Writer;
use super::watcher::Watcher;
use super::{Told, admit, event, follow};
use crate::api::query;
use crate::bounds::{FILTERS_MAX, LOSS_LOOK, SESSION_TIME};
use crate::identity::told;
use crate::pages::ListenerContext;
use crate::problem::{Problem, busy, problem};

/// What is subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    filters: Vec<String>,
    qos: QoS,
}

/// Opens a stream of messages.
pub(super) async fn open(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let watcher = admit(&context, &parts).await?;
    let wish = Wish::read(parts.uri.query().unwrap_or_default())?;
    follow(&context, watcher, move |watcher, outlet, told| {
        run(watcher, outlet, wish, told)
    })
    .await
}

impl Wish {
    fn read(text: &str) -> Result<Self, Problem> {
        let wrong = |key: &str, detail: String| {
            problem("bad-request", detail).with("field", Some(key.to_owned()))
        };
        let pairs = query::read(text).map_err(|error| problem("bad-request", error.to_string()))?;
        let mut wish = Self {
            filters: Vec::new(),
            qos: QoS::AtMostOnce,
        };
        for (key, value) in pairs {
            match (&*key, &*value) {
                ("topic", _) => wish.filters.push(value),
                ("qos", "0") => wish.qos = QoS::AtMostOnce,
                ("qos", "1") => wish.qos = QoS::AtLeastOnce,
                ("qos", _) => return Err(wrong("qos", "qos is 0 or 1 here".to_owned())),
                _ => {
                    let shown: String = key.chars().take(40).collect();
                    let detail = format!("subscribe takes topic and qos, and no {shown:?}");
                    return Err(wrong(&shown, detail));
                }
            }
        }
        if !(1..=FILTERS_MAX).contains(&wish.filters.len()) {
            let detail = format!("name 1 to {FILTERS_MAX} topic filters: ?topic=FILTER&topic=…");
            return Err(wrong("topic", detail));
        }
        Ok(wish)
    }
}

async fn run(watcher: Watcher, mut outlet: Outlet, wish: Wish, told: Told) {
    let begun = timeout(SESSION_TIME, begin(&watcher, &wish, outlet.held())).await;
    let (mut feed, client_id, granted) = match begun.unwrap_or_else(|_| Err(busy())) {
        Ok(begun) => begun,
        Err(problem) => return drop(told.send(Err(problem))),
    };
    if told.send(Ok(())).is_err() {
        return;
    }
    let filters = wish.filters.iter().zip(&granted);
    let filters = filters.map(|(filter, qos)| json!({ "topic": filter, "qos": qos }));
    let data = json!({ "client_id": client_id, "filters": filters.collect::<Vec<_>>() });
    let first = event(Some("subscribed"), None, &data);
    let end = go_on(&watcher, &mut outlet, &mut feed, &client_id, first).await;
    if let Err(end) = end {
        outlet.close(&end);
        if matches!(end, End::Over(MEMORY, _)) {
            let caller = Arc::clone(watcher.caller());
            let slot = &watcher.context().slots.looks;
            let _ = slot.run(move || caller.cut(&client_id)).await;
        }
    }
    feed.leave();
}

/// Opens the session, and subscribes: the session, its client id, and the QoS of each filter.
async fn begin(
    watcher: &Watcher,
    wish: &Wish,
    held: &StreamHeld,
) -> Result<(Feed, String, Vec<u8>), Problem> {
    let caller = Arc::clone(watcher.caller());
    let slot = &watcher.context().slots.looks;
    let opened = slot.run(move || caller.session()).await.ok_or_else(busy)?;
    let stream = opened.map_err(|failure| problem(failure.code, failure.message))?;
    let mut feed = Feed::new(stream, held).map_err(|_| busy())?;
    let begun = hear(&mut feed, |heard| match heard {
        Heard::Begun(begun) => Some(begun.map_err(|said| refused(&said))),
        _ => Some(Err(busy())),
    });
    let client_id = begun.await??;
    feed.subscribe(&wish.filters, wish.qos)
        .await
        .map_err(|_| busy())?;
    let answers = hear(&mut feed, |heard| match heard {
        Heard::Subscribed(answers) => Some(Ok(answers)),
        Heard::Ended(said) => Some(Err(not_subscribed(&said))),
        Heard::Begun(_) | Heard::Message(_) => None,
    });
    let answers = answers.await??;
    let answers = wish.filters.iter().zip(answers);
    let granted =
        answers.map(|(filter, answer)| answer.map_err(|said| not_granted(watcher, filter, &said)));
    let granted = granted.collect::<Result<_, _>>()?;
    Ok((feed, client_id, granted))
}

/// Waits for something that the session hears.
async fn hear<T>(feed: &mut Feed, wanted: impl Fn(Heard<'_>) -> Option<T>) -> Result<T, Problem> {
    loop {
        while let Some(heard) = feed.next().map_err(|_| busy())? {
            if let Some(found) = wanted(heard) {
                return Ok(found);
            }
        }
        feed.fill().await.map_err(|_| busy())?;
    }
}

/// The answer to somebody whose session does not begin.
fn refused(said: &Said) -> Problem {
    let code = match said.reason {
        ReasonCode::QuotaExceeded | ReasonCode::ConnectionRateExceeded => "too-many",
        ReasonCode::Banned => "banned",
        ReasonCode::NotAuthorized | ReasonCode::BadUserNameOrPassword => "denied",
        _ => "busy",
    };
    problem(code, format!("the server opens no session: {}", said.text))
}

/// The answer to somebody whose session ends before it has subscribed.
fn not_subscribed(said: &Said) -> Problem {
    match said.reason {
        ReasonCode::MalformedPacket | ReasonCode::ProtocolError => {
            let detail = "a topic filter has no characters, or one that no topic has";
            problem("bad-request", detail).with("field", Some("topic".to_owned()))
        }
        _ => refused(said),
    }
}

/// The answer to somebody who may not have a filter.
fn not_granted(watcher: &Watcher, filter: &str, said: &Said) -> Problem {
    let shown: String = filter.chars().take(200).collect();
    let detail = format!("the topic filter {shown:?} is refused: {}", said.text);
    match said.reason {
        ReasonCode::NotAuthorized => match watcher.caller().may_subscribe(filter) {
            // The session has told the operator.
            Err(denied) => told(denied, "", None).unnoted(),
            Ok(()) => problem("denied", detail),
        },
        ReasonCode::QuotaExceeded => problem("too-many", detail),
        _ => problem("bad-request", detail).with("field", Some("topic".to_owned())),
    }
}

async fn go_on(
    watcher: &Watcher,
    outlet: &mut Outlet,
    feed: &mut Feed,
    client_id: &str,
    first: String,
) -> Result<(), End> {
    let mut losses = Losses::default();
    let mut text = first;
    loop {
        let (is_news, ended) = pass_on(feed, outlet, text).await?;
        if let Some(said) = ended {
            return Err(end(&said));
        }
        feed.flush().await.map_err(|error| gone(&error))?;
        losses.may_have_grown |= is_news;
        text = losses.look(watcher, client_id).await;
        if !is_news && text.is_empty() {
            tokio::select! {
                filled = feed.fill() => filled.map_err(|error| gone(&error))?,
                end = outlet.has_ended() => return Err(end),
                () = sleep(LOSS_LOOK) => {}
            }
        }
    }
}

/// Writes a text and then what has come; whether there was anything, and why the session has ended,
/// if it has.
async fn pass_on(
    feed: &mut Feed,
    outlet: &mut Outlet,
    text: String,
) -> Result<(bool, Option<Said>), End> {
    let broken = |_| {
        End::Over(
            "closed",
            "the session inside the server is broken".to_owned(),
        )
    };
    let mut writer = Writer::new(outlet, text);
    let ended = loop {
        match feed.next().map_err(broken)? {
            None => break None,
            Some(Heard::Message(publish)) => writer.message(&publish).await?,
            Some(Heard::Ended(said)) => break Some(said),
            Some(Heard::Begun(_) | Heard::Subscribed(_)) => {}
        }
    };
    feed.give_back();
    Ok((writer.finish().await?, ended))
}

/// Why the server has ended the session.
fn end(said: &Said) -> End {
    match said.reason {
        ReasonCode::ServerShuttingDown => End::Stop,
        _ => End::Over(
            "closed",
            format!("the server has ended the session: {}", said.text),
        ),
    }
}

fn gone(error: &io::Error) -> End {
    End::Over(
        "closed",
        format!("the server has ended the session: {error}"),
    )
}

/// Messages that the session has lost, because the client reads too slowly.
#[derive(Debug, Default)]
struct Losses {
    told: u64,
    looked_at: Option<Instant>,
    /// Messages have come since the last look.
    may_have_grown: bool,
}

impl Losses {
    /// Looks now and then; an event if there are new ones.
    async fn look(&mut self, watcher: &Watcher, client_id: &str) -> String {
        let is_early = |at: Instant| at.elapsed() < LOSS_LOOK;
        if !self.may_have_grown || self.looked_at.is_some_and(is_early) {
            return String::new();
        }
        self.looked_at = Some(Instant::now());
        let (caller, client_id) = (Arc::clone(watcher.caller()), client_id.to_owned());
        let looked = watcher
            .context()
            .slots
            .looks
            .run(move || caller.lost(&client_id));
        // Without an answer, it is asked again.
        let Some(lost) = looked.await.flatten() else {
            return String::new();
        };
        self.may_have_grown = false;
        let new = lost.saturating_sub(self.told);
        self.told = lost;
        match new {
            0 => String::new(),
            _ => event(
                Some("missed"),
                None,
                &json!({
                    "messages": new,
                    "detail": "messages were left out lately: the client reads too slowly",
                }),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_filters_and_a_qos() {
        let read = |text: &str| Wish::read(text);
        let wish = read("topic=a/%2B&topic=%23&qos=1").expect("it is one");
        assert_eq!(wish.filters, ["a/+", "#"]);
        assert_eq!(wish.qos, QoS::AtLeastOnce);
        let many = "topic=a&".repeat(FILTERS_MAX);
        assert!(read(&many).is_ok());
        for wrong in ["", "qos=1", "topic=a&qos=2", "topic=a&fly=1", "topic=%"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&(many + "topic=a")).is_err());
    }
}
