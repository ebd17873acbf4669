//! The same on files of the operating system.

use std::os::unix::fs::PermissionsExt;

use stentor_disk::{Disk, MappedDisk};

use super::support::{SMALL, batch};
use crate::{Folder, OpenOptions};

const OPTIONS: OpenOptions = OpenOptions {
    boot: 1,
    random: 7,
    spares_max: 2,
};

#[test]
fn batches_are_read_from_files_that_nobody_else_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let disk = MappedDisk::new(folder.path()).unwrap();
    let mut journals = Folder::open(disk, OPTIONS).unwrap().folder;
    let mut journal = journals.journal(3, SMALL);
    let mut expected = Vec::new();
    for number in 0..20 {
        let records = batch(number, 150);
        expected.push((journal.append(&records).unwrap(), records));
        journals.serve(&mut journal).unwrap();
    }
    let round = journal.begin_commit().unwrap();
    journal.end_commit(round.sync()).unwrap();
    drop((journal, journals));
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.file_name());
    }
    let disk = MappedDisk::new(folder.path()).unwrap();
    let mut opened = Folder::open(disk, OPTIONS).unwrap();
    let old = &opened.journals[0];
    assert_eq!((old.generation(), old.shard()), (1, 3));
    let survey = old.survey();
    let found: Vec<_> = old
        .batches(&survey)
        .map(|it| (it.position, it.records.to_vec()))
        .collect();
    assert_eq!((found, survey.gaps), (expected, Vec::new()));
    opened.folder.forget(&mut opened.journals).unwrap();
    let names = opened.folder.disk.names().unwrap();
    assert!(
        names.iter().all(|name| !name.ends_with(".log")),
        "{names:?}"
    );
}
