//! Which frame may come when, at both ends.

use stentor_call_protocol::limits::EDITS_MAX;
use stentor_call_protocol::{
    Answer, Arguments, Arrival, Call, Conversation, Edit, Event, Format, Reception, Status,
    Transfer, Verdict, Violation, encode_data, encode_end, encode_need_body,
};

fn call(transfer: Transfer, size: u64, head: &[u8]) -> Call<'_> {
    Call {
        procedure: "p",
        token: b"",
        deadline_ms: 1,
        can_edit: true,
        transfer,
        format: Format::Message,
        size,
        arguments: Arguments::default(),
        head,
    }
}

fn encoded(call: &Call<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    call.encode(&mut bytes).expect("a valid call");
    bytes
}

fn need_body() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_need_body(&mut bytes);
    bytes
}

fn edit(offset: u64, deleted: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let edit = Edit {
        offset,
        deleted,
        inserted: b"x",
    };
    edit.encode(&mut bytes).expect("a valid edit");
    bytes
}

fn answer(edits: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let verdict = if edits > 0 {
        Verdict::Modified
    } else {
        Verdict::Accept
    };
    let answer = Answer {
        verdict: Some(verdict),
        edits,
        ..Answer::of(Status::Done, "")
    };
    answer.encode(&mut bytes).expect("a valid answer");
    bytes
}

/// Feeds frames to a caller; the result of the last one.
fn converse(call: &Call<'_>, frames: &[Vec<u8>]) -> Result<(), Violation> {
    let mut conversation = Conversation::of(call);
    for frame in frames {
        let (_, taken) = conversation.receive(frame)?.expect("frames are whole");
        assert_eq!(taken, frame.len());
    }
    Ok(())
}

#[test]
fn the_file_is_asked_for_once_and_only_on_demand() {
    let on_demand = call(Transfer::OnDemand, 9, b"a: b");
    let mut conversation = Conversation::of(&on_demand);
    let asked = need_body();
    let event = conversation.receive(&asked).unwrap().unwrap().0;
    assert_eq!(event, Event::SendFrom(4));
    assert_eq!(
        conversation.receive(&asked),
        Err(Violation::Unexpected(0x81))
    );
    let passed = call(Transfer::Descriptor, 9, b"");
    assert!(converse(&passed, &[need_body()]).is_err());
    assert!(converse(&call(Transfer::None, 0, b""), &[need_body()]).is_err());
}

#[test]
fn edits_stay_in_order_and_inside_the_file() {
    let whole = call(Transfer::Descriptor, 10, b"");
    let good = [
        edit(0, 0),
        edit(0, 2),
        edit(2, 0),
        edit(2, 8),
        edit(10, 0),
        answer(5),
    ];
    assert_eq!(converse(&whole, &good), Ok(()));
    for bad in [
        vec![edit(4, 4), edit(7, 0)],
        vec![edit(4, 0), edit(3, 0)],
        vec![edit(11, 0)],
        vec![edit(10, 1)],
    ] {
        assert_eq!(converse(&whole, &bad), Err(Violation::Value("edit")));
    }
    // One that did not ask for edits gets none.
    let fixed = Call {
        can_edit: false,
        ..whole
    };
    assert!(converse(&fixed, &[edit(0, 0)]).is_err());
}

#[test]
fn an_answer_counts_its_edits_and_is_the_last_frame() {
    let whole = call(Transfer::Descriptor, 10, b"");
    assert!(converse(&whole, &[answer(1)]).is_err());
    assert!(converse(&whole, &[edit(0, 0), answer(2)]).is_err());
    assert!(converse(&whole, &[edit(0, 0), answer(0)]).is_err());
    for late in [answer(0), edit(0, 0), need_body()] {
        let result = converse(&whole, &[answer(0), late]);
        assert!(matches!(result, Err(Violation::Unexpected(_))));
    }
}

#[test]
fn there_are_only_so_many_edits() {
    let whole = call(Transfer::Descriptor, 10, b"");
    let mut frames = vec![edit(3, 0); EDITS_MAX];
    assert_eq!(converse(&whole, &frames), Ok(()));
    frames.push(edit(3, 0));
    assert!(converse(&whole, &frames).is_err());
}

fn data(piece: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_data(piece, &mut bytes).expect("a short piece");
    bytes
}

fn end() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_end(&mut bytes);
    bytes
}

#[test]
fn a_file_comes_whole_after_it_was_asked_for() {
    let mut reception = Reception::new();
    assert!(!reception.can_ask());
    let bytes = encoded(&call(Transfer::OnDemand, 9, b"a: b"));
    assert!(matches!(
        reception.receive(&bytes),
        Ok(Some((Arrival::Call(_), _)))
    ));
    assert!(reception.can_ask());
    assert_eq!(reception.ask(), 5);
    assert!(!reception.can_ask());
    for (frame, arrival) in [
        (data(b"12"), Arrival::Data(b"12")),
        (data(b""), Arrival::Data(b"")),
        (data(b"345"), Arrival::Data(b"345")),
        (end(), Arrival::Complete),
    ] {
        assert_eq!(reception.receive(&frame).unwrap().unwrap().0, arrival);
    }
    // Nothing may follow.
    assert!(reception.receive(&end()).is_err());
}

#[test]
fn files_that_are_shorter_or_longer_than_announced_are_refused() {
    for frames in [
        vec![end()],
        vec![data(b"123456")],
        vec![data(b"1234"), end()],
    ] {
        let mut reception = Reception::new();
        let bytes = encoded(&call(Transfer::OnDemand, 9, b"a: b"));
        reception.receive(&bytes).unwrap();
        reception.ask();
        let results: Vec<_> = frames
            .iter()
            .map(|frame| reception.receive(frame).map(|_| ()))
            .collect();
        assert_eq!(results.last(), Some(&Err(Violation::Size)));
    }
}

#[test]
fn nothing_comes_before_the_call_or_without_being_asked() {
    for frame in [data(b"x"), end()] {
        let violation = Reception::new().receive(&frame).unwrap_err();
        assert!(matches!(violation, Violation::Unexpected(_)));
        let mut reception = Reception::new();
        let bytes = encoded(&call(Transfer::OnDemand, 9, b"a: b"));
        reception.receive(&bytes).unwrap();
        assert!(reception.receive(&frame).is_err());
        assert!(reception.receive(&bytes).is_err());
    }
}

#[test]
fn a_file_that_is_there_already_is_not_asked_for() {
    for whole in [
        call(Transfer::None, 0, b""),
        call(Transfer::Descriptor, 9, b""),
        call(Transfer::OnDemand, 4, b"a: b"),
    ] {
        let mut reception = Reception::new();
        reception.receive(&encoded(&whole)).unwrap();
        assert!(!reception.can_ask());
    }
}
