//! WebSocket: the upgrade, then MQTT in binary frames.

use std::sync::Arc;

use stentor_session::{Batch, CloseReason, Denied, Limit, Remote, Violation};
use stentor_websocket::{
    CloseCode, Decoder, Event, FrameError, Kind, Limits, Opcode, Request, Role, Status,
    UpgradeError, choose_subprotocol, encode_close, encode_pong, frame_header, origin_allowed,
    parse_request, response_accept, response_refuse,
};

use super::{Fault, Pending};
use crate::listener::WebRules;

/// The subprotocols of MQTT 3.1.1 and 5, and of 3.1.
const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// A frame may be as long as the longest packet and its header. Frames are never collected, so
/// this bounds no memory.
const FRAME_BYTES_MAX: u64 = (1 << 28) + 5;

const BROKEN: CloseReason = CloseReason::Violation(Violation::WebSocket);

/// While more than this waits to be written, pings are not answered: the peer does not take the
/// answers to earlier ones, and may be answered the latest only (RFC 6455, 5.5.3).
const PONG_BYTES_MAX: usize = 16 * 1024;

/// Whether pings are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pongs {
    Sent,
    /// The layer below has too much to write already.
    LeftOut,
}

impl Pongs {
    /// What holds while so much waits to be written below.
    pub(super) const fn with_pending(pending_bytes: usize) -> Self {
        if pending_bytes < PONG_BYTES_MAX {
            Self::Sent
        } else {
            Self::LeftOut
        }
    }
}

/// One connection's WebSocket state.
#[derive(Debug)]
pub(crate) struct WebSocket {
    state: State,
    pending: Pending,
}

#[derive(Debug)]
enum State {
    /// The head of the request, as far as it has arrived.
    ExpectRequest(Vec<u8>, Arc<WebRules>),
    Open(Decoder),
    /// This side sends no more frames; what arrives is thrown away.
    Closed,
    /// The same, because of this.
    Failed(Fault),
}

/// Of an origin or a path that is not let in, no more than this reaches the log, in bytes.
const ORIGIN_BYTES_MAX: usize = 200;

impl WebSocket {
    /// The server's side of an upgrade that has not begun.
    pub(super) const fn accept(rules: Arc<WebRules>) -> Self {
        Self {
            state: State::ExpectRequest(Vec::new(), rules),
            pending: Pending::new(),
        }
    }

    /// Takes bytes and appends the payload in them to `mqtt`.
    ///
    /// # Errors
    /// When the request is refused or answered with a page, a frame breaks the protocol, or the
    /// peer closes; the answer is pending then.
    pub(super) fn receive(
        &mut self,
        input: &mut [u8],
        mqtt: &mut Vec<u8>,
        pongs: Pongs,
    ) -> Result<(), CloseReason> {
        match &mut self.state {
            State::Open(_) => self.unwrap(input, mqtt, pongs),
            State::Closed | State::Failed(_) => Ok(()),
            State::ExpectRequest(head, rules) => {
                head.extend_from_slice(input);
                let answer = match parse_request(head, Limits::default()) {
                    Ok(None) => return Ok(()),
                    Ok(Some((request, len))) => decide(&request, rules).map(|answer| (answer, len)),
                    Err(error) => Err(refuse(error)),
                };
                let mut rest = match &answer {
                    Ok((_, len)) => head.split_off(*len),
                    Err(_) => Vec::new(),
                };
                let (state, response, result) = match answer {
                    Ok((response, _)) => {
                        let decoder = Decoder::new(Role::Server, FRAME_BYTES_MAX);
                        (State::Open(decoder), response, Ok(()))
                    }
                    Err(refused) => {
                        let state = refused.fault.map_or(State::Closed, State::Failed);
                        (state, refused.response, Err(refused.reason))
                    }
                };
                self.state = state;
                self.pending.bytes_mut().extend_from_slice(&response);
                result.and_then(|()| self.unwrap(&mut rest, mqtt, pongs))
            }
        }
    }

