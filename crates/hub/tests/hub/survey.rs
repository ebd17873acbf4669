//! What people look at is looked at in steps, each of which is short.

use std::collections::BTreeMap;

use stentor_hub::survey::{
    each_client_from, filters_from, granted_from, holders_from, losses_of, session_of,
    zone_figures_from,
};
use stentor_hub::{Hub, Part};
use stentor_mqtt::{QoS, Version};
use stentor_topic::Zone;

use crate::world::{ConnectOptions, World, clean};

/// Places that a step looks at.
const STEP: usize = 256;

/// All parts, one after the other; `between` is called after each of them.
fn parts<T>(
    w: &mut World,
    look: impl Fn(&Hub, u64) -> Part<Vec<T>>,
    mut between: impl FnMut(&mut World),
) -> Vec<T> {
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let part = look(&w.hubs[0], place);
        assert!(part.found.len() <= STEP, "{}", part.found.len());
        all.extend(part.found);
        from = part.next;
        between(w);
    }
    all
}

fn connect(w: &mut World, names: impl Iterator<Item = usize>) -> Vec<usize> {
    names
        .map(|n| w.connect(Version::V5, &format!("c{n}"), &clean()))
        .collect()
}

#[test]
fn each_session_that_stays_is_seen_once() {
    let mut w = World::new(1);
    let clients = connect(&mut w, 0..1_000);
    // Those with even numbers go one after the other, and others come in their places.
    let mut going = (0..1_000).step_by(2);
    let mut coming = 1_000..;
    let look = |hub: &Hub, from| {
        let mut found = Vec::new();
        let next = each_client_from(hub, from, |seen| found.push(seen.info.client_id.to_owned()));
        Part { found, next }
    };
    let seen = parts(&mut w, look, |w| {
        for gone in going.by_ref().take(100) {
            w.drop_link(clients[gone]);
        }
        connect(w, coming.by_ref().take(100));
    });
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for client_id in &seen {
        *times.entry(client_id).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1));
    for n in (1..1_000).step_by(2) {
        assert!(times.contains_key(&*format!("c{n}")), "c{n}");
    }
}

/// What a walk shows of a session is what is shown of that session alone.
#[test]
fn a_walk_shows_each_session_as_it_is_alone() {
    let mut w = World::new(1);
    let clients = connect(&mut w, 0..600);
    w.drop_link(clients[7]);
    let mut from = Some(0);
    while let Some(place) = from {
        let mut shown = 0;
        from = each_client_from(&w.hubs[0], place, |seen| {
            let key = session_of(&w.hubs[0], seen.info.zone, seen.info.client_id);
            assert_eq!(key, Some(seen.key));
            assert_eq!(seen.link.is_some(), seen.info.connection.is_some());
            assert_eq!(losses_of(&w.hubs[0], seen.key), []);
            let alone = w.hubs[0]
                .inspect()
                .client(seen.info.zone, seen.info.client_id);
            let alone = alone.expect("the session");
            assert_eq!(
                format!("{:?}", seen.info),
                format!("{:?}", alone.borrowed())
            );
            shown += 1;
        });
        assert!(shown <= STEP, "{shown}");
    }
}

#[test]
fn parts_of_figures_add_up() {
    let mut w = World::new(1);
    for client in connect(&mut w, 0..600) {
        w.subscribe(client, "a/#", QoS::AtMostOnce);
    }
    let look = |hub: &Hub, from| zone_figures_from(hub, from);
    let zones = parts(&mut w, look, |_| {});
    assert!(zones.iter().all(|(zone, _)| *zone == Zone::DEFAULT));
    let sum = |count: fn(&stentor_hub::ZoneFigures) -> u64| -> u64 {
        zones.iter().map(|(_, figures)| count(figures)).sum()
    };
    assert_eq!(sum(|zone| zone.sessions), 600);
    assert_eq!(sum(|zone| zone.connections), 600);
    assert_eq!(sum(|zone| zone.subscriptions), 600);
}

#[test]
fn filters_are_seen_with_their_subscribers() {
    let mut w = World::new(1);
    let clients = connect(&mut w, 0..3);
    for (n, &client) in clients.iter().enumerate() {
        let filters: Vec<String> = (0..700).map(|filter| format!("f/{n}/{filter}")).collect();
        w.subscribe_all(client, &filters);
        w.subscribe(client, "all", QoS::AtMostOnce);
        w.subscribe(client, "$share/g/s", QoS::AtMostOnce);
    }
    w.settle();
    let look = |hub: &Hub, from| {
        let owned =
            |(zone, filter, count): stentor_hub::Subscribed<'_>| (zone, filter.into_owned(), count);
        filters_from(hub, from).map(|found| found.into_iter().map(owned).collect())
    };
    let found = parts(&mut w, look, |_| {});
    assert_eq!(found.len(), 3 * 700 + 2);
    let count = |name: &str| {
        let one = found.iter().find(|(_, filter, _)| filter == name);
        one.map(|(.., count)| *count)
    };
    assert_eq!(count("all"), Some(3));
    assert_eq!(count("$share/g/s"), Some(3));
    assert_eq!(count("f/2/699"), Some(1));
}

