//! PROXY protocol headers: the same whether they come at once or in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_server::proxy::ProxyHeader;

fuzz_target!(|input: &[u8]| {
    let whole = ProxyHeader::read(input);
    let Ok(Some((header, len))) = whole else {
        return;
    };
    assert!(len <= input.len());
    assert_eq!(ProxyHeader::read(&input[..len]), Ok(Some((header, len))));
    for end in 0..len.min(200) {
        assert_eq!(ProxyHeader::read(&input[..end]), Ok(None));
    }
});
