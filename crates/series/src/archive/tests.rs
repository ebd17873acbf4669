use std::fs;

use super::*;
use crate::recorder::tests::sample;
use crate::{Recorder, Ring};

struct Bench {
    folder: tempfile::TempDir,
    archive: Archive,
    recorder: Recorder,
    at: u64,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(&folder.path().join("figures.redb"));
        Self {
            folder,
            archive,
            recorder: Recorder::new(0),
            at: 1_000,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("figures.redb")
    }

    /// A sample and a commit; whether that is in the file.
    fn go(&mut self) -> bool {
        self.at += 10;
        self.recorder.sample(&sample(self.at, 1.0));
        let is_written = self.archive.commit(&self.recorder.batch());
        if is_written {
            self.recorder.written();
        }
        is_written
    }

    fn rows(&self) -> usize {
        let mut rows = 0;
        if let Some(snapshot) = self.archive.snapshot() {
            snapshot.rows(Ring::Tens, |_| rows += 1).unwrap();
        }
        rows
    }
}

#[test]
fn a_damaged_file_is_set_aside() {
    let mut bench = Bench::new();
    fs::write(bench.path(), vec![0x5A; 50_000]).unwrap();
    assert!(bench.go());
    assert_eq!(bench.rows(), 1);
    let aside = bench.folder.path().join("figures.redb.damaged");
    assert_eq!(fs::metadata(aside).unwrap().len(), 50_000);
}

#[test]
fn a_deleted_file_is_made_again() {
    let mut bench = Bench::new();
    assert!(bench.go() && bench.go());
    let snapshot = bench.archive.snapshot();
    fs::remove_file(bench.path()).unwrap();
    assert!(bench.go());
    assert!(bench.path().exists());
    drop(snapshot);
    assert!(bench.go());
    assert_eq!(bench.rows(), 2);
}

#[test]
fn what_cannot_be_written_waits() {
    let mut bench = Bench::new();
    assert!(bench.go());
    // Somebody has moved the folder: neither can the file be made, nor is it there.
    let (own, other) = (bench.folder.path().join("a"), bench.folder.path().join("b"));
    fs::create_dir(&own).unwrap();
    bench.archive = Archive::new(&own.join("figures.redb"));
    assert!(bench.go());
    fs::rename(&own, &other).unwrap();
    assert!(!bench.go() && !bench.go());
    assert!(bench.archive.trouble().unwrap().contains("No such file"));
    assert_eq!(bench.rows(), 0);
    fs::rename(&other, &own).unwrap();
    assert!(bench.go());
    assert_eq!(bench.archive.trouble(), None);
    assert_eq!(bench.rows(), 4);
}