#[test]
fn each_part_has_those_of_its_sessions_that_hold_most() {
    let mut w = World::new(1);
    connect(&mut w, 0..300);
    let look = |hub: &Hub, from| holders_from(hub, from, 2);
    let found = parts(&mut w, look, |_| {});
    assert_eq!(found.len(), 4);
    assert!(found[0].bytes >= found[1].bytes && found[2].bytes >= found[3].bytes);
}

/// Clients choose their names, and whoever shows them copies them.
#[test]
fn a_step_shows_fewer_clients_and_filters_with_long_names() {
    let mut w = World::new(1);
    let long = |n: usize| format!("{n:0>9000}");
    for n in 0..20 {
        let client = w.connect(Version::V5, &long(n), &clean());
        w.subscribe(client, &long(n), QoS::AtMostOnce);
    }
    let (mut from, mut shown) = (Some(0), 0);
    while let Some(place) = from {
        let before = shown;
        from = each_client_from(&w.hubs[0], place, |_| shown += 1);
        assert!(shown - before <= 4, "{}", shown - before);
    }
    assert_eq!(shown, 20);
    let look = |hub: &Hub, from| {
        let part = filters_from(hub, from);
        assert!(part.found.len() <= 4, "{}", part.found.len());
        part.map(|found| found.into_iter().map(|(.., count)| count).collect())
    };
    assert_eq!(parts(&mut w, look, |_| {}).len(), 20);
}

#[test]
fn subscriptions_of_a_session_are_seen_in_steps() {
    let mut w = World::new(1);
    let client = connect(&mut w, 0..1)[0];
    let filters: Vec<String> = (0..700).map(|n| format!("f/{n}")).collect();
    w.subscribe_all(client, &filters);
    w.subscribe(client, &"x".repeat(40_000), QoS::AtMostOnce);
    w.subscribe(client, "last", QoS::AtMostOnce);
    let key = w.clients[client].key.unwrap();
    let (mut all, mut next, mut steps) = (Vec::new(), Some(0), Vec::new());
    while let Some(from) = next {
        let (some, more) = granted_from(&w.hubs[0], key, from);
        steps.push(some.len());
        all.extend(some);
        next = more;
    }
    assert_eq!(all, w.hubs[0].inspect().granted(key));
    assert_eq!(steps, [128, 128, 128, 128, 128, 61, 1]);
}

/// No step of the end of a zone takes long, whatever there is of it.
#[test]
fn a_zone_ends_in_steps() {
    let mut w = World::new(1);
    for n in 0..100 {
        let (id, user) = (format!("c{n}"), format!("u{n}"));
        let options = ConnectOptions {
            user: Some(&user),
            ..ConnectOptions::persistent()
        };
        let client = w.connect(Version::V5, &id, &options);
        w.subscribe(client, &format!("$room/r{n}/#"), QoS::AtMostOnce);
    }
    let look = |hub: &Hub, from| zone_figures_from(hub, from);
    let counted = |w: &mut World| {
        let zones = parts(w, look, |_| {});
        assert!(zones.iter().all(|(zone, _)| *zone == Zone::DEFAULT));
        let all = zones
            .iter()
            .map(|(_, it)| [it.sessions, it.rooms, it.members, it.users, it.traffic.sent]);
        all.fold([0; 5], |sum, more| {
            std::array::from_fn(|n| sum[n] + more[n])
        })
    };
    let before = counted(&mut w);
    // The lobby is a room, too.
    assert_eq!(before[..4], [100, 101, 100, 100]);
    assert!(before[4] > 0);
    let (mut ended, mut next, mut steps) = (0, Some(0), 0);
    while let Some(from) = next {
        let now = w.now;
        let part = w.hubs[0].operate().end_zone(now, Zone::DEFAULT, from);
        assert!(part.found <= 16, "{}", part.found);
        (ended, next, steps) = (ended + part.found, part.next, steps + 1);
        w.settle();
    }
    assert_eq!(ended, 100);
    assert!(steps >= 7, "{steps}");
    assert_eq!(counted(&mut w)[..4], [0; 4]);
    w.check_accounts();
}
