//! MQTT over everything that can carry it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
    generate_simple_self_signed,
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;
use stentor_client::{Client, ClientError, Options, Publication, Version};
use tungstenite::handshake::server::{Request, Response};

const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c";
const HELLO: &[u8] = b"\x30\x05\x00\x01thi";

fn options(url: &str) -> Options {
    let mut options = Options::new(url.parse().unwrap());
    options.version = Version::V311;
    options.client_id = "c".into();
    options
}

/// Logs in, hears one message, answers it, says goodbye.
fn talk(options: &Options) {
    let mut client = Client::connect(options).unwrap();
    let message = client.receive(None).unwrap().unwrap();
    client
        .publish(&Publication::new(&message.topic, &message.payload))
        .unwrap();
    client.disconnect().unwrap();
}

/// The other side of [`talk`].
fn answer(mut stream: impl Read + Write) {
    let mut read = |expected: &[u8], reply: &[u8]| {
        let mut bytes = vec![0; expected.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected);
        stream.write_all(reply).unwrap();
        stream.flush().unwrap();
    };
    read(CONNECT, b"\x20\x02\x00\x00");
    read(b"", HELLO);
    read(HELLO, b"");
    read(b"\xe0\x00", b"");
}

#[test]
fn unix_sockets_carry_mqtt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || answer(listener.accept().unwrap().0));
    talk(&options(&format!("unix:{}", path.display())));
    server.join().unwrap();
}

#[test]
fn web_sockets_carry_mqtt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/a/path", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        #[allow(clippy::result_large_err, reason = "the library's callback type")]
        let check = |request: &Request, mut response: Response| {
            assert_eq!(request.uri(), "/a/path");
            let offered = request
                .headers()
                .get("Sec-WebSocket-Protocol")
                .unwrap()
                .clone();
            assert_eq!(offered, "mqtt");
            response
                .headers_mut()
                .insert("Sec-WebSocket-Protocol", offered);
            Ok(response)
        };
        let mut socket = tungstenite::accept_hdr(listener.accept().unwrap().0, check).unwrap();
        assert_eq!(socket.read().unwrap().into_data(), CONNECT);
        socket
            .send(tungstenite::Message::binary(&b"\x20\x02"[..]))
            .unwrap();
        socket
            .send(tungstenite::Message::Ping(b"?".to_vec().into()))
            .unwrap();
        // Packets and frames end where they like [MQTT-6.0.0-2].
        socket
            .send(tungstenite::Message::binary(&b"\x00\x00\x30\x05\x00"[..]))
            .unwrap();
        socket
            .send(tungstenite::Message::binary(&b"\x01thi"[..]))
            .unwrap();
        assert!(socket.read().unwrap().is_pong());
        assert_eq!(socket.read().unwrap().into_data(), HELLO);
        assert_eq!(socket.read().unwrap().into_data(), &b"\xe0\x00"[..]);
        assert!(socket.read().unwrap().is_close());
    });
    talk(&options(&url));
    server.join().unwrap();
}

#[test]
fn a_web_server_that_will_not_upgrade_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut head = [0; 512];
        let _ = socket.read(&mut head).unwrap();
        socket
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    });
    let error = Client::connect(&options(&url)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "WebSocket: the server answered with status 404"
    );
    server.join().unwrap();
}

/// A TLS server for "localhost" that trusts nobody in particular; connects by 127.0.0.1 otherwise.
fn tls_server(host: &str, folder: &std::path::Path) -> (String, thread::JoinHandle<()>) {
    let names = ["localhost".to_owned()];
    tls_server_with(CertificateParams::new(names).unwrap(), host, folder)
}

/// The same with a certificate that signed itself; it is left in `ca.pem`.
fn tls_server_with(
    params: CertificateParams,
    host: &str,
    folder: &std::path::Path,
) -> (String, thread::JoinHandle<()>) {
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    std::fs::write(folder.join("ca.pem"), cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtts://{host}:{}", listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = StreamOwned::new(connection, listener.accept().unwrap().0);
        // A client that does not trust the certificate never gets as far as MQTT.
        if stream.conn.complete_io(&mut stream.sock).is_ok() {
            answer(stream);
        }
    });
    (url, server)
}

#[test]
fn tls_carries_mqtt_to_a_trusted_server() {
    let folder = tempfile::tempdir().unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let (url, server) = tls_server(host, folder.path());
        let mut options = options(&url);
        options.tls.ca_file = Some(folder.path().join("ca.pem"));
        options.tls.accept_any_name = host != "localhost";
        talk(&options);
        server.join().unwrap();
    }
}

#[test]
fn an_untrusted_or_misnamed_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(
        other.path().join("ca.pem"),
        generate_simple_self_signed(["localhost".to_owned()])
            .unwrap()
            .cert
            .pem(),
    )
    .unwrap();
    for (host, trusted) in [("localhost", other.path()), ("127.0.0.1", folder.path())] {
        let (url, server) = tls_server(host, folder.path());
        let mut options = options(&url);
        options.tls.ca_file = Some(trusted.join("ca.pem"));
        let error = Client::connect(&options).unwrap_err();
        assert!(matches!(error, ClientError::Tls(_)), "{host}: {error}");
        server.join().unwrap();
    }
}

/// What `openssl req -x509` makes calls itself an authority, which no server's certificate may be;
/// but it is the very one that the user named.
#[test]
fn a_certificate_that_signed_itself_is_trusted_by_its_own_name() {
    let params = || {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let expired = || {
        let mut params = params();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        params
    };
    let early = || {
        let mut params = params();
        params.not_before = date_time_ymd(4000, 1, 1);
        params
    };
    let for_clients = || {
        let mut params = params();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    };
    let folder = tempfile::tempdir().unwrap();
    for (params, host, accept_any_name, refusal) in [
        (params(), "localhost", false, None),
        (params(), "127.0.0.1", true, None),
        (
            params(),
            "127.0.0.1",
            false,
            Some("for another name: localhost"),
        ),
        (expired(), "localhost", true, Some("expired")),
        (early(), "localhost", true, Some("not valid yet")),
        (for_clients(), "localhost", true, Some("not for servers")),
    ] {
        let (url, server) = tls_server_with(params, host, folder.path());
        let mut options = options(&url);
        options.tls.ca_file = Some(folder.path().join("ca.pem"));
        options.tls.accept_any_name = accept_any_name;
        match refusal {
            None => talk(&options),
            Some(text) => {
                let error = Client::connect(&options).unwrap_err();
                assert!(matches!(error, ClientError::Tls(_)), "{text}: {error}");
                assert!(error.to_string().contains(text), "{text}: {error}");
            }
        }
        server.join().unwrap();
    }
}

/// Another certificate of the same name is another certificate.
#[test]
fn only_the_named_certificate_is_trusted_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let params = || {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let key = KeyPair::generate().unwrap();
    let twin = params().self_signed(&key).unwrap();
    std::fs::write(other.path().join("ca.pem"), twin.pem()).unwrap();
    let (url, server) = tls_server_with(params(), "localhost", folder.path());
    let mut options = options(&url);
    options.tls.ca_file = Some(other.path().join("ca.pem"));
    options.tls.accept_any_name = true;
    let error = Client::connect(&options).unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error}");
    server.join().unwrap();
}

#[test]
fn a_missing_authority_file_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = options(&format!("mqtts://{}", listener.local_addr().unwrap()));
    options.tls.ca_file = Some("/nonexistent/ca.pem".into());
    let error = Client::connect(&options).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/ca.pem"), "{error}");
}
