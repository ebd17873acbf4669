//! The answer to a prefix of what is received is "more", or it is final.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_mqtt::{frame, frame_header};

fuzz_target!(|input: (u32, &[u8])| {
    let (max, bytes) = input;
    let whole = frame(bytes, max);
    if let Ok(Some(found)) = whole {
        assert!(found.header_len >= 2 && found.header_len <= found.total_len);
        assert!(found.total_len <= bytes.len() && found.total_len <= max as usize);
        assert_eq!(found.first, bytes[0]);
    }
    for len in 0..bytes.len() {
        let part = frame(&bytes[..len], max);
        assert!(
            part == Ok(None) || part == whole,
            "{part:?} after {len} bytes, then {whole:?}"
        );
        if let Ok(Some(header)) = frame_header(&bytes[..len], max) {
            assert_eq!(
                part.is_ok_and(|part| part.is_none()),
                header.total_len > len
            );
        }
    }
});
