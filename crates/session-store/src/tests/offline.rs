//! Reading and adding while no server runs.

use super::*;

fn kept(disk: &SimulatedDisk) -> Vec<(String, Vec<String>)> {
    let found = read(disk, 1).unwrap();
    assert_eq!(found.troubles, []);
    let restored = found
        .earlier
        .replay(Sync::Never, |_, body| body.topic.to_owned());
    assert_eq!(restored.damage, []);
    told(&restored.sessions)
}

/// A reader finds what a start finds, as often as it likes.
#[test]
fn a_look_finds_what_a_start_finds() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 2);
    let expected = fill(&mut server);
    stop(server);
    for _ in 0..2 {
        assert_eq!(kept(&disk), expected);
    }
    let found = read(&disk, 1).unwrap();
    assert_eq!(found.generation, 1);
    let journals: Vec<_> = found.earlier.figures().collect();
    assert_eq!(journals.len(), 2);
    assert!(journals.iter().all(|it| it.files > 1 && it.bytes > 1024));
    assert!(
        journals
            .iter()
            .all(|it| !it.has_lost_power && it.unpromised == 0)
    );
    assert_eq!(told(&start(disk, 1, 1).sessions), expected);
}

fn add(adder: &mut Adder<SimulatedDisk>, records: &[Record<'_>]) {
    let mut batch = Vec::new();
    records.iter().for_each(|record| record.encode(&mut batch));
    adder.append(&batch).unwrap();
}

/// What is added stands beside what was there, and may replace some of it.
#[test]
fn sessions_are_added_beside_the_others_and_in_the_place_of_some() {
    for ends in [true, false] {
        let disk = SimulatedDisk::new(2);
        let mut server = start(disk.clone(), 1, 2);
        let mut expected = fill(&mut server);
        stop(server);
        let mut adder = Adder::open(disk.clone(), options(1, 1)).unwrap();
        let restored = adder.earlier().replay(Sync::Never, |_, _| String::new());
        let replaced = restored
            .sessions
            .iter()
            .find(|it| &*it.client_id == "c1-07");
        let origin = replaced.expect("it is there").origin;
        let long = "y".repeat(3_000);
        let new = [Record::Base(session_of(0, "new")), sub(0, &long)];
        add(&mut adder, &new);
        let again = [
            Record::Adopted { number: 1, origin },
            Record::Base(session_of(1, "c1-07")),
            sub(1, "other"),
        ];
        add(&mut adder, &again);
        if ends {
            adder.end().unwrap();
        } else {
            drop(adder);
        }
        expected.retain(|(id, _)| id != "c1-07");
        expected.push(("c1-07".into(), vec!["other".into()]));
        expected.push(("new".into(), vec![long]));
        expected.sort();
        let disk = match ends {
            // The disk has all of it.
            true => disk.after_power_loss(),
            false => disk.after_kill(),
        };
        assert_eq!(kept(&disk), expected);
        let mut server = start(disk.clone(), 1, 3);
        assert_eq!(told(&server.sessions), expected);
        forget(&mut server);
        stop(server);
        assert_eq!(kept(&disk), expected);
    }
}

#[test]
fn a_full_disk_is_told_to_whoever_adds() {
    let disk = SimulatedDisk::new(3);
    let mut adder = Adder::open(disk.clone(), options(1, 1)).unwrap();
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    let batch = [0; 500];
    let failed = (0..100).find_map(|_| adder.append(&batch).err());
    assert_eq!(
        failed.map(|error| error.kind()),
        Some(ErrorKind::StorageFull)
    );
}

/// The session is named that a damaged batch was about.
#[test]
fn a_damaged_batch_names_its_session() {
    let disk = SimulatedDisk::new(4);
    let mut server = start(disk.clone(), 1, 1);
    for (number, id) in (0..).zip(["first", "victim", "last"]) {
        append(
            &mut server.writers[0],
            &[Record::Session(session_of(number, id))],
        );
    }
    let at = append(
        &mut server.writers[0],
        &[sub(1, "precious"), sub(1, "other")],
    );
    append(&mut server.writers[0], &[sub(2, "last")]);
    stop(server);
    let name = format!("{:08}.log", at.file);
    let content = disk.content(&name);
    let place = content.windows(8).position(|part| part == b"precious");
    disk.damage(&name, place.expect("it is there"), 1);
    let found = read(&disk, 1).unwrap();
    let restored = found.earlier.replay(Sync::Never, |_, _| String::new());
    assert_eq!(restored.damage.len(), 1, "{:?}", restored.damage);
    let victim = restored
        .sessions
        .iter()
        .find(|it| &*it.client_id == "victim");
    assert_eq!(victim.map(|it| &it.named[..]), Some(&[0][..]));
    let others = restored
        .sessions
        .iter()
        .filter(|it| &*it.client_id != "victim");
    assert!(
        others
            .clone()
            .all(|it| it.named.is_empty() && it.may_lack.first() == Some(&(0..1)))
    );
    assert_eq!(others.count(), 2);
}
