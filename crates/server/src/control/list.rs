//! The verb `clients.ls`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stentor_control::clients::{Client, List, Ls};
use stentor_control::{Request as _, page};

use super::clients::{describe, silent};
use super::protocol::{Failure, Names, fitting, network};
use super::zones;
use crate::context::ServerContext;
use crate::shard::{Inquiry, Survey};
use crate::survey::{
    Age, Census, Counted, Cursor, Place, Rows, SESSIONS_MAX, Selection, Surveys, TooMany,
    away_secs, sessions,
};
use crate::telemetry::collect::ask_one;

/// How long sessions are looked for where there are too many to keep their rows. A caller that
/// wants more asks again.
const LOOK_TIME: Duration = Duration::from_secs(5);

/// Some sessions, in the order that was asked for.
pub(super) fn list(context: &ServerContext, request: &Ls) -> Result<List, Failure> {
    let some = Selection {
        zone: zones::named(context, request.zone.as_ref())?,
        containing: request.containing.clone(),
        user: request.user.clone(),
        network: network(request.address.as_deref())?,
        presence: request.state,
        lasting: request.lasting,
        away_secs: request.away_secs,
        by: request.by,
        reverse: request.reverse,
    };
    let (from, to) = page(Ls::VERB, request.limit, request.offset)?;
    if let Some(text) = request.cursor.as_deref() {
        return further(context, &some, text, request);
    }
    let kept = context.surveys.clients(context, Age::of(request.fresh));
    match &*kept.found {
        Ok(census) => Ok(in_order(context, &kept.found, census, &some, from..to)),
        Err(_) if from > 0 => {
            let message = format!(
                "offset is {from}, and there are too many sessions for pages by number; leave it \
                 out, and give the `cursor` of each answer to the next request (`--cursor`)"
            );
            Err(Failure::new("bad-request", message).about("offset"))
        }
        Err(too_many) => {
            let mut list = in_places(context, &some, to, 0, 0)?;
            list.unsorted = Some(excuse(*too_many));
            Ok(list)
        }
    }
}

/// The page at a cursor.
fn further(
    context: &ServerContext,
    some: &Selection,
    text: &str,
    request: &Ls,
) -> Result<List, Failure> {
    let refused = |message: String| Failure::new("bad-request", message).about("cursor");
    let Ok(cursor) = text.parse::<Cursor>() else {
        let message = format!("{text:?} is not a cursor; give the `cursor` of the answer before");
        return Err(refused(message));
    };
    if !cursor.is_of(some) {
        let message = format!(
            "the cursor {text:?} is one of another list; repeat the filters and the order of its \
             request, or leave the cursor out"
        );
        return Err(refused(message));
    }
    if request.offset > 0 {
        let message = format!(
            "offset is {}, beside a cursor, which says where the page begins; leave one of them \
             out",
            request.offset
        );
        return Err(refused(message));
    }
    let limit = page(Ls::VERB, request.limit, 0)?.1;
    match cursor.place {
        Place::Survey { number, passed } => {
            let found = context.surveys.numbered(number);
            let kept = found
                .as_ref()
                .and_then(|kept| kept.as_ref().as_ref().ok().zip(Some(kept)));
            let Some((census, counted)) = kept else {
                return Err(expired(text));
            };
            let page = passed..passed.saturating_add(limit);
            Ok(in_order(context, counted, census, some, page))
        }
        Place::Shard { shard, slot } => {
            let mut list = in_places(context, some, limit, shard, slot)?;
            let too_many = match list.total > SESSIONS_MAX {
                true => TooMany::Sessions,
                false => TooMany::Bytes(Surveys::bytes_max(context)),
            };
            list.unsorted = Some(excuse(too_many));
            Ok(list)
        }
    }
}

fn expired(cursor: &str) -> Failure {
    let message = format!(
        "the list of the cursor {cursor:?} is not kept any more: a list is kept for 60 seconds \
         after its last page, and four older ones at most; ask again without the cursor"
    );
    Failure::new("expired", message).about("cursor")
}

/// Why a page is in no order.
fn excuse(too_many: TooMany) -> String {
    let why = match too_many {
        TooMany::Sessions => format!("the server has more than {SESSIONS_MAX} sessions"),
        TooMany::Bytes(max) => {
            let mib = max >> 20;
            format!("a list of all sessions would take more than {mib} MiB of memory")
        }
    };
    format!("{why}: the page is in no order, and the total counts all sessions")
}

/// A page of a survey.
fn in_order(
    context: &ServerContext,
    counted: &Arc<Counted>,
    census: &Census,
    some: &Selection,
    page: Range<usize>,
) -> List {
    let name = |zone| context.zone_name(zone);
    let from = page.start;
    let (mut places, total) = census.places(some, page, name);
    let name_bytes = |place: &u32| census.rows.seen(*place as usize).info.client_id.len();
    places.truncate(fitting(places.iter().map(name_bytes)));
    let describe = |place: &u32| {
        let seen = census.rows.seen(*place as usize);
        let away = away_secs(&seen.info, census.rows.now_ms);
        describe(context, &seen, away, census.at)
    };
    let clients: Vec<Client> = places.iter().map(describe).collect();
    let passed = from.saturating_add(clients.len());
    let cursor = (!clients.is_empty() && passed < total).then(|| {
        context.surveys.page_in(counted);
        let number = census.number;
        Cursor::new(some, Place::Survey { number, passed }).to_string()
    });
    List {
        truncated: passed < total || !census.is_complete,
        clients,
        total,
        cursor,
        age_ms: context.clock.now().since(census.began).as_millis() as u64,
        unsorted: None,
    }
}

/// A page of sessions as they lie on the shards, from a place on: nothing is kept. A session stays
/// in its place, so one that is there all the time comes once.
fn in_places(
    context: &ServerContext,
    some: &Selection,
    limit: usize,
    mut shard: usize,
    mut slot: u64,
) -> Result<List, Failure> {
    let (mut clients, end) = (Vec::new(), Instant::now() + LOOK_TIME);
    let mut names = Names::default();
    let mut rows = Box::new(Rows::with_room());
    let next = 'all: loop {
        if shard >= context.shards.len() {
            break None;
        }
        if clients.len() >= limit.max(1) || Instant::now() >= end {
            break Some((shard, slot));
        }
        let question = |answer| Inquiry::Survey(slot, Survey::Clients { rows, answer });
        let part = ask_one(context, shard, question).ok_or_else(silent)?;
        let now = context.clock.now();
        let all = (0..part.found.len()).map(|place| part.found.seen(place));
        for seen in all.filter(|seen| some.has(seen, part.found.now_ms)) {
            if clients.len() >= limit.max(1) || !names.take(seen.info.client_id.len()) {
                break 'all Some((shard, seen.slot.into()));
            }
            let away = away_secs(&seen.info, part.found.now_ms);
            clients.push(describe(context, &seen, away, now));
        }
        (shard, slot) = part.next.map_or((shard + 1, 0), |next| (shard, next));
        rows = part.found;
        rows.clear();
    };
    let place = next.map(|(shard, slot)| Place::Shard { shard, slot });
    Ok(List {
        clients,
        total: sessions(context),
        truncated: place.is_some(),
        cursor: place.map(|place| Cursor::new(some, place).to_string()),
        age_ms: 0,
        unsorted: None,
    })
}