    fn unwrap(
        &mut self,
        input: &mut [u8],
        mqtt: &mut Vec<u8>,
        pongs: Pongs,
    ) -> Result<(), CloseReason> {
        let State::Open(decoder) = &mut self.state else {
            return Ok(());
        };
        let mut at = 0;
        loop {
            let rest = &mut input[at..];
            let (consumed, data) = match decoder.decode(rest) {
                Ok(step) => match step.event {
                    Event::NeedMore => return Ok(()),
                    Event::Data(range) => (step.consumed, range),
                    Event::Ping(payload) => {
                        let takes_answers = self.pending.as_slice().len() < PONG_BYTES_MAX;
                        if pongs == Pongs::Sent && takes_answers {
                            encode_pong(payload, None, self.pending.bytes_mut());
                        }
                        (step.consumed, 0..0)
                    }
                    Event::Pong(_) => (step.consumed, 0..0),
                    Event::Close(code, _) => {
                        encode_close(code, "", None, self.pending.bytes_mut());
                        self.state = State::Closed;
                        return Err(CloseReason::Remote(Remote::Closed));
                    }
                },
                Err(error) => return Err(self.fail(error)),
            };
            mqtt.extend_from_slice(&input[at..][data]);
            at += consumed;
        }
    }

    fn fail(&mut self, error: FrameError) -> CloseReason {
        let reason = error.to_string();
        encode_close(
            Some(error.close_code()),
            &reason,
            None,
            self.pending.bytes_mut(),
        );
        let what = match error {
            FrameError::Text => "MQTT is sent in binary frames",
            _ => "something else than a WebSocket client sent it, or a proxy changed it",
        };
        self.state = State::Failed(Fault::Said(format!("{reason}; {what}").into()));
        BROKEN
    }

    /// Puts the bytes of a batch into one binary frame.
    pub(super) fn send(&mut self, batch: &Batch) {
        if batch.is_empty() || !matches!(self.state, State::Open(_)) {
            return;
        }
        let out = self.pending.bytes_mut();
        out.reserve(batch.len() + 10);
        out.extend_from_slice(&frame_header(batch.len() as u64, Opcode::Binary, None));
        for piece in batch.slices() {
            out.extend_from_slice(piece);
        }
    }

    /// Sends a close frame, unless that was done.
    pub(super) fn close(&mut self) {
        if matches!(self.state, State::Open(_)) {
            encode_close(Some(CloseCode::NORMAL), "", None, self.pending.bytes_mut());
            self.state = State::Closed;
        }
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.pending.as_slice()
    }

    /// What was wrong, if that was the reason to close.
    pub(super) const fn fault(&self) -> Option<&Fault> {
        match &self.state {
            State::Failed(fault) => Some(fault),
            State::ExpectRequest(..) | State::Open(_) | State::Closed => None,
        }
    }

    pub(super) fn forget(&mut self, written: usize) {
        self.pending.forget(written);
    }

    /// Bytes of memory that it holds beside itself: the head of a request that has not come whole,
    /// and what waits for the socket.
    pub(super) const fn heap_bytes(&self) -> usize {
        self.received_bytes() + self.pending.heap_bytes()
    }

    /// The same of the head of a request.
    pub(super) const fn received_bytes(&self) -> usize {
        match &self.state {
            State::ExpectRequest(head, _) => head.capacity(),
            State::Open(_) | State::Closed | State::Failed(_) => 0,
        }
    }
}

