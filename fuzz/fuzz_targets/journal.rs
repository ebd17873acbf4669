//! Journals: whatever lies in the files, the folder opens, only what was appended is read, and a
//! new generation works.
//!
//! The input is a list of changes to the files of a small folder, then perhaps the frames of a
//! segment.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;
use stentor_journal::{Bounds, Folder, OpenOptions};

const BOUNDS: Bounds = Bounds {
    segment_bytes: 1024,
    ahead: 2,
    reserve: 1,
    segments_max: 8,
};

fn options(boot: u64) -> OpenOptions {
    OpenOptions {
        boot,
        random: 1,
        spares_max: 4,
    }
}

fn filled() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut folder = Folder::open(disk.clone(), options(1))
        .expect("an empty disk opens")
        .folder;
    let mut journal = folder.journal(0, BOUNDS);
    for i in 0..24_usize {
        journal
            .append(&vec![b'x'; 1 + i * 9])
            .expect("there is room");
        folder.serve(&mut journal).expect("the disk works");
        if i % 8 == 7 {
            let round = journal.begin_commit().expect("there is something");
            journal.end_commit(round.sync()).expect("the disk works");
        }
    }
    disk
}

fn check(disk: &SimulatedDisk, boot: u64) {
    // A later format is the one thing that is refused.
    let Ok(mut opened) = Folder::open(disk.clone(), options(boot)) else {
        return;
    };
    for journal in &opened.journals {
        let survey = journal.survey();
        for batch in journal.batches(&survey) {
            assert!(
                batch.records.iter().all(|byte| *byte == b'x'),
                "nobody appended that"
            );
            assert!(batch.position < survey.end);
        }
    }
    let mut journal = opened.folder.journal(9, BOUNDS);
    let position = journal.append(b"new").expect("there is room");
    opened
        .folder
        .forget(&mut opened.journals)
        .expect("the disk works");
    let opened = Folder::open(disk.after_kill(), options(boot)).expect("it was just written");
    let journal = opened.journals.iter().find(|journal| journal.shard() == 9);
    let journal = journal.expect("it was just written");
    let survey = journal.survey();
    let found: Vec<_> = journal.batches(&survey).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].position, found[0].records),
        (position, &b"new"[..])
    );
}

fuzz_target!(|input: &[u8]| {
    let disk = filled();
    let names = disk.names().expect("a simulated disk has names");
    let (changes, rest) = input.split_at(input.len().min(200));
    for change in changes.chunks_exact(5) {
        let name = &names[usize::from(change[0]) % names.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]]));
        disk.damage(name, at % disk.len_of(name).max(1), change[4]);
    }
    if let Some((first, rest)) = rest.split_first() {
        // With a sound head, or as it comes.
        let name = "00000002.log";
        let mut file = match first & 1 {
            0 => Vec::new(),
            _ => disk.content(name)[..64].to_vec(),
        };
        file.extend(rest);
        disk.put(name, &file);
    }
    let boot = 1 + u64::from(input.first().is_some_and(|byte| byte & 1 == 1));
    check(&disk.after_kill(), boot);
    check(&disk.after_power_loss(), 3);
});
