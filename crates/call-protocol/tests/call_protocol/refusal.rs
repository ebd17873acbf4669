//! What SMTP clients are told.

use stentor_call_protocol::{Refusal, Verdict};

#[test]
fn wishes_hold_if_they_fit_the_verdict() {
    for (verdict, code, status, text, shown) in [
        (Verdict::Reject, 0, "", "", "554 5.7.1 message refused"),
        (
            Verdict::Reject,
            552,
            "5.3.4",
            "too large",
            "552 5.3.4 too large",
        ),
        (Verdict::Reject, 450, "4.2.0", "no", "554 5.7.1 no"),
        (Verdict::Tempfail, 450, "4.2.0", "later", "450 4.2.0 later"),
        (Verdict::Tempfail, 550, "5.1.1", "later", "451 4.7.1 later"),
        (Verdict::Discard, 0, "", "gone", "554 5.7.1 gone"),
    ] {
        let refusal = Refusal::of(verdict, code, status, text);
        assert_eq!(refusal.to_string(), shown);
    }
}
