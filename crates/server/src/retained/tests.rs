//! What the verbs answer, of a store in a folder of its own.

use std::cell::Cell;

use serde_json::{Value, json};
use stentor_disk::MappedDisk;
use stentor_hub::NotKept;
use stentor_retained::{Quota, Store, StoreOptions, Sync};
use stentor_session::Tick;
use stentor_topic::Zone;

use super::{Entry, RetainedAdmin, TopicBounds, ZoneNames, clear_zone};
use crate::config::{Config, Sources};

/// The default zone alone.
struct NoZones;

impl ZoneNames for NoZones {
    fn name(&self, zone: Zone) -> String {
        zone.get().to_string()
    }

    fn exists(&self, _: &str) -> bool {
        false
    }

    fn known(&self, _: &str) -> Option<Zone> {
        None
    }

    fn number(&self, name: &str) -> Result<Zone, String> {
        Err(format!("{name} gets no number"))
    }
}

/// The bounds of a configuration that says nothing of them.
fn usual_bounds() -> TopicBounds {
    let url = ("listener.url".to_owned(), "mqtt://127.0.0.1:0".to_owned());
    let config = Config::load(&Sources {
        file: None,
        environment: Vec::new(),
        flags: vec![url],
        read_file: Box::new(|_| Err(std::io::ErrorKind::NotFound.into())),
    });
    TopicBounds::new(&config.unwrap().limits)
}

/// Answers from a store of so many topics `t/0`, `t/1` and so on, on a disk that has no room for
/// one in three changes to them.
fn with_topics(
    count: usize,
    check: impl FnOnce(&RetainedAdmin<'_>, &dyn Fn(&Value) -> Result<Value, String>),
) {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        sync: Sync::Never,
        total: Quota::UNLIMITED,
        zone: Quota::UNLIMITED,
        started_at: std::time::SystemTime::UNIX_EPOCH,
        now: Tick::from_secs(1),
        random: 7,
        boot: 1,
    };
    let store = Store::open(MappedDisk::new(folder.path()).unwrap(), &options).unwrap();
    let changes = Cell::new(0);
    let keep = |(message, received_ms): Entry| {
        let is_clear = message.payload().is_empty();
        changes.set(changes.get() + u32::from(is_clear));
        if is_clear && changes.get() % 3 == 1 {
            return Err(NotKept::DiskFull);
        }
        store.restore(&message, received_ms, None).map(drop)
    };
    let admin = RetainedAdmin {
        store: &store,
        now: Tick::from_secs(2),
        zones: &NoZones,
        bounds: &usual_bounds(),
        keep: &|entries| entries.into_iter().map(keep).collect(),
        commit: &|| true,
    };
    let ask = |request: &Value| {
        let answer = admin.answer(request.to_string().as_bytes());
        answer.map_err(|refusal| refusal.message)
    };
    let message = |number| json!({ "topic": format!("t/{number}"), "payload": "x" });
    let messages: Vec<Value> = (0..count).map(message).collect();
    let answer = ask(&json!({ "verb": "retained.put", "messages": messages })).unwrap();
    assert_eq!(answer["new"], count);
    check(&admin, &ask);
}

/// On a full disk, most topics can be cleared; which, nobody knows before.
#[test]
fn a_topic_that_cannot_be_cleared_does_not_stop_the_others() {
    with_topics(3_000, |_, ask| {
        let mut request = json!({ "verb": "retained.clear", "filter": "t/#" });
        let (mut cleared, mut refused, mut pages) = (0, Vec::new(), 0);
        loop {
            let mut page = ask(&request).unwrap();
            cleared += page["cleared"].as_u64().unwrap();
            refused.append(page["refused"].as_array_mut().unwrap());
            pages += 1;
            request["cursor"] = page["cursor"].take();
            if request["cursor"].is_null() {
                break;
            }
        }
        assert!(pages > 1, "it is about several pages");
        assert_eq!((cleared, refused.len()), (2_000, 1_000));
        let reason = refused[0]["reason"].as_str().unwrap();
        assert!(reason.contains("messages is full"), "{reason}");
        let left = ask(&json!({ "verb": "retained.status" })).unwrap();
        assert_eq!(left["messages"], 1_000);
        for refused in refused {
            let page = json!({ "verb": "retained.page", "filter": refused["topic"] });
            let page = ask(&page).unwrap();
            assert_eq!(page["messages"][0]["topic"], refused["topic"]);
        }
    });
}

#[test]
fn places_that_no_list_has_are_behind_its_end() {
    with_topics(1, |_, ask| {
        for from in [0, 1_000, u64::MAX - 999, u64::MAX] {
            let ask = ask(&json!({ "verb": "retained.verify", "stripe": u16::MAX, "from": from }));
            let told = ask.unwrap();
            assert_eq!(
                (&told["reports"], &told["more"]),
                (&json!([]), &Value::Null)
            );
        }
        let cursor = json!({ "stripe": u16::MAX, "after": null });
        let page = json!({ "verb": "retained.page", "filter": "#", "cursor": cursor });
        assert_eq!(ask(&page).unwrap()["messages"], json!([]));
    });
}

#[test]
fn a_zone_is_cleared_as_far_as_it_can_be() {
    with_topics(3_000, |admin, ask| {
        let cleared = clear_zone(admin, Zone::DEFAULT).unwrap();
        let reason = cleared.all().unwrap_err();
        assert!(reason.contains("messages is full"), "{reason}");
        assert!(
            reason.ends_with("1000 of its 3000 topics are left"),
            "{reason}"
        );
        let left = ask(&json!({ "verb": "retained.status" })).unwrap();
        assert_eq!(left["messages"], 1_000);
    });
}
