//! mosquitto's password file: a line that is wrong is named, never shown, and never taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_auth::store::MosquittoFile;

fuzz_target!(|bytes: &[u8]| {
    let (users, bad) = MosquittoFile::parse(bytes);
    let is_sound = |(name, hash): (&String, &String)| {
        !name.is_empty() && !name.contains('\0') && hash.starts_with('$')
    };
    assert!(users.iter().all(is_sound));
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(bad.iter().all(|(number, _)| (1..=lines).contains(number)));
    assert!(users.len() + bad.len() <= lines);
});
