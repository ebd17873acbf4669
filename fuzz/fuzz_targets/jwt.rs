//! JSON web tokens from strangers: none is accepted without the key.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use stentor_auth::credential::jwt::{Algorithm, Issuer, KeySource, Keys, verify};

static ISSUERS: LazyLock<Vec<Issuer>> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("stentor-fuzz-jwt-{}", std::process::id()));
    let written = std::fs::write(&path, b"0123456789abcdef0123456789abcdef");
    let keys = Keys::read(&KeySource::File(path.clone()), &[Algorithm::HS256]);
    let _ = std::fs::remove_file(path);
    match (written, keys) {
        (Ok(()), Ok(keys)) => vec![Issuer {
            issuer: None,
            audience: Vec::new(),
            leeway_secs: 0,
            user_claim: "sub".into(),
            zone: None,
            known_users: false,
            keys,
        }],
        (written, keys) => panic!("{written:?} {keys:?}"),
    }
});

fuzz_target!(|token: &[u8]| {
    assert!(verify(&ISSUERS, token, 0).is_err());
    // With the shape of one, so that the parts behind the header are reached.
    let mut shaped = b"eyJhbGciOiJIUzI1NiJ9.".to_vec();
    shaped.extend(token);
    assert!(verify(&ISSUERS, &shaped, 0).is_err());
});
