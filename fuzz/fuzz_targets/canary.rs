//! The target that must fail: it claims that no bytes are a packet. A fuzzer that does not refute
//! this within seconds reaches nothing, and its silence about the others means nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_mqtt::{Sender, Version, decode};

fuzz_target!(|data: &[u8]| {
    let Some((&first, body)) = data.split_first() else {
        return;
    };
    let decoded = decode(Version::V311, Sender::Client, first, body);
    assert!(
        decoded.is_err() || body.is_empty(),
        "the canary sings: {decoded:?}"
    );
});
