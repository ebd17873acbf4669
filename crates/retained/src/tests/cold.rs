//! Messages that the system has taken out of memory: looked at without touching them.

use stentor_hub::{Cursor, Retained, Scope, Walk};
use stentor_session::Tick;
use stentor_topic::Zone;

use super::support::{get, options, put};
use crate::{Store, Sync};
use stentor_disk::simulated::SimulatedDisk;

const ZONE: Zone = Zone(0);

fn is_fetching(store: &Store<SimulatedDisk>, filter: &str) -> bool {
    store.is_fetching(ZONE, filter, &Cursor::default(), 64)
}

#[test]
fn what_is_cold_is_brought_before_it_is_read() {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    for i in 0..500 {
        put(&store, &format!("t/{i}"), b"x").unwrap();
    }
    assert!(!is_fetching(&store, "#"));
    disk.evict();
    assert!(!is_fetching(&store, "#"), "nobody has noticed yet");
    (0..8).for_each(|random| store.sample(random));
    assert!(is_fetching(&store, "t/7"));
    assert!(!is_fetching(&store, "t/none"), "there is nothing to bring");
    assert!(!is_fetching(&store, "$SYS/a"), "that is in memory only");
    let lacks = |topic| store.lacks(ZONE, topic, store.mark());
    assert!(lacks("t/none") && lacks("$SYS/a"), "known without the disk");
    assert!(!lacks("t/7"), "though it is not in memory");
    store.read_now();
    assert!(!is_fetching(&store, "t/7"));
    assert_eq!(get(&store, "t/7").as_deref(), Some(&b"x"[..]));
    // A walk, as a snapshot does it: never a step over what is not there.
    let (mut cursor, mut found, mut fetched) = (Cursor::default(), Vec::new(), 0);
    let scope = Scope::until(store.mark(), Tick::from_secs(6));
    loop {
        if store.is_fetching(ZONE, "#", &cursor, 64) {
            fetched += 1;
            store.read_now();
            assert!(!store.is_fetching(ZONE, "#", &cursor, 64));
        }
        if store.walk(ZONE, "#", scope, &mut cursor, 64, &mut found) == Walk::Done {
            break;
        }
    }
    assert_eq!(found.len(), 500);
    assert!(fetched >= 500 / 64, "{fetched} steps were fetched");
    // Everything is there again: after a while nobody asks any more.
    (0..200).for_each(|random| store.sample(random));
    disk.evict();
    assert!(!is_fetching(&store, "#"));
}
