//! Rules from tokens, files and commands: what is taken comes back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_auth::model::Rule;

fuzz_target!(|text: &str| {
    match text.parse::<Rule>() {
        Ok(rule) => {
            assert!(rule.check().is_ok());
            assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
