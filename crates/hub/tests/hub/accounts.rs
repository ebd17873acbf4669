//! What the ledger says that sessions hold is what they hold, whatever they do.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

use std::sync::Arc;

use crate::world::{ConnectOptions, Random, World, clean, qos, request, run_seeds};
use stentor_hub::survey::holders_from;
use stentor_hub::{
    ControlItem, Event, Holding, LossCause, NotKept, Pressure, Settings, SlowPolicy, Tenant,
    TenantKind, Tenants, TopicPolicy,
};
use stentor_mqtt::{PacketId, QoS, Version};
use stentor_session::{CloseReason, Limit};

const CLIENTS: usize = 12;

fn held(w: &World) -> (u64, u64) {
    (w.ledger.of(Holding::Sessions), w.ledger.of(Holding::Queues))
}

fn some_qos(random: &mut Random) -> QoS {
    [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][random.below(3)]
}

/// An UNSUBSCRIBE of MQTT 5.
fn unsubscribe(filter: &str) -> Vec<u8> {
    let length = u8::try_from(filter.len()).unwrap();
    let mut packet = vec![0xA2, length + 5, 0, 9, 0, 0, length];
    packet.extend(filter.as_bytes());
    packet
}

/// One thing that a client does, or that is done to it.
fn step(w: &mut World, random: &mut Random, clients: &mut [Option<usize>; CLIENTS]) {
    let who = random.below(CLIENTS);
    let Some(client) = clients[who] else {
        let options = ConnectOptions {
            clean_start: random.chance(30),
            expiry_secs: [0, 5, 50][random.below(3)],
            receive_maximum: [1, 4, 65_535][random.below(3)],
            alias_maximum: [0, 10][random.below(2)],
            will: random.chance(30).then_some(("t/will", "gone", 2)),
            ..clean()
        };
        clients[who] = Some(w.connect_only(Version::V5, &format!("c{who}"), &options));
        return;
    };
    if w.clients[client].link.is_none() {
        // A policy has closed it.
        clients[who] = None;
        return;
    }
    let filters = ["t/#", "t/+", "t/1", "$share/g/t/+", "t/+/deep/+/er"];
    let filter = filters[random.below(filters.len())];
    match random.below(12) {
        0 => {
            let packet_id = PacketId::new(9).unwrap();
            w.subscribe_only(client, packet_id, filter, qos(some_qos(random)));
        }
        1 => w.send_bytes(client, &unsubscribe(filter)),
        2 => w.clients[client].socket_room = random.below(2_000),
        3 => w.open_socket(client, usize::MAX),
        4 => {
            w.drop_link(client);
            clients[who] = None;
        }
        5 => w.pass_secs(random.below(8) as u32),
        _ => {
            let topic = format!("t/{}", random.below(3));
            let payload = "x".repeat(random.below(1_500));
            let (level, retain) = (some_qos(random), random.chance(20));
            w.publish(client, &topic, &payload, level, retain);
        }
    }
}

#[test]
fn the_ledger_is_exact_after_whatever_clients_do_and_empty_when_all_have_left() {
    run_seeds(40, |seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let policy = |filter: &str, qos0| TopicPolicy {
            filter: filter.into(),
            qos0,
            ..TopicPolicy::default()
        };
        let settings = Settings {
            queue_bytes_max: 20_000,
            policies: vec![
                policy("t/1", SlowPolicy::Conflate),
                policy("t/2", SlowPolicy::DropOldest),
            ],
            ..Settings::default()
        };
        let mut w = World::with_settings(1 + (seed % 2) as u8, settings);
        let mut clients = [None; CLIENTS];
        for _ in 0..150 {
            step(&mut w, &mut random, &mut clients);
            w.check_accounts();
        }
        for client in clients.into_iter().flatten() {
            w.drop_link(client);
        }
        // Wills and sessions have their time.
        w.pass_secs(60);
        w.check_accounts();
        assert_eq!(held(&w), (0, 0), "seed {seed}");
    });
}

