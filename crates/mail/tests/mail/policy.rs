//! Policy delegation: what is read, what is refused, what is answered.

use proptest::prelude::*;
use stentor_mail::policy::{ACTION_BYTES_MAX, REQUEST_BYTES_MAX, Request, encode_action};
use stentor_mail::{NAME_BYTES_MAX, Violation};

const RCPT: &str = "request=smtpd_access_policy\nprotocol_state=RCPT\nprotocol_name=SMTP\n\
    helo_name=a.test\nqueue_id=\nsender=\nrecipient=b@here.test\nrecipient_count=0\n\
    client_address=192.0.2.1\nclient_name=unknown\ninstance=1.2.3.0\nsasl_username=bob\nsize=12345\n\
    unknown_attribute=a=b\n\n";

#[test]
fn a_request_is_read() {
    let (request, taken) = Request::decode(RCPT.as_bytes()).unwrap().unwrap();
    assert_eq!(taken, RCPT.len());
    let expected = Request {
        state: Some("RCPT".into()),
        sender: Some(String::new()),
        recipient: Some("b@here.test".into()),
        client: Some("192.0.2.1".into()),
        helo: Some("a.test".into()),
        user: Some("bob".into()),
        queue_id: None,
        instance: Some("1.2.3.0".into()),
        size: Some(12345),
    };
    assert_eq!(request, expected);
    // The next one is left alone.
    let two = [RCPT, "size=0\n"].concat();
    assert_eq!(
        Request::decode(two.as_bytes()).unwrap().unwrap().1,
        RCPT.len()
    );
    assert_eq!(Request::decode(&two.as_bytes()[RCPT.len()..]), Ok(None));
}

/// Postfix sends all attributes, also those that say nothing; what is cut off anywhere is no
/// request yet, whatever it is.
#[test]
fn a_request_comes_in_pieces() {
    let text = "sender=a=b@c\nsasl_method=\nsasl_username=\nhelo_name==\n=\nsize=-1\n\n";
    for end in 0..text.len() {
        assert_eq!(Request::decode(&text.as_bytes()[..end]), Ok(None), "{end}");
    }
    let expected = Request {
        sender: Some("a=b@c".into()),
        helo: Some("=".into()),
        ..Request::default()
    };
    let found = Request::decode(text.as_bytes());
    assert_eq!(found, Ok(Some((expected, text.len()))));
    assert_eq!(Request::decode(b"\n"), Ok(Some((Request::default(), 1))));
}

#[test]
fn what_is_none_is_refused() {
    // The last two have the first bytes of MQTT and of TLS, whose clients wait for an answer.
    for text in [
        "GET / HTTP/1.1\r\n\r\n",
        "a=b\nc\n\n",
        "\x10\x12",
        "\x16\x03",
    ] {
        assert_eq!(Request::decode(text.as_bytes()), Err(Violation::Line));
    }
    let endless = vec![b'='; REQUEST_BYTES_MAX + 1];
    assert_eq!(
        Request::decode(&endless),
        Err(Violation::TooLong("request"))
    );
}

#[test]
fn what_procedures_are_told_is_bounded() {
    for name in [
        "sender",
        "recipient",
        "client_address",
        "helo_name",
        "queue_id",
    ] {
        let request = |bytes| format!("{name}={}\n\n", "a".repeat(bytes));
        assert!(Request::decode(request(NAME_BYTES_MAX).as_bytes()).is_ok());
        let found = Request::decode(request(NAME_BYTES_MAX + 1).as_bytes());
        assert!(
            matches!(found, Err(Violation::TooLong(_))),
            "{name}: {found:?}"
        );
    }
    // What nobody is told may be as long as the request.
    let other = format!("ccert_subject={}\n\n", "a".repeat(NAME_BYTES_MAX + 1));
    assert!(Request::decode(other.as_bytes()).is_ok());
}

#[test]
fn an_answer_is_one_line() {
    let shown = |action: &str| {
        let mut bytes = Vec::new();
        encode_action(action, &mut bytes);
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(shown("DUNNO"), "action=DUNNO\n\n");
    assert_eq!(shown("550 a\r\nb"), "action=550 a  b\n\n");
    let long = shown(&"ä".repeat(1000));
    assert!(long.len() <= ACTION_BYTES_MAX + 9, "{}", long.len());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(input: Vec<u8>) {
        if let Ok(Some((_, taken))) = Request::decode(&input) {
            prop_assert!(taken <= input.len());
        }
    }
}
