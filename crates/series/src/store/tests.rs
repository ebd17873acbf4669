use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::backends::InMemoryBackend;

use super::*;
use crate::recorder::tests::sample;
use crate::row::tests::largest;
use crate::{Curve, FIGURES_MAX, Peak, Recorder};

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.redb");
    (folder, path)
}

/// The starts and samples of the rows of a ring.
fn rows(store: &Store, ring: Ring) -> Vec<(u64, u64)> {
    let mut rows = Vec::new();
    let snapshot = store.snapshot().unwrap();
    let take = |row: &Row| rows.push((row.start, row.latency.count_and_secs().0));
    snapshot.rows(ring, take).unwrap();
    rows.sort_unstable();
    rows
}

fn write(store: &Store, recorder: &mut Recorder) {
    store.commit(&recorder.batch()).unwrap();
    recorder.written();
}

/// A file in memory that remembers how long it was.
#[derive(Debug, Default)]
struct Measured {
    bytes: InMemoryBackend,
    most: Arc<AtomicU64>,
}

impl StorageBackend for Measured {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.most.fetch_max(len, Ordering::Relaxed);
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.bytes.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.write(offset, data)
    }
}

#[test]
fn what_was_written_is_there_after_a_restart_and_goes_on() {
    let (_folder, path) = folder();
    {
        let store = Store::open(&path).unwrap();
        let mut recorder = Recorder::new(0);
        (0..15).for_each(|at| recorder.sample(&sample(1_000 + at, 5.0)));
        write(&store, &mut recorder);
    }
    let store = Store::open(&path).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    let mut recorder = Recorder::new(100);
    recorder.sample(&sample(1_016, 9.0));
    write(&store, &mut recorder);
    assert_eq!(rows(&store, Ring::Tens), [(1_000, 10), (1_010, 6)]);
    assert_eq!(rows(&store, Ring::Shifts), [(0, 16)]);
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.number().unwrap(), Some(101));
    let peak = Some(Peak {
        value: 9.0,
        at: 1_016,
    });
    assert_eq!(snapshot.peaks().unwrap().unwrap().peaks[0], peak);
    let mut days = Vec::new();
    let take = |day: &Peaks| days.push((day.start, day.peaks[0]));
    snapshot.days(take).unwrap();
    assert_eq!(days, [(0, peak)]);
}

#[test]
fn a_clock_that_is_set_back_adds_and_replaces_nothing_newer() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    let mut recorder = Recorder::new(0);
    let now = 1_700_000_000;
    let mut go = |at: u64, count: u64| {
        (0..count).for_each(|more| recorder.sample(&sample(at + more, 1.0)));
        write(&store, &mut recorder);
    };
    go(now, 20);
    // Back by 10 seconds: the period has both.
    go(now + 10, 5);
    assert_eq!(rows(&store, Ring::Tens), [(now, 10), (now + 10, 15)]);
    // Back by the length of the ring: its slot has a newer row, which stays.
    go(now - Ring::Tens.reach(), 5);
    assert_eq!(rows(&store, Ring::Tens), [(now, 10), (now + 10, 15)]);
    // After an hour, the clock is believed, and what is in its future gives way.
    go(now - Ring::Tens.reach() + 5, 3_700);
    go(now + 10 - Ring::Tens.reach() + 3_720, 1);
    let tens = rows(&store, Ring::Tens);
    assert!(
        tens.contains(&(now + 10, 15)),
        "its slot was not used again"
    );
    // Years forward, and to the beginning of time.
    go(u64::MAX - 20, 10);
    go(0, 10);
    assert!(rows(&store, Ring::Minutes).contains(&(0, 10)));
}

#[test]
fn a_wrong_future_does_not_hold_the_rings_for_ever() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    let mut recorder = Recorder::new(0);
    let (right, wrong) = (1_700_000_000, 1_700_000_000 + 100 * Ring::Tens.reach());
    let mut go = |at: u64, count: u64| {
        for more in 0..count {
            recorder.sample(&sample(at + more, 1.0));
            if more % 60 == 59 {
                write(&store, &mut recorder);
            }
        }
    };
    // The whole ring is full of rows of the future.
    go(wrong, Ring::Tens.reach());
    go(right, 2 * 3_600);
    let past = rows(&store, Ring::Tens);
    let past = past.iter().filter(|(start, _)| *start < right + 7_200);
    // The first hour is missing, and the second one is there.
    assert_eq!(past.count(), 360);
}

