//! The PROXY protocol, from those who are listed and from others.

use stentor_tests::raw::{connect, eventually};
use stentor_tests::{Plan, Raw, Server, Version};

/// Version 2 for TCP over IPv4: 203.0.113.9:4711 to 192.0.2.2:1883.
const BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x09\xc0\0\x02\x02\x12\x67\x07\x5b";

fn server(proxies: &str) -> Server {
    let listener = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\nproxies = [\"{proxies}\"]\n"
    );
    Plan::new().config(&listener).start()
}

fn said(server: &Server, header: &[u8]) -> Raw {
    let mut client = server.dial();
    let hello = connect(Version::V5, "c", true);
    client.send(&[header, &hello].concat());
    client
}

#[test]
fn the_address_in_the_header_is_the_clients() {
    let server = server("127.0.0.0/8");
    for (header, address) in [
        (
            &b"PROXY TCP4 203.0.113.7 192.0.2.2 4711 1883\r\n"[..],
            "203.0.113.7",
        ),
        (b"PROXY TCP6 2001:db8::7 ::1 4711 1883\r\n", "2001:db8::7"),
        (BINARY, "203.0.113.9"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ] {
        let mut client = said(&server, header);
        assert_eq!(client.expect(2).body[1], 0, "{address}");
        let shown = server.json(&["clients", "show", "c"]).to_string();
        assert!(shown.contains(address), "{address}: {shown}");
        drop(client);
    }
}

#[test]
fn a_listed_address_without_a_header_is_not_served() {
    let server = server("127.0.0.1");
    let mut broken = BINARY.to_vec();
    broken[12] = 0x31;
    for header in [
        &b""[..],
        b"PROXY TCP4 203.0.113.7 192.0.2.2 4711\r\n",
        b"PROXY TCP4 203.0.113.777 192.0.2.2 4711 1883\r\n",
        &[b'P'; 200],
        &broken,
    ] {
        let mut client = said(&server, header);
        client.closed();
    }
    eventually("nobody is left", || {
        server.json(&["status"])["connections"] == 0
    });
}

/// A proxy that is not listed cannot choose an address.
#[test]
fn a_header_from_elsewhere_is_no_mqtt() {
    let server = server("192.0.2.1");
    for header in [
        &b"PROXY TCP4 203.0.113.7 192.0.2.2 4711 1883\r\n"[..],
        BINARY,
    ] {
        assert!(said(&server, header).rest().is_empty());
    }
    assert_eq!(said(&server, b"").expect(2).body[1], 0);
}
