//! Where messages begin, and where their headers end.

use stentor_call_protocol::{Format, NoMessage, headers_end};

#[test]
fn a_message_begins_after_its_envelope() {
    use NoMessage::{Cut, NoMarker, TooFar};
    for (head, is_all, start) in [
        (&b"S2\r\n\r\n<<MAIL-DATA>>\r\na: b"[..], true, Ok(21)),
        (b"<<MAIL-DATA>>\n<<MAIL-DATA>>\n", true, Ok(14)),
        (b"<<MAIL-DATA>>  \r\n", false, Ok(17)),
        (b"S2\r\n<<MAIL-DATA>>", true, Err(Cut)),
        (b"S2\r\n", true, Err(NoMarker)),
        (b" <<MAIL-DATA>>\r\n", true, Err(NoMarker)),
        (b"S2\r\n", false, Err(TooFar)),
    ] {
        let found = Format::XmailSpool.message_start(head, is_all);
        assert_eq!(found, start, "{}", head.escape_ascii());
        assert_eq!(Format::Message.message_start(head, is_all), Ok(0));
    }
}

#[test]
fn headers_end_with_an_empty_line() {
    for (message, end) in [
        (&b"a: b\r\n\r\nbody"[..], Some(8)),
        (b"a: b\n\nbody", Some(6)),
        (b"\nbody", Some(1)),
        (b"a: b\r\n \r\nc: d\r\n\r\nbody", Some(17)),
        (b"a: b\r\nbody", None),
        (b"", None),
    ] {
        assert_eq!(headers_end(message), end, "{}", message.escape_ascii());
    }
}