#[test]
fn the_file_stays_below_its_bound_for_ever() {
    let measured = Measured::default();
    let most = Arc::clone(&measured.most);
    let nowhere = Identity {
        device: 0,
        inode: 0,
    };
    let store = Store::with_backend(measured, nowhere).unwrap();
    let mut number = 0;
    let mut commit = |rows: Vec<(Ring, Row)>, day: Peaks| {
        number += 1;
        let batch = Batch {
            number,
            rows,
            peaks: day.clone(),
            days: vec![day],
            is_settled: true,
        };
        store.commit(&batch).unwrap();
    };
    let day = |start: u64| {
        let mut day = Peaks::new(start - start % 86_400);
        (0..FIGURES_MAX).for_each(|at| {
            day.raise(
                at,
                Peak {
                    value: 1.5,
                    at: start,
                },
            );
        });
        day
    };
    // Four years of the coarsest ring, whose rows are as large as can be, and of each other ring so
    // many rows that all slots are used several times.
    for shift in 0..4 * 365 * 4 {
        let rows = [
            (Ring::Tens, 9),
            (Ring::Minutes, 7),
            (Ring::Quarters, 5),
            (Ring::Shifts, 1),
        ];
        let rows = rows.iter().flat_map(|(ring, count)| {
            let at = move |at| (*ring, largest((shift * count + at) * ring.step()));
            (0..*count).map(at)
        });
        commit(rows.collect(), day(shift * Ring::Shifts.step()));
    }
    for ring in Ring::KEPT {
        assert_eq!(rows(&store, ring).len() as u64, ring.len(), "{ring:?}");
    }
    let most = most.load(Ordering::Relaxed);
    assert!(most < FILE_BYTES_MAX * 2 / 3, "{most} bytes");
    assert!(
        most > 12 << 20,
        "all slots have full rows, so it is not {most} bytes"
    );
}

#[test]
fn a_curve_is_made_of_the_file_and_of_what_waits() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    let mut recorder = Recorder::new(0);
    (0..100).for_each(|at| recorder.sample(&sample(1_000 + at, 5.0)));
    write(&store, &mut recorder);
    (100..140).for_each(|at| recorder.sample(&sample(1_000 + at, 6.0)));
    let count = |recorder: &Recorder| {
        let range = crate::Range {
            from: 0,
            to: 2_000,
            points: 100,
        };
        let mut curve = Curve::new(range, Ring::Tens);
        let snapshot = store.snapshot().unwrap();
        snapshot.rows(Ring::Tens, |row| curve.add(row)).unwrap();
        let number = snapshot.number().unwrap();
        recorder.rows(Ring::Tens, number, |row| curve.add(row));
        curve.whole().latency.count_and_secs().0
    };
    assert_eq!(count(&recorder), 140);
    // Between the commit and its note, nothing is there twice.
    let batch = recorder.batch();
    assert_eq!(count(&recorder), 140);
    store.commit(&batch).unwrap();
    assert_eq!(count(&recorder), 140);
    recorder.written();
    assert_eq!(count(&recorder), 140);
}

#[test]
fn a_file_that_would_be_too_long_refuses() {
    let bounded = Bounded(InMemoryBackend::new());
    assert!(bounded.set_len(FILE_BYTES_MAX).is_ok());
    let refused = bounded.set_len(FILE_BYTES_MAX + 1).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn other_files_are_refused() {
    let (folder, path) = folder();
    for bytes in [&b"x"[..], &[0; 5_000], &[0xA5; 100_000], b"redb"] {
        std::fs::write(&path, bytes).unwrap();
        let refused = catch_unwind(|| Store::open(&path).map(drop));
        assert!(!matches!(refused, Ok(Ok(()))), "{} bytes", bytes.len());
        assert!(!matches!(refused, Ok(Err(StoreError::Broken(_)))));
    }
    let refused = Store::open(folder.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged(_)), "{refused}");
    std::fs::remove_file(&path).unwrap();
    {
        let other = Database::create(&path).unwrap();
        let transaction = other.begin_write().unwrap();
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("format", &[2][..]).unwrap();
        drop(meta);
        transaction.commit().unwrap();
    }
    let refused = Store::open(&path).unwrap_err();
    assert!(refused.to_string().contains("format [2]"), "{refused}");
}
