//! The call itself: one write, then reads until the answer.

use stentor_call_protocol::limits::DATA_BYTES_MAX;
use stentor_call_protocol::{
    Argument, Arguments, Call, Conversation, Event, HEADER_BYTES, Transfer, encode_data, encode_end,
};

use crate::args::Options;
use crate::edit::Change;
use crate::fault::Fault;
use crate::file::Message;
use crate::line::{Cipher, Line};
use crate::outcome::Outcome;
use crate::platform::Deadline;

/// What all changes may insert together: they are kept until the answer has come.
const INSERTED_BYTES_MAX: usize = 64 << 20;

/// Room for one reading; the usual answer is much shorter.
const READ_BYTES: usize = 4096;

/// Calls the procedure.
///
/// # Errors
/// When no valid answer comes before the deadline.
pub(crate) fn talk(
    options: &Options,
    cipher: Option<Box<dyn Cipher>>,
    message: Option<&Message>,
    deadline: &Deadline,
) -> Result<(Outcome, Vec<Change>), Fault> {
    let mut line = Line::connect(&options.server, cipher, deadline)?;
    let mut head = Vec::new();
    let transfer = match message {
        None => Transfer::None,
        Some(_) if line.passes_files() => Transfer::Descriptor,
        Some(message) => {
            head = message.head(options.format)?;
            Transfer::OnDemand
        }
    };
    let mut buffer = Vec::new();
    let arguments = options
        .arguments
        .iter()
        .map(|(name, value)| Argument { name, value });
    let left_ms = deadline.left()?.as_millis().max(1);
    let call = Call {
        procedure: &options.procedure,
        token: &options.token,
        deadline_ms: u32::try_from(left_ms).unwrap_or(u32::MAX),
        can_edit: message.is_some() && options.changed != crate::args::Changed::Refused,
        transfer,
        format: options.format,
        size: message.map_or(0, |message| message.size),
        arguments: Arguments::encode(arguments, &mut buffer).map_err(Fault::Unspeakable)?,
        head: &head,
    };
    let mut conversation = Conversation::of(&call);
    let mut out = Vec::new();
    call.encode(&mut out).map_err(Fault::Unspeakable)?;
    let passed = message.filter(|_| transfer == Transfer::Descriptor);
    line.send(&out, passed.map(|message| &message.file), deadline)?;
    listen(&mut line, &mut conversation, options, message, deadline)
}

fn listen(
    line: &mut Line,
    conversation: &mut Conversation,
    options: &Options,
    message: Option<&Message>,
    deadline: &Deadline,
) -> Result<(Outcome, Vec<Change>), Fault> {
    let mut input = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    let mut inserted = 0;
    loop {
        let start = input.len();
        input.resize(start + READ_BYTES.max(start), 0);
        let received = line.receive(&mut input[start..], deadline)?;
        input.truncate(start + received);
        let mut taken = 0;
        while let Some((event, len)) = conversation
            .receive(&input[taken..])
            .map_err(Fault::Nonsense)?
        {
            match event {
                Event::SendFrom(offset) => {
                    // Only a call with a file on demand can be asked.
                    if let Some(message) = message {
                        send_rest(line, message, offset, deadline)?;
                    }
                }
                Event::Edit(edit) => {
                    inserted += edit.inserted.len();
                    if inserted > INSERTED_BYTES_MAX {
                        return Err(Fault::Broken("the changes are too large".to_owned()));
                    }
                    changes.push(Change {
                        offset: edit.offset,
                        deleted: edit.deleted,
                        inserted: edit.inserted.to_vec(),
                    });
                }
                Event::Answer(answer) => {
                    let outcome =
                        Outcome::of_answer(&answer, options.on_error, options.profile, deadline)?;
                    return Ok((outcome, changes));
                }
            }
            taken += len;
        }
        input.drain(..taken);
    }
}

/// Sends the file from `offset` on.
fn send_rest(
    line: &mut Line,
    message: &Message,
    offset: u64,
    deadline: &Deadline,
) -> Result<(), Fault> {
    line.hurry();
    let mut out = Vec::with_capacity(DATA_BYTES_MAX + 2 * HEADER_BYTES);
    let mut at = offset;
    while at < message.size {
        // A fast server never lets a write wait.
        deadline.left()?;
        let len = (message.size - at).min(DATA_BYTES_MAX as u64) as usize;
        let piece = message.read(at, len)?;
        if piece.len() < len {
            return Err(Fault::File("the message has become shorter".to_owned()));
        }
        out.clear();
        encode_data(&piece, &mut out).map_err(Fault::Unspeakable)?;
        at += len as u64;
        if at == message.size {
            encode_end(&mut out);
        }
        line.send(&out, None, deadline)?;
    }
    Ok(())
}