/// At most [`ORIGIN_BYTES_MAX`] bytes of a text.
fn shortened(text: &str) -> &str {
    let end = (0..=ORIGIN_BYTES_MAX.min(text.len())).rev();
    let end = end.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// An answer, why the connection is closed after it, and what the log says about it.
struct Refused {
    response: Vec<u8>,
    reason: CloseReason,
    fault: Option<Fault>,
}

impl Refused {
    fn new(status: Status, body: &str, reason: CloseReason) -> Self {
        let mut response = Vec::new();
        response_refuse(status, body, &mut response);
        Self {
            response,
            reason,
            fault: None,
        }
    }

    fn with_fault(mut self, said: String) -> Self {
        self.fault = Some(Fault::Said(said.into()));
        self
    }
}

fn refuse(error: UpgradeError) -> Refused {
    let reason = match error {
        UpgradeError::HeadTooLong | UpgradeError::TooManyHeaders => {
            CloseReason::Limit(Limit::RequestBytes)
        }
        _ => BROKEN,
    };
    let remedy = match error {
        UpgradeError::Malformed => {
            "this listener speaks WebSocket; plain MQTT has a listener mqtt://, TLS one of wss://"
        }
        UpgradeError::Connection | UpgradeError::HostMissing => {
            "a proxy in between has to pass Upgrade, Connection and Host on"
        }
        UpgradeError::HeadTooLong
        | UpgradeError::TooManyHeaders
        | UpgradeError::Method
        | UpgradeError::AmbiguousHeader
        | UpgradeError::Version
        | UpgradeError::Key
        | UpgradeError::Body => "the client has to send a valid WebSocket handshake",
    };
    Refused::new(error.status(), &format!("{error}\n"), reason)
        .with_fault(format!("{error}; {remedy}"))
}

/// The answer to a request that makes it a WebSocket, or one that does not.
fn decide(request: &Request<'_>, rules: &WebRules) -> Result<Vec<u8>, Refused> {
    let Kind::Upgrade { key, protocols } = &request.kind else {
        return Err(page(rules));
    };
    let local = rules.is_local;
    if !origin_allowed(request.origin, request.host, &rules.allowed_origins, local) {
        let body = if local {
            "this listener takes pages and a Host of this machine only, such as localhost; the \
             server's log says how to allow this page\n"
        } else {
            "this page's origin may not connect here; the server's log says how to allow it\n"
        };
        let origin = shortened(request.origin.unwrap_or_default());
        let reason = CloseReason::Denied(Denied::Origin);
        return Err(Refused {
            fault: Some(Fault::Origin(origin.into())),
            ..Refused::new(Status::Forbidden, body, reason)
        });
    }
    if let Some(path) = &rules.path
        && path != request.path
    {
        let body = "there is no WebSocket at this path\n";
        let asked = shortened(request.path);
        let said = format!(
            "it asked for the path {asked:?}, and this listener serves {path:?} only; correct the \
             URL of the client, or the key `path`"
        );
        return Err(Refused::new(Status::NotFound, body, BROKEN).with_fault(said));
    }
    let subprotocol = choose_subprotocol(protocols, &SUBPROTOCOLS);
    if subprotocol.is_none() && !protocols.is_empty() {
        let body = "the subprotocol spoken here is \"mqtt\"\n";
        let said =
            "it offered no subprotocol that is spoken here; have the client ask for \"mqtt\"";
        return Err(Refused::new(Status::BadRequest, body, BROKEN).with_fault(said.to_owned()));
    }
    let mut response = Vec::new();
    response_accept(key, subprotocol, &mut response);
    Ok(response)
}

/// What somebody sees who opens this port in a browser.
fn page(rules: &WebRules) -> Refused {
    let path = rules.path.as_deref().unwrap_or("/mqtt");
    let body = format!(
        "This is a Stentor server. This port speaks MQTT over WebSocket: connect an MQTT client to \
         {}{path} (subprotocol \"mqtt\").\n",
        rules.url
    );
    Refused::new(Status::Ok, &body, CloseReason::Remote(Remote::Closed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_session::Output;
    use stentor_session::Tick;

    fn rules() -> WebRules {
        WebRules {
            path: None,
            allowed_origins: Vec::new(),
            is_local: false,
            url: "ws://192.0.2.1:8083".into(),
        }
    }

    fn request(path: &str, extra: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nHost: 192.0.2.1:8083\r\nUpgrade: websocket\r\nConnection: \
             Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: \
             13\r\n{extra}\r\n"
        )
        .into_bytes()
    }

    /// What a request is answered with, and the status of the connection afterwards.
    fn answer(rules: WebRules, request: &[u8]) -> (String, Result<(), CloseReason>) {
        let mut web = WebSocket::accept(Arc::new(rules));
        let result = web.receive(&mut request.to_vec(), &mut Vec::new(), Pongs::Sent);
        (String::from_utf8(web.pending().to_vec()).unwrap(), result)
    }

    fn masked(payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = frame_header(payload.len() as u64, Opcode::Binary, Some(mask)).to_vec();
        let start = frame.len();
        frame.extend_from_slice(payload);
        stentor_websocket::apply_mask(&mut frame[start..], mask);
        frame
    }

    #[test]
    fn a_head_and_what_waits_for_the_socket_are_counted() {
        let mut web = WebSocket::accept(Arc::new(rules()));
        assert_eq!(web.heap_bytes(), 0);
        let mut head = b"GET / HTTP/1.1\r\nHost: ".to_vec();
        head.resize(1_000, b'a');
        let mut mqtt = Vec::new();
        web.receive(&mut head, &mut mqtt, Pongs::Sent).unwrap();
        assert!(web.heap_bytes() >= 1_000 && mqtt.is_empty());
        let mut nonsense = b"\r\n\r\n".to_vec();
        web.receive(&mut nonsense, &mut mqtt, Pongs::Sent)
            .unwrap_err();
        let waits = web.pending().len();
        assert!(waits > 0 && web.heap_bytes() >= waits);
        web.forget(waits);
        assert_eq!(web.heap_bytes(), 0);
    }

    #[test]
    fn the_log_gets_a_bounded_piece_of_a_refused_origin() {
        for (origin, logged) in [
            ("https://evil.example".to_owned(), 20),
            (format!("https://{}", "ä".repeat(300)), ORIGIN_BYTES_MAX),
        ] {
            let mut web = WebSocket::accept(Arc::new(rules()));
            let mut head = request("/", &format!("Origin: {origin}\r\n"));
            let result = web.receive(&mut head, &mut Vec::new(), Pongs::Sent);
            assert_eq!(result, Err(CloseReason::Denied(Denied::Origin)));
            let Some(Fault::Origin(refused)) = web.fault() else {
                panic!("it was refused");
            };
            assert!(origin.starts_with(&**refused));
            assert_eq!(refused.len(), logged);
        }
    }

    #[test]
    fn frames_may_follow_the_request_in_any_pieces() {
        let mut stream = request("/", "Sec-WebSocket-Protocol: mqtt\r\n");
        stream.extend_from_slice(&masked(b"hello "));
        stream.extend_from_slice(&masked(b"world"));
        for step in [1, 10, 1000] {
            let mut web = WebSocket::accept(Arc::new(rules()));
            let mut mqtt = Vec::new();
            for piece in stream.chunks(step) {
                web.receive(&mut piece.to_vec(), &mut mqtt, Pongs::Sent)
                    .unwrap();
            }
            assert_eq!(mqtt, b"hello world");
            let response = std::str::from_utf8(web.pending()).unwrap();
            assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
            assert!(response.contains("Sec-WebSocket-Protocol: mqtt\r\n"));
        }
    }

    #[test]
    fn a_batch_becomes_one_frame() {
        let mut web = WebSocket::accept(Arc::new(rules()));
        web.receive(&mut request("/", ""), &mut Vec::new(), Pongs::Sent)
            .unwrap();
        web.forget(web.pending().len());
        let mut output = Output::default();
        output.push_control(b"abc");
        output.push_control(b"def");
        let mut batch = Batch::new();
        output.gather(Tick::ZERO, None, 1000, &mut batch);
        web.send(&batch);
        assert_eq!(web.pending(), b"\x82\x06abcdef");
        web.close();
        web.close();
        assert_eq!(web.pending(), b"\x82\x06abcdef\x88\x02\x03\xe8");
        web.send(&batch);
        assert_eq!(web.pending().len(), 12, "nothing follows the close frame");
    }

    #[test]
    fn rules_decide_who_is_let_in() {
        type Case = (
            &'static str,
            &'static str,
            WebRules,
            &'static str,
            Result<(), CloseReason>,
        );
        let cases: [Case; 6] = [
            ("/any", "", rules(), "101", Ok(())),
            (
                "/",
                "Sec-WebSocket-Protocol: mqttv3.1\r\n",
                rules(),
                "101",
                Ok(()),
            ),
            (
                "/",
                "Sec-WebSocket-Protocol: chat\r\n",
                rules(),
                "400",
                Err(BROKEN),
            ),
            (
                "/other",
                "",
                WebRules {
                    path: Some("/mqtt".into()),
                    ..rules()
                },
                "404",
                Err(BROKEN),
            ),
            (
                "/",
                "Origin: https://evil.example\r\n",
                rules(),
                "403",
                Err(CloseReason::Denied(Denied::Origin)),
            ),
            (
                "/",
                "Origin: https://good.example\r\n",
                WebRules {
                    allowed_origins: vec!["https://good.example".into()],
                    ..rules()
                },
                "101",
                Ok(()),
            ),
        ];
        for (path, extra, rules, status, expected) in cases {
            let (response, result) = answer(rules, &request(path, extra));
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status} ")),
                "{extra}: {response}"
            );
            assert_eq!(result, expected, "{extra}");
        }
    }

    #[test]
    fn a_browser_learns_what_this_port_is() {
        let (response, result) = answer(rules(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert!(response.contains("ws://192.0.2.1:8083/mqtt"));
        assert_eq!(result, Err(CloseReason::Remote(Remote::Closed)));
    }

    #[test]
    fn mqtt_without_websocket_is_refused() {
        let (response, result) = answer(rules(), b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0");
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
        assert_eq!(result, Err(BROKEN));
    }

    /// A client that pings without reading the answers gets no more of them.
    #[test]
    fn pongs_do_not_pile_up() {
        let mut web = WebSocket::accept(Arc::new(rules()));
        web.receive(&mut request("/", ""), &mut Vec::new(), Pongs::Sent)
            .unwrap();
        for _ in 0..10_000 {
            let mut ping = b"\x89\x84\0\0\0\0ping".to_vec();
            web.receive(&mut ping, &mut Vec::new(), Pongs::Sent)
                .unwrap();
        }
        assert!(web.pending().len() < PONG_BYTES_MAX + 10);
        let len = web.pending().len();
        web.forget(len);
        let mut ping = b"\x89\x80\0\0\0\0".to_vec();
        web.receive(&mut ping, &mut Vec::new(), Pongs::LeftOut)
            .unwrap();
        assert!(web.pending().is_empty());
    }

    #[test]
    fn pings_are_answered_and_closes_too() {
        let mut web = WebSocket::accept(Arc::new(rules()));
        web.receive(&mut request("/", ""), &mut Vec::new(), Pongs::Sent)
            .unwrap();
        web.forget(web.pending().len());
        let mut ping = b"\x89\x82\0\0\0\0hi".to_vec();
        web.receive(&mut ping, &mut Vec::new(), Pongs::Sent)
            .unwrap();
        assert_eq!(web.pending(), b"\x8a\x02hi");
        web.forget(4);
        let mut close = b"\x88\x82\0\0\0\0\x03\xe8".to_vec();
        let result = web.receive(&mut close, &mut Vec::new(), Pongs::Sent);
        assert_eq!(result, Err(CloseReason::Remote(Remote::Closed)));
        assert_eq!(web.pending(), b"\x88\x02\x03\xe8");
    }
}
