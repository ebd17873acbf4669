//! Both ends of the call protocol against bytes in pieces of any size. Neither may panic, take more
//! than it has, or find something in a part that it does not find in the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_call_protocol::{Arrival, Call, Conversation, Event, Reception, ToServer};

fuzz_target!(|data: &[u8]| {
    server(data);
    client(data);
});

/// What a server does with a caller's bytes.
fn server(mut input: &[u8]) {
    let mut reception = Reception::new();
    let mut missing = None;
    while let Ok(Some((arrival, taken))) = reception.receive(input) {
        match arrival {
            Arrival::Call(call) => {
                check_again(&call);
                if reception.can_ask() {
                    missing = Some(reception.ask());
                }
            }
            Arrival::Data(piece) => {
                let left = missing.unwrap_or_default().checked_sub(piece.len() as u64);
                missing = Some(left.expect("more of the file came than was announced"));
            }
            Arrival::Complete => assert_eq!(missing, Some(0)),
        }
        input = &input[taken..];
    }
}

/// What was decoded encodes to a frame that means the same.
fn check_again(call: &Call<'_>) {
    let mut bytes = Vec::new();
    call.encode(&mut bytes).expect("what was decoded can be encoded");
    let again = ToServer::decode(&bytes).expect("what was encoded can be decoded");
    assert_eq!(again, Some((ToServer::Call(call.clone()), bytes.len())));
}

/// What a caller does with a server's bytes: the first four say what it asked.
fn client(data: &[u8]) {
    let Some(([transfer, can_edit, size, head], mut input)) = data.split_first_chunk() else {
        return;
    };
    let head = vec![b'h'; usize::from(*head.min(size))];
    let call = Call {
        procedure: "p",
        token: b"",
        deadline_ms: 1,
        can_edit: can_edit & 1 == 1,
        transfer: if transfer & 1 == 1 {
            stentor_call_protocol::Transfer::OnDemand
        } else {
            stentor_call_protocol::Transfer::Descriptor
        },
        format: stentor_call_protocol::Format::Message,
        size: u64::from(*size),
        arguments: stentor_call_protocol::Arguments::default(),
        head: if transfer & 1 == 1 { &head } else { &[] },
    };
    let mut conversation = Conversation::of(&call);
    let mut edited_to = 0;
    while let Ok(Some((event, taken))) = conversation.receive(input) {
        match event {
            Event::SendFrom(from) => assert_eq!(from, head.len() as u64),
            Event::Edit(edit) => {
                assert!(call.can_edit && edit.offset >= edited_to);
                edited_to = edit.offset + edit.deleted;
                assert!(edited_to <= call.size);
            }
            Event::Answer(answer) => assert!(answer.text.len() <= 480),
        }
        input = &input[taken..];
    }
}
