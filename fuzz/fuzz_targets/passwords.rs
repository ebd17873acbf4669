//! mosquitto's password file: a line that is wrong is named, never shown, and never taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_auth::store::MosquittoFile;

fuzz_target!(|bytes: &[u8]| {
    match MosquittoFile::parse(bytes) {
        Ok(users) => {
            let is_sound = |(name, hash): (&String, &String)| {
                !name.is_empty() && !name.contains('\0') && hash.starts_with('$')
            };
            assert!(users.iter().all(is_sound));
        }
        Err(reason) => assert!(reason.starts_with("line ")),
    }
});