#[test]
fn who_holds_most_is_named_first() {
    let mut w = World::new(1);
    let publisher = w.connect(Version::V5, "p", &clean());
    for (id, messages) in [("little", 1), ("much", 20), ("some", 5)] {
        let client = w.connect(Version::V5, id, &ConnectOptions::persistent());
        w.subscribe(client, id, QoS::AtLeastOnce);
        w.drop_link(client);
        for _ in 0..messages {
            w.publish(publisher, id, &"x".repeat(1_000), QoS::AtLeastOnce, false);
        }
    }
    w.check_accounts();
    let holders = holders_from(&w.hubs[0], 0, 2).found;
    let named: Vec<&str> = holders.iter().map(|holder| &*holder.client_id).collect();
    assert_eq!(named, ["much", "some"]);
    assert!(holders[0].bytes > 20_000 && !holders[0].is_connected);
    assert!(held(&w).1 > 26_000, "all that waits is in the ledger");
}

pub(crate) fn tenants(id: u64, zone: &Arc<Tenant>) -> Tenants {
    Tenants {
        own: Arc::new(Tenant::new(id, TenantKind::Address)),
        zone: Arc::clone(zone),
        owner: 0,
    }
}

/// Connects as the server does, with a session that outlives the connection.
pub(crate) fn come(
    w: &mut World,
    id: &str,
    secs: u32,
    tenants: &Tenants,
) -> Result<usize, CloseReason> {
    let options = ConnectOptions {
        expiry_secs: secs,
        ..ConnectOptions::persistent()
    };
    come_as(w, id, &options, tenants)
}

fn come_as(
    w: &mut World,
    id: &str,
    options: &ConnectOptions<'_>,
    tenants: &Tenants,
) -> Result<usize, CloseReason> {
    let (request, identity) = request(Version::V5, id, options);
    let hub = &w.hubs[usize::from(w.home(id))];
    let admitted = hub.admit_as(&request, identity, Some(tenants))?;
    let client = w.enter(request, admitted);
    w.settle();
    Ok(client)
}

pub(crate) fn evicted(w: &mut World) -> Vec<String> {
    let events = std::mem::take(&mut w.events).into_iter();
    let evicted = |event| match event {
        Event::SessionEvicted { client_id, .. } => Some(client_id.into_string()),
        _ => None,
    };
    events.filter_map(evicted).collect()
}

/// Somebody who takes all places and leaves keeps nobody out: the audit's B3.
#[test]
fn who_holds_most_sessions_gives_way_to_who_holds_less() {
    const PLACES: u32 = 20;
    for shards in 1..4 {
        let settings = Settings {
            sessions_max: PLACES.into(),
            ..Settings::default()
        };
        let mut w = World::with_settings(shards, settings);
        let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
        let (hog, ann) = (tenants(1, &zone), tenants(2, &zone));
        for number in 0..PLACES {
            let client = come(&mut w, &format!("hog{number}"), 1_000 - number, &hog).unwrap();
            w.drop_link(client);
        }
        w.advance();
        let refused = Some(CloseReason::Limit(Limit::Sessions));
        assert_eq!(come(&mut w, "hog99", 1_000, &hog).err(), refused);
        let live = come(&mut w, "ann0", 1_000, &ann).unwrap();
        let gone = evicted(&mut w);
        assert_eq!(gone.len(), 1, "{gone:?}");
        if shards == 1 {
            assert_eq!(gone, ["hog19"], "the one that is closest to its end");
        }
        assert_eq!((hog.own.sessions(), ann.own.sessions()), (PLACES - 1, 1));
        // As long as ann has less, and never from a client that is there.
        let mut count = 1;
        loop {
            w.advance();
            let Ok(client) = come(&mut w, &format!("ann{count}"), 9, &ann) else {
                break;
            };
            w.drop_link(client);
            count += 1;
        }
        assert_eq!((hog.own.sessions(), ann.own.sessions()), (10, 10));
        assert!(w.clients[live].link.is_some());
        assert!(evicted(&mut w).iter().all(|id| id.starts_with("hog")));
        // A client that comes back finds its own session.
        assert!(come(&mut w, "ann1", 9, &ann).is_ok());
        assert_eq!(ann.own.sessions(), 10);
        assert_eq!(zone.sessions(), PLACES);
        w.pass_secs(1_100);
        assert_eq!(hog.own.sessions(), 0, "places are given back");
    }
}

