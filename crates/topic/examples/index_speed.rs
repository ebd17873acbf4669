//! What the index costs: time per operation, and bytes per filter.
//!
//! `cargo run --release --package stentor-topic --example index_speed [FILTERS]`. Every figure is
//! the best of several rounds on one core; names are generated before the clock starts.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stentor_topic::{FilterId, Index, Subscriber, TopicHasher, Zone, validate_name};

const ROUNDS: usize = 7;
const ZONE: Zone = Zone::DEFAULT;

fn main() {
    let filters = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(100_000);
    println!("{filters} filters, best of {ROUNDS} rounds");
    exact(filters);
    wildcards(filters, "devices, one + each", |number| {
        format!("site/{number}/+/state")
    });
    wildcards(filters, "devices, one # each", |number| {
        format!("client/{number}/#")
    });
    crowd(filters);
    names(filters);
}

/// One subscriber of each of many filters without wildcards.
fn exact(count: usize) {
    let texts: Vec<String> = (0..count)
        .map(|number| format!("clients/{number}/in"))
        .collect();
    let insert = best(|| {
        let mut index = new_index();
        let spent = timed(|| subscribe(&mut index, &texts));
        (spent, index)
    });
    report("exact: insert", insert, count);
    let mut index = new_index();
    index.reserve(count);
    report(
        "exact: insert, reserved",
        timed(|| subscribe(&mut index, &texts)),
        count,
    );
    report(
        "exact: match",
        best(|| (timed(|| match_all(&index, &texts, count)), ())),
        count,
    );
    report_memory("exact", &texts);
    remove_all(index, &texts);
}

/// One subscriber of each of many filters with wildcards; every name matches one filter.
fn wildcards(count: usize, what: &str, filter: impl Fn(usize) -> String) {
    let texts: Vec<String> = (0..count).map(filter).collect();
    let names: Vec<String> = texts
        .iter()
        .map(|text| text.replace('+', "door").replace('#', "room/door"))
        .collect();
    let insert = best(|| {
        let mut index = new_index();
        let spent = timed(|| subscribe(&mut index, &texts));
        (spent, index)
    });
    report(&format!("{what}: insert"), insert, count);
    let mut index = new_index();
    subscribe(&mut index, &texts);
    let matching = best(|| (timed(|| match_all(&index, &names, count)), ()));
    report(&format!("{what}: match"), matching, count);
    report_memory(what, &texts);
    remove_all(index, &texts);
}

/// Many subscribers of one filter, which leave again.
fn crowd(count: usize) {
    let join = best(|| {
        let mut index = new_index();
        let spent = timed(|| {
            for session in 0..count as u32 {
                index.insert(
                    ZONE,
                    "news/today",
                    Subscriber {
                        session,
                        options: 0,
                    },
                );
            }
        });
        (spent, index)
    });
    report("crowd of one filter: join", join, count);
    let leave = best(|| {
        let mut index = new_index();
        let mut id = None;
        for session in 0..count as u32 {
            id = Some(
                index
                    .insert(
                        ZONE,
                        "news/today",
                        Subscriber {
                            session,
                            options: 0,
                        },
                    )
                    .id,
            );
        }
        let spent = timed(|| {
            for session in 0..count as u32 {
                black_box(id.and_then(|id| index.remove(id, session)));
            }
        });
        (spent, index)
    });
    report("crowd of one filter: leave", leave, count);
}

/// What every publish pays for its name.
fn names(count: usize) {
    let texts: Vec<String> = (0..count)
        .map(|number| format!("site/{number}/door/state"))
        .collect();
    let hasher = TopicHasher::new(1);
    let each =
        |work: &dyn Fn(&str)| best(|| (timed(|| texts.iter().for_each(|text| work(text))), ()));
    report(
        "name: validate",
        each(&|text| black_box(validate_name(text)).unwrap_or(())),
        count,
    );
    let hash = each(&|text| {
        black_box(hasher.hash(ZONE, text));
    });
    report("name: hash", hash, count);
    let prefixes = each(&|text| {
        let mut sum = 0u64;
        let full = hasher.for_each_prefix_hash(ZONE, text, |hash| sum ^= hash);
        black_box(sum ^ full);
    });
    report("name: hash with 4 prefixes", prefixes, count);
}

fn new_index() -> Index {
    Index::new(TopicHasher::new(1))
}

fn subscribe(index: &mut Index, texts: &[String]) {
    for (text, session) in texts.iter().zip(0u32..) {
        black_box(index.insert(
            ZONE,
            text,
            Subscriber {
                session,
                options: 1,
            },
        ));
    }
}

/// Matches each name, in an order that jumps about as unrelated publishers do.
fn match_all(index: &Index, names: &[String], expected: usize) {
    let mut found = 0;
    let mut at = 0;
    for _ in 0..names.len() {
        at = (at + 7_919) % names.len();
        let name = &names[at];
        let hash = index.hasher().hash(ZONE, name);
        index.for_each_match(ZONE, name, hash, |_, subscribers| {
            found += subscribers.len()
        });
    }
    assert!(found == expected || names.len().is_multiple_of(7_919));
}

fn remove_all(mut index: Index, texts: &[String]) {
    let ids: Vec<Option<FilterId>> = texts.iter().map(|text| index.find(ZONE, text)).collect();
    let spent = timed(|| {
        for (id, session) in ids.iter().zip(0u32..) {
            black_box(id.and_then(|id| index.remove(id, session)));
        }
    });
    report("    and remove", spent, texts.len());
    assert_eq!(index.filters(), 0);
}

fn report_memory(what: &str, texts: &[String]) {
    let text: usize = texts.iter().map(String::len).sum();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let mut index = new_index();
    subscribe(&mut index, texts);
    let grown = LIVE_BYTES.load(Ordering::Relaxed) - before;
    let per_filter = |bytes: usize| bytes as f64 / texts.len() as f64;
    println!(
        "{what:<36} {:>8.1} B/filter, of which text {:.1} B",
        per_filter(grown),
        per_filter(text)
    );
    assert_eq!(grown, index.heap_bytes());
}

fn report(what: &str, spent: Duration, count: usize) {
    let nanos = spent.as_nanos() as f64 / count as f64;
    println!("{what:<36} {nanos:>8.1} ns {:>10.2} M/s", 1000.0 / nanos);
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The shortest of several rounds; what a round made is dropped outside of its time.
fn best<T>(mut round: impl FnMut() -> (Duration, T)) -> Duration {
    (0..ROUNDS).map(|_| round().0).min().unwrap_or_default()
}

/// Bytes asked of the allocator and not given back.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe; this one hands through"
)]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the block came from `alloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE_BYTES.fetch_add(size, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
