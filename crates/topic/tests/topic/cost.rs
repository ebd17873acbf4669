//! What a filter is charged against what the index occupies.

use stentor_topic::{Index, Subscriber, TopicHasher, Zone, filter_cost};

/// What an index keeps in reserve while it grows, see [`filter_cost`].
const RESERVE_BYTES: usize = 128 << 10;

/// Just more than hash tables and chunks hold, which is when they have grown for the last one.
const COUNTS: [usize; 5] = [1, 57, 1_025, 7_169, 28_673];

/// The filters, a function of their number, and whether they share next to nothing.
type Population = (&'static str, fn(usize) -> String, bool);

const POPULATIONS: [Population; 12] = [
    ("exact", |at| format!("clients/{at}/in"), true),
    ("one +", |at| format!("site/{at}/+/state"), true),
    ("one #", |at| format!("client/{at}/#"), true),
    ("nothing shared", |at| format!("{at}/{at}/+/{at}/#"), true),
    ("first level +", |at| format!("+/{at}"), true),
    ("long levels", |at| format!("+/{at:060}/{at:015}"), true),
    ("a very long level", |at| format!("{at:02000}/#"), true),
    (
        "many empty levels",
        |at| format!("{at}{}+", "/".repeat(1 + at % 100)),
        true,
    ),
    (
        "many + parted",
        |at| format!("{at}{}", "/+/a".repeat(1 + at % 30)),
        true,
    ),
    (
        "runs of all lengths",
        |at| format!("{}{}", "+/".repeat(1 + at % 250), at / 250),
        false,
    ),
    (
        "runs that end within others",
        |at| format!("a{at}{}", "/+".repeat(300 - at % 299)),
        false,
    ),
    ("mixtures of + and a", mixture, false),
];

/// The filters of finding A2 with few levels.
fn mixture(at: usize) -> String {
    let levels: Vec<&str> = (0..15)
        .map(|level| if at & (1 << level) == 0 { "a" } else { "+" })
        .collect();
    format!("{}/+/+/+/z", levels.join("/"))
}

#[test]
fn the_charge_of_all_filters_is_an_upper_bound() {
    for (what, filter, is_private) in POPULATIONS {
        for count in COUNTS {
            let mut index = Index::new(TopicHasher::new(3));
            let mut charge = 0;
            for at in 0..count {
                let filter = filter(at);
                let subscriber = Subscriber {
                    session: at as u32,
                    options: 0,
                };
                assert!(
                    index.insert(Zone::DEFAULT, &filter, subscriber).first,
                    "{filter}"
                );
                charge += filter_cost(&filter);
            }
            let heap = index.heap_bytes();
            assert!(
                heap <= charge + RESERVE_BYTES,
                "{what}, {count}: {heap} > {charge}"
            );
            // A session's own list of its subscriptions is in the charge and not in the index.
            let is_fair = charge <= 3 * (heap + 24 * count);
            assert!(
                !is_private || is_fair,
                "{what}, {count}: {charge} > 3 * {heap}"
            );
        }
    }
}

/// Each of many sessions is charged for a filter that they share.
#[test]
fn the_charge_covers_the_sets_of_shared_filters() {
    for count in COUNTS {
        let mut index = Index::new(TopicHasher::new(3));
        for session in 0..count as u32 {
            index.insert(
                Zone::DEFAULT,
                "a",
                Subscriber {
                    session,
                    options: 0,
                },
            );
        }
        assert!(index.heap_bytes() <= count * filter_cost("a") + 1_024);
    }
}

/// Sessions that leave and come again do not make the index hold more than is charged.
#[test]
fn filters_that_come_and_go_leave_nothing() {
    let mut index = Index::new(TopicHasher::new(3));
    let subscriber = Subscriber {
        session: 1,
        options: 0,
    };
    let kept: Vec<String> = (0..200)
        .map(|at| format!("{at}{}", "/+".repeat(100)))
        .collect();
    for filter in &kept {
        index.insert(Zone::DEFAULT, filter, subscriber);
    }
    let charge: usize = kept.iter().map(|filter| filter_cost(filter)).sum();
    for filter in &kept {
        for run in 1..100 {
            let upper = filter.get(..filter.len() - 2 * run).unwrap_or_default();
            for filter in [upper.to_owned(), format!("{upper}/x"), format!("{upper}/#")] {
                let id = index.insert(Zone::DEFAULT, &filter, subscriber).id;
                index.remove(id, 1);
            }
        }
    }
    let heap = index.heap_bytes();
    assert!(heap <= charge + RESERVE_BYTES, "{heap} > {charge}");
}