#[test]
fn one_user_and_one_zone_have_their_own_bounds() {
    let settings = Settings {
        sessions_per_address_max: 2,
        sessions_per_zone_max: 3,
        ..Settings::default()
    };
    let mut w = World::with_settings(2, settings);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, bob) = (tenants(1, &zone), tenants(2, &zone));
    for id in ["a1", "a2"] {
        let client = come(&mut w, id, 100, &ann).unwrap();
        w.drop_link(client);
    }
    let refused = |limit| Some(CloseReason::Limit(limit));
    let again = come(&mut w, "a3", 100, &ann);
    assert_eq!(again.err(), refused(Limit::SessionsPerAddress));
    assert!(come(&mut w, "a1", 100, &ann).is_ok(), "it is there already");
    assert!(come(&mut w, "b1", 100, &bob).is_ok());
    let more = come(&mut w, "b2", 100, &bob);
    assert_eq!(more.err(), refused(Limit::SessionsPerZone));
    assert_eq!((ann.own.sessions(), bob.own.sessions()), (2, 1));
    // A session that ends with its connection takes no place.
    assert!(come(&mut w, "b2", 0, &bob).is_ok());
}

/// Messages that wait in a session are lost if the server ends it, and not if its client does.
#[test]
fn messages_of_a_session_that_ends_early_are_counted_as_lost() {
    let settings = Settings {
        sessions_max: 3,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (hog, ann) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("hog", &hog), (3, 10));
    w.publish(publisher, "hog2", "second", QoS::AtLeastOnce, false);
    w.advance();
    come(&mut w, "ann", 100, &ann).unwrap();
    let told = w.events.iter().find_map(|event| match event {
        Event::SessionEvicted { messages, most, .. } => Some((*messages, *most)),
        _ => None,
    });
    assert_eq!(told, Some((2, 3)), "hog2 is closest to its end");
    // It begins anew, and wants no more what waited.
    w.connect(Version::V5, "hog1", &clean());
    let hub = &w.hubs[0];
    assert_eq!(hub.inspect().losses().by_cause(LossCause::SessionEnded), 2);
    assert_eq!(hub.inspect().stats().publishes_dropped, 2);
}

/// A world whose ledger may hold so many bytes, and whose warden looks some times. Returns what it
/// saw first.
pub(crate) fn assess(w: &mut World, budget: u64) -> Pressure {
    w.ledger.set_budget(budget);
    let mut first = None;
    for _ in 0..20 {
        w.check_accounts();
        let bytes = w.ledger.assess(None);
        if first.get_or_insert_with(|| w.ledger.pressure()) != &Pressure::None {
            w.control_all(&ControlItem::Relieve { bytes });
        }
        for _ in 0..10 {
            w.advance();
        }
    }
    w.check_accounts();
    first.unwrap()
}

/// Sessions that left with so many bytes each, made by somebody.
pub(crate) fn leave_behind(
    w: &mut World,
    publisher: usize,
    who: (&str, &Tenants),
    (count, bytes): (u32, usize),
) {
    for number in 0..count {
        let id = format!("{}{number}", who.0);
        let client = come(w, &id, 1_000 - number, who.1).unwrap();
        w.subscribe(client, &id, QoS::AtLeastOnce);
        w.drop_link(client);
        w.publish(publisher, &id, &"x".repeat(bytes), QoS::AtLeastOnce, false);
    }
}

#[test]
fn whose_absent_sessions_hold_most_loses_first_when_memory_is_short() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (many, heavy, ann) = (tenants(1, &zone), tenants(2, &zone), tenants(3, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("many", &many), (20, 1_000));
    leave_behind(&mut w, publisher, ("heavy", &heavy), (5, 20_000));
    let live = come(&mut w, "ann", 1_000, &ann).unwrap();
    w.subscribe(live, "t", QoS::AtLeastOnce);
    w.check_accounts();
    let held = w.ledger.total();
    assert_eq!(assess(&mut w, 2 * held), Pressure::None);
    assert_eq!(evicted(&mut w), [""; 0]);
    // A fifth of it has to go.
    assert_eq!(assess(&mut w, held * 100 / 95), Pressure::Pressed);
    let gone = evicted(&mut w);
    assert_eq!(
        gone,
        ["heavy4", "heavy3"],
        "of who holds most, the closest to its end"
    );
    assert_eq!(w.ledger.assess(None), 0, "that is enough");
    // Everybody's absent sessions at the end, and nobody's who is there.
    assess(&mut w, 1);
    assert_eq!(evicted(&mut w).len(), 23);
    assert_eq!(
        (
            many.own.sessions(),
            heavy.own.sessions(),
            ann.own.sessions()
        ),
        (0, 0, 1)
    );
    w.publish(publisher, "t", "still", QoS::AtLeastOnce, false);
    assert_eq!(w.take_payloads(live), ["still"]);
}

