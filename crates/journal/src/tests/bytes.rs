//! The format, byte for byte: a server reads what earlier ones wrote.

use hex_literal::hex;
use stentor_disk::simulated::SimulatedDisk;

use super::support::{begin, commit, reread};
use crate::Position;

/// Two batches and a commit between them.
fn written() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (_, mut journal) = begin(&disk);
    journal.append(b"hello").unwrap();
    commit(&mut journal);
    journal.append(b"0123456789").unwrap();
    disk
}

#[test]
fn a_segment_has_these_bytes() {
    let file = written().content("00000001.log");
    assert_eq!(file[..GOLDEN.len()], GOLDEN);
}

#[test]
fn the_manifest_has_these_bytes() {
    let disk = written();
    assert_eq!(disk.content("journal"), MANIFEST);
    assert_eq!(disk.content("journal.copy"), MANIFEST);
}

#[test]
fn these_bytes_are_read() {
    let disk = SimulatedDisk::new(2);
    let mut file = GOLDEN.to_vec();
    file.resize(1024, 0);
    disk.put("00000001.log", &file);
    disk.put("journal", &MANIFEST);
    disk.put("journal.copy", &MANIFEST);
    let (found, gaps) = reread(&disk, 1);
    assert_eq!(gaps, []);
    let position = |offset| Position { file: 1, offset };
    let expected = [
        (position(104), b"hello".to_vec()),
        (position(160), b"0123456789".to_vec()),
    ];
    assert_eq!(found, expected);
}

const MANIFEST: [u8; 64] = hex!(
    "5354454e544f524d0100000023af3f9fed5eed5eed5eed5e0100000000000000"
    "0100000000000000010000004100000000000000000000000000000000000000"
);
const GOLDEN: [u8; 208] = hex!(
    "5354454e544f524a010000007e360989ed5eed5eed5eed5e0100000001000000"
    "0000000000000000000400000000000000000000000000000000000000000000"
    "a039b1dc10000000000000000000000001000000f3595d5c0100000000000000"
    "0000000000000000370c3a5d0500000000000000000000000100000052708f7f"
    "68656c6c6f00000078e0261700000000010000008800000001000000e97c14f0"
    "cb3ec8db0a00000001000000880000000100000092b6fd473031323334353637"
    "3839000000000000e835664d6c177cb5"
);
