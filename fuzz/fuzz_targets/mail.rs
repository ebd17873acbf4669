//! What mail servers say, in any order: the milter session and policy requests. Neither may panic,
//! take more than it has, or keep more than its bounds; and any two messages have a difference.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_mail::RECIPIENTS_MAX;
use stentor_mail::milter::{Command, Event, HEADERS_BYTES_MAX, Session, changes};
use stentor_mail::policy::Request;

fuzz_target!(|data: &[u8]| {
    let mut session = Session::new();
    let mut rest = data;
    while let Ok(Some((command, taken))) = Command::decode(rest) {
        rest = rest.get(taken..).expect("no command is longer than the input");
        match session.receive(&command) {
            Ok(Event::End(piece)) => {
                let message = [&session.transaction().headers[..], b"\r\n", piece].concat();
                changes(&message, data, session.has_space());
                session.settle();
            }
            Ok(_) => {}
            Err(_) => break,
        }
        let message = session.transaction();
        assert!(message.recipients.len() <= RECIPIENTS_MAX);
        assert!(message.headers.len() <= 2 * HEADERS_BYTES_MAX);
    }
    if let Ok(Some((_, taken))) = Request::decode(data) {
        assert!(taken <= data.len());
    }
});