/// A client that is there and acknowledges none of this many messages. Returns it, and what is in
/// each message.
pub(crate) fn hold_much(
    w: &mut World,
    publisher: usize,
    who: &Tenants,
    count: usize,
) -> (usize, String) {
    let live = come(w, "hog", 1_000, who).unwrap();
    w.subscribe(live, "h", QoS::AtLeastOnce);
    let long = "x".repeat(50_000);
    for _ in 0..count {
        w.publish(publisher, "h", &long, QoS::AtLeastOnce, false);
    }
    w.check_accounts();
    (live, long)
}

/// A client that acknowledges nothing holds nearly all, and is there.
#[test]
fn what_connected_clients_hold_costs_others_no_session() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, hog) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (1, 100));
    let (live, long) = hold_much(&mut w, publisher, &hog, 40);
    let held = w.ledger.total();
    assert_eq!(assess(&mut w, held * 100 / 95), Pressure::Pressed);
    assert_eq!(assess(&mut w, held), Pressure::Full);
    assert_eq!(evicted(&mut w), [""; 0]);
    assert!(w.clients[live].link.is_some(), "nothing more came for it");
    // Beyond the limit it has to keep up, and loses what it holds if it does not.
    w.publish(publisher, "h", &long, QoS::AtLeastOnce, false);
    assert!(w.clients[live].link.is_none(), "it is closed as slow");
    assess(&mut w, held);
    assert_eq!(evicted(&mut w), ["hog"]);
    assert_eq!(ann.own.sessions(), 1);
    assert_eq!(assess(&mut w, held), Pressure::None);
}

/// However often the warden looks, sessions that wait for their clients give their part once.
#[test]
fn absent_sessions_give_their_part_once_and_nothing_for_others() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let ann = tenants(1, &zone);
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (10, 10_000));
    // Packets of others that have not come whole, say.
    w.check_accounts();
    let others = w.ledger.total() / 4;
    w.ledger.write_common(Holding::Connections, others);
    // A fifth of what is held has to go, and they hold most of it.
    let held = w.ledger.total();
    assert_eq!(assess(&mut w, held * 100 / 95), Pressure::Pressed);
    assert_eq!(evicted(&mut w).len(), 3, "a fifth of their ten, rounded up");
    assert_eq!(assess(&mut w, u64::MAX), Pressure::None);
    // Nearly all that is held then.
    w.ledger.write_common(Holding::Connections, 100 * held);
    assert_eq!(assess(&mut w, 110 * held), Pressure::Pressed);
    assert_eq!(assess(&mut w, held), Pressure::Full);
    assert_eq!(evicted(&mut w), [""; 0]);
    assert_eq!(ann.own.sessions(), 7);
}

/// However much others hold, and by whatever: half of the memory is theirs.
#[test]
fn absent_sessions_that_hold_less_than_half_lose_nothing_for_others() {
    let mut w = World::new(2);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, bob) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (20, 100_000));
    // Sessions of others that hold nothing take no part of it.
    for number in 0..20 {
        let client = come(&mut w, &format!("bob{number}"), 100, &bob).unwrap();
        w.drop_link(client);
    }
    w.check_accounts();
    let budget = 2 * w.ledger.total() + 10_000;
    w.ledger.write_common(Holding::Connections, 3 * budget);
    assert_eq!(assess(&mut w, budget), Pressure::Full);
    assert_eq!(evicted(&mut w), [""; 0]);
    // Beyond half of it, they give down to that.
    assert_eq!(assess(&mut w, budget / 2), Pressure::Full);
    let left = ann.own.sessions();
    assert!((8..12).contains(&left), "{left}");
    assert_eq!(bob.own.sessions(), 20);
    evicted(&mut w);
    for _ in 0..200 {
        w.control_all(&ControlItem::Unpin);
        w.advance();
    }
    w.check_accounts();
    assert!(ann.own.sessions() <= 2, "{}", ann.own.sessions());
    assert_eq!(bob.own.sessions(), 20, "they keep far less than a 64th");
}

