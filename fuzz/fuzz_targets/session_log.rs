//! Records of sessions: any bytes are read to the end or refused, and what was read is written as
//! it was. Whatever they tell, a start makes sessions of it.
//!
//! The input is cut into batches, of two journals.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_session_log::{JournalId, Name, Record, Records, Replay};

/// Reads a batch, writes it, and reads that.
fn check(at: Name, bytes: &[u8]) {
    let records: Vec<Record<'_>> = Records::new(at, bytes)
        .map_while(Result::ok)
        .map(|(_, record)| record)
        .collect();
    let mut again = Vec::new();
    for record in &records {
        record.encode(&mut again);
    }
    let read: Result<Vec<_>, _> = Records::new(at, &again).collect();
    let read = read.expect("it was just written");
    assert!(read.iter().map(|(_, record)| record).eq(&records));
}

fuzz_target!(|input: &[u8]| {
    let (left, right) = input.split_at(input.len() / 2);
    let mut replay = Replay::new();
    for (shard, bytes) in [left, right].into_iter().enumerate() {
        replay.journal(JournalId {
            generation: 1,
            shard: shard as u16,
        });
        for (index, batch) in bytes.split(|byte| *byte == 0xFE).enumerate() {
            let at = Name {
                file: 1 + shard as u32,
                offset: 64 + index as u32 * 4096,
            };
            check(at, batch);
            // Some are damaged, and only looked at.
            if batch.first() == Some(&0xFD) {
                replay.gap(at.file, at.offset, batch.len() as u64);
                replay.remains(at, &batch[1..]);
                continue;
            }
            let _ = replay.batch(at, batch);
        }
    }
    let restored = replay.finish(|name, body| (name, body.payload.len()));
    for session in &restored.sessions {
        assert!(session.owed.is_sorted_by_key(|owed| owed.delivery));
        assert!(session.owed.iter().all(|owed| owed.delivery < session.next));
        let places = restored.damage.len() as u32;
        assert!(session.may_lack.iter().all(|part| part.end <= places));
        assert!(session.named.iter().all(|place| *place < places));
    }
});
