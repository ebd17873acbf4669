//! A line of a password file must neither panic the server nor come back as another one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_auth::credential::{PasswordHash, ScramSecret, Stored, TokenHash};

fuzz_target!(|text: &str| {
    match Stored::parse(text) {
        Ok(Stored::Password(hash)) => {
            assert!(PasswordHash::parse(&hash.to_string()).is_ok_and(|again| again == hash));
        }
        Ok(Stored::Token(hash)) => {
            assert!(TokenHash::parse(&hash.to_string()).is_ok_and(|again| again == hash));
        }
        Ok(Stored::Scram(secret)) => {
            assert!(ScramSecret::parse(&secret.to_string()).is_ok_and(|again| again == secret));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