/// A will may be as long as a packet, and nobody reads it while its client is there.
#[test]
fn connected_clients_with_long_wills_give_way() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, hog) = (tenants(1, &zone), tenants(2, &zone));
    let short = come(&mut w, "ann0", 100, &ann).unwrap();
    let long = "x".repeat(600_000);
    let options = ConnectOptions {
        will: Some(("t", &long, 0)),
        ..clean()
    };
    let come = |number: usize| come_as(&mut w, &format!("hog{number}"), &options, &hog);
    let all: Vec<usize> = (0..10).map(come).map(Result::unwrap).collect();
    w.check_accounts();
    let held = w.ledger.total();
    assert_eq!(assess(&mut w, held), Pressure::Full);
    w.pass_secs(2);
    assess(&mut w, held);
    let is_gone = |client: &&usize| w.clients[**client].link.is_none();
    let gone = all.iter().filter(is_gone).count();
    assert!((2..6).contains(&gone), "down to three quarters: {gone}");
    assert!(w.clients[short].link.is_some());
}

#[test]
fn new_work_is_refused_when_memory_is_short_and_what_is_there_goes_on() {
    let mut w = World::new(2);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, bob) = (tenants(1, &zone), tenants(2, &zone));
    let first = come(&mut w, "ann0", 100, &ann).unwrap();
    let publisher = w.connect(Version::V5, "p", &clean());
    w.publish(publisher, "known", "1", QoS::AtLeastOnce, true);
    assert_eq!(w.take_ack(publisher, 0x40).0, 0);
    w.check_accounts();
    let held = w.ledger.total();
    let refused = Some(CloseReason::Limit(Limit::Memory));
    assert_eq!(assess(&mut w, held * 10 / 9), Pressure::Pressed);
    assert_eq!(come(&mut w, "ann1", 100, &ann).err(), refused);
    assert!(come(&mut w, "ann0", 100, &ann).is_ok(), "it has that one");
    assert!(w.admit(Version::V5, "brief", &clean()).is_ok());
    assert!(come(&mut w, "bob0", 100, &bob).is_ok(), "he has none yet");
    let long = "x".repeat(40_000);
    let greedy = w.connect(Version::V5, "greedy", &clean());
    assert_eq!(w.subscribe(greedy, &long, QoS::AtMostOnce), 0);
    assert_eq!(
        w.subscribe(greedy, &format!("{long}y"), QoS::AtMostOnce),
        0x97
    );
    assert_eq!(w.subscribe(greedy, "short", QoS::AtMostOnce), 0);
    assert_eq!(assess(&mut w, 1), Pressure::Full);
    assert_eq!(w.admit(Version::V5, "brief", &clean()).err(), refused);
    assert!(
        come(&mut w, "bob0", 100, &bob).is_ok(),
        "his session goes on"
    );
    let full = "there is no room: limits.memory is reached, which is 1 bytes";
    for (topic, payload, told) in [
        ("known", "2", (0, "")),
        ("new", "1", (0x97, full)),
        ("known", "", (0, "")),
    ] {
        w.publish(publisher, topic, payload, QoS::AtLeastOnce, true);
        let (code, text) = w.take_ack(publisher, 0x40);
        assert_eq!((code, &*text), told, "{topic} {payload}");
    }
    let unkept = w
        .hubs
        .iter()
        .map(|hub| hub.inspect().stats().unkept_by_memory);
    assert_eq!(unkept.sum::<u64>(), 1);
    assert_eq!(w.try_restore("other", "1"), Err(NotKept::Memory));
    assert_eq!(assess(&mut w, u64::MAX), Pressure::None);
    assert_eq!(w.subscribe(greedy, &format!("{long}y"), QoS::AtMostOnce), 0);
    assert!(come(&mut w, "ann1", 100, &ann).is_ok());
    assert!(w.clients[first].link.is_none(), "its client came back");
}
