//! The messages of SCRAM, read by a server and by a client.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use stentor_auth::credential::scram::{ClientFirst, SaltedPassword, ScramClient, ScramServer};
use stentor_auth::credential::{ScramSecret, Sha};

static SALTED: LazyLock<SaltedPassword> = LazyLock::new(|| {
    SaltedPassword::derive(Sha::Sha256, b"pencil", b"0123456789abcdef", 4_096)
        .unwrap_or_else(|_| unreachable!("a plain password"))
});

fuzz_target!(|messages: (&[u8], &[u8], &[u8])| {
    let (first, second, third) = messages;
    if let Ok(first) = ClientFirst::parse(first) {
        let (server, challenge) = ScramServer::begin(&first, ScramSecret::of(&SALTED), "nonce");
        assert!(challenge.starts_with(b"r="));
        // Nobody guesses a proof.
        assert!(server.finish(second).is_err());
    }
    let client = ScramClient::with_salted(SALTED.clone(), b"pencil");
    let Ok((client, _)) = client.first("ann") else {
        return;
    };
    // Without the nonce of this exchange nothing is answered.
    assert!(client.answer(third).is_err());
});
