//! Names in certificates, whatever stands there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_auth::credential::certificate::{NameSource, user_name};

fuzz_target!(|der: &[u8]| {
    for source in [
        NameSource::CommonName,
        NameSource::Dns,
        NameSource::Email,
        NameSource::Uri,
    ] {
        if let Ok(name) = user_name(der, source) {
            assert!(!name.is_empty() && name.len() <= 255 && !name.contains('\0'));
        }
    }
});
