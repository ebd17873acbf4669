//! Orders about zones.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{OrderError, Outcome, Who};
use crate::counted;
use crate::model::{DEFAULT_ZONE, ZoneRecord};
use crate::store::directory::Worker;

pub(super) async fn add(
    worker: &Worker,
    who: &Who,
    name: Arc<str>,
    connections: Option<u32>,
) -> Outcome {
    if connections == Some(0) {
        let message = format!(
            "zone {:?}: connections is 0, and a limit is at least 1; leave it out for no limit, or \
             disable the users one by one: stentor user disable",
            &*name
        );
        return Err(OrderError::bad(message));
    }
    let zone = ZoneRecord { name, connections };
    zone.check().map_err(OrderError::bad)?;
    worker.books.store.put_zone(&zone).await?;
    worker.note(
        who,
        "zone.add",
        &zone.name,
        json!({ "connections": connections }),
    );
    worker.read_zones().await?;
    Ok(json!(zone))
}

pub(super) async fn list(worker: &Worker) -> Outcome {
    let store = &worker.books.store;
    let mut zones = store.zones().await?;
    if !zones.iter().any(|zone| *zone.name == *DEFAULT_ZONE) {
        zones.insert(0, ZoneRecord::new(DEFAULT_ZONE));
    }
    let named = worker.named_zones();
    for name in named.iter() {
        if !zones.iter().any(|zone| zone.name == *name) {
            zones.push(ZoneRecord::new(Arc::clone(name)));
        }
    }
    let mut shown: Vec<Value> = Vec::with_capacity(zones.len());
    for zone in zones {
        let users = store.count(Some(&zone.name)).await?;
        shown.push(json!({
            "name": zone.name,
            "connections": zone.connections,
            "users": users,
            "configured": named.contains(&zone.name),
            "left_out": zone.check().err().map(|error| error.to_string()),
        }));
    }
    Ok(json!({ "zones": shown }))
}

pub(super) async fn remove(worker: &Worker, who: &Who, name: &str) -> Outcome {
    if name == DEFAULT_ZONE {
        return Err(OrderError::new(
            "refused",
            "the zone default is always there",
        ));
    }
    if worker.named_zones().iter().any(|named| **named == *name) {
        let message = format!(
            "the zone {name:?} is in the configuration; remove its [[zone]], and what names it \
             there, and reload"
        );
        return Err(OrderError::new("refused", message));
    }
    let store = &worker.books.store;
    let users = store.count(Some(name)).await?;
    if users > 0 {
        let message = format!(
            "the zone {name:?} has {}; delete them first: `stentor user list --zone {name}` shows \
             them",
            counted(users, "user")
        );
        return Err(OrderError::new("conflict", message));
    }
    if !store.delete_zone(name).await? {
        let message =
            format!("there is no zone {name:?}; `stentor zone list` shows those that there are");
        return Err(OrderError::new("not-found", message));
    }
    worker.note(who, "zone.remove", name, Value::Null);
    worker.read_zones().await?;
    Ok(json!({}))
}
